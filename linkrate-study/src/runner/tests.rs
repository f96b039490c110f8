//! Tests with a simulated testbed and a clock that only runs move.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use linkrate_model::{Measurement, Task};

use super::*;
use crate::executor::Facts;
use crate::fixture;
use crate::store::PLAN_FILE;
use crate::store::{MemoryStore, Store};

/// A clock that stalls unless someone moves it.
#[derive(Clone, Default)]
struct FakeClock(Rc<Cell<Duration>>);

impl FakeClock {
    fn pass(&self, time: Duration) {
        self.0.set(self.0.get() + time);
    }
}

impl Clock for FakeClock {
    fn elapsed(&self) -> Duration {
        self.0.get()
    }

    fn unix_ms(&self) -> u64 {
        1_795_273_920_000 + self.0.get().as_millis() as u64
    }
}

type Answer = dyn Fn(&RunSpec) -> Result<Measurement, RunFailure>;

/// A testbed on which every run takes one second.
struct FakeTestbed {
    clock: FakeClock,
    answer: Box<Answer>,
    kernel: &'static str,
    runs: u32,
    /// How many runs there were whenever the testbed was given up.
    rebuilt_after: Vec<u32>,
}

impl FakeTestbed {
    fn new(
        clock: &FakeClock,
        answer: impl Fn(&RunSpec) -> Result<Measurement, RunFailure> + 'static,
    ) -> Self {
        Self {
            clock: clock.clone(),
            answer: Box::new(answer),
            kernel: "6.12",
            runs: 0,
            rebuilt_after: Vec::new(),
        }
    }
}

impl Executor for FakeTestbed {
    fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        facts.facts.insert("kernel".to_owned(), self.kernel.to_owned());
        facts
    }

    fn run(&mut self, spec: &RunSpec) -> Result<Measurement, RunFailure> {
        self.clock.pass(Duration::from_secs(1));
        self.runs += 1;
        (self.answer)(spec)
    }

    fn rebuild(&mut self) {
        self.rebuilt_after.push(self.runs);
    }
}

/// Figures that depend on the seed alone and scatter by `noise`.
fn noisy(noise: f64) -> impl Fn(&RunSpec) -> Result<Measurement, RunFailure> {
    move |spec| {
        let shift = (spec.seed % 1000) as f64 / 500.0 - 1.0;
        Ok(match spec.task {
            Task::Idle => fixture::idle(0.01),
            Task::Workload(_) => fixture::stream(1e10 * (1.0 + noise * shift), 0.9),
        })
    }
}

/// Remembers events by a word each.
#[derive(Default)]
struct Words(Vec<String>, Vec<Remaining>);

impl Observer for Words {
    fn event(&mut self, event: &Event<'_>) {
        let (word, remaining) = match event {
            Event::SessionStarted { stored, changed_facts, remaining, .. } => {
                (format!("session {stored} {}", changed_facts.len()), Some(*remaining))
            }
            Event::RunStarted { position, of, .. } => (format!("run {position}/{of}"), None),
            Event::RunEnded { run, remaining, .. } => {
                (format!("ran {}", run.sequence), Some(*remaining))
            }
            Event::BlockEnded { block, cells, remaining, .. } => {
                let runs: Vec<u32> = cells.iter().map(|cell| cell.runs).collect();
                (format!("block {block} {runs:?}"), Some(*remaining))
            }
            Event::SessionEnded { ended } => (format!("ended {}", ended.is_complete()), None),
        };
        self.0.push(word);
        self.1.extend(remaining);
    }
}

fn create(directory: &Path, study: &Study) -> Store {
    let facts = FakeTestbed::new(&FakeClock::default(), noisy(0.0)).facts();
    Store::create(&directory.join("results"), study, facts, 0).unwrap()
}

/// What identifies a run, in the order of execution.
fn slots(store: &Store) -> Vec<(u32, Option<u32>, u64)> {
    store.runs().iter().map(|run| (run.block, run.cell, run.spec.seed)).collect()
}

/// Runs `study` from the start with `answer`; gives the end and the runs.
fn fresh(
    study: &Study,
    answer: impl Fn(&RunSpec) -> Result<Measurement, RunFailure> + 'static,
) -> (Ended, Vec<StoredRun>) {
    let directory = tempfile::tempdir().unwrap();
    let clock = FakeClock::default();
    let mut store = create(directory.path(), study);
    let mut testbed = FakeTestbed::new(&clock, answer);
    let ended = run_study(&mut testbed, &mut store, &clock, &|| false, &mut Silent).unwrap();
    let runs = store.runs().to_vec();
    assert_eq!(Store::read(&directory.path().join("results")).unwrap().ended, Some(ended.clone()));
    (ended, runs)
}

