//! Classic tests as a client has them: the request, and the server's answers in the words of OMNI.
//!
//! A netserver before 2.6 takes messages of [`SHORT_MESSAGE_BYTES`](super::SHORT_MESSAGE_BYTES). All versions since 2.4.3
//! know these tests.

use super::classic::Classic;
use super::message::{Kind, Message, MessageError};
use super::omni::{IPV4, IPV6, OmniRequest, OmniResponse, OmniResults, Shape, port};

/// The largest use of all CPUs that is one: 2.4.3 tells more of tests that a timer ends.
const MAX_PERCENT: f32 = 101.0;

/// Octets to which buffers of calls are aligned, as netperf asks.
const ALIGNMENT: u32 = 8;

impl Classic {
    /// The test that does what `request` says; `None` if there is none.
    #[must_use]
    pub fn for_request(asked: &OmniRequest) -> Option<Self> {
        match (asked.shape, asked.udp) {
            (Shape::Stream, false) => Some(Self::TcpStream),
            (Shape::Maerts, false) => Some(Self::TcpMaerts),
            (Shape::RequestResponse, false) => Some(Self::TcpRr),
            (Shape::ConnectRequestResponse, false) => Some(Self::TcpCrr),
            (Shape::Connect, false) => Some(Self::TcpCc),
            (Shape::Stream, true) => Some(Self::UdpStream),
            (Shape::RequestResponse, true) => Some(Self::UdpRr),
            (_, true) => None,
        }
    }

    /// The request of a client, for a server at an address of either family.
    #[must_use]
    pub fn message_for(self, asked: &OmniRequest, ipv6: bool) -> Message {
        let mut message = self.request_message();
        message.set_cpu(None);
        // a buffer of zero octets would be asked for by 2.5, and a call of -1 by all
        let buffer = |size: Option<u32>| size.map_or(-1, u32::cast_signed);
        let open = |size: Option<u32>| size.map_or(0, u32::cast_signed);
        let (nodelay, measures) = (u32::from(asked.nodelay), u32::from(asked.measures_cpu));
        let (port_at, length_at) = match self {
            Self::TcpStream | Self::TcpMaerts => {
                let call = match self {
                    Self::TcpMaerts => asked.send_size,
                    _ => asked.receive_size,
                };
                message.put_signed(0, buffer(asked.send_buffer));
                message.put_signed(1, buffer(asked.receive_buffer));
                message.put_signed(2, open(call));
                message.put(3, ALIGNMENT);
                message.put(5, nodelay);
                message.put(6, measures);
                (13, 8)
            }
            Self::UdpStream => {
                message.put_signed(0, buffer(asked.receive_buffer));
                message.put_signed(1, open(asked.receive_size));
                message.put(3, ALIGNMENT);
                message.put(6, measures);
                (11, 8)
            }
            Self::TcpRr | Self::TcpCrr | Self::TcpCc | Self::UdpRr => {
                message.put_signed(0, buffer(asked.receive_buffer));
                message.put_signed(1, buffer(asked.send_buffer));
                message.put(2, ALIGNMENT);
                message.put(4, ALIGNMENT);
                message.put(6, asked.request_size);
                message.put(7, asked.response_size);
                message.put(8, nodelay);
                message.put(9, measures);
                (14, 11)
            }
        };
        message.put_signed(length_at, asked.test_length);
        message.put(port_at, asked.data_port.into());
        message.put(port_at + 1, if ipv6 { IPV6 } else { IPV4 });
        message
    }

    /// Reads the answer of a server. What it does not report is zero.
    pub fn read_response(self, message: &Message) -> Result<OmniResponse, MessageError> {
        self.expect(message, &[self.answer().kind().number()])?;
        let mut response = OmniResponse {
            receive_buffer: message.signed(0),
            receive_size: 0,
            send_buffer: 0,
            send_size: 0,
            receive_width: 0,
            send_width: 0,
            nodelay: false,
            measures_cpu: false,
            cpu_rate: 0.0,
            test_length: 0,
            data_port: 0,
            intervals: None,
            priority: None,
            tos: None,
        };
        // the CPU from `measures` on; then the length of the test
        let (measures, send_buffer, data_port) = match self {
            Self::TcpStream | Self::TcpMaerts => {
                response.nodelay = message.word(2) != 0;
                match self {
                    Self::TcpMaerts => response.send_size = message.word(1),
                    _ => response.receive_size = message.word(1),
                }
                (3, 5, 6)
            }
            Self::UdpStream => (2, 1, 4),
            Self::TcpRr | Self::TcpCrr | Self::TcpCc | Self::UdpRr => {
                response.nodelay = message.word(1) != 0;
                (2, 4, 5)
            }
        };
        response.measures_cpu = message.word(measures) != 0;
        response.test_length = message.word(measures + 1);
        response.send_buffer = message.signed(send_buffer);
        response.data_port = port(message.word(data_port))?;
        response.cpu_rate = message.float(data_port + 1);
        Ok(response)
    }

