//! The knobs of an interface and its port, declared once.
//!
//! The table below is the only list of knobs. From each row come the field of the request and of
//! the effective values, the key in study files, stored runs and models, the option of `measure`
//! with its help, what `adapter set` takes, the column in `runs.csv` and the name in reports. To
//! add a knob, add a row, let its owner obey it, and write the book's table of settings anew
//! (`LINKRATE_UPDATE=1 cargo test -p linkrate-study --test reference`).
//!
//! A request leaves a knob `None` that stays as the testbed made it. A knob that is `Some` is read
//! back after it was set, and a difference fails the run by the knob's key.

mod declare;
mod socket;
mod value;
mod words;

use serde::{Deserialize, Serialize};

pub use declare::{Ends, Knob, Owner};
pub use socket::{Family, MAX_SOCKET_BUFFER, SocketKnobs};
pub use value::{Unit, Value, Values, Word};
pub use words::{AggregateMode, Balance, LacpRate, Merge, Offload, Steering, Toe};

use declare::{is_unset, knobs, put};
use value::KnobType;

/// Most connections of the TCP offload engine of a port: each has three open files.
pub const MAX_TOE_CONNECTIONS: u32 = 65_536;

/// Largest MTU: an IP packet's length field holds no more.
pub const MAX_MTU: u32 = 65_535;

/// Smallest MTU an IPv4 host must accept (RFC 791).
pub const MIN_MTU: u32 = 68;

/// Most ports of an aggregate.
pub const MAX_PORTS: u32 = 64;

/// Largest superframe of Linux: GSO_MAX_SIZE of include/linux/netdevice.h, 8 * 65535.
pub const MAX_KERNEL_SUPERFRAME: u32 = 524_280;

/// Largest superframe without BIG TCP, which the length field of IP holds: GSO_LEGACY_MAX_SIZE and
/// GRO_LEGACY_MAX_SIZE of include/linux/netdevice.h.
pub const LEGACY_SUPERFRAME: u32 = 65_536;

/// Longest time of the rules of TOE, ms: one hour.
const MAX_TOE_TIME: u32 = 3_600_000;

/// Longest moderation of interrupts, µs.
pub const MAX_USECS: u32 = 10_000;

const fn number(low: u32, high: u32) -> Values {
    Values::Number { low, high, unit: Unit::None }
}

const fn bytes(low: u32, high: u32) -> Values {
    Values::Number { low, high, unit: Unit::Bytes }
}

const fn nanoseconds(low: u32, high: u32) -> Values {
    Values::Number { low, high, unit: Unit::Nanoseconds }
}

const fn microseconds(low: u32, high: u32) -> Values {
    Values::Number { low, high, unit: Unit::Microseconds }
}

const fn milliseconds(low: u32, high: u32) -> Values {
    Values::Number { low, high, unit: Unit::Milliseconds }
}

const fn frames(low: u32, high: u32) -> Values {
    Values::Number { low, high, unit: Unit::Frames }
}

