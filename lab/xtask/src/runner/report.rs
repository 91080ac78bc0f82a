//! The output of a run: a line for each script, each failure in full, and the numbers at the end.

use super::job::{Ended, Outcome};

/// Lines of a failed job's output that are shown, from its begin and from its end.
const LINES_FIRST: usize = 10;
const LINES_MAX: usize = 60;
const COLUMNS_MAX: usize = 400;

/// Says how a job ended. Unit tests that pass say nothing.
pub fn say(ended: &Ended) {
    let Ended {
        name,
        seconds,
        output,
        ..
    } = ended;
    match &ended.outcome {
        Outcome::Passed if name.contains("::") => {}
        Outcome::Passed => println!("ok      {name} ({seconds:.0} s)"),
        Outcome::Skipped(why) => println!("SKIPPED {name}: {why}"),
        Outcome::Failed(why) => {
            println!("FAILED  {name} ({why}, {seconds:.0} s)\n{}", shown(output))
        }
    }
    // Parts of a test that this machine cannot do.
    if !matches!(ended.outcome, Outcome::Skipped(_)) {
        for line in output.lines().filter(|line| line.starts_with("SKIPPED")) {
            println!(
                "SKIPPED {name}: {}",
                line.trim_start_matches("SKIPPED")
                    .trim_start_matches([':', ' '])
            );
        }
    }
}

/// Says the numbers and how to repeat what failed. Returns false if something failed.
pub fn end(results: &[Ended]) -> bool {
    let failed: Vec<_> = results
        .iter()
        .filter(|r| matches!(r.outcome, Outcome::Failed(_)))
        .collect();
    let passed = results.iter().filter(|r| r.has_passed()).count();
    let skipped = results.len() - passed - failed.len();
    let seconds: f64 = results.iter().map(|r| r.seconds).sum();
    println!(
        "{passed} passed, {} failed, {skipped} skipped; {seconds:.0} s one after the other",
        failed.len()
    );
    for ended in &failed {
        println!("repeat: ./test {}", ended.name);
    }
    failed.is_empty() && !results.is_empty()
}

/// Returns the begin and the end of an output: a script says first or last what is wrong.
fn shown(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    let cut = |line: &&str| {
        format!(
            "        {}",
            line.chars().take(COLUMNS_MAX).collect::<String>()
        )
    };
    let after = lines
        .len()
        .saturating_sub(LINES_MAX)
        .max(LINES_FIRST.min(lines.len()));
    let mut shown: Vec<_> = lines.iter().take(LINES_FIRST).map(cut).collect();
    if after > LINES_FIRST {
        shown.push(format!("        ... {} lines ...", after - LINES_FIRST));
    }
    shown.extend(lines.iter().skip(after).map(cut));
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn begin_and_end_of_an_output_are_shown() {
        let lines = |n: usize| (0..n).map(|i| format!("line {i}\n")).collect::<String>();
        assert_eq!(shown(""), "");
        assert_eq!(shown(&lines(9)).lines().count(), 9);
        assert_eq!(shown(&lines(70)).lines().count(), 70);
        let long = shown(&lines(100));
        assert_eq!(long.lines().count(), 71);
        assert!(
            long.contains("line 9\n        ... 30 lines ...\n        line 40\n"),
            "{long}"
        );
    }
}
