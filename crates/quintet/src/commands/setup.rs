//! `setup`: makes what scheduled backups need, from the user to the timers. [`super::run`] calls
//! this.
//!
//! Invariant: it looks at everything first, and an error then has changed nothing. What is there
//! stays; only units with setup's mark are replaced or removed. A second run changes nothing. The
//! recovery key of a new pool is never on the disk unless the user names a file.
//!
//! ```text
//! file or its first text --> parse, obstacles --> Plan --> the crate setup
//! ```

use super::config::{self, obstacles::obstacles};
use super::configuration_file::{ConfigurationFile, tell};
use super::confirm::{ask, can_ask};
use super::invocation::Invocation;
use anyhow::{Context, bail};
use setup::steps::Steps;
use setup::{SetupArgs, SetupPlan, configured, new_pool};
use std::path::PathBuf;
use terminal::exit::Exit;
use terminal::json::Object;

const POOL_DEFAULT: &str = "/srv/pool";
const BACKUP_DEFAULT: [&str; 2] = ["/home", "/etc"];

pub(super) fn run(invocation: &Invocation, args: &SetupArgs) -> anyhow::Result<Exit> {
    if !args.dry_run && !rustix::process::geteuid().is_root() {
        bail!("setup changes the system; run it as root, or with --dry-run");
    }
    let mut steps = Steps {
        shell: invocation,
        dry_run: args.dry_run,
        steps: 0,
    };
    if args.remove {
        let path = configured::path(args.config.as_deref(), &invocation.context);
        setup::remove(&mut steps, &path)?;
        return Ok(Exit::Done);
    }
    let plan = plan(invocation, args)?;
    check_first(invocation, &plan)?;
    let recovery = new_pool::check_first(
        &steps,
        &plan.configuration,
        args.recovery_key_file.as_deref(),
    )?;

    setup::apply(&mut steps, &plan, recovery, args.no_start)?;
    finish(invocation, &steps, plan)
}

/// Reads the file, or writes its first text.
fn plan(invocation: &Invocation, args: &SetupArgs) -> anyhow::Result<SetupPlan> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let path = configured::path(args.config.as_deref(), &invocation.context);
    let path = std::path::absolute(path)?;
    if path.symlink_metadata().is_ok() {
        let read = command_line::ConfigArgs { config: Some(path) };
        let file = ConfigurationFile::read(invocation, &read)?;
        let says = &file.configuration.pool.path.value;
        if let Some(pool) = &args.pool
            && pool != says
        {
            let (path, says) = (file.path.display(), says.display());
            bail!("{path} says that the pool is {says}; edit it, or remove --pool");
        }
        return Ok(SetupPlan {
            path: file.path,
            configuration: file.configuration,
            text: None,
            program,
        });
    }
    let (pool, backup) = wanted(invocation, args)?;
    SetupPlan::first(path, &pool, &backup, program)
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
        true => ask(context, &format!("Paths to back up [{default}]: "))?,
        false => String::new(),
    };
    let answer = if answer.is_empty() { default } else { answer };
    Ok((pool, answer.split_whitespace().map(PathBuf::from).collect()))
}

/// The check of `config check`, except for what setup makes.
fn check_first(invocation: &Invocation, plan: &SetupPlan) -> anyhow::Result<()> {
    let configuration = &plan.configuration;
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
            tell(invocation, &plan.path, line, key, &obstacle.why)?;
        }
    }
    match errors {
        0 => Ok(()),
        _ => bail!(
            "nothing was changed; correct {} or what it names",
            plan.path.display()
        ),
    }
}

/// Says what there is now, and what to do next.
fn finish(invocation: &Invocation, steps: &Steps<'_>, plan: SetupPlan) -> anyhow::Result<Exit> {
    let console = &invocation.console;
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
    let file = ConfigurationFile {
        path: plan.path,
        configuration: plan.configuration,
    };
    let checked = config::check(invocation, &file)?;
    setup::next_steps(&invocation.console, &file.path, &file.configuration)?;
    Ok(checked)
}
