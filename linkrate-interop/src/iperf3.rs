//! iperf3: a control connection with states and JSON documents, and a connection or a socket for each stream.
//!
//! 1. The client connects and sends its [`Cookie`], which each of its streams repeats.
//! 2. The server sends a [`State`] whenever the test continues: it asks for the [`Parameters`], for the
//!    streams, starts the test and says that it runs. The client sends [`State::TestEnd`] at the end.
//! 3. Both ends exchange their [`Results`], and the client says that it is done.
//!
//! Facts: the behaviour of iperf 3.21. Files, SCTP and
//! MPTCP of the server are left out.

mod authentication;
mod datagram;
mod parameters;
mod results;
mod state;
mod streams;

pub use authentication::{AuthenticationError, Credentials, Padding, PrivateKey, PublicKey, Users};
pub use datagram::{Arrivals, CounterWidth, Datagram, GREETING, answer};
pub use parameters::{
    MAX_CPU, MAX_FLOW_LABEL, MAX_PARAMETER_BYTES, Parameters, Transport, lenient, misread,
};
pub use results::{MAX_OUTPUT_BYTES, MAX_RESULT_BYTES, Results, StreamResult};
pub use state::State;
pub use streams::{COOKIE_BYTES, Cookie, Directions, Role, stream_id};

/// The port of an iperf3 server, TCP and UDP.
pub const PORT: u16 = 5201;
