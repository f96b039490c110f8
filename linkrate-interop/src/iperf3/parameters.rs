//! What a client asks of a server: one document after the cookie.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::datagram::CounterWidth;
use super::streams::Directions;
use crate::json::{Fields, JsonError};

/// Most octets of the document that a server reads; iperf3 has the same bound.
pub const MAX_PARAMETER_BYTES: u32 = 8 << 10;

/// Most characters of a name of a congestion control, and of a version.
const MAX_TEXT: usize = 128;
/// Most characters of a title and of what a client would see again: the document has the bound.
const MAX_LONG_TEXT: usize = MAX_PARAMETER_BYTES as usize;
/// Most characters of the token of an authentication: a block of RSA of 8192 bits in base 64.
const MAX_TOKEN: usize = 1400;

/// The longest test, s; iperf3 has the same bound.
const MAX_SECONDS: u64 = 86_400;
/// The longest beginning that is left out, s.
const MAX_OMIT_SECONDS: u64 = 600;
/// Most streams each way.
const MAX_STREAMS: u64 = 128;
/// The largest socket buffer, octets.
const MAX_WINDOW: u64 = 512 << 20;
/// The largest message, octets.
const MAX_BLOCK: u64 = 1 << 20;
/// The largest datagram: what IPv4 leaves.
const MAX_DATAGRAM: u64 = 65_535 - 8 - 20;
/// The largest MSS of a socket option.
const MAX_MSS: u64 = 32 * 1024 - 1;
/// The largest number that a document has exactly.
const MAX_NUMBER: u64 = 1 << 53;
/// The largest number of a CPU; iperf3 has the same bound.
pub const MAX_CPU: u32 = 1024;
/// The largest flow label of IPv6.
pub const MAX_FLOW_LABEL: u32 = 0xf_ffff;
/// Most messages of a burst.
const MAX_BURST: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
}

/// The parameters of a test. Zero octets, blocks or bits per second mean no bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    pub transport: Transport,
    /// Length of the test, s; 0 where octets or blocks end it, or else the user.
    pub seconds: u32,
    /// Omit the first N seconds from the results.
    pub omit_seconds: u32,
    /// Octets after which it ends.
    pub bytes: u64,
    /// Messages after which it ends.
    pub blocks: u64,
    /// Streams each way.
    pub parallel: u32,
    /// Which way they flow.
    pub ways: Directions,
    /// Socket buffers, octets; `None` leaves them to the kernel.
    pub window: Option<u32>,
    /// Octets of a message or a datagram.
    pub block: u32,
    /// Bits per second of each stream.
    pub bandwidth: u64,
    /// Bits per second of each stream that the kernel is to hold it to (SO_MAX_PACING_RATE); 0 for none.
    pub pacing_rate: u64,
    /// Messages that are sent at once before the rate counts.
    pub burst: u32,
    /// Sends out of a file with sendfile(2).
    pub zero_copy: bool,
    /// TCP_MAXSEG.
    pub mss: Option<u32>,
    pub nodelay: bool,
    pub congestion: Option<String>,
    /// Type of service of each packet.
    pub tos: u8,
    /// The CPU that the server is to run on.
    pub server_cpu: Option<u32>,
    /// How many bits the numbers of datagrams have.
    pub counters: CounterWidth,
    /// Datagrams of IPv4 are not fragmented (IP_PMTUDISC_DO).
    pub dont_fragment: bool,
    /// Flow label of IPv6.
    pub flow_label: Option<u32>,
    /// Payload is digits again and again, instead of octets that do not compress.
    pub repeating: bool,
    /// Receivers leave the payload in the kernel (MSG_TRUNC).
    pub discards: bool,
    /// Senders let the kernel cut a call into datagrams (UDP_SEGMENT).
    pub segments: bool,
    /// Receivers let the kernel merge datagrams for a call (UDP_GRO).
    pub merges: bool,
    /// MPTCP instead of TCP.
    pub multipath: bool,
    /// The client would like the output of the server with its results.
    pub wants_server_output: bool,
    /// The client's title of the test.
    pub title: Option<String>,
    /// What the client would see again in its document.
    pub extra_data: Option<String>,
    /// Who asks, encrypted for the server.
    pub authentication: Option<String>,
    pub client_version: Option<String>,
}

