//! placeholder until the first line is written
