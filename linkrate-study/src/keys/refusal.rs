//! Settings that are refused beside others, and those that a kind of workload does not use.

use linkrate_model::Protocol;

/// The MTU a testbed makes its links with when none is set.
pub(super) const DEFAULT_MTU: u32 = 1500;

/// Two settings that cannot be combined, as a sentence that says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Combination {
    /// The key whose value is refused.
    pub key: &'static str,
    /// The key that it cannot be combined with.
    pub other: &'static str,
    /// What is wrong and what would be right.
    pub sentence: String,
}

pub(super) fn refuse(
    key: &'static str,
    other: &'static str,
    sentence: String,
) -> Result<(), Combination> {
    Err(Combination { key, other, sentence })
}

/// Whether a workload of this kind uses `key`: a stream does not use `request`. No kind uses an
/// unknown key.
pub fn is_used(key: &str, kind: Protocol) -> bool {
    match key {
        "direction" => !kind.is_transactional() && kind != Protocol::Backup,
        "message" => !kind.is_transactional(),
        "files" | "tree" | "directory" | "cache" | "drives" | "drive-rate" => {
            kind == Protocol::Backup
        }
        "request" | "response" => kind.is_transactional(),
        "burst" | "request-rate" => {
            matches!(kind, Protocol::RequestResponse | Protocol::UdpRequestResponse)
        }
        "send-path" | "receive-path" | "working-set" | "receive-batching" => {
            matches!(kind, Protocol::Stream | Protocol::Transfer)
        }
        "transfer" => kind == Protocol::Transfer,
        "event" | "event-at" | "event-recover" => kind == Protocol::Stream,
        "udp-segment" | "udp-gro" => kind == Protocol::UdpStream,
        // one thread there serves a connection of any client
        "cpu-binding" => kind != Protocol::ConnectRequestResponse,
        // reassembly is of TCP segments
        "congestion" | "nodelay" | "lro" | "merge" => !kind.is_udp(),
        _ => super::KEYS.iter().any(|known| known.name == key),
    }
}
