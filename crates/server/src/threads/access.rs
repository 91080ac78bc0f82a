//! The thread that reads the rules of iSCSI access again when their file has changed. `serve`
//! starts it if there is such a file.
//!
//! The file is short, so it is read whole each time: every way of changing it is noticed, also that
//! it was exchanged, or that others may read it now.
//!
//! Invariant: when new rules are in force, the sessions that they do not allow are ended.

use super::background::Background;
use crate::program::Program;
use crate::state::ServerState;
use iscsi_access::{AccessFile, AccessReader, Found, RulesInForce, TargetRules};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use units::printable::printable;

/// Time between two looks.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Looks after the rules. `noted` gets new ones, once they are in force.
pub fn start(
    server: &Arc<ServerState>,
    rules: &Arc<RulesInForce>,
    file: AccessFile,
    program: &Arc<dyn Program>,
    noted: impl Fn(&TargetRules) + Send + 'static,
) -> io::Result<Background> {
    let (server, rules) = (Arc::clone(server), Arc::clone(rules));
    let program = Arc::clone(program);
    let mut reader = AccessReader::new(file);
    let mut step = move || {
        let addresses = server.clients.iscsi_addresses();
        let found = reader.look(&rules, &addresses);
        let refused = &server.failures.iscsi_access;
        match &found {
            Found::Nothing => {}
            Found::Refused(why) => refused.note(why.clone()),
            Found::Rules | Found::InOrder => refused.clear(),
        }
        match found {
            Found::Nothing => {}
            Found::InOrder => program.note(format_args!(
                "the file of --iscsi-access is in order again; its rules are those in force"
            )),
            Found::Refused(why) => program.warn(format_args!(
                "the file of --iscsi-access has changed and is refused: {why}. The rules from \
                 before still hold, until it is corrected"
            )),
            Found::Rules => {
                program.note(format_args!(
                    "the file of --iscsi-access has changed; its rules are in force"
                ));
                noted(&rules.now());
                for ended in server.clients.end_unadmitted() {
                    let target = ended.target.as_deref().unwrap_or("none (discovery)");
                    program.note(format_args!(
                        "iSCSI session ended: initiator {} may no longer use target {target} as it \
                         logged in",
                        printable(ended.initiator.as_bytes())
                    ));
                }
            }
        }
    };
    // It may have changed since the start read it.
    step();
    Background::periodic("iscsi-access", LOOK_PERIOD, step)
}
