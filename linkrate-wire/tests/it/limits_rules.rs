//! What must hold of every limit, and what is refused.

use linkrate_model::{BitRate, ByteSize};
use linkrate_wire::limits::{Cut, IpVersion, Limit, LimitError, Traffic, Transport};
use linkrate_wire::link::atm::{OC3C, OC12C};
use linkrate_wire::link::{Framing, Link};
use proptest::prelude::*;

fn transports() -> impl Strategy<Value = Transport> {
    prop_oneof![
        Just(Transport::Tcp { timestamps: false }),
        Just(Transport::Tcp { timestamps: true }),
        Just(Transport::Udp),
    ]
}

fn cuts() -> impl Strategy<Value = Cut> {
    prop_oneof![Just(Cut::Full), (1u64..65_000).prop_map(|size| Cut::Message(ByteSize(size)))]
}

fn traffics() -> impl Strategy<Value = Traffic> {
    let ips = prop_oneof![Just(IpVersion::V4), Just(IpVersion::V6)];
    (ips, transports(), cuts(), any::<u32>()).prop_map(|(ip, transport, cut, any)| {
        let lowest = ip.smallest_mtu();
        Traffic { ip, transport, mtu: lowest + any % (65_519 - lowest), cut }
    })
}

fn ethernets() -> impl Strategy<Value = Link> {
    (1e3..1e12, 0u8..=2, any::<bool>()).prop_map(|(rate, vlan_tags, snap)| Link {
        line_rate: BitRate(rate),
        framing: Framing::Ethernet { vlan_tags, snap },
    })
}

fn atms() -> impl Strategy<Value = Link> {
    let framings = prop_oneof![Just(Framing::LanEmulation), Just(Framing::ClassicalIp)];
    (prop_oneof![Just(OC3C), Just(OC12C)], framings)
        .prop_map(|(line_rate, framing)| Link { line_rate, framing })
}

/// The account closes, and payload never reaches the line rate.
fn sound(limit: &Limit) -> Result<(), TestCaseError> {
    prop_assert!(limit.payload_rate().0 < limit.line_rate.0);
    prop_assert!(limit.payload_rate().0 > 0.0);
    let shares: f64 = limit.layers.iter().map(|layer| limit.share(layer)).sum();
    prop_assert!((shares + limit.efficiency() - 1.0).abs() < 1e-9);
    prop_assert!(limit.layers.iter().all(|layer| layer.bytes > 0.0));
    let from_units = limit.units_per_second() * limit.payload as f64 * 8.0;
    prop_assert!((from_units / limit.payload_rate().0 - 1.0).abs() < 1e-9);
    Ok(())
}

