//! Requests to a lab that is up, and its replies: one request and one reply on each connection, as
//! frames of JSON.

use std::collections::BTreeMap;

use linkrate_model::lab::{AdapterReport, LabReport, SettingsReport, ToeReport};
use linkrate_model::nearest::did_you_mean;
use serde::{Deserialize, Serialize};

/// Changes with the meaning of any message.
pub const CONTROL_VERSION: u32 = 1;

/// Most settings in one request, more than there are keys.
const MAX_SETTINGS: usize = 64;

/// Longest key or value, bytes.
const MAX_WORD: usize = 256;

/// Longest path of a file, PATH_MAX of linux/limits.h.
const MAX_PATH: usize = 4096;

/// Most ports that one request adds.
const MAX_PORTS: u32 = 64;

/// A request with the version of its sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Envelope {
    /// The sender's [`CONTROL_VERSION`].
    pub version: u32,
    pub request: Request,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The lab and its hosts.
    Lab,
    /// Every port of its virtual adapters.
    Adapters {
        /// Whether to read the knobs of the hosts' kernels as well, which uses their CPUs for a
        /// moment.
        kernel: bool,
    },
    /// End the lab.
    Down,
    /// Change settings of a port; others stay.
    Set { port: String, settings: Vec<Setting> },
    /// Set the faults of a port's segment; faults that are not named are off.
    SetFaults { port: String, settings: Vec<Setting> },
    /// Set the VLANs of the switch's port that a port leads to; without settings it is a member of
    /// all.
    SetVlans { port: String, settings: Vec<Setting> },
    /// Take the link of a port down or up.
    SetLink { port: String, up: bool },
    /// Set the rate of a port's link.
    SetLinkRate { port: String, bits_per_second: u64 },
    /// Add ports to the system under test, each with its clients.
    Add { ports: u32 },
    /// Remove a port with its clients.
    Remove { port: String },
    /// Make all ports of a segment an aggregate.
    MakeAggregate { ports: Vec<String> },
    /// Give the ports of an aggregate interfaces of their own.
    TakeApart { aggregate: String },
    /// Begin to capture a port's packets to the file whose descriptor comes with the request. The
    /// lab opens no path.
    StartCapture {
        port: String,
        /// The name of the file, which the lab only shows.
        file: String,
    },
    /// Answer the calls of a program in the system under test. The descriptor they come to is with the
    /// request. Nobody reads the reply.
    Supervise,
    /// Move the connection of a running program to the adapter.
    Offload {
        /// Its process.
        process: u32,
        descriptor: i32,
    },
    /// The TCP connections of the system under test, and where they are.
    Connections,
    /// End the capture of a port.
    StopCapture { port: String },
}

/// One setting as it is written: `lro=on`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub key: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To [`Request::Lab`].
    Lab(LabReport),
    /// To [`Request::Adapters`].
    Adapters(Box<AdapterReport>),
    /// To [`Request::Set`]: the named settings, as read back.
    Settings(SettingsReport),
    /// To [`Request::SetFaults`]: the faults that are on.
    Faults(BTreeMap<String, String>),
    /// To [`Request::SetVlans`]: the VLANs; empty for a member of all.
    Vlans(BTreeMap<String, String>),
    /// To [`Request::Add`]: the ports that were added, and the clients that came with them.
    Added {
        ports: Vec<String>,
        clients: Vec<String>,
    },
    /// To [`Request::StopCapture`].
    Captured {
        /// Packets in the file.
        packets: u64,
        /// Packets that are not in it because it took them too slowly.
        lost: u64,
        /// The name of the file.
        file: String,
    },
    /// To [`Request::Connections`].
    Connections(Box<ToeReport>),
    Done,
    Refused(Refused),
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// Whether the request is wrong, rather than the lab.
    pub wrong: bool,
    /// The reason, with the identifying value.
    pub reason: String,
    pub hint: Option<String>,
}

impl Refused {
    /// A request that is always wrong.
    pub fn wrong(reason: impl Into<String>) -> Self {
        Self { wrong: true, reason: reason.into(), hint: None }
    }

    /// A word that is not among the `known` words of a `what`.
    pub fn unknown<'k>(what: &str, word: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let tail = match did_you_mean(word, known.iter().copied()) {
            tail if tail.is_empty() => format!("; expected one of {}", known.join(", ")),
            tail => tail,
        };
        Self::wrong(format!("unknown {what} {word:?}{tail}"))
    }

    /// A request that the lab could not carry out.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { wrong: false, ..Self::wrong(reason) }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Decodes a request, and checks every count and length in it.
pub fn decode_request(bytes: &[u8]) -> Result<Request, Refused> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let malformed =
        |error: serde_json::Error| Refused::wrong(format!("request cannot be decoded: {error}"));
    // the version can be read in requests of any version
    let Version { version } = serde_json::from_slice(bytes).map_err(malformed)?;
    if version != CONTROL_VERSION {
        let reason = format!("request has control version {version}, expected {CONTROL_VERSION}");
        return Err(Refused::failed(reason).with_hint(
            "use the linkrate that started the lab, or start the lab again with this one",
        ));
    }
    let Envelope { request, .. } = serde_json::from_slice(bytes).map_err(malformed)?;
    check(&request)?;
    Ok(request)
}

pub fn decode_reply(bytes: &[u8]) -> serde_json::Result<Reply> {
    serde_json::from_slice(bytes)
}

