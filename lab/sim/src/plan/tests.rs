//! Plans of a crash point and what each keeps.

use super::*;
use std::collections::HashSet;

const NAME: Shape = Shape {
    is_name: true,
    sectors: 0,
};
const WRITE: Shape = Shape {
    is_name: false,
    sectors: 8,
};

#[test]
fn a_generous_quota_gives_every_kind() {
    let shapes = [NAME, WRITE, NAME, WRITE];
    let plans = Plan::systematic(&shapes, 0, 1000, &mut Seed::new(1));
    let has = |plan: Plan| assert!(plans.contains(&plan), "{plan:?}");
    [
        Plan::Nothing,
        Plan::Everything,
        Plan::NamesOnly,
        Plan::NamesAndZeroes,
        Plan::BytesOnly,
    ]
    .into_iter()
    .for_each(has);
    for unit in 0..4 {
        [Plan::Prefix(unit), Plan::Without(unit), Plan::Only(unit)]
            .into_iter()
            .for_each(has);
        (unit + 1..4).for_each(|other| has(Plan::WithoutPair(unit, other)));
    }
    for unit in [1, 3] {
        for rest in [Rest::Earlier, Rest::Others] {
            for tear in [Tear::Zeroes, Tear::Cut(1), Tear::Cut(7)] {
                has(Plan::Torn { unit, tear, rest });
            }
            let random = |plan: &&Plan| match plan {
                Plan::Torn {
                    unit: at,
                    tear: Tear::Sectors(_),
                    rest: others,
                } => (*at, *others) == (unit, rest),
                _ => false,
            };
            assert!(
                plans.iter().any(|plan| random(&plan)),
                "random sectors of {unit}"
            );
        }
    }
}

#[test]
fn the_quota_is_kept_and_filled() {
    let shapes = [WRITE; 40];
    for quota in [1, 2, 3, 10, 100, 500] {
        let plans = Plan::systematic(&shapes, 8, quota, &mut Seed::new(quota as u64));
        assert!(
            plans.len() <= quota && plans.len() >= quota / 2,
            "{quota}: {}",
            plans.len()
        );
        assert_eq!(
            plans.iter().collect::<HashSet<_>>().len(),
            plans.len(),
            "no plan twice"
        );
    }
    assert_eq!(
        Plan::systematic(&[], 0, 100, &mut Seed::new(1)),
        [Plan::Everything]
    );
}

#[test]
fn outcomes_are_as_the_names_say() {
    let shapes = [NAME, WRITE, NAME];
    let kept = |plan: Plan| {
        let letter = |outcome: Outcome| match outcome {
            Outcome::Lost => '-',
            Outcome::Whole => '+',
            Outcome::Torn(_) => '~',
        };
        plan.outcomes(&shapes)
            .into_iter()
            .map(letter)
            .collect::<String>()
    };
    let tear = Tear::Cut(1);
    for (plan, expected) in [
        (Plan::Nothing, "---"),
        (Plan::Everything, "+++"),
        (Plan::Prefix(2), "++-"),
        (Plan::Without(1), "+-+"),
        (Plan::WithoutPair(0, 1), "--+"),
        (Plan::Only(1), "-+-"),
        (Plan::NamesOnly, "+-+"),
        (Plan::NamesAndZeroes, "+~+"),
        (Plan::BytesOnly, "-+-"),
        (
            Plan::Torn {
                unit: 1,
                tear,
                rest: Rest::Earlier,
            },
            "+~-",
        ),
        (
            Plan::Torn {
                unit: 1,
                tear,
                rest: Rest::Others,
            },
            "+~+",
        ),
    ] {
        assert_eq!(kept(plan), expected, "{plan:?}");
    }
    let random: HashSet<String> = (0..2000).map(|seed| kept(Plan::Random(seed))).collect();
    assert_eq!(random.len(), 12, "all that can happen: {random:?}");
}
