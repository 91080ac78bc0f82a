//! Maps errors to exit codes, in one table. `commands` calls this when a command has failed.
//!
//! Invariant: every error of the store, the archive and the server has its exit code here. An
//! unknown error is a general failure.

use archive::ArchiveError;
use archive::filesystem::PathError;
use media::MediaErrorKind;
use server::control::AskError;
use server::metrics::EndpointError;
use server::mount::MountingError;
use server::sockets::SocketError;
use server::state::TaskError;
use server::systemd::ServiceError;
use server::threads::SettleError;
use std::io;
use std::path::Path;
use store::{StoreError, StoreErrorKind};
use terminal::command_context::WaitError;
use terminal::environment::SettingError;
use terminal::error::with_causes;
use terminal::exit::Exit;
use terminal::interrupt::Interrupted;
use terminal::outside_program::ProgramFailed;
use unlocking::PasswordError;

/// Returns the exit code for an error that ended a command.
pub(super) fn exit_of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(known).unwrap_or(Exit::Failed)
}

/// Returns the message for an error that ended a command: each cause follows its effect, once.
pub(super) fn text(error: &anyhow::Error) -> String {
    with_remedy(with_causes(error.as_ref()), machine::process::open_files())
}

/// Adds what to do about a limit of the system. `open_files`: how many files the process may have
/// open.
pub(super) fn with_remedy(text: String, open_files: Option<u64>) -> String {
    const OUT_OF_FILES: &str = "too many open files";
    if !text.ends_with(OUT_OF_FILES) {
        return text;
    }
    let may = match open_files {
        Some(number) => format!("this process may open {number}"),
        None => "the whole system has no more".to_owned(),
    };
    let what = match text.as_str() {
        OUT_OF_FILES => "cannot open another file: ",
        _ => "",
    };
    format!(
        "{what}{text}; {may}: raise the limit (ulimit -n, or LimitNOFILE= in the unit), or end other \
         programs"
    )
}

/// Returns what the program wrote whose failure ended a command.
pub(super) fn helper_output(error: &anyhow::Error) -> Option<&str> {
    let mut causes = error.chain();
    let failed = causes.find_map(|cause| cause.downcast_ref::<ProgramFailed>())?;
    Some(&failed.output)
}

/// Names the pool in an error of opening it, unless the error names it.
pub(super) fn of_pool(error: anyhow::Error, path: &Path) -> anyhow::Error {
    let place = path.display().to_string();
    match error.downcast_ref::<StoreError>() {
        Some(e) if e.kind != StoreErrorKind::Interrupted && !text(&error).contains(&place) => {
            error.context(format!("cannot open the pool {place}"))
        }
        _ => error,
    }
}

/// Names the place in an error of creating a pool there.
pub(super) fn of_new_pool(error: StoreError, path: &Path) -> anyhow::Error {
    let place = path.display();
    anyhow::Error::from(error).context(format!("cannot create a pool in {place}"))
}

/// Returns true if the command ended because the pool's disk or a quota is full.
pub(super) fn is_full(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_store = cause.downcast_ref::<StoreError>();
        let of_run = match cause.downcast_ref::<ArchiveError>() {
            Some(ArchiveError::Pool(e)) => Some(e),
            _ => None,
        };
        let of_task = match cause.downcast_ref::<TaskError>() {
            Some(TaskError::Pool(e)) => Some(e),
            _ => None,
        };
        let known = of_store.or(of_run).or(of_task);
        known.is_some_and(StoreError::is_full)
    })
}

fn known(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(e) = cause.downcast_ref::<StoreError>() {
        return Some(of_store(e));
    }
    let is_stop = cause.is::<Interrupted>()
        || matches!(cause.downcast_ref(), Some(PasswordError::Interrupted))
        || cause.downcast_ref().is_some_and(SettingError::is_stop);
    if is_stop {
        return Some(Exit::Interrupted);
    }
    if let Some(e) = cause.downcast_ref::<io::Error>() {
        return of_io(e);
    }
    if let Some(e) = cause.downcast_ref::<PathError>() {
        return of_io(&e.source);
    }
    if let Some(e) = of_server(cause) {
        return of_io(e);
    }
    if let Some(e) = cause.downcast_ref::<TaskError>() {
        return of_task(e);
    }
    if let Some(SettleError::Flush(e)) = cause.downcast_ref() {
        return Some(of_store(e));
    }
    of_run(cause.downcast_ref::<ArchiveError>()?)
}

