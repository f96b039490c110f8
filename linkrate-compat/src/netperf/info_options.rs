//! Options that print and exit (`-h`, `-V`, `-O ?`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linkrate_interop::client::NetperfTest;
use linkrate_sys::procstat::ticks_per_second;

use super::NetperfError;
use super::options::{Options, Question};
use super::test::server;

/// The answer as netperf prints it.
pub(super) fn answer(
    options: &Options,
    question: Question,
    stop: &Arc<AtomicBool>,
) -> Result<String, NetperfError> {
    Ok(match question {
        // netperf ends neither of them with a new line
        Question::CpuRate { far: false } => ticks_per_second().to_string(),
        Question::CpuRate { far: true } => {
            let passphrase = options.passphrase.as_deref();
            NetperfTest::cpu_rate(server(options)?, passphrase, stop)?.to_string()
        }
        Question::Version => {
            format!("Netperf version 2.7.1 (linkrate {})\n", env!("CARGO_PKG_VERSION"))
        }
        Question::Mss => {
            // -1 where the kernel does not report
            let mss = NetperfTest::mss(server(options)?, stop)?.map_or(-1, i64::from);
            let (host, title) = (&options.host, "Maximum\nSegment\nSize (bytes)\n\n");
            match options.banner {
                true => format!("TCP MSS TEST to {host}\n{title}{mss}\n"),
                false => format!("{mss}\n"),
            }
        }
    })
}
