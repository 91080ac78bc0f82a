//! Collects the licences of the libraries that the program contains.
//!
//! Invariant: the list comes from cargo. A library without a text of its licence is listed with the
//! name of the licence.

use super::tools::output;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the text: each licence once, after the libraries that it is of.
pub fn of_libraries(root: &Path) -> io::Result<String> {
    let tree = [
        "tree",
        "--locked",
        "--offline",
        "--package=quintet",
        "--edges=normal",
    ];
    let format = ["--prefix=none", "--no-dedupe", "--format={p}|{l}"];
    let listed = output(root, "cargo", &[&tree[..], &format].concat())?;
    let sources = sources();
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // Crates of the workspace show their directory.
    for line in listed.lines().filter(|line| !line.contains("(/")) {
        let (package, licence) = line.split_once('|').unwrap_or((line, ""));
        let mut words = package.split(' ');
        let (name, version) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let directory = format!("{name}-{}", version.trim_start_matches('v'));
        for text in texts(&sources, &directory) {
            let user = format!("{directory} ({licence})");
            users.entry(text).or_default().insert(user);
        }
        let all = users.entry(String::new()).or_default();
        all.insert(format!("{directory}: {licence}"));
    }
    let mut all = "Libraries in the program, with their licences. Of the C library (glibc, \
                   LGPL-2.1) it contains\nwhat it calls. Texts of the licences follow.\n\n"
        .to_owned();
    for line in users.remove("").unwrap_or_default() {
        writeln!(all, "{line}").map_err(io::Error::other)?;
    }
    for (text, libraries) in users {
        let names: Vec<String> = libraries.into_iter().collect();
        write!(all, "\n---- {}\n\n{text}\n", names.join(", ")).map_err(io::Error::other)?;
    }
    Ok(all)
}

/// Returns the directories in which cargo keeps sources of libraries.
fn sources() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
    let registries = registries.into_iter().flatten().flatten();
    registries.map(|entry| entry.path()).collect()
}

/// Returns the licence files of a library, sorted by name.
fn texts(sources: &[PathBuf], directory: &str) -> Vec<String> {
    let found = sources.iter().map(|source| source.join(directory));
    let Some(files) = found.filter_map(|path| std::fs::read_dir(path).ok()).next() else {
        return Vec::new();
    };
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "NOTICE"]
            .iter()
            .any(|w| name.starts_with(w))
    };
    let paths = files.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(is_licence).collect();
    paths.sort();
    let texts = paths
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok());
    texts.map(|text| text.trim().to_owned()).collect()
}
