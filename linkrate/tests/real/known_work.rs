//! Known work, added to one thread of a lab at a time: it is in that thread's part of service demand, and nowhere else.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::time::Duration;

use crate::common::lab::{lab_for, run_spec};
use crate::common::skip;
use linkrate_lab::Lab;
use linkrate_model::spec::Adapter;
use linkrate_model::workload::Protocol;
use linkrate_model::{InterfaceKnobs, RunSpec, Task, TestbedSpec, Workload, model};
use linkrate_study::executor::Executor;
use linkrate_study::study::Purpose;
use linkrate_sys::softirq_spin::{Spinner, ThreadSpin};

/// Work for each transaction, ns, and how far each part may be from that, per cent of it, beside what the rounds scatter.
const WORK_NS: u32 = 100_000;
const BOUND: f64 = 3.0;

const ROUNDS: usize = 7;

/// The parts, in the order of [`Figures`]: the first three are given work.
const NAMES: [&str; 5] = ["driver", "NAPI", "application", "all others", "service demand"];

/// µs a transaction of each part, and of all.
type Figures = [f64; 5];

/// Threads below a directory whose names begin with this.
fn threads(directory: &str, name: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir(directory).expect("procfs");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_it = |id: &u32| {
        fs::read_to_string(format!("{directory}/{id}/comm")).is_ok_and(|own| own.starts_with(name))
    };
    ids.filter(is_it).collect()
}

fn figures(lab: &mut Lab, spec: &RunSpec) -> Option<Figures> {
    let run = lab.run(spec).unwrap_or_else(|failure| panic!("{failure}"));
    let parts = run.sut_cpu.parts?;
    let transactions = run.traffic.transactions as f64;
    let of = |ns: u64| ns as f64 / 1000.0 / transactions;
    let [driver, napi, application] =
        [parts.driver_ns, parts.napi_ns, parts.application_ns].map(of);
    let others = of(parts.own().iter().sum()) - driver - napi - application;
    Some([driver, napi, application, others, run.service_demand_us_per_transaction()?])
}

#[test]
#[ignore = "exhaustive: half a minute alone on the machine"]
fn known_work_of_a_thread_is_in_its_part_of_service_demand_alone() {
    needs!(root);
    let before = threads("/proc", "napi/");
    let mut lab = lab_for(
        Purpose::Functions,
        &TestbedSpec {
            adapter: Adapter::Model(Box::new(model::find("gigabit").expect("a model"))),
            ..TestbedSpec::default()
        },
        None,
    );
    let napi = threads("/proc", "napi/").difference(&before).copied().next();
    let Some(napi) = napi else { return skip("there are no NAPI threads") };
    let driver = threads("/proc/self/task", "drv ").first().copied().expect("a driver");
    let sut = lab.testbed().expect("a testbed").sut.pid();
    // each is passed once in a transaction
    let places: [(&CStr, Spinner); 3] = [
        (c"consume_skb", Spinner::Thread(driver)),
        (c"netif_receive_skb", Spinner::Thread(napi)),
        (c"net_dev_queue", Spinner::Process(sut)),
    ];
    let workload = Workload { kind: Protocol::UdpRequestResponse, ..Workload::default() };
    let spec = RunSpec {
        warm_up: Duration::from_millis(200),
        ..run_spec(Task::Workload(workload), InterfaceKnobs::default(), Duration::from_millis(600))
    };
    // of each part with more work, how far the figures are from what they should have moved by, per cent
    let mut off: [[Vec<f64>; NAMES.len()]; 3] = Default::default();
    for _ in 0..ROUNDS {
        let Some(without) = figures(&mut lab, &spec) else {
            return skip("what runs cannot be traced here");
        };
        for (part, (tracepoint, spinner)) in places.iter().enumerate() {
            let spin = ThreadSpin::attach(tracepoint, *spinner, WORK_NS).expect("a program");
            let with = figures(&mut lab, &spec).expect("a trace");
            let spun = spin.spun().expect("sums");
            let known = spun.ns as f64 / spun.datagrams as f64 / 1000.0;
            assert!(spun.datagrams > 0, "{} passes no such point", NAMES[part]);
            for (of, all) in off[part].iter_mut().enumerate() {
                let should = if of == part || of == NAMES.len() - 1 { known } else { 0.0 };
                all.push((with[of] - without[of] - should) * 100.0 / known);
            }
        }
    }
    for (part, off) in off.iter_mut().enumerate() {
        off.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
        // the second and the last but one contain the median of all rounds with a probability of 88 %
        let is_right = off.iter().all(|all| all[1] <= BOUND && all[ROUNDS - 2] >= -BOUND);
        assert!(is_right, "more for the {}, of {NAMES:?}: {off:.2?} %", NAMES[part]);
    }
}
