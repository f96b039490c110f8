//! A verdict in one clause, for the column of a table.
//!
//! What the page around it says already is left out: that CPUs are shared, and the scale.

use super::{Verdict, VerdictInput, judge};

impl VerdictInput {
    /// The verdict in one clause, and how far the links were filled where they are not the bound.
    pub fn brief(&self) -> String {
        let verdict = judge(self);
        let mut text = verdict.brief(self.device_shares_cpus);
        if let Some(percent) = self.clients_disturbed()
            && let Some(inside) = text.strip_suffix(')')
        {
            text = format!("{inside}, {percent:.1} % by other programs)");
        }
        match self.link_percent.filter(|_| !verdict.is_outside()) {
            Some(percent) => format!("{text}; links {percent:.1} %"),
            None => text,
        }
    }
}

impl Verdict {
    /// One clause; `with_device` says that devices run on the clients' CPUs too.
    fn brief(self, with_device: bool) -> String {
        match self {
            Self::NoGoodRun => "no run succeeded".to_owned(),
            Self::Link { .. } | Self::Bus { .. } | Self::SutCpu { .. } => self.to_string(),
            Self::DeviceCpu { percent } => {
                format!("bound by the device's CPU ({percent:.1} % busy)")
            }
            Self::ClientCpu { percent } if with_device => {
                format!("bound by the CPU of clients and device ({percent:.1} % busy)")
            }
            Self::ClientCpu { percent } => {
                format!("bound by the clients' CPU ({percent:.1} % busy)")
            }
            Self::BothCpus { sut, client } if with_device => format!(
                "bound by the CPUs of both ends (SUT {sut:.1} % busy, clients and device \
                 {client:.1} %)"
            ),
            Self::BothCpus { .. } => self.to_string(),
            Self::SharedCpu { percent } if with_device => {
                format!("bound by the CPU of both ends and device ({percent:.1} % busy)")
            }
            Self::SharedCpu { percent } => {
                format!("bound by the CPU of both ends ({percent:.1} % busy)")
            }
            Self::ReceiverWindow { percent, .. } => {
                Self::ReceiverWindow { percent, shared_cpus: false }.to_string()
            }
            Self::SendBuffer { percent, .. } => {
                Self::SendBuffer { percent, shared_cpus: false }.to_string()
            }
            Self::RoundTrip { sut, .. } => match sut {
                Some(percent) => format!("bound by the round trip (SUT CPU {percent:.1} % busy)"),
                None => "bound by the round trip".to_owned(),
            },
            Self::NoSingleResource { sut, client, rwnd, .. } => {
                let parts = [
                    sut.map(|percent| format!("SUT CPU {percent:.1} % busy")),
                    client.map(|percent| format!("clients {percent:.1} %")),
                    rwnd.map(|percent| format!("window {percent:.1} %")),
                ];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                match parts.is_empty() {
                    true => "bound by no single resource".to_owned(),
                    false => format!("bound by no single resource ({})", parts.join(", ")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: VerdictInput = VerdictInput {
        good_runs: 5,
        link_percent: Some(89.9),
        bus_percent: None,
        device_busiest_percent: None,
        device_shares_cpus: true,
        scale: 0.1,
        sut_busiest_percent: Some(12.04),
        client_busiest_percent: Some(10.0),
        shared_cpus: false,
        transactional: false,
        rwnd_limited_percent: Some(3.0),
        sndbuf_limited_percent: None,
        client_others_percent: 0.0,
    };

    #[test]
    fn one_clause_says_what_the_sentence_says() {
        let clients = VerdictInput { client_busiest_percent: Some(98.2), ..CALM };
        let sut = VerdictInput { sut_busiest_percent: Some(99.8), ..CALM };
        let both = VerdictInput { sut_busiest_percent: Some(99.8), ..clients };
        let apart = |input| VerdictInput { device_shares_cpus: false, ..input };
        let shared = VerdictInput { shared_cpus: true, ..sut };
        for (input, brief) in [
            (VerdictInput::default(), "no run succeeded"),
            (clients, "bound by the CPU of clients and device (98.2 % busy); links 89.9 %"),
            (apart(clients), "bound by the clients' CPU (98.2 % busy); links 89.9 %"),
            (sut, "bound by the SUT's CPU (99.8 % busy); links 89.9 %"),
            (
                both,
                "bound by the CPUs of both ends (SUT 99.8 % busy, clients and device 98.2 %); links \
                 89.9 %",
            ),
            (
                apart(both),
                "bound by the CPUs of both ends (SUT 99.8 % busy, clients 98.2 %); links 89.9 %",
            ),
            (shared, "bound by the CPU of both ends and device (99.8 % busy); links 89.9 %"),
            (apart(shared), "bound by the CPU of both ends (99.8 % busy); links 89.9 %"),
            (
                VerdictInput { device_busiest_percent: Some(96.3), ..CALM },
                "bound by the device's CPU (96.3 % busy); links 89.9 %",
            ),
            (
                VerdictInput { link_percent: Some(98.0), ..CALM },
                "bound by the link (98.0 % occupied)",
            ),
            (
                VerdictInput { bus_percent: Some(98.0), ..CALM },
                "bound by the bus (98.0 % occupied)",
            ),
            (
                VerdictInput { rwnd_limited_percent: Some(61.4), shared_cpus: true, ..CALM },
                "bound by the receiver's window (61.4 % of sending time); links 89.9 %",
            ),
            (
                VerdictInput { sndbuf_limited_percent: Some(61.4), link_percent: None, ..CALM },
                "bound by the send buffer (61.4 % of sending time)",
            ),
            (
                VerdictInput { transactional: true, link_percent: None, ..CALM },
                "bound by the round trip (SUT CPU 12.0 % busy)",
            ),
            (
                VerdictInput { link_percent: None, ..CALM },
                "bound by no single resource (SUT CPU 12.0 % busy, clients 10.0 %, window 3.0 %)",
            ),
            (
                VerdictInput { good_runs: 1, ..VerdictInput::default() },
                "bound by no single resource",
            ),
        ] {
            assert_eq!(input.brief(), brief);
            assert!(brief.chars().count() <= input.sentence().chars().count(), "{brief}");
        }
    }
}
