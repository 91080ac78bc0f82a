//! Operations of a pool's life, scripted and random. Histories and `process` use them.
//!
//! Invariant: one list for all histories.

use crate::Seed;

/// Kind of the source of a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A disk image, in fixed chunks.
    Image,
    /// A stream, in content-defined chunks.
    Stream,
    /// A file tree.
    Tree,
}

/// End of a session without a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// `WriteSession::abandon`: open containers are stored for the next run.
    Abandon,
    /// The session is dropped; full containers are stored already.
    Drop,
}

/// An action of a user, or an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolOp {
    /// Creates a pool with this many secrets; none: not encrypted.
    Init(u32),
    /// Adds a key, by password or recovery key.
    AddKey,
    /// Removes the oldest key.
    RemoveKey,
    /// Changes the password: adds a key, then removes the oldest.
    ChangeKey,
    /// Changes the source a little, and backs it up with this many extra lanes in one commit.
    Backup(What, usize),
    /// Changes the source a little, and ends the session without a commit.
    Interrupted(What, usize, Ending),
    /// Changes the source a little, backs it up in another pool with its own keys, and replicates
    /// everything that is missing here.
    Copy(What),
    /// Removes the oldest snapshots, this many.
    Forget(usize),
    /// Replaces the record of the newest snapshot.
    Tag,
    /// Makes this many small commits.
    Tags(usize),
    /// Inverts a bit of every region of user data; a second time restores it. For histories in
    /// which no snapshot needs data at that time.
    Rot,
    /// Repairs the pool.
    Repair,
    /// Moves the oldest snapshots to the trash, this many.
    Discard(usize),
    /// Restores the newest snapshot from the trash, if there is one.
    Undelete,
    /// Runs gc completely, without trash periods.
    Collect,
    /// Does this many steps of a gc run that continues beside later operations.
    CollectSteps(usize),
    /// Closes the pool and opens it in another process.
    Reopen,
    /// Deletes the index file between two processes.
    LoseIndex,
    /// Kills the process after this many disk operations of this operation; the next one takes
    /// over.
    Killed(u64, Box<PoolOp>),
}

/// `op`, with a kill after this many disk operations.
pub fn killed(after: u64, op: PoolOp) -> PoolOp {
    PoolOp::Killed(after, Box::new(op))
}

