//! Every setting of a cell, in one table.
//!
//! A key of [`KEYS`] may be in `[workload]`, be a factor, or be an option on the command line. It
//! has the same name, the same values and the same help everywhere, because every value goes
//! through [`apply`]. [`check`] refuses settings that cannot be combined, and [`misplaced`] refuses
//! keys that an adapter does not have.

mod atm;
mod combination;
mod event;
mod port;
mod refusal;
mod table;

use std::ops::RangeInclusive;
use std::time::Duration;

use linkrate_model::backup::MAX_DIRECTORY;
use linkrate_model::clean::is_harmful;
use linkrate_model::knobs::{self, Knob, Merge, Unit};
use linkrate_model::mix::{MAX_PARTS, MAX_SHARE};
use linkrate_model::nearest::{MAX_TEXT, nearest_name, shortened};
use linkrate_model::units::{UnitError, format_duration, parse_duration, parse_percent};
use linkrate_model::{
    ByteSize, Direction, InterfaceKnobs, MessageSize, Protocol, RunSpec, SocketKnobs, Task,
    Workload,
};

use crate::adapter;
pub use crate::bounds::MAX_CLIENTS;
use crate::levels::Level;

pub use combination::check;
pub use event::EventRequest;
pub use port::misplaced;
pub use refusal::Combination;
pub use table::KEYS;

/// The settings of one cell: the parts of a run that a study may vary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub workload: Workload,
    /// Knobs of the SUT's interface.
    pub interface: InterfaceKnobs,
    pub socket: SocketKnobs,
    /// Clients that take part; [`settle`](Self::settle) computes them except on veth.
    pub clients: u32,
    /// Ports that take part; `None` on veth, and before [`settle`](Self::settle).
    pub ports: Option<u32>,
    /// The model of the virtual adapters; `None` is the adapter of the testbed.
    pub adapter: Option<String>,
    /// What fails inside the measurement.
    pub event: EventRequest,
    /// Share of frames or ATM cells that the links lose, in millionths.
    pub loss_ppm: u32,
    /// The streams of a mix are left out, and its transactions are alone.
    pub idle: bool,
    /// A name that changes nothing, so that two cells may have the same settings.
    pub repeat: Option<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            workload: Workload::default(),
            interface: InterfaceKnobs::default(),
            socket: SocketKnobs::default(),
            clients: 1,
            ports: None,
            adapter: None,
            event: EventRequest::default(),
            loss_ppm: 0,
            idle: false,
            repeat: None,
        }
    }
}

impl Setup {
    /// The settings of a run; those of an idle one are the defaults of a workload.
    pub fn of(run: &RunSpec) -> Self {
        Self {
            workload: match &run.task {
                Task::Workload(workload) => workload.clone(),
                Task::Idle => Workload::default(),
            },
            interface: run.interface.clone(),
            socket: run.socket.clone(),
            clients: run.clients,
            ports: run.ports,
            adapter: run.adapter.clone(),
            event: run.event.map(EventRequest::from).unwrap_or_default(),
            loss_ppm: run.loss_ppm,
            // the workload says so itself
            idle: false,
            repeat: None,
        }
    }

    /// A run with these settings.
    pub fn into_run(self, warm_up: Duration, duration: Duration) -> RunSpec {
        RunSpec {
            task: Task::Workload(self.workload),
            interface: self.interface,
            socket: self.socket,
            clients: self.clients,
            ports: self.ports,
            adapter: self.adapter,
            warm_up,
            duration,
            event: self.event.of_measurement(duration),
            loss_ppm: self.loss_ppm,
            ..RunSpec::default()
        }
    }

    /// Lets this part of the receive path merge segments, and no other.
    fn merge(&mut self, by: Merge) {
        self.interface.gro = Some(by == Merge::Gro);
        self.interface.port.lro = Some(by == Merge::Lro);
    }
}

