//! The state of a TCP connection, all that another TCP needs to continue with it, and its encoding.
//!
//! The encoding passes between processes of one machine. A reader trusts no length in it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use linkrate_sys::socket_swap::SocketSettings;
use linkrate_sys::tcp_repair::{Agreed, Timestamp, Windows};

/// The first bytes of an encoding, with its version in the last one.
const MAGIC: [u8; 4] = *b"toe\x06";

/// Most bytes of each queue: the largest window of TCP (RFC 7323, 2.3) is 1 GiB; Linux grants far less.
pub const MAX_QUEUED: usize = 64 << 20;

/// Most bytes of an encoding.
pub const MAX_BYTES: usize = 3 * MAX_QUEUED + 4096;

/// Largest window scale (RFC 7323, 2.3).
const MAX_SCALE: u8 = 14;

/// Most bytes of the name of a congestion control (`TCP_CA_NAME_MAX`).
const MAX_NAME: usize = 16;

/// A TCP connection in the state ESTABLISHED, at a moment in which it is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    pub own: SocketAddr,
    /// The address and port of the peer.
    pub far: SocketAddr,
    /// SND.UNA, the sequence number of the first byte of [`sent`](Self::sent).
    pub unacknowledged: u32,
    /// RCV.NXT, the sequence number behind the last byte of [`unread`](Self::unread).
    pub receive_next: u32,
    pub windows: Windows,
    pub agreed: Agreed,
    /// Bytes of [`sent`](Self::sent) may be lost. Which of them the peer has is not part of the state.
    pub has_out_of_order: bool,
    /// Segments at most of [`sent`](Self::sent) that the TCP which had the connection has sent a second time. The
    /// copies are no different from bytes that were sent once.
    pub sent_again: u32,
    /// The clock of its timestamps.
    pub timestamp: Timestamp,
    pub settings: SocketSettings,
    /// Bytes that were sent and are not acknowledged.
    pub sent: Vec<u8>,
    /// Bytes that the program has sent and TCP has not.
    pub unsent: Vec<u8>,
    /// Bytes that have arrived, were acknowledged, and were not read by the program.
    pub unread: Vec<u8>,
}

/// An encoding that is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("{found} bytes, expected at least {expected}")]
    Short { found: usize, expected: usize },
    #[error("not the state of a connection, or of another version")]
    Foreign,
    #[error("{what} is {found}, expected {expected}")]
    Value { what: &'static str, found: u64, expected: &'static str },
}

impl Connection {
    /// SND.NXT: the sequence number behind the last byte that was sent.
    #[must_use]
    pub fn send_next(&self) -> u32 {
        self.unacknowledged.wrapping_add(self.sent.len() as u32)
    }

    /// Packets with these sequence numbers waited for the link and were given up. Bytes that have never left are to
    /// be sent, as if TCP had not. With `None`, no packet was given up.
    ///
    /// A packet may be the second copy of bytes that the peer has. TCP drops each acknowledgement of bytes that it
    /// has not sent (RFC 9293, 3.10.7.4), so a byte that has left must stay sent, or the connection is stopped for
    /// good. It may be lost, which TCP repairs.
    pub fn take_back(&mut self, unsent: Option<Range<u32>>) {
        let Some(Range { start, end }) = unsent else { return };
        if end != self.send_next() {
            // the latest bytes have left, so all of these are copies
            return;
        }
        // a copy of bytes that were acknowledged meanwhile lies before all of these
        let begin = start.wrapping_sub(self.unacknowledged).cast_signed().max(0) as usize;
        // copies of bytes that have left come first
        let copies = (self.sent_again as usize).saturating_mul(self.agreed.mss as usize);
        let left = begin.saturating_add(copies);
        if left < self.sent.len() {
            let mut back = self.sent.split_off(left);
            back.append(&mut self.unsent);
            self.unsent = back;
        }
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let queued = self.sent.len() + self.unsent.len() + self.unread.len();
        let mut out = Vec::with_capacity(queued + 256);
        // a vector takes everything
        let _ = self.write(&mut out);
        out
    }

