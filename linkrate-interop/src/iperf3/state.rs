//! The states of a test: one octet each on the control connection.

/// A state, as the end that sends it announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Server: streams may begin.
    TestStart,
    /// Server: the test runs.
    TestRunning,
    /// Client: the test has ended.
    TestEnd,
    /// Server: the client is to send its parameters.
    ParamExchange,
    /// Server: the client is to open its streams.
    CreateStreams,
    /// Server: it ends, and the test with it.
    ServerTerminate,
    /// Client: it ends, and the test with it.
    ClientTerminate,
    /// Server: both exchange results.
    ExchangeResults,
    /// Server: results have been exchanged.
    DisplayResults,
    /// Neither end sends it.
    Start,
    /// Client: it is done.
    Done,
    /// Server: it has another test.
    AccessDenied,
    /// Server: it cannot continue; two numbers of 32 bits follow, iperf3's error and errno.
    ServerError,
}

impl State {
    /// All of them, with their octets.
    pub const ALL: [(Self, i8); 13] = [
        (Self::TestStart, 1),
        (Self::TestRunning, 2),
        (Self::TestEnd, 4),
        (Self::ParamExchange, 9),
        (Self::CreateStreams, 10),
        (Self::ServerTerminate, 11),
        (Self::ClientTerminate, 12),
        (Self::ExchangeResults, 13),
        (Self::DisplayResults, 14),
        (Self::Start, 15),
        (Self::Done, 16),
        (Self::AccessDenied, -1),
        (Self::ServerError, -2),
    ];

    /// The state of an octet; `None` for one that no version sends.
    #[must_use]
    pub fn of(octet: u8) -> Option<Self> {
        let octet = octet.cast_signed();
        Self::ALL.iter().find(|(_, number)| *number == octet).map(|(state, _)| *state)
    }

    #[must_use]
    pub fn octet(self) -> u8 {
        let found = Self::ALL.iter().find(|(state, _)| *state == self);
        // a test finds each state in the list
        found.map_or(0, |(_, number)| number.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_an_octet_of_its_own() {
        for (state, _) in State::ALL {
            assert_ne!(state.octet(), 0);
            assert_eq!(State::of(state.octet()), Some(state));
        }
        assert_eq!(State::of(0xff), Some(State::AccessDenied));
        assert_eq!(State::of(3), None);
        assert_eq!((0..=u8::MAX).filter_map(State::of).count(), State::ALL.len());
    }
}