/// Returns the system error inside a server error. The error chain skips it, because both have the
/// same message.
fn of_server<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a io::Error> {
    if let Some(AskError::Io(e)) = cause.downcast_ref() {
        return Some(e);
    }
    if let Some(WaitError::Stopped(e)) = cause.downcast_ref() {
        return Some(e);
    }
    if let Some(EndpointError::Io(e)) = cause.downcast_ref() {
        return Some(e);
    }
    if let Some(MountingError::Io(e)) = cause.downcast_ref() {
        return Some(e);
    }
    let of_service = match cause.downcast_ref() {
        Some(SocketError::Io(e)) => return Some(e),
        Some(SocketError::Service(e)) => Some(e),
        _ => cause.downcast_ref(),
    };
    match of_service {
        Some(ServiceError::Io(e)) => Some(e),
        _ => None,
    }
}

fn of_task(e: &TaskError) -> Option<Exit> {
    match e {
        TaskError::Pool(e) => Some(of_store(e)),
        TaskError::Interrupted(_) => Some(Exit::Interrupted),
        TaskError::Collecting
        | TaskError::Running { .. }
        | TaskError::Ending
        | TaskError::Sessions(_) => None,
    }
}

fn of_run(e: &ArchiveError) -> Option<Exit> {
    match e {
        ArchiveError::Pool(e) => Some(of_store(e)),
        ArchiveError::Target(e) => of_io(&e.source),
        // A broken pipe of an input is not the end of this program's output.
        ArchiveError::Source(e) => {
            let stopped = of_io(&e.source).filter(|exit| *exit == Exit::Interrupted);
            Some(stopped.unwrap_or(Exit::Failed))
        }
    }
}

fn of_io(e: &io::Error) -> Option<Exit> {
    if e.get_ref().is_some_and(|inner| inner.is::<Interrupted>()) {
        return Some(Exit::Interrupted);
    }
    (e.kind() == io::ErrorKind::BrokenPipe).then_some(Exit::OutputClosed)
}

