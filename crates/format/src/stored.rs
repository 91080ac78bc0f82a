//! Defines the stored form of a value once, for both directions: [`stored`] makes the struct or the
//! enum, its encoder and its decoder from one list of fields. The modules of records call this.
//!
//! Invariant: numbers are little-endian and have a fixed width, fields follow each other in the
//! order of the list, and what was taken was put. A list takes no more memory than its bytes
//! justify.

use crate::bytes::{Reader, Result, Writer};
use units::UnixNanos;

/// A value with one stored form.
pub(crate) trait Stored: Sized {
    /// Appends the value.
    fn put(&self, w: &mut Writer);

    /// Takes a value. An impossible one is an error.
    fn take(r: &mut Reader<'_>) -> Result<Self>;

    /// Appends values, one after another.
    fn put_all(values: &[Self], w: &mut Writer) {
        values.iter().for_each(|value| value.put(w));
    }

    /// Takes `count` values.
    fn take_all(r: &mut Reader<'_>, count: u64) -> Result<Vec<Self>> {
        (0..count).map(|_| Self::take(r)).collect()
    }
}

/// Defines a struct or an enum with its stored form.
///
/// ```text
/// pub struct Pass {                   the fields in this order
///     pub began: UnixNanos,
///     pub phase: TaskPhase => zero 7, seven zero bytes follow the field
/// }
/// pub struct Counts with names {      all fields are u64; fields() lists them for JSON
///     pub files: u64,
/// }
/// pub enum TaskPhase: "phase" {       one byte; "phase" names it in errors
///     AtRest = 0 => "at_rest",        name() returns what follows the arrow, which all
/// }                                   variants have or none
/// ```
macro_rules! stored {
    (
        $(#[$of:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty $(=> zero $zeroes:literal)?,)*
        }
    ) => {
        $(#[$of])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::stored::Stored for $name {
            fn put(&self, w: &mut $crate::bytes::Writer) {
                $(
                    $crate::stored::Stored::put(&self.$field, w);
                    $(w.bytes(&[0; $zeroes]);)?
                )*
            }

            fn take(r: &mut $crate::bytes::Reader<'_>) -> $crate::bytes::Result<Self> {
                $(
                    let $field = <$type as $crate::stored::Stored>::take(r)?;
                    $($crate::stored::take_zeroes::<$zeroes>(r)?;)?
                )*
                Ok(Self { $($field),* })
            }
        }
    };
    (
        $(#[$of:meta])*
        pub struct $name:ident with names {
            $($(#[$doc:meta])* pub $field:ident: u64,)*
        }
    ) => {
        $crate::stored::stored! {
            $(#[$of])*
            pub struct $name {
                $($(#[$doc])* pub $field: u64,)*
            }
        }

        impl $name {
            /// Returns the numbers with their names, in the order of the JSON.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
    (
        $(#[$of:meta])*
        pub enum $name:ident: $what:literal {
            $($(#[$doc:meta])* $variant:ident = $number:literal,)*
        }
    ) => {
        $(#[$of])*
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $name {
            /// Takes a value. A number that stands for none is an error.
            pub fn decode(r: &mut $crate::bytes::Reader<'_>) -> $crate::bytes::Result<Self> {
                Ok(match r.u8()? {
                    $($number => Self::$variant,)*
                    _ => return r.invalid($what),
                })
            }
        }

        impl $crate::stored::Stored for $name {
            fn put(&self, w: &mut $crate::bytes::Writer) {
                w.u8(*self as u8);
            }

            fn take(r: &mut $crate::bytes::Reader<'_>) -> $crate::bytes::Result<Self> {
                Self::decode(r)
            }
        }
    };
    (
        $(#[$of:meta])*
        pub enum $name:ident: $what:literal {
            $($(#[$doc:meta])* $variant:ident = $number:literal => $text:literal,)*
        }
    ) => {
        $crate::stored::stored! {
            $(#[$of])*
            pub enum $name: $what {
                $($(#[$doc])* $variant = $number,)*
            }
        }

        impl $name {
            /// Returns its name in text and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
pub(crate) use stored;

/// Numbers, each as its bytes. Lists of them are copied as a whole.
macro_rules! stored_numbers {
    ($($number:ident)*) => {$(
        impl Stored for $number {
            fn put(&self, w: &mut Writer) {
                w.bytes(&self.to_le_bytes());
            }

            fn take(r: &mut Reader<'_>) -> Result<Self> {
                r.array().map(Self::from_le_bytes)
            }

            fn put_all(values: &[Self], w: &mut Writer) {
                let before = w.0.len();
                w.0.resize(before + size_of_val(values), 0);
                let places = w.0.get_mut(before..).unwrap_or_default();
                let (places, _) = places.as_chunks_mut::<{ size_of::<$number>() }>();
                for (place, value) in places.iter_mut().zip(values) {
                    *place = value.to_le_bytes();
                }
            }

            fn take_all(r: &mut Reader<'_>, count: u64) -> Result<Vec<Self>> {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let bytes = r.take(count.saturating_mul(size_of::<$number>()))?;
                let (values, _) = bytes.as_chunks::<{ size_of::<$number>() }>();
                Ok(Vec::from_iter(values.iter().copied().map(Self::from_le_bytes)))
            }
        }
    )*};
}
stored_numbers!(u8 u32 u64 u128 i64);

impl Stored for UnixNanos {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self> {
        Stored::take(r).map(Self)
    }
}

/// A list: its length, then the values.
impl<V: Stored> Stored for Vec<V> {
    fn put(&self, w: &mut Writer) {
        w.u64(self.len() as u64);
        V::put_all(self, w);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self> {
        let count = r.u64()?;
        V::take_all(r, count)
    }
}

impl<V: Stored + Copy + Default, const N: usize> Stored for [V; N] {
    fn put(&self, w: &mut Writer) {
        V::put_all(self, w);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self> {
        let mut values = [V::default(); N];
        for value in &mut values {
            *value = V::take(r)?;
        }
        Ok(values)
    }
}

/// Takes `N` bytes, which must be zero.
pub(crate) fn take_zeroes<const N: usize>(r: &mut Reader<'_>) -> Result<()> {
    match r.array::<N>()? == [0; N] {
        true => Ok(()),
        false => r.invalid("reserved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Fault;

    stored! {
        /// A value of each kind.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Sample {
            /// A byte, and a gap.
            pub byte: u8 => zero 3,
            /// A choice.
            pub choice: Choice,
            /// A list.
            pub list: Vec<u32>,
            /// Two numbers.
            pub pair: [u64; 2],
        }
    }

    stored! {
        /// One of two.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Choice: "choice" {
            /// One.
            One = 1 => "one",
            /// The other.
            Other = 4 => "other",
        }
    }

    fn taken(bytes: &[u8]) -> Result<Sample> {
        let mut r = Reader::new("sample", bytes);
        let sample = Sample::take(&mut r)?;
        r.finish()?;
        Ok(sample)
    }

    #[test]
    fn what_was_put_is_taken_and_nothing_else() {
        let sample = Sample {
            byte: 9,
            choice: Choice::Other,
            list: vec![1, 1 << 16],
            pair: [3, 5],
        };
        let mut w = Writer::new();
        sample.put(&mut w);
        let head: [u8; 13] = [9, 0, 0, 0, 4, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(w.0[..13], head);
        assert_eq!(w.0[13..21], [1, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(w.0.len(), 21 + 16);
        assert_eq!(taken(&w.0), Ok(sample));
        assert_eq!(Choice::Other.name(), "other");
        let refused = |at: usize, value: u8| {
            let mut bytes = w.0.clone();
            bytes[at] = value;
            taken(&bytes).unwrap_err().fault
        };
        assert_eq!(refused(2, 1), Fault::Invalid("reserved"));
        assert_eq!(refused(4, 2), Fault::Invalid("choice"));
        assert_eq!(refused(5, 1), Fault::Invalid("length"));
        assert_eq!(refused(12, 0xff), Fault::Truncated);
    }
}