proptest! {
    #[test]
    fn ethernet_is_sound(link in ethernets(), traffic in traffics()) {
        let limit = link.limit(&traffic).unwrap();
        sound(&limit)?;
        // header, FCS, preamble and gap are the least a frame costs, and 84 bytes the least it is
        prop_assert!(limit.line_bytes() >= (limit.payload + 38 * limit.packets) as f64);
        prop_assert!(limit.line_bytes() >= 84.0 * limit.packets as f64);
    }

    #[test]
    fn atm_is_sound(link in atms(), traffic in traffics()) {
        let limit = link.limit(&traffic).unwrap();
        sound(&limit)?;
        let cells = limit.cells.unwrap();
        prop_assert!((limit.line_bytes() / (53.0 * cells as f64) - 27.0 / 26.0).abs() < 1e-9);
        prop_assert!(cells * 48 > limit.payload);
    }

    #[test]
    fn full_frames_grow_with_the_mtu(link in ethernets(), traffic in traffics(), more in 1u32..9000) {
        let small = Traffic { cut: Cut::Full, ..traffic };
        let large = Traffic { mtu: (small.mtu + more).min(65_519), ..small };
        let (small, large) = (link.limit(&small).unwrap(), link.limit(&large).unwrap());
        prop_assert!(large.efficiency() >= small.efficiency());
    }

    /// Cells make steps, so only MTUs with the same padding can be compared.
    #[test]
    fn full_units_grow_with_the_mtu_at_the_same_padding(
        link in atms(),
        traffic in traffics(),
        cells in 1u32..100,
    ) {
        let small = Traffic { cut: Cut::Full, mtu: traffic.mtu.min(60_000), ..traffic };
        let large = Traffic { mtu: small.mtu + 48 * cells, ..small };
        let (small, large) = (link.limit(&small).unwrap(), link.limit(&large).unwrap());
        prop_assert!(large.efficiency() > small.efficiency());
    }

    /// Cutting a TCP stream at message ends never helps on Ethernet, and costs nothing when the
    /// messages are whole segments.
    #[test]
    fn message_ends_cost(link in ethernets(), traffic in traffics(), count in 1u64..100) {
        let timestamps = Transport::Tcp { timestamps: true };
        let full = Traffic { cut: Cut::Full, transport: timestamps, ..traffic };
        let cut = Traffic { transport: timestamps, ..traffic };
        let best = link.limit(&full).unwrap().efficiency();
        prop_assert!(link.limit(&cut).unwrap().efficiency() <= best + 1e-12);
        let whole = full.largest_payload().unwrap() * count;
        let limit = link.limit(&Traffic { cut: Cut::Message(ByteSize(whole)), ..full }).unwrap();
        prop_assert_eq!(limit.packets, count);
        prop_assert!((limit.efficiency() - best).abs() < 1e-12);
    }

    /// Every byte of every datagram arrives: fragments hold the datagram, fit the MTU and are no
    /// more than needed.
    #[test]
    fn fragments_hold_the_datagram(size in 1u64..65_000, traffic in traffics()) {
        let traffic = Traffic {
            transport: Transport::Udp,
            cut: Cut::Message(ByteSize(size)),
            ..traffic
        };
        let limit = Link::ethernet(BitRate(1e9)).limit(&traffic).unwrap();
        let mtu = u64::from(traffic.mtu);
        let header = traffic.ip.header();
        if size + 8 + header <= mtu {
            prop_assert_eq!(limit.packets, 1);
        } else {
            let extra = if traffic.ip == IpVersion::V6 { 8 } else { 0 };
            let (room, usual) = (mtu - header - extra, (mtu - header - extra) / 8 * 8);
            prop_assert!(limit.packets >= 2);
            prop_assert!((limit.packets - 1) * usual + room >= size + 8);
            prop_assert!((limit.packets - 2) * usual + room < size + 8);
        }
    }

    #[test]
    fn the_published_formula_is_the_limit_within_the_mtu(link in atms(), message in 1u64..9140) {
        let traffic = Traffic {
            transport: Transport::Tcp { timestamps: false },
            cut: Cut::Message(ByteSize(message)),
            ..Traffic::tcp(9180)
        };
        let limit = link.limit(&traffic).unwrap().payload_rate().0;
        let formula = link.published_formula(message).unwrap().0;
        prop_assert!((limit / formula - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_datagram_of_two_fragments() {
    // 2048 + 8 bytes over MTU 1500: 1480 in the first fragment, 576 in the second
    let traffic = Traffic { cut: Cut::Message(ByteSize(2048)), ..Traffic::udp(1500) };
    let link = Link::ethernet(BitRate(1e9));
    let limit = link.limit(&traffic).unwrap();
    assert_eq!(limit.packets, 2);
    assert_eq!(limit.line_bytes(), (1500 + 38 + 596 + 38) as f64);
    assert_eq!(link.occupied(1500) + link.occupied(596), 1500 + 38 + 596 + 38);
}

#[test]
fn refusals_name_the_expected_value() {
    let link = Link::ethernet(BitRate(1e9));
    let framing = Framing::Ethernet { vlan_tags: 3, snap: false };
    let three_tags = Link { framing, ..link };
    let message = |size| Traffic { cut: Cut::Message(ByteSize(size)), ..Traffic::udp(1500) };
    let cases: Vec<(LimitError, &str)> = vec![
        (
            Link::ethernet(BitRate(f64::NAN)).limit(&Traffic::tcp(1500)).unwrap_err(),
            "line rate of NaN b/s; expected a finite rate above zero, for example 1 Gb/s",
        ),
        (
            three_tags.limit(&Traffic::tcp(1500)).unwrap_err(),
            "3 VLAN tags; expected 0, 1 (IEEE 802.1Q) or 2 (IEEE 802.1ad, a service tag in front)",
        ),
        (
            link.limit(&Traffic::tcp(67)).unwrap_err(),
            "MTU of 67 bytes; expected 68 to 65535 for IPv4 over Ethernet",
        ),
        (
            link.limit(&Traffic { ip: IpVersion::V6, ..Traffic::tcp(576) }).unwrap_err(),
            "MTU of 576 bytes; expected 1280 to 65575 for IPv6 over Ethernet",
        ),
        (
            Link { line_rate: OC3C, framing: Framing::LanEmulation }
                .limit(&Traffic::tcp(65_535))
                .unwrap_err(),
            "MTU of 65535 bytes; expected 68 to 65519 for IPv4 over LAN Emulation",
        ),
        (
            link.limit(&message(0)).unwrap_err(),
            "message of 0 bytes; expected 1 to 65507 for a UDP datagram over IPv4",
        ),
        (
            link.limit(&message(65_508)).unwrap_err(),
            "message of 65508 bytes; expected 1 to 65507 for a UDP datagram over IPv4",
        ),
        (
            Link::classical_ip(BitRate(0.0)).published_formula(128).unwrap_err(),
            "line rate of 0 b/s; expected a finite rate above zero, for example 1 Gb/s",
        ),
    ];
    for (error, text) in cases {
        assert_eq!(error.to_string(), text);
    }
}
