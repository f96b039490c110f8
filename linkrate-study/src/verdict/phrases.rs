//! The words of a verdict: one form for tables, one for prose.
//!
//! A table has `limited by the link: transmit 99.6 %`. It leaves out what the page around it says
//! already: that CPUs are shared, and the scale. Prose has the whole sentence.

use std::fmt::Write as _;

use super::{
    Bottleneck, CpuShare, DEVICE_BOUND_PERCENT, DisciplineShare, FlowDirection, Judged, PortShares,
    Shortfall, Unexplained, Verdict,
};
use crate::results::figures::RoundTripParts;

/// Where a verdict is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Table,
    Prose,
}

/// One resource with the directions that it bound.
type Group<'a> = Vec<&'a Judged>;

impl Verdict {
    /// The verdict for the column of a table, with how far the links were filled where they are not
    /// the bound.
    pub fn brief(&self) -> String {
        if self.imported {
            return "not known".to_owned();
        }
        if self.directions.is_empty() {
            return "no run succeeded".to_owned();
        }
        let mut text = self.clauses(Form::Table);
        if let Some(percent) = self.client_others_percent {
            // writing to a String does not fail
            let _ = write!(text, ", {percent:.1} % by other programs");
        }
        if let Some(links) = self.links() {
            let _ = write!(text, "; {links}");
        }
        text
    }

    /// What limited the cell, in a word or two for each direction that differs: `link`, `SUT CPU`, `link, send buffer`.
    pub fn limited_by(&self) -> String {
        let mut names: Vec<&str> =
            self.directions.iter().map(|way| way.bottleneck.short()).collect();
        names.dedup();
        match names.is_empty() {
            true if self.imported => "unknown".to_owned(),
            true => "no good run".to_owned(),
            false => names.join(" + "),
        }
    }

    /// The verdict as a sentence without its full stop, with the facts that a reader needs beside
    /// it: how far the links were filled where they are not the bound, and which roles share CPUs.
    pub fn sentence(&self) -> String {
        if self.imported {
            return "unknown (imported result)".to_owned();
        }
        if self.directions.is_empty() {
            return "no verdict: no run succeeded".to_owned();
        }
        let mut text = self.clauses(Form::Prose);
        let any =
            |is: fn(&Bottleneck) -> bool| self.directions.iter().any(|way| is(&way.bottleneck));
        let host = any(Bottleneck::is_host);
        let mut beside = Vec::new();
        beside.extend(self.links().map(|links| format!("{links} occupied")));
        if self.device_shares_cpus && any(Bottleneck::rests_on_peer) {
            beside.push("device and clients share CPUs".to_owned());
        }
        if !beside.is_empty() {
            let limit = if host { "the host is the limit: " } else { "" };
            // writing to a String does not fail
            let _ = write!(text, "; {limit}{}", beside.join(", "));
        }
        // the bound of shared CPUs says so itself
        if self.shared_cpus && !any(|bound| matches!(bound, Bottleneck::SharedCpu { .. })) {
            let outside = self.directions.iter().all(|way| way.bottleneck.is_outside());
            text.push_str(if outside { "" } else { "; the SUT and the clients share CPUs" });
        }
        if let Some(percent) = self.client_others_percent {
            let _ = write!(
                text,
                "; other programs used {percent:.1} % of a client CPU, which may have lowered the \
                 throughput"
            );
        }
        if self.scale < 1.0 {
            let _ = write!(text, "; links at {} of their rate", self.scale);
        }
        text
    }

    /// One clause for each resource; directions that the same resource bound stand together.
    fn clauses(&self, form: Form) -> String {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for way in &self.directions {
            match groups
                .iter_mut()
                .find(|group| group[0].bottleneck.word() == way.bottleneck.word())
            {
                Some(group) => group.push(way),
                None => groups.push(vec![way]),
            }
        }
        let apart = groups.len() > 1;
        let clauses = groups.iter().map(|group| {
            let verb = match (apart, form) {
                (false, _) => "",
                (true, Form::Table) => " ",
                (true, Form::Prose) => " is ",
            };
            let subject =
                if apart { group[0].direction.map_or("", FlowDirection::word) } else { "" };
            format!("{subject}{verb}limited by {}", self.resource(group, form, apart))
        });
        clauses.collect::<Vec<_>>().join("; ")
    }