#[test]
fn a_study_that_never_gets_precise_runs_all_its_blocks() {
    let study = fixture::ladder();
    let (ended, runs) = fresh(&study, noisy(0.5));
    assert_eq!(ended, Ended::Rule(StopReason::MaxBlocks { blocks: 6 }));
    assert_eq!(runs.len(), 6 * 4);
    for (block, runs) in (0u32..).zip(runs.chunks(4)) {
        let order = block_order(&study, block);
        for (run, slot) in runs.iter().zip(order) {
            assert_eq!((run.block, run.cell, run.spec.seed), (block, slot.cell, slot.seed));
        }
    }
    let idle = &runs[0].spec;
    assert_eq!((&idle.task, idle.duration), (&Task::Idle, Duration::from_secs(1)));
    assert_eq!(runs[5].started_unix_ms - runs[0].started_unix_ms, 5000);
}

#[test]
fn the_seed_determines_the_order() {
    let mut study = fixture::ladder();
    let of = |study: &Study| {
        let (_, runs) = fresh(study, noisy(0.5));
        runs.iter().map(|run| (run.block, run.cell, run.spec.seed)).collect::<Vec<_>>()
    };
    let first = of(&study);
    assert_eq!(first, of(&study));
    study.method.seed = Some(study.method.seed() + 1);
    assert_ne!(first, of(&study));
}

#[test]
fn a_precise_study_stops_at_the_first_look() {
    let (ended, runs) = fresh(&fixture::ladder(), noisy(0.001));
    assert!(
        matches!(ended, Ended::Rule(StopReason::Precision { blocks: 5, half_width }) if half_width < 0.025),
        "{ended}"
    );
    assert!(ended.is_complete());
    assert_eq!(runs.len(), 5 * 4);
}

#[test]
fn begins_no_block_that_would_end_past_the_budget() {
    // a block takes 4 s: after two, the third would end at 12 s
    let mut study = fixture::ladder();
    study.method.min_blocks = 1;
    study.method.budget = Some(Duration::from_millis(11_999));
    let (ended, runs) = fresh(&study, noisy(0.5));
    assert!(matches!(ended, Ended::Rule(StopReason::Budget { blocks: 2, .. })), "{ended}");
    assert_eq!(runs.len(), 2 * 4);
    study.method.budget = Some(Duration::from_secs(12));
    assert_eq!(fresh(&study, noisy(0.5)).1.len(), 3 * 4);
    // one block is always run
    study.method.budget = Some(Duration::from_secs(1));
    assert_eq!(fresh(&study, noisy(0.5)).1.len(), 4);
}

#[test]
fn interrupted_anywhere_and_resumed_it_makes_the_same_runs() {
    interrupted_anywhere(4, 0.04);
}

#[test]
fn interrupted_anywhere_and_resumed_it_is_precise_after_the_same_block() {
    interrupted_anywhere(12, 0.03);
}

fn interrupted_anywhere(most_blocks: u32, noise: f64) {
    let mut study = fixture::ladder();
    study.method.max_blocks = most_blocks;
    let (uninterrupted, expected) = fresh(&study, noisy(noise));
    if most_blocks > 4 {
        let precise = matches!(uninterrupted, Ended::Rule(StopReason::Precision { .. }));
        assert!(precise, "{uninterrupted}");
        let blocks = expected.len() / 4;
        assert!((6..12).contains(&blocks), "{blocks}");
    }
    for at in 0..=expected.len() as u32 {
        let directory = tempfile::tempdir().unwrap();
        let clock = FakeClock::default();
        let mut store = create(directory.path(), &study);
        let seen = Rc::new(Cell::new(0));
        let counter = Rc::clone(&seen);
        let mut testbed = FakeTestbed::new(&clock, move |spec| {
            counter.set(counter.get() + 1);
            noisy(noise)(spec)
        });
        let stop = || seen.get() >= at;
        let ended = run_study(&mut testbed, &mut store, &clock, &stop, &mut Silent).unwrap();
        let all = at as usize == expected.len();
        assert_eq!(ended == Ended::Interrupted, !all, "{at}");
        assert_eq!(store.runs().len(), at as usize);
        drop(store);

        let mut store = Store::resume(&directory.path().join("results")).unwrap();
        let mut testbed = FakeTestbed::new(&clock, noisy(noise));
        let ended = run_study(&mut testbed, &mut store, &clock, &|| false, &mut Silent).unwrap();
        assert_eq!(ended, uninterrupted, "{at}");
        assert_eq!(testbed.runs, expected.len() as u32 - at);
        let expected: Vec<_> =
            expected.iter().map(|run| (run.block, run.cell, run.spec.seed)).collect();
        assert_eq!(slots(&store), expected, "{at}");
    }
}