/// Whether two keys set the same thing.
pub fn overlap(one: &str, other: &str) -> bool {
    let settles = |all: &str, part: &str| all == "merge" && matches!(part, "gro" | "lro");
    one == other || settles(one, other) || settles(other, one)
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name in study files and, after `--`, on the command line.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The values that it takes, and where a setup has them.
    pub values: Values,
    /// Whether workloads of a kind use it.
    pub used_by: fn(Protocol) -> bool,
    /// Why a value of its own is refused beside a kind that does not use it; empty where it may stand there for the sake
    /// of other cells.
    pub remedy: &'static str,
    /// Whether each workload of a mix may have its own.
    pub of_one_workload: bool,
    /// Its name as the title of an axis, if it is not `name`.
    pub title: Option<&'static str>,
    /// What its values are, in sentences.
    pub things: Things,
}

/// What the values of a setting are, in sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Things {
    /// What the title says.
    Titled,
    /// Things that are counted, one and many: `1 port`, `4 ports`.
    Counted(&'static str, &'static str),
    /// Things that have a size: `64 KiB messages`.
    Sized(&'static str),
}

/// The effect of one word on a setup.
pub type SetWord = fn(&mut Setup);

/// Where a setup has the value of a setting.
#[derive(Debug, Clone, Copy)]
pub enum Field<T: 'static> {
    /// It always has one.
    Always(fn(&mut Setup) -> &mut T),
    /// It has one or none, which a word stands for (`auto`, `off`), if there is one.
    Optional(Option<&'static str>, fn(&mut Setup) -> &mut Option<T>),
    /// The same, by the functions that read and set it.
    Through(&'static str, fn(&Setup) -> Option<T>, fn(&mut Setup, Option<T>)),
}

impl<T: Copy> Field<T> {
    /// The word that stands for no value, if there is one.
    pub fn absent(&self) -> Option<&'static str> {
        match *self {
            Self::Always(_) => None,
            Self::Optional(word, _) => word,
            Self::Through(word, ..) => Some(word),
        }
    }

    fn level(&self, mut setup: Setup, level: impl Fn(T) -> Level) -> Option<Level> {
        let value = match self {
            Self::Always(of) => Some(*of(&mut setup)),
            Self::Optional(_, of) => *of(&mut setup),
            Self::Through(_, get, _) => get(&setup),
        };
        value.map(level).or_else(|| Some(Level::Text(self.absent()?.to_owned())))
    }

    fn put(
        &self,
        setup: &mut Setup,
        level: &Level,
        read: impl Fn(&Level) -> Result<T, KeyError>,
    ) -> Result<(), KeyError> {
        let value = match level {
            Level::Text(text) if self.absent() == Some(text.as_str()) => None,
            _ => Some(read(level)?),
        };
        match (self, value) {
            (Self::Always(of), Some(value)) => *of(setup) = value,
            (Self::Always(_), None) => {}
            (Self::Optional(_, of), value) => *of(setup) = value,
            (Self::Through(.., set), value) => set(setup, value),
        }
        Ok(())
    }
}

/// The values a key takes, each kind with its range and with the field that it sets.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// One of these words.
    Word(&'static [(&'static str, SetWord)]),
    /// `on` or `off`, or a TOML boolean.
    Switch(fn(&mut Setup) -> &mut bool),
    /// A whole number.
    Count((u32, u32), Field<u32>),
    /// A whole number, times a second.
    Rate((u32, u32), Field<u32>),
    /// A number of bytes (`32 KiB`; a bare number is bytes).
    Size((u64, u64), Field<ByteSize>),
    /// A length of time (`500 ms`).
    Time((Duration, Duration), Field<Duration>),
    /// A share (`0.3 %`), in millionths.
    Share((u32, u32), fn(&mut Setup) -> &mut u32),
    /// A number of bytes, or a uniform range of them (`128 B to 4 KiB`).
    Message((u64, u64), fn(&mut Setup) -> &mut MessageSize),
    /// The name of a congestion control algorithm.
    Congestion(fn(&mut Setup) -> &mut String),
    /// The absolute path of a directory.
    Directory(fn(&mut Setup) -> &mut String),
    /// The name of a built-in model.
    Model(fn(&mut Setup) -> &mut Option<String>),
    /// A name that people choose and that changes nothing; only levels of a factor may be labels.
    Label(fn(&mut Setup) -> &mut Option<String>),
    /// The values of a knob of the interface, as it is declared.
    Knob(&'static Knob),
}

