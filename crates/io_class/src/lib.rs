//! Classes of I/O (Differentiated Storage Services, SOSP'11): what is known of a request, and how a
//! cache treats each class. Pure: no I/O, no clock.
//!
//! Front ends and `disk_layout` say what a request is for ([`Facts`]); a [`Policy`] maps that to a
//! class ([`units::IoClass`]) and gives each class its [`ClassSettings`]; caches read only these.
//! [`Eviction`] admits and evicts by them, [`destage`] orders the writing of dirty data.
#![forbid(unsafe_code)]

pub mod classes;
mod condition;
mod csv;
pub mod destage;
mod error;
mod eviction;
mod explain;
mod facts;
mod policy;
mod rule;
mod settings;
pub mod shipped;

pub use classes::CLASSES;
pub use error::{Column, PolicyError, Problem};
pub use eviction::{Admission, Eviction, Mode, Refusal, SetUp, Tally};
pub use explain::{Answer, ConditionVerdict, Explanation, Outcome, RuleVerdict};
pub use facts::{Contents, Facts, Pattern};
pub use policy::Policy;
pub use settings::{ClassSettings, Priority, Share};
