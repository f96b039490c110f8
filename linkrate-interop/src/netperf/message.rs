//! The message of the control connection: 164 words since 2.6 and 64 before, of which the first ones are numbers in
//! network order.
//!
//! The sender turns as many words as the kind of the message has numbers. Text behind them stays as it is, so
//! that hosts of either order of octets read the same. A number of 64 bits travels as two words, one of floating
//! point as the bits of IEEE 754 in single precision.

/// Words of a message.
const WORDS: usize = 164;
/// Octets of a message.
pub const MESSAGE_BYTES: usize = WORDS * 4;
/// Octets of a message of netperf before 2.6. The words that both have are at the same places.
pub const SHORT_MESSAGE_BYTES: usize = 64 * 4;
/// Words before those of the test: the kind, and of a request the CPU on which the server is to run, of a
/// response the error of the server.
const HEAD: usize = 2;

/// The kind of a message, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The server is to write debug output from now on.
    DebugOn,
    /// It is to write none any more.
    DebugOff,
    /// It does, or does not.
    DebugOk,
    /// The server is to tell how fast its CPU counts.
    CpuCalibrate,
    /// What a client has to say before its first test, where the server asks for it.
    Passphrase,
    /// The server is to name its system, which netperf 2.5 and 2.6 ask before each test.
    System,
    /// A test, or the results of one.
    Omni,
    /// The answer to a test.
    OmniResponse,
    /// Another kind.
    Other(u32),
}

impl Kind {
    const NUMBERS: [(Self, u32); 8] = [
        (Self::DebugOn, 1),
        (Self::DebugOff, 2),
        (Self::DebugOk, 3),
        (Self::CpuCalibrate, 5),
        (Self::Passphrase, 6),
        (Self::Omni, 97),
        (Self::OmniResponse, 98),
        (Self::System, 600),
    ];

    fn of(number: u32) -> Self {
        let found = Self::NUMBERS.iter().find(|(_, known)| *known == number);
        found.map_or(Self::Other(number), |(kind, _)| *kind)
    }

    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Other(number) => number,
            // a test finds each kind in the list
            known => Self::NUMBERS.iter().find(|(kind, _)| *kind == known).map_or(0, |one| one.1),
        }
    }
}

/// A message that is not what was expected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// It is of another kind.
    #[error("message {found}, expected {expected}")]
    Kind {
        /// The number of its kind.
        found: u32,
        /// That of the expected one.
        expected: u32,
    },
    /// A number is out of its range.
    #[error("{field} is {found}, expected {expected}")]
    Field {
        /// Its name in netperf.
        field: &'static str,
        found: String,
        expected: &'static str,
    },
}

#[derive(Clone, PartialEq, Eq)]
pub struct Message(Box<[u8; MESSAGE_BYTES]>);

