//! TCP offload: connections that move between the TCP of a host and that of an adapter.
//!
//! The host sets a connection up. Its state then goes [down](mod@migrate) to the adapter as a
//! [`Connection`], and comes up again the same way. While it is down, the host's socket is *parked*:
//! it keeps its port and its options, and has no connection. The program's descriptor names one end of
//! an AF_UNIX stream pair meanwhile. The adapter has the other end, and its [`engine`] carries bytes
//! between this end and a TCP.
//!
//! The adapter's TCP is behind [`stack::Stack`]. The only one so far is a second instance of Linux' own,
//! in a network namespace of the adapter's ([`linux`]). Its segments pass the TAP of this namespace,
//! and its timers are the kernel's.
//!
//! - [`connection`]: the state of a connection, and its encoding
//! - [`migrate`]: out of a socket, and into one
//! - [`moving`]: the steps of a move, and what follows one that fails
//! - [`program`]: threads and descriptors of the program
//! - [`stack`], [`linux`]: a TCP of an adapter
//! - [`round_trip`]: first time-outs of a connection that is restored
//! - [`engine`], [`pump`]: the thread that carries bytes; `moderation` says when a program is woken, and
//!   `backlog` has the bytes that wait for room
//! - [`supervisor`], [`call`], [`table`]: programs that know nothing of it

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]

mod backlog;
pub mod call;
pub mod connection;
pub mod engine;
pub mod linux;
pub mod migrate;
mod moderation;
pub mod moving;
pub mod program;
pub mod pump;
pub mod round_trip;
pub mod stack;
pub mod supervisor;
pub mod table;
mod worker;

pub use connection::Connection;
pub use engine::Engine;
pub use migrate::Refusal;
