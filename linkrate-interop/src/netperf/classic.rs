//! The tests before OMNI, each with a request, a response and results of its own kinds. Their contents are those of
//! OMNI in other places, so that a server needs one way to run both.
//!
//! All words of these messages are numbers. A count of octets that may pass 32 bits is of double precision, and
//! travels as the bits of IEEE 754 in network order.

use super::message::{Kind, Message, MessageError};
use super::omni::{Layout, MAX_SECONDS, OmniRequest, OmniResponse, OmniResults, Shape, port, size};

/// A test of its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classic {
    TcpStream,
    TcpMaerts,
    TcpRr,
    TcpCrr,
    /// TCP_CC, which netperf asks for in this way even where it knows OMNI.
    TcpCc,
    UdpStream,
    UdpRr,
}

impl Classic {
    const NUMBERS: [(Self, u32); 7] = [
        (Self::TcpStream, 10),
        (Self::TcpMaerts, 94),
        (Self::TcpRr, 13),
        (Self::TcpCrr, 34),
        (Self::TcpCc, 300),
        (Self::UdpStream, 16),
        (Self::UdpRr, 19),
    ];

    fn of(kind: Kind) -> Option<Self> {
        let found = Self::NUMBERS.iter().find(|(_, number)| *number == kind.number());
        found.map(|(test, _)| *test)
    }

    fn number(self) -> u32 {
        Self::NUMBERS.iter().find(|(test, _)| *test == self).map_or(0, |one| one.1)
    }

    /// An empty request.
    pub(super) fn request_message(self) -> Message {
        Message::new(Kind::Other(self.number()))
    }

    /// An empty response. Results have the same kind: a netserver leaves it as it is.
    pub(super) fn answer(self) -> Message {
        Message::new(Kind::Other(self.number() + 1))
    }

    fn parse(self, message: &Message) -> Result<OmniRequest, MessageError> {
        let shape = match self {
            Self::TcpStream | Self::UdpStream => Shape::Stream,
            Self::TcpMaerts => Shape::Maerts,
            Self::TcpRr | Self::UdpRr => Shape::RequestResponse,
            Self::TcpCrr => Shape::ConnectRequestResponse,
            Self::TcpCc => Shape::Connect,
        };
        let udp = matches!(self, Self::UdpStream | Self::UdpRr);
        let mut request = OmniRequest::of(shape, udp, 0);
        let (measures, length, listens) = match self {
            Self::TcpStream | Self::TcpMaerts => {
                request.send_buffer = size("send_buf_size", message.signed(0))?;
                request.receive_buffer = size("recv_buf_size", message.signed(1))?;
                match self {
                    Self::TcpMaerts => {
                        request.send_size = size("send_size", message.signed(2))?;
                    }
                    _ => request.receive_size = size("receive_size", message.signed(2))?,
                }
                request.nodelay = message.word(5) != 0;
                (6, 8, 13)
            }
            Self::UdpStream => {
                request.receive_buffer = size("recv_buf_size", message.signed(0))?;
                request.receive_size = size("message_size", message.signed(1))?;
                (6, 8, 11)
            }
            Self::TcpRr | Self::TcpCrr | Self::TcpCc | Self::UdpRr => {
                request.receive_buffer = size("recv_buf_size", message.signed(0))?;
                request.send_buffer = size("send_buf_size", message.signed(1))?;
                request.request_size = size("request_size", message.signed(6))?.unwrap_or(0);
                request.response_size = size("response_size", message.signed(7))?.unwrap_or(0);
                request.nodelay = message.word(8) != 0;
                (9, 11, 14)
            }
        };
        request.measures_cpu = message.word(measures) != 0;
        request.data_port = port(message.word(listens))?;
        request.test_length = match (self, message.signed(length)) {
            // octets that the client will send, in the place of seconds
            (Self::TcpStream, octets) if octets > MAX_SECONDS => 0,
            (_, length) if length > MAX_SECONDS => {
                let found = length.to_string();
                let expected = "at most 86400 s";
                return Err(MessageError::Field { field: "test_length", found, expected });
            }
            (_, length) => length,
        };
        Ok(request)
    }

    fn response(self, response: &OmniResponse) -> Message {
        let mut message = self.answer();
        let measures = u32::from(response.measures_cpu);
        let nodelay = u32::from(response.nodelay);
        message.put_signed(0, response.receive_buffer);
        match self {
            Self::TcpStream | Self::TcpMaerts => {
                let call = match self {
                    Self::TcpMaerts => response.send_size,
                    _ => response.receive_size,
                };
                message.put(1, call);
                message.put(2, nodelay);
                message.put(3, measures);
                message.put(4, response.test_length);
                message.put_signed(5, response.send_buffer);
                message.put(6, response.data_port.into());
                message.put_float(7, response.cpu_rate);
            }
            Self::UdpStream => {
                message.put_signed(1, response.send_buffer);
                message.put(2, measures);
                message.put(3, response.test_length);
                message.put(4, response.data_port.into());
                message.put_float(5, response.cpu_rate);
            }
            Self::TcpRr | Self::TcpCrr | Self::TcpCc | Self::UdpRr => {
                message.put(1, nodelay);
                message.put(2, measures);
                message.put(3, response.test_length);
                message.put_signed(4, response.send_buffer);
                message.put(5, response.data_port.into());
                message.put_float(6, response.cpu_rate);
            }
        }
        message
    }

