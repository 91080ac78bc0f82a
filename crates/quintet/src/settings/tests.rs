use super::*;
use crate::cli::PasswordArgs;
use server::command_context::CommandContext;
use store::SecretKey;

fn settings(pairs: &[(&str, &str)]) -> Result<Settings, SettingError> {
    Settings::new(&GlobalArgs::default(), &Environment::of(pairs))
}

fn password(pairs: &[(&str, &str)]) -> Result<PasswordSource, SettingError> {
    settings(pairs).map(|s| s.password)
}

fn secret(source: &PasswordSource) -> Result<Vec<u8>, PasswordError> {
    match source.read(&CommandContext::detached().unwrap())? {
        SecretKey::Password(ref password) => Ok(password.clone()),
        SecretKey::Recovery(key) => Ok(key.to_vec()),
    }
}

#[test]
fn where_the_pool_is() {
    let nowhere = settings(&[]).unwrap();
    assert!(nowhere.pool().unwrap_err().to_string().contains("--repo"));
    let named = settings(&[("QUINTET_REPOSITORY", "/srv/pool")]).unwrap();
    assert_eq!(named.pool().unwrap(), Path::new("/srv/pool"));
    let args = GlobalArgs {
        repo: Some("local:here".into()),
        ..GlobalArgs::default()
    };
    let environment = Environment::of(&[("QUINTET_REPOSITORY", "/srv/pool")]);
    let flag = Settings::new(&args, &environment).unwrap();
    assert_eq!(flag.pool().unwrap(), Path::new("here"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "/from/file\nsecond line\n").unwrap();
    let path = file.path().to_str().unwrap();
    let from_file = settings(&[("QUINTET_REPOSITORY_FILE", path)]).unwrap();
    assert_eq!(from_file.pool().unwrap(), Path::new("/from/file"));
    let both = [
        ("QUINTET_REPOSITORY_FILE", path),
        ("QUINTET_REPOSITORY", "/x"),
    ];
    assert!(
        settings(&both)
            .unwrap_err()
            .to_string()
            .contains("unset one of them")
    );
    for remote in ["s3:bucket/x", "sftp:user@host:/x", "https://x", "local:"] {
        assert!(
            settings(&[("QUINTET_REPOSITORY", remote)]).is_err(),
            "{remote}"
        );
    }
    assert!(settings(&[("QUINTET_REPOSITORY", "./s3:odd")]).is_ok());
}

#[test]
fn values_that_make_no_sense_are_refused_aloud() {
    for (name, value) in [
        ("QUINTET_PROGRESS_FPS", "fast"),
        ("QUINTET_PROGRESS_FPS", "0"),
        ("QUINTET_PROGRESS_FPS", "61"),
        ("QUINTET_PROGRESS_FPS", "NaN"),
        ("QUINTET_COMPRESSION", "rar"),
        ("QUINTET_COMPRESSION", "zstd:99"),
        ("QUINTET_MEMORY", "lots"),
        ("QUINTET_MEMORY", "1M"),
        ("QUINTET_PASSPHRASE_FD", "x"),
        ("QUINTET_PASSWORD_COMMAND", "echo 'x"),
        ("QUINTET_REPOSITORY_FILE", "/nonexistent/file"),
    ] {
        let error = settings(&[(name, value)]).unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn defaults_and_values() {
    let plain = settings(&[("QUINTET_COMPRESSION", "")]).unwrap();
    assert_eq!(plain.memory_bytes as u64, MEMORY_BYTES_DEFAULT);
    assert_eq!(plain.compression, COMPRESSION_DEFAULT);
    let set = settings(&[
        ("QUINTET_MEMORY", "1G"),
        ("QUINTET_COMPRESSION", "zstd:-3"),
        ("QUINTET_PROGRESS_FPS", "0.5"),
    ])
    .unwrap();
    assert_eq!(set.memory_bytes, 1 << 30);
    assert_eq!(set.compression, Compression::Zstd(-3));
    assert_eq!(set.progress_fps, Some(0.5));
    assert_eq!(parse_compression("none"), Ok(Compression::None));
    assert_eq!(parse_compression("max"), Ok(Compression::Zstd(15)));
    assert_eq!(parse_compression("zstd,3"), Ok(Compression::Zstd(3)));
}

#[test]
fn one_source_of_the_password() {
    assert_eq!(password(&[]).unwrap(), PasswordSource::Terminal);
    let given = password(&[("QUINTET_PASSWORD", "p w")]).unwrap();
    assert_eq!(secret(&given).unwrap(), b"p w");
    assert!(!format!("{given:?}").contains("p w"));
    let two = password(&[("QUINTET_PASSWORD", "p"), ("QUINTET_PASSWORD_FILE", "/f")]);
    let error = two.unwrap_err().to_string();
    assert!(error.contains("QUINTET_PASSWORD is set too"), "{error}");
    let args = PasswordArgs {
        password_file: Some("/flag".into()),
        ..PasswordArgs::default()
    };
    let environment = Environment::of(&[("QUINTET_PASSWORD", "p")]);
    let chosen =
        PasswordSource::choose(PasswordSources::OPEN, (&args).into(), &environment).unwrap();
    assert_eq!(chosen, PasswordSource::File("/flag".into()));
    let descriptor = password(&[("QUINTET_PASSPHRASE_FD", "7")]).unwrap();
    assert_eq!(descriptor, PasswordSource::Descriptor(7));
}

#[test]
fn passwords_from_files_and_programs() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = PasswordSource::File(file.path().to_owned());
    assert!(secret(&source).is_err());
    std::fs::write(file.path(), b"p\xff w\r\nnot this\n").unwrap();
    assert_eq!(secret(&source).unwrap(), b"p\xff w");
    let command = |text| password(&[("QUINTET_PASSWORD_COMMAND", text)]).unwrap();
    assert_eq!(
        secret(&command("printf '%s\\n' 'a b' rest")).unwrap(),
        b"a b"
    );
    assert_eq!(
        secret(&command("echo \"a \\\" b\" c\\ d")).unwrap(),
        b"a \" b c d"
    );
    for failing in ["false", "/nonexistent/program", "true"] {
        assert!(secret(&command(failing)).is_err(), "{failing}");
    }
}

#[test]
fn recovery_keys() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let key = RecoveryKey(std::array::from_fn(|i| i as u8));
    key.write(&path).unwrap();
    assert!(key.write(&path).is_err(), "an existing file is kept");
    assert_eq!(RecoveryKey::read(&path).unwrap(), key);
    let source = PasswordSource::RecoveryKeyFile(path);
    assert_eq!(secret(&source).unwrap(), key.0);
    let text = key.text();
    assert_eq!(text.len(), "quintet-recovery-1 ".len() + 9 * 8 + 8);
    let sloppy = text.to_uppercase().replace('-', " ").replacen(' ', "-", 2);
    assert_eq!(RecoveryKey::parse(&sloppy), Ok(key));
    for (bad, why) in [
        (text.replacen("00010203", "00010204", 1), "mistyped"),
        (text.replacen("00010203", "0001020", 1), "72 digits"),
        (
            text.replacen("00010203", "0001020g", 1),
            "not a hexadecimal",
        ),
        ("hello".to_owned(), "not a recovery key"),
    ] {
        assert!(RecoveryKey::parse(&bad).unwrap_err().contains(why), "{bad}");
    }
}
