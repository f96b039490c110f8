//! The distribution of what random flows get of an aggregate.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Aggregate, AggregateError, settled};
use crate::balance::{Balance, Balancer, ENTRIES};
use crate::control::{frame, lan_monitor};
use crate::frame::MacAddress;

/// The most flows.
pub const SAMPLED_FLOWS: usize = 4096;

/// Samples, if the flows are few. Fewer are drawn where that many would take seconds.
const MAX_SAMPLES: usize = 2000;
const MIN_SAMPLES: usize = 100;
/// About how many frames are put through balancers for all samples.
const FRAMES: usize = 4_000_000;
/// What random flows get: equally probable entries, independent of each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Random {
    /// Ports in use: exact.
    pub busy: Distribution,
    /// The rate of the slowest flow, as a share of the limit of one port.
    pub slowest: Distribution,
    /// How many samples `slowest` comes from; `None` if it is exact.
    pub samples: Option<usize>,
}

/// A distribution in three figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distribution {
    /// The mean.
    pub mean: f64,
    /// The 5 % quantile: 95 % of the cases are not below.
    pub p5: f64,
    /// The 95 % quantile.
    pub p95: f64,
}

impl Distribution {
    const fn certain(value: f64) -> Self {
        Self { mean: value, p5: value, p95: value }
    }

    /// Of values in ascending order, each with its probability. `None` without any.
    fn of(values: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Self> {
        let quantile = |share: f64| {
            let mut below = 0.0;
            let mut last = None;
            for (value, probability) in values.clone() {
                below += probability;
                last = Some(value);
                if below >= share {
                    break;
                }
            }
            last
        };
        let mean = values.clone().map(|(value, probability)| value * probability).sum();
        Some(Self { mean, p5: quantile(0.05)?, p95: quantile(0.95)? })
    }

    /// The same with each value times `factor`.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, p5: self.p5 * factor, p95: self.p95 * factor }
    }
}

impl Aggregate {
    /// What `flows` random flows get. Fails if ports, queues or flows are out of range.
    pub fn random(&self, flows: usize, seed: u64) -> Result<Random, AggregateError> {
        let balancer = self.check(flows)?;
        if self.balance == Balance::RoundRobin {
            let ports = self.ports as f64;
            let slowest = Distribution::certain(ports / flows as f64);
            return Ok(Random { busy: Distribution::certain(ports), slowest, samples: None });
        }
        let boxes = if self.balance == Balance::Cpu { self.queues.into() } else { ENTRIES };
        let busy = busy_ports(flows, boxes, self.ports);
        if flows == 1 || self.ports == 1 {
            let slowest = Distribution::certain(1.0 / flows as f64);
            return Ok(Random { busy, slowest, samples: None });
        }
        // the entry of a frame without IP is the last byte of its destination, for these two
        let fresh = match self.balance {
            Balance::Adaptive => balancer,
            _ => Balancer::new(Balance::Mac, self.ports, 0)?,
        };
        let (slowest, samples) = sampled(&fresh, flows, boxes, seed);
        Ok(Random { busy, slowest, samples: Some(samples) })
    }
}

/// The number of ports in use, exactly. An entry that is used first takes the next port in turn, and
/// a less loaded one is empty, so it is the number of entries in use, at most the ports.
fn busy_ports(flows: usize, boxes: usize, ports: usize) -> Distribution {
    // the probability of each number of used entries, flow by flow; `used[0]` is for one entry
    let mut used = vec![0.0; boxes.min(flows)];
    used[0] = 1.0;
    for _ in 1..flows {
        for at in (0..used.len()).rev() {
            let again = used[at] * (at + 1) as f64 / boxes as f64;
            let anew = match at.checked_sub(1) {
                Some(before) => used[before] * (boxes - at) as f64 / boxes as f64,
                None => 0.0,
            };
            used[at] = again + anew;
        }
    }
    let busy =
        (1..).zip(&used).map(|(entries, share): (usize, _)| (entries.min(ports) as f64, *share));
    Distribution::of(busy).unwrap_or(Distribution::certain(0.0))
}

/// The share of the slowest flow in samples, in which copies of `fresh` place the flows.
fn sampled(fresh: &Balancer, flows: usize, boxes: usize, seed: u64) -> (Distribution, usize) {
    let rounds = super::rounds(fresh) as usize;
    let samples = (FRAMES / (flows * rounds)).clamp(MIN_SAMPLES, MAX_SAMPLES);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let heads: Vec<Vec<u8>> = (0..=u8::MAX).map(head).collect();
    let mut slowest: Vec<f64> = (0..samples)
        .map(|_| {
            let draw = || &heads[random.next_u64() as usize % boxes];
            let heads: Vec<&Vec<u8>> = std::iter::repeat_with(draw).take(flows).collect();
            let mut counts = vec![0usize; fresh.shares().len()];
            for port in settled(&mut fresh.clone(), &heads) {
                counts[port.at()] += 1;
            }
            1.0 / counts.into_iter().max().unwrap_or(1).max(1) as f64
        })
        .collect();
    slowest.sort_by(f64::total_cmp);
    let share = 1.0 / samples as f64;
    let values = slowest.into_iter().map(|value| (value, share));
    (Distribution::of(values).unwrap_or(Distribution::certain(0.0)), samples)
}

