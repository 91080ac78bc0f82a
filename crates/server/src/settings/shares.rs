//! Shares of the device as the user sets and sees them: `KEY=VALUE`. `serve` and `qos` call this.
//!
//! Invariant: displayed values can be set again as they are. A value out of range is refused with
//! its name and changes nothing.

use super::TaskSchedule;
use super::number::{number, period_s};
use qos::{DeviceKind, Flow, Plan};
use terminal::environment::SettingError;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;
/// Default time limit of a scrub pass, seconds. A slower pass gets more of a busy device.
const SCRUB_WITHIN_S: u64 = 30 * 86_400;

/// All settings of shares and of automatic maintenance.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Shares {
    /// Shares of the device.
    pub plan: Plan,
    /// Deadlines of maintenance.
    pub within: Within,
    /// Settings of automatic maintenance.
    pub schedule: TaskSchedule,
}

/// Times in which a run of each task should be through, seconds. A slower run gets more of a busy
/// device. 0: whenever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Within {
    /// A copy to another pool.
    pub copy_s: u64,
    /// A run of gc.
    pub gc_s: u64,
    /// A scrub pass.
    pub scrub_s: u64,
    /// A defragmentation.
    pub defrag_s: u64,
}

impl Default for Within {
    fn default() -> Self {
        Self {
            copy_s: 0,
            gc_s: 0,
            scrub_s: SCRUB_WITHIN_S,
            defrag_s: 0,
        }
    }
}

impl Within {
    /// Returns the time for a flow; 0 for users.
    pub fn of(&self, flow: Flow) -> u64 {
        match flow {
            Flow::Replication => self.copy_s,
            Flow::Collect => self.gc_s,
            Flow::Scrub => self.scrub_s,
            Flow::Defragment => self.defrag_s,
            _ => 0,
        }
    }
}

/// Returns the name of a flow for users and metrics.
pub const fn flow_name(flow: Flow) -> &'static str {
    match flow {
        Flow::ForegroundNonSequential => "random",
        Flow::ForegroundSequential => "sequential",
        Flow::Restore => "restore",
        Flow::Backup => "backup",
        Flow::Replication => "replication",
        Flow::Collect => "collect",
        Flow::Scrub => "scrub",
        Flow::Defragment => "defragment",
    }
}

/// Returns the name of a device kind for users.
pub const fn kind_name(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Disk => "disk",
        DeviceKind::Ssd => "ssd",
    }
}

impl Shares {
    /// Applies several `KEY=VALUE` to these settings.
    pub fn with<T: AsRef<str>>(mut self, texts: &[T]) -> Result<Self, SettingError> {
        for text in texts {
            let text = text.as_ref();
            let refuse = |why: String| SettingError::new(text, why);
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| refuse("it is not KEY=VALUE (see quintet qos show)".to_owned()))?;
            self.set(key.trim(), value.trim()).map_err(refuse)?;
        }
        let checked = self.plan.check();
        checked.map_err(|e| SettingError::new("shares", e))?;
        Ok(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if let Some(set) = self.schedule.set(key, value) {
            return set;
        }
        let plan = &mut self.plan;
        match key {
            "device" => {
                plan.device = match value {
                    "auto" => None,
                    "disk" => Some(DeviceKind::Disk),
                    "ssd" => Some(DeviceKind::Ssd),
                    _ => return Err("the value is auto, disk or ssd".to_owned()),
                };
            }
            "in-flight" => {
                plan.in_flight_max = match value {
                    "auto" => None,
                    _ => Some(number(value, 2, 4096)?),
                };
            }
            "random" => plan.non_sequential_percent = number(value, 1, 99)?,
            "floors" => plan.floors_percent_max = number(value, 1, 90)?,
            "delay" => plan.targets.delay_ns_max = number::<u64>(value, 0, 10_000)? * MS,
            "copy-within" => self.within.copy_s = period_s(value)?,
            "gc-within" => self.within.gc_s = period_s(value)?,
            "scrub-within" => self.within.scrub_s = period_s(value)?,
            "defrag-within" => self.within.defrag_s = period_s(value)?,
            _ => return self.set_of_flow(key, value),
        }
        Ok(())
    }

    /// Sets `weight.FLOW`, `floor.FLOW` or `latency.FLOW`.
    fn set_of_flow(&mut self, key: &str, value: &str) -> Result<(), String> {
        let unknown = || "there is no such key (see quintet qos show)".to_owned();
        let (what, name) = key.split_once('.').ok_or_else(unknown)?;
        let named = Flow::ALL.into_iter().find(|flow| flow_name(*flow) == name);
        let flow = named.filter(|flow| has(what, *flow)).ok_or_else(unknown)?;
        let (plan, at) = (&mut self.plan, flow as usize);
        match what {
            "weight" => plan.weights[at] = number(value, 1, 1000)?,
            "floor" => plan.floors_permille[at] = permille(value)?,
            _ if value == "any" => plan.targets.target_ns[at] = u64::MAX,
            _ => plan.targets.target_ns[at] = number::<u64>(value, 1, 60_000)? * MS,
        }
        Ok(())
    }

