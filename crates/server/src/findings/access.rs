//! Finds a file of iSCSI access that is not in force as it is now. [`super::SOURCES`] lists it.
//!
//! Invariant: while the file is refused, there is a finding.

use super::{Finding, FindingsInput, Severity};

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let refused = look.server.as_ref().and_then(|s| s.iscsi_access.clone());
    let finding = |why| Finding {
        severity: Severity::Attention,
        kind: "iscsi_access_refused",
        object: String::new(),
        text: format!(
            "the file of --iscsi-access is not in force as it is now ({why}): the rules from \
             before still hold"
        ),
        action: "correct the file; the server reads it again by itself".to_owned(),
    };
    refused.map(finding).into_iter().collect()
}
