//! A test of an iperf3 server.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::{ClientError, Control};
use crate::iperf3::{
    COOKIE_BYTES, Cookie, Directions, MAX_OUTPUT_BYTES, MAX_RESULT_BYTES, Parameters, Results,
    State,
};
use crate::json::{LENGTH_BYTES, framed, length};

/// How long a server may be busy with another client, unless somebody asks for less. iperf3 serves one at a time,
/// and one whose client has just gone takes some time to notice.
pub const BUSY: Duration = Duration::from_secs(30);
/// iperf3's number for it.
const BUSY_ERROR: u32 = 121;
/// Time between two attempts.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a server is given to read what its TCP has acknowledged: tens of megabytes where it also sends. It
/// counts nothing after the end of the test.
const UNREAD: Duration = Duration::from_millis(500);

/// A test of an iperf3 server, whose parameters are accepted.
#[derive(Debug)]
pub struct Iperf3Test {
    control: Control,
    cookie: Cookie,
    ways: Directions,
    streams: u32,
}

impl Iperf3Test {
    /// Asks for a test, and waits until the server expects its streams. A busy server is asked again for
    /// half a minute.
    pub fn ask(
        server: impl Into<SocketAddr>,
        asked: &Parameters,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        let server = server.into();
        Self::ask_over(&mut || Control::connect(server, stop), &mut |_| asked.clone(), BUSY)
    }

