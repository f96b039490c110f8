//! The client of other programs' servers: the control connection of a test, from its request to its results.
//!
//! The connections that carry payload are opened by somebody else, who has the meters: a test says where to and
//! with which first octets. Every wait has a bound and ends when the user interrupts.
//!
//! - [`Iperf3Test`]: a test of an iperf3 server
//! - [`NetperfTest`]: a test of a netserver, which has one connection

mod control;
mod iperf3;
mod netperf;
mod user;

use std::net::SocketAddr;

pub use control::Control;
pub use iperf3::{BUSY, Iperf3Test};
pub use netperf::NetperfTest;
pub use user::{PADDING, PASSWORD, User, UserError};

use crate::json::JsonError;
use crate::netperf::MessageError;

/// Why a test has no results.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no connection to {server}: {reason}")]
    Unreachable { server: SocketAddr, reason: std::io::Error },
    /// The server closed the control connection, or it broke.
    #[error("the control connection ended while {during}: {reason}")]
    Ended {
        /// What was waited for.
        during: &'static str,
        reason: String,
    },
    /// The server said nothing.
    #[error("no answer in {seconds} s while {during}")]
    Silent { during: &'static str, seconds: u64 },
    /// The server serves another client.
    #[error("the server was busy for {seconds} s")]
    Busy { seconds: u64 },
    /// The server refused the test.
    #[error("the server refused the test: {0}")]
    Refused(String),
    /// The server asks for a user, and the client is none, or has another password.
    #[error("the server denied access; it asks for a user with a password")]
    Denied,
    /// It sent another message than the protocol has at this place.
    #[error("the server sent {found} while {during}, expected {expected}")]
    Unexpected {
        during: &'static str,
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// It sent a document with a wrong field.
    #[error("results of the server: {0}")]
    Document(#[from] JsonError),
    /// It sent a message with a wrong number.
    #[error("message of the server: {0}")]
    Message(#[from] MessageError),
    #[error("interrupted")]
    Interrupted,
}
