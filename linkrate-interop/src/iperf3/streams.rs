//! Numbers and directions of streams.

/// The end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// Which way payload flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// From the client.
    Forward,
    /// From the server (`--reverse`).
    Reverse,
    /// Both, each on streams of its own (`--bidir`).
    Both,
}

impl Directions {
    /// Streams of a test with `parallel` of them each way.
    #[must_use]
    pub fn streams(self, parallel: u32) -> u32 {
        match self {
            Self::Forward | Self::Reverse => parallel,
            Self::Both => parallel.saturating_mul(2),
        }
    }

    /// Whether `role` sends on stream `index`, from 0 in the order in which the client opens them. With both
    /// ways the client opens its own sending streams first.
    #[must_use]
    pub fn sends(self, role: Role, index: u32, parallel: u32) -> bool {
        let client_sends = match self {
            Self::Forward => true,
            Self::Reverse => false,
            Self::Both => index < parallel,
        };
        client_sends == (role == Role::Client)
    }
}

/// The number of stream `index` in results: 1, 3, 4, 5, ... No stream has the number 2.
#[must_use]
pub fn stream_id(index: u32) -> u32 {
    match index {
        0 => 1,
        later => later.saturating_add(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_of_each_stream_sends() {
        for ways in [Directions::Forward, Directions::Reverse, Directions::Both] {
            for index in 0..ways.streams(4) {
                let sends = [Role::Client, Role::Server].map(|role| ways.sends(role, index, 4));
                assert_ne!(sends[0], sends[1], "{ways:?} {index}");
            }
        }
        let of_client =
            (0..8).filter(|index| Directions::Both.sends(Role::Client, *index, 4)).count();
        assert_eq!(of_client, 4);
        assert!(Directions::Reverse.sends(Role::Server, 0, 1));
    }

    #[test]
    fn streams_are_numbered_as_iperf3_does() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }
}
