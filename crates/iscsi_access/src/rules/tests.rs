use super::*;

const TOP: &str = "user = web\nsecret = a secret of theirs\ninitiator = iqn.x:a\n";

fn parse(text: &str) -> TargetRules {
    TargetRules::parse(text).unwrap()
}

fn refused(text: &str) -> String {
    TargetRules::parse(text).unwrap_err().to_string()
}

fn user_of(access: &TargetAccess) -> Vec<&str> {
    let users = access.grants.iter().filter_map(|grant| grant.chap.as_ref());
    users.map(|chap| &*chap.user).collect()
}

#[test]
fn sections_replace_what_stands_before_them() {
    let text = format!(
        "# all others\n{TOP}\n  mutual-user=q\nmutual-secret = a secret = of ours \n\
         [discovery]\nuser = d\nsecret = a secret to look\ninitiator = iqn.x:a\n\
         initiator = iqn.x:b\n[export web]\nuser = w\nsecret = a secret to work\n\
         [export web@old]\ninitiator = eui.02004567a425678d\n[export closed]\n"
    );
    let rules = parse(&text);
    let others = rules.of_export("any@state");
    assert_eq!(user_of(others), ["web"]);
    assert_eq!(
        others.mutual.as_ref().unwrap().secret,
        b"a secret = of ours"
    );
    assert!(others.admits("iqn.x:a") && !others.admits("iqn.x:b"));
    let discovery = rules.discovery();
    assert!(discovery.admits("iqn.x:b") && discovery.mutual.is_none());
    // All that know the secret, not only a named initiator.
    let web = rules.of_export("web");
    assert!(web.grants[0].initiators.is_none() && web.mutual.is_none());
    assert_eq!(user_of(web), ["w"]);
    assert_eq!(rules.of_export("web@new"), web);
    let old = rules.of_export("web@old");
    assert!(
        user_of(old).is_empty() && old.admits("eui.02004567a425678d") && !old.admits("iqn.x:a")
    );
    assert_eq!(rules.of_export("closed"), &no_initiator());
    assert_eq!(rules.of_export("webs"), others);
    let exports: Vec<_> = rules.exports().collect();
    assert_eq!(exports, ["closed", "web", "web@old"]);
}

#[test]
fn a_file_allows_only_what_it_says() {
    for text in [
        "",
        "# nothing\n",
        "[export web]\nuser = u\nsecret = a secret of theirs\n",
    ] {
        let rules = parse(text);
        assert_eq!(rules.of_export("other"), &no_initiator());
        assert_eq!(rules.discovery(), &no_initiator());
        assert!(!no_initiator().admits("iqn.x:a") && no_initiator().is_sound());
    }
    let everybody = TargetRules::default();
    assert_eq!(everybody.of_export("any"), &TargetAccess::default());
    assert_eq!(everybody.discovery(), &TargetAccess::default());
}

#[test]
fn initiators_are_named_in_any_case() {
    let rules = parse(&TOP.replace("iqn.x:a", "IQN.x:Ab"));
    assert!(rules.of_export("web").admits("iqn.x:ab"));
    assert!(!rules.of_export("web").admits("iqn.x:a"));
}

#[test]
fn mistakes_are_refused_with_their_line() {
    for (text, why) in [
        ("user web\n", "line 1: this is neither"),
        ("\nusers = web\n", "line 2: unknown key"),
        ("user =\n", "line 1: user has no value"),
        ("user = a\tb\n", "control"),
        ("[export web\n", "line 1: a section ends with ]"),
        ("[volume web]\n", "unknown section"),
        ("[export ]\n", "unknown section"),
        (
            "[discovery]\n[discovery]\n",
            "line 2: [discovery] is there twice",
        ),
        (
            "user = a\nsecret = a secret of a\nuser = b\n",
            "line 3: user and secret belong together",
        ),
        (
            "secret = a secret of a\nsecret = a secret of b\n",
            "line 2: secret is there twice",
        ),
        ("secret = short\n", "fewer than 12 bytes"),
        ("mutual-secret = short\n", "fewer than 12 bytes"),
        ("user = a\n", "line 1: user and secret belong together"),
        (
            "\n[discovery]\nsecret = a secret of theirs\n",
            "line 2: user and secret belong",
        ),
        (
            "mutual-user = q\nmutual-secret = a secret of ours\n",
            "needs a user",
        ),
        ("initiator = host1\n", "begins with iqn."),
        ("initiator = iqn.x:a, iqn.x:b\n", "a line for each"),
    ] {
        let said = refused(text);
        assert!(said.contains(why), "{text:?}: {said}");
    }
    let same = format!(
        "{TOP}[export b]\nuser = u\nsecret = another secret\nmutual-user = q\n\
         mutual-secret = a secret of theirs\n"
    );
    assert!(refused(&same).contains("mutual-secret is also a secret"));
    let long = format!("user = {}\n", "u".repeat(256));
    assert!(refused(&long).contains("more than 255 bytes"));
    assert!(!refused("secret = hush\nsecret = not to be shown\n").contains("hush"));
}

