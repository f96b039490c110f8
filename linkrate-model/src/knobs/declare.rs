//! The macro that makes types and [`Knob`]s from the table of knobs.

use super::InterfaceKnobs;
use super::value::{KnobType, Unit, Value, Values};

/// The part of the system that obeys a knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The kernel of the host, on every interface.
    Kernel,
    /// The driver of the interface; for a virtual adapter this is the port itself.
    Driver,
    /// The port of a virtual adapter; no other interface has the knob.
    Port,
    /// An aggregate of ports of virtual adapters; no other interface has the knob.
    Aggregate,
    /// A port of a virtual ATM adapter, or the switch before it; no other interface has the knob.
    Atm,
}

impl Owner {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Driver => "driver",
            Self::Port => "port",
            Self::Aggregate => "aggregate",
            Self::Atm => "ATM port",
        }
    }

    /// Whether every interface has the knobs of this owner. Otherwise only those that linkrate makes
    /// have them.
    pub fn is_of_every_interface(self) -> bool {
        matches!(self, Self::Kernel | Self::Driver)
    }
}

/// Which ends of a link have the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The port of the system under test alone.
    One,
    /// The ports at both ends of the link: with different values they would not understand each
    /// other, or a round trip would meet the value of one end only.
    Both,
}

/// One knob, as it is declared.
#[derive(Debug, Clone, Copy)]
pub struct Knob {
    /// The key in study files, stored runs and, after `--`, on the command line.
    pub key: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The values that it takes.
    pub values: Values,
    /// The part of the system that obeys it.
    pub owner: Owner,
    /// Which ends of a link have the value.
    pub ends: Ends,
    /// The name in sentences (`transmit checksum offload`).
    pub name: &'static str,
    pub(super) get: fn(&InterfaceKnobs) -> Option<Value>,
    pub(super) set: fn(&mut InterfaceKnobs, Value),
}

impl Knob {
    /// The value in `knobs`; `None` where it is not set or not known.
    pub fn get(&self, knobs: &InterfaceKnobs) -> Option<Value> {
        (self.get)(knobs)
    }

    /// Sets the value in `knobs`. Returns false, and changes nothing, for a value that the knob
    /// does not take.
    pub fn set(&self, knobs: &mut InterfaceKnobs, value: Value) -> bool {
        let takes = self.values.contain(value);
        if takes {
            (self.set)(knobs, value);
        }
        takes
    }

    /// Who obeys the knob and which values it takes, as a hint: `the port obeys lro, which takes
    /// on or off`.
    pub fn hint(&self) -> String {
        let (owner, expected) = (self.owner.name(), self.values.expected());
        format!("the {owner} obeys {}, which takes {expected}", self.key)
    }

    /// Whether the value is a time in microseconds.
    pub(crate) fn is_time(&self) -> bool {
        matches!(self.values, Values::Number { unit: Unit::Microseconds, .. })
    }
}

/// Writes a value into a field of its type.
pub(super) fn put<T: KnobType>(field: &mut Option<T>, value: Value) {
    if let Some(value) = T::of(value) {
        *field = Some(value);
    }
}

/// Whether nothing is set, for serde.
pub(super) fn is_unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares knobs. The first block has those of every interface. Each further block has those of
/// one part of the system: the name of its field, the type of a request, and the type of its
/// effective values with their defaults. `with` names a knob of the interface that the part obeys
/// as well.
macro_rules! knobs {
    (
        $(#[$interface_doc:meta])*
        $Interface:ident {
            $($(#[doc = $help:literal])+
            $key:literal $field:ident: $type:ty;
            $owner:ident, $values:expr, $ends:ident, $name:literal;)+
        }
        $(
            $(#[$part_doc:meta])*
            $part:ident: $(#[$request_doc:meta])* $Request:ident,
            $(#[$effective_doc:meta])* $Effective:ident
            $(with $also:ident: $also_type:ty = $also_default:literal)* {
                $($(#[doc = $p_help:literal])+
                $p_key:literal $p_field:ident: $p_type:ty = $p_default:expr;
                $p_owner:ident, $p_values:expr, $p_ends:ident, $p_name:literal;)+
            }
        )*
    ) => {
        /// Every knob, in the order of the table.
        pub const KNOBS: &[Knob] = &[
            $(Knob {
                key: $key,
                help: concat!($($help),+).trim_ascii(),
                values: $values,
                owner: Owner::$owner,
                ends: Ends::$ends,
                name: $name,
                get: |knobs| knobs.$field.map(KnobType::value),
                set: |knobs, value| put(&mut knobs.$field, value),
            },)+
            $($(Knob {
                key: $p_key,
                help: concat!($($p_help),+).trim_ascii(),
                values: $p_values,
                owner: Owner::$p_owner,
                ends: Ends::$p_ends,
                name: $p_name,
                get: |knobs| knobs.$part.$p_field.map(KnobType::value),
                set: |knobs, value| put(&mut knobs.$part.$p_field, value),
            },)+)*
        ];

        $(#[$interface_doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        pub struct $Interface {
            $($(#[doc = $help])+
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>,)+
            $($(#[$part_doc])*
            #[serde(default, skip_serializing_if = "is_unset")]
            pub $part: $Request,)*
        }

        impl $Interface {
            /// These knobs, and those of `others` where these are not set.
            #[must_use]
            pub fn or(&self, others: &Self) -> Self {
                Self {
                    $($field: self.$field.or(others.$field),)+
                    $($part: self.$part.or(&others.$part),)*
                }
            }
        }

        $(
            $(#[$request_doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
            #[serde(rename_all = "kebab-case", deny_unknown_fields)]
            pub struct $Request {
                $($(#[doc = $p_help])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $p_field: Option<$p_type>,)+
            }

            impl $Request {
                /// These knobs, and those of `others` where these are not set.
                #[must_use]
                pub fn or(&self, others: &Self) -> Self {
                    Self { $($p_field: self.$p_field.or(others.$p_field),)+ }
                }

                /// The effective values once this is asked for, where `fresh` was effective
                /// before.
                #[must_use]
                pub fn over(&self, fresh: &$Effective, $($also: Option<$also_type>,)*) -> $Effective {
                    $Effective {
                        $($also: $also.unwrap_or(fresh.$also),)*
                        $($p_field: self.$p_field.unwrap_or(fresh.$p_field),)+
                    }
                }

                /// The request that would set all of these effective values.
                #[must_use]
                pub fn of(effective: &$Effective) -> Self {
                    Self { $($p_field: Some(effective.$p_field),)+ }
                }
            }

            $(#[$effective_doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
            pub struct $Effective {
                $(/// The value that the interface's knob of this name asks for.
                pub $also: $also_type,)*
                $($(#[doc = $p_help])+
                pub $p_field: $p_type,)+
            }

            impl $Effective {
                /// These values, and those of `other` that both ends of a link must share.
                #[must_use]
                pub fn sharing(self, other: &Self) -> Self {
                    Self {
                        $($also: self.$also,)*
                        $($p_field: match Ends::$p_ends {
                            Ends::One => self.$p_field,
                            Ends::Both => other.$p_field,
                        },)+
                    }
                }
            }

            impl Default for $Effective {
                fn default() -> Self {
                    Self {
                        $($also: $also_default,)*
                        $($p_field: $p_default,)+
                    }
                }
            }
        )*
    };
}

pub(super) use knobs;
