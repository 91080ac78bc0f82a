//! `setup`: makes what scheduled backups need, from the user to the timers. [`super::run`] calls
//! this.
//!
//! Invariant: it looks at everything first, and an error then has changed nothing. What is there
//! stays; only units with setup's mark are replaced or removed. A second run changes nothing. The
//! recovery key of a new pool is never on the disk unless the user names a file.
//!
//! ```text
//! file or its first text --> parse, obstacles --> Plan --> user, directories, file, password, pool
//!                                                                            --> units, timers
//! ```

mod files;
mod new_pool;
mod steps;
mod timers;
mod units;

use super::as_owner::{CACHE, USER};
use super::config::{self, obstacles::obstacles};
use super::configuration_file::{ConfigurationFile, tell};
use super::confirm::{ask, can_ask};
use super::invocation::Invocation;
use crate::cli::SetupArgs;
use crate::configured;
use anyhow::{Context, bail};
use configuration::Configuration;
use std::path::{Path, PathBuf};
use steps::Steps;
use terminal::exit::Exit;
use terminal::json::Object;
use units::{Facts, service_of};

const POOL_DEFAULT: &str = "/srv/pool";
const BACKUP_DEFAULT: [&str; 2] = ["/home", "/etc"];

/// What a run works with.
struct Plan {
    /// The file and its contents.
    file: ConfigurationFile,
    /// Text of the file, if it has to be written.
    text: Option<String>,
    /// This program.
    program: PathBuf,
}

pub(super) fn run(invocation: &Invocation, args: &SetupArgs) -> anyhow::Result<Exit> {
    if !args.dry_run && !rustix::process::geteuid().is_root() {
        bail!("setup changes the system; run it as root, or with --dry-run");
    }
    let mut steps = Steps {
        invocation,
        dry_run: args.dry_run,
        steps: 0,
    };
    if args.remove {
        return remove(&mut steps, args);
    }
    let plan = plan(invocation, args)?;
    check_first(invocation, &plan)?;
    let recovery = new_pool::check_first(&steps, &plan.file.configuration, args)?;

    files::account(&mut steps)?;
    files::directories(&mut steps)?;
    files::configuration(&mut steps, &plan)?;
    files::passwords(&mut steps, &plan.file.configuration)?;
    new_pool::make(&mut steps, &plan, recovery)?;
    let facts = Facts {
        program: &plan.program,
        file: &plan.file.path,
        configuration: &plan.file.configuration,
    };
    timers::install(&mut steps, &units::units(&facts), args.no_start)?;
    finish(&steps, &plan)
}

/// Reads the file, or writes its first text.
fn plan(invocation: &Invocation, args: &SetupArgs) -> anyhow::Result<Plan> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let path = configured::path(args.file.config.as_deref(), &invocation.context);
    let path = std::path::absolute(path)?;
    if path.symlink_metadata().is_ok() {
        let read = crate::cli::ConfigArgs { config: Some(path) };
        let file = ConfigurationFile::read(invocation, &read)?;
        let says = &file.configuration.pool.path.value;
        if let Some(pool) = &args.pool
            && pool != says
        {
            let (path, says) = (file.path.display(), says.display());
            bail!("{path} says that the pool is {says}; edit it, or remove --pool");
        }
        return Ok(Plan {
            file,
            text: None,
            program,
        });
    }
    let (pool, backup) = wanted(invocation, args)?;
    let text = files::first_text(&pool, &backup);
    let configuration = Configuration::parse(&text).map_err(|mistakes| {
        let why = mistakes.into_iter().map(|mistake| mistake.why);
        anyhow::anyhow!("--pool or --backup: {}", why.collect::<Vec<_>>().join("; "))
    })?;
    Ok(Plan {
        file: ConfigurationFile {
            path,
            configuration,
        },
        text: Some(text),
        program,
    })
}

/// Returns the pool and the sources of a new file. Asks on a terminal.
fn wanted(invocation: &Invocation, args: &SetupArgs) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
    let context = &invocation.context;
    let asks = can_ask(context) && !args.dry_run;
    let pool = match &args.pool {
        Some(pool) => pool.clone(),
        None if asks => match ask(
            context,
            &format!("Directory of the pool [{POOL_DEFAULT}]: "),
        )? {
            answer if answer.is_empty() => POOL_DEFAULT.into(),
            answer => answer.into(),
        },
        None => POOL_DEFAULT.into(),
    };
    if !args.backup.is_empty() {
        return Ok((pool, args.backup.clone()));
    }
    let default = BACKUP_DEFAULT.join(" ");
    let answer = match asks {
        true => ask(context, &format!("What to back up [{default}]: "))?,
        false => String::new(),
    };
    let answer = if answer.is_empty() { default } else { answer };
    Ok((pool, answer.split_whitespace().map(PathBuf::from).collect()))
}

/// The check of `config check`, except for what setup makes.
fn check_first(invocation: &Invocation, plan: &Plan) -> anyhow::Result<()> {
    let configuration = &plan.file.configuration;
    let pool = &configuration.pool;
    let is_new_pool = !new_pool::is_there(&pool.path.value);
    let password = pool.password.file.as_ref();
    let is_new_password = password.is_some_and(|file| !file.value.exists());
    let mut errors = 0;
    for obstacle in obstacles(invocation, configuration) {
        let is_made = match obstacle.key.as_str() {
            "pool.path" => is_new_pool,
            "pool.password-file" => is_new_password,
            _ => false,
        };
        if obstacle.is_error && !is_made {
            errors += 1;
            let (line, key) = (obstacle.line, &obstacle.key);
            tell(invocation, &plan.file.path, line, key, &obstacle.why)?;
        }
    }
    match errors {
        0 => Ok(()),
        _ => bail!(
            "nothing was changed; correct {} or what it names",
            plan.file.path.display()
        ),
    }
}

/// Says what there is now, and what to do next.
fn finish(steps: &Steps<'_>, plan: &Plan) -> anyhow::Result<Exit> {
    let console = &steps.invocation.console;
    if steps.dry_run {
        console.line(match steps.steps {
            0 => "dry run: everything is there",
            _ => "dry run: nothing was changed",
        })?;
        return Ok(Exit::Done);
    }
    if steps.steps == 0 {
        console.line("everything is there; nothing was changed")?;
    }
    console.message(Object::message("summary").integer("steps", steps.steps))?;
    let checked = config::check(steps.invocation, &plan.file)?;
    let configuration = &plan.file.configuration;
    let jobs = configuration.jobs();
    console.note("Next:");
    if let Some(first) = jobs.first() {
        let service = service_of(first);
        console.note(format_args!(
            "  systemctl start {service}   # the first run"
        ));
    }
    let restore = "quintet restore latest --target /tmp/restored   # try it before you need it";
    console.note("  quintet status");
    console.note(format_args!("  {restore}"));
    if configuration.notify.is_none() {
        let file = plan.file.path.display();
        console.note(format_args!(
            "  add [notify] to {file}, so that you hear of problems; then run quintet setup again"
        ));
    }
    Ok(checked)
}

/// Removes the units, and says what stays.
fn remove(steps: &mut Steps<'_>, args: &SetupArgs) -> anyhow::Result<Exit> {
    timers::install(steps, &[], true)?;
    let context = &steps.invocation.context;
    let path = configured::path(args.file.config.as_deref(), context);
    let console = &steps.invocation.console;
    let stays = |what: &Path| console.line(format!("{} stays", what.display()));
    if path.exists() {
        stays(&path)?;
    }
    let text = configured::text(context, &path).unwrap_or_default();
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
    Ok(Exit::Done)
}