/// A rule of a later linkrate is not guessed at.
#[test]
fn a_store_with_an_unknown_order_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results");
    drop(create(directory.path(), &fixture::ladder()));
    let plan = path.join(PLAN_FILE);
    let text = std::fs::read_to_string(&plan).unwrap();
    let later = text.replace("\"mirrored\"", "\"latin\"");
    assert_ne!(later, text);
    std::fs::write(&plan, later).unwrap();
    let error = Store::resume(&path).unwrap_err();
    assert!(matches!(error, StoreError::DamagedFile { .. }), "{error}");
}

#[test]
fn repeats_an_interrupted_run() {
    let directory = tempfile::tempdir().unwrap();
    let clock = FakeClock::default();
    let mut store = create(directory.path(), &fixture::ladder());
    let interrupted = RunFailure::at(Stage::Interrupted, "Ctrl-C");
    let mut testbed = FakeTestbed::new(&clock, move |_| Err(interrupted.clone()));
    let ended = run_study(&mut testbed, &mut store, &clock, &|| false, &mut Silent).unwrap();
    assert_eq!((ended, store.runs().len(), testbed.runs), (Ended::Interrupted, 0, 1));

    // an agent that died of the same Ctrl-C tells another story
    let pressed = Rc::new(Cell::new(false));
    let press = Rc::clone(&pressed);
    let mut testbed = FakeTestbed::new(&clock, move |_| {
        press.set(true);
        Err(RunFailure { fatal: true, ..RunFailure::at(Stage::Agent, "gone") })
    });
    let ended =
        run_study(&mut testbed, &mut store, &clock, &|| pressed.get(), &mut Silent).unwrap();
    assert_eq!((ended, store.runs().len()), (Ended::Interrupted, 0));
}

#[test]
fn runs_a_failing_cell_once_per_block() {
    let (ended, runs) = fresh(&fixture::ladder(), |spec| match spec.interface.offload {
        Some(linkrate_model::Offload::Tso) => Err(fixture::failed("tso reads off")),
        _ => noisy(0.001)(spec),
    });
    assert!(matches!(ended, Ended::Rule(StopReason::Precision { blocks: 5, .. })), "{ended}");
    assert_eq!(runs.len(), 5 * 4);
    let failed: Vec<_> = runs.iter().filter(|run| run.failure().is_some()).collect();
    assert_eq!(failed.len(), 5);
    assert!(failed.iter().all(|run| run.cell == Some(2)));
}

/// The failure of a run that another program spoiled.
fn disturbed() -> RunFailure {
    RunFailure { stage: Stage::Measure, disturbed: true, ..fixture::failed("\"make\" used 40 %") }
}

#[test]
fn a_block_that_falls_is_left_out_as_a_whole_and_repeated() {
    let mut study = fixture::ladder();
    (study.method.min_blocks, study.method.max_blocks) = (3, 3);
    let made = Cell::new(0);
    // the third run of the second block
    let answer = move |spec: &RunSpec| {
        made.set(made.get() + 1);
        if made.get() == 7 { Err(disturbed()) } else { noisy(0.001)(spec) }
    };
    let (ended, runs) = fresh(&study, answer);
    assert_eq!(ended, Ended::Rule(StopReason::MaxBlocks { blocks: 3 }));
    let of_block = |block| runs.iter().filter(|run| run.block == block).count();
    assert_eq!([0, 1, 2, 3, 4].map(of_block), [4, 3, 4, 4, 0], "the rest of the block is not run");
    let by_cell = RunsByCell::of(&study, &runs);
    assert_eq!((by_cell.complete_blocks(&study), by_cell.fallen().len()), (3, 1));
    // pairs are not lost by level
    for cell in 0..3 {
        let good = by_cell.cell(cell).iter().filter(|run| run.is_good());
        assert_eq!(good.map(|run| run.block).collect::<Vec<_>>(), [0, 2, 3], "cell {cell}");
    }
    let left_out: u32 = (0..3).map(|cell| by_cell.left_out(cell)).sum();
    assert_eq!(left_out, 1, "the idle run is the other one");
}

