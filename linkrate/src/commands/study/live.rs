//! `compare --live`: two commands in turn, in blocks of random order, each of which prints what a measuring program
//! prints.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use linkrate_interop::import;
use linkrate_model::Imported;
use linkrate_model::clean::short_line;
use linkrate_model::units::format_duration;
use linkrate_stats::order::Order;
use linkrate_study::analysis::analyse;
use linkrate_study::import::live::{self, Live, SIDES};
use linkrate_study::results::StudyResults;
use linkrate_study::runner::{Clock, SystemClock};
use linkrate_study::store::{Ended, RunStore, Store, StoredRun, directory};
use linkrate_study::study::Method;
use linkrate_sys::stderr;

use super::compare::fraction;
use super::output::{self, Wanted};
use super::run::{RESULTS, check_new, signals};
use crate::args::study::StudyCompareArgs;
use crate::exit::{Exit, Failure};

/// Longest time of one command.
const LIMIT: Duration = Duration::from_secs(600);

/// How often a command is looked after.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Most octets of a command's standard error that are kept: its last line is what may tell why it failed.
const MAX_STDERR: usize = 4096;

/// Runs the command `$1`. Standard input is held by linkrate: when linkrate ends, however it ends, or gives the command up,
/// the process group ends too.
const SCRIPT: &str = "exec 3<&0 </dev/null\n\
                      (read _ <&3; kill -KILL 0) >/dev/null 2>&1 &\n\
                      exec 3<&-\n\
                      sh -c \"$1\"; code=$?\n\
                      kill $! 2>/dev/null\n\
                      exit $code\n";

/// Runs the blocks, keeps each run, then prints what the change from A to B does.
pub fn run(arguments: &StudyCompareArgs) -> Result<Exit, Failure> {
    let commands = [&arguments.baseline, &arguments.candidate].map(|path| command(path));
    let [Ok(a), Ok(b)] = commands else {
        return Err(Failure::new(Exit::Usage, "--live: a command is not UTF-8"));
    };
    let commands = [a, b];
    arguments.dir.as_deref().map_or(Ok(()), check_new)?;
    let mut method = Method::default();
    if let Some(given) = &arguments.minimum_effect {
        method.minimum_effect = fraction("--minimum-effect", given)?;
    }
    method.draw_seed();
    let stop = signals()?;
    let clock = SystemClock::start();
    let began_unix_ms = clock.unix_ms();
    let mut session = Session { commands, stop: &stop, clock: &clock, last: [None, None] };
    // the first block says what is measured
    let first = session.block(method.seed(), 0)?;
    let Some(first) = first else { return Ok(Exit::Interrupted) };
    let plan = Live { commands, blocks: arguments.blocks, method };
    let set =
        live::assemble(&plan, &first).map_err(|error| Failure::from_error(Exit::Usage, &error))?;
    let path = match &arguments.dir {
        Some(path) => path.clone(),
        None => directory::fresh(Path::new(RESULTS), live::NAME, began_unix_ms)?,
    };
    let mut store = Store::create(&path, &set.study, set.facts, began_unix_ms)?;
    append(&mut store, first)?;
    let ended = session.blocks(&mut store, &set.study.method)?;
    store.finish(&ended)?;
    let results = analyse(&Store::read(&path)?);
    output::write_results(&path, &results)?;
    output::present(&results, &Wanted { json: arguments.json, ..Wanted::default() })?;
    Ok(match ended {
        Ended::Interrupted => Exit::Interrupted,
        _ if is_worse(&results) => Exit::Regression,
        _ => Exit::Success,
    })
}

fn command(path: &Path) -> Result<&str, ()> {
    path.to_str().ok_or(())
}

/// Whether B is worse than A in any measure.
fn is_worse(results: &StudyResults) -> bool {
    results.effects.iter().any(|effect| {
        let falls = effect.ratio.mean < 1.0;
        effect.significant && falls == effect.measure.more_is_better()
    })
}

fn append(store: &mut Store, runs: Vec<StoredRun>) -> Result<(), Failure> {
    runs.iter().try_for_each(|run| store.append(run)).map_err(Failure::from)
}

struct Session<'a> {
    commands: [&'a str; 2],
    stop: &'a AtomicBool,
    clock: &'a SystemClock,
    /// What each side printed last: output that comes again was not measured again.
    last: [Option<u64>; 2],
}

