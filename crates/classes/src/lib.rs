//! Classes of I/O (Differentiated Storage Services, SOSP'11): which class a request of a served
//! volume has, without help of the guest, and how a cache treats each class.
//!
//! ```text
//! front end -> Classified -- request with its class --> volume -> caches
//!                 |  ^ contents of the block
//!                 v  |
//!      what was written -> Notes -> disk_layout <- reads, in the background -- volume
//! ```
//!
//! A [`Policy`] maps what is known of a request ([`Facts`]) to a class ([`units::IoClass`]) and
//! gives each class its [`ClassSettings`]. The server wraps what it serves in [`Classified`]; its
//! thread calls [`Classifiers::step`]. [`ClassOccupancy`] decides for caches which class gives up
//! space.
//! Invariant: a class is a hint. No request waits for a classification, fails by one, or changes
//! what is read and stored. Without a policy, a request costs one load more.
#![forbid(unsafe_code)]

mod advice;
mod class_set;
mod classified;
mod classifiers;
mod condition;
mod counts;
mod csv;
mod error;
mod evidence;
mod explain;
mod facts;
mod notes;
mod occupancy;
mod policy;
mod rule;
mod served;
mod settings;
pub mod shipped;
mod tuning;

pub use advice::{Advice, Bounds, ClassAdvice, GAIN_MIN, SAMPLED_MIN, TooLittle, advise};
pub use class_set::ClassSet;
pub use classified::Classified;
pub use classifiers::{Classifiers, FileRead, LayoutStatus, Stepped};
pub use counts::ClassCounts;
pub use disk_layout::Counters;
pub use error::{Column, PolicyError, Problem};
pub use evidence::{CURVE_BINS, ClassEvidence, Curve, Evidence};
pub use explain::{Answer, ConditionVerdict, Explanation, RuleOutcome, RuleVerdict};
pub use facts::{Contents, Facts, Pattern};
pub use occupancy::{ClassOccupancy, Need, known};
pub use policy::Policy;
pub use settings::{Admission, CLASSES, ClassSettings, Priority, Share};
pub use tuning::{Tuned, Tuner, Tuning};