impl Values {
    /// Whether it is `on` or `off`.
    pub fn is_switch(&self) -> bool {
        match self {
            Self::Switch(_) => true,
            Self::Knob(knob) => matches!(knob.values, knobs::Values::Switch),
            _ => false,
        }
    }

    /// The words it takes, empty for numbers and sizes.
    pub fn words(&self) -> Vec<&'static str> {
        match self {
            Self::Word(words) => words.iter().map(|(word, _)| *word).collect(),
            Self::Switch(_) => knobs::Values::Switch.words(),
            Self::Knob(knob) => knob.values.words(),
            Self::Size(_, field) => field.absent().into_iter().collect(),
            Self::Time(_, field) => field.absent().into_iter().collect(),
            Self::Rate(_, field) => field.absent().into_iter().collect(),
            // a name that no model has is refused with the nearest
            Self::Model(_)
            | Self::Count(..)
            | Self::Share(..)
            | Self::Message(..)
            | Self::Congestion(_)
            | Self::Directory(_)
            | Self::Label(_) => Vec::new(),
        }
    }

    /// What would be right, as a phrase: `one of none, gso, tso`, `a size from 1 B to 64 MiB`.
    pub fn expected(&self) -> String {
        let number = |(low, high): (u32, u32)| {
            knobs::Values::Number { low, high, unit: Unit::None }.expected()
        };
        let or = |phrase: String, absent: Option<&str>| match absent {
            Some(word) => format!("{phrase}, or \"{word}\""),
            None => phrase,
        };
        match self {
            Self::Word(_) => format!("one of {}", self.words().join(", ")),
            Self::Switch(_) => knobs::Values::Switch.expected(),
            Self::Knob(knob) => knob.values.expected(),
            Self::Count(range, _) => number(*range),
            Self::Rate(range, field) => or(number(*range) + " a second", field.absent()),
            Self::Size(range, field) => or(format!("a size from {}", span(*range)), field.absent()),
            Self::Time((low, high), field) => {
                let (low, high) = (format_duration(*low), format_duration(*high));
                or(format!("a time such as \"500 ms\", from {low} to {high}"), field.absent())
            }
            Self::Share((low, high), _) => {
                let (low, high) = (percent(*low), percent(*high));
                format!("a share such as \"0.3 %\", from {low} to {high}")
            }
            Self::Message(range, _) => format!(
                "a size such as \"32 KiB\" or a range such as \"128 B to 4 KiB\", from {}, or one of {}",
                span(*range),
                MessageSize::NAMED.map(|(word, ..)| word).join(", ")
            ),
            Self::Congestion(_) => "the name of an algorithm, for example \"cubic\"".to_owned(),
            Self::Directory(_) => "the path of a directory, for example \"/dev/shm\"".to_owned(),
            Self::Model(_) => format!("one of {}", adapter::models().join(", ")),
            Self::Label(_) => "a name of up to 24 letters, digits, blanks and hyphens".to_owned(),
        }
    }

    /// What stands for a value in help: `none|gso|tso`, `NUMBER`, `SIZE|auto`. A list that would leave
    /// no room for the help is only in its text.
    pub fn placeholder(&self) -> String {
        use knobs::Values::{Number, Switch, Words};
        const MAX_LENGTH: usize = 60;
        let words = || match self.words().join("|") {
            list if list.len() > MAX_LENGTH => "WORD".to_owned(),
            list => list,
        };
        let noun = match self {
            Self::Knob(Knob { values: Switch | Words(_), .. }) => return words(),
            Self::Word(_) | Self::Switch(_) => return words(),
            Self::Knob(Knob { values: Number { unit: Unit::Bytes, .. }, .. }) => "SIZE",
            Self::Knob(Knob { values: Number { .. }, .. }) | Self::Count(..) | Self::Rate(..) => {
                "NUMBER"
            }
            Self::Size(..) | Self::Message(..) => "SIZE",
            Self::Time(..) => "TIME",
            Self::Directory(_) => "DIRECTORY",
            Self::Share(..) => "SHARE",
            Self::Congestion(_) | Self::Model(_) | Self::Label(_) => "NAME",
        };
        // the word for no value, if there is one
        std::iter::once(noun).chain(self.words()).collect::<Vec<_>>().join("|")
    }

    /// The word that changes nothing in a setup: the one that it has.
    fn word(&self, setup: &Setup) -> Option<&'static str> {
        let Self::Word(words) = self else { return None };
        let changes_nothing = |(_, set): &&(_, SetWord)| {
            let mut other = setup.clone();
            set(&mut other);
            other == *setup
        };
        Some(words.iter().find(changes_nothing)?.0)
    }

    /// The value in a setup, as a study file sets it; `None` where no value stands for what the setup has.
    pub fn level(&self, setup: &Setup) -> Option<Level> {
        let number = |number: u32| Level::Number(number.into());
        let mut copy = setup.clone();
        Some(match self {
            Self::Word(_) => Level::Text(self.word(setup)?.to_owned()),
            Self::Switch(of) => Level::Switch(*of(&mut copy)),
            Self::Count(_, field) | Self::Rate(_, field) => return field.level(copy, number),
            Self::Size(_, field) => {
                return field.level(copy, |size| Level::Text(size.to_string()));
            }
            Self::Time(_, field) => {
                return field.level(copy, |time| Level::Text(format_duration(time)));
            }
            Self::Share(_, of) => Level::Text(percent(*of(&mut copy))),
            Self::Message(_, of) => Level::Text(of(&mut copy).to_string()),
            Self::Congestion(of) | Self::Directory(of) => Level::Text(of(&mut copy).clone()),
            Self::Model(of) | Self::Label(of) => Level::Text(of(&mut copy).clone()?),
            Self::Knob(knob) => match knob.get(&setup.interface)? {
                knobs::Value::Switch(on) => Level::Switch(on),
                knobs::Value::Word(word) => Level::Text(word.to_owned()),
                knobs::Value::Number(value) => number(value),
            },
        })
    }
}