impl Session<'_> {
    /// The blocks after the first, and why they ended.
    fn blocks(&mut self, store: &mut Store, method: &Method) -> Result<Ended, Failure> {
        for block in 1..method.max_blocks {
            match self.block(method.seed(), block)? {
                Some(runs) => append(store, runs)?,
                None => return Ok(Ended::Interrupted),
            }
        }
        Ok(Ended::Imported)
    }

    /// One run of each side, in the order of the block; `None` after a signal.
    fn block(&mut self, seed: u64, block: u32) -> Result<Option<Vec<StoredRun>>, Failure> {
        let mut runs = Vec::new();
        for side in Order::Mirrored.of_block(seed, block, 2).0 {
            let started_unix_ms = self.clock.unix_ms();
            let Some(measured) = self.run(side as usize, block)? else { return Ok(None) };
            runs.push(live::stored(block, side, started_unix_ms, runs.len(), measured));
        }
        let [a, b] = [0, 1].map(|side| {
            let run = runs.iter().find(|run| run.cell == Some(side)).and_then(StoredRun::imported);
            run.map_or_else(String::new, live::rate)
        });
        stderr::line(format_args!("block {}: A {a}, B {b}", block + 1));
        Ok(Some(runs))
    }

    /// One run of a command; `None` after a signal.
    fn run(&mut self, side: usize, block: u32) -> Result<Option<Imported>, Failure> {
        let (name, command) = (SIDES[side], self.commands[side]);
        let failed = |exit, why: String| Failure::new(exit, format!("--live: {name}: {why}"));
        let Some(output) = output_of(command, self.stop).map_err(|why| {
            failed(Exit::RunsFailed, format!("{why} ({})", short_line(command, 100)))
        })?
        else {
            return Ok(None);
        };
        let file = format!("{name}, block {}", block + 1);
        let mut runs = import::read(&file, &output).map_err(|error| {
            let hint = "linkrate import --help lists the formats; with iperf3, add -J";
            failed(Exit::Usage, error.to_string()).with_hint(Some(hint))
        })?;
        let (Some(run), true) = (runs.pop(), runs.is_empty()) else {
            return Err(failed(
                Exit::Usage,
                "more than one test in its output, expected one".to_owned(),
            ));
        };
        if self.last[side].replace(run.fingerprint()) == Some(run.fingerprint()) {
            let why = "the same output as before, expected a new measurement".to_owned();
            return Err(failed(Exit::Usage, why));
        }
        Ok(Some(run))
    }
}

/// What a command wrote to standard output; `None` after a signal. The error says why it failed.
fn output_of(command: &str, stop: &AtomicBool) -> Result<Option<Vec<u8>>, String> {
    let mut child = Command::new("sh");
    child.args(["-c", SCRIPT, "sh", command]).process_group(0);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().map_err(|error| format!("sh: {error}"))?;
    let held = child.stdin.take();
    let output = drained(child.stdout.take(), import::MAX_BYTES + 1, false);
    let errors = drained(child.stderr.take(), MAX_STDERR, true);
    let began = Instant::now();
    let output = loop {
        match output.recv_timeout(POLL_INTERVAL) {
            Ok(output) => break output,
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let late = began.elapsed() > LIMIT;
        if late || stop.load(Ordering::Relaxed) {
            end(child, held);
            return match late {
                true => Err(format!("no end within {}", format_duration(LIMIT))),
                false => Ok(None),
            };
        }
    };
    let status = child.wait().map_err(|error| format!("its end: {error}"))?;
    drop(held);
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    if !status.success() {
        let errors = errors.recv_timeout(POLL_INTERVAL).unwrap_or_default();
        return Err(reason(status, &String::from_utf8_lossy(&errors)));
    }
    if output.len() > import::MAX_BYTES {
        return Err(format!("more than {} bytes of output", import::MAX_BYTES));
    }
    Ok(Some(output))
}

/// Ends the process group of a command.
fn end(mut child: Child, held: Option<ChildStdin>) {
    drop(held);
    // the group ends as soon as its standard input has
    let _ = child.wait();
}

/// Reads to the end in a thread: the first octets, or the last ones.
fn drained(from: Option<impl Read + Send + 'static>, most: usize, last: bool) -> Receiver<Vec<u8>> {
    let (done, wait) = channel();
    std::thread::spawn(move || {
        let Some(mut from) = from else { return };
        let mut kept = Vec::new();
        let mut buffer = [0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let room = if last { length } else { length.min(most - kept.len()) };
            kept.extend_from_slice(&buffer[..room]);
            if last && kept.len() > most {
                kept.drain(..kept.len() - most);
            }
        }
        // nobody waits after a signal
        let _ = done.send(kept);
    });
    wait
}

/// `exit status: 1: iperf3: error - unable to connect`.
fn reason(status: ExitStatus, errors: &str) -> String {
    match errors.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{status}: {}", short_line(line.trim(), 200)),
        None => status.to_string(),
    }
}
