//! Settings that an ATM adapter lacks, and those that only an ATM adapter has.

use linkrate_model::knobs::{self, Owner};
use linkrate_model::model::LinkKind;
use linkrate_model::{InterfaceKnobs, Model, Offload, Steering, TestbedSpec};

use super::refusal::{Combination, refuse};

/// Whether links of this kind lack a knob because only ATM ports have it.
pub(super) fn lacks(key: &str, link: LinkKind) -> bool {
    link != LinkKind::Atm && knobs::find(key).is_some_and(|knob| knob.owner == Owner::Atm)
}

/// Refuses what an ATM adapter does not have. Its offloads are AAL5 and cells alone: checksums and
/// segmentation of TCP are its host's work.
pub(super) fn check(
    knobs: &InterfaceKnobs,
    model: &Model,
    testbed: &TestbedSpec,
) -> Result<(), Combination> {
    let port = &knobs.port;
    let no_checksums = "the adapter computes the CRC of AAL5 and no checksum of IP or TCP";
    let emulated = model.encapsulation.is_emulated();
    let (packets, snap) = if emulated {
        let each = "each port is a client of an emulated LAN, with its own connections";
        (each, "an emulated LAN carries the frames as the host makes them")
    } else {
        let each = "an ATM port carries IP packets in cells, without a header of Ethernet";
        (each, "every packet has LLC/SNAP already (RFC 2225)")
    };
    let vlan = if emulated { "the port puts no tag on the frames of its host" } else { packets };
    let refused: [(bool, &'static str, &str); 7] = [
        (
            knobs.offload == Some(Offload::Tso),
            "offload tso",
            "the adapter segments AAL5 units into cells, but no superframes; the kernel segments \
             these with gso",
        ),
        (knobs.tx_checksum == Some(true), "tx-checksum on", no_checksums),
        (knobs.rx_checksum == Some(true), "rx-checksum on", no_checksums),
        (port.lro == Some(true), "lro on", "the adapter reassembles cells, but merges no segments"),
        (
            port.steering.is_some_and(|steering| steering != Steering::Off),
            "steering",
            "the port has one queue",
        ),
        (port.vlan.is_some_and(|vlan| vlan != 0), "vlan", vlan),
        (port.snap == Some(true), "snap on", snap),
    ];
    let name = &model.name;
    if let Some((_, what, why)) = refused.into_iter().find(|(refused, ..)| *refused) {
        let key = what.split(' ').next().unwrap_or(what);
        return refuse(key, "adapter", format!("adapter {name} has no {what}: {why}"));
    }
    if testbed.aggregate > 0 {
        let sentence = format!("ports of adapter {name} cannot act as one: {packets}");
        return refuse("aggregate", "adapter", sentence);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use linkrate_model::knobs::{AtmRequest, PortRequest};
    use linkrate_model::model;
    use linkrate_model::spec::Adapter;

    use super::*;
    use crate::keys::{self, Setup, misplaced};

    fn testbed(name: &str) -> TestbedSpec {
        let adapter = Adapter::Model(Box::new(model::find(name).unwrap()));
        TestbedSpec { adapter, ..TestbedSpec::default() }
    }

    fn refusal(interface: InterfaceKnobs, testbed: &TestbedSpec) -> Option<String> {
        let setup = Setup { interface, ..Setup::default() };
        keys::check(&setup, testbed).err().map(|error| error.to_string())
    }

    #[test]
    fn what_the_adapter_lacks_is_refused_with_the_reason() {
        let atm = testbed("atm-622");
        let fresh = InterfaceKnobs::default();
        let of_port = |port| InterfaceKnobs { port, ..InterfaceKnobs::default() };
        let port = PortRequest::default();
        for (knobs, reason) in [
            (InterfaceKnobs { offload: Some(Offload::Tso), ..fresh.clone() }, "no superframe"),
            (InterfaceKnobs { tx_checksum: Some(true), ..fresh.clone() }, "CRC of AAL5"),
            (InterfaceKnobs { rx_checksum: Some(true), ..fresh.clone() }, "CRC of AAL5"),
            (of_port(PortRequest { lro: Some(true), ..port.clone() }), "no segments"),
            (of_port(PortRequest { steering: Some(Steering::Rss), ..port.clone() }), "one queue"),
            (of_port(PortRequest { vlan: Some(5), ..port.clone() }), "header of Ethernet"),
            (of_port(PortRequest { snap: Some(true), ..port.clone() }), "LLC/SNAP already"),
        ] {
            let refused = refusal(knobs.clone(), &atm).unwrap_or_else(|| panic!("{knobs:?}"));
            assert!(refused.contains("atm-622") && refused.contains(reason), "{refused}");
            let ethernet = refusal(knobs, &testbed("gigabit"));
            assert!(ethernet.is_none_or(|refused| !refused.contains(reason)));
        }
        // what its model has may be asked for
        let defaults = model::find("atm-622").unwrap().defaults.request();
        assert_eq!(refusal(InterfaceKnobs { mtu: Some(65_527), ..defaults }, &atm), None);
        let too_long = InterfaceKnobs { mtu: Some(65_528), ..fresh };
        assert!(refusal(too_long, &atm).unwrap().contains("set at most 65527"));
    }

    #[test]
    fn other_adapters_have_no_connections() {
        for key in ["peak-rate", "early-discard", "partial-discard"] {
            assert_eq!(misplaced(key, &testbed("atm-155")), None);
            let (why, remedy) = misplaced(key, &testbed("gigabit")).unwrap();
            assert!(why.contains(key) && remedy.contains("atm-622"), "{why} {remedy}");
            assert!(misplaced(key, &TestbedSpec::default()).is_some());
        }
        let atm = AtmRequest { peak_rate: Some(1000), ..AtmRequest::default() };
        assert_eq!(
            refusal(InterfaceKnobs { atm, ..InterfaceKnobs::default() }, &testbed("atm-155")),
            None
        );
    }
}
