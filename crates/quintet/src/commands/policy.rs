//! `policy`: shows policies for I/O classes (Differentiated Storage Services), explains them, and
//! puts one in force in a server. [`super::run`] calls this, and `serve`.
//!
//! Invariant: it opens no pool. A policy with an error is never put in force.

mod in_use;

use super::invocation::Invocation;
use anyhow::{Context, bail};
use classes::{Contents, Facts, Pattern, Policy, shipped};
use command_line::{ContentsArg, PatternArg, PolicyCommand, PolicyExplainArgs};
use media::{Clock, SystemClock};
use server::state::PolicyInForce;
use server::{advice_words, class_words};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use terminal::command_context::CommandContext;
use terminal::exit::Exit;
use terminal::json::Object;

/// Longest policy file, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Time in use between two decisions of `policy set auto`.
const AUTO_EVERY_SECONDS: u32 = 600;
/// Nanoseconds of a second.
const NS: u64 = 1_000_000_000;

pub(super) fn run(invocation: &Invocation, command: &PolicyCommand) -> anyhow::Result<Exit> {
    match command {
        PolicyCommand::Show(args) => match &args.policy {
            Some(policy) => show(invocation, policy)?,
            None => list(invocation)?,
        },
        PolicyCommand::Explain(args) => explain(invocation, args)?,
        PolicyCommand::Set(args) if args.policy == "auto" => {
            set_auto(invocation, args.every.unwrap_or(AUTO_EVERY_SECONDS))?;
        }
        PolicyCommand::Set(args) if args.every.is_some() => {
            bail!("invalid --every: it belongs to policy set auto")
        }
        PolicyCommand::Set(args) => set(invocation, &args.policy)?,
        PolicyCommand::Status => status(invocation)?,
        PolicyCommand::Advise(args) => advise(invocation, args.after)?,
    }
    Ok(Exit::Done)
}

/// Reads a policy: one that ships, or a file.
fn load(context: &CommandContext, policy: &str) -> anyhow::Result<Policy> {
    let text = match shipped::find(policy) {
        Some(shipped) => shipped.csv.to_owned(),
        None => {
            let names: Vec<_> = shipped::ALL.iter().map(|one| one.name).collect();
            let is_a_name = !policy.contains(['/', '.']);
            let file = context
                .open(Path::new(policy))
                .with_context(|| match is_a_name {
                    true => format!("no policy {policy} ships ({}); as a file", names.join(", ")),
                    false => format!("cannot read {policy}"),
                })?;
            let mut bytes = Vec::new();
            file.take(FILE_BYTES_MAX + 1)
                .read_to_end(&mut bytes)
                .with_context(|| format!("cannot read {policy}"))?;
            if bytes.len() as u64 > FILE_BYTES_MAX {
                bail!("{policy} is no policy: it is longer than 1 MiB");
            }
            let text = units::lines::unmarked(&bytes).with_context(|| policy.to_owned())?;
            String::from_utf8(text.to_vec()).with_context(|| format!("cannot read {policy}"))?
        }
    };
    Policy::parse(&text).with_context(|| policy.to_owned())
}

/// Reads a policy that is to be put in force; `none` is `None`.
pub(super) fn in_force(
    invocation: &Invocation,
    name: &str,
) -> anyhow::Result<Option<PolicyInForce>> {
    if name == "none" {
        return Ok(None);
    }
    let policy = load(&invocation.context, name)?;
    warn_of_impossible(invocation, &policy);
    Ok(Some(PolicyInForce {
        name: name.to_owned(),
        policy: Arc::new(policy),
    }))
}

fn warn_of_impossible(invocation: &Invocation, policy: &Policy) {
    for class in policy.impossible() {
        let number = class.0;
        let why = format!("class {number}: no request can match its rule");
        invocation.console.warn(why);
    }
}

fn set(invocation: &Invocation, policy: &str) -> anyhow::Result<()> {
    let server = invocation.server("start one with quintet serve --policy")?;
    let new = in_force(invocation, policy)?;
    let console = &invocation.console;
    server.classes.set_policy(new);
    console.message(Object::message("summary").text("policy", policy))?;
    console.line(match policy {
        "none" => "no policy is in force".to_owned(),
        policy => format!("policy {policy} is in force until the server ends"),
    })?;
    Ok(())
}

