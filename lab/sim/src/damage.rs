//! Damages files behind the program's back: the actions of the damage matrix. The store's damage
//! tests call this; they copy one good [`crate::Image`] for every cell of the matrix.
//!
//! Invariant: damage is durable at once and clears the record, so a crash cannot undo it.

use crate::content::Content;
use crate::disk::SimDisk;
use crate::image::{Dir, FileId, Image, Node, TOP};
use crate::state::error;
use media::MediaError;
use std::io;
use std::sync::Arc;

/// Damage of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Inverts bit `n` of the file, counted from the lowest bit of its first byte and modulo the
    /// file's length.
    FlipBit(u64),
    /// Zeroes a range; the length stays.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Overwrites bytes, growing the file if necessary.
    Overwrite {
        /// First byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Truncates, or grows with zeroes.
    SetLen(u64),
    /// Replaces all bytes.
    Replace(Vec<u8>),
    /// Exchanges the contents with another file, which exists.
    Swap(String),
    /// Deletes the name.
    Delete,
}

impl SimDisk {
    /// Damages the file at `path`. Fails with `NotFound` if there is no such file.
    pub fn damage(&self, path: &str, damage: &Damage) -> Result<(), MediaError> {
        let mut state = self.state();
        let image = &mut state.image;
        let file = find(image, path)?;
        let len = image.files.get(file).len();
        match damage {
            Damage::FlipBit(bit) if len > 0 => {
                let mut byte = [0];
                let at = (bit / 8) % len;
                image.files.get(file).read(at, &mut byte);
                image
                    .files
                    .get_mut(file)
                    .write(at, &[byte[0] ^ (1 << (bit % 8))]);
            }
            Damage::FlipBit(_) => {}
            Damage::Zero { offset, len: count } => {
                let end = offset.saturating_add(*count).min(len);
                let zeroes = vec![0; end.saturating_sub(*offset) as usize];
                image.files.get_mut(file).write(*offset, &zeroes);
            }
            Damage::Overwrite { offset, bytes } => image.files.get_mut(file).write(*offset, bytes),
            Damage::SetLen(len) => image.files.get_mut(file).set_len(*len),
            Damage::Replace(bytes) => {
                image.files.set(file, Arc::new(Content::from_bytes(bytes)));
            }
            Damage::Swap(other) => {
                let other = find(image, other)?;
                let content = Arc::clone(image.files.get(file));
                let others = Arc::clone(image.files.get(other));
                image.files.set(file, others);
                image.files.set(other, content);
            }
            Damage::Delete => {
                let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
                if let Some(Node::Dir(dir)) = image.find(dir) {
                    image.dirs.get_mut(dir).remove(name);
                }
            }
        }
        drop(state);
        self.settle();
        Ok(())
    }

    /// Puts a file at `path`, including directories, in place of any other: a foreign file, or an
    /// old one that reappears.
    pub fn plant(&self, path: &str, bytes: &[u8]) {
        let mut state = self.state();
        let image = &mut state.image;
        let mut dir = TOP;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                let file = image.files.push(Content::from_bytes(bytes));
                image
                    .dirs
                    .get_mut(dir)
                    .insert(name.into(), Node::File(file));
            } else if let Some(Node::Dir(under)) = image.entry(dir, name) {
                dir = under;
            } else {
                let under = image.dirs.push(Dir::new());
                image
                    .dirs
                    .get_mut(dir)
                    .insert(name.into(), Node::Dir(under));
                dir = under;
            }
        }
        drop(state);
        self.settle();
    }
}

fn find(image: &Image, path: &str) -> Result<FileId, MediaError> {
    match image.find(path) {
        Some(Node::File(file)) => Ok(file),
        _ => Err(error("damage", path, io::ErrorKind::NotFound)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_damage_shows() {
        let good = SimDisk::new();
        good.plant("a/x", b"hello");
        good.plant("a/y", b"world");
        let after = |damage: Damage| {
            let disk = SimDisk::on(good.image());
            disk.damage("a/x", &damage)
                .map(|()| disk.image().contents("a/x"))
        };
        let some = |bytes: &[u8]| Some(bytes.to_vec());
        assert_eq!(after(Damage::FlipBit(8)).unwrap(), some(b"hdllo"));
        assert_eq!(
            after(Damage::Zero { offset: 3, len: 9 }).unwrap(),
            some(b"hel\0\0")
        );
        assert_eq!(after(Damage::SetLen(2)).unwrap(), some(b"he"));
        assert_eq!(after(Damage::Replace(b"no".into())).unwrap(), some(b"no"));
        assert_eq!(after(Damage::Swap("a/y".into())).unwrap(), some(b"world"));
        assert_eq!(after(Damage::Delete).unwrap(), None);
        let over = Damage::Overwrite {
            offset: 4,
            bytes: b"!!".into(),
        };
        assert_eq!(after(over).unwrap(), some(b"hell!!"));
        assert!(after(Damage::Swap("a/z".into())).is_err());
        assert_eq!(good.image().contents("a/x"), some(b"hello"));
    }
}
