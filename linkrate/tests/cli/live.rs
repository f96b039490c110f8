//! `compare --live`: commands that print results of iperf 2, with rates that a counter gives.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Finished, LINKRATE, Running, command, kill, wait_until};

/// A command whose runs have about this rate, in Mb/s. Each has another one.
fn measures(name: &str, mbits: u32) -> String {
    format!(
        "n=$(cat {name} 2>/dev/null || echo 0); echo $((n + 1)) > {name}; \
         r=$(({mbits}000000 + (n % 4) * 100000 + n)); \
         echo 20260101000000,10.0.0.1,40000,10.0.0.2,5001,3,0.0-1.0,$((r / 8)),$r"
    )
}

fn live(home: &Path, commands: [&str; 2], options: &str) -> Finished {
    let mut live = command(LINKRATE, "compare --live");
    live.args(commands).args(options.split_whitespace()).current_dir(home);
    Running::start(&mut live).wait()
}

#[test]
fn the_effect_of_b_over_a_has_an_interval_and_an_exit_code() {
    let home = tempfile::tempdir().expect("a directory");
    let (slow, fast) = (measures("slow", 900), measures("fast", 1000));
    let worse = live(home.path(), [&fast, &slow], "--blocks 8 --dir worse");
    let worse = worse.expect_code(5);
    assert!(worse.stderr.contains("block 8: A 1.000 Gb/s, B 900.3 Mb/s"), "{}", worse.stderr);
    assert!(worse.stdout.contains("B instead of A reduces throughput by 10 %"), "{}", worse.stdout);
    let better = live(home.path(), [&slow, &fast], "--json --dir better").expect_code(0).json();
    assert_eq!((&better["blocks"], &better["study"]), (&10.into(), &"live".into()));
    let effect = &better["effects"][0];
    assert_eq!((&effect["factor"], &effect["significant"]), (&"command".into(), &true.into()));
    let ratio = effect["ratio"]["mean"].as_f64().expect("a ratio");
    assert!((1.10..1.12).contains(&ratio), "{effect}");
    let equal = live(home.path(), [&slow, &slow], "--blocks 5").expect_code(0);
    assert!(equal.stdout.contains("live-"), "{}", equal.stdout);
}

#[test]
fn a_command_that_does_not_measure_is_refused_with_its_words() {
    let home = tempfile::tempdir().expect("a directory");
    let good = measures("good", 900);
    for (bad, code, said) in [
        ("echo nothing here", 2, "error: --live: B: "),
        (
            "echo could not connect >&2; exit 3",
            4,
            "B: exit status: 3: could not connect (echo could",
        ),
        ("kill -9 $$", 4, "error: --live: B: exit status: 137"),
        ("echo 20260101000000,a,1,b,5001,3,0.0-1.0,1000,8000", 2, "B: the same output as before"),
    ] {
        let refused = live(home.path(), [&good, bad], "--blocks 5").expect_code(code);
        assert!(refused.stderr.contains(said), "{bad}: {}", refused.stderr);
    }
    for (options, said) in [("--blocks 2", "5..=1000"), ("--allow kernel", "cannot be used with")] {
        let refused = live(home.path(), [&good, &good], options).expect_code(2);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}

/// Neither of them leaves a command behind.
#[test]
fn a_signal_keeps_the_blocks_and_ends_the_command() {
    let home = tempfile::tempdir().expect("a directory");
    for signal in [Signal::INT, Signal::KILL] {
        let name = format!("kept-{}", signal.as_raw());
        let third = format!(
            "{}; test $n -lt 2 || {{ echo $$ > {name}.pid; sleep 1000; }}",
            measures(&name, 900)
        );
        let mut words = command(LINKRATE, "compare --live");
        words
            .args([&*third, &measures(&format!("{name}-b"), 900)])
            .arg("--dir")
            .arg(format!("{name}-runs"));
        let running = Running::start(words.current_dir(home.path()));
        let process = || fs::read_to_string(home.path().join(format!("{name}.pid")));
        assert!(
            wait_until(Duration::from_secs(20), || process().is_ok_and(|pid| pid.ends_with('\n')))
        );
        let of_command = format!("/proc/{}", process().expect("its number").trim());
        assert!(Path::new(&of_command).exists());
        let began = Instant::now();
        kill(running.pid(), signal);
        let ended = running.wait();
        assert_eq!(ended.signal().is_none(), signal == Signal::INT, "{}", ended.stderr);
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(wait_until(Duration::from_secs(5), || !Path::new(&of_command).exists()));
        let runs =
            fs::read_to_string(home.path().join(format!("{name}-runs/runs.jsonl"))).expect("runs");
        assert_eq!(runs.lines().count(), 4, "two whole blocks");
    }
}
