//! Classes of I/O (Differentiated Storage Services, SOSP'11): what is known of a request, and how a
//! cache treats each class. Pure: no I/O, no clock.
//!
//! Front ends and `layout` say what a request is for ([`Facts`]); a policy maps that to a class
//! ([`units::IoClass`]) and gives each class its [`ClassSettings`]; caches read only these.
#![forbid(unsafe_code)]

mod facts;
pub mod layout;
mod settings;

pub use facts::{Contents, Facts};
pub use settings::{ClassSettings, Priority, Share};
