use super::super::path_resolver::{Access, PathResolver};
use super::*;

struct Place {
    top: tempfile::TempDir,
    path_resolver: PathResolver,
}

impl Place {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let path_resolver = PathResolver::new(top.path().to_owned());
        Self { top, path_resolver }
    }

    fn take(&self, own: &Owner) -> Result<OwnerLock, MediaError> {
        let file = self
            .path_resolver
            .file("lock", "lock", Access::Write, OFlags::CREATE)?;
        let named = self.path_resolver.named("lock", "lock")?;
        take_as(own, &file, &named, "POOL/lock")
    }

    fn leave(&self, text: &str) {
        std::fs::write(self.top.path().join("lock.owner"), text).unwrap();
    }

    fn is_left(&self) -> bool {
        self.top.path().join("lock.owner").exists()
    }
}

#[test]
fn one_owner_at_a_time() {
    let (place, own) = (Place::new(), Owner::this().unwrap());
    let lock = place.take(&own).unwrap();
    assert!(place.is_left());
    let refused = place.take(&own).err().unwrap();
    assert_eq!(refused.kind, MediaErrorKind::Locked);
    drop(lock);
    assert!(!place.is_left());
    place.take(&own).unwrap();
}

#[test]
fn only_the_file_of_a_process_that_has_ended_is_taken_over() {
    let (place, own) = (Place::new(), Owner::this().unwrap());
    let lives = own.clone();
    let other_start = Owner {
        started: own.started + 1,
        ..own.clone()
    };
    let before_the_boot = Owner {
        boot: "another".to_owned(),
        ..own.clone()
    };
    let elsewhere = |from: &Owner| Owner {
        machine: "another".to_owned(),
        ..from.clone()
    };
    let in_a_container = Owner {
        namespace: "another".to_owned(),
        ..other_start.clone()
    };
    for ended in [&other_start, &before_the_boot] {
        place.leave(&ended.text());
        drop(place.take(&own).unwrap());
    }
    let cut = own.text();
    let cut = cut.get(..cut.len() - 1).unwrap();
    for text in [
        &lives.text(),
        &elsewhere(&other_start).text(),
        &elsewhere(&before_the_boot).text(),
        &in_a_container.text(),
        "",
        cut,
        "\n\n\n\n1\n1\n\n",
    ] {
        place.leave(text);
        let refused = place.take(&own).err().unwrap();
        assert_eq!(refused.kind, MediaErrorKind::Locked, "{text}");
        let why = refused.to_string();
        assert!(why.contains("remove POOL/lock.owner"), "{why}");
        assert!(place.is_left());
    }
}

#[test]
fn what_is_written_is_read() {
    let own = Owner::this().unwrap();
    assert_eq!(Owner::parse(&own.text()), Some(own));
}
