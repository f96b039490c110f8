//! netperf: a control connection with messages of one length (656 octets since 2.6, 256 before), and connections of the test beside it.
//!
//! The client (netperf) sends a request, the server (netserver) answers with a response that has the port of the
//! data connections, and at the end with the results of its end. Since 2.5 one kind of test (OMNI) stands for
//! nearly all: the request says in which directions payload flows, over which protocol, and whether connections
//! are made for each transaction. TCP_CC, and all tests of an older netperf, have kinds of their own.
//!
//! The results of OMNI have grown: 2.6 told the segments that were sent again, 2.7 what the CPUs did.
//!
//! Facts: the behaviour of netperf 2.4.3, 2.4.5, 2.5.0, 2.6.0, 2.7.0 and 2.7.1.

mod classic;
mod message;
mod omni;
mod pace;
mod request;
mod ring;

pub use classic::{Classic, Form};
pub use message::{Kind, MESSAGE_BYTES, Message, MessageError, SHORT_MESSAGE_BYTES};
pub(crate) use omni::MAX_CALL;
pub use omni::{CpuModes, Layout, OmniRequest, OmniResponse, OmniResults, Shape, flags};
pub use pace::{Intervals, Pace};
pub use request::Dialect;
pub use ring::{Placement, Ring, RingSize};

pub const PORT: u16 = 12_865;

/// The method of that number, in words.
#[must_use]
pub fn cpu_method(number: u32) -> &'static str {
    match number {
        1 => "idle counter of HP-UX",
        2 => "pstat",
        3 => "times",
        4 => "loops that run while nothing else does",
        5 => "getrusage",
        6 => "Windows NT's counters",
        7 | 11 => "kstat",
        8 => "/proc/stat",
        9 => "sysctl",
        10 => "perfstat",
        12 => "host_info of macOS",
        _ => "a method of an unknown number",
    }
}