    /// Returns all keys and their values.
    pub fn entries(&self) -> Vec<(String, String)> {
        let plan = &self.plan;
        let mut entries = vec![
            (
                "device".to_owned(),
                plan.device.map_or("auto", kind_name).to_owned(),
            ),
            (
                "in-flight".to_owned(),
                plan.in_flight_max
                    .map_or("auto".to_owned(), |max| max.to_string()),
            ),
            ("random".to_owned(), plan.non_sequential_percent.to_string()),
        ];
        for what in ["weight", "floor", "latency"] {
            for flow in Flow::ALL.into_iter().filter(|flow| has(what, *flow)) {
                let at = flow as usize;
                let value = match (what, plan.targets.target_ns[at]) {
                    ("weight", _) => plan.weights[at].to_string(),
                    ("floor", _) => {
                        let floor = plan.floors_permille[at];
                        format!("{}.{}", floor / 10, floor % 10)
                    }
                    (_, u64::MAX) => "any".to_owned(),
                    (_, ns) => (ns / MS).to_string(),
                };
                entries.push((format!("{what}.{}", flow_name(flow)), value));
            }
        }
        entries.extend([
            ("floors".to_owned(), plan.floors_percent_max.to_string()),
            (
                "delay".to_owned(),
                (plan.targets.delay_ns_max / MS).to_string(),
            ),
        ]);
        for (key, within_s) in [
            ("copy-within", self.within.copy_s),
            ("gc-within", self.within.gc_s),
            ("scrub-within", self.within.scrub_s),
            ("defrag-within", self.within.defrag_s),
        ] {
            let value = match within_s {
                0 => "0".to_owned(),
                _ if within_s.is_multiple_of(86_400) => format!("{}d", within_s / 86_400),
                _ => format!("{within_s}s"),
            };
            entries.push((key.to_owned(), value));
        }
        entries.extend(self.schedule.entries());
        entries
    }
}

/// Returns true if a flow has this key. Random requests have a percentage instead of a weight. Only
/// maintenance has I/O floors, and it has no latency target.
fn has(what: &str, flow: Flow) -> bool {
    match what {
        "weight" => flow != Flow::ForegroundNonSequential,
        "floor" => flow.is_maintenance(),
        "latency" => !flow.is_maintenance(),
        _ => false,
    }
}

/// Parses a percentage with at most one decimal. Returns thousandths.
fn permille(text: &str) -> Result<u16, String> {
    let refuse = |_| "the value is 0 to 20 percent, in steps of 0.1".to_owned();
    let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
    let whole: u16 = number(whole, 0, 20).map_err(refuse)?;
    let tenth: u16 = number(tenth, 0, 9).map_err(refuse)?;
    Some(whole * 10 + tenth)
        .filter(|p| *p <= 200)
        .ok_or_else(|| refuse(String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_set_again() {
        let wishes = [
            "device=disk",
            "in-flight=330",
            "random=35",
            "weight.backup=7",
            "floor.scrub=2.5",
            "floors=40",
        ];
        let more = [
            "latency.random=80",
            "latency.restore=any",
            "delay=0",
            "copy-within=0",
            "gc-within=7200s",
            "scrub-within=90s",
            "defrag-within=2d",
            "gc=off",
            "gc-free=5",
            "gc-free-max=300M",
            "gc-unused=40",
            "scrub=off",
            "hot-chunks=off",
        ];
        let set = Shares::default()
            .with(&wishes)
            .unwrap()
            .with(&more)
            .unwrap();
        assert_eq!(set.plan.non_sequential_percent, 35);
        assert_eq!(set.plan.floors_permille[Flow::Scrub as usize], 25);
        let shown = set
            .entries()
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"));
        let shown: Vec<String> = shown.collect();
        assert_eq!(Shares::default().with(&shown), Ok(set));
        for wish in wishes.iter().chain(&more) {
            assert!(
                shown.iter().any(|line| line == wish),
                "{wish} is not in {shown:?}"
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "random",
            "random=0",
            "random=100",
            "random=x",
            "device=tape",
            "weight.random=3",
            "weight.backup=0",
            "floor.backup=1",
            "floor.scrub=20.1",
            "floor.scrub=2.55",
            "latency.scrub=1",
            "latency.random=0",
            "floors=91",
            "delay=10001",
            "scrub-within=1",
            "copy-within=soon",
            "gc=on",
            "gc-free=51",
            "gc-free-max=much",
            "gc-unused=0",
            "scrub=now",
            "hot-chunks=0",
            "hot-chunks=21",
            "hot-chunks=auto",
            "speed=9",
            "weight.tape=1",
        ] {
            assert!(Shares::default().with(&[wrong]).is_err(), "{wrong}");
        }
    }
}
