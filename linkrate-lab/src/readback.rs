//! The knobs that were read back: every interface against the request, and against the others.

use std::collections::BTreeMap;

use linkrate_model::InterfaceKnobs;

use crate::error::LabError;

/// The knobs of each of the SUT's interfaces that took part, as read back after they were set.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveKnobs(BTreeMap<String, InterfaceKnobs>);

impl EffectiveKnobs {
    /// Accepts the knobs that read back after `asked` was set: each interface must have the
    /// requested values, and all interfaces must have the same values.
    pub(crate) fn checked(
        asked: &InterfaceKnobs,
        effective: BTreeMap<String, InterfaceKnobs>,
    ) -> Result<Self, LabError> {
        for (interface, knobs) in &effective {
            as_requested(asked, interface, knobs)?;
        }
        let mut all = effective.iter();
        if let Some(first) = all.next() {
            all.try_for_each(|other| alike(first, other))?;
        }
        Ok(Self(effective))
    }

    /// The knobs that every interface has.
    pub fn common(&self) -> InterfaceKnobs {
        self.0.values().next().cloned().unwrap_or_default()
    }
}

/// The values of knobs by key.
fn values(knobs: &InterfaceKnobs) -> BTreeMap<&'static str, String> {
    knobs.values().into_iter().collect()
}

fn as_requested(
    asked: &InterfaceKnobs,
    interface: &str,
    effective: &InterfaceKnobs,
) -> Result<(), LabError> {
    let (wanted, now) = (values(asked), values(effective));
    let Some((knob, wanted)) = wanted.iter().find(|(knob, value)| now.get(*knob) != Some(*value))
    else {
        return with_gro(asked, interface, effective);
    };
    let is = now.get(knob).map_or("unknown", String::as_str);
    Err(LabError::Invalid {
        what: format!("knob \"{knob}\" of {interface}: requested {wanted}, effective is {is}"),
        hint: "the device did not apply the knob; leave it out, or measure on another adapter"
            .to_owned(),
    })
}

/// Refuses kinds of GRO where there is none.
fn with_gro(
    asked: &InterfaceKnobs,
    interface: &str,
    effective: &InterfaceKnobs,
) -> Result<(), LabError> {
    let kinds = [("gro-list", asked.gro_list), ("udp-gro-forwarding", asked.udp_gro_forwarding)];
    let asked = kinds.into_iter().find(|(_, on)| *on == Some(true));
    match asked.filter(|_| effective.gro == Some(false)) {
        None => Ok(()),
        Some((knob, _)) => Err(LabError::Invalid {
            what: format!("knob \"{knob}\" of {interface}: it has no effect, because gro is off"),
            hint: "switch gro on, too".to_owned(),
        }),
    }
}

fn alike(
    (first, of_first): (&String, &InterfaceKnobs),
    (other, of_other): (&String, &InterfaceKnobs),
) -> Result<(), LabError> {
    let (of_first, of_other) = (values(of_first), values(of_other));
    let knobs = of_first.keys().chain(of_other.keys());
    let Some(knob) = knobs.copied().find(|knob| of_first.get(knob) != of_other.get(knob)) else {
        return Ok(());
    };
    let value =
        |of: &BTreeMap<&str, String>| of.get(knob).map_or("unknown", String::as_str).to_owned();
    Err(LabError::Invalid {
        what: format!(
            "knob \"{knob}\" of {other}: not requested, effective is {}; {first} has {}",
            value(&of_other),
            value(&of_first)
        ),
        hint: format!("set {knob} for the run, or give all interfaces the same value"),
    })
}

#[cfg(test)]
mod tests {
    use linkrate_model::Offload;
    use linkrate_model::knobs::PortRequest;

    use super::*;

    fn checked(
        asked: &InterfaceKnobs,
        effective: &[(&str, InterfaceKnobs)],
    ) -> Result<InterfaceKnobs, String> {
        let effective =
            effective.iter().map(|(name, knobs)| ((*name).to_owned(), knobs.clone())).collect();
        EffectiveKnobs::checked(asked, effective)
            .map(|knobs| knobs.common())
            .map_err(|error| error.to_string())
    }

    fn gro(on: bool) -> InterfaceKnobs {
        InterfaceKnobs { gro: Some(on), mtu: Some(1500), ..InterfaceKnobs::default() }
    }

    #[test]
    fn interfaces_that_have_what_was_requested_are_accepted() {
        let asked = InterfaceKnobs { gro: Some(true), ..InterfaceKnobs::default() };
        let effective = [("eth0", gro(true)), ("eth1", gro(true))];
        assert_eq!(checked(&asked, &effective), Ok(gro(true)));
        assert_eq!(checked(&asked, &[]), Ok(InterfaceKnobs::default()));
    }

    #[test]
    fn an_interface_that_differs_from_the_request_is_named() {
        let asked = InterfaceKnobs { gro: Some(true), ..InterfaceKnobs::default() };
        // neither the first nor the last
        let effective = [("eth0", gro(true)), ("eth1", gro(false)), ("eth2", gro(true))];
        let said = "knob \"gro\" of eth1: requested on, effective is off";
        assert_eq!(checked(&asked, &effective).unwrap_err(), said);
        let lro = PortRequest { lro: Some(true), ..PortRequest::default() };
        let asked = InterfaceKnobs { port: lro, ..InterfaceKnobs::default() };
        let said = "knob \"lro\" of eth0: requested on, effective is unknown";
        assert_eq!(checked(&asked, &[("eth0", gro(true))]).unwrap_err(), said);
    }

    #[test]
    fn a_kind_of_gro_without_gro_is_refused() {
        let forwarding = |on: bool| InterfaceKnobs { udp_gro_forwarding: Some(true), ..gro(on) };
        let list = |on: bool| InterfaceKnobs { gro_list: Some(true), ..gro(on) };
        for (knob, of) in [
            ("udp-gro-forwarding", &forwarding as &dyn Fn(bool) -> InterfaceKnobs),
            ("gro-list", &list),
        ] {
            let asked = InterfaceKnobs { gro: None, mtu: None, ..of(true) };
            assert_eq!(checked(&asked, &[("eth0", of(true))]), Ok(of(true)));
            let said = format!("knob \"{knob}\" of eth0: it has no effect, because gro is off");
            assert_eq!(checked(&asked, &[("eth0", of(false))]).unwrap_err(), said);
        }
    }

    #[test]
    fn an_interface_that_differs_from_the_others_is_named() {
        let asked = InterfaceKnobs { mtu: Some(1500), ..InterfaceKnobs::default() };
        let effective = [("eth0", gro(true)), ("eth1", gro(false))];
        let said = "knob \"gro\" of eth1: not requested, effective is off; eth0 has on";
        assert_eq!(checked(&asked, &effective).unwrap_err(), said);
        let more = InterfaceKnobs { offload: Some(Offload::Tso), ..gro(true) };
        let effective = [("eth0", gro(true)), ("eth1", more)];
        let said = "knob \"offload\" of eth1: not requested, effective is tso; eth0 has unknown";
        assert_eq!(checked(&asked, &effective).unwrap_err(), said);
    }
}