// A row: help, key, field with type and default; owner, values, which ends of a link
// have it, name in sentences. serde derives the key from the field: a test compares both.
knobs! {
    /// Knobs of an interface of the system under test.
    InterfaceKnobs {
        /// Transmit offload: none, GSO (the kernel segments) or TSO (the adapter segments)
        "offload" offload: Offload;
        Kernel, Values::Words(Offload::WORDS), One, "offload";

        /// Generic receive offload: the kernel merges received segments
        "gro" gro: bool;
        Kernel, Values::Switch, One, "GRO";

        // Documentation/networking/segmentation-offloads.rst, net/ipv4/tcp_offload.c
        /// GRO keeps packets to be forwarded as a list
        "gro-list" gro_list: bool;
        Kernel, Values::Switch, One, "GRO by fraglist";

        /// GRO merges forwarded UDP datagrams, too
        "udp-gro-forwarding" udp_gro_forwarding: bool;
        Kernel, Values::Switch, One, "GRO of forwarded UDP";

        // Documentation/networking/napi.rst, as the next two
        /// Kernel threads poll the interface instead of softirqs (threaded NAPI)
        "threaded" threaded: bool;
        Kernel, Values::Switch, One, "threaded NAPI";

        /// Empty polls before interrupts are enabled again
        "napi-defer-hard-irqs" napi_defer_hard_irqs: u32;
        Kernel, number(0, i32::MAX.unsigned_abs()), One, "napi-defer-hard-irqs";

        /// Delay of a deferred poll and of the GRO flush; 0 = off
        "gro-flush-timeout" gro_flush_timeout: u32;
        Kernel, nanoseconds(0, 1_000_000_000), One, "gro-flush-timeout";

        /// Transmit checksum offload
        "tx-checksum" tx_checksum: bool;
        Kernel, Values::Switch, One, "transmit checksum offload";

        /// Receive checksum offload
        "rx-checksum" rx_checksum: bool;
        Driver, Values::Switch, One, "receive checksum offload";

        // RFC 791 lets no link have less; the total length field ends at 65535
        /// Largest IP packet, at both ends of the link
        "mtu" mtu: u32;
        Kernel, bytes(MIN_MTU, MAX_MTU), Both, "MTU";

        /// Largest GSO/TSO packet (virtual MTU)
        "gso-max-size" gso_max_size: u32;
        Kernel, bytes(1500, MAX_KERNEL_SUPERFRAME), One, "largest superframe";

        // GRO_MAX_SIZE, include/net/gro.h: the same
        /// Largest packet that GRO merges
        "gro-max-size" gro_max_size: u32;
        Kernel, bytes(1500, MAX_KERNEL_SUPERFRAME), One, "largest merged packet";

        // on a TAP it is also the length of the queue to its reader
        /// Maximum packets in a transmit queue; a GSO/TSO packet is one
        "txqueuelen" txqueuelen: u32;
        Kernel, number(1, 1_000_000), One, "transmit queue length";

        /// Receive and transmit queue pairs
        "queues" queues: u32;
        Driver, number(1, 64), One, "queues";
    }

    /// Knobs of a virtual adapter's port, which the kernel does not know.
    port:
    /// What is asked of a virtual adapter's port. The port's receive checksum offload is
    /// [`InterfaceKnobs::rx_checksum`].
    PortRequest,
    /// The effective values of a virtual adapter's port.
    PortKnobs with rx_checksum: bool = true {
        /// Large receive offload: the adapter merges received segments
        "lro" lro: bool = false;
        Port, Values::Switch, One, "LRO";

        /// How the adapter distributes received frames to queues
        "steering" steering: Steering = Steering::Rss;
        Port, Values::Words(Steering::WORDS), One, "steering";

        /// Receive interrupt timer; 0 = at once
        "rx-usecs" rx_usecs: u32 = 20;
        Port, microseconds(0, MAX_USECS), One, "rx-usecs";

        /// Frames that raise a receive interrupt before the timer; 0 = timer only
        "rx-frames" rx_frames: u32 = 64;
        Port, frames(0, 16_384), One, "rx-frames";

        /// Delay of the transmit completion interrupt
        "tx-usecs" tx_usecs: u32 = 50;
        Port, microseconds(0, MAX_USECS), One, "tx-usecs";

        /// 802.1Q VLAN on the link; 0 = untagged
        "vlan" vlan: u16 = 0;
        Port, number(0, 4094), Both, "VLAN";

        /// 802.3 frames with LLC/SNAP instead of Ethernet II
        "snap" snap: bool = false;
        Port, Values::Switch, Both, "SNAP framing";

        /// Where TCP runs: host stack or adapter (TOE)
        "toe" toe: Toe = Toe::Off;
        Port, Values::Words(Toe::WORDS), One, "TOE";

        /// With toe auto: bytes after which a connection is offloaded
        "toe-after" toe_after: u32 = 65_536;
        Port, bytes(0, 1 << 30), One, "bytes before TOE";

        /// With toe auto: age at which a connection is offloaded; 0 = never
        "toe-age" toe_age: u32 = 1000;
        Port, milliseconds(0, MAX_TOE_TIME), One, "age before TOE";

        /// Maximum offloaded connections; 0 = table size
        "toe-max" toe_max: u32 = 0;
        Port, number(0, MAX_TOE_CONNECTIONS), One, "most connections at the adapter";

        /// Idle time after which a connection returns to the host; 0 = never
        "toe-idle" toe_idle: u32 = 0;
        Port, milliseconds(0, MAX_TOE_TIME), One, "idle time at the adapter";

        /// Adaptive interrupt moderation: rx-usecs applies to bulk traffic only
        "adaptive-rx" adaptive_rx: bool = false;
        Port, Values::Switch, Both, "adaptive interrupt moderation";

        // Linux merges what it receives by itself since 2.6.29 (GRO), and so does a typical peer
        /// LRO at the clients' ports; without it they acknowledge every second segment
        "client-lro" client_lro: bool = true;
        Port, Values::Switch, One, "LRO at the clients";
    }

    /// Knobs of an aggregate, which single ports do not have.
    aggregate:
    /// What is asked of an aggregate.
    AggregateRequest,
    /// The effective values of an aggregate.
    AggregateKnobs {
        /// Ports that act as one interface, from the first
        "aggregate" aggregate: u32 = 1;
        Aggregate, number(1, MAX_PORTS), One, "ports of the aggregate";

        /// Active ports: all with link (manual), those agreed by LACP, or one (failover)
        "mode" mode: AggregateMode = AggregateMode::Manual;
        Aggregate, Values::Words(AggregateMode::WORDS), One, "mode";

        /// How the host chooses the port for a packet
        "balance" balance: Balance = Balance::Port;
        Aggregate, Values::Words(Balance::WORDS), One, "balancing";

        /// How the switch chooses the port for a packet
        "switch-balance" switch_balance: Balance = Balance::Port;
        Aggregate, Values::Words(Balance::WORDS), One, "balancing at the switch";

        /// LACPDU interval of the partner: 1 s (fast) or 30 s (slow)
        "lacp-rate" lacp_rate: LacpRate = LacpRate::Fast;
        Aggregate, Values::Words(LacpRate::WORDS), One, "LACP rate";

        /// One port works without a partner in LACP
        "lacp-fallback" lacp_fallback: bool = false;
        Aggregate, Values::Switch, One, "LACP fallback";

        /// With LACP: flows change port only after a Marker response
        "marker" marker: bool = false;
        Aggregate, Values::Switch, One, "Marker";

        // 802.1AX-2020, 6.3.2: the lower value has the higher priority
        /// LACP priority of the host; the end with the lower value chooses the active ports
        "system-priority" system_priority: u16 = 0x8000;
        Aggregate, number(0, 65_535), One, "system priority";

        /// Maximum active ports with LACP, others are standby; 0 = all
        "max-active" max_active: u32 = 0;
        Aggregate, number(0, MAX_PORTS), One, "most active ports";

        /// Number of the port that LACP (with max-active) and failover prefer
        "preferred-port" preferred_port: u32 = 0;
        Aggregate, number(0, MAX_PORTS - 1), One, "preferred port";

        /// Failover returns to the preferred port when it works again
        "revert" revert: bool = false;
        Aggregate, Values::Switch, One, "return to the preferred port";

        // HP Auto Port Aggregation: a poll each 10 s, dead count 3
        /// Poll interval of a failover group
        "poll-interval" poll_interval: u32 = 10_000;
        Aggregate, milliseconds(10, 60_000), One, "poll interval";

        /// Missed polls before a port of a failover group is replaced
        "dead-count" dead_count: u32 = 3;
        Aggregate, number(1, 100), One, "dead count";

        /// BFD on each link (RFC 7130): detects silent failures
        "bfd" bfd: bool = false;
        Aggregate, Values::Switch, One, "BFD";

        // three packets in 40 ms each: a failure is found after 120 ms, and within 150 ms with the
        // turns of the threads
        /// Interval of BFD packets, both ends
        "bfd-interval" bfd_interval: u32 = 40;
        Aggregate, milliseconds(5, 10_000), One, "BFD interval";

        // RFC 5880, 4.1: one octet, and not 0
        /// Missed BFD packets before a link counts as failed
        "bfd-multiplier" bfd_multiplier: u32 = 3;
        Aggregate, number(1, 255), One, "BFD multiplier";

        /// TSO on the aggregate, which is off otherwise
        "aggregate-tso" aggregate_tso: bool = false;
        Aggregate, Values::Switch, One, "TSO on the aggregate";
    }

    /// Knobs of an ATM port and of the switch before it, which other ports do not have.
    atm:
    /// What is asked of an ATM port.
    AtmRequest,
    /// The effective values of an ATM port.
    AtmKnobs {
        // ITU-T I.371, GCRA(T, 0)
        /// Peak rate of a connection, kbit/s of cells; 0 = line rate
        "peak-rate" peak_rate: u32 = 0;
        Atm, number(0, 10_000_000), One, "peak rate of a connection";

        /// Early packet discard: no new packets while the switch's queue is 75 % full
        "early-discard" early_discard: bool = false;
        Atm, Values::Switch, One, "early packet discard";

        /// Partial packet discard: drop the remaining cells of a packet after one was dropped
        "partial-discard" partial_discard: bool = false;
        Atm, Values::Switch, One, "partial packet discard";
    }
}

