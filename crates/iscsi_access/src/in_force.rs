//! The rules of iSCSI access that are in force, and the file that they come from. A thread of the
//! server compares the file with them; the targets ask them.
//!
//! Invariant: rules that cannot be read, that have a mistake, or that leave an address open to
//! other machines are never in force. While the file has such rules, those from before hold, and a
//! finding says so.

use crate::{AccessFile, TargetRules};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

/// The rules in force. Cheap to read.
#[derive(Default)]
pub struct RulesInForce(Mutex<Arc<TargetRules>>);

impl RulesInForce {
    /// Puts rules in force that the caller has checked.
    pub fn new(rules: TargetRules) -> Self {
        Self(Mutex::new(Arc::new(rules)))
    }

    /// Returns the rules of now.
    pub fn now(&self) -> Arc<TargetRules> {
        Arc::clone(&self.0.lock())
    }

    fn set(&self, rules: TargetRules) {
        *self.0.lock() = Arc::new(rules);
    }
}

/// Compares the file with the rules in force, again and again.
pub struct AccessReader {
    file: AccessFile,
    /// The text at the last look, or why it could not be read.
    last: Option<Result<String, String>>,
    is_refused: bool,
}

/// Result of a look at the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The file is as it was.
    Nothing,
    /// Other rules, which are in force now.
    Rules,
    /// The file was refused before, and has the rules in force again.
    InOrder,
    /// The file is refused, and the rules from before hold.
    Refused(String),
}

impl AccessReader {
    /// Takes the file that the rules in force come from.
    pub fn new(file: AccessFile) -> Self {
        Self {
            file,
            last: None,
            is_refused: false,
        }
    }

    /// Reads the file. If it has other rules, they are in force on return, unless they leave one of
    /// `addresses` open.
    pub fn look(&mut self, rules: &RulesInForce, addresses: &[SocketAddr]) -> Found {
        self.take(self.file.text(), rules, addresses)
    }

    fn take(
        &mut self,
        text: Result<String, String>,
        rules: &RulesInForce,
        addresses: &[SocketAddr],
    ) -> Found {
        if self.last.as_ref() == Some(&text) {
            return Found::Nothing;
        }
        let parsed = text.clone().and_then(|text| {
            let parsed = self.file.parse(&text)?;
            for address in addresses {
                parsed.check(*address).map_err(|e| e.to_string())?;
            }
            Ok(parsed)
        });
        self.last = Some(text);
        let was_refused = std::mem::replace(&mut self.is_refused, parsed.is_err());
        match parsed {
            Err(why) => Found::Refused(why),
            Ok(parsed) => {
                let are_others = *rules.now() != parsed;
                if are_others {
                    rules.set(parsed);
                }
                match (are_others, was_refused) {
                    (true, _) => Found::Rules,
                    (false, true) => Found::InOrder,
                    (false, false) => Found::Nothing,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use terminal::environment::Environment;

    const ONE: &str = "user = a\nsecret = a secret of a\ninitiator = iqn.x:a\n";

    #[test]
    fn a_refused_file_changes_nothing_and_a_corrected_one_is_in_force_again() {
        let file = AccessFile::new(Path::new("file"), &Environment::default());
        let mut reader = AccessReader::new(file);
        let rules = RulesInForce::new(TargetRules::parse(ONE).unwrap());
        let local: SocketAddr = "127.0.0.1:3260".parse().unwrap();
        let remote: SocketAddr = "192.0.2.1:3260".parse().unwrap();
        let mut look = |is: Result<&str, &str>| {
            let text = is.map(str::to_owned).map_err(str::to_owned);
            let found = reader.take(text, &rules, &[local, remote]);
            let admits = rules.now().of_export("web").admits("iqn.x:a");
            (found, admits)
        };
        assert_eq!(look(Ok(ONE)), (Found::Nothing, true));
        let commented = format!("# a comment\n{ONE}");
        assert_eq!(look(Ok(&commented)), (Found::Nothing, true));
        for (bad, why) in [
            (
                Ok("user = a\n"),
                "file, line 1: user and secret belong together",
            ),
            (
                Ok("initiator = iqn.x:b\n"),
                "cannot serve iSCSI on 192.0.2.1:3260",
            ),
            (Ok(""), "cannot serve iSCSI on 192.0.2.1:3260"),
            (Err("file: no such file"), "file: no such file"),
        ] {
            let (found, admits) = look(bad);
            let Found::Refused(said) = found else {
                panic!("{bad:?}: {found:?}");
            };
            assert!(said.starts_with(why) && admits, "{said}");
            assert_eq!(look(bad).0, Found::Nothing, "said once");
        }
        assert_eq!(look(Ok(ONE)), (Found::InOrder, true));
        let other = ONE.replace("iqn.x:a", "iqn.x:b");
        assert_eq!(look(Ok(&other)), (Found::Rules, false));
        assert_eq!(look(Ok(&other)), (Found::Nothing, false));
    }
}
