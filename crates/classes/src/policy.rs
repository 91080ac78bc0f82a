//! A policy: which class a request has, and how caches treat each class, in memory and on the fast
//! tier. Read from and written as an io-class file of Open CAS.
//!
//! Front ends classify with it, caches take [`Policy::settings`], the program explains it.
//! Invariant: classifying allocates nothing and asks only rules that can match the contents and the
//! direction of the request. Rules are asked by ascending class; the last that matches wins, unless
//! one ends the search with `&done`. No match is class 0.

use crate::CLASSES;
use crate::condition::{KINDS, Kinds, Quantity, Question};
use crate::csv::{Row, lines, write_fast, write_row};
use crate::error::{Column, HEADER, PolicyError, Problem};
use crate::facts::Facts;
use crate::rule::Rule;
use crate::settings::{ClassSettings, Priority, Share};
use units::IoClass;

/// Settings of class 0 in a file that does not mention it, as in Open CAS.
const UNCLASSIFIED: ClassSettings = ClassSettings {
    priority: Priority::Evictable(255),
    share: Share::ALL,
};

/// A compiled policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// By ascending class, without class 0.
    pub(crate) rules: Box<[Rule]>,
    settings: [ClassSettings; CLASSES],
    /// Settings of classes that the fast tier treats in another way.
    fast: [Option<ClassSettings>; CLASSES],
    /// Rules that can match, a bit each, by kind of contents; reads, then writes.
    candidates: [[u64; 2]; KINDS],
}

impl Default for Policy {
    /// No rules: everything is class 0, and caches are indifferent to it.
    fn default() -> Self {
        Self {
            rules: Box::default(),
            settings: [ClassSettings::INDIFFERENT; CLASSES],
            fast: [None; CLASSES],
            candidates: [[0; 2]; KINDS],
        }
    }
}