#[test]
fn a_cell_that_is_always_disturbed_lets_no_block_fall() {
    let mut study = fixture::ladder();
    (study.method.min_blocks, study.method.max_blocks) = (3, 3);
    let (ended, runs) = fresh(&study, |spec| match spec.interface.offload {
        Some(linkrate_model::Offload::Tso) => Err(disturbed()),
        _ => noisy(0.001)(spec),
    });
    assert_eq!(ended, Ended::Rule(StopReason::MaxBlocks { blocks: 3 }));
    assert_eq!(runs.len(), 12);
    assert!(RunsByCell::of(&study, &runs).fallen().is_empty());
}

#[test]
fn a_machine_that_is_always_disturbed_ends_the_study() {
    let mut study = fixture::ladder();
    (study.method.min_blocks, study.method.max_blocks) = (3, 3);
    let made = Cell::new(0);
    let answer = move |spec: &RunSpec| {
        made.set(made.get() + 1);
        if made.get() > 4 { Err(disturbed()) } else { noisy(0.001)(spec) }
    };
    let (ended, runs) = fresh(&study, answer);
    assert_eq!(ended, Ended::Rule(StopReason::Disturbed { blocks: 1 }));
    assert!(!ended.is_complete());
    assert_eq!(runs.len(), 4 + 5, "one run of each block that fell");
}

#[test]
fn a_study_with_a_fallen_block_is_resumed_as_it_would_have_gone_on() {
    let mut study = fixture::ladder();
    (study.method.min_blocks, study.method.max_blocks) = (3, 3);
    let directory = tempfile::tempdir().unwrap();
    let clock = FakeClock::default();
    let mut store = create(directory.path(), &study);
    let made = Cell::new(0);
    let answer = move |spec: &RunSpec| {
        made.set(made.get() + 1);
        if made.get() == 6 { Err(disturbed()) } else { noisy(0.001)(spec) }
    };
    let mut testbed = FakeTestbed::new(&clock, answer);
    let stop = RefCell::new(0);
    let interrupts = || {
        *stop.borrow_mut() += 1;
        *stop.borrow() == 9
    };
    let ended = run_study(&mut testbed, &mut store, &clock, &interrupts, &mut Silent).unwrap();
    assert_eq!(ended, Ended::Interrupted);
    let ended = run_study(&mut testbed, &mut store, &clock, &|| false, &mut Silent).unwrap();
    assert_eq!(ended, Ended::Rule(StopReason::MaxBlocks { blocks: 3 }));
    let of_block = |block| store.runs().iter().filter(|run| run.block == block).count();
    assert_eq!([0, 1, 2, 3, 4].map(of_block), [4, 2, 4, 4, 0]);
}

#[test]
fn a_study_of_failed_runs_ends_incomplete() {
    let (ended, runs) = fresh(&fixture::ladder(), |_| Err(fixture::failed("no such device")));
    assert_eq!(ended, Ended::Rule(StopReason::NothingMeasured { blocks: 3 }));
    assert!(!ended.is_complete());
    assert_eq!(runs.len(), 12);
}

#[test]
fn each_block_has_a_testbed_of_its_own_where_the_study_says_so() {
    let mut study = fixture::ladder();
    (study.method.min_blocks, study.method.max_blocks) = (3, 3);
    let rebuilt = |study: &Study, stop_after: u32| {
        let directory = tempfile::tempdir().unwrap();
        let clock = FakeClock::default();
        let mut store = create(directory.path(), study);
        let mut sessions = Vec::new();
        for most in [stop_after, u32::MAX] {
            let mut testbed = FakeTestbed::new(&clock, noisy(0.01));
            let asked = std::cell::Cell::new(0);
            let stop = || asked.replace(asked.get() + 1) >= most;
            run_study(&mut testbed, &mut store, &clock, &stop, &mut Silent).unwrap();
            sessions.push(testbed.rebuilt_after);
        }
        sessions
    };
    assert_eq!(rebuilt(&study, 1000).concat(), [0; 0], "not unless it says so");
    study.method.rebuild = true;
    let slots = block_order(&study, 0).len() as u32;
    assert_eq!(rebuilt(&study, 1000)[0], [slots, 2 * slots], "the first block has a new one");
    // a session that continues within a block has a new one too
    assert_eq!(rebuilt(&study, slots + 1), [vec![slots], vec![slots - 1]]);
}