/// Why a setting was refused. The text names the key only if the key is wrong: the caller adds the
/// place of the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("unknown key {given:?}; {}", remedy(*.nearest, A_KEY))]
    UnknownKey { given: String, nearest: Option<&'static str> },
    /// The key takes words, and the value is another word.
    #[error("unknown value {given:?}; {}", remedy(.nearest.as_deref(), .expected))]
    UnknownWord { given: String, expected: String, nearest: Option<String> },
    /// The value is not a quantity.
    #[error(transparent)]
    Quantity(#[from] UnitError),
    /// The value is of another kind, or has no meaning.
    #[error("{reason}; expected {expected}")]
    Unreadable { reason: String, expected: String },
    #[error("{given} is out of range; expected {expected}")]
    OutOfRange {
        /// What was given, with its unit.
        given: String,
        /// The range as a phrase.
        expected: String,
    },
}

impl KeyError {
    /// The error without its remedy, and the remedy (`did you mean "tso"?`); `None` where the
    /// message contains the remedy. `noun` is the word for the value: a value or a level.
    pub fn parts(&self, noun: &str) -> (String, Option<String>) {
        let (message, remedy) = match self {
            Self::UnknownKey { given, nearest } => {
                (format!("unknown key {given:?}"), remedy(*nearest, A_KEY))
            }
            Self::UnknownWord { given, expected, nearest } => {
                (format!("unknown {noun} {given:?}"), remedy(nearest.as_deref(), expected))
            }
            Self::Quantity(error) => return (error.to_string(), None),
            Self::Unreadable { reason, expected } => (reason.clone(), remedy(None, expected)),
            Self::OutOfRange { given, expected } => {
                (format!("{given} is out of range"), remedy(None, expected))
            }
        };
        (message, Some(remedy))
    }
}

fn remedy(nearest: Option<&str>, expected: &str) -> String {
    match nearest {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("expected {expected}"),
    }
}

/// There are too many keys to list them in a message.
const A_KEY: &str = "one of the settings that `linkrate measure --help` lists";

/// Millionths as people write them: `0.3 %`.
fn percent(ppm: u32) -> String {
    format!("{} %", f64::from(ppm) / 10_000.0)
}

/// A pair of sizes as people write it: `1 B to 64 MiB`.
fn span((low, high): (u64, u64)) -> String {
    format!("{} to {}", ByteSize(low), ByteSize(high))
}

/// Largest UDP payload over IPv4: 65535 less 20 of IP and 8 of UDP.
pub(crate) const MAX_DATAGRAM: u64 = 65507;

/// The key of that name, if there is one.
pub fn get(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

pub fn find(name: &str) -> Result<&'static Key, KeyError> {
    get(name).ok_or_else(|| KeyError::UnknownKey {
        given: shortened(name),
        nearest: nearest_name(name, KEYS.iter().map(|key| key.name)),
    })
}

/// Whether a workload of this kind uses `key`: a stream does not use `request`. No kind uses an
/// unknown key.
pub fn is_used(key: &str, kind: Protocol) -> bool {
    get(key).is_some_and(|key| (key.used_by)(kind))
}

/// The word for a kind, as study files have it.
pub fn kind_name(kind: Protocol) -> &'static str {
    word_of("kind", |workload| workload.kind = kind)
}