    /// Writes the state as bytes, and returns their number.
    pub fn write(&self, to: &mut impl io::Write) -> io::Result<usize> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&MAGIC);
        for end in [self.own, self.far] {
            match end.ip() {
                IpAddr::V4(address) => {
                    out.push(4);
                    out.extend_from_slice(&address.octets());
                }
                IpAddr::V6(address) => {
                    out.push(6);
                    out.extend_from_slice(&address.octets());
                }
            }
            out.extend_from_slice(&end.port().to_le_bytes());
        }
        let Windows { updated_by, send, send_largest, receive, receive_at } = self.windows;
        let Agreed { mss, scales, sack, timestamps } = self.agreed;
        let timestamp = self.timestamp;
        for word in [
            self.unacknowledged,
            self.receive_next,
            updated_by,
            send,
            send_largest,
            receive,
            receive_at,
            mss,
            timestamp.value,
            timestamp.at_ns as u32,
            (timestamp.at_ns >> 32) as u32,
            self.sent_again,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let (far_scale, own_scale) = scales.unwrap_or_default();
        let SocketSettings { nodelay, keepalive, user_timeout_ms, traffic_class, .. } =
            self.settings;
        let SocketSettings { send_buffer, receive_buffer, window_clamp, linger, .. } =
            self.settings;
        let SocketSettings { keepalive_times: (idle, interval, count), mtu_discovery, .. } =
            self.settings;
        let SocketSettings { hop_limit, priority, max_pacing_rate, cork, .. } = self.settings;
        // the largest number stands for no bound, as in the kernel
        let pacing_rate = max_pacing_rate.unwrap_or(u64::MAX);
        out.push(bits([
            scales.is_some(),
            sack,
            timestamps,
            nodelay,
            keepalive,
            send_buffer.is_some(),
            receive_buffer.is_some(),
            linger.is_some(),
        ]));
        let (has_out_of_order, cork) = (u8::from(self.has_out_of_order), u8::from(cork));
        out.extend_from_slice(&[far_scale, own_scale, traffic_class, has_out_of_order, cork]);
        for word in [
            user_timeout_ms,
            idle,
            interval,
            count,
            send_buffer.unwrap_or(0),
            receive_buffer.unwrap_or(0),
            linger.unwrap_or(0).into(),
            hop_limit.cast_unsigned(),
            mtu_discovery.cast_unsigned(),
            // no window is bounded by 0
            window_clamp.unwrap_or(0),
            priority,
            pacing_rate as u32,
            (pacing_rate >> 32) as u32,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let congestion = self.settings.congestion.as_bytes();
        out.extend_from_slice(&(congestion.len() as u32).to_le_bytes());
        out.extend_from_slice(congestion);
        to.write_all(&out)?;
        let mut written = out.len();
        for bytes in [&self.sent, &self.unsent, &self.unread] {
            to.write_all(&(bytes.len() as u32).to_le_bytes())?;
            to.write_all(bytes)?;
            written += 4 + bytes.len();
        }
        Ok(written)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader { bytes, at: 0 };
        if reader.array::<4>()? != MAGIC {
            return Err(Malformed::Foreign);
        }
        let (own, far) = (reader.end()?, reader.end()?);
        if own.is_ipv4() != far.is_ipv4() {
            return Err(Malformed::Foreign);
        }
        let mut word = || reader.word();
        let (unacknowledged, receive_next) = (word()?, word()?);
        let windows = Windows {
            updated_by: word()?,
            send: word()?,
            send_largest: word()?,
            receive: word()?,
            receive_at: word()?,
        };
        let mss = word()?;
        let (value, at_low, at_high) = (word()?, word()?, word()?);
        let sent_again = word()?;
        let timestamp = Timestamp { value, at_ns: u64::from(at_high) << 32 | u64::from(at_low) };
        if !(1..=65_535).contains(&mss) {
            let found = mss.into();
            return Err(Malformed::Value { what: "MSS", found, expected: "1 to 65535" });
        }
        let [flags, far_scale, own_scale, traffic_class, gaps, cork] = reader.array()?;
        for scale in [far_scale, own_scale] {
            if scale > MAX_SCALE {
                let found = scale.into();
                return Err(Malformed::Value { what: "window scale", found, expected: "0 to 14" });
            }
        }
        for (what, mark) in [("mark of gaps", gaps), ("TCP_CORK", cork)] {
            if mark > 1 {
                let found = mark.into();
                return Err(Malformed::Value { what, found, expected: "0 or 1" });
            }
        }
        let flag = |number: u32| flags & (1 << number) != 0;
        let mut word = || reader.word();
        let user_timeout_ms = word()?;
        let keepalive_times = (word()?, word()?, word()?);
        let (send_buffer, receive_buffer, linger) = (word()?, word()?, word()?);
        let (hop_limit, mtu_discovery) = (word()?.cast_signed(), word()?.cast_signed());
        let (window_clamp, priority) = (word()?, word()?);
        let pacing_rate = u64::from(word()?) | u64::from(word()?) << 32;
        let congestion = reader.counted("length of the congestion control", MAX_NAME)?;
        let congestion = std::str::from_utf8(congestion).map_err(|_| Malformed::Foreign)?;
        let settings = SocketSettings {
            congestion: congestion.to_owned(),
            nodelay: flag(3),
            keepalive: flag(4),
            keepalive_times,
            user_timeout_ms,
            traffic_class,
            hop_limit,
            mtu_discovery,
            priority,
            max_pacing_rate: Some(pacing_rate).filter(|rate| *rate != u64::MAX),
            cork: cork == 1,
            send_buffer: flag(5).then_some(send_buffer),
            receive_buffer: flag(6).then_some(receive_buffer),
            window_clamp: Some(window_clamp).filter(|bytes| *bytes != 0),
            linger: flag(7).then_some(linger as u16),
        };
        let mut queue = |what| reader.counted(what, MAX_QUEUED).map(<[u8]>::to_vec);
        Ok(Self {
            own,
            far,
            unacknowledged,
            receive_next,
            windows,
            agreed: Agreed {
                mss,
                scales: flag(0).then_some((far_scale, own_scale)),
                sack: flag(1),
                timestamps: flag(2),
            },
            has_out_of_order: gaps == 1,
            sent_again,
            timestamp,
            settings,
            sent: queue("bytes sent")?,
            unsent: queue("bytes not sent")?,
            unread: queue("bytes not read")?,
        })
    }
}

