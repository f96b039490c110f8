//! What flowed in each interval of a measurement, from the reports of both ends.

use linkrate_model::intervals::Interval;
use linkrate_protocol::{IntervalReport, MeasurementReport, PartReport};

use crate::peer::PeerMeasurement;

/// The intervals of the system under test, with what the clients counted in theirs.
///
/// Each agent reads its counters when its thread gets the CPU, so intervals of the same number differ by some
/// 0.1 ms. What a client counted is scaled to the length that the interval has on the system under test.
pub fn of_reports(sut: &MeasurementReport, clients: &[PeerMeasurement]) -> Vec<Interval> {
    let known: Vec<&MeasurementReport> =
        clients.iter().filter_map(PeerMeasurement::everything).collect();
    let all_known = known.len() == clients.len();
    let lengths = |of: &[IntervalReport], number: usize| {
        let begin_ns =
            number.checked_sub(1).and_then(|before| of.get(before)).map_or(0, |one| one.end_ns);
        of.get(number).map(|one| one.end_ns.saturating_sub(begin_ns))
    };
    let of_clients = |number: usize, count: fn(&PartReport) -> u64| -> u64 {
        let length = lengths(&sut.intervals, number).unwrap_or(0) as f64;
        known.iter().fold(0, |sum: u64, client| {
            let own = lengths(&client.intervals, number).filter(|own| *own > 0);
            let Some((own, interval)) = own.zip(client.intervals.get(number)) else { return sum };
            sum.saturating_add((count(&interval.moved) as f64 * length / own as f64).round() as u64)
        })
    };
    let arrived: u64 = clients.iter().map(|client| client.traffic().received_bytes).sum();
    // of datagrams, a part of what was sent
    let arrived = if sut.sent_bytes > 0 { arrived as f64 / sut.sent_bytes as f64 } else { 1.0 };
    let of_sut = sut.intervals.iter().enumerate();
    of_sut
        .map(|(number, interval)| Interval {
            end_ns: interval.end_ns,
            // third-party programs tell nothing of single intervals
            transmit_bytes: match all_known {
                true => of_clients(number, |moved| moved.received_bytes),
                false => (interval.moved.sent_bytes as f64 * arrived).round() as u64,
            },
            receive_bytes: interval.moved.received_bytes,
            transactions: interval
                .moved
                .transactions
                .saturating_add(of_clients(number, |moved| moved.transactions)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::tests::interval;
    use crate::peer::TrafficReport;

    fn with(intervals: &[(u64, u64, u64, u64)]) -> MeasurementReport {
        let of = intervals.iter().map(|&(end_ns, sent_bytes, received_bytes, transactions)| {
            let moved = PartReport { sent_bytes, received_bytes, transactions, timeouts: 0 };
            IntervalReport { end_ns, moved }
        });
        MeasurementReport { intervals: of.collect(), ..interval(0, 0) }
    }

    #[test]
    fn what_a_client_counts_is_scaled_to_the_interval_of_the_system_under_test() {
        let sut = with(&[(100, 1000, 5, 0), (200, 1000, 5, 0)]);
        let clients = [
            PeerMeasurement::from(with(&[(50, 0, 400, 8), (150, 0, 900, 7)])),
            PeerMeasurement::from(with(&[(100, 0, 30, 0)])),
        ];
        let found = of_reports(&sut, &clients);
        let figures = found.iter().map(|one| (one.end_ns, one.transmit_bytes, one.transactions));
        assert_eq!(figures.collect::<Vec<_>>(), [(100, 830, 16), (200, 900, 7)]);
        assert_eq!(found[1].receive_bytes, 5);
    }

    #[test]
    fn with_a_program_as_peer_the_sender_counts() {
        let sut = MeasurementReport { sent_bytes: 1000, ..with(&[(100, 1000, 5, 9)]) };
        let clients = [PeerMeasurement::Traffic(TrafficReport::of_programs(&sut, &[]))];
        let found = of_reports(&sut, &clients);
        assert_eq!((found[0].transmit_bytes, found[0].transactions), (1000, 9));
    }
}
