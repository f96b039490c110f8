//! Known work, added to one part of a host at a time: the trace of what ran must show it there, and nowhere else.

mod bed;

use crate::common::run_inside_with;
use crate::skip::skip;
use linkrate_sys::host::Privilege;
use linkrate_sys::sched;

#[test]
fn known_work_is_in_its_own_part_alone() {
    run_inside("known_work::inside::known_work_is_in_its_own_part_alone");
}

#[test]
#[ignore = "exhaustive: ten seconds alone on the machine"]
fn call_chains_find_the_parts_for_as_long_as_the_trace() {
    run_inside("known_work::inside::call_chains_find_the_parts_for_as_long_as_the_trace");
}

fn run_inside(name: &str) {
    if !sched::may_place_kernel_threads() {
        return skip("threads of the kernel cannot be placed here");
    }
    run_inside_with(name, Privilege::Root);
}

mod inside {
    use std::time::{Duration, Instant};

    use linkrate_sys::kallsyms::KernelSymbols;
    use linkrate_sys::perf::CpuSampler;

    use super::bed::{Bed, Load, Measured, NAMES, Parts};
    use crate::common::in_a_host;
    use crate::skip::skip;

    /// Work that is added to each packet, ns, and how much of it a measurement has.
    const SIZES: [u64; 3] = [10_000, 50_000, 100_000];
    const KNOWN_NS: u64 = 40_000_000;

    /// Packets of a batch. At half CPU each batch begins with cold caches, the colder the longer the one before it was.
    const PACKETS: usize = 64;

    /// Work that each part has anyway, ns a packet: code that runs after other work finds the caches otherwise than alone.
    const BASE_NS: u64 = 5_000;

    /// Pairs of measurements with and without more work, of which the median counts, and the most that are made: in some, a
    /// hypervisor or another program takes time of the CPU, and where they scatter more are needed.
    const PAIRS: usize = 7;
    const MAX_PAIRS: usize = 21;

    /// A test that takes longer is on a machine that is too busy.
    const LIMIT: Duration = Duration::from_secs(40);

    /// The share of other programs from which on a measurement does not count: what they cause moves too.
    const OTHERS: f64 = 0.05;

    /// How far a part may be from what it should have moved by, per cent of the known work.
    const BOUND: f64 = 3.0;

    #[test]
    #[ignore = "runs in a host"]
    fn known_work_is_in_its_own_part_alone() {
        if !in_a_host() {
            return;
        }
        let bed = or_skip!(Bed::new());
        let begun = Instant::now();
        for is_full in [false, true] {
            let filler = is_full.then(|| bed.fill());
            for (added_ns, part) in SIZES.iter().flat_map(|ns| (0..3).map(move |part| (*ns, part)))
            {
                let mut added = [BASE_NS; 3];
                added[part] += added_ns;
                let batches = (KNOWN_NS / added_ns) as usize / PACKETS;
                let load = Load { batches, packets: PACKETS, full: filler.as_ref() };
                let mut off: [Vec<f64>; NAMES.len()] = Default::default();
                let mut idle = Vec::new();
                for pair in 0..MAX_PAIRS {
                    if begun.elapsed() > LIMIT {
                        break;
                    }
                    let measure = |work| bed.measure(work, load);
                    let both = if pair % 2 == 0 {
                        measure([BASE_NS; 3]).zip(measure(added))
                    } else {
                        let with = measure(added);
                        measure([BASE_NS; 3]).zip(with)
                    };
                    let Some((without, with)) = both else { continue };
                    if without.programs.max(with.programs) > OTHERS {
                        continue;
                    }
                    let more = |of: fn(&Measured) -> Parts, part: usize| {
                        of(&with)[part] - of(&without)[part]
                    };
                    let known = more(|one| one.spun, part);
                    for (of, all) in off.iter_mut().enumerate() {
                        let beside = more(|one| one.parts, of) - more(|one| one.spun, of);
                        all.push(beside * 100.0 / known);
                    }
                    idle.extend([without.idle, with.idle]);
                    if off[0].len() >= PAIRS && (all_right(&mut off) || any_wrong(&mut off)) {
                        break;
                    }
                }
                if off[0].len() < PAIRS {
                    return skip("others took time of the CPU");
                }
                let case = format!("{added_ns} ns more for the {}, full {is_full}", NAMES[part]);
                let idle = median(&mut idle);
                assert!(is_full || (0.4..0.6).contains(&idle), "{case}: idle for {idle}");
                let medians = off.each_mut().map(|all| median(all));
                println!("{case}: {medians:+.2?} %");
                if !all_right(&mut off) && !any_wrong(&mut off) {
                    return skip(format!("{case}: pairs scatter too much: {off:.1?} %"));
                }
                assert!(all_right(&mut off), "{case}, of {NAMES:?}: {off:.2?} %");
            }
        }
    }

    /// Whether each part has moved by what it should.
    fn all_right(off: &mut [Vec<f64>]) -> bool {
        off.iter_mut().all(|all| median(all).abs() <= BOUND)
    }