impl Message {
    /// An empty message of a kind.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let mut message = Self(Box::new([0; MESSAGE_BYTES]));
        message.put_at(0, kind.number());
        message
    }

    /// The answer to [`CpuCalibrate`](Kind::CpuCalibrate): the rate of the server's CPUs by a unit of its own, and
    /// their number.
    #[must_use]
    pub fn calibrated(rate: f32, cpus: u32) -> Self {
        let mut message = Self::new(Kind::CpuCalibrate);
        message.put_float(0, rate);
        message.put(1, cpus);
        message
    }

    /// What a client says first to a server that waits for a passphrase: a text of at most 647 octets.
    #[must_use]
    pub fn passphrase(text: &str) -> Self {
        let mut message = Self::new(Kind::Passphrase);
        message.put_text(0, MESSAGE_BYTES - 4 * HEAD, text);
        message
    }

    /// The rate that an answer to [`CpuCalibrate`](Kind::CpuCalibrate) tells.
    #[must_use]
    pub fn cpu_rate(&self) -> f32 {
        self.float(0)
    }

    #[must_use]
    pub fn of(octets: &[u8; MESSAGE_BYTES]) -> Self {
        Self(Box::new(*octets))
    }

    /// The short message of these octets. The words that it lacks are zeros.
    #[must_use]
    pub fn of_short(octets: &[u8; SHORT_MESSAGE_BYTES]) -> Self {
        let mut message = Self(Box::new([0; MESSAGE_BYTES]));
        message.0[..SHORT_MESSAGE_BYTES].copy_from_slice(octets);
        message
    }

    #[must_use]
    pub fn octets(&self) -> &[u8; MESSAGE_BYTES] {
        &self.0
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::of(self.at(0))
    }

    /// Of a request, the CPU on which the server is to run; `None` for any.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        u32::try_from(self.at(1).cast_signed()).ok()
    }

    /// Names the CPU on which the server is to run; `None` for any.
    pub fn set_cpu(&mut self, cpu: Option<u32>) {
        self.put_at(1, cpu.unwrap_or(u32::MAX));
    }

    /// Of a response, why the server could not do it, by the number of the error on its system; `None` if it
    /// could.
    #[must_use]
    pub fn error(&self) -> Option<u32> {
        Some(self.at(1)).filter(|error| *error != 0)
    }

    /// Says that the server could not do it.
    pub fn set_error(&mut self, errno: u32) {
        self.put_at(1, errno);
    }

    /// Number `index` of the test.
    pub(super) fn word(&self, index: usize) -> u32 {
        self.at(HEAD + index)
    }

    /// The same with a sign.
    pub(super) fn signed(&self, index: usize) -> i32 {
        self.word(index).cast_signed()
    }

    /// The same of single precision.
    pub(super) fn float(&self, index: usize) -> f32 {
        f32::from_bits(self.word(index))
    }

    /// Two numbers as one, the upper half first.
    pub(super) fn long(&self, index: usize) -> u64 {
        u64::from(self.word(index)) << 32 | u64::from(self.word(index + 1))
    }

    /// The text of at most `most` octets, of which the last one is a zero, behind the first `index` numbers of
    /// the test. Octets that are no printable ASCII are left out.
    pub(super) fn text(&self, index: usize, most: usize) -> String {
        let from = (HEAD + index) * 4;
        let octets =
            self.0[from..].iter().take(most.saturating_sub(1)).take_while(|octet| **octet != 0);
        octets.filter(|octet| octet.is_ascii_graphic()).map(|octet| char::from(*octet)).collect()
    }

    pub(super) fn put(&mut self, index: usize, word: u32) {
        self.put_at(HEAD + index, word);
    }

    pub(super) fn put_signed(&mut self, index: usize, word: i32) {
        self.put(index, word.cast_unsigned());
    }

    pub(super) fn put_float(&mut self, index: usize, number: f32) {
        self.put(index, number.to_bits());
    }

    pub(super) fn put_long(&mut self, index: usize, number: u64) {
        self.put(index, (number >> 32) as u32);
        self.put(index + 1, number as u32);
    }

    /// Writes a text of at most `most` octets with the zero behind it; the rest of a longer one is cut off.
    pub(super) fn put_text(&mut self, index: usize, most: usize, text: &str) {
        let from = (HEAD + index) * 4;
        let octets = text.bytes().take(most.saturating_sub(1));
        for (place, octet) in self.0[from..].iter_mut().zip(octets) {
            *place = octet;
        }
    }

    fn at(&self, word: usize) -> u32 {
        let octets = self.0[word * 4..].first_chunk::<4>();
        octets.map_or(0, |octets| u32::from_be_bytes(*octets))
    }

    fn put_at(&mut self, word: usize, number: u32) {
        self.0[word * 4..word * 4 + 4].copy_from_slice(&number.to_be_bytes());
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({:?})", self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_number_of_its_own() {
        for (kind, number) in Kind::NUMBERS {
            assert_eq!((Kind::of(number), kind.number()), (kind, number));
            assert_ne!(number, 0);
        }
        assert_eq!(Kind::of(10), Kind::Other(10));
        assert_eq!(MESSAGE_BYTES, 656);
    }

    #[test]
    fn numbers_are_in_network_order_and_text_is_not_turned() {
        let mut message = Message::new(Kind::Omni);
        assert_eq!((message.error(), message.cpu()), (None, Some(0)));
        message.set_cpu(None);
        message.put(0, 0x0102_0304);
        message.put_signed(1, -2);
        message.put_float(2, 1.5);
        message.put_long(3, 0x0102_0304_0506_0708);
        message.put_text(5, 6, "cubic-and-more");
        let octets = message.octets();
        assert_eq!(octets[..12], [0, 0, 0, 97, 255, 255, 255, 255, 1, 2, 3, 4]);
        assert_eq!(octets[20..28], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(octets[28..34], *b"cubic\0");
        let read = Message::of(octets);
        assert_eq!((read.kind(), read.cpu(), read.word(0)), (Kind::Omni, None, 0x0102_0304));
        assert_eq!((read.signed(1), read.float(2)), (-2, 1.5));
        assert_eq!((read.long(3), read.text(5, 6)), (0x0102_0304_0506_0708, "cubic".to_owned()));
        message.set_cpu(Some(3));
        assert_eq!(message.cpu(), Some(3));
        message.set_error(22);
        assert_eq!(message.error(), Some(22));
    }

    #[test]
    fn text_without_an_end_is_bounded() {
        let mut octets = [b'x'; MESSAGE_BYTES];
        octets[40] = 0x1b;
        let message = Message::of(&octets);
        assert_eq!(message.text(5, 16).len(), 14);
        assert_eq!(message.text(161, 16), "xxxx");
    }
}