impl Default for Parameters {
    /// Ten seconds of one TCP stream from the client, as iperf3 has it.
    fn default() -> Self {
        Self {
            transport: Transport::Tcp,
            seconds: 10,
            omit_seconds: 0,
            bytes: 0,
            blocks: 0,
            parallel: 1,
            ways: Directions::Forward,
            window: None,
            block: 128 << 10,
            bandwidth: 0,
            pacing_rate: 0,
            burst: 1,
            zero_copy: false,
            mss: None,
            nodelay: false,
            congestion: None,
            tos: 0,
            server_cpu: None,
            counters: CounterWidth::Narrow,
            dont_fragment: false,
            flow_label: None,
            repeating: false,
            discards: false,
            segments: false,
            merges: false,
            multipath: false,
            wants_server_output: false,
            title: None,
            extra_data: None,
            authentication: None,
            client_version: None,
        }
    }
}

/// Kinds of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Switch,
    Number,
    Text,
}

/// The fields that a server reads, with the kinds of their values.
const KINDS: [(&str, Kind); 36] = [
    ("tcp", Kind::Switch),
    ("udp", Kind::Switch),
    ("sctp", Kind::Switch),
    ("nodelay", Kind::Switch),
    ("reverse", Kind::Switch),
    ("bidirectional", Kind::Switch),
    ("mptcp", Kind::Switch),
    ("udp_counters_64bit", Kind::Switch),
    ("get_server_output", Kind::Switch),
    ("repeating_payload", Kind::Switch),
    ("zerocopy", Kind::Switch),
    ("dont_fragment", Kind::Switch),
    ("skip_rx_copy", Kind::Switch),
    ("gso", Kind::Switch),
    ("gro", Kind::Switch),
    ("omit", Kind::Number),
    ("server_affinity", Kind::Number),
    ("time", Kind::Number),
    ("num", Kind::Number),
    ("blockcount", Kind::Number),
    ("MSS", Kind::Number),
    ("parallel", Kind::Number),
    ("window", Kind::Number),
    ("len", Kind::Number),
    ("bandwidth", Kind::Number),
    ("fqrate", Kind::Number),
    ("burst", Kind::Number),
    ("TOS", Kind::Number),
    ("flowlabel", Kind::Number),
    ("pacing_timer", Kind::Number),
    ("title", Kind::Text),
    ("extra_data", Kind::Text),
    ("congestion", Kind::Text),
    ("congestion_used", Kind::Text),
    ("authtoken", Kind::Text),
    ("client_version", Kind::Text),
];

/// Fields with a value of another kind than iperf3's: its server takes them for absent, and so does linkrate's.
#[must_use]
pub fn misread(fields: &Fields) -> Vec<&'static str> {
    let is_wrong = |key: &str, kind: Kind| {
        let Some(value) = fields.get(key).map(RawValue::get) else { return false };
        let is_number = value.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        match kind {
            // numbers too: what is a switch differs between versions
            Kind::Switch => !is_number && !["true", "false"].contains(&value),
            Kind::Number => !is_number,
            Kind::Text => !value.starts_with('"'),
        }
    };
    KINDS.iter().filter(|(key, kind)| is_wrong(key, *kind)).map(|(key, _)| *key).collect()
}

/// The text of a document as a server of iperf3 reads it: without a byte order mark, and with control characters in
/// strings, which count as spaces here.
#[must_use]
pub fn lenient(document: &[u8]) -> String {
    let document = document.strip_prefix("\u{feff}".as_bytes()).unwrap_or(document);
    String::from_utf8_lossy(document).replace(|letter: char| letter < ' ', " ")
}