/// The scripted histories: each explores its part of a pool's life from the first operation on.
pub fn scripts() -> Vec<(&'static str, Vec<PoolOp>)> {
    use PoolOp::{
        AddKey, Backup, ChangeKey, Collect, CollectSteps, Copy, Discard, Forget, Init, Interrupted,
        LoseIndex, RemoveKey, Reopen, Repair, Rot, Tag, Tags, Undelete,
    };
    use What::{Image, Stream, Tree};
    let kills = |op: PoolOp, at: &[u64]| at.iter().map(|n| killed(*n, op.clone())).collect();
    let join = |parts: Vec<Vec<PoolOp>>| parts.concat();
    vec![
        ("init", vec![Init(2), Backup(Stream, 0)]),
        (
            "init, killed",
            join(vec![
                kills(Init(2), &[2, 9, 17, 26, 33, 38, 41]),
                vec![Init(1), Backup(Stream, 0)],
            ]),
        ),
        (
            "keys",
            vec![
                Init(1),
                AddKey,
                ChangeKey,
                RemoveKey,
                Backup(Stream, 0),
                ChangeKey,
            ],
        ),
        (
            "keys, killed",
            join(vec![
                vec![Init(1)],
                kills(AddKey, &[5, 9, 10, 11]),
                vec![RemoveKey],
                kills(ChangeKey, &[6, 11, 12, 13, 14, 15]),
                vec![RemoveKey, Backup(Stream, 0)],
            ]),
        ),
        (
            // Found by the next process, which removes the only durable key.
            "keys, replaced",
            vec![
                Init(1),
                killed(12, AddKey),
                RemoveKey,
                killed(13, AddKey),
                RemoveKey,
                killed(7, AddKey),
                RemoveKey,
                Backup(Stream, 0),
            ],
        ),
        (
            // A commit found by the next process is durable with that process's next change.
            "found",
            (9..36).step_by(3).fold(vec![Init(1)], |mut ops, after| {
                ops.extend([killed(after, Backup(Stream, 0)), AddKey, RemoveKey]);
                ops
            }),
        ),
        (
            "backups",
            vec![
                Init(0),
                Backup(Image, 0),
                Backup(Stream, 2),
                Backup(Tree, 0),
                Backup(Image, 2),
                Backup(Tree, 3),
                Tag,
                Forget(2),
                Backup(Tree, 1),
            ],
        ),
        (
            "interrupted",
            vec![
                Init(0),
                Backup(Tree, 0),
                Interrupted(Tree, 1, Ending::Abandon),
                Backup(Tree, 0),
                Interrupted(Image, 0, Ending::Drop),
                Interrupted(Image, 0, Ending::Abandon),
                Reopen,
                Backup(Image, 0),
                Interrupted(Stream, 0, Ending::Drop),
                Backup(Stream, 1),
            ],
        ),
        (
            "killed",
            join(vec![
                vec![Init(1), Backup(Tree, 0)],
                kills(Backup(Tree, 1), &[4, 9, 15, 18, 21, 24]),
                vec![Backup(Tree, 0)],
                kills(Backup(Image, 0), &[7, 16, 22, 28]),
                vec![Forget(1)],
                kills(Forget(1), &[5, 9, 14]),
                vec![Tag, Reopen, Backup(Stream, 0)],
            ]),
        ),
        (
            "index lost",
            join(vec![
                vec![
                    Init(0),
                    Backup(Image, 0),
                    LoseIndex,
                    Backup(Image, 0),
                    LoseIndex,
                ],
                kills(Backup(Stream, 0), &[3, 12, 20]),
                vec![LoseIndex, Backup(Stream, 0)],
            ]),
        ),
        (
            // Damaged chunks are stored again once that is acknowledged, whatever happened to the
            // notes.
            "rotten",
            join(vec![
                vec![Init(1), Backup(Stream, 0), Forget(1), Rot],
                kills(Repair, &[3, 8, 12, 14]),
                vec![Repair, Backup(Stream, 1), Reopen, Repair, Backup(Stream, 0)],
            ]),
        ),
        (
            "rotten for a while",
            join(vec![
                vec![Init(0), Backup(Stream, 0), Forget(1), Rot, Repair, Rot],
                kills(Repair, &[5, 11, 13]),
                vec![Repair, Backup(Stream, 0), Repair],
            ]),
        ),
        (
            "collected",
            vec![
                Init(0),
                Backup(Stream, 0),
                Backup(Tree, 0),
                Discard(1),
                Collect,
                Backup(Tree, 0),
                Collect,
                Discard(2),
                Collect,
                Collect,
                Backup(Image, 0),
                Collect,
            ],
        ),
        (
            "collected beside backups",
            vec![
                Init(0),
                Backup(Image, 0),
                Backup(Tree, 0),
                CollectSteps(3),
                Discard(2),
                Undelete,
                CollectSteps(4),
                Backup(Image, 1),
                CollectSteps(3),
                Interrupted(Stream, 0, Ending::Abandon),
                CollectSteps(3),
                Discard(1),
                CollectSteps(9),
                Backup(Stream, 0),
                CollectSteps(40),
                CollectSteps(40),
                CollectSteps(40),
            ],
        ),
        (
            "collected, killed",
            join(vec![
                vec![Init(1), Backup(Image, 0), Backup(Stream, 0), Discard(1)],
                kills(Collect, &[6, 14, 20, 26, 33, 40]),
                vec![Collect, Backup(Image, 0), Discard(1)],
                kills(Collect, &[9, 16, 23, 31, 44, 60]),
                vec![Backup(Stream, 0), Collect],
            ]),
        ),
        (
            "copied",
            vec![
                Init(1),
                Backup(Image, 0),
                Copy(Image),
                Copy(Tree),
                Copy(Stream),
                Copy(Image),
                Copy(Tree),
                Forget(2),
                Copy(Stream),
                Backup(Tree, 1),
            ],
        ),
        (
            "copied, killed",
            join(vec![
                vec![Init(0), Copy(Tree)],
                kills(Copy(Tree), &[4, 9, 14, 17, 20, 24]),
                vec![Copy(Image)],
                kills(Copy(Image), &[5, 11, 16, 21]),
                kills(Copy(Stream), &[8, 13, 19]),
                vec![Forget(1), Reopen, Copy(Stream)],
            ]),
        ),
        (
            "old roots",
            vec![Init(0), Backup(Stream, 0), Tags(19), Backup(Stream, 0)],
        ),
    ]
}

/// Random operations after the first, which creates the pool.
pub fn random_ops(seed: u64, count: usize) -> Vec<PoolOp> {
    let mut seed = Seed::new(seed).part(1);
    let mut ops = vec![PoolOp::Init(seed.below(3) as u32)];
    ops.extend((0..count).map(|_| draw(&mut seed)));
    ops
}

fn draw(seed: &mut Seed) -> PoolOp {
    if seed.chance(50) {
        return killed(1 + seed.below(40), draw(seed));
    }
    match seed.below(28) {
        0 => PoolOp::AddKey,
        1 => PoolOp::RemoveKey,
        2 => PoolOp::ChangeKey,
        3..=9 => PoolOp::Backup(draw_what(seed), draw_lanes(seed)),
        10..=11 => PoolOp::Interrupted(draw_what(seed), draw_lanes(seed), Ending::Abandon),
        12..=13 => PoolOp::Interrupted(draw_what(seed), draw_lanes(seed), Ending::Drop),
        14 => PoolOp::Forget(1 + seed.below(2) as usize),
        15 => PoolOp::Tag,
        16 => PoolOp::Tags(seed.below(12) as usize),
        17..=18 => PoolOp::Reopen,
        20 => PoolOp::Discard(1 + seed.below(2) as usize),
        21 => PoolOp::Undelete,
        22 => PoolOp::Collect,
        26..=27 => PoolOp::Copy(draw_what(seed)),
        23..=25 => PoolOp::CollectSteps(1 + seed.below(12) as usize),
        _ => PoolOp::LoseIndex,
    }
}

fn draw_what(seed: &mut Seed) -> What {
    [What::Image, What::Stream, What::Tree][seed.below(3) as usize]
}

fn draw_lanes(seed: &mut Seed) -> usize {
    seed.below(6).saturating_sub(3) as usize
}
