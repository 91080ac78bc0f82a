//! The password flags of each pool, as the sources of a password take them. The settings call this.
//!
//! Invariant: a flag is passed on unchanged.

use crate::{PasswordArgs, ReplicaPasswordArgs, ToPasswordArgs};
use unlocking::PasswordFlags;

macro_rules! flags_of {
    ($args:ty, $file:ident, $command:ident, $key_file:ident, $none:ident) => {
        impl<'a> From<&'a $args> for PasswordFlags<'a> {
            fn from(args: &'a $args) -> Self {
                Self {
                    file: args.$file.as_ref(),
                    command: args.$command.as_deref(),
                    key_file: args.$key_file.as_ref(),
                    is_unencrypted: args.$none,
                }
            }
        }
    };
}

flags_of!(
    PasswordArgs,
    password_file,
    password_command,
    key_file,
    insecure_no_password
);
flags_of!(
    ToPasswordArgs,
    to_password_file,
    to_password_command,
    to_key_file,
    to_insecure_no_password
);
flags_of!(
    ReplicaPasswordArgs,
    replica_password_file,
    replica_password_command,
    replica_key_file,
    replica_insecure_no_password
);