#[test]
fn on_failure_stop_stops() {
    let mut study = fixture::ladder();
    study.method.on_failure = OnFailure::Stop;
    let (ended, runs) = fresh(&study, |spec| match spec.task {
        Task::Idle => noisy(0.0)(spec),
        Task::Workload(_) => Err(fixture::failed("mtu reads 1500")),
    });
    assert_eq!(ended, Ended::RunFailed(fixture::failed("mtu reads 1500")));
    assert_eq!(runs.len(), 2);
    assert!(runs[1].failure().is_some());
}

#[test]
fn a_lost_testbed_stops_any_study() {
    let lost = RunFailure { fatal: true, ..RunFailure::at(Stage::Agent, "client 0 died") };
    let answer = lost.clone();
    let (ended, runs) = fresh(&fixture::ladder(), move |_| Err(answer.clone()));
    assert_eq!(ended, Ended::TestbedLost(lost));
    assert_eq!(runs.len(), 1);
    assert_eq!(ended.to_string(), "the testbed was lost (agent: client 0 died)");
}

#[test]
fn a_figure_that_is_not_finite_fails_its_run() {
    let mut study = fixture::ladder();
    study.method.max_blocks = 3;
    let (_, runs) = fresh(&study, |spec| {
        let mut measurement = noisy(0.001)(spec)?;
        if spec.task == Task::Idle {
            measurement.traffic.transmit_seconds = f64::NAN;
        }
        Ok(measurement)
    });
    assert_eq!(runs.len(), 12);
    for run in &runs {
        assert_eq!(run.failure().is_some(), run.cell.is_none());
    }
    assert!(runs[0].failure().unwrap().reason.starts_with("a figure is not a number"));
}

#[test]
fn a_finished_study_resumed_runs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let clock = FakeClock::default();
    let mut store = create(directory.path(), &fixture::ladder());
    let mut testbed = FakeTestbed::new(&clock, noisy(0.001));
    let first = run_study(&mut testbed, &mut store, &clock, &|| false, &mut Silent).unwrap();
    drop(store);
    let mut store = Store::resume(&directory.path().join("results")).unwrap();
    let mut testbed = FakeTestbed::new(&clock, noisy(0.001));
    let mut words = Words::default();
    let again = run_study(&mut testbed, &mut store, &clock, &|| false, &mut words).unwrap();
    assert_eq!((first, testbed.runs), (again, 0));
    assert_eq!(words.0, ["session 20 0", "ended true"]);
    let stored = Store::read(&directory.path().join("results")).unwrap();
    assert!(stored.plan.resumed[0].after_rule, "the rule had ended it");
}

#[test]
fn a_session_on_another_testbed_is_written_down() {
    let directory = tempfile::tempdir().unwrap();
    let clock = FakeClock::default();
    drop(create(directory.path(), &fixture::ladder()));
    let mut store = Store::resume(&directory.path().join("results")).unwrap();
    let mut testbed = FakeTestbed::new(&clock, noisy(0.001));
    testbed.kernel = "6.13";
    let mut words = Words::default();
    run_study(&mut testbed, &mut store, &clock, &|| false, &mut words).unwrap();
    assert_eq!(words.0[0], "session 0 1");
    let stored = Store::read(&directory.path().join("results")).unwrap();
    assert_eq!(stored.plan.resumed.len(), 1);
    assert_eq!(stored.plan.resumed[0].facts.facts["kernel"], "6.13");
    assert!(!stored.plan.resumed[0].after_rule, "no session had ended");
}

#[test]
fn the_observer_sees_every_run_and_time_runs_down() {
    let directory = tempfile::tempdir().unwrap();
    let clock = FakeClock::default();
    let mut store = create(directory.path(), &fixture::ladder());
    let mut testbed = FakeTestbed::new(&clock, noisy(0.001));
    let mut words = Words::default();
    run_study(&mut testbed, &mut store, &clock, &|| false, &mut words).unwrap();
    assert_eq!(
        words.0[..11],
        [
            "session 0 0",
            "run 0/4",
            "ran 0",
            "run 1/4",
            "ran 1",
            "run 2/4",
            "ran 2",
            "run 3/4",
            "ran 3",
            "block 0 [1, 1, 1]",
            "run 0/4"
        ]
    );
    assert_eq!(words.0.last().unwrap(), "ended true");
    // from the first measured run on the estimate is exact: every run takes a second
    let likely: Vec<u64> = words.1.iter().map(|left| left.likely.as_secs()).collect();
    assert_eq!(
        likely[1..],
        [19, 18, 17, 16, 16, 15, 14, 13, 12, 12, 11, 10, 9, 8, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0, 0]
    );
    assert_eq!(words.1[1].at_most, Duration::from_secs(23));
    assert_eq!(words.1[0].likely, Duration::from_millis(5 * (3 * 2300 + 1000)));
}

