//! Finding about the existing interfaces of this host: which can be measured.

use linkrate_agent::existing::describe;
use linkrate_sys::netlink::RouteSocket;

use super::Finding;

/// Lists the existing interfaces that can be measured, or says why not all can be varied.
pub(super) fn finding() -> Finding {
    let addresses = RouteSocket::open().and_then(|mut socket| socket.ipv4_addresses());
    let mut names: Vec<String> = match addresses {
        Ok(addresses) => addresses.into_iter().map(|address| address.interface).collect(),
        Err(_) => Vec::new(),
    };
    names.dedup();
    let reported = names.iter().filter(|name| *name != "lo").filter_map(|name| {
        let facts = describe(name).ok().filter(|facts| facts.running)?;
        let known = [facts.driver, facts.rate.map_or_else(String::new, |rate| rate.to_string())];
        let known: Vec<String> = known.into_iter().filter(|text| !text.is_empty()).collect();
        Some(match known.is_empty() {
            true => name.clone(),
            false => format!("{name} ({})", known.join(", ")),
        })
    });
    let root = linkrate_sys::host::join::user() == 0;
    judge(&reported.collect::<Vec<_>>(), root)
}

fn judge(interfaces: &[String], root: bool) -> Finding {
    const NAME: &str = "interfaces";
    if interfaces.is_empty() {
        return Finding::good(
            NAME,
            "no existing interface is up with an IPv4 address; testbeds create their own interfaces",
        );
    }
    let listed = interfaces.join(", ");
    if !root {
        let detail = format!("{listed}: only root may change their settings");
        return Finding::limited(
            NAME,
            detail,
            "run as root to vary offloads, MTU or queues of existing interfaces",
        );
    }
    Finding::good(NAME, format!("existing interfaces that --interface can measure: {listed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    #[test]
    fn every_obstacle_has_a_remedy() {
        let some = ["eth1 (e1000e, 1.000 Gb/s)".to_owned()];
        for (interfaces, root, state, part) in [
            (&[][..], true, State::Good, "create their own"),
            (&some[..], true, State::Good, "--interface can measure: eth1 (e1000e"),
            (&some, false, State::Limited, "only root"),
        ] {
            let finding = judge(interfaces, root);
            assert_eq!(finding.state, state);
            assert!(finding.detail.contains(part), "{}", finding.detail);
            assert_eq!(finding.remedy.is_some(), state != State::Good);
        }
    }
}