    /// Whether some part has not, by more than its pairs scatter: the median of such pairs lies between two of them in at
    /// least 97 % of cases (order statistics).
    fn any_wrong(off: &mut [Vec<f64>]) -> bool {
        off.iter_mut().any(|all| {
            all.sort_by(f64::total_cmp);
            let n = all.len() as f64;
            let outer = (n / 2.0 - 1.3 * n.sqrt()).max(0.0) as usize;
            all[outer] > BOUND || all[all.len() - 1 - outer] < -BOUND
        })
    }

    fn median(values: &mut [f64]) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// Functions of the kernel that show the part they belong to, by the beginning of their names; `None`: none of the three.
    const FUNCTIONS: [(&str, Option<usize>); 9] = [
        ("handle_softirqs", None),
        ("__do_softirq", None),
        ("tun_get_user", Some(0)),
        ("tun_chr_write_iter", Some(0)),
        ("do_writev", Some(0)),
        ("__netif_receive_skb", Some(1)),
        ("napi_threaded_poll", Some(1)),
        ("__napi_poll", Some(1)),
        ("__x64_sys_recvfrom", Some(2)),
    ];

    /// What each part has by the trace, and by another way: in which functions a timer finds the CPU.
    #[test]
    #[ignore = "runs in a host"]
    fn call_chains_find_the_parts_for_as_long_as_the_trace() {
        /// The period is no part of that of anything here.
        const PERIOD_NS: u64 = 97_000;
        const FRAMES: u16 = 48;
        const MEASUREMENTS: usize = 32;
        /// Large: what a thread does until it gives up the CPU, with interrupts off, is sampled in the next one.
        const PACKETS: usize = 128;
        const BATCHES: usize = 125;
        /// Outside of the kernel the thread alone shows the part: no more work there.
        const WORK_NS: [u64; 3] = [0, 1_000, 0];
        if !in_a_host() {
            return;
        }
        let bed = or_skip!(Bed::new());
        let sampler = CpuSampler::with_chains(bed.cpu, PERIOD_NS, 1_000_000_000, FRAMES);
        let (mut sampler, symbols) = (or_skip!(sampler), or_skip!(KernelSymbols::read()));
        let of_frame = |frame: &u64| {
            let name = symbols.name_of(*frame)?;
            FUNCTIONS.iter().find(|(begins, _)| name.starts_with(begins)).map(|(_, part)| *part)
        };
        let begun = Instant::now();
        for is_full in [false, true] {
            let filler = is_full.then(|| bed.fill());
            let mut traced = [0.0; 3];
            // by their functions, and by their threads where these show no part
            let (mut by_chain, mut by_thread) = ([0.0; 3], [0.0; 3]);
            let mut found = 0;
            let load = Load { batches: BATCHES, packets: PACKETS, full: filler.as_ref() };
            for _ in 0..MEASUREMENTS {
                if begun.elapsed() > LIMIT {
                    break;
                }
                sampler.start().unwrap();
                let measured = bed.measure(WORK_NS, load);
                sampler.stop().unwrap();
                let mut chains = [[0.0; 3]; 2];
                let drained =
                    sampler.drain_chains(|sample, chain| match chain.iter().find_map(of_frame) {
                        Some(Some(part)) => chains[0][part] += 1.0,
                        Some(None) => {}
                        None => {
                            let of = |thread: &u32| *thread == sample.thread as u32;
                            if let Some(part) = bed.threads().iter().position(of) {
                                chains[1][part] += 1.0;
                            }
                        }
                    });
                assert_eq!(drained.unwrap().lost, 0);
                let Some(measured) = measured else { continue };
                found += 1;
                for part in 0..3 {
                    traced[part] += measured.parts[part];
                    by_chain[part] += chains[0][part];
                    by_thread[part] += chains[1][part];
                }
            }
            if found < MEASUREMENTS / 2 {
                return skip("others took time of the CPU");
            }
            let sum = |of: &[f64; 3]| of.iter().sum::<f64>();
            // that of a sample, of which a part has no interrupt that is on top of it, as that of the timer
            let each_ns = sum(&traced) / (sum(&by_chain) + sum(&by_thread));
            for part in 0..3 {
                let samples = by_chain[part] + by_thread[part];
                let off = samples * each_ns / traced[part] - 1.0;
                let case = format!("{}, full {is_full}", NAMES[part]);
                println!(
                    "{case}: {:+.2} %, {} samples by chains and {} by threads",
                    off * 100.0,
                    by_chain[part],
                    by_thread[part]
                );
                assert!(samples > 1000.0 && by_chain[part] > samples / 3.0, "{case}");
                assert!(off.abs() <= 0.05 + 3.0 / samples.sqrt(), "{case}: {off}");
            }
            // and they are all there, with the interrupts
            let whole = each_ns / PERIOD_NS as f64;
            assert!((0.8..1.05).contains(&whole), "full {is_full}: {whole}");
        }
    }
}
