//! Times of calls as netperf's `-v 2` prints them where it is built with histograms.

use std::fmt::Write;

use hdrhistogram::Histogram;
use linkrate_interop::netperf::Shape;

use super::options::Options;

/// Rows, each of ten of its units.
const ROWS: [&str; 8] = [
    "UNIT_USEC",
    "TEN_USEC",
    "HUNDRED_USEC",
    "UNIT_MSEC",
    "TEN_MSEC",
    "HUNDRED_MSEC",
    "UNIT_SEC",
    "TEN_SEC",
];
/// Buckets of a row. netperf prints the sums of ten each; PerfKitBenchmarker has it print them all, and takes any number.
const BUCKETS: usize = 100;

/// The histogram of times in ns.
pub(super) fn text(options: &Options, times: &Histogram<u64>) -> String {
    let what = match options.test.shape {
        Shape::Stream => "send",
        Shape::Maerts => "recv",
        Shape::RequestResponse => "request/response",
        Shape::ConnectRequestResponse => "connect/request/response/close",
        Shape::Connect => "connect/close",
    };
    let mut rows = [[0_u64; BUCKETS]; ROWS.len()];
    let mut beyond = 0;
    for time in times.iter_recorded() {
        match place(time.value_iterated_to() / 1000) {
            Some((row, bucket)) => rows[row][bucket] += time.count_at_value(),
            None => beyond += time.count_at_value(),
        }
    }
    let mut text = format!("\nHistogram of {what} times\n");
    for (name, row) in ROWS.iter().zip(rows) {
        let _ = write!(text, "{name:<14}");
        for count in row {
            let _ = write!(text, ": {count:>4}");
        }
        text += "\n";
    }
    text + &format!(">100_SECS: {beyond}\nHIST_TOTAL:      {}\n", times.len())
}

/// The row and the bucket of a time in µs; `None` from 100 s on.
fn place(time: u64) -> Option<(usize, usize)> {
    let mut unit = 1;
    for row in 0..ROWS.len() {
        if time < 10 * unit {
            return Some((row, (time * (BUCKETS as u64 / 10) / unit) as usize));
        }
        unit *= 10;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_bucket_that_perfkit_reads_it_from() {
        for (time, row, bucket) in
            [(0, 0, 0), (9, 0, 90), (10, 1, 10), (99, 1, 99), (1234, 3, 12), (99_999_999, 7, 99)]
        {
            assert_eq!(place(time), Some((row, bucket)), "{time} us");
            // as it computes the time of a bucket
            let read = bucket as f64 * 10_f64.powi(row as i32 + 1) / BUCKETS as f64;
            let time = time as f64;
            assert!(read <= time && time - read <= read / 10.0 + 1.0, "{time} {read}");
        }
        assert_eq!(place(100_000_000), None);
    }

    #[test]
    fn rows_have_all_buckets() {
        let mut times = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        times.record_n(43_000, 7).unwrap();
        times.record_n(55_000_000_000, 2).unwrap();
        let text = text(&Options::default(), &times);
        assert!(text.starts_with("\nHistogram of send times\nUNIT_USEC     :    0"), "{text}");
        let row = text.lines().find(|line| line.starts_with("TEN_USEC")).unwrap();
        let counts: Vec<u64> =
            row.split(':').skip(1).map(|count| count.trim().parse().unwrap()).collect();
        assert_eq!((counts.len(), counts[43]), (100, 7));
        assert!(text.ends_with(">100_SECS: 0\nHIST_TOTAL:      9\n"), "{text}");
    }
}
