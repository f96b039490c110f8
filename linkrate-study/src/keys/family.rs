//! Settings that cannot be combined with IPv6.

use linkrate_model::model::LinkKind;
use linkrate_model::spec::Adapter;
use linkrate_model::{Family, TestbedSpec};

use super::Setup;
use super::refusal::{Combination, refuse};

/// Refuses IPv6 where nothing carries it.
pub(super) fn check(setup: &Setup, testbed: &TestbedSpec) -> Result<(), Combination> {
    if setup.socket.family == Family::Ipv4 {
        return Ok(());
    }
    let smallest = setup.socket.family.smallest_mtu();
    if let Some(mtu) = setup.interface.mtu.filter(|mtu| *mtu < smallest) {
        let sentence = format!(
            "family ipv6 cannot be combined with mtu {mtu}: each link of IPv6 has at least {smallest} B; \
             set mtu to at least {smallest}, or family ipv4"
        );
        return refuse("family", "mtu", sentence);
    }
    let cannot = match &testbed.adapter {
        // a program has addresses of its own
        Adapter::Interfaces(on) if on.program_of_clients().is_some() => return Ok(()),
        Adapter::Interfaces(_) => {
            "existing interfaces, whose addresses linkrate does not choose".to_owned()
        }
        Adapter::Model(model) if model.link == LinkKind::Atm => {
            format!("adapter {}, whose fabric resolves addresses of IPv4 alone", model.name)
        }
        _ if testbed.router => "a router, which routes IPv4 alone".to_owned(),
        _ => return Ok(()),
    };
    let sentence = format!("family ipv6 cannot be combined with {cannot}; set family ipv4");
    refuse("family", "adapter", sentence)
}