/// A frame with this entry: without IP, it is the last byte of the destination.
fn head(entry: u8) -> Vec<u8> {
    let destination = MacAddress([2, 0, 0, 0, 0, entry]);
    frame(destination, MacAddress::UNKNOWN, lan_monitor::ETHER_TYPE, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aggregate(ports: usize, balance: Balance) -> Aggregate {
        Aggregate { ports, balance, queues: 4 }
    }

    /// Two flows meet in one of 256 entries with probability 1/256, and use two ports otherwise.
    #[test]
    fn few_flows_as_computed_by_hand() {
        let random = aggregate(4, Balance::Port).random(2, 1).expect("flows");
        assert_eq!(random.busy, Distribution { mean: 2.0 - 1.0 / 256.0, p5: 2.0, p95: 2.0 });
        let random = aggregate(4, Balance::Port).random(3, 1).expect("flows");
        let (one, three) = (1.0 / 65536.0, 255.0 * 254.0 / 65536.0);
        let mean = one + 3.0 * three + 2.0 * (1.0 - one - three);
        assert!((random.busy.mean - mean).abs() < 1e-12, "{random:?}");
        // of four queues, two flows take one with probability 1/4
        let random = aggregate(4, Balance::Cpu).random(2, 1).expect("flows");
        assert_eq!(random.busy, Distribution { mean: 1.75, p5: 1.0, p95: 2.0 });
        assert!((random.slowest.mean - 0.875).abs() < 0.02, "{random:?}");
    }

    #[test]
    fn one_flow_and_one_port_and_round_robin_are_certain() {
        for balance in Balance::ALL.into_iter().filter(|balance| !balance.reorders()) {
            let one = aggregate(8, balance).random(1, 1).expect("a flow");
            assert_eq!((one.busy.mean, one.slowest.p5, one.samples), (1.0, 1.0, None));
            let one = aggregate(1, balance).random(5, 1).expect("flows");
            assert_eq!((one.busy, one.slowest.mean), (Distribution::certain(1.0), 0.2));
        }
        let all = aggregate(8, Balance::RoundRobin).random(2, 1).expect("flows");
        assert_eq!((all.busy.p5, all.slowest.p95, all.samples), (8.0, 4.0, None));
    }

    #[test]
    fn the_balancer_agrees_with_the_exact_distribution() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for (flows, ports) in [(8, 8), (20, 8), (40, 32)] {
            let exact = aggregate(ports, Balance::Mac).random(flows, 1).expect("flows").busy;
            let samples = 4000;
            let mut total = 0;
            for _ in 0..samples {
                let mut balancer = Balancer::new(Balance::Mac, ports, 0).expect("ports");
                for _ in 0..flows {
                    let head = head(random.next_u64() as u8);
                    balancer.choose(1, &head, 60, 0).expect("a port");
                }
                total += balancer.shares().iter().filter(|share| share.frames > 0).count();
            }
            let mean = total as f64 / f64::from(samples);
            assert!((mean - exact.mean).abs() < 0.05, "{flows} {ports}: {mean} {exact:?}");
        }
    }

    /// More flows fill the ports, adaptive balancing evens them out, and a seed gives one result.
    #[test]
    fn balancing_decides_the_slowest_flow() {
        let random = |balance, flows| aggregate(8, balance).random(flows, 3).expect("flows");
        let by_port = random(Balance::Port, 64);
        let adaptive = random(Balance::Adaptive, 64);
        assert_eq!((by_port.busy.p5, adaptive.busy.p5), (8.0, 8.0));
        assert!(adaptive.slowest.mean > by_port.slowest.mean, "{adaptive:?} {by_port:?}");
        assert!(adaptive.slowest.p95 <= 1.0 / 8.0, "{adaptive:?}");
        assert_eq!(random(Balance::Port, 64), by_port);
        let few = random(Balance::Port, 8);
        assert!(few.busy.mean > 7.8 && few.busy.mean < 7.95, "{few:?}");
        assert_eq!((few.busy.p5, few.slowest.p5), (7.0, 0.5), "{few:?}");
    }

    #[test]
    fn the_largest_case_takes_no_longer_than_others() {
        let largest = Aggregate { ports: 64, balance: Balance::Adaptive, queues: 1 };
        let random = largest.random(SAMPLED_FLOWS, 1).expect("flows");
        assert_eq!((random.busy.p5, random.samples), (64.0, Some(MIN_SAMPLES)));
        let error = largest.random(SAMPLED_FLOWS + 1, 1).expect_err("refused").to_string();
        assert_eq!(error, "4097 flows, expected 1 to 4096");
        let error = Aggregate { queues: 0, ..largest }.random(1, 1).expect_err("refused");
        assert_eq!(error.to_string(), "0 queues, expected 1 to 256");
    }
}
