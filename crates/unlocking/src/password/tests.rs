use super::*;
use ::terminal::command_context::CommandContext;

fn password(pairs: &[(&str, &str)]) -> Result<PasswordSource, SettingError> {
    let environment = Environment::of(pairs);
    PasswordSource::choose(
        PasswordSources::OPEN,
        PasswordFlags::default(),
        &environment,
    )
}

fn secret(source: &PasswordSource) -> Result<Vec<u8>, PasswordError> {
    match source.read(&CommandContext::detached().unwrap())? {
        SecretKey::Password(ref password) => Ok(password.clone()),
        SecretKey::Recovery(key) => Ok(key.to_vec()),
    }
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
    let flag = PathBuf::from("/flag");
    let flags = PasswordFlags {
        file: Some(&flag),
        ..PasswordFlags::default()
    };
    let environment = Environment::of(&[("QUINTET_PASSWORD", "p")]);
    let chosen = PasswordSource::choose(PasswordSources::OPEN, flags, &environment).unwrap();
    assert_eq!(chosen, PasswordSource::File(flag));
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
    let scratch = tempfile::tempdir().unwrap();
    let missing = scratch.path().join("program");
    for failing in ["false", missing.to_str().unwrap(), "true"] {
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
    assert_eq!(
        RecoveryKey::read(&path, &CommandContext::detached().unwrap()).unwrap(),
        key
    );
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
