//! The preamble: the first bytes that a client sends on a connection, which name its flow.

use std::io;

pub const PREAMBLE_BYTES: usize = 16;

/// Role of a flow, from the view of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRole {
    Receives,
    Sends,
    Requests,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preamble {
    pub nonce: u64,
    pub client: u16,
    /// Number of the flow within client and role.
    pub flow: u16,
    /// Number of the workload in a mix; 0 without one.
    pub part: u8,
    pub role: ClientRole,
}

impl Preamble {
    /// Nonce, client, flow in network byte order, role, part, two zero bytes.
    pub fn to_bytes(self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..8].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.client.to_be_bytes());
        bytes[10..12].copy_from_slice(&self.flow.to_be_bytes());
        bytes[12] = match self.role {
            ClientRole::Receives => 0,
            ClientRole::Sends => 1,
            ClientRole::Requests => 2,
        };
        bytes[13] = self.part;
        bytes
    }

    /// Reads a preamble and checks that it belongs to this run: `InvalidData` for another nonce or an unknown role.
    pub fn from_bytes(bytes: &[u8; PREAMBLE_BYTES], nonce: u64) -> io::Result<Self> {
        let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mut given = [0; 8];
        given.copy_from_slice(&bytes[..8]);
        if u64::from_be_bytes(given) != nonce {
            return Err(invalid("the connection does not belong to this run"));
        }
        let role = match bytes[12] {
            0 => ClientRole::Receives,
            1 => ClientRole::Sends,
            2 => ClientRole::Requests,
            _ => return Err(invalid("the connection has an unknown role")),
        };
        Ok(Self { nonce, client: word(8), flow: word(10), part: bytes[13], role })
    }

    /// The seed of this flow's message sizes, the same at both ends.
    pub fn size_seed(self, run_seed: u64) -> u64 {
        let flow = u64::from(self.part) << 48
            | u64::from(self.client) << 32
            | u64::from(self.flow) << 8
            | u64::from(self.role == ClientRole::Sends);
        // an odd multiplier spreads neighbouring flows over the whole range
        run_seed ^ flow.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_is_read_as_written_and_that_of_another_run_is_refused() {
        for role in [ClientRole::Receives, ClientRole::Sends, ClientRole::Requests] {
            let preamble = Preamble { nonce: 5, client: 1, flow: 700, part: 3, role };
            let bytes = preamble.to_bytes();
            assert_eq!(Preamble::from_bytes(&bytes, 5).unwrap(), preamble);
            assert!(Preamble::from_bytes(&bytes, 6).is_err());
        }
        let mut bytes =
            Preamble { nonce: 5, client: 0, flow: 0, part: 0, role: ClientRole::Sends }.to_bytes();
        bytes[12] = 9;
        assert!(Preamble::from_bytes(&bytes, 5).is_err());
    }

    #[test]
    fn every_flow_has_its_own_sizes() {
        let preamble =
            |client, flow| Preamble { nonce: 0, client, flow, part: 0, role: ClientRole::Requests };
        let seeds: std::collections::BTreeSet<u64> = (0..10)
            .flat_map(|client| (0..10).map(move |flow| preamble(client, flow).size_seed(3)))
            .chain((1..10).map(|part| Preamble { part, ..preamble(0, 0) }.size_seed(3)))
            .collect();
        assert_eq!(seeds.len(), 109);
    }
}