    /// Reads the results of a server for the test that was asked for. Counts of octets that go around at 32 bits follow
    /// from those of messages and transactions.
    pub fn read_results(
        self,
        message: &Message,
        asked: &OmniRequest,
    ) -> Result<OmniResults, MessageError> {
        let answer = self.answer().kind().number();
        // a netserver of little endian turns the kind of the response twice, or has one of its own for results
        self.expect(message, &[answer, answer.swap_bytes(), answer + 1])?;
        let measured = |number: f32| (number.is_finite() && number >= 0.0).then_some(number);
        let percent = |number: f32| measured(number).filter(|percent| *percent <= MAX_PERCENT);
        let mut results = OmniResults {
            received_bytes: 0,
            receive_calls: 0,
            receive_buffer: 0,
            sent_bytes: 0,
            send_calls: 0,
            send_buffer: 0,
            transactions: 0,
            seconds: 0.0,
            cpu_percent: None,
            modes: None,
            service_demand: None,
            cpu_method: 0,
            cpus: 0,
            peak_cpu: None,
            retransmits: None,
            congestion: String::new(),
        };
        // a negative number or one that is none becomes zero
        let octets = || f64::from_bits(message.long(0)) as u64;
        let (end, has_demand) = match self {
            Self::TcpStream => {
                (results.received_bytes, results.receive_calls) = (octets(), message.word(2));
                (3, true)
            }
            Self::TcpMaerts => {
                (results.sent_bytes, results.send_calls) = (octets(), message.word(2));
                (3, true)
            }
            Self::UdpStream => {
                results.receive_calls = message.word(0);
                let most = u64::from(message.word(0)) * u64::from(asked.receive_size.unwrap_or(0));
                results.received_bytes = unwound(message.word(1), most);
                (2, false)
            }
            Self::TcpRr | Self::TcpCrr | Self::TcpCc | Self::UdpRr => {
                results.receive_calls = message.word(1);
                results.transactions = message.word(2);
                let all = u64::from(message.word(2));
                results.received_bytes = all * u64::from(asked.request_size);
                results.sent_bytes = all * u64::from(asked.response_size);
                (3, true)
            }
        };
        results.seconds = message.float(end);
        // one that does not measure tells what it likes
        if asked.measures_cpu {
            results.cpu_percent = percent(message.float(end + 1));
            results.service_demand =
                if has_demand { measured(message.float(end + 2)) } else { None };
        }
        let method = end + 2 + usize::from(has_demand);
        (results.cpu_method, results.cpus) = (message.word(method), message.word(method + 1));
        Ok(results)
    }

    fn expect(self, message: &Message, kinds: &[u32]) -> Result<(), MessageError> {
        let (found, expected) = (message.kind().number(), self.answer().kind().number());
        match kinds.contains(&found) {
            true => Ok(()),
            false => Err(MessageError::Kind { found, expected }),
        }
    }
}

/// The largest number up to `most` whose lowest 32 bits are `reported`; `reported` itself if there is none. Servers of little
/// endian turn this word once more than others: the order that is nearer to `most` is the right one.
fn unwound(reported: u32, most: u64) -> u64 {
    let beyond = |reported: u32| (most as u32).wrapping_sub(reported);
    let reported = if beyond(reported.swap_bytes()) < beyond(reported) {
        reported.swap_bytes()
    } else {
        reported
    };
    most.checked_sub(beyond(reported).into()).unwrap_or_else(|| reported.into())
}

/// How long messages of a server are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As those of netperf since 2.6, with OMNI.
    Long,
    /// As those of netperf up to 2.5, with classic tests.
    Short,
}

impl Dialect {
    /// What a server speaks, from what came behind the first [`SHORT_MESSAGE_BYTES`](super::SHORT_MESSAGE_BYTES) octets of
    /// its answer to one long message. One that takes short messages has answered the next one in it, or says no more.
    #[must_use]
    pub fn of(behind: Option<[u8; 8]>) -> Self {
        match behind {
            Some([0, 0, 0, 0, 0, 0, 0, 0]) => Self::Long,
            _ => Self::Short,
        }
    }