impl Policy {
    /// Reads a policy file.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut lines: [Option<usize>; CLASSES] = [None; CLASSES];
        let mut settings: [Option<ClassSettings>; CLASSES] = [None; CLASSES];
        let mut rules = Vec::new();
        let found = self::lines(text)?;
        for row in &found.rows {
            let at = |column| at(row.line, column);
            let [id, name, priority, allocation] = &row.fields;
            let class = read_class(id).map_err(at(Column::Id))?;
            let number = usize::from(class.0);
            if let Some(slot) = lines.get_mut(number)
                && let Some(first_line) = slot.replace(row.line)
            {
                return Err(at(Column::Id)(Problem::IdTwice { first_line }));
            }
            let is_unclassified = name.eq_ignore_ascii_case("unclassified");
            match (class.0 == 0, is_unclassified) {
                (true, true) => {}
                (false, false) => {
                    let rule = Rule::parse(class, name).map_err(at(Column::Name))?;
                    rules.push((row.line, rule));
                }
                _ => return Err(at(Column::Name)(Problem::Unclassified)),
            }
            if let Some(slot) = settings.get_mut(number) {
                *slot = Some(read_settings(row.line, priority, allocation)?);
            }
        }
        let fast = read_fast(&found.fast, &lines)?;
        rules.sort_by_key(|(_, rule)| rule.class.0);
        check_references(&rules, &lines)?;
        let unclassified = settings.first().copied().flatten().unwrap_or(UNCLASSIFIED);
        let rules: Box<[Rule]> = rules.into_iter().map(|(_, rule)| rule).collect();
        Ok(Self {
            candidates: candidates(&rules),
            rules,
            settings: settings.map(|of_class| of_class.unwrap_or(unclassified)),
            fast,
        })
    }

    /// Returns the class of a request.
    #[inline]
    pub fn classify(&self, facts: &Facts<'_>) -> IoClass {
        let kind = Kinds::number(&facts.contents) as usize;
        let of_kind = self.candidates.get(kind).copied().unwrap_or_default();
        let [reads, writes] = of_kind;
        let mut left = if facts.is_write { writes } else { reads };
        let mut class = IoClass(0);
        while left != 0 {
            let Some(rule) = self.rules.get(left.trailing_zeros() as usize) else {
                break;
            };
            left &= left - 1;
            if rule.matches(facts, class) {
                class = rule.class;
                if rule.ends {
                    break;
                }
            }
        }
        class
    }

    /// Returns true if a rule asks for the access pattern: then callers find it out.
    pub fn asks_pattern(&self) -> bool {
        let conditions = |rule: &Rule| {
            let mut all = rule.conditions.iter();
            all.any(|condition| matches!(condition.question, Question::Pattern(_)))
        };
        self.rules.iter().any(conditions)
    }

    /// Returns how caches treat a class, the fast tier too unless it has other settings. A class
    /// without a line is treated as class 0.
    #[inline]
    pub fn settings(&self, class: IoClass) -> ClassSettings {
        match self.settings.get(usize::from(class.0)) {
            Some(settings) => *settings,
            None => UNCLASSIFIED,
        }
    }

    /// Returns how caches treat each class, by number.
    pub fn all_settings(&self) -> &[ClassSettings; CLASSES] {
        &self.settings
    }

    /// Returns how the fast tier treats a class.
    pub fn fast_settings(&self, class: IoClass) -> ClassSettings {
        let fast = self.fast.get(usize::from(class.0)).copied().flatten();
        fast.unwrap_or_else(|| self.settings(class))
    }

    /// Returns how the fast tier treats each class, by number.
    pub fn all_fast_settings(&self) -> [ClassSettings; CLASSES] {
        let mut settings = self.settings;
        for (settings, fast) in settings.iter_mut().zip(self.fast) {
            *settings = fast.unwrap_or(*settings);
        }
        settings
    }

    /// Changes how caches treat a class, keeping its rule. Returns false if the policy has no such
    /// class.
    pub fn set(&mut self, class: IoClass, new: ClassSettings) -> bool {
        let has = class.0 == 0 || self.rules.iter().any(|rule| rule.class == class);
        match self.settings.get_mut(usize::from(class.0)) {
            Some(settings) if has => *settings = new,
            _ => return false,
        }
        true
    }

    /// Changes how the fast tier treats a class. Settings that are those of memory need no line of
    /// their own.
    pub fn set_fast(&mut self, class: IoClass, new: ClassSettings) {
        let own = (new != self.settings(class)).then_some(new);
        if let Some(fast) = self.fast.get_mut(usize::from(class.0)) {
            *fast = own;
        }
    }

    /// Returns the classes of the policy with their rules, by ascending number; class 0 is
    /// `unclassified`.
    pub fn classes(&self) -> impl Iterator<Item = (IoClass, &str)> {
        let rules = self.rules.iter().map(|rule| (rule.class, &*rule.text));
        std::iter::once((IoClass(0), "unclassified")).chain(rules)
    }

    /// Returns classes whose rule no request can match, such as a size of file with `metadata`, or
    /// two sizes at once.
    pub fn impossible(&self) -> impl Iterator<Item = IoClass> {
        let rules = self.rules.iter();
        let impossible = rules.filter(|rule| rule.possible() == (Kinds(0), Kinds(0)));
        impossible.map(|rule| rule.class)
    }

    /// Returns the policy as an io-class file of Open CAS.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (class, rule) in self.classes() {
            let id = class.0.to_string();
            let [priority, share] = fields_of(self.settings(class));
            write_row(&mut text, [&id, rule, &priority, &share]);
            let fast = self.fast.get(usize::from(class.0)).copied().flatten();
            if let Some([priority, share]) = fast.map(fields_of) {
                write_fast(&mut text, [&id, &priority, &share]);
            }
        }
        text
    }
}

/// Returns priority and allocation as they stand in a file.
fn fields_of(ClassSettings { priority, share }: ClassSettings) -> [String; 2] {
    let priority = match priority {
        Priority::Pinned => String::new(),
        Priority::Evictable(priority) => priority.to_string(),
    };
    let hundredths = share.hundredths();
    let share = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    [priority, share]
}

fn at(line: usize, column: Column) -> impl FnOnce(Problem) -> PolicyError {
    move |problem| PolicyError {
        line,
        column: Some(column),
        problem,
    }
}