/// The word for a direction, as study files have it.
pub fn direction_name(direction: Direction) -> &'static str {
    word_of("direction", |workload| workload.direction = direction)
}

fn word_of(key: &str, set: impl FnOnce(&mut Workload)) -> &'static str {
    let mut setup = Setup::default();
    set(&mut setup.workload);
    get(key).and_then(|key| key.values.word(&setup)).unwrap_or_default()
}

/// Sets `key` to `level`. A number may also come as text, a switch as `on` or `off`, so that command-line arguments can
/// be passed as [`Level::Text`]. After an error the setup is unchanged.
pub fn apply(setup: &mut Setup, key: &str, level: &Level) -> Result<(), KeyError> {
    let values = &find(key)?.values;
    match values {
        Values::Word(words) => {
            let given = word(level, values)?;
            if let Some((_, set)) = words.iter().find(|(word, _)| *word == given) {
                set(setup);
            }
        }
        Values::Switch(of) => *of(setup) = switch(level, values)?,
        Values::Count(range, field) | Values::Rate(range, field) => {
            field.put(setup, level, |level| count(level, *range, values))?;
        }
        Values::Knob(knob) => {
            let value = match knob.values {
                knobs::Values::Switch => knobs::Value::Switch(switch(level, values)?),
                knobs::Values::Words(_) => knobs::Value::Word(word(level, values)?),
                knobs::Values::Number { low, high, unit: Unit::Bytes } => {
                    let bytes = size(level, (low.into(), high.into()), values)?.0;
                    knobs::Value::Number(u32::try_from(bytes).unwrap_or(high))
                }
                knobs::Values::Number { low, high, .. } => {
                    knobs::Value::Number(count(level, (low, high), values)?)
                }
            };
            knob.set(&mut setup.interface, value);
        }
        Values::Size(range, field) => {
            field.put(setup, level, |level| size(level, *range, values))?;
        }
        Values::Time(range, field) => {
            field.put(setup, level, |level| time(level, *range, values))?;
        }
        Values::Share(range, of) => *of(setup) = share(level, *range, values)?,
        Values::Message(range, of) => *of(setup) = message(level, *range, values)?,
        Values::Congestion(of) => {
            let Level::Text(name) = level else { return Err(wrong_kind(level, values)) };
            // TCP_CA_NAME_MAX, include/net/tcp.h: 16 with the closing zero
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || name.len() > 15 || !name.chars().all(is_name) {
                return Err(unreadable(format!("{:?} is not a name", shortened(name)), values));
            }
            *of(setup) = name.clone();
        }
        Values::Directory(of) => {
            let Level::Text(name) = level else { return Err(wrong_kind(level, values)) };
            let fits =
                name.starts_with('/') && name.len() <= MAX_DIRECTORY && !name.contains(is_harmful);
            if !fits {
                let reason = format!("{:?} is not an absolute path", shortened(name));
                return Err(unreadable(reason, values));
            }
            *of(setup) = name.clone();
        }
        Values::Model(of) => {
            let Level::Text(name) = level else { return Err(wrong_kind(level, values)) };
            let models: Vec<String> =
                linkrate_model::model::with_emulated().map(|model| model.name).collect();
            if !models.contains(name) {
                return Err(KeyError::UnknownWord {
                    given: shortened(name),
                    expected: values.expected(),
                    nearest: nearest_name(name, models.iter().map(String::as_str))
                        .map(str::to_owned),
                });
            }
            *of(setup) = Some(name.clone());
        }
        Values::Label(of) => {
            let name = match level {
                Level::Text(name) => name.clone(),
                Level::Number(number) => number.to_string(),
                Level::Switch(_) => return Err(wrong_kind(level, values)),
            };
            let fits = |c: char| c.is_alphanumeric() || c == '-' || c == ' ';
            if name.trim().is_empty() || name.chars().count() > 24 || !name.chars().all(fits) {
                return Err(unreadable(
                    format!("{:?} is not a valid name", shortened(&name)),
                    values,
                ));
            }
            *of(setup) = Some(name);
        }
    }
    Ok(())
}