/// The knob with that key.
pub fn find(key: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.key == key)
}

impl InterfaceKnobs {
    /// The knobs that are set, by key, in the order of the table.
    pub fn values(&self) -> Vec<(&'static str, String)> {
        let value = |knob: &Knob| Some((knob.key, knob.get(self)?.to_string()));
        KNOBS.iter().filter_map(value).collect()
    }

    /// Those of these knobs that `owner` obeys.
    #[must_use]
    pub fn of(&self, owner: Owner) -> Self {
        let mut some = Self::default();
        for knob in KNOBS.iter().filter(|knob| knob.owner == owner) {
            if let Some(value) = knob.get(self) {
                (knob.set)(&mut some, value);
            }
        }
        some
    }
}

impl PortKnobs {
    /// The request that would set all of these values.
    pub fn request(&self) -> InterfaceKnobs {
        InterfaceKnobs {
            rx_checksum: Some(self.rx_checksum),
            port: PortRequest::of(self),
            ..InterfaceKnobs::default()
        }
    }

    /// The effective values once `asked` is set, where these were effective before.
    #[must_use]
    pub fn with(&self, asked: &InterfaceKnobs) -> Self {
        asked.port.over(self, asked.rx_checksum)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    /// A value other than the first one that the knob takes.
    fn some_value(knob: &Knob) -> Value {
        match knob.values {
            Values::Switch => Value::Switch(true),
            Values::Words(words) => Value::Word(words[1].word),
            Values::Number { high, .. } => Value::Number(high),
        }
    }

    #[test]
    fn every_key_is_the_one_in_stored_runs() {
        for knob in KNOBS {
            let mut knobs = InterfaceKnobs::default();
            assert!(knob.set(&mut knobs, some_value(knob)));
            let json = serde_json::to_value(&knobs).unwrap();
            let place = match knob.owner {
                Owner::Port => &json["port"],
                Owner::Aggregate => &json["aggregate"],
                Owner::Atm => &json["atm"],
                Owner::Kernel | Owner::Driver => &json,
            };
            let keys: Vec<&String> = place.as_object().unwrap().keys().collect();
            assert_eq!(keys, [knob.key]);
            assert_eq!(serde_json::from_value::<InterfaceKnobs>(json.clone()).unwrap(), knobs);
        }
        let defaults = serde_json::to_value(PortKnobs::default()).unwrap();
        let of_port = |knob: &&Knob| knob.owner == Owner::Port || knob.key == "rx-checksum";
        let keys: Vec<&str> = KNOBS.iter().filter(of_port).map(|knob| knob.key).collect();
        let stored = defaults.as_object().unwrap();
        assert_eq!(stored.len(), keys.len());
        assert!(keys.iter().all(|key| stored.contains_key(*key)), "{stored:?}");
    }

    #[test]
    fn a_row_has_a_key_of_its_own_and_a_help_in_one_line() {
        for (index, knob) in KNOBS.iter().enumerate() {
            assert!(KNOBS[..index].iter().all(|other| other.key != knob.key), "{}", knob.key);
            assert!(!knob.help.is_empty() && !knob.help.contains('\n'), "{}", knob.key);
            assert_eq!(knob.help, knob.help.trim());
            assert!(!knob.help.ends_with('.'), "{}", knob.help);
        }
    }

    #[test]
    fn a_knob_reads_its_values_and_refuses_others() {
        for knob in KNOBS {
            let mut knobs = InterfaceKnobs::default();
            assert_eq!(knob.get(&knobs), None);
            let value = some_value(knob);
            assert!(knob.set(&mut knobs, value));
            assert_eq!(knob.get(&knobs), Some(value));
            assert_eq!(knobs.values(), [(knob.key, value.to_string())]);
            let before = knobs.clone();
            for wrong in [Value::Word("sideways"), Value::Number(u32::MAX)] {
                assert!(!knob.set(&mut knobs, wrong), "{}", knob.key);
            }
            assert_eq!(knobs, before);
        }
    }

    #[test]
    fn a_request_changes_what_it_names_and_no_more() {
        let fresh = PortKnobs { rx_usecs: 7, vlan: 3, ..PortKnobs::default() };
        let asked = InterfaceKnobs {
            rx_checksum: Some(false),
            port: PortRequest { lro: Some(true), ..PortRequest::default() },
            ..InterfaceKnobs::default()
        };
        let now = fresh.with(&asked);
        assert_eq!(now, PortKnobs { rx_checksum: false, lro: true, ..fresh.clone() });
        assert_eq!(fresh.with(&now.request()), now);
        assert_eq!(asked.of(Owner::Driver).values(), [("rx-checksum", "off".to_owned())]);
        assert_eq!(asked.of(Owner::Port).values(), [("lro", "on".to_owned())]);
        assert_eq!(asked.of(Owner::Kernel), InterfaceKnobs::default());
        let other = InterfaceKnobs { mtu: Some(9000), ..fresh.request() };
        let both = asked.or(&other);
        assert_eq!((both.rx_checksum, both.mtu), (Some(false), Some(9000)));
        assert_eq!((both.port.lro, both.port.rx_usecs), (Some(true), Some(7)));
    }

    #[test]
    fn knobs_of_both_ends_are_set_at_both_ends() {
        let sut = PortKnobs { lro: true, vlan: 5, snap: true, rx_usecs: 1, ..PortKnobs::default() };
        let client = PortKnobs::default().sharing(&sut);
        assert_eq!(client, PortKnobs { vlan: 5, snap: true, ..PortKnobs::default() });
        let shared = KNOBS.iter().filter(|knob| knob.ends == Ends::Both).map(|knob| knob.key);
        assert_eq!(shared.collect::<Vec<_>>(), ["mtu", "vlan", "snap", "adaptive-rx"]);
    }

    #[test]
    fn knobs_of_the_previous_version_are_read() {
        let text = r#"{"offload":"tso","gro":true,"tx-checksum":true,"rx-checksum":false,"mtu":1500,
            "gso-max-size":32160,"queues":1,"port":{"lro":false,"steering":"destination-port",
            "rx-usecs":250,"rx-frames":0,"tx-usecs":250,"vlan":100,"snap":false}}"#;
        let knobs: InterfaceKnobs = serde_json::from_str(text).unwrap();
        let json: Json = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&knobs).unwrap(), json);
        let text = r#"{"lro":true,"rx-checksum":false,"steering":"off","rx-usecs":1,"rx-frames":2,
            "tx-usecs":3,"vlan":4,"snap":true}"#;
        let knobs: PortKnobs = serde_json::from_str(text).unwrap();
        assert_eq!((knobs.tx_usecs, knobs.steering), (3, Steering::Off));
        // the previous version knew a fixed delay only
        assert!(!knobs.adaptive_rx);
        assert!(serde_json::from_str::<PortKnobs>(r#"{"lor":true}"#).is_err());
    }
}
