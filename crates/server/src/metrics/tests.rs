use super::*;
use crate::meters::Metered;
use crate::state::PolicyInForce;
use ::classes::Policy;
use media::{Media, Syncing};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use store::{InitOptions, OpenMode, Pool};
use volume::{Durability, RequestContext, Volume};

/// Makes the server state of a pool in this directory.
pub(crate) fn server_state(top: &std::path::Path) -> ServerState {
    let media = Media::local(top, Syncing::Inline);
    let options = InitOptions {
        secrets: &[],
        chunk_bytes_average: 32 << 10,
        parity_percent: 0,
    };
    Pool::init(&media, &options).unwrap();
    let pool = Pool::open(media, None, OpenMode::Write, 16 << 20).unwrap();
    let compression = chunking::Compression::Lz4;
    let memory = crate::memory_plan::MemoryPlan::of(32 << 20, 8 << 20);
    let mut wanted = crate::state::VolumesWanted {
        journal_bytes: 8 << 20,
        ..Default::default()
    };
    assert!(wanted.switches.turn_off("fast-surroundings"));
    let volumes = crate::state::open_volumes(Arc::new(pool), &memory, compression, &wanted);
    let shares = crate::settings::Shares::default();
    let ticks = Arc::new(media::SystemTicks::default());
    let device = ::device::DeviceQueue::new(shares.plan, ticks).unwrap();
    let path = top.to_owned();
    ServerState::new(path, volumes.unwrap(), Arc::new(device), shares, memory)
}

/// Gives the pool a fast tier with a chunk in it.
fn use_tier(server: &ServerState, top: &std::path::Path) {
    let fast = top.join("fast");
    std::fs::create_dir(&fast).unwrap();
    let disk = Arc::new(media::LocalDisk::new(fast));
    server.pool.use_fast_index(Arc::clone(&disk) as _, 1 << 20);
    let options = ssd_tier::TierOptions::new(16 << 20, 1 << 20);
    let settings = ssd_tier::TierSettings::new(ssd_tier::KindShares::ALONE);
    let tier = server.pool.use_fast_tier(disk, options, settings);
    let now = |n| units::UnixNanos(n);
    while tier.step(now(1), 1 << 20).has_more {}
    let chunk = [7; 5000];
    let name = server.pool.reader().fingerprint(&chunk);
    tier.offer(&name, ssd_tier::Kind::Data, units::IoClass(4), &chunk);
    tier.finish(now(2));
    assert!(tier.lookup(&name, ssd_tier::Kind::Data).is_some());
}