    /// The resource with its share: `the link: transmit 99.6 %`.
    fn resource(&self, group: &Group<'_>, form: Form, apart: bool) -> String {
        let bound = &group[0].bottleneck;
        let with_device = self.device_shares_cpus && form == Form::Table;
        // the subject of the clause names the direction already
        let by_direction = |share: fn(&Bottleneck) -> Option<f64>, always: bool| {
            let named = !apart && (always || group.len() > 1);
            let shares = group.iter().filter_map(|way| {
                let direction = way.direction.filter(|_| named).map(FlowDirection::word);
                Some(share_of(direction, share(&way.bottleneck)?))
            });
            shares.collect::<Vec<_>>().join(", ")
        };
        let discipline_name = match bound {
            Bottleneck::Discipline { discipline } => name_of(discipline),
            _ => String::new(),
        };
        let (name, share) = match bound {
            Bottleneck::Link { .. } => ("the link", by_direction(Bottleneck::percent, true)),
            Bottleneck::OnePort { ports } => ("one port of the aggregate", one_port(ports)),
            Bottleneck::Store { percent } => ("the adapter's store", share_of(None, *percent)),
            Bottleneck::Bus { percent } => ("the bus", share_of(None, *percent)),
            Bottleneck::Drives { percent } => ("the tape drives", share_of(None, *percent)),
            Bottleneck::Discipline { discipline } => {
                (discipline_name.as_str(), held_back(discipline, form))
            }
            Bottleneck::SutCpu { sut } => ("the SUT's CPU", cpu(*sut, form)),
            Bottleneck::ClientCpu { client } if with_device => {
                ("the CPU of clients and device", cpu(*client, form))
            }
            Bottleneck::ClientCpu { client } => ("the clients' CPU", cpu(*client, form)),
            Bottleneck::BothCpus { sut, client } => {
                let far = if with_device { "clients and device" } else { "clients" };
                let shares = format!("SUT {}, {far} {}", cpu(*sut, form), cpu(*client, form));
                ("the CPUs of both ends", shares)
            }
            Bottleneck::SharedCpu { both } if with_device => {
                ("the CPU of both ends and device", cpu(*both, form))
            }
            Bottleneck::SharedCpu { both } => {
                ("the CPU that the SUT and the clients share", cpu(*both, form))
            }
            // the clients have the rest
            Bottleneck::DeviceCpu { percent } if *percent < DEVICE_BOUND_PERCENT => {
                ("the CPU of device and clients", format!("full, {percent:.1} % by the device"))
            }
            Bottleneck::DeviceCpu { percent } => ("the device's CPU", share_of(None, *percent)),
            Bottleneck::ReceiverWindow { .. } => {
                ("the receiver's window", by_direction(Bottleneck::percent, false))
            }
            Bottleneck::SendBuffer { .. } => {
                ("the send buffer", by_direction(Bottleneck::percent, false))
            }
            Bottleneck::CongestionWindow { .. } => {
                ("the congestion window or small queues", by_direction(Bottleneck::percent, false))
            }
            Bottleneck::Acknowledgement { .. } => (
                "the wait for the peer's acknowledgement",
                by_direction(Bottleneck::percent, false),
            ),
            Bottleneck::RequestRate { percent } => {
                ("the rate of requests", share_of(None, *percent))
            }
            Bottleneck::RoundTrip { sut, parts } => {
                ("the round trip", round_trip(parts, *sut, form))
            }
            Bottleneck::NoSingleResource { sut, client, unexplained, .. } => {
                let mut shares = parts(&[("SUT CPU", *sut), ("clients", *client)]);
                let window = by_direction(Bottleneck::window, false);
                if !window.is_empty() {
                    let separator = if shares.is_empty() { "" } else { ", " };
                    let _ = write!(shares, "{separator}window {window}");
                }
                if let Some(unexplained) = unexplained {
                    let separator = if shares.is_empty() { "" } else { "; " };
                    let _ = write!(shares, "{separator}{}", left_of(unexplained, form));
                }
                ("no single resource", shares)
            }
        };
        let unit = match bound {
            Bottleneck::DeviceCpu { percent } if *percent < DEVICE_BOUND_PERCENT => "",
            Bottleneck::Link { .. } | Bottleneck::OnePort { .. } | Bottleneck::Bus { .. } => {
                " occupied"
            }
            Bottleneck::SutCpu { .. }
            | Bottleneck::ClientCpu { .. }
            | Bottleneck::BothCpus { .. }
            | Bottleneck::SharedCpu { .. }
            | Bottleneck::DeviceCpu { .. } => " busy",
            Bottleneck::ReceiverWindow { .. }
            | Bottleneck::SendBuffer { .. }
            | Bottleneck::CongestionWindow { .. } => " of sending time",
            Bottleneck::Acknowledgement { .. } => " of the time",
            Bottleneck::Store { .. } => " of the time",
            Bottleneck::Drives { .. } => " of their rate",
            Bottleneck::RequestRate { .. } => " of it answered",
            Bottleneck::Discipline { .. }
            | Bottleneck::RoundTrip { .. }
            | Bottleneck::NoSingleResource { .. } => "",
        };
        let rest = rest_of(group, form);
        match form {
            Form::Table => {
                // a share of sending time would be misread without its base
                let unit = if unit == " of sending time" { unit } else { "" };
                let colon = if share.is_empty() { "" } else { ": " };
                format!("{name}{colon}{share}{unit}{rest}{}", agreeing(group))
            }
            Form::Prose => {
                let shares = if share.is_empty() {
                    String::new()
                } else {
                    format!(" ({share}{unit}{rest})")
                };
                format!("{name}{shares}{}{}{}", agreeing(group), reason(bound), path_of(bound))
            }
        }
    }