fn check(request: &Request) -> Result<(), Refused> {
    match request {
        Request::Lab
        | Request::Adapters { .. }
        | Request::Down
        | Request::Supervise
        | Request::Offload { .. }
        | Request::Connections => Ok(()),
        Request::Set { port, settings }
        | Request::SetFaults { port, settings }
        | Request::SetVlans { port, settings } => {
            at_most("port", port.len(), MAX_WORD)?;
            at_most("number of settings", settings.len(), MAX_SETTINGS)?;
            settings.iter().try_for_each(|setting| {
                at_most("key", setting.key.len(), MAX_WORD)?;
                at_most("value", setting.value.len(), MAX_WORD)
            })
        }
        Request::SetLink { port, .. }
        | Request::SetLinkRate { port, .. }
        | Request::Remove { port }
        | Request::StopCapture { port } => at_most("port", port.len(), MAX_WORD),
        Request::MakeAggregate { ports } => {
            at_most("ports", ports.len(), MAX_PORTS as usize)?;
            ports.iter().try_for_each(|port| at_most("port", port.len(), MAX_WORD))
        }
        Request::TakeApart { aggregate } => at_most("aggregate", aggregate.len(), MAX_WORD),
        Request::StartCapture { port, file } => {
            at_most("port", port.len(), MAX_WORD)?;
            at_most("path", file.len(), MAX_PATH)?;
            // it is shown on terminals
            match file.starts_with('/') && !file.contains(char::is_control) {
                true => Ok(()),
                false => Err(Refused::wrong(format!(
                    "path is {file:?}, expected an absolute path without control characters"
                ))),
            }
        }
        Request::Add { ports } if (1..=MAX_PORTS).contains(ports) => Ok(()),
        Request::Add { ports } => {
            Err(Refused::wrong(format!("ports is {ports}, expected 1 to {MAX_PORTS}")))
        }
    }
}

fn at_most(what: &str, length: usize, most: usize) -> Result<(), Refused> {
    match length <= most {
        true => Ok(()),
        false => Err(Refused::wrong(format!("{what} is {length} long, expected at most {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn encoded(request: Request) -> Vec<u8> {
        serde_json::to_vec(&Envelope { version: CONTROL_VERSION, request }).unwrap()
    }

    #[test]
    fn requests_are_decoded_as_they_were_encoded() {
        let setting = Setting { key: "lro".to_owned(), value: "on".to_owned() };
        let port = || "eth0".to_owned();
        for request in [
            Request::Lab,
            Request::Adapters { kernel: true },
            Request::Down,
            Request::Supervise,
            Request::Offload { process: 7, descriptor: -1 },
            Request::Connections,
            Request::Set { port: port(), settings: vec![setting.clone()] },
            Request::SetFaults { port: port(), settings: Vec::new() },
            Request::SetVlans { port: port(), settings: vec![setting.clone()] },
            Request::SetLink { port: port(), up: false },
            Request::SetLinkRate { port: port(), bits_per_second: 100_000_000 },
            Request::Add { ports: 2 },
            Request::Remove { port: port() },
            Request::MakeAggregate { ports: vec![port()] },
            Request::TakeApart { aggregate: "agg0".to_owned() },
            Request::StartCapture { port: port(), file: "/tmp/a.pcapng".to_owned() },
            Request::StopCapture { port: port() },
        ] {
            assert_eq!(decode_request(&encoded(request.clone())), Ok(request));
        }
    }

    #[test]
    fn malformed_requests_are_refused_without_a_panic() {
        for bytes in [
            &b""[..],
            b"{",
            b"null",
            b"\xff\xfe",
            b"{\"version\":1}",
            b"{\"version\":1,\"request\":\"up\"}",
            b"{\"version\":1,\"request\":\"lab\",\"more\":1}",
            b"{\"version\":1,\"request\":{\"remove\":{\"port\":\"eth0\",\"force\":true}}}",
        ] {
            let refused = decode_request(bytes).unwrap_err();
            assert!(
                refused.wrong && refused.reason.starts_with("request cannot be decoded"),
                "{refused}"
            );
        }
        let other = decode_request(b"{\"version\":7,\"request\":\"what-is-this\"}").unwrap_err();
        assert!(!other.wrong && other.reason.contains('7') && other.hint.is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..200), cut in 0..80usize) {
            let _ = decode_request(&bytes);
            let whole = encoded(Request::Remove { port: "eth0".to_owned() });
            let cut = cut.min(whole.len() - 1);
            prop_assert!(decode_request(&whole[..cut]).is_err());
            let mut spliced = whole[..cut].to_vec();
            spliced.extend(bytes);
            let _ = decode_request(&spliced);
        }
    }

    #[test]
    fn lengths_and_counts_are_bounded() {
        let long = "x".repeat(MAX_PATH + 1);
        let setting = Setting { key: "k".to_owned(), value: long.clone() };
        let many = vec![Setting { key: String::new(), value: String::new() }; MAX_SETTINGS + 1];
        for request in [
            Request::Set { port: long.clone(), settings: Vec::new() },
            Request::Set { port: "eth0".to_owned(), settings: vec![setting] },
            Request::SetFaults { port: "eth0".to_owned(), settings: many },
            Request::Add { ports: 0 },
            Request::Add { ports: u32::MAX },
            Request::StartCapture { port: "eth0".to_owned(), file: "a.pcapng".to_owned() },
            Request::StartCapture { port: "eth0".to_owned(), file: format!("/{long}") },
            Request::StartCapture { port: "eth0".to_owned(), file: "/a\u{1b}[J".to_owned() },
        ] {
            assert!(decode_request(&encoded(request)).unwrap_err().wrong);
        }
    }
}
