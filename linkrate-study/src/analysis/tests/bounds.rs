//! Intervals of what can be neither negative nor more than links, buses and CPUs allow.

use linkrate_model::cpu_use::CpuParts;
use linkrate_model::measurement::PartMeasured;

use super::*;

/// Blocks of a study of one cell whose runs are changed by how much scatters: 1 and 100 in turn, in per cent of the most.
fn scattered(text: &str, change: impl Fn(&mut linkrate_model::Measurement, u64)) -> StudyResults {
    let study = crate::file::parse("t", "t", text).unwrap_or_else(|errors| panic!("{errors}"));
    let mut runs = Vec::new();
    for block in 0..4 {
        let percent = if block % 2 == 0 { 1 } else { 100 };
        let mut push = |cell, mut measured| {
            change(&mut measured, percent);
            let spec = study.cells[0].spec.clone();
            runs.push(fixture::stored_run(runs.len() as u32, block, cell, spec, measured));
        };
        push(None, fixture::idle(percent as f64 / 100.0));
        push(Some(0), fixture::stream(9e6 * percent as f64, percent as f64 / 100.0));
    }
    analyse(&stored(study, runs))
}

fn ends(interval: Interval) -> [f64; 2] {
    [interval.low.expect("an end"), interval.high.expect("an end")]
}

const GIGABIT: &str = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n";

#[test]
fn no_interval_is_negative_or_beyond_its_limit() {
    let text = format!(
        "{GIGABIT}[factors]\ngro = [true]\n[[published]]\nmeasure = \"throughput\"\n\
         at = {{ gro = true }}\nvalue = \"900 Mb/s\"\n"
    );
    let results = scattered(&text, |measured, percent| {
        measured.sut_cpu.parts = Some(CpuParts {
            application_ns: percent * 10_000_000,
            napi_ns: percent * 10_000_000,
            ..CpuParts::default()
        });
    });
    let cell = &results.cells[0];
    let limit = cell.limit.unwrap().interval.mean;
    assert!((limit / 941.48e6 - 1.0).abs() < 1e-4, "{limit}");
    assert_eq!(ends(cell.throughput.unwrap().interval), [0.0, limit]);
    assert_eq!(ends(cell.cpu.unwrap().interval), [0.0, 100.0]);
    assert_eq!(ends(results.background_cpu.unwrap().interval), [0.0, 100.0]);
    assert_eq!(ends(results.published[0].measured.unwrap()), [0.0, limit]);
    let percent = ends(results.published[0].measured_percent_of_limit.unwrap());
    assert!(percent[0] == 0.0 && (percent[1] - 100.0).abs() < 1e-9, "{percent:?}");
    let parts = cell.service_demand_parts.unwrap();
    for part in [parts.application, parts.napi, parts.kernel] {
        assert!(part.low.unwrap() >= 0.0, "{part:?}");
    }
}

#[test]
fn no_workload_of_a_mix_is_faster_than_the_link() {
    let text = format!(
        "{GIGABIT}[factors]\ngro = [true]\n[workload]\nconnections = 2\n[[mix]]\nname = \"bulk\"\n\
         [[mix]]\nname = \"requests\"\nkind = \"request-response\"\n"
    );
    let results = scattered(&text, |measured, percent| {
        let mut traffic = measured.traffic;
        traffic.transmit_bytes *= 2;
        traffic.transactions = percent;
        traffic.transaction_seconds = 2.0;
        let part = PartMeasured { traffic, ..PartMeasured::default() };
        measured.parts = vec![part.clone(), part];
    });
    let cell = &results.cells[0];
    // requests have payload both ways
    let limit = cell.limit.unwrap().interval.mean;
    for (part, most) in cell.mix.iter().zip([limit / 2.0, limit]) {
        assert_eq!(ends(part.throughput.unwrap().interval), [0.0, most], "{}", part.name);
    }
    assert_eq!(ends(cell.mix[1].completed.unwrap().interval)[0], 0.0);
}

/// The bus of a ten-gigabit adapter carries 12.55 Gb/s. One direction may have more than half of it, and no more than
/// the link.
#[test]
fn the_limit_of_a_direction_is_that_of_the_link() {
    let text = "title = \"t\"\n[testbed]\nadapter = \"ten-gigabit\"\n[factors]\ngro = [true]\n\
                [workload]\nmtu = 9000\ndirection = \"bidirectional\"\n";
    let of = |scatter: u64| {
        let results = scattered(text, |measured, percent| {
            let traffic = &mut measured.traffic;
            // in two seconds, 6.35 Gb/s out and 6.2 Gb/s in
            (traffic.transmit_bytes, traffic.receive_bytes) = (1_587_500_000, 1_550_000_000);
            traffic.receive_seconds = 2.0;
            traffic.transmit_bytes += if percent == 1 { scatter } else { 0 };
            traffic.transmit_bytes -= if percent == 1 { 0 } else { scatter };
        });
        let interval = results.cells[0].directions[0].rate.interval;
        assert!((interval.mean / 6.35e9 - 1.0).abs() < 1e-9, "{interval:?}");
        ends(interval)
    };
    let [low, high] = of(10_000_000);
    assert!(high > 6.4e9 && (high - 6.35e9 - (6.35e9 - low)).abs() < 1.0, "{low} to {high}");
    let [_, high] = of(1_500_000_000);
    assert!((high / 9900.42e6 - 1.0).abs() < 1e-4, "{high}");
}