    /// How far the links were filled in the directions that something else bound.
    fn links(&self) -> Option<String> {
        let named = self.directions.len() > 1;
        let shares =
            self.directions.iter().filter(|way| !way.bottleneck.is_outside()).filter_map(|way| {
                let direction = way.direction.filter(|_| named).map(FlowDirection::word);
                Some(share_of(direction, way.link_percent?))
            });
        let shares: Vec<String> = shares.collect();
        (!shares.is_empty()).then(|| format!("links {}", shares.join(", ")))
    }
}

impl FlowDirection {
    /// The word for it, as study files have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Transmit => "transmit",
            Self::Receive => "receive",
        }
    }
}

impl Bottleneck {
    /// Its name where there is no room for more.
    fn short(&self) -> &'static str {
        match self {
            Self::Link { .. } => "link",
            Self::OnePort { .. } => "one port",
            Self::Store { .. } => "adapter store",
            Self::Bus { .. } => "bus",
            Self::Drives { .. } => "tape drives",
            Self::Discipline { .. } => "qdisc",
            Self::SutCpu { .. } => "SUT CPU",
            Self::ClientCpu { .. } => "client CPU",
            Self::BothCpus { .. } => "both CPUs",
            Self::SharedCpu { .. } => "shared CPU",
            Self::DeviceCpu { .. } => "device CPU",
            Self::ReceiverWindow { .. } => "receive window",
            Self::CongestionWindow { .. } => "congestion window",
            Self::SendBuffer { .. } => "send buffer",
            Self::Acknowledgement { .. } => "acknowledgements",
            Self::RequestRate { .. } => "request rate",
            Self::RoundTrip { .. } => "round trip",
            Self::NoSingleResource { .. } => "unclear",
        }
    }

    /// The window's share where no single resource is the bound.
    fn window(&self) -> Option<f64> {
        match self {
            Self::NoSingleResource { rwnd, .. } => *rwnd,
            _ => None,
        }
    }
}

/// ` (7 of 10 runs)` where not all runs say the same; empty where they do.
fn agreeing(group: &Group<'_>) -> String {
    let of = group.iter().map(|way| way.agreeing).min_by_key(|(agree, _)| *agree);
    match of {
        Some((agree, all)) if agree < all => format!(" ({agree} of {all} runs)"),
        _ => String::new(),
    }
}

/// What senders knew of a path that delays: `: round trips of 1300 µs, the shortest 52 µs, congestion window 90 segments`.
fn path_of(bound: &Bottleneck) -> String {
    let (Bottleneck::ReceiverWindow { path, .. } | Bottleneck::CongestionWindow { path, .. }) =
        bound
    else {
        return String::new();
    };
    let Some(path) = path else { return String::new() };
    format!(
        ": round trips of {:.0} µs, the shortest {:.0} µs, congestion window {:.0} segments",
        path.rtt_us, path.min_rtt_us, path.cwnd_segments
    )
}