fn bits(flags: [bool; 8]) -> u8 {
    flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let expected = self.at.saturating_add(count);
        let found = self.bytes.len();
        let taken = self.bytes.get(self.at..expected);
        self.at = expected;
        taken.ok_or(Malformed::Short { found, expected })
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Malformed> {
        let mut array = [0; COUNT];
        array.copy_from_slice(self.take(COUNT)?);
        Ok(array)
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn end(&mut self) -> Result<SocketAddr, Malformed> {
        let [version] = self.array()?;
        let address: IpAddr = match version {
            4 => self.array::<4>()?.into(),
            6 => self.array::<16>()?.into(),
            _ => {
                let found = version.into();
                return Err(Malformed::Value { what: "IP version", found, expected: "4 or 6" });
            }
        };
        Ok(SocketAddr::new(address, u16::from_le_bytes(self.array()?)))
    }

    fn counted(&mut self, what: &'static str, most: usize) -> Result<&'a [u8], Malformed> {
        let count = self.word()? as usize;
        if count > most {
            let found = count as u64;
            return Err(Malformed::Value { what, found, expected: "less" });
        }
        self.take(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some(is_v4: bool) -> Connection {
        let (own, far) = match is_v4 {
            true => ("10.0.0.1:5001", "10.0.0.2:40000"),
            false => ("[fd00::1]:5001", "[fd00::2]:40000"),
        };
        Connection {
            own: own.parse().unwrap(),
            far: far.parse().unwrap(),
            unacknowledged: u32::MAX - 1,
            receive_next: 7,
            windows: Windows { updated_by: 1, send: 2, send_largest: 3, receive: 4, receive_at: 5 },
            agreed: Agreed { mss: 1448, scales: Some((7, 9)), sack: true, timestamps: false },
            has_out_of_order: is_v4,
            sent_again: if is_v4 { 0 } else { 5 },
            timestamp: Timestamp { value: 99, at_ns: 3 << 40 | 5 },
            settings: SocketSettings {
                congestion: "cubic".to_owned(),
                nodelay: true,
                keepalive: is_v4,
                keepalive_times: (1, 2, 3),
                user_timeout_ms: 4,
                traffic_class: 5,
                hop_limit: -1,
                mtu_discovery: 2,
                priority: 6,
                max_pacing_rate: is_v4.then_some(1 << 40),
                cork: is_v4,
                send_buffer: None,
                receive_buffer: Some(6),
                window_clamp: is_v4.then_some(4096),
                linger: Some(0),
            },
            sent: b"sent".to_vec(),
            unsent: Vec::new(),
            unread: b"unread".to_vec(),
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for is_v4 in [true, false] {
            let connection = some(is_v4);
            assert_eq!(Connection::decode(&connection.encode()), Ok(connection));
        }
        // sequence numbers go round
        assert_eq!(some(true).send_next(), 2);
    }

    /// What is sent and not sent of a connection whose packets from `start` to `end` were given up.
    fn taken_back(whole: &Connection, unsent: Option<Range<u32>>) -> (String, String) {
        let mut connection = whole.clone();
        connection.take_back(unsent.clone());
        assert_eq!(connection.unacknowledged, whole.unacknowledged);
        let once = connection.clone();
        connection.take_back(unsent);
        assert_eq!(connection, once);
        let Connection { sent, unsent, .. } = connection;
        (String::from_utf8(sent).unwrap(), String::from_utf8(unsent).unwrap())
    }

    #[test]
    fn bytes_that_have_not_left_are_to_be_sent() {
        let whole = Connection { unsent: b"rest".to_vec(), ..some(true) };
        // from 2^32 - 2 on there are four bytes, the last before 2
        for (start, sent, unsent) in [
            (2, "sent", "rest"),
            (1, "sen", "trest"),
            (u32::MAX, "s", "entrest"),
            (u32::MAX - 1, "", "sentrest"),
            // the first one waited as well, as a copy, and was acknowledged meanwhile
            (u32::MAX - 2, "", "sentrest"),
        ] {
            let found = taken_back(&whole, Some(start..2));
            assert_eq!(found, (sent.to_owned(), unsent.to_owned()), "{start}");
        }
        let unchanged = ("sent".to_owned(), "rest".to_owned());
        // the last byte has left; nothing of the connection; nothing at all
        let all_but_the_last = Range { start: u32::MAX, end: 1 };
        for other in [Some(all_but_the_last), Some(3..9), None] {
            assert_eq!(taken_back(&whole, other.clone()), unchanged, "{other:?}");
        }
        let mut connection = whole.clone();
        connection.take_back(None);
        assert_eq!(connection, whole);
    }

    #[test]
    fn bytes_that_may_have_left_before_stay_sent() {
        let agreed = Agreed { mss: 3, ..some(true).agreed };
        let whole = Connection { sent: b"abcdefgh".to_vec(), agreed, ..some(true) };
        let (start, end) = (u32::MAX, whole.send_next());
        for (sent_again, sent, unsent) in
            [(0, "a", "bcdefgh"), (1, "abcd", "efgh"), (2, "abcdefg", "h"), (3, "abcdefgh", "")]
        {
            let connection = Connection { sent_again, ..whole.clone() };
            let found = taken_back(&connection, Some(start..end));
            assert_eq!(found, (sent.to_owned(), unsent.to_owned()), "{sent_again}");
        }
    }

    #[test]
    fn a_state_that_was_cut_is_refused() {
        let bytes = some(true).encode();
        for length in 0..bytes.len() {
            let found = Connection::decode(&bytes[..length]);
            assert!(matches!(found, Err(Malformed::Short { .. })), "{length}: {found:?}");
        }
    }

    #[test]
    fn lengths_and_values_that_cannot_be_are_refused() {
        let mut long = some(true);
        long.unread.clear();
        let mut bytes = long.encode();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = Connection::decode(&bytes).unwrap_err().to_string();
        assert_eq!(error, "bytes not read is 4294967295, expected less");
        let scaled = Agreed { scales: Some((15, 0)), ..some(true).agreed };
        let bytes = Connection { agreed: scaled, ..some(true) }.encode();
        let error = Connection::decode(&bytes).unwrap_err().to_string();
        assert_eq!(error, "window scale is 15, expected 0 to 14");
        // behind versions, addresses, twelve words, flags, scales and the traffic class
        let mut bytes = some(true).encode();
        bytes[4 + 2 * 7 + 12 * 4 + 4] = 2;
        let error = Connection::decode(&bytes).unwrap_err().to_string();
        assert_eq!(error, "mark of gaps is 2, expected 0 or 1");
        assert_eq!(Connection::decode(b"toe\x03rest"), Err(Malformed::Foreign));
    }

    #[test]
    fn the_fuzzers_seeds_are_states() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/toe_state");
        let seeds = std::fs::read_dir(directory).unwrap().map(|seed| seed.unwrap().path());
        let is_v4 = |seed| Connection::decode(&std::fs::read(seed).unwrap()).unwrap().own.is_ipv4();
        let mut both: Vec<bool> = seeds.map(is_v4).collect();
        both.sort_unstable();
        assert_eq!(both, [false, true]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_state_or_an_error(mut bytes: Vec<u8>, magic: bool) {
            if magic {
                bytes.splice(0..0, MAGIC);
            }
            if let Ok(connection) = Connection::decode(&bytes) {
                prop_assert_eq!(Connection::decode(&connection.encode()), Ok(connection));
            }
        }
    }
}
