//! `qos`: shows or sets the shares of a server's device, and shows its use by I/O origin.
//!
//! Invariant: changes apply at once, to waiting requests too, and last until the server ends.

use super::invocation::Invocation;
use command_line::QosCommand;
use device::FlowCounts;
use qos::Flow;
use server::settings::{flow_name, kind_name};
use server::state::ServerState;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::sizes;

pub(super) fn run(invocation: &Invocation, command: &QosCommand) -> anyhow::Result<Exit> {
    let server = invocation.server("there are no shares to show or set")?;
    if let QosCommand::Set(args) = command {
        server
            .tasks
            .set_shares(server.tasks.shares().with(&args.shares)?)?;
    }
    show(invocation, server)?;
    Ok(Exit::Done)
}

fn show(invocation: &Invocation, server: &ServerState) -> std::io::Result<()> {
    let console = &invocation.console;
    let (shares, kind) = (server.tasks.shares(), server.device.plan().1);
    let counts = server.device.counts();
    let mut settings = Object::new();
    for (key, value) in shares.entries() {
        settings = settings.text(&key, &value);
    }
    let message = Object::message("qos")
        .text("device", kind_name(kind))
        .object("shares", settings)
        .objects("flows", flows(&counts));
    console.message(message)?;
    for (key, value) in shares.entries() {
        match (key.as_str(), value.as_str()) {
            ("device", "auto") => console.line(format!("{key}=auto (now: {})", kind_name(kind)))?,
            _ => console.line(format!("{key}={value}"))?,
        }
    }
    for (flow, counts) in Flow::ALL.iter().zip(&counts) {
        if *counts != FlowCounts::default() {
            console.line(format!("{}: {}", flow_name(*flow), words(counts)))?;
        }
    }
    Ok(())
}

/// Formats the use of one I/O origin as text.
pub(super) fn words(counts: &FlowCounts) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let leased = match counts.leased_bytes {
        0 => String::new(),
        bytes => format!(" ({} by other processes)", sizes::display(bytes)),
    };
    format!(
        "{} read{leased}, {} written; {} grants, mean wait {:.2} ms, {} waiting",
        sizes::display(counts.read_bytes),
        sizes::display(counts.written_bytes),
        counts.grants,
        ms(counts.wait_ns) / counts.grants.max(1) as f64,
        counts.waiting
    )
}

/// Formats the use of each I/O origin as JSON.
pub(super) fn flows(counts: &[FlowCounts]) -> Vec<Object> {
    let flow = |(flow, counts): (&Flow, &FlowCounts)| {
        Object::new()
            .text("flow", flow_name(*flow))
            .integer("reads", counts.reads)
            .integer("read_bytes", counts.read_bytes)
            .integer("leased_bytes", counts.leased_bytes)
            .integer("writes", counts.writes)
            .integer("written_bytes", counts.written_bytes)
            .integer("turns", counts.grants)
            .number("wait_seconds", counts.wait_ns as f64 / 1e9)
            .number("held_back_seconds", counts.held_back_ns as f64 / 1e9)
            .number("busy_seconds", counts.busy_ns as f64 / 1e9)
            .integer("waiting", counts.waiting)
    };
    Flow::ALL.iter().zip(counts).map(flow).collect()
}