/// What the bound means, for those that do not explain themselves.
fn reason(bound: &Bottleneck) -> &'static str {
    match bound {
        Bottleneck::Store { .. } => ": the links are idle while superframes are fetched into it",
        Bottleneck::ClientCpu { .. } => ": the SUT may do more with stronger clients",
        Bottleneck::Acknowledgement { .. } => {
            ": larger transfers, or more connections, would fill the time"
        }
        Bottleneck::RoundTrip { .. } => ": every request waits for its response",
        Bottleneck::NoSingleResource { unexplained: Some(_), .. } => {
            ": every request waits for its response, and not all of the wait is explained"
        }
        Bottleneck::NoSingleResource { .. } => ": each end waits for the other part of the time",
        _ => "",
    }
}

/// `99.6 %`, or `transmit 99.6 %`.
fn share_of(direction: Option<&str>, percent: f64) -> String {
    match direction {
        Some(direction) => format!("{direction} {percent:.1} %"),
        None => format!("{percent:.1} %"),
    }
}

/// `port 2 99.6 %, the others 31 to 55 %`.
fn one_port(ports: &PortShares) -> String {
    let port = ports.port.map_or("the fullest".to_owned(), |port| format!("port {port}"));
    let (least, most) = ports.others_percent;
    let others = match (least.round(), most.round()) {
        (least, most) if least == most => format!("{most:.0} %"),
        (least, most) => format!("{least:.0} to {most:.0} %"),
    };
    format!("{port} {:.1} %, the others {others}", ports.fullest_percent)
}

/// Interfaces that are named one by one.
const NAMED: usize = 4;

/// `the queue discipline tbf of eth0 and eth1`; where some of the ports have none that holds packets back, with `, 2 of 4
/// ports`.
fn name_of(share: &DisciplineShare) -> String {
    let held: Vec<&str> =
        std::iter::once(&share.interface).chain(&share.beside).map(String::as_str).collect();
    let interfaces = match &held[..] {
        [one] => (*one).to_owned(),
        [first @ .., last] if held.len() <= NAMED => format!("{} and {last}", first.join(", ")),
        all => format!("{} and {} more", all[..NAMED - 1].join(", "), all.len() + 1 - NAMED),
    };
    let of_ports = match share.free.len() {
        0 => String::new(),
        free => format!(", {} of {} ports", held.len(), held.len() + free),
    };
    format!("the queue discipline {} of {interfaces}{of_ports}", share.kind)
}

/// `99.6 % of 500.0 Mb/s, packets held back 4100 times and 12 dropped a run`; a table has the first
/// part, if the rate is known.
fn held_back(share: &DisciplineShare, form: Form) -> String {
    let rate = share.rate.zip(share.rate_percent);
    let rate = rate.map(|(rate, percent)| format!("{percent:.1} % of {rate}"));
    let counts = format!(
        "packets held back {:.0} times and {:.0} dropped a run",
        share.overlimits, share.drops
    );
    match (rate, form) {
        (Some(rate), Form::Table) => rate,
        (Some(rate), Form::Prose) => format!("{rate}, {counts}"),
        (None, _) => counts,
    }
}