#[test]
fn every_metric_is_written_and_none_besides() {
    let top = tempfile::tempdir().unwrap();
    let server = server_state(top.path());
    assert!(server.volumes.create("a\"b", 1 << 20, 12).is_err());
    let volume = server.volumes.create("disk", 1 << 20, 12).unwrap();
    server.classes.set_policy(Some(PolicyInForce {
        name: "vm-images".to_owned(),
        policy: Arc::new(
            Policy::parse(::classes::shipped::find("vm-images").unwrap().csv).unwrap(),
        ),
    }));
    let volume = server.classes.classify_volume(volume.id(), "disk", volume);
    // Costs of a layout are known from the first step on.
    server.classes.classifiers.step(1);
    let volume = Metered::new(volume, server.meters.of("disk"));
    let context = RequestContext::default();
    volume
        .write(context, 0, &[1; 8192], Durability::Durable)
        .unwrap();
    volume.read(context, 0, &mut [0; 4096]).unwrap();
    server.volumes.snapshot("disk", "one").unwrap();
    server.meters.of("state@\"quoted\"\\");
    assert!(!render(&server).contains("\nquintet_tier"));
    use_tier(&server, top.path());
    let text = render(&server);
    let name_of = |line: &str| {
        let name = line.split(['{', ' ']).next().unwrap().to_owned();
        let parts = ["_bucket", "_sum", "_count"];
        let base = parts.iter().find_map(|part| name.strip_suffix(part));
        base.filter(|base| METRICS.iter().any(|m| m.name == *base))
            .map_or(name.clone(), str::to_owned)
    };
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let reported: BTreeSet<String> = samples.map(name_of).collect();
    let table: BTreeSet<String> = METRICS.iter().map(|m| m.name.to_owned()).collect();
    assert_eq!(reported, table);
    for line in [
        "quintet_export_bytes_total{export=\"disk\",operation=\"write\"} 8192",
        "quintet_request_duration_seconds_count{export=\"disk\",operation=\"read\"} 1",
        "quintet_volume_size_bytes{volume=\"disk\"} 1048576",
        "quintet_state 0",
        "quintet_tier_state 0",
        "quintet_tier_class_hits_total{kind=\"data\",class=\"4\"} 1",
        "quintet_finding{kind=\"data_damaged\"} 0",
        "quintet_source_snapshot_bytes{source=\"volume disk\"} 1048576",
        "quintet_source_snapshot_complete{source=\"volume disk\"} 1",
        "quintet_maintenance_bytes_total{task=\"defrag\",source=\"cache\"} 0",
        "quintet_maintenance_bytes_total{task=\"copy\",source=\"disk\"} 0",
        "quintet_maintenance_bytes_total{task=\"collect\",source=\"disk\"} 0",
        "quintet_maintenance_under_way{task=\"copy\"} 0",
        "quintet_maintenance_progress_ratio{task=\"defrag\"} 0",
        "# TYPE quintet_journal_records_total counter",
        "quintet_export_clients{export=\"state@\\\"quoted\\\"\\\\\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
    }
}

#[test]
fn names_have_units_and_counters_say_so() {
    for metric in METRICS {
        let total = metric.name.ends_with("_total");
        assert_eq!(total, metric.kind == MetricKind::Counter, "{}", metric.name);
        assert!(metric.name.starts_with("quintet_") && metric.help.ends_with('.'));
    }
    let names: BTreeSet<&str> = METRICS.iter().map(|m| m.name).collect();
    assert_eq!(names.len(), METRICS.len());
}

#[test]
fn the_endpoint_answers_on_loopback_only() {
    let top = tempfile::tempdir().unwrap();
    let server = Arc::new(server_state(top.path()));
    assert!(Endpoint::start("0.0.0.0:0".parse().unwrap(), &server).is_err());
    let endpoint = Endpoint::start("127.0.0.1:0".parse().unwrap(), &server).unwrap();
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(endpoint.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let found = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
    assert!(found.contains("quintet_build_info{version="));
    assert!(ask("GET / HTTP/1.1\r\n\r\n").contains("404"));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").contains("405"));
}

#[test]
fn the_documentation_has_the_table() {
    let page = include_str!("../../../../docs/operations.md");
    let lines = page.lines().filter(|line| line.starts_with("| `"));
    let written: Vec<&str> = lines.collect();
    let kind = |kind| match kind {
        MetricKind::Gauge => "gauge",
        MetricKind::Counter => "counter",
        MetricKind::Histogram => "histogram",
    };
    let expected: Vec<String> = METRICS
        .iter()
        .map(|m| {
            let help = m.help.trim_end_matches('.');
            format!("| `{}` | {} | {help} |", m.name, kind(m.kind))
        })
        .collect();
    assert_eq!(written, expected);
}

/// The names in the dashboard's expressions are names of metrics, or of a histogram's parts.
#[test]
fn the_dashboard_asks_for_metrics_that_are_there() {
    let dashboard = include_str!("../../../../docs/grafana-dashboard.json");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = dashboard.split(|c| !is_word(c));
    let asked: BTreeSet<&str> = words.filter(|w| w.starts_with("quintet_")).collect();
    assert!(asked.len() > 40, "{asked:?}");
    for name in asked {
        let is_there = METRICS.iter().any(|metric| {
            let part = name.strip_prefix(metric.name);
            match metric.kind {
                MetricKind::Histogram => matches!(part, Some("_bucket" | "_count" | "_sum")),
                _ => part == Some(""),
            }
        });
        assert!(is_there, "{name}");
    }
}
