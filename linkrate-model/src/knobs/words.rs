//! Knobs whose value is one of a few words, each with the phrase that reports use for it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::value::{KnobType, Value, Word};

pub use balance::Balance;

/// Declares an enum with a word, a phrase and a label for each variant.
macro_rules! words {
    ($(#[$doc:meta])* $Name:ident {
        $($(#[$about:meta])* $Variant:ident = $word:literal, $prose:literal, $label:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $Name {
            $($(#[$about])* $Variant,)+
        }

        impl $Name {
            /// Its words, in the order of the variants.
            pub const WORDS: &'static [Word] =
                &[$(Word { word: $word, prose: $prose, label: $label },)+];

            /// The word in study files and tables.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $word,)+
                }
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl KnobType for $Name {
            fn value(self) -> Value {
                Value::Word(self.name())
            }

            fn of(value: Value) -> Option<Self> {
                match value {
                    $(Value::Word($word) => Some(Self::$Variant),)+
                    _ => None,
                }
            }
        }
    };
}

// after the macro, which it uses
mod balance;

words! {
    /// The transmit offload ladder. Since Linux 4.17 TCP always builds large segments, so "TSO
    /// off" alone means software GSO; the lowest rung is what the papers called "off".
    Offload {
        /// One TCP segment per socket buffer: `gso_max_segs` 1.
        None = "none", "no offload", "none";
        /// TCP builds superframes, the kernel cuts them just before the driver: TSO features off.
        Gso = "gso", "GSO", "GSO";
        /// The superframe reaches the adapter: TSO features on.
        Tso = "tso", "TSO", "TSO";
    }
}

words! {
    /// What merges received TCP segments: a shorthand for the knobs `gro` and `lro`, by which they form the
    /// steps of one factor.
    Merge {
        /// Nothing: each frame goes up the stack by itself.
        None = "none", "no merging", "none";
        /// The kernel: `gro` alone.
        Gro = "gro", "GRO", "GRO";
        /// The adapter: `lro` alone.
        Lro = "lro", "LRO", "LRO";
    }
}

words! {
    /// How a port distributes received frames to its queues.
    Steering {
        /// Every frame to queue 0.
        Off = "off", "no steering", "off";
        /// By the Toeplitz hash of addresses and ports (receive-side scaling).
        Rss = "rss", "RSS", "RSS";
        /// By destination port, through a table that the driver keeps current.
        DestinationPort = "destination-port", "steering by destination port", "by port";
    }
}

words! {
    /// Which TCP has the connections of an adapter with a TCP offload engine.
    Toe {
        /// That of the host.
        Off = "off", "TCP on the host", "host";
        /// That of the adapter, for every connection that can move there.
        On = "on", "TCP on the adapter", "adapter";
        /// That of the adapter for connections that have carried enough or are old enough, and that of
        /// the host for all others.
        Auto = "auto", "TCP on the adapter for long connections", "auto";
    }
}

words! {
    /// How ports act as one: how an aggregate decides which of its ports carry traffic.
    AggregateMode {
        /// Every port whose link is up, without a protocol.
        Manual = "manual", "manual aggregation", "manual";
        /// Ports that the partner has agreed to (IEEE 802.1AX).
        Lacp = "lacp", "LACP", "LACP";
        /// One port; the others stand by (HP LAN Monitor).
        Failover = "failover", "failover", "failover";
    }
}

words! {
    /// How often the partner of a link aggregate is to send LACPDUs (IEEE 802.1AX, `LACP_Timeout`).
    LacpRate {
        /// Each second; the partner is lost after 3 s.
        Fast = "fast", "LACP each second", "fast";
        /// Every 30 s; the partner is lost after 90 s.
        Slow = "slow", "LACP every 30 seconds", "slow";
    }
}
