//! The fingerprint index (written by another hand at this moment).