impl Parameters {
    /// Reads the parameters of a client. Fields that are [misread] are absent; a part of a second or of an octet is
    /// dropped, and a rate above what is exact is none, as at iperf3's server.
    pub fn parse(fields: &Fields) -> Result<Self, JsonError> {
        let usual = Self::default();
        let fields = &fields.clone().without(&misread(fields));
        let transport = match ["tcp", "udp", "sctp"].map(|key| fields.switch(key)) {
            [_, false, false] => Transport::Tcp,
            [false, true, false] => Transport::Udp,
            _ => return Err(JsonError::Missing("tcp or udp")),
        };
        let between = |key, low: u64, high: u64| -> Result<Option<u64>, JsonError> {
            let Some(number) = fields.number(key)? else { return Ok(None) };
            match number.trunc() {
                whole if (low as f64..=high as f64).contains(&whole) => Ok(Some(whole as u64)),
                _ => Err(JsonError::Field {
                    key,
                    found: number.to_string(),
                    expected: format!("a whole number from {low} to {high}"),
                }),
            }
        };
        let whole = |key, high| between(key, 0, high);
        let small = |key, low, high| -> Result<Option<u32>, JsonError> {
            Ok(between(key, low, high)?.map(|number| number as u32))
        };
        let rate = |key| -> Result<u64, JsonError> {
            Ok(whole(key, u64::MAX)?.filter(|rate| *rate <= MAX_NUMBER).unwrap_or(0))
        };
        let ways = match (fields.switch("bidirectional"), fields.switch("reverse")) {
            (true, _) => Directions::Both,
            (false, true) => Directions::Reverse,
            (false, false) => Directions::Forward,
        };
        let most_block = match transport {
            Transport::Tcp => MAX_BLOCK,
            Transport::Udp => MAX_DATAGRAM,
        };
        let counters = match fields.switch("udp_counters_64bit") {
            true => CounterWidth::Wide,
            false => CounterWidth::Narrow,
        };
        // a datagram has room for its header
        let least_block = match transport {
            Transport::Tcp => 1,
            Transport::Udp => counters.header_bytes() as u64,
        };
        Ok(Self {
            transport,
            seconds: small("time", 0, MAX_SECONDS)?.unwrap_or(usual.seconds),
            omit_seconds: small("omit", 0, MAX_OMIT_SECONDS)?.unwrap_or(0),
            bytes: whole("num", MAX_NUMBER)?.unwrap_or(0),
            blocks: whole("blockcount", MAX_NUMBER)?.unwrap_or(0),
            parallel: small("parallel", 1, MAX_STREAMS)?.unwrap_or(1),
            ways,
            window: small("window", 0, MAX_WINDOW)?.filter(|window| *window > 0),
            block: small("len", least_block, most_block)?.unwrap_or(match transport {
                Transport::Tcp => usual.block,
                Transport::Udp => 1460,
            }),
            // a client without a bound leaves it out
            bandwidth: rate("bandwidth")?,
            pacing_rate: rate("fqrate")?,
            burst: small("burst", 1, MAX_BURST)?.unwrap_or(1),
            zero_copy: fields.switch("zerocopy"),
            mss: small("MSS", 0, MAX_MSS)?.filter(|mss| *mss > 0),
            nodelay: fields.switch("nodelay"),
            congestion: fields.text("congestion", MAX_TEXT)?,
            tos: small("TOS", 0, 255)?.unwrap_or(0) as u8,
            server_cpu: small("server_affinity", 0, MAX_CPU.into())?,
            counters,
            dont_fragment: fields.switch("dont_fragment"),
            flow_label: small("flowlabel", 1, MAX_FLOW_LABEL.into())?,
            repeating: fields.switch("repeating_payload"),
            discards: fields.switch("skip_rx_copy"),
            segments: fields.switch("gso"),
            merges: fields.switch("gro"),
            multipath: fields.switch("mptcp"),
            wants_server_output: fields.switch("get_server_output"),
            title: fields.text("title", MAX_LONG_TEXT)?,
            extra_data: fields.text("extra_data", MAX_LONG_TEXT)?,
            authentication: fields.text("authtoken", MAX_TOKEN)?,
            client_version: fields.text("client_version", MAX_TEXT)?,
        })
    }

