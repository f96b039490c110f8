//! Options that print and exit (`-h`, `-V`, `-O ?`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linkrate_interop::client::NetperfTest;
use linkrate_sys::procstat::ticks_per_second;

use super::NetperfError;
use super::ends::Ends;
use super::options::{
    Options, Question, SELECTORS, TEST_WITH_VALUE, TEST_WITHOUT_VALUE, WITH_VALUE, WITHOUT_VALUE,
};
use super::selectors::uuid;

/// The answer as netperf prints it.
pub(super) fn answer(
    options: &Options,
    question: Question,
    stop: &Arc<AtomicBool>,
) -> Result<String, NetperfError> {
    let server = || Ends::of(options).map(|ends| ends.server);
    Ok(match question {
        Question::Help => format!(
            "Usage: netperf [options] -- [options of one test]\n\n{}\nbehind --:\n{}\n\
             linkrate netperf --help says what they do\n",
            letters(WITHOUT_VALUE, WITH_VALUE),
            letters(TEST_WITHOUT_VALUE, &format!("{TEST_WITH_VALUE}{SELECTORS}")),
        ),
        // netperf ends none of these with a new line
        Question::Uuid => uuid(options).unwrap_or_default(),
        Question::CpuRate { far: false } => ticks_per_second().to_string(),
        Question::CpuRate { far: true } => {
            let passphrase = options.passphrase.as_deref();
            NetperfTest::cpu_rate(server()?, passphrase, stop)?.to_string()
        }
        Question::Version => {
            format!("Netperf version 2.7.1 (linkrate {})\n", env!("CARGO_PKG_VERSION"))
        }
        Question::Mss => {
            // -1 where the kernel does not report
            let mss = NetperfTest::mss(server()?, stop)?.map_or(-1, i64::from);
            let (host, title) = (&options.host, "Maximum\nSegment\nSize (bytes)\n\n");
            match options.banner {
                true => format!("TCP MSS TEST to {host}\n{title}{mss}\n"),
                false => format!("{mss}\n"),
            }
        }
    })
}

/// Options on two lines, those with a value on the second one.
fn letters(without: &str, with: &str) -> String {
    let line = |letters: &str, value: &str| {
        letters.chars().map(|letter| format!(" -{letter}{value}")).collect::<String>()
    };
    format!("{}\n{}", line(without, ""), line(with, " VALUE"))
}