/// What took the rest of links or a bus that are not full: ` (missing: clients' CPU 99.9 %)`. With several
/// directions each cause has its own, unless one bus misses the same in all.
fn rest_of(group: &Group<'_>, form: Form) -> String {
    let busy = if form == Form::Prose { " busy" } else { "" };
    let word = |missing: &Shortfall| match missing {
        Shortfall::SutCpu(percent) => format!("SUT CPU {percent:.1} %{busy}"),
        Shortfall::ClientCpu(percent) => format!("clients' CPU {percent:.1} %{busy}"),
        Shortfall::DeviceCpu(percent) => format!("device's CPU {percent:.1} %{busy}"),
        Shortfall::Resent(percent) => format!("{percent:.1} % sent again"),
        Shortfall::NothingToSend(percent) => format!("nothing to send for {percent:.1} %"),
        Shortfall::ReceiverWindow(percent) => format!("window {percent:.1} % of sending time"),
        Shortfall::SendBuffer(percent) => format!("send buffer {percent:.1} % of sending time"),
        Shortfall::Store(percent) => format!("superframe store {percent:.1} %"),
        Shortfall::Word(percent) => {
            format!("waiting for the peer's acknowledgement {percent:.1} %")
        }
        Shortfall::Discipline(percent) => format!("queue discipline {percent:.1} % of its rate"),
        Shortfall::Unknown => "no cause found".to_owned(),
    };
    let same = matches!(group[0].bottleneck, Bottleneck::Bus { .. })
        && group.iter().all(|way| way.shortfall == group[0].shortfall);
    let reported = if same { &group[..1] } else { &group[..] };
    let words = reported.iter().flat_map(|way| {
        let direction = way.direction.filter(|_| reported.len() > 1).map(FlowDirection::word);
        way.shortfall.iter().map(move |missing| match direction {
            Some(direction) => format!("{direction} {}", word(missing)),
            None => word(missing),
        })
    });
    let words: Vec<String> = words.collect();
    match (words.is_empty(), form) {
        (true, _) => String::new(),
        (false, Form::Table) => format!(" (missing: {})", words.join(", ")),
        (false, Form::Prose) => format!("; missing: {}", words.join(", ")),
    }
}

/// The parts of a round trip in the order of their size: `interrupt delay 431.0 of 500.3 µs, SUT 33.1, ...`;
/// a table has their shares.
fn round_trip(parts: &RoundTripParts, sut: Option<CpuShare>, form: Form) -> String {
    let named = [
        ("interrupt delay", parts.moderation_us),
        ("device", parts.device_us),
        ("wire", parts.wire_us),
        ("SUT", Some(parts.sut_us)),
        ("clients", parts.clients_us),
    ];
    let mut known: Vec<(&str, f64)> =
        named.into_iter().filter_map(|(name, part)| Some((name, part?))).collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = |us: f64| us * 100.0 / parts.latency_us;
    let text = known.iter().map(|(name, us)| match form {
        Form::Table => format!("{name} {:.0} %", share(*us)),
        Form::Prose => format!("{name} {us:.1} µs"),
    });
    let text = text.collect::<Vec<_>>().join(", ");
    let left = parts.unexplained_us;
    match form {
        Form::Table => text,
        Form::Prose => {
            let busy = sut.map_or(String::new(), |sut| format!("; SUT CPU {:.1} %", sut.percent));
            format!("{:.1} µs: {text}, unexplained {left:.1} µs{busy}", parts.latency_us)
        }
    }
}

/// What of a latency is not explained.
fn left_of(unexplained: &Unexplained, form: Form) -> String {
    let parts = match unexplained {
        Unexplained::Unmeasured => {
            return "the parts of the round trip were not measured".to_owned();
        }
        Unexplained::Part(parts) => parts,
    };
    let (us, percent) = (parts.unexplained_us.abs(), parts.unexplained_percent().abs());
    match (form, parts.unexplained_us < 0.0) {
        (Form::Table, false) => format!("{percent:.0} % of the round trip unexplained"),
        (Form::Table, true) => format!("parts exceed the round trip by {percent:.0} %"),
        (Form::Prose, false) => {
            let all = round_trip(parts, None, form);
            format!("{percent:.0} % of the round trip unexplained, {all}")
        }
        (Form::Prose, true) => {
            let all = round_trip(parts, None, form);
            format!("the parts exceed the round trip by {us:.1} µs, {all}")
        }
    }
}

/// A CPU's share; prose says when it is that of a thread.
fn cpu(share: CpuShare, form: Form) -> String {
    let thread = if share.of_thread && form == Form::Prose { "one thread " } else { "" };
    format!("{thread}{:.1} %", share.percent)
}

/// `SUT CPU 12.0 %, clients 10.0 %`.
fn parts(shares: &[(&str, Option<CpuShare>)]) -> String {
    let parts = shares
        .iter()
        .filter_map(|(name, share)| Some(format!("{name} {:.1} %", share.as_ref()?.percent)));
    parts.collect::<Vec<_>>().join(", ")
}