    /// Whether neither time nor octets end the test: the user does.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.seconds == 0 && self.amount().is_none()
    }

    /// Octets that end the test, of all streams each way together; `None` where its time does.
    #[must_use]
    pub fn amount(&self) -> Option<u64> {
        let octets = match self.blocks {
            0 => self.bytes,
            blocks => blocks.saturating_mul(self.block.into()),
        };
        Some(octets).filter(|octets| *octets > 0)
    }

    /// The document that a client sends.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut fields = Map::new();
        let mut set = |key: &str, value: Value| {
            fields.insert(key.to_owned(), value);
        };
        match self.transport {
            Transport::Tcp => set("tcp", json!(true)),
            Transport::Udp => set("udp", json!(true)),
        }
        set("omit", json!(self.omit_seconds));
        set("time", json!(self.seconds));
        set("num", json!(self.bytes));
        set("blockcount", json!(self.blocks));
        set("parallel", json!(self.parallel));
        set("len", json!(self.block));
        set("pacing_timer", json!(1000));
        match self.ways {
            Directions::Forward => {}
            Directions::Reverse => set("reverse", json!(true)),
            Directions::Both => set("bidirectional", json!(true)),
        }
        // fields that older servers take for set where they are there
        if self.nodelay {
            set("nodelay", json!(true));
        }
        if self.bandwidth > 0 {
            set("bandwidth", json!(self.bandwidth));
        }
        if self.pacing_rate > 0 {
            set("fqrate", json!(self.pacing_rate));
        }
        if self.multipath {
            set("mptcp", json!(true));
        }
        for (key, is_on) in [
            ("zerocopy", self.zero_copy),
            ("dont_fragment", self.dont_fragment),
            ("repeating_payload", self.repeating),
            ("skip_rx_copy", self.discards),
            ("gso", self.segments),
            ("gro", self.merges),
            ("get_server_output", self.wants_server_output),
        ] {
            if is_on {
                set(key, json!(1));
            }
        }
        if self.burst > 1 {
            set("burst", json!(self.burst));
        }
        if self.tos > 0 {
            set("TOS", json!(self.tos));
        }
        if self.counters == CounterWidth::Wide {
            set("udp_counters_64bit", json!(1));
        }
        for (key, number) in [
            ("window", self.window),
            ("MSS", self.mss),
            ("server_affinity", self.server_cpu),
            ("flowlabel", self.flow_label),
        ] {
            if let Some(number) = number {
                set(key, json!(number));
            }
        }
        for (key, text) in [
            ("congestion", &self.congestion),
            ("title", &self.title),
            ("extra_data", &self.extra_data),
            ("authtoken", &self.authentication),
            ("client_version", &self.client_version),
        ] {
            if let Some(text) = text {
                set(key, json!(text));
            }
        }
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(value: &Value) -> Result<Parameters, String> {
        let text = value.to_string();
        let fields = Fields::parse(text.as_bytes()).unwrap();
        Parameters::parse(&fields).map_err(|error| error.to_string())
    }

    #[test]
    fn the_least_that_a_client_sends_is_enough() {
        let old = parsed(&json!({"tcp": true, "time": 5, "parallel": 2, "len": 131_072})).unwrap();
        let expected = Parameters { seconds: 5, parallel: 2, ..Parameters::default() };
        assert_eq!(old, expected);
        let udp = parsed(&json!({"udp": true, "time": 1, "len": 1448, "bandwidth": 1e9})).unwrap();
        assert_eq!(
            (udp.transport, udp.block, udp.bandwidth),
            (Transport::Udp, 1448, 1_000_000_000)
        );
    }

    #[test]
    fn what_no_client_may_ask_for_is_refused_by_its_field() {
        for (wrong, said) in [
            (json!({"tcp": true, "udp": true}), "no field \"tcp or udp\""),
            (json!({"sctp": true}), "no field \"tcp or udp\""),
            (json!({"tcp": true, "parallel": 0}), "field \"parallel\" is 0, expected a whole"),
            (json!({"tcp": true, "parallel": 129}), "field \"parallel\" is 129"),
            (json!({"tcp": true, "len": 0}), "field \"len\" is 0"),
            (json!({"tcp": true, "len": 2_000_000}), "field \"len\" is 2000000"),
            (
                json!({"udp": true, "len": 11}),
                "field \"len\" is 11, expected a whole number from 12",
            ),
            (json!({"tcp": true, "server_affinity": 1025}), "field \"server_affinity\" is 1025"),
            (json!({"tcp": true, "time": 86_401}), "field \"time\" is 86401"),
            (json!({"udp": true, "burst": 1001}), "field \"burst\" is 1001, expected a whole"),
            (json!({"udp": true, "len": 65_508}), "field \"len\" is 65508"),
            (
                json!({"udp": true, "udp_counters_64bit": 1, "len": 15}),
                "field \"len\" is 15, expected a whole number from 16",
            ),
            (json!({"tcp": true, "omit": -1}), "field \"omit\" is -1"),
            (json!({"tcp": true, "bandwidth": -1}), "field \"bandwidth\" is -1"),
            (json!({"tcp": true, "flowlabel": 0}), "field \"flowlabel\" is 0"),
        ] {
            let error = parsed(&wrong).unwrap_err();
            assert!(error.starts_with(said), "{wrong}: {error}");
        }
        assert!(parsed(&json!({"tcp": true, "time": 0, "num": 1})).is_ok());
    }

    #[test]
    fn what_a_server_of_iperf3_overlooks_is_overlooked_and_named() {
        let document = b"\xef\xbb\xbf{\"tcp\":\"yes\",\"time\":1.5,\"window\":\"1M\",\"bandwidth\":1.8446744073709552e19,\"title\":\"a\tb\xff\"}\0";
        let text = lenient(document);
        let fields = Fields::parse(text.as_bytes()).unwrap();
        assert_eq!(misread(&fields), ["tcp", "window"]);
        let found = Parameters::parse(&fields).unwrap();
        let title = Some("a b\u{fffd}".to_owned());
        assert_eq!(found, Parameters { seconds: 1, title, ..Parameters::default() });
        assert_eq!(parsed(&json!({})), Ok(Parameters::default()));
        let endless = parsed(&json!({"tcp": true, "time": 0})).unwrap();
        assert!(endless.is_endless() && !found.is_endless());
        let ends = parsed(&json!({"tcp": true, "time": 0, "blockcount": 1})).unwrap();
        assert!(!ends.is_endless());
    }

    prop_compose! {
        fn some()(
            udp: bool, seconds in 1_u32..=86_400, omit_seconds in 0_u32..=600,
            bytes in 0_u64..=1 << 53, blocks in 0_u64..1000, parallel in 1_u32..=128,
            ways in prop::sample::select(vec![Directions::Forward, Directions::Reverse, Directions::Both]),
            window in prop::option::of(1_u32..=512 << 20), block in 16_u32..=65_507,
            bandwidth in 0_u64..=1 << 53, pacing_rate in 0_u64..=1 << 53, burst in 1_u32..=1000,
            mss in prop::option::of(1_u32..=32_767),
            nodelay: bool, wide: bool, wants_server_output: bool, tos: u8,
            flow_label in prop::option::of(1_u32..=MAX_FLOW_LABEL),
            texts in prop::array::uniform5(prop::option::of("[ -~]{0,20}")),
        ) -> Parameters {
            let [congestion, title, extra_data, authentication, client_version] = texts;
            Parameters {
                transport: if udp { Transport::Udp } else { Transport::Tcp },
                counters: if wide { CounterWidth::Wide } else { CounterWidth::Narrow },
                seconds, omit_seconds, bytes, blocks, parallel, ways, window, block, bandwidth, pacing_rate, burst, mss,
                zero_copy: nodelay,
                nodelay, wants_server_output, tos, congestion, title, extra_data, authentication,
                client_version, flow_label,
                dont_fragment: wide,
                repeating: udp,
                discards: nodelay,
                segments: udp,
                merges: wide,
                multipath: wants_server_output,
                server_cpu: wide.then_some(u32::from(tos)),
            }
        }
    }

    proptest! {
        #[test]
        fn a_server_reads_what_a_client_sends(parameters in some()) {
            let text = parameters.document().to_string();
            let fields = Fields::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(Parameters::parse(&fields), Ok(parameters));
        }
    }
}
