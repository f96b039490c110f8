//! The limits of one TCP connection on a path of any links: by its window, and by losses.

use std::time::Duration;

use linkrate_model::BitRate;

/// The constant of the response function for a receiver that acknowledges every segment,
/// sqrt(3/2); Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion
/// avoidance algorithm", 1997.
const RESPONSE: f64 = 1.224_744_871_391_589;

/// The highest rate of a connection that may have `window` bytes in flight: one window each round
/// trip. `None` for a round trip of zero, which is no limit.
pub fn window_rate(window: u64, round_trip: Duration) -> Option<BitRate> {
    let seconds = round_trip.as_secs_f64();
    (seconds > 0.0).then(|| BitRate(window as f64 * 8.0 / seconds))
}

/// The bytes in flight on a full path of `rate`: the smallest window that fills it.
pub fn bandwidth_delay(rate: BitRate, round_trip: Duration) -> u64 {
    (rate.0 / 8.0 * round_trip.as_secs_f64()).ceil() as u64
}

/// The rate that a share `loss` of lost segments, each of `segment` bytes of payload, leaves one
/// connection under Reno's congestion control: segment / round trip × sqrt(3/2) / sqrt(loss).
/// cubic reaches more where the round trip is long. `None` without losses or without a round trip.
pub fn loss_rate(segment: u64, round_trip: Duration, loss: f64) -> Option<BitRate> {
    let seconds = round_trip.as_secs_f64();
    let limits = seconds > 0.0 && loss > 0.0 && loss <= 1.0;
    limits.then(|| BitRate(segment as f64 * 8.0 / seconds * RESPONSE / loss.sqrt()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_window_a_round_trip() {
        assert_eq!(window_rate(125_000, MS).unwrap().to_string(), "1.000 Gb/s");
        assert_eq!(window_rate(125_000, Duration::ZERO), None);
        assert_eq!(bandwidth_delay(BitRate(1e10), MS), 1_250_000);
    }

    #[test]
    fn a_thousandth_lost_on_a_lan() {
        let rate = loss_rate(1448, MS, 1e-3).unwrap();
        assert!((rate.0 - 448.6e6).abs() < 1e6, "{rate}");
        assert_eq!(loss_rate(1448, MS, 0.0), None);
    }

    proptest! {
        #[test]
        fn the_least_window_that_fills_a_path_fills_it(
            rate in 1e6..1e12f64,
            micros in 1u64..1_000_000,
        ) {
            let round_trip = Duration::from_micros(micros);
            let window = bandwidth_delay(BitRate(rate), round_trip);
            prop_assert!(window_rate(window, round_trip).unwrap().0 >= rate * (1.0 - 1e-9));
            if window > 1 {
                prop_assert!(window_rate(window - 1, round_trip).unwrap().0 < rate * (1.0 + 1e-9));
            }
        }
    }
}
