use super::*;

fn snapshot(id: u8, second: i64, host: &str, tags: &[&str]) -> Snapshot {
    Snapshot {
        name: "a/b".to_owned(),
        host: host.to_owned(),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        ..Snapshot::new(
            SnapshotId([id; 16]),
            UnixNanos(second * 1_000_000_000 + 5),
            SnapshotKind::Image,
            ObjectRoot::EMPTY,
        )
    }
}

/// Collects every path and its target.
fn paths(views: &Views, view: usize, above: &str, into: &mut Vec<String>) {
    let mut from = 0;
    while let Some((number, (name, target))) = views.views[view].from(from) {
        assert_eq!(views.views[view].find(name), Some((number, target)));
        from = number + 1;
        let path = format!("{above}/{}", String::from_utf8_lossy(name));
        match target {
            Target::View(number) => paths(views, *number, &path, into),
            Target::Disks(_) => into.push(path),
            Target::Snapshot(shown) => into.push(format!("{path} = {:x}", shown.id.0[0])),
            Target::Link(to) => {
                into.push(format!("{path} -> {}", String::from_utf8_lossy(to)));
            }
        }
    }
}

fn all_paths(views: &Views) -> Vec<String> {
    let mut found = Vec::new();
    paths(views, TOP, "", &mut found);
    found.sort();
    found
}

#[test]
fn snapshots_stand_in_one_place_and_links_lead_there() {
    let one = snapshot(0x11, 0, "web/1", &["a", "b"]);
    let two = snapshot(0x22, 0, "..", &["b"]);
    let mut three = snapshot(0x22, 86_400, "", &[]);
    three.id.0[15] = 0;
    let mut views = Views::new(TimeZone::UTC);
    views.update(&Arc::new(vec![one, two, three]));
    let (t1, t3) = ("1970-01-01T00:00:00+00:00", "1970-01-02T00:00:00+00:00");
    let t2 = format!("{t1}-22222222222222222222222222222222");
    let expected = [
        format!("/hosts/_../{t2} -> ../../snapshots/{t2}"),
        format!("/hosts/_../latest -> ../../snapshots/{t2}"),
        format!("/hosts/_/{t3} -> ../../snapshots/{t3}"),
        format!("/hosts/_/latest -> ../../snapshots/{t3}"),
        format!("/hosts/web_1/{t1} -> ../../snapshots/{t1}"),
        format!("/hosts/web_1/latest -> ../../snapshots/{t1}"),
        format!("/ids/11111111 -> ../snapshots/{t1}"),
        format!("/ids/22222222 -> ../snapshots/{t2}"),
        format!("/ids/22222222222222222222222222222200 -> ../snapshots/{t3}"),
        "/images".to_owned(),
        format!("/snapshots/{t2} = 22"),
        format!("/snapshots/{t1} = 11"),
        format!("/snapshots/{t3} = 22"),
        format!("/snapshots/latest -> {t3}"),
        format!("/tags/a/{t1} -> ../../snapshots/{t1}"),
        format!("/tags/a/latest -> ../../snapshots/{t1}"),
        format!("/tags/b/{t1} -> ../../snapshots/{t1}"),
        format!("/tags/b/{t2} -> ../../snapshots/{t2}"),
        format!("/tags/b/latest -> ../../snapshots/{t2}"),
        "/volumes".to_owned(),
    ];
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(all_paths(&views), expected);
}

/// `latest` prefers snapshots of files, as in every command.
#[test]
fn latest_is_the_newest_of_files() {
    let mut tree = snapshot(0x11, 0, "h", &["t"]);
    tree.kind = SnapshotKind::Tree;
    let image = snapshot(0x22, 86_400, "h", &["u"]);
    let mut views = Views::new(TimeZone::UTC);
    views.update(&Arc::new(vec![tree, image]));
    let paths = all_paths(&views);
    let (t1, t2) = ("1970-01-01T00:00:00+00:00", "1970-01-02T00:00:00+00:00");
    for expected in [
        format!("/snapshots/latest -> {t1}"),
        format!("/hosts/h/latest -> ../../snapshots/{t1}"),
        format!("/tags/t/latest -> ../../snapshots/{t1}"),
        format!("/tags/u/latest -> ../../snapshots/{t2}"),
    ] {
        assert!(paths.contains(&expected), "{expected} is not in {paths:#?}");
    }
}

#[test]
fn what_stays_keeps_its_number_and_what_goes_takes_it_along() {
    let day = |id: u8| snapshot(id, i64::from(id) * 86_400, "h", &["t"]);
    let mut views = Views::new(TimeZone::UTC);
    let number = |views: &Views, name: &str| {
        let found = views.views[SNAPSHOTS].find(name.as_bytes());
        found.map(|(number, _)| number)
    };
    views.update(&Arc::new(vec![day(1), day(2)]));
    let (one, two) = ("1970-01-02T00:00:00+00:00", "1970-01-03T00:00:00+00:00");
    let first = number(&views, one).unwrap();
    let latest = number(&views, "latest").unwrap();
    let all = views.views.len();
    views.update(&Arc::new(vec![day(1), day(2), day(3)]));
    assert_eq!(number(&views, one), Some(first));
    assert!(number(&views, two).is_some());
    assert_ne!(number(&views, "latest"), Some(latest), "it leads elsewhere");
    assert_eq!(views.views.len(), all, "the groups are the same");
    views.update(&Arc::new(vec![day(2)]));
    assert_eq!(number(&views, one), None);
    assert!(views.views[SNAPSHOTS].get(first).is_none());
    views.update(&Arc::new(vec![day(1), day(2)]));
    assert_ne!(number(&views, one), Some(first), "a number is used again");
    views.update(&Arc::default());
    let empty = all_paths(&views);
    assert_eq!(empty, ["/images", "/volumes"]);
}
