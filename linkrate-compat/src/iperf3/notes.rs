//! What iperf3 gets wrong or does not report, in lines for stderr.

use linkrate_interop::measured::{End, Interval};

use crate::cpu::HostCpuUse;

/// Intervals that are needed for a range.
const MIN_INTERVALS: usize = 3;

/// The shortest test with a note of the CPUs, s.
const MIN_SECONDS: f64 = 0.5;

/// Collects the intervals of a test.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// Octets in both directions, and seconds.
    intervals: Vec<(u64, f64)>,
}

impl Notes {
    /// Takes an interval; one of the beginning that is left out does not count.
    pub fn take(&mut self, interval: &Interval) {
        if !interval.is_omitted {
            let bytes = interval.streams.iter().map(|stream| stream.bytes).sum();
            self.intervals.push((bytes, interval.end - interval.start));
        }
    }

    /// The lines at the end of a test. `shares_cpus` if the server is on this host.
    #[must_use]
    pub fn lines(&self, end: &End, host: Option<&HostCpuUse>, shares_cpus: bool) -> Vec<String> {
        let mut lines = Vec::new();
        // a meter in steps of 10 ms says nothing of a shorter time
        if let Some(host) = host.filter(|host| host.seconds >= MIN_SECONDS) {
            let bytes = end.streams.iter().map(|stream| match stream.sends {
                true => stream.sent_bytes,
                false => stream.received_bytes,
            });
            let cost = host.us_per_kb(bytes.sum());
            let cost = cost.map(|cost| format!(", {cost:.3} us/KB")).unwrap_or_default();
            lines.push(format!(
                "note: CPUs of this host: {:.0} % of one CPU{cost}; cpu_utilization_percent has {:.0} %, \
                 the client's process only",
                host.percent_of_one(),
                end.own_cpu_percent[0]
            ));
            let total = host.busy_seconds;
            if total > 0.0 && host.uncertainty_seconds > total * 0.05 {
                lines.push(format!(
                    "note: {:.2} of {total:.2} CPU seconds are uncertain, because another machine took the CPUs",
                    host.uncertainty_seconds
                ));
            }
        }
        if shares_cpus {
            lines.push(
                "note: the server is on this host: both ends share its CPUs and its memory, and no \
                 network adapter is measured"
                    .to_owned(),
            );
        }
        lines.extend(self.range());
        lines
    }

    /// Mean and full range of the intervals.
    fn range(&self) -> Option<String> {
        let rates = self.intervals.iter().filter(|(_, seconds)| *seconds > 0.0);
        let rates: Vec<f64> =
            rates.map(|(bytes, seconds)| *bytes as f64 * 8.0 / seconds / 1e6).collect();
        if rates.len() < MIN_INTERVALS {
            return None;
        }
        let count = rates.len();
        let mean = rates.iter().sum::<f64>() / count as f64;
        let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let high = rates.iter().copied().fold(0.0, f64::max);
        Some(format!(
            "note: {count} intervals: mean {mean:.1} Mbit/s, full range {low:.1} to {high:.1} Mbit/s"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_its_range() {
        let mut notes = Notes::default();
        let end = End::default();
        notes.intervals = vec![(125_000, 1.0), (250_000, 1.0)];
        assert!(notes.lines(&end, None, false).is_empty());
        notes.intervals.push((375_000, 1.0));
        let [line] = &notes.lines(&end, None, false)[..] else { panic!("one line") };
        assert_eq!(line, "note: 3 intervals: mean 2.0 Mbit/s, full range 1.0 to 3.0 Mbit/s");
        assert_eq!(notes.lines(&end, None, true).len(), 2);
    }
}