    /// The question: a long message that a server of short ones takes for two.
    #[must_use]
    pub fn question() -> Message {
        Message::new(Kind::CpuCalibrate)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::classic::Form;
    use super::super::message::MESSAGE_BYTES;
    use super::*;

    fn asked(shape: Shape, udp: bool) -> OmniRequest {
        OmniRequest {
            receive_size: (shape == Shape::Stream).then_some(1400),
            request_size: if shape == Shape::Stream { 0 } else { 100 },
            response_size: if shape == Shape::Stream { 0 } else { 200 },
            measures_cpu: true,
            receive_buffer: Some(65_536),
            ..OmniRequest::of(shape, udp, 7)
        }
    }

    #[test]
    fn a_server_reads_what_a_client_asks() {
        for (shape, udp) in [
            (Shape::Stream, false),
            (Shape::Stream, true),
            (Shape::RequestResponse, false),
            (Shape::RequestResponse, true),
            (Shape::ConnectRequestResponse, false),
            (Shape::Connect, false),
        ] {
            let asked = asked(shape, udp);
            let test = Classic::for_request(&asked).unwrap();
            let message = test.message_for(&asked, false);
            let form = Form::of(message.kind()).unwrap();
            assert_eq!(form, Form::Classic(test));
            assert_eq!(form.request(&message).unwrap(), asked);
        }
        assert_eq!(Classic::for_request(&asked(Shape::Maerts, true)), None);
    }

    #[test]
    fn a_client_reads_what_a_server_answers() {
        let asked = asked(Shape::RequestResponse, false);
        let response = OmniResponse {
            receive_buffer: 131_072,
            receive_size: 0,
            send_buffer: 16_384,
            send_size: 0,
            receive_width: 0,
            send_width: 0,
            nodelay: true,
            measures_cpu: true,
            cpu_rate: 100.0,
            test_length: 7,
            data_port: 4711,
            intervals: None,
            priority: None,
            tos: None,
        };
        let form = Form::Classic(Classic::TcpRr);
        let read = Classic::TcpRr.read_response(&form.response(&response)).unwrap();
        assert_eq!(read, response);
        let error = Classic::TcpRr.read_response(&Message::new(Kind::Omni)).unwrap_err();
        assert_eq!(error.to_string(), "message 97, expected 14");
        let mut results = Classic::TcpRr.answer();
        results.put(2, 50_000_000);
        results.put_float(3, 7.0);
        results.put_float(4, 12.5);
        results.put_float(5, -1.0);
        results.put(6, 8);
        let read = Classic::TcpRr.read_results(&results, &asked).unwrap();
        assert_eq!((read.received_bytes, read.sent_bytes), (5_000_000_000, 10_000_000_000));
        assert_eq!((read.cpu_percent, read.service_demand), (Some(12.5), None));
        assert_eq!((read.seconds, read.cpu_method), (7.0, 8));
    }

    #[test]
    fn octets_of_datagrams_do_not_go_around() {
        let asked = asked(Shape::Stream, true);
        let mut results = Classic::UdpStream.answer();
        // the last one was empty
        let octets = 4_000_000_u64 * 1400;
        results.put(0, 4_000_001);
        results.put(1, octets as u32);
        let read = Classic::UdpStream.read_results(&results, &asked).unwrap();
        assert_eq!(read.received_bytes, octets);
        results.put(1, (octets as u32).swap_bytes());
        let read = Classic::UdpStream.read_results(&results, &asked).unwrap();
        assert_eq!(read.received_bytes, octets, "of a server of little endian");
        assert_eq!(unwound(0, 0), 0);
    }

    #[test]
    fn a_server_of_short_messages_answers_twice() {
        assert_eq!(Dialect::of(Some([0; 8])), Dialect::Long);
        assert_eq!(Dialect::of(Some([0, 0, 0, 5, 0, 0, 3, 230])), Dialect::Short);
        assert_eq!(Dialect::of(None), Dialect::Short);
    }

    proptest! {
        #[test]
        fn any_octets_are_an_answer_or_an_error(
            octets in prop::collection::vec(any::<u8>(), MESSAGE_BYTES)
        ) {
            let mut octets: [u8; MESSAGE_BYTES] = octets.as_slice().try_into().unwrap();
            for test in [Classic::TcpStream, Classic::TcpMaerts, Classic::UdpStream, Classic::UdpRr] {
                octets[..4].copy_from_slice(&test.answer().kind().number().to_be_bytes());
                let message = Message::of(&octets);
                let _ = test.read_response(&message);
                let results = test.read_results(&message, &asked(Shape::Stream, true)).unwrap();
                prop_assert!(results.cpu_percent.is_none_or(|percent| percent >= 0.0));
            }
        }
    }
}