/// Checks every value of a setup as [`apply`] checks the value that a user gives: for one that was read from a stored
/// plan. The error has the key, its value and what would be right.
pub fn check_values(setup: &Setup) -> Result<(), String> {
    // against the testbed, and against the measurement
    const CHECKED_ELSEWHERE: [&str; 4] = ["ports", "adapter", "event-at", "event-recover"];
    let mut scratch = Setup::default();
    for key in KEYS.iter().filter(|key| !CHECKED_ELSEWHERE.contains(&key.name)) {
        if let Some(level) = key.values.level(setup) {
            let applied = apply(&mut scratch, key.name, &level);
            applied.map_err(|error| format!("{}: {error}", key.name))?;
        }
    }
    let workload = &setup.workload;
    let parts = workload.mix.len();
    if parts == 1 || parts > MAX_PARTS {
        return Err(format!("a mix of {parts} workloads, expected 2 to {MAX_PARTS}"));
    }
    for part in &workload.mix {
        let share = part.share;
        if !(1..=MAX_SHARE).contains(&share) {
            return Err(format!("share {share} of a mix, expected 1 to {MAX_SHARE}"));
        }
        if part.name.chars().count() > MAX_TEXT || part.name.contains(is_harmful) {
            return Err("the name of a workload in a mix, expected a short line".to_owned());
        }
        if !part.workload.mix.is_empty() {
            return Err("a mix within a mix, expected one workload".to_owned());
        }
        let alone = Setup { workload: part.workload.clone(), ..setup.clone() };
        check_values(&alone)?;
    }
    Ok(())
}

/// The word that was given, one of those that `values` takes.
fn word(level: &Level, values: &Values) -> Result<&'static str, KeyError> {
    let Level::Text(given) = level else { return Err(wrong_kind(level, values)) };
    let word = values.words().into_iter().find(|word| word == given);
    word.ok_or_else(|| unknown_word(given, values))
}

fn switch(level: &Level, values: &Values) -> Result<bool, KeyError> {
    match level {
        Level::Switch(on) => Ok(*on),
        Level::Text(text) if text == "on" || text == "true" => Ok(true),
        Level::Text(text) if text == "off" || text == "false" => Ok(false),
        Level::Text(text) => Err(unknown_word(text, values)),
        Level::Number(_) => Err(wrong_kind(level, values)),
    }
}