fn of_store(e: &StoreError) -> Exit {
    match e.kind {
        StoreErrorKind::NoPool => Exit::NoPool,
        StoreErrorKind::Locked => Exit::Locked,
        StoreErrorKind::WrongKey => Exit::WrongKey,
        StoreErrorKind::Corruption => Exit::Damaged,
        StoreErrorKind::Interrupted => Exit::Interrupted,
        StoreErrorKind::PoolExists
        | StoreErrorKind::Unsupported
        | StoreErrorKind::NotFound
        | StoreErrorKind::JournalFull
        | StoreErrorKind::Exists
        | StoreErrorKind::Invalid => Exit::Failed,
        StoreErrorKind::Media(kind) => match kind {
            MediaErrorKind::Locked => Exit::Locked,
            MediaErrorKind::NotFound
            | MediaErrorKind::Exists
            | MediaErrorKind::NoSpace
            | MediaErrorKind::ReadOnly
            | MediaErrorKind::Io
            | MediaErrorKind::Poisoned => Exit::Failed,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::image::UnfinishedFile;
    use media::MediaError;

    #[test]
    fn causes_decide() {
        let store = |kind| anyhow::Error::from(StoreError::new(kind, "x"));
        let disconnected = || io::Error::from(io::ErrorKind::BrokenPipe);
        for (error, exit) in [
            (store(StoreErrorKind::NoPool), Exit::NoPool),
            (store(StoreErrorKind::Locked), Exit::Locked),
            (
                store(StoreErrorKind::Media(MediaErrorKind::Locked)),
                Exit::Locked,
            ),
            (store(StoreErrorKind::WrongKey), Exit::WrongKey),
            (store(StoreErrorKind::Corruption), Exit::Damaged),
            (store(StoreErrorKind::Invalid), Exit::Failed),
            (store(StoreErrorKind::Interrupted), Exit::Interrupted),
            (Interrupted.into(), Exit::Interrupted),
            (AskError::Io(disconnected()).into(), Exit::OutputClosed),
            (AskError::Send(disconnected()).into(), Exit::OutputClosed),
            (ServiceError::Io(disconnected()).into(), Exit::OutputClosed),
            (EndpointError::Io(disconnected()).into(), Exit::OutputClosed),
            (MountingError::Io(disconnected()).into(), Exit::OutputClosed),
            (SocketError::Io(disconnected()).into(), Exit::OutputClosed),
            (
                SocketError::Service(ServiceError::Io(disconnected())).into(),
                Exit::OutputClosed,
            ),
            (
                SettleError::Flush(StoreError::new(StoreErrorKind::Corruption, "x")).into(),
                Exit::Damaged,
            ),
            (
                SettleError::Journal(StoreError::new(StoreErrorKind::Corruption, "x")).into(),
                Exit::Damaged,
            ),
            (TaskError::from(Interrupted).into(), Exit::Interrupted),
            (TaskError::Ending.into(), Exit::Failed),
            (
                TaskError::from(StoreError::new(StoreErrorKind::WrongKey, "x")).into(),
                Exit::WrongKey,
            ),
            (
                WaitError::Stopped(io::Error::other(Interrupted)).into(),
                Exit::Interrupted,
            ),
            (PasswordError::Interrupted.into(), Exit::Interrupted),
            (anyhow::anyhow!("words"), Exit::Failed),
            (disconnected().into(), Exit::OutputClosed),
            (
                ArchiveError::Source(PathError::new("read", "x", io::Error::other(Interrupted)))
                    .into(),
                Exit::Interrupted,
            ),
            (
                ArchiveError::Source(PathError::new("read", "x", disconnected())).into(),
                Exit::Failed,
            ),
            (
                ArchiveError::Target(PathError::new("write", "x", disconnected())).into(),
                Exit::OutputClosed,
            ),
            (
                PathError::new("write", "x", disconnected()).into(),
                Exit::OutputClosed,
            ),
            (
                ArchiveError::Pool(StoreError::new(StoreErrorKind::WrongKey, "x")).into(),
                Exit::WrongKey,
            ),
        ] {
            assert_eq!(exit_of(&error), exit, "{error}");
            assert_eq!(exit_of(&error.context("more")), exit);
        }
    }

    /// Formats an error as `commands::run` does.
    fn words(error: impl Into<anyhow::Error>) -> String {
        text(&error.into().context("more"))
    }

    #[test]
    fn a_limit_of_open_files_is_said_with_its_remedy() {
        let said = with_remedy("cannot list /x: too many open files".to_owned(), Some(9));
        let expected =
            "cannot list /x: too many open files; this process may open 9: raise the limit";
        assert!(said.starts_with(expected), "{said}");
        let said = with_remedy("too many open files".to_owned(), None);
        assert!(
            said.starts_with("cannot open another file: too many"),
            "{said}"
        );
        assert_eq!(with_remedy("x".to_owned(), None), "x");
    }

    #[test]
    fn runs_say_each_cause_once() {
        let path = || PathError::new("read", "/x", io::Error::other("why"));
        let full = || StoreError::from(MediaError::plain(MediaErrorKind::NoSpace, "put", "c1"));
        let said = "more: cannot read /x: why";
        assert_eq!(words(ArchiveError::Source(path())), said);
        assert_eq!(words(ArchiveError::Target(path())), said);
        let said = full().to_string();
        assert_eq!(words(ArchiveError::Pool(full())), format!("more: {said}"));
    }

    #[test]
    fn errors_of_opening_name_the_pool_once() {
        let named = |kind, message: &str| {
            let error = StoreError::new(kind, message).into();
            let error = of_pool(error, Path::new("/srv/pool"));
            (exit_of(&error), text(&error))
        };
        let wrong = "cannot open the pool /srv/pool: wrong password or key";
        assert_eq!(
            named(StoreErrorKind::WrongKey, ""),
            (Exit::WrongKey, wrong.to_owned())
        );
        let said = "cannot read /srv/pool/config: permission denied";
        assert_eq!(named(StoreErrorKind::Invalid, said).1, said);
        assert_eq!(named(StoreErrorKind::Interrupted, "").1, "interrupted");
    }

    #[test]
    fn a_full_disk_is_known_through_what_a_run_says() {
        let full = || StoreError::from(MediaError::plain(MediaErrorKind::NoSpace, "put", "c1"));
        assert!(is_full(&anyhow::Error::from(full()).context("more")));
        let wrapped = anyhow::Error::from(ArchiveError::Pool(full()));
        assert!(is_full(&wrapped.context("more")));
        let other = PathError::new("write", "/x", io::Error::from(io::ErrorKind::StorageFull));
        assert!(!is_full(&ArchiveError::Source(other).into()));
    }

    #[test]
    fn why_a_file_could_not_be_begun() {
        let refused = |path: &str, replace| {
            let created = UnfinishedFile::create(path.as_ref(), replace);
            let error = anyhow::Error::from(created.err().unwrap());
            assert_eq!(exit_of(&error), Exit::Failed);
            words(error)
        };
        assert_eq!(
            refused("/dev/null", true),
            "more: /dev/null is not a regular file, and a failure would leave it half written; \
             write to a regular file and copy that, or serve the image over NBD and copy from there"
        );
        assert_eq!(
            refused("/proc/self/stat", false),
            "more: /proc/self/stat exists; remove it or choose another name"
        );
        let scratch = tempfile::tempdir().unwrap();
        let missing = scratch.path().join("missing/x");
        let missing = missing.to_str().unwrap();
        assert_eq!(
            refused(missing, false),
            format!("more: cannot create {missing}: no such file or directory")
        );
    }
}