#[test]
fn the_clock_of_the_system_continues() {
    let clock = SystemClock::start();
    let before = clock.elapsed();
    assert!(clock.elapsed() >= before);
    // 2020-01-01
    assert!(clock.unix_ms() > 1_577_836_800_000);
}

#[test]
fn a_store_that_fails_ends_the_study_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let clock = FakeClock::default();
    let mut store = create(directory.path(), &fixture::ladder());
    let place = directory.path().join("results");
    let removed = RefCell::new(false);
    let mut testbed = FakeTestbed::new(&clock, noisy(0.001));
    // the end cannot be written down once the directory is gone
    let stop = || {
        if !removed.replace(true) {
            std::fs::remove_dir_all(&place).unwrap();
        }
        true
    };
    let error = run_study(&mut testbed, &mut store, &clock, &stop, &mut Silent).unwrap_err();
    assert_eq!(error.to_string(), "cannot store the study's runs");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.starts_with("creating ") && cause.ends_with("ended.json.new"), "{cause}");
}

#[test]
fn a_results_directory_that_is_removed_ends_the_study_at_once() {
    // removed during a run, and removed or replaced between two runs
    for (during, replaced) in [(true, false), (false, false), (false, true)] {
        let directory = tempfile::tempdir().unwrap();
        let clock = FakeClock::default();
        let mut store = create(directory.path(), &fixture::ladder());
        let place = directory.path().join("results");
        let remove = move || {
            std::fs::remove_dir_all(&place).unwrap();
            if replaced {
                std::fs::create_dir(&place).unwrap();
                std::fs::write(place.join("runs.jsonl"), "").unwrap();
            }
        };
        let runs = Rc::new(Cell::new(0));
        let (count, noisy, when_run) = (Rc::clone(&runs), noisy(0.001), remove.clone());
        let mut testbed = FakeTestbed::new(&clock, move |spec| {
            count.set(count.get() + 1);
            if during && count.get() == 3 {
                when_run();
            }
            noisy(spec)
        });
        let done = Cell::new(false);
        let stop = || {
            if !during && runs.get() == 3 && !done.replace(true) {
                remove();
            }
            false
        };
        let ended = run_study(&mut testbed, &mut store, &clock, &stop, &mut Silent);
        assert_eq!(runs.get(), 3, "{during} {replaced}");
        let error = ended.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.ends_with("runs.jsonl was removed or moved during the study"), "{cause}");
    }
}

#[test]
fn runs_in_memory_are_those_of_a_directory() {
    let study = fixture::ladder();
    let answer = || noisy(0.05);
    let (ended, runs) = fresh(&study, answer());
    let clock = FakeClock::default();
    let mut testbed = FakeTestbed::new(&clock, answer());
    let mut store = MemoryStore::new(study, testbed.facts(), 0);
    let in_memory = run_study(&mut testbed, &mut store, &clock, &|| false, &mut Silent).unwrap();
    assert_eq!((&in_memory, store.runs()), (&ended, &runs[..]));
    let stored = store.into_study();
    assert_eq!(stored.ended, Some(ended));
    let results = crate::analysis::analyse(&stored);
    assert!(results.complete && results.results.is_empty(), "nothing is stored under a name");
}

#[test]
fn a_figure_that_is_not_finite_fails_its_run_in_memory() {
    let study = fixture::ladder();
    let clock = FakeClock::default();
    let mut testbed = FakeTestbed::new(&clock, |_: &RunSpec| {
        let mut run = fixture::stream(1e9, 0.5);
        run.traffic.transmit_seconds = f64::NAN;
        Ok(run)
    });
    let mut store = MemoryStore::new(study, testbed.facts(), 0);
    run_study(&mut testbed, &mut store, &clock, &|| false, &mut Silent).unwrap();
    let reason = store.runs()[0].failure().unwrap().reason.clone();
    assert!(reason.starts_with("a figure is not a number"), "{reason}");
}