fn count(level: &Level, (low, high): (u32, u32), values: &Values) -> Result<u32, KeyError> {
    let number = match level {
        Level::Number(number) => *number,
        Level::Text(text) => text.trim().parse().map_err(|_| wrong_kind(level, values))?,
        Level::Switch(_) => return Err(wrong_kind(level, values)),
    };
    within(number, &(u64::from(low)..=u64::from(high)), || number.to_string(), values)?;
    Ok(u32::try_from(number).unwrap_or(high))
}

fn size(level: &Level, range: (u64, u64), values: &Values) -> Result<ByteSize, KeyError> {
    let size = match level {
        Level::Number(bytes) => ByteSize(*bytes),
        Level::Text(text) if text.len() <= MAX_TEXT => text.parse()?,
        Level::Text(_) | Level::Switch(_) => return Err(wrong_kind(level, values)),
    };
    within(size.0, &(range.0..=range.1), || size.to_string(), values)?;
    Ok(size)
}

fn time(
    level: &Level,
    (low, high): (Duration, Duration),
    values: &Values,
) -> Result<Duration, KeyError> {
    let time = match level {
        Level::Text(text) if text.len() <= MAX_TEXT => parse_duration(text)?,
        _ => return Err(wrong_kind(level, values)),
    };
    match (low..=high).contains(&time) {
        true => Ok(time),
        false => {
            Err(KeyError::OutOfRange { given: format_duration(time), expected: values.expected() })
        }
    }
}

/// A share in millionths. A finer one is refused: a run has fewer frames.
fn share(level: &Level, (low, high): (u32, u32), values: &Values) -> Result<u32, KeyError> {
    let share = match level {
        Level::Text(text) if text.len() <= MAX_TEXT => parse_percent(text)?,
        _ => return Err(wrong_kind(level, values)),
    };
    let given = || format!("{} %", share * 100.0);
    let ppm = share * 1e6;
    if !(f64::from(low)..=f64::from(high)).contains(&ppm) {
        return Err(KeyError::OutOfRange { given: given(), expected: values.expected() });
    }
    if (ppm - ppm.round()).abs() > 1e-6 {
        let reason = format!("{} is finer than 0.0001 %", given());
        return Err(unreadable(reason, values));
    }
    // within the range
    Ok(ppm.round() as u32)
}

fn message(level: &Level, range: (u64, u64), values: &Values) -> Result<MessageSize, KeyError> {
    let (named, ends) = match level {
        Level::Text(text) => (MessageSize::named(text), text.split_once(" to ")),
        _ => (None, None),
    };
    if let Some(size) = named {
        return Ok(size);
    }
    let Some((low, high)) = ends else {
        return Ok(MessageSize::Fixed(size(level, range, values)?));
    };
    let end = |text: &str| size(&Level::Text(text.trim().to_owned()), range, values);
    let (low, high) = (end(low)?, end(high)?);
    if low > high {
        let reason = format!("the range \"{low} to {high}\" begins with its larger size");
        return Err(unreadable(reason, values));
    }
    // a range of one size is that size, so that the two spellings are one level
    Ok(if low == high { MessageSize::Fixed(low) } else { MessageSize::Uniform { low, high } })
}

fn within(
    number: u64,
    range: &RangeInclusive<u64>,
    given: impl Fn() -> String,
    values: &Values,
) -> Result<(), KeyError> {
    if range.contains(&number) {
        return Ok(());
    }
    Err(KeyError::OutOfRange { given: given(), expected: values.expected() })
}

fn unknown_word(given: &str, values: &Values) -> KeyError {
    KeyError::UnknownWord {
        given: shortened(given),
        expected: values.expected(),
        nearest: nearest_name(given, values.words()).map(str::to_owned),
    }
}

fn wrong_kind(level: &Level, values: &Values) -> KeyError {
    let given = match level {
        Level::Text(text) => format!("{:?}", shortened(text)),
        Level::Number(number) => number.to_string(),
        Level::Switch(on) => on.to_string(),
    };
    unreadable(format!("{given} is not a valid value"), values)
}

fn unreadable(reason: String, values: &Values) -> KeyError {
    KeyError::Unreadable { reason, expected: values.expected() }
}

#[cfg(test)]
mod tests;
