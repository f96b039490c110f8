//! The values of knobs: which ones a knob takes, and one of them at run time.

use std::fmt;

use crate::units::ByteSize;

/// One word that a knob takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// The word in study files and on the command line (`tso`).
    pub word: &'static str,
    /// The phrase in a sentence, readable without the knob's name (`no offload`).
    pub prose: &'static str,
    /// The label beside the knob's name, on an axis or in a list (`GSO`).
    pub label: &'static str,
}

/// One value of a knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// One of the knob's words.
    Word(&'static str),
    /// A whole number, in the knob's unit.
    Number(u32),
}

impl fmt::Display for Value {
    /// As people write it: `on`, `tso`, `9000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(true) => f.write_str("on"),
            Self::Switch(false) => f.write_str("off"),
            Self::Word(word) => f.write_str(word),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nothing that has a unit: a count, or an identifier.
    None,
    /// Bytes; people may write `9 KiB`.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Frames.
    Frames,
}

/// The values that a knob takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Words(&'static [Word]),
    /// A whole number from `low` to `high`.
    Number {
        /// Smallest value.
        low: u32,
        /// Largest value.
        high: u32,
        /// What it counts.
        unit: Unit,
    },
}

impl Values {
    /// The words; empty for numbers.
    pub fn words(&self) -> Vec<&'static str> {
        match self {
            Self::Switch => vec!["on", "off"],
            Self::Words(words) => words.iter().map(|word| word.word).collect(),
            Self::Number { .. } => Vec::new(),
        }
    }

    /// What would be right, as a phrase: `one of none, gso, tso`.
    pub fn expected(&self) -> String {
        match *self {
            Self::Switch => "on or off".to_owned(),
            Self::Words(_) => format!("one of {}", self.words().join(", ")),
            Self::Number { low, high, unit: Unit::Bytes } => {
                format!("a size from {} to {}", ByteSize(low.into()), ByteSize(high.into()))
            }
            Self::Number { low, high, unit } => {
                let of = match unit {
                    Unit::Nanoseconds => " of nanoseconds",
                    Unit::Microseconds => " of microseconds",
                    Unit::Milliseconds => " of milliseconds",
                    Unit::Frames => " of frames",
                    Unit::None | Unit::Bytes => "",
                };
                format!("a whole number{of} from {low} to {high}")
            }
        }
    }

    /// Whether `value` is one of them.
    pub fn contain(&self, value: Value) -> bool {
        match (self, value) {
            (Self::Switch, Value::Switch(_)) => true,
            (Self::Words(words), Value::Word(word)) => words.iter().any(|w| w.word == word),
            (Self::Number { low, high, .. }, Value::Number(number)) => {
                (*low..=*high).contains(&number)
            }
            _ => false,
        }
    }
}

/// A type that a knob's field may have.
pub(super) trait KnobType: Copy {
    fn value(self) -> Value;
    /// The value as this type; `None` for a value of another kind.
    fn of(value: Value) -> Option<Self>;
}

impl KnobType for bool {
    fn value(self) -> Value {
        Value::Switch(self)
    }

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Switch(on) => Some(on),
            _ => None,
        }
    }
}

impl KnobType for u32 {
    fn value(self) -> Value {
        Value::Number(self)
    }

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }
}

impl KnobType for u16 {
    fn value(self) -> Value {
        Value::Number(self.into())
    }

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Number(number) => Self::try_from(number).ok(),
            _ => None,
        }
    }
}