/// Reads what comments say of the fast tier.
fn read_fast(
    rows: &[Row<'_, 3>],
    lines: &[Option<usize>; CLASSES],
) -> Result<[Option<ClassSettings>; CLASSES], PolicyError> {
    let mut fast = [None; CLASSES];
    let mut first_lines = [None; CLASSES];
    for row in rows {
        let [id, priority, allocation] = &row.fields;
        let class = read_class(id).map_err(at(row.line, Column::Id))?;
        let number = usize::from(class.0);
        let is_given = class.0 == 0 || lines.get(number).is_some_and(Option::is_some);
        if !is_given {
            let problem = Problem::FastClass { class: class.0 };
            return Err(at(row.line, Column::Id)(problem));
        }
        if let Some(slot) = first_lines.get_mut(number)
            && let Some(first_line) = slot.replace(row.line)
        {
            return Err(at(row.line, Column::Id)(Problem::FastTwice { first_line }));
        }
        if let Some(slot) = fast.get_mut(number) {
            *slot = Some(read_settings(row.line, priority, allocation)?);
        }
    }
    Ok(fast)
}

fn read_settings(
    line: usize,
    priority: &str,
    allocation: &str,
) -> Result<ClassSettings, PolicyError> {
    Ok(ClassSettings {
        priority: read_priority(priority).map_err(at(line, Column::Priority))?,
        share: read_share(allocation).map_err(at(line, Column::Allocation))?,
    })
}

/// Refuses a rule that refers to a class which is not given before it.
fn check_references(
    rules: &[(usize, Rule)],
    lines: &[Option<usize>; CLASSES],
) -> Result<(), PolicyError> {
    for (line, rule) in rules {
        for condition in &rule.conditions {
            let Question::Number(Quantity::IoClass, compare, with) = condition.question else {
                continue;
            };
            let is_given = |class: u8| {
                class == 0 || lines.get(usize::from(class)).is_some_and(Option::is_some)
            };
            let class = u8::try_from(with).unwrap_or(u8::MAX);
            let is_equality = compare == crate::condition::Compare::Eq;
            if is_equality && (class >= rule.class.0 || !is_given(class)) {
                return Err(PolicyError {
                    line: *line,
                    column: Some(Column::Name),
                    problem: Problem::LaterClass { class },
                });
            }
        }
    }
    Ok(())
}

fn candidates(rules: &[Rule]) -> [[u64; 2]; KINDS] {
    let mut candidates = [[0; 2]; KINDS];
    for (number, rule) in rules.iter().enumerate() {
        let (reads, writes) = rule.possible();
        for (kind, of_kind) in candidates.iter_mut().enumerate() {
            for (possible, mask) in [reads, writes].into_iter().zip(of_kind) {
                let is_possible = possible.0 & (1 << kind) != 0;
                *mask |= u64::from(is_possible) << number;
            }
        }
    }
    candidates
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn read_class(field: &str) -> Result<IoClass, Problem> {
    let class = field.parse::<u8>().ok().filter(|_| digits(field));
    let class = class.filter(|class| usize::from(*class) < CLASSES);
    class.map(IoClass).ok_or_else(|| Problem::Id {
        found: field.to_owned(),
    })
}

fn read_priority(field: &str) -> Result<Priority, Problem> {
    match field.parse::<u8>() {
        Ok(priority) if digits(field) => Ok(Priority::Evictable(priority)),
        Err(_) if field.is_empty() => Ok(Priority::Pinned),
        _ => Err(Problem::Priority {
            found: field.to_owned(),
        }),
    }
}

/// Reads `0`, `0.5`, `0.50`, `1.00`.
fn read_share(field: &str) -> Result<Share, Problem> {
    let refuse = || Problem::Allocation {
        found: field.to_owned(),
    };
    let (whole, part) = field.split_once('.').unwrap_or((field, "0"));
    if !digits(whole) || !digits(part) || part.len() > 2 {
        return Err(refuse());
    }
    let whole: u8 = whole.parse().map_err(|_| refuse())?;
    let part: u8 = format!("{part:0<2}").parse().map_err(|_| refuse())?;
    let hundredths = whole.checked_mul(100).and_then(|all| all.checked_add(part));
    hundredths
        .and_then(Share::from_hundredths)
        .ok_or_else(refuse)
}

#[cfg(test)]
mod tests;
