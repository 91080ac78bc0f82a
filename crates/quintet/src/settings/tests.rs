use super::*;

fn settings(pairs: &[(&str, &str)]) -> Result<Settings, SettingError> {
    settings_of(&GlobalArgs::default(), pairs)
}

fn settings_of(args: &GlobalArgs, pairs: &[(&str, &str)]) -> Result<Settings, SettingError> {
    let mut context = CommandContext::detached().unwrap();
    context.environment = Environment::of(pairs);
    Settings::new(args, &context)
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
    let flag = settings_of(&args, &[("QUINTET_REPOSITORY", "/srv/pool")]).unwrap();
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
    for remote in [
        "s3:bucket/x",
        "sftp:user@host:/x",
        "https://x",
        "host:/srv/pool",
        "user@host:pool",
        "ssh://host/pool",
        "smb://nas/share",
        "nfs://nas/share",
        "rest:http://host/",
        "local:",
    ] {
        assert!(
            settings(&[("QUINTET_REPOSITORY", remote)]).is_err(),
            "{remote}"
        );
    }
    assert!(settings(&[("QUINTET_REPOSITORY", "./s3:odd")]).is_ok());
}

#[test]
fn values_that_make_no_sense_are_refused_aloud() {
    let scratch = tempfile::tempdir().unwrap();
    let missing = scratch.path().join("file");
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
        ("QUINTET_REPOSITORY_FILE", missing.to_str().unwrap()),
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
fn the_configuration_file_names_the_pool_last() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("quintet.toml");
    let section = "[pool]\npath = \"/srv/pool\"\npassword-file = \"/p\"\nmemory = \"64M\"\n";
    std::fs::write(&file, section).unwrap();
    let config = ("QUINTET_CONFIG", file.to_str().unwrap());
    let of_file = settings(&[config]).unwrap();
    assert_eq!(of_file.pool().unwrap(), Path::new("/srv/pool"));
    assert!(matches!(&of_file.password, PasswordSource::File(path) if path == Path::new("/p")));
    assert_eq!(of_file.memory_bytes, 64 << 20);
    // Another pool has another password.
    let other = settings(&[config, ("QUINTET_REPOSITORY", "/other")]).unwrap();
    assert_eq!(other.pool().unwrap(), Path::new("/other"));
    assert!(matches!(other.password, PasswordSource::Terminal));
    assert_eq!(other.memory_bytes as u64, MEMORY_BYTES_DEFAULT);
    let given = settings(&[config, ("QUINTET_PASSWORD_FILE", "/q")]).unwrap();
    assert!(matches!(&given.password, PasswordSource::File(path) if path == Path::new("/q")));
    std::fs::write(&file, "[pool]\n").unwrap();
    let why = settings(&[config]).unwrap().pool().unwrap_err().to_string();
    assert!(why.contains("config check"), "{why}");
}
