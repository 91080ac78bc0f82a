//! Reads name, layer and dependencies of a `Cargo.toml`. [`super::tree`] calls this.
//!
//! Invariant: only the plain forms of this project's manifests are understood. A layer that is not
//! understood counts as missing, which is refused.

/// Layer of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// 0 is the lowest.
    Number(u32),
    /// A crate that no shipped crate may depend on.
    Dev,
}

/// One dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Name of the package.
    pub name: String,
    /// Only for tests, examples and benchmarks.
    pub is_dev: bool,
    /// Line of the manifest.
    pub line: usize,
}

/// A manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Relative to the checkout.
    pub path: String,
    /// Name of the package.
    pub name: String,
    /// `[package.metadata.quintet] layer`.
    pub layer: Option<Layer>,
    /// All dependencies.
    pub dependencies: Vec<Dependency>,
}

impl Manifest {
    /// Parses a manifest.
    pub fn parse(path: &str, text: &str) -> Self {
        let mut manifest = Self {
            path: path.to_owned(),
            name: String::new(),
            layer: None,
            dependencies: Vec::new(),
        };
        let mut section = String::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if let Some(name) = content.strip_prefix('[').and_then(|c| c.split_once(']')) {
                section = name.0.trim().to_owned();
                if let Some((table, name)) = dependency_table(&section) {
                    manifest.add(table, name, line);
                }
            } else if let Some((key, value)) = content.split_once('=')
                && !content.starts_with('#')
            {
                manifest.entry(&section, key.trim(), value.trim(), line);
            }
        }
        manifest
    }

    fn entry(&mut self, section: &str, key: &str, value: &str, line: usize) {
        match (section, key) {
            ("package", "name") => self.name = value.trim_matches('"').to_owned(),
            ("package.metadata.quintet", "layer") => {
                self.layer = match value {
                    "\"dev\"" => Some(Layer::Dev),
                    number => number.parse().ok().map(Layer::Number),
                };
            }
            _ if is_dependencies(section) => {
                // `name.workspace = true`, `name = "1"`, `alias = { package = "name" }`.
                let name = key.split('.').next().unwrap_or(key);
                self.add(section, renamed(value).unwrap_or(name), line);
            }
            _ => {}
        }
    }

    fn add(&mut self, section: &str, name: &str, line: usize) {
        self.dependencies.push(Dependency {
            name: name.trim_matches('"').to_owned(),
            is_dev: section.ends_with("dev-dependencies"),
            line,
        });
    }
}

/// `[dependencies]`, `[dev-dependencies]`, `[build-dependencies]`, also below `[target.'...']`.
fn is_dependencies(section: &str) -> bool {
    section.ends_with("dependencies")
}

/// `[dependencies.name]`.
fn dependency_table(section: &str) -> Option<(&str, &str)> {
    let (table, name) = section.rsplit_once('.')?;
    is_dependencies(table).then_some((table, name))
}

fn renamed(value: &str) -> Option<&str> {
    let (_, after) = value.split_once("package")?;
    let after = after.trim_start().strip_prefix('=')?;
    after.split('"').nth(1)
}
