//! Makes for `quintet setup`, on a machine: the user, the configuration file, the password, the
//! pool, and units for the jobs. Also finds that file, and runs commands as that user. The program
//! calls this.
//!
//! Invariant: what is there stays; only units with setup's mark are replaced or removed. A second
//! run changes nothing. The recovery key of a new pool is never on the disk unless the user names a
//! file.
//!
//! ```text
//! Plan --> user, directories, file, password, pool --> units, timers      each a step of Steps
//! ```
#![forbid(unsafe_code)]

mod arguments;
pub mod configured;
mod files;
pub mod new_pool;
pub mod owner;
pub mod steps;
mod timers;
pub mod units;

pub use arguments::SetupArgs;

use configuration::Configuration;
use std::io;
use std::path::{Path, PathBuf};
use steps::Steps;
use terminal::console::Console;
use units::service_of;

/// The user that owns the pool and runs the jobs. The packages make it too.
pub const USER: &str = "quintet";
/// Directory in which it remembers pools, as the shipped units say.
const CACHE: &str = "/var/cache/quintet/quintet";

/// Settings of a run.
pub struct SetupPlan {
    /// Path of the configuration file.
    pub path: PathBuf,
    /// Its contents.
    pub configuration: Configuration,
    /// Its text, if it has to be written.
    pub text: Option<String>,
    /// The program that units run.
    pub program: PathBuf,
}

impl SetupPlan {
    /// Returns the plan with a new configuration file.
    pub fn first(
        path: PathBuf,
        pool: &Path,
        backup: &[PathBuf],
        program: PathBuf,
    ) -> anyhow::Result<Self> {
        let text = files::first_text(pool, backup);
        let configuration = Configuration::parse(&text).map_err(|mistakes| {
            let why: Vec<_> = mistakes.into_iter().map(|mistake| mistake.why).collect();
            anyhow::anyhow!("--pool or --backup: {}", why.join("; "))
        })?;
        Ok(Self {
            path,
            configuration,
            text: Some(text),
            program,
        })
    }
}

/// Makes what is missing. `recovery`: file for the recovery key of a new pool.
pub fn apply(
    steps: &mut Steps<'_>,
    plan: &SetupPlan,
    recovery: Option<&Path>,
    no_start: bool,
) -> anyhow::Result<()> {
    files::account(steps)?;
    files::directories(steps)?;
    files::configuration(steps, plan)?;
    files::passwords(steps, &plan.configuration)?;
    new_pool::make(steps, plan, recovery)?;
    let facts = units::Facts {
        program: &plan.program,
        file: &plan.path,
        configuration: &plan.configuration,
    };
    timers::install(steps, &units::units(&facts), no_start)
}

/// Removes the units, and says what stays.
pub fn remove(steps: &mut Steps<'_>, path: &Path) -> anyhow::Result<()> {
    timers::install(steps, &[], true)?;
    let context = &steps.shell.context;
    let console = &steps.shell.console;
    let stays = |what: &Path| console.line(format!("{} stays", what.display()));
    if path.exists() {
        stays(path)?;
    }
    let text = configured::text(context, path).unwrap_or_default();
    if let Ok(configuration) = Configuration::parse(&text) {
        let pool = &configuration.pool;
        let password = pool.password.file.iter().map(|file| &file.value);
        for path in password
            .chain([&pool.path.value])
            .filter(|path| path.exists())
        {
            stays(path)?;
        }
    }
    if steps.account()?.is_some() {
        console.line(format!("the user {USER} stays"))?;
    }
    if steps.dry_run {
        console.line("dry run: nothing was changed")?;
    }
    Ok(())
}

/// Says what to do next.
pub fn next_steps(console: &Console, path: &Path, configuration: &Configuration) -> io::Result<()> {
    let jobs = configuration.jobs();
    console.line("Next:")?;
    if let Some(first) = jobs.first() {
        let service = service_of(first);
        console.line(format!("  systemctl start {service}   # the first run"))?;
    }
    let restore = "quintet restore latest --target /tmp/restored   # try it before you need it";
    console.line("  quintet status")?;
    console.line(format!("  {restore}"))?;
    if configuration.notify.is_none() {
        let file = path.display();
        console.line(format!(
            "  add [notify] to {file}, so that you hear of problems; then run quintet setup again"
        ))?;
    }
    Ok(())
}