    /// The same over control connections that `connect` makes, with parameters that may depend on the maximum
    /// segment size of it. A busy server is asked again for `timeout`.
    pub fn ask_over(
        connect: &mut dyn FnMut() -> Result<Control, ClientError>,
        asked: &mut dyn FnMut(Option<u32>) -> Parameters,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let deadline = Instant::now() + timeout;
        loop {
            let control = connect()?;
            let asked = asked(control.mss());
            let cookie = random_cookie();
            let streams = asked.ways.streams(asked.parallel);
            let mut test = Self { control, cookie, ways: asked.ways, streams };
            let agreed = test.greet().and_then(|is_free| match is_free {
                true => test.agree(&asked).map(|()| true),
                false => Ok(false),
            });
            match agreed {
                Ok(true) => return Ok(test),
                // it may notice that only when it knows what is asked
                Ok(false) | Err(ClientError::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > deadline {
                return Err(ClientError::Busy { seconds: timeout.as_secs() });
            }
            test.control.pause(AGAIN)?;
        }
    }

    #[must_use]
    pub fn first_octets(&self) -> &[u8] {
        self.cookie.octets()
    }

    /// Lets its end be as it should although the user has interrupted.
    pub fn persist(&mut self) {
        self.control.persist();
    }

    /// The maximum segment size of the control connection, octets.
    #[must_use]
    pub fn mss(&self) -> Option<u32> {
        self.control.mss()
    }

    /// Which way its streams flow. Those that the client sends are opened first.
    #[must_use]
    pub fn ways(&self) -> Directions {
        self.ways
    }

    /// Waits until the test runs, which is when the server has accepted all streams.
    pub fn begin(&mut self) -> Result<(), ClientError> {
        self.expect(State::TestStart, "waiting for the start", "the start of the test")?;
        self.expect(State::TestRunning, "waiting for the start", "that the test runs")
    }

    /// Checks whether the server ends the test before its time; a test that continues has nothing to
    /// say.
    pub fn glance(&mut self) -> Result<(), ClientError> {
        const DURING: &str = "the test ran";
        if !self.control.has_news() {
            return Ok(());
        }
        let found = self.state(DURING)?;
        Err(unexpected(found, DURING, "nothing"))
    }

    /// Ends the test and exchanges results. The streams must still be open, and the client's have sent all.
    pub fn end(self, own: &Results) -> Result<Results, ClientError> {
        if self.ways != Directions::Reverse {
            self.control.pause(UNREAD)?;
        }
        self.end_now(own)
    }

    /// The same without time for the server to read what it has acknowledged, so that its time ends with the client's.
    pub fn end_now(self, own: &Results) -> Result<Results, ClientError> {
        self.exchange(own, false)
    }

    /// The same with a server that was asked for its output.
    pub fn end_with_output(self, own: &Results) -> Result<Results, ClientError> {
        self.exchange(own, true)
    }

    fn exchange(mut self, own: &Results, has_output: bool) -> Result<Results, ClientError> {
        const DURING: &str = "exchanging results";
        self.tell(State::TestEnd, DURING)?;
        self.expect(State::ExchangeResults, DURING, "the exchange of results")?;
        // results of 256 streams are far below what a length can tell
        let document = framed(&own.document()).unwrap_or_default();
        self.control.send(&document, DURING)?;
        let mut announced = [0; LENGTH_BYTES];
        self.control.fill(&mut announced, DURING)?;
        let most = if has_output { MAX_OUTPUT_BYTES } else { MAX_RESULT_BYTES };
        let mut document = vec![0; length(announced, most)?];
        self.control.fill(&mut document, DURING)?;
        let theirs = match has_output {
            true => Results::read_with_output(&document, self.streams),
            false => Results::read(&document, self.streams),
        }?;
        self.expect(State::DisplayResults, DURING, "that results are shown")?;
        self.tell(State::Done, DURING)?;
        Ok(theirs)
    }

    /// Sends the cookie. Returns whether the server takes the test; a busy one does not.
    fn greet(&mut self) -> Result<bool, ClientError> {
        const DURING: &str = "asking for a test";
        self.control.send(self.cookie.octets(), DURING)?;
        match self.state(DURING)? {
            State::ParamExchange => Ok(true),
            State::AccessDenied => Ok(false),
            other => Err(unexpected(other, DURING, "a request for parameters")),
        }
    }

    fn agree(&mut self, asked: &Parameters) -> Result<(), ClientError> {
        const DURING: &str = "agreeing on parameters";
        let document = framed(&asked.document()).unwrap_or_default();
        self.control.send(&document, DURING)?;
        self.expect(State::CreateStreams, DURING, "a request for streams")
    }

    fn tell(&mut self, state: State, during: &'static str) -> Result<(), ClientError> {
        self.control.send(&[state.octet()], during)
    }

    fn expect(
        &mut self,
        state: State,
        during: &'static str,
        expected: &'static str,
    ) -> Result<(), ClientError> {
        match self.state(during)? {
            found if found == state => Ok(()),
            found => Err(unexpected(found, during, expected)),
        }
    }

    /// The next state of the server.
    fn state(&mut self, during: &'static str) -> Result<State, ClientError> {
        let mut octet = [0];
        self.control.fill(&mut octet, during)?;
        match State::of(octet[0]) {
            Some(State::ServerError) => {
                let mut numbers = [0; 8];
                self.control.fill(&mut numbers, during)?;
                let number = numbers.first_chunk().map_or(0, |own| u32::from_be_bytes(*own));
                match number {
                    BUSY_ERROR => Err(ClientError::Busy { seconds: 0 }),
                    _ => Err(ClientError::Refused(format!("iperf3's error {number}"))),
                }
            }
            Some(State::ServerTerminate) => {
                Err(ClientError::Refused("the server is being ended".to_owned()))
            }
            // before the parameters it means busy, after them that the client may not
            Some(State::AccessDenied) if during != "asking for a test" => Err(ClientError::Denied),
            Some(state) => Ok(state),
            None => Err(ClientError::Unexpected {
                during,
                found: format!("octet {}", octet[0]),
                expected: "a state of iperf3",
            }),
        }
    }
}

fn unexpected(found: State, during: &'static str, expected: &'static str) -> ClientError {
    ClientError::Unexpected { during, found: format!("{found:?}"), expected }
}

/// A cookie that no other client has: the keys of each hasher are random.
fn random_cookie() -> Cookie {
    let mut random = [0; COOKIE_BYTES - 1];
    for (index, octets) in random.chunks_mut(8).enumerate() {
        let of_keys = RandomState::new().hash_one(index).to_ne_bytes();
        octets.copy_from_slice(&of_keys[..octets.len()]);
    }
    Cookie::of_random(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_differ() {
        assert_ne!(random_cookie(), random_cookie());
    }
}