#[test]
fn each_of_several_users_has_a_secret_and_initiators_of_its_own() {
    let a = "user = a\nsecret = a secret of a\ninitiator = iqn.x:a\ninitiator = iqn.x:c\n";
    let b = "user = b\ninitiator = iqn.x:b\nsecret = a secret of b\n";
    let rules = parse(&format!(
        "{a}mutual-user = q\nmutual-secret = a secret of q\n{b}"
    ));
    let access = rules.of_export("web");
    let grants: Vec<_> = access
        .grants
        .iter()
        .map(|grant| {
            let chap = grant.chap.as_ref().unwrap();
            let initiators = grant.initiators.as_ref().unwrap().join(" ");
            (&*chap.user, &*chap.secret, initiators)
        })
        .collect();
    let (of_a, of_b) = (&b"a secret of a"[..], &b"a secret of b"[..]);
    assert_eq!(
        grants,
        [
            ("a", of_a, "iqn.x:a iqn.x:c".to_owned()),
            ("b", of_b, "iqn.x:b".to_owned()),
        ]
    );
    assert_eq!(access.mutual.as_ref().unwrap().user, "q");
    let remote: SocketAddr = "192.0.2.1:3260".parse().unwrap();
    assert!(rules.check(remote).is_ok());
    // One user: wherever its lines stand, as before there could be several.
    let one = parse("initiator = iqn.x:a\nsecret = a secret of a\nuser = a\ninitiator = iqn.x:c\n");
    assert_eq!(one, parse(a));
    // Of one user, two secrets for two initiators; for one initiator, two users.
    parse(&format!("{a}{}", b.replace("user = b", "user = a")));
    parse(&format!("{a}{}", b.replace("iqn.x:b", "iqn.x:a")));
    // Without initiators: on loopback only, for all that know a secret.
    let strip = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("initiator"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let open = parse(&format!("{}{}", strip(a), strip(b)));
    assert!(open.of_export("web").admits("iqn.x:any") && open.check(remote).is_err());
    for (text, why) in [
        (
            format!("initiator = iqn.x:d\n{a}{b}"),
            "line 1: this section has several users",
        ),
        (
            format!("secret = a secret of d\n{a}user = d\n"),
            "which of them is this secret for",
        ),
        (
            format!("{a}{}", strip(b)),
            "line 5: of several users, either all",
        ),
        (
            format!("{}{b}", strip(a)),
            "line 3: of several users, either all",
        ),
        (
            format!("{a}{}", b.replace("a secret of b", "a secret of a")),
            "line 5: the secret of b is also",
        ),
        (
            format!(
                "{a}{}",
                b.replace(
                    "user = b\ninitiator = iqn.x:b",
                    "user = a\ninitiator = IQN.x:C"
                )
            ),
            "line 5: user a is there twice for iqn.x:c",
        ),
        (
            format!("{}{}", strip(a), strip(b).replace("user = b", "user = a")),
            "line 3: user a is there twice for all initiators",
        ),
        (
            format!(
                "{a}{b}[export web]\n{}mutual-user = q\nmutual-secret = a secret of b\n",
                a.replace("secret of a", "secret of d")
            ),
            "mutual-secret is also a secret",
        ),
    ] {
        let said = refused(&text);
        assert!(said.contains(why), "{text:?}: {said}");
    }
}

#[test]
fn addresses_of_other_machines_need_a_proof_and_a_list_everywhere() {
    let local: SocketAddr = "127.0.0.1:3260".parse().unwrap();
    let mapped: SocketAddr = "[::ffff:127.0.0.1]:3260".parse().unwrap();
    let remote: SocketAddr = "192.0.2.1:3260".parse().unwrap();
    let any: SocketAddr = "[::]:3260".parse().unwrap();
    let said = |text: &str| parse(text).check(remote).map_err(|e| e.to_string());
    assert!(TargetRules::default().check(local).is_ok());
    assert!(TargetRules::default().check(mapped).is_ok());
    assert!(TargetRules::default().check(any).is_err());
    assert!(said(TOP).is_ok() && parse(TOP).check(any).is_ok());
    // An export that nobody may use is protected.
    assert!(said(&format!("{TOP}[export web]\n")).is_ok());
    assert!(said("").unwrap_err().contains("[discovery]"));
    let open = format!("{TOP}[export web]\ninitiator = iqn.x:a\n");
    assert!(said(&open).unwrap_err().contains("192.0.2.1:3260"));
    assert!(said(&open).unwrap_err().contains("[export web]"));
    let unlisted = format!("{TOP}[discovery]\nuser = d\nsecret = a secret to look\n");
    assert!(said(&unlisted).unwrap_err().contains("[discovery]"));
    // Only what has a section, and discovery, is served.
    assert!(said(&TOP.replace("user", "[discovery]\nuser")).is_ok());
}
