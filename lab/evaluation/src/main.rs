//! `cargo run --release -p evaluation [-- PAGE]`: writes the pages of `docs/evaluation` that come
//! from models.
//!
//! Invariant: it reads neither clock nor machine; two runs write the same bytes.
#![forbid(unsafe_code)]

use evaluation::figures::{FULL, Marks, SHORT, SHORT_TASKS, TASKS, plot, write_page};
use evaluation::maintenance::grid::{self, Tasks, Variant};
use evaluation::maintenance::page;
use evaluation::maintenance::settings::{Order, Picks, Settings};
use evaluation::{ageing, classes, ddfs, fragments, shipped};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "usage: evaluation [duet] [tasks] [fragpicker] [ageing] [classes] [ddfs] [short]

Writes docs/evaluation/PAGE.md and PAGE.svg, all pages unless some are named. Takes minutes.
tasks: the part of Duet's page with the tasks that ship.
short: only the short runs on these pages, which a test compares. Takes seconds.";

const PAGES: [&str; 7] = [
    "duet",
    "tasks",
    "fragpicker",
    "ageing",
    "classes",
    "ddfs",
    "short",
];

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    if named.iter().any(|name| !PAGES.contains(&name.as_str())) {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checkout = here.ancestors().nth(2).unwrap_or(here);
    let pages = checkout.join("docs/evaluation");
    let wanted = PAGES
        .iter()
        .filter(|page| named.is_empty() || named.iter().any(|n| n == *page));
    for page in wanted {
        if let Err(e) = write(page, &pages) {
            eprintln!("{page}: {e}");
            return ExitCode::FAILURE;
        }
        println!("{page}: written");
    }
    ExitCode::SUCCESS
}

fn write(page: &str, pages: &Path) -> std::io::Result<()> {
    match page {
        "duet" => duet(pages),
        "tasks" => tasks(pages),
        "fragpicker" => fragpicker(pages),
        "ageing" => ageing(pages),
        "classes" => by_class(pages, FULL, &classes::settings::Settings::FULL),
        "ddfs" => ladders(pages),
        "short" => short(pages),
        _ => Ok(()),
    }
}

fn duet(pages: &Path) -> std::io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let settings = Settings::PUBLISHED;
    let variants: [Variant; 4] = page::PUBLISHED.map(|(variant, ..)| variant);
    let in_rotation = grid::run(&settings, Picks::InRotation, &variants, threads);
    let of = |tasks: &[Tasks]| {
        let at = |tasks: &Tasks| grid::OVERLAPS.map(|overlap| ((*tasks, true), overlap));
        tasks.iter().flat_map(at).collect::<Vec<_>>()
    };
    let host_backup = of(&[Tasks::HostBackup]);
    let host_backup = grid::search(&settings, Picks::InRotation, &host_backup, threads);
    let others = of(&[Tasks::Backup, Tasks::Three]);
    let at_random = grid::search(&settings, Picks::AtRandom, &others, threads);
    let shipped = Settings {
        order: Order::Product,
        ..settings
    };
    let product = grid::run(&shipped, Picks::InRotation, &page::BY_PRODUCT, threads);
    let text = page::text(
        &settings,
        &in_rotation,
        (&product, &grid::run_due(&settings, threads)),
        (&host_backup, &at_random),
    );
    write_page(&pages.join("duet.md"), "Duet", FULL, &text)?;
    std::fs::write(pages.join("duet.svg"), plot(&page::panels(&in_rotation)))
}

fn tasks(pages: &Path) -> std::io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let text = shipped::page::text(&shipped::settings::Settings::FULL, threads);
    let text = text.map_err(std::io::Error::other)?;
    write_page(&pages.join("duet.md"), "Duet", TASKS, &text)
}

fn fragpicker(pages: &Path) -> std::io::Result<()> {
    let text = fragments::page::text(1 << 30);
    write_page(&pages.join("fragpicker.md"), "FragPicker", FULL, &text)?;
    std::fs::write(
        pages.join("fragpicker.svg"),
        plot(&fragments::page::panels()),
    )
}

fn ageing(pages: &Path) -> std::io::Result<()> {
    let settings = ageing::pool::Settings::FULL;
    let histories = ageing::page::histories(&settings).map_err(std::io::Error::other)?;
    let text = ageing::page::text(&settings, &histories);
    write_page(&pages.join("ageing.md"), "Ageing", FULL, &text)?;
    std::fs::write(
        pages.join("ageing.svg"),
        plot(&ageing::page::panels(&settings, &histories)),
    )
}

fn by_class(
    pages: &Path,
    marks: Marks,
    settings: &classes::settings::Settings,
) -> std::io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let results = classes::page::results(settings, threads).map_err(std::io::Error::other)?;
    let text = results.text();
    write_page(&pages.join("classes.md"), "Classes of I/O", marks, &text)?;
    match marks {
        FULL => std::fs::write(
            pages.join("classes.svg"),
            classes::plot::plot(&results.loads),
        ),
        _ => Ok(()),
    }
}

fn ladders(pages: &Path) -> std::io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let results = ddfs::page::results(&ddfs::settings::Settings::FULL, true, threads);
    let results = results.map_err(std::io::Error::other)?;
    write_page(&pages.join("ddfs.md"), "DDFS", FULL, &results.text())?;
    std::fs::write(pages.join("ddfs.svg"), plot(&results.panels()))
}

fn short(pages: &Path) -> std::io::Result<()> {
    let duet = page::short_text();
    write_page(&pages.join("duet.md"), "Duet", SHORT, &duet)?;
    let tasks = shipped::page::short_text().map_err(std::io::Error::other)?;
    write_page(&pages.join("duet.md"), "Duet", SHORT_TASKS, &tasks)?;
    let ageing = ageing::page::short_text().map_err(std::io::Error::other)?;
    write_page(&pages.join("ageing.md"), "Ageing", SHORT, &ageing)?;
    let ladders = ddfs::page::short_text().map_err(std::io::Error::other)?;
    write_page(&pages.join("ddfs.md"), "DDFS", SHORT, &ladders)?;
    by_class(pages, SHORT, &classes::settings::Settings::SHORT)
}
