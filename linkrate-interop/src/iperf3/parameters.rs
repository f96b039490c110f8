//! What a client asks of a server: one document after the cookie.

use serde_json::{Map, Value, json};

use super::datagram::CounterWidth;
use super::streams::Directions;
use crate::json::{Fields, JsonError};

/// Most octets of the document that a server reads; iperf3 has the same bound.
pub const MAX_PARAMETER_BYTES: u32 = 8 << 10;

/// Most characters of a title, of a name of a congestion control, and of a version.
const MAX_TEXT: usize = 128;
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
/// The largest number of a CPU: that of a mask of the kernel.
pub const MAX_CPU: u32 = 8191;
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
    /// Length of the test, s; 0 where octets or blocks end it.
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
    /// The client would like the output of the server, which linkrate's has none of.
    pub wants_server_output: bool,
    /// The client's title of the test.
    pub title: Option<String>,
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
            wants_server_output: false,
            title: None,
            authentication: None,
            client_version: None,
        }
    }
}

impl Parameters {
    /// Reads the parameters of a client.
    pub fn parse(fields: &Fields) -> Result<Self, JsonError> {
        let usual = Self::default();
        let transport = match (fields.switch("tcp"), fields.switch("udp")) {
            (false, true) => Transport::Udp,
            (true, false) => Transport::Tcp,
            _ => return Err(JsonError::Missing("tcp or udp")),
        };
        let whole = |key, high| fields.whole(key, 0, high);
        let small = |key, low, high| Ok(fields.whole(key, low, high)?.map(|number| number as u32));
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
        let parsed = Self {
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
            bandwidth: whole("bandwidth", MAX_NUMBER)?.unwrap_or(0),
            pacing_rate: whole("fqrate", MAX_NUMBER)?.unwrap_or(0),
            burst: small("burst", 1, MAX_BURST)?.unwrap_or(1),
            zero_copy: fields.switch("zerocopy"),
            mss: small("MSS", 0, MAX_MSS)?.filter(|mss| *mss > 0),
            nodelay: fields.switch("nodelay"),
            congestion: fields.text("congestion", MAX_TEXT)?,
            tos: fields.whole("TOS", 0, 255)?.unwrap_or(0) as u8,
            server_cpu: small("server_affinity", 0, MAX_CPU.into())?,
            counters,
            wants_server_output: fields.switch("get_server_output"),
            title: fields.text("title", MAX_TEXT)?,
            authentication: fields.text("authtoken", MAX_TOKEN)?,
            client_version: fields.text("client_version", MAX_TEXT)?,
        };
        match parsed.seconds == 0 && parsed.bytes == 0 && parsed.blocks == 0 {
            // it would never end
            true => Err(JsonError::Field {
                key: "time",
                found: "0".to_owned(),
                expected: "an end: a time, num or blockcount".to_owned(),
            }),
            false => Ok(parsed),
        }
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
        if self.zero_copy {
            set("zerocopy", json!(1));
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
        if self.wants_server_output {
            set("get_server_output", json!(1));
        }
        for (key, number) in
            [("window", self.window), ("MSS", self.mss), ("server_affinity", self.server_cpu)]
        {
            if let Some(number) = number {
                set(key, json!(number));
            }
        }
        for (key, text) in [
            ("congestion", &self.congestion),
            ("title", &self.title),
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
            (json!({"time": 1}), "no field \"tcp or udp\""),
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
            (json!({"tcp": true, "server_affinity": 8192}), "field \"server_affinity\" is 8192"),
            (json!({"tcp": true, "time": 86_401}), "field \"time\" is 86401"),
            (json!({"tcp": true, "time": 0}), "field \"time\" is 0, expected an end"),
            (json!({"udp": true, "burst": 1001}), "field \"burst\" is 1001, expected a whole"),
            (json!({"udp": true, "len": 65_508}), "field \"len\" is 65508"),
            (
                json!({"udp": true, "udp_counters_64bit": 1, "len": 15}),
                "field \"len\" is 15, expected a whole number from 16",
            ),
            (json!({"tcp": true, "omit": -1}), "field \"omit\" is -1"),
            (json!({"tcp": true, "window": "1M"}), "field \"window\" is \"1M\""),
            (json!({"tcp": true, "congestion": 7}), "field \"congestion\" is 7"),
        ] {
            let error = parsed(&wrong).unwrap_err();
            assert!(error.starts_with(said), "{wrong}: {error}");
        }
        assert!(parsed(&json!({"tcp": true, "time": 0, "num": 1})).is_ok());
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
            texts in prop::array::uniform4(prop::option::of("[ -~]{0,20}")),
        ) -> Parameters {
            let [congestion, title, authentication, client_version] = texts;
            Parameters {
                transport: if udp { Transport::Udp } else { Transport::Tcp },
                counters: if wide { CounterWidth::Wide } else { CounterWidth::Narrow },
                seconds, omit_seconds, bytes, blocks, parallel, ways, window, block, bandwidth, pacing_rate, burst, mss,
                zero_copy: nodelay,
                nodelay, wants_server_output, tos, congestion, title, authentication,
                client_version,
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
