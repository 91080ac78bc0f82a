//! Canaries of the rule about parts that are not there.

use super::{accepted, file, refused};

#[test]
fn an_empty_default_for_a_part_is_refused_where_bytes_are_stored() {
    let body = |code: &str| format!("//! Stores bytes; nobody calls it.\nfn f() {{ {code} }}\n");
    let store = |code: &str| vec![file("crates/media/src/a.rs", &body(code))];
    let message = "nothing in place of a part that is not there";
    refused(store("b.get(from..f(1)).unwrap_or_default()"), message);
    refused(store("b\n.get_mut(..n)\n.unwrap_or_default()"), message);
    accepted(store("b.get(n).copied().unwrap_or_default()"));
    accepted(store("b.get(n).unwrap_or_default()"));
    accepted(store("b.part(..n)?"));
    let elsewhere = body("b.get(..n).unwrap_or_default()");
    accepted(vec![file("crates/nbd/src/a.rs", &elsewhere)]);
}
