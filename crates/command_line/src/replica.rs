//! Arguments of the replica, from which lost data may be read: part of `scrub`, `repair` and
//! `serve`.
//!
//! Invariant: see [`super`].

use clap::Args;
use std::path::PathBuf;

/// Another pool that has copies.
#[derive(Args, Clone, Debug, Default)]
pub struct ReplicaArgs {
    /// Directory of a pool that `copy` filled from this one. Lost data is stored again from it
    #[arg(long, value_name = "POOL")]
    pub replica: Option<PathBuf>,
    /// Source of its password.
    #[command(flatten)]
    pub password: ReplicaPasswordArgs,
}

/// Source of the replica's password.
#[derive(Args, Clone, Debug, Default)]
pub struct ReplicaPasswordArgs {
    /// File whose first line is the password of the replica
    #[arg(long, value_name = "FILE", requires = "replica")]
    pub replica_password_file: Option<PathBuf>,
    /// Program whose first line of output is that password
    #[arg(long, value_name = "COMMAND", requires = "replica")]
    pub replica_password_command: Option<String>,
    /// File with a recovery key of the replica
    #[arg(long, value_name = "FILE", requires = "replica")]
    pub replica_key_file: Option<PathBuf>,
    /// Confirm that the replica is not encrypted. Without this option an unencrypted replica is
    /// refused if you give a password, or if it was encrypted before
    #[arg(long, requires = "replica", hide_short_help = true, conflicts_with_all = ["replica_password_file", "replica_password_command", "replica_key_file"])]
    pub replica_insecure_no_password: bool,
}
