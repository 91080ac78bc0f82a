//! The words of `policy advise`: a policy file whose comments say what it is expected to bring.
//! The program prints them.
//!
//! Invariant: what it returns is a policy file.

use crate::state::Advised;
use classes::ClassAdvice;
use terminal::words::wrapped;

const SECOND_NS: f64 = 1e9;
/// Longest line of a comment.
const COLUMNS: usize = 118;

/// Formats the advice as a policy file.
pub fn lines(advised: &Advised) -> Vec<String> {
    let advice = &advised.advice;
    let ((now, then), (saved, saved_then)) = (advice.hits(), advice.saved_ns());
    let percent = |hits: f64| hits / advice.accesses().max(1.0) * 100.0;
    let a_day = |ns: f64| advice.a_day(ns) / SECOND_NS;
    let verdict = match advised.is_better {
        true => "expects",
        false => "keep the settings in force: others are expected to bring hardly more,",
    };
    let head = [
        format!(
            "advice for policy {}: {verdict} {:+.1} % of saved device time, {:.0} s a day instead \
             of {:.0} s; hits in {:.1} % of the reads instead of {:.1} %",
            advised.name,
            advice.gain() * 100.0,
            a_day(saved_then),
            a_day(saved),
            percent(then),
            percent(now)
        ),
        format!(
            "evidence: {} sampled reads in {} min of use; a read takes {} from the tier, {} from \
             the pool",
            advice.sampled,
            advice.observed_ns / 60_000_000_000,
            microseconds(advice.times_ns.0),
            microseconds(advice.times_ns.1)
        ),
    ];
    let mut lines: Vec<String> = head.iter().flat_map(|text| comment(text)).collect();
    for row in advised.policy.to_csv().lines() {
        let class = row.split(',').next().and_then(|id| id.parse::<u8>().ok());
        let of = class.and_then(|id| advice.classes.iter().find(|of| of.class.0 == id));
        if let Some(of) = of.filter(|of| of.accesses > 0.0) {
            lines.extend(comment(&class_words(of, &a_day)));
        }
        lines.push(row.to_owned());
    }
    lines
}

fn microseconds(ns: Option<f64>) -> String {
    let measured = ns.map(|ns| format!("{:.0} us", ns / 1000.0));
    measured.unwrap_or_else(|| "a time that was not measured".to_owned())
}

fn comment(text: &str) -> impl Iterator<Item = String> {
    let lines = wrapped(text, COLUMNS);
    lines.into_iter().map(|line| format!("# {line}"))
}

fn class_words(of: &ClassAdvice, a_day: &dyn Fn(f64) -> f64) -> String {
    let measured = format!(
        "class {}: {:.0} reads, {:.0} hits, {:.0} s a day saved",
        of.class.0,
        of.accesses,
        of.hits.0,
        a_day(of.saved_ns.0)
    );
    match of.is_known {
        true => format!(
            "{measured}; expected {:.0} hits, {:.0} s",
            of.hits.1,
            a_day(of.saved_ns.1)
        ),
        false => format!("{measured}; too little to change it, or kept out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use classes::{Advice, ClassSettings, Policy, Priority, Share};
    use units::IoClass;

    #[test]
    fn advice_is_a_policy_with_comments() {
        let csv = "IO class id,IO class name,Eviction priority,Allocation\n\
            0,unclassified,150,1.00\n1,metadata,10,0.05\n2,done,130,1.00\n";
        let mut policy = Policy::parse(csv).expect("a policy");
        let of = |priority, hundredths| ClassSettings {
            priority: Priority::Evictable(priority),
            share: Share::from_hundredths(hundredths).expect("a share"),
        };
        policy.set_fast(IoClass(1), of(10, 40));
        let settings = policy.all_fast_settings();
        let class = |n, is_known| ClassAdvice {
            class: IoClass(n),
            settings: (of(10, 5), of(10, 40)),
            accesses: 1000.0,
            hits: (100.0, 900.0),
            saved_ns: (1e9, 9e9),
            is_known,
        };
        let mut advised = Advised {
            name: "mine.csv".to_owned(),
            policy,
            advice: Advice {
                classes: vec![class(1, true), class(2, false)],
                settings,
                window_ns: 86_400_000_000_000,
                sampled: 2000,
                observed_ns: 720_000_000_000,
                times_ns: (Some(90_400.0), None),
            },
            is_better: true,
        };
        let text = lines(&advised).join("\n");
        for words in [
            "expects +800.0 % of saved device time, 18 s a day instead of 2 s",
            "hits in 90.0 % of the reads instead of 10.0 %",
            "evidence: 2000 sampled reads in 12 min of use; a read takes 90 us from the tier, a \
             time that was not measured from the pool",
            "class 1: 1000 reads, 100 hits, 1 s a day saved; expected 900 hits, 9 s",
            "too little to change it",
            "\n1,metadata,10,0.05\n# fast: 1,10,0.40\n",
        ] {
            assert!(
                text.replace("\n#   ", " ").contains(words) || text.contains(words),
                "{text}"
            );
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 120),
            "{text}"
        );
        let again = Policy::parse(&text).expect("a policy");
        assert_eq!(again.to_csv(), advised.policy.to_csv());
        advised.is_better = false;
        assert!(
            lines(&advised)
                .join(" ")
                .contains("keep the settings in force")
        );
    }
}
