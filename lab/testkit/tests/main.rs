//! The integration tests of this crate in one binary, which is linked once.

mod damage;
mod damage_hints;
mod forged;
mod golden;
mod lost_and_foreign;
mod quarantine;