    fn results(self, results: &OmniResults) -> Message {
        let mut message = self.answer();
        let measured = |number: Option<f32>| number.unwrap_or(-1.0);
        let percent = measured(results.cpu_percent);
        // the CPU, from the elapsed time on; the results of UDP_STREAM lack the service demand
        let end = |message: &mut Message, index: usize, demand: bool| {
            message.put_float(index, results.seconds);
            message.put_float(index + 1, percent);
            if demand {
                message.put_float(index + 2, measured(results.service_demand));
            }
            let next = index + 2 + usize::from(demand);
            message.put(next, results.cpu_method);
            message.put(next + 1, results.cpus);
        };
        match self {
            Self::TcpStream => {
                message.put_long(0, (results.received_bytes as f64).to_bits());
                message.put(2, results.receive_calls);
                end(&mut message, 3, true);
                message.put_signed(8, results.receive_buffer);
                message.put_signed(9, results.send_buffer);
            }
            Self::TcpMaerts => {
                message.put_long(0, (results.sent_bytes as f64).to_bits());
                message.put(2, results.send_calls);
                end(&mut message, 3, true);
            }
            Self::UdpStream => {
                message.put(0, results.receive_calls);
                // it goes around, as that of a netserver does
                message.put(1, results.received_bytes as u32);
                end(&mut message, 2, false);
            }
            Self::TcpRr | Self::TcpCrr | Self::TcpCc | Self::UdpRr => {
                message.put(0, results.received_bytes.wrapping_add(results.sent_bytes) as u32);
                message.put(1, results.receive_calls);
                message.put(2, results.transactions);
                end(&mut message, 3, true);
            }
        }
        message
    }
}

/// How a test is asked for and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Omni,
    /// By a kind of its own.
    Classic(Classic),
}

impl Form {
    /// That of a request; `None` if it is none for a test.
    #[must_use]
    pub fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Omni => Some(Self::Omni),
            kind => Classic::of(kind).map(Self::Classic),
        }
    }

    /// Reads a request.
    pub fn request(self, message: &Message) -> Result<OmniRequest, MessageError> {
        match self {
            Self::Omni => OmniRequest::parse(message),
            Self::Classic(test) => test.parse(message),
        }
    }

    /// The response that a server sends. A classic one lacks the numbers of buffers.
    #[must_use]
    pub fn response(self, response: &OmniResponse) -> Message {
        match self {
            Self::Omni => response.message(),
            Self::Classic(test) => test.response(response),
        }
    }

    /// The results that a server sends. Classic ones have what their client asks about, and the same layout in all
    /// versions.
    #[must_use]
    pub fn results(self, results: &OmniResults, layout: Layout) -> Message {
        match self {
            Self::Omni => results.message(layout),
            Self::Classic(test) => test.results(results),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::MESSAGE_BYTES;
    use super::*;

    fn form(number: u32) -> Option<Form> {
        Form::of(Kind::Other(number))
    }

    #[test]
    fn each_test_has_a_kind_and_its_answer_the_next_one() {
        for (test, number) in Classic::NUMBERS {
            assert_eq!(form(number), Some(Form::Classic(test)));
            assert_eq!(test.answer().kind().number(), number + 1);
        }
        assert_eq!(Form::of(Kind::Omni), Some(Form::Omni));
        assert_eq!((form(11), form(301)), (None, None));
    }

    #[test]
    fn a_request_is_read_by_the_places_of_its_kind() {
        let mut stream = Message::new(Kind::Other(10));
        stream.put_signed(1, 131_072);
        stream.put_signed(2, 16_384);
        stream.put(5, 1);
        stream.put(6, 1);
        stream.put_signed(8, 10);
        let asked = Form::Classic(Classic::TcpStream).request(&stream).unwrap();
        assert_eq!((asked.shape, asked.udp, asked.test_length), (Shape::Stream, false, 10));
        assert_eq!((asked.receive_buffer, asked.receive_size), (Some(131_072), Some(16_384)));
        assert!(asked.nodelay && asked.measures_cpu);
        let mut transactions = Message::new(Kind::Other(13));
        transactions.put_signed(6, 100);
        transactions.put_signed(7, 200);
        transactions.put_signed(11, 90_000);
        let error = Form::Classic(Classic::TcpRr).request(&transactions).unwrap_err();
        assert_eq!(error.to_string(), "test_length is 90000, expected at most 86400 s");
        transactions.put_signed(11, -5);
        let asked = Form::Classic(Classic::TcpRr).request(&transactions).unwrap();
        assert_eq!((asked.request_size, asked.response_size, asked.test_length), (100, 200, -5));
    }

    #[test]
    fn octets_of_results_are_of_double_precision() {
        let results = OmniResults {
            received_bytes: 10_000_000_000,
            receive_calls: 7,
            receive_buffer: 1,
            sent_bytes: 0,
            send_calls: 0,
            send_buffer: 2,
            transactions: 0,
            seconds: 1.5,
            cpu_percent: None,
            modes: None,
            service_demand: None,
            cpu_method: 0,
            cpus: 2,
            peak_cpu: None,
            retransmits: None,
            congestion: String::new(),
        };
        let message = Form::Classic(Classic::TcpStream).results(&results, Layout::TwoSeven);
        assert_eq!(f64::from_bits(message.long(0)), 1e10);
        assert_eq!((message.word(2), message.float(3), message.float(4)), (7, 1.5, -1.0));
    }

    proptest! {
        #[test]
        fn any_octets_are_a_request_or_an_error(
            octets in prop::collection::vec(any::<u8>(), MESSAGE_BYTES)
        ) {
            let message = Message::of(octets.as_slice().try_into().unwrap());
            for (test, _) in Classic::NUMBERS {
                let _ = Form::Classic(test).request(&message);
            }
        }
    }
}