fn set_auto(invocation: &Invocation, every_seconds: u32) -> anyhow::Result<()> {
    let server = invocation.server("start one with quintet serve --fast --policy")?;
    let period_ns = u64::from(every_seconds) * NS;
    server.classes.set_auto(SystemClock.now(), period_ns)?;
    let console = &invocation.console;
    console.message(Object::message("summary").text("policy", "auto"))?;
    console
        .line("the server divides the fast tier itself until another policy is set, or it ends")?;
    Ok(())
}

fn advise(invocation: &Invocation, after_seconds: u32) -> anyhow::Result<()> {
    let server = invocation.server("start one with quintet serve --fast --policy")?;
    let advised = server.classes.advise(u64::from(after_seconds) * NS)?;
    let console = &invocation.console;
    console.message(in_use::advice(&advised))?;
    for line in advice_words::lines(&advised) {
        console.line(line)?;
    }
    Ok(())
}

fn status(invocation: &Invocation) -> anyhow::Result<()> {
    let server = invocation.server("no policy is in force")?;
    let console = &invocation.console;
    let reading = server.classes.read();
    console.message(in_use::message(reading.as_ref()))?;
    for line in class_words::lines(reading.as_ref(), console.out_columns(), &invocation.zone) {
        console.line(line)?;
    }
    Ok(())
}

fn list(invocation: &Invocation) -> anyhow::Result<()> {
    for one in &shipped::ALL {
        let message = Object::message("policy").text("name", one.name);
        invocation
            .console
            .message(message.text("purpose", one.purpose))?;
        invocation
            .console
            .line(format!("{:<12} {}", one.name, one.purpose))?;
    }
    Ok(())
}

fn show(invocation: &Invocation, name: &str) -> anyhow::Result<()> {
    let (policy, console) = (load(&invocation.context, name)?, &invocation.console);
    for (class, rule) in policy.classes() {
        let settings = policy.settings(class);
        let object = Object::message("policy_class")
            .integer("class", class.0)
            .text("rule", rule)
            .integer("allocation_percent", settings.share.hundredths());
        let fast = policy.fast_settings(class);
        console.message(in_use::with_priorities(object, &settings, &fast))?;
    }
    for line in policy.to_csv().lines() {
        console.line(line)?;
    }
    warn_of_impossible(invocation, &policy);
    Ok(())
}

fn explain(invocation: &Invocation, args: &PolicyExplainArgs) -> anyhow::Result<()> {
    let contents = match (args.contents, args.file_size) {
        (Some(ContentsArg::Metadata), _) => Contents::Metadata,
        (Some(ContentsArg::Journal), _) => Contents::Journal,
        (Some(ContentsArg::Directory), _) => Contents::Directory,
        (Some(ContentsArg::Free), _) => Contents::Free,
        (None, Some(size_bytes)) => Contents::File {
            size_bytes,
            offset_bytes: args.file_offset.unwrap_or(0),
        },
        (None, None) => Contents::Unknown,
    };
    let facts = Facts {
        contents,
        wire_class: args.wire,
        origin: args.origin.into(),
        volume: &args.volume,
        offset_bytes: args.offset,
        len_bytes: args.size,
        is_write: args.write,
        pattern: args.pattern.map(|pattern| match pattern {
            PatternArg::Seq => Pattern::Sequential,
            PatternArg::Mono => Pattern::Monotonic,
            PatternArg::Rand => Pattern::Random,
        }),
        ..Facts::default()
    };
    let policy = load(&invocation.context, &args.policy)?;
    let explanation = policy.explain(&facts);
    let console = &invocation.console;
    for verdict in &explanation.verdicts {
        let object = Object::message("policy_rule")
            .integer("class", verdict.class.0)
            .text("rule", verdict.rule);
        console.message(object.text("outcome", &verdict.outcome.to_string()))?;
    }
    let summary = Object::message("policy_explanation")
        .integer("class", explanation.class.0)
        .text("rule", explanation.rule);
    let summary = summary.text("follows", &explanation.settings.to_string());
    console.message(summary.text("fast_tier", &explanation.in_fast_tier()))?;
    for line in explanation.to_string().lines() {
        console.line(line)?;
    }
    Ok(())
}
