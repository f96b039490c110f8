//! What all sessions add up to, for a program that asks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use linkrate_interop::serve::{Ending, InUse, SessionReport};
use linkrate_report::openmetrics::{Exposition, Labels, label};

/// Sessions that have ended, by program.
#[derive(Debug)]
pub struct Tally(Mutex<BTreeMap<&'static str, Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// In the order of [`Ending::WORDS`].
    ended: [u64; Ending::WORDS.len()],
    received_bytes: u64,
    sent_bytes: u64,
}

impl Tally {
    /// Of these programs, each of which has its figures from the beginning.
    pub fn of(programs: impl Iterator<Item = &'static str>) -> Self {
        Self(Mutex::new(programs.map(|program| (program, Counts::default())).collect()))
    }

    /// Adds a session that has ended, and those for which its report stands.
    pub fn add(&self, session: &SessionReport) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = all.entry(session.program).or_default();
        let word = session.ending.word();
        let at = Ending::WORDS.iter().position(|other| *other == word);
        counts.ended[at.unwrap_or_default()] += 1 + session.others;
        counts.received_bytes = counts.received_bytes.saturating_add(session.received_bytes);
        counts.sent_bytes = counts.sent_bytes.saturating_add(session.sent_bytes);
    }

    /// All figures as OpenMetrics text, beside what tests have now.
    pub fn text(&self, now: InUse) -> String {
        let mut page = Exposition::default();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (program, counts) in all.iter() {
            let of = || label("program", *program);
            for (word, count) in Ending::WORDS.into_iter().zip(counts.ended) {
                let labels = vec![of(), label("ended", word)];
                let help = "Sessions that have ended, by how";
                page.counter("linkrate_serve_sessions", "", help, labels, count);
            }
            let help = "Payload received in sessions that have ended";
            let received = counts.received_bytes;
            page.counter("linkrate_serve_received", "bytes", help, vec![of()], received);
            let help = "Payload sent in sessions that have ended";
            page.counter("linkrate_serve_sent", "bytes", help, vec![of()], counts.sent_bytes);
        }
        let figures = [
            ("linkrate_serve_tests", "", "Tests that run", now.tests),
            ("linkrate_serve_memory", "bytes", "Memory that tests have", now.memory),
            ("linkrate_serve_memory_limit", "bytes", "Memory for all tests", now.memory_limit),
            ("linkrate_serve_open_files", "", "Open files that tests have", now.files),
            ("linkrate_serve_open_files_limit", "", "Open files for all tests", now.files_limit),
        ];
        for (name, unit, help, value) in figures {
            page.gauge(name, unit, help, Labels::new(), value as f64);
        }
        page.text()
    }
}
