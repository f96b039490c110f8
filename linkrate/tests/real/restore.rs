//! Settings of existing interfaces come back: after strangers, silent networks, stopped and killed
//! agents, and a second instance on the same interface.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::ends::listening_ports;
use crate::common::machines::{
    Machine, difference, lost_in_a_move, measure_the_loop, with_a_furnished_loop, with_a_loop,
};
use crate::common::processes::OwnCopy;
use crate::common::{Finished, Running, at_once, command, kill, skip, wait_until};
use linkrate_sys::{network_namespace, run_directory, sched};
use rustix::process::Signal;

/// How long agents may take to restore settings after their controller has ended.
const RESTORED: Duration = Duration::from_secs(20);

/// How long a controller may wait for an agent that does not end: 15 s for a reply, 15 s for its end.
const GIVEN_UP: Duration = Duration::from_secs(45);

/// Changes the MTU and the offloads of both interfaces.
const CHANGES: &str = "--time 300ms --offload none --mtu 1300 --txqueuelen 77";

/// Everything that is set on both interfaces.
#[track_caller]
fn settings(machine: &Machine) -> [String; 2] {
    [machine.settings("eth1"), machine.settings("eth2")]
}

#[track_caller]
fn expect_restored(machine: &Machine, before: &[String; 2], when: &str) {
    let both = || machine.sh("ip -o link show").contains("eth2@eth1");
    assert!(wait_until(RESTORED, both), "{when}: {}", machine.sh("ip -o link show"));
    let restored = wait_until(RESTORED, || settings(machine) == *before);
    assert!(restored, "{when}: {:#?} instead of {before:#?}", settings(machine));
}

/// Everything that is set on both interfaces, and everything that a move removes.
#[track_caller]
fn everything(machine: &Machine) -> String {
    settings(machine).join("\n") + "\n" + &lost_in_a_move(machine)
}

#[track_caller]
fn expect_everything(machine: &Machine, before: &str, when: &str) {
    let both = || machine.sh("ip -o link show").contains("eth2@eth1");
    assert!(wait_until(RESTORED, both), "{when}: {}", machine.sh("ip -o link show"));
    let restored = wait_until(RESTORED, || everything(machine) == before);
    assert!(restored, "{when}\n{}", difference(before, &everything(machine)));
}

#[track_caller]
fn doctor_restores(machine: &Machine, own: &OwnCopy) -> Finished {
    let mut doctor = command(own.program(), "restore");
    machine.on(&mut doctor);
    Running::start(&mut doctor).wait().expect_code(0)
}

/// Connections to the first socket that listens in the calling thread's namespace. It listens for part of a second, and
/// is looked for without a program or a pause that would miss it. A run may end between the look and the connections, and
/// then nobody answers them.
fn strangers_on_a_test_socket(within: Duration) -> Result<Vec<TcpStream>, String> {
    const ANSWERED: Duration = Duration::from_millis(100);
    // a look takes a millisecond of CPU time, for which it does not wait behind other tests
    sched::set_nice(-20).expect("root may");
    let deadline = Instant::now() + within;
    let (mut looks, mut refused) = (0, Vec::new());
    while Instant::now() < deadline {
        looks += 1;
        let table = fs::read_to_string("/proc/thread-self/net/tcp").expect("a table of sockets");
        for port in listening_ports(&table) {
            let address = SocketAddr::from(([198, 51, 100, 1], port));
            let connect = || TcpStream::connect_timeout(&address, ANSWERED);
            let (strangers, errors): (Vec<_>, Vec<_>) =
                (0..4).map(|_| connect()).partition(Result::is_ok);
            if errors.len() < 4 {
                return Ok(strangers.into_iter().flatten().collect());
            }
            refused.push(port);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    refused.truncate(5);
    Err(format!("{looks} looks at sockets that listen; nobody answered at {refused:?}"))
}

#[test]
fn a_silent_unexpected_peer_on_a_test_socket_does_not_keep_settings_from_coming_back() {
    needs!(root, "ethtool", "ip", two_cpus);
    for signal in [None, Some(Signal::KILL)] {
        let (machine, own) = (with_a_loop(), OwnCopy::new());
        let before = settings(&machine);
        let words = format!("--kind connect-request-response --runs 6 {CHANGES}");
        let running = Running::start(&mut measure_the_loop(&machine, &own.program(), &words));
        let strangers = machine.inside(|| strangers_on_a_test_socket(Duration::from_secs(60)));
        if let Err(looked) = &strangers {
            let finished = running.wait();
            panic!("no test socket, {looked}\n{:?} {}", finished.status, finished.stderr);
        }
        match signal {
            Some(signal) => {
                running.signal(signal);
                running.wait();
                expect_restored(&machine, &before, "after SIGKILL of the controller");
            }
            None => {
                let finished = running.wait();
                assert_eq!(settings(&machine), before, "{}", finished.stderr);
                let document = finished.json();
                let failures = document["failures"].as_array().expect("failures");
                for failure in failures {
                    // by the machine that runs the tests
                    assert_eq!(failure["disturbed"], true, "{failure}");
                }
                if failures.is_empty() {
                    let warnings = document["warnings"].to_string();
                    assert!(
                        warnings.contains("from 198.51.100.1"),
                        "a stranger is named: {document}"
                    );
                }
            }
        }
        own.expect_nothing_left();
    }
}

#[test]
fn a_network_that_drops_every_answer_costs_a_run_and_no_interface() {
    needs!(root, "ethtool", "ip", two_cpus);
    at_once(2, &["stream", "connect-request-response"], |workload| {
        let (machine, own) = (with_a_loop(), OwnCopy::new());
        // answers of the system under test go to an address that nobody has
        machine.sh("ip neigh replace 198.51.100.2 lladdr 02:00:00:00:00:99 dev eth1 nud permanent");
        let before = settings(&machine);
        let words = format!("--kind {workload} --runs 1 {CHANGES}");
        let running = Running::start(&mut measure_the_loop(&machine, &own.program(), &words));
        let finished = running.wait();
        assert_ne!(finished.code(), Some(0), "{}", finished.stderr);
        assert_eq!(settings(&machine), before, "{workload}: {}", finished.stderr);
        own.expect_nothing_left();
    });
}

#[test]
fn an_agent_that_is_stopped_or_killed_costs_no_interface() {
    needs!(root, "ethtool", "ip", two_cpus);
    let cases = [(1, Signal::STOP), (1, Signal::KILL), (0, Signal::KILL)];
    at_once(cases.len(), &cases, |&(number, signal)| {
        let (machine, own) = (with_a_loop(), OwnCopy::new());
        let before = settings(&machine);
        let words = format!("--runs 3 {CHANGES}");
        let mut running = Running::start(&mut measure_the_loop(&machine, &own.program(), &words));
        let agents = own.await_traffic(2);
        kill(agents[number], signal);
        if signal == Signal::STOP {
            // until the controller has given it up
            wait_until(GIVEN_UP, || running.has_ended());
            kill(agents[number], Signal::CONT);
        }
        let finished = running.wait();
        let when = format!("{signal:?} of agent {number}: {}", finished.stderr);
        expect_restored(&machine, &before, &when);
        own.expect_nothing_left();
    });
}

#[test]
fn an_agent_that_holds_interfaces_is_never_killed() {
    needs!(root, "ethtool", "ip", two_cpus);
    let (machine, own) = (with_a_loop(), OwnCopy::new());
    let before = settings(&machine);
    let words = format!("--runs 100 {CHANGES}");
    // a file: the agent that is stopped holds standard error beyond the end of its controller
    let said = own.beside("stderr");
    let mut controller = measure_the_loop(&machine, &own.program(), &words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&said).expect("create a file"))
        .spawn()
        .expect("start the program");
    let agents = own.await_traffic(2);
    kill(agents[0], Signal::STOP);
    kill(controller.id(), Signal::INT);
    let ended = wait_until(GIVEN_UP, || controller.try_wait().expect("a child").is_some());
    if !ended {
        let _ = controller.kill();
    }
    assert!(ended, "the controller waits for the agent");
    let stderr = fs::read_to_string(&said).expect("read the file");
    for part in [
        format!("the agent of sut (process {}) does not end", agents[0]),
        "has not restored eth1, eth2".to_owned(),
        format!("`kill -CONT {}`", agents[0]),
        "`linkrate restore`".to_owned(),
    ] {
        assert!(stderr.contains(&part), "{part}: {stderr}");
    }
    assert!(own.agents().contains(&agents[0]), "it is still there");
    let second = Running::start(&mut measure_the_loop(&machine, &own.program(), "--runs 1")).wait();
    let holder = format!("interface eth1 is in use by process {}", agents[0]);
    assert!(second.stderr.contains(&holder), "{}", second.stderr);
    kill(agents[0], Signal::CONT);
    expect_restored(&machine, &before, "after SIGCONT");
    own.expect_nothing_left();
}

#[test]
fn a_signal_that_would_end_an_agent_at_once_costs_no_interface() {
    needs!(root, "ethtool", "ip", two_cpus);
    let named = [Signal::QUIT, Signal::USR1, Signal::XCPU].map(Signal::as_raw);
    // and two real-time ones
    let signals: Vec<i32> = named.into_iter().chain([35, 64]).collect();
    at_once(3, &signals, |&signal| {
        let (machine, own) = (with_a_loop(), OwnCopy::new());
        let before = settings(&machine);
        let words = format!("--runs 100 {CHANGES}");
        let running = Running::start(&mut measure_the_loop(&machine, &own.program(), &words));
        let agents = own.await_traffic(2);
        // it would start another agent, which would restore them
        running.signal(Signal::STOP);
        let kill = format!("kill -{signal} {}", agents[0]);
        Running::start(command("bash", "-c").arg(&kill)).wait().expect_code(0);
        expect_restored(&machine, &before, &format!("signal {signal}"));
        running.signal(Signal::KILL);
        running.wait();
        own.expect_nothing_left();
    });
}

#[test]
fn the_doctor_restores_after_everything_was_killed() {
    needs!(root, "ethtool", "ip", two_cpus);
    let (machine, own) = (with_a_loop(), OwnCopy::new());
    let before = settings(&machine);
    let words = format!("--runs 100 {CHANGES}");
    let running = Running::start(&mut measure_the_loop(&machine, &own.program(), &words));
    kill_under_traffic(running, &own);
    assert!(!machine.sh("ip -o link show").contains("eth2@"), "something is to be restored");
    let restored = doctor_restores(&machine, &own);
    assert!(restored.stdout.contains("eth1") && restored.stdout.contains("eth2"), "{restored:?}");
    assert_eq!(settings(&machine), before);
    own.expect_nothing_left();
    let again = doctor_restores(&machine, &own);
    assert!(again.stdout.contains("nothing to restore"), "{again:?}");
}

/// Ends the two agents and their controller by SIGKILL while traffic flows.
#[track_caller]
fn kill_under_traffic(running: Running, own: &OwnCopy) {
    for agent in own.await_traffic(2) {
        kill(agent, Signal::KILL);
    }
    running.signal(Signal::KILL);
    running.wait();
    own.expect_no_process();
}

/// The files about interfaces of the network namespace with this number.
fn records(namespace: u64) -> Vec<String> {
    let directory = run_directory::private("interfaces").expect("the directory of records");
    let files = fs::read_dir(directory).expect("read it").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("{namespace}."))).collect()
}

#[test]
fn the_records_of_a_namespace_that_ended_are_removed() {
    needs!(root, "ethtool", "ip", two_cpus);
    if network_namespace::handle().is_none() {
        return skip("needs handles of namespaces: Linux 6.18");
    }
    at_once(2, &[true, false], |&by_doctor| {
        let (machine, own) = (with_a_loop(), OwnCopy::new());
        let words = format!("--runs 100 {CHANGES}");
        let running = Running::start(&mut measure_the_loop(&machine, &own.program(), &words));
        kill_under_traffic(running, &own);
        let number = machine.inside(|| network_namespace::cookie().expect("a number"));
        // both interfaces, and the namespace of the client that has one
        assert_eq!(records(number).len(), 3, "{:?}", records(number));
        // while its namespace lives, nobody else touches it
        let elsewhere = with_a_loop();
        doctor_restores(&elsewhere, &own);
        assert_eq!(records(number).len(), 3, "{:?}", records(number));
        drop(machine);
        // which lets go of the namespaces that it watched
        own.expect_nothing_left();
        let removed = wait_until(RESTORED, || {
            match by_doctor {
                true => drop(doctor_restores(&elsewhere, &own)),
                false => {
                    let words = "--runs 1 --time 100ms";
                    Running::start(&mut measure_the_loop(&elsewhere, &own.program(), words)).wait();
                }
            }
            records(number).is_empty()
        });
        assert!(removed, "{:?}", records(number));
        own.expect_nothing_left();
    });
}

#[test]
fn a_second_instance_on_an_interface_is_refused() {
    needs!(root, "ethtool", "ip", two_cpus);
    let (machine, own) = (with_a_loop(), OwnCopy::new());
    let before = settings(&machine);
    let words = format!("--runs 100 {CHANGES}");
    let first = Running::start(&mut measure_the_loop(&machine, &own.program(), &words));
    let agents = own.await_traffic(2);
    let second = Running::start(&mut measure_the_loop(&machine, &own.program(), "--runs 1")).wait();
    assert_ne!(second.code(), Some(0), "{}", second.stdout);
    let holder = format!("is in use by process {}", agents[0]);
    assert!(second.stderr.contains(&holder), "{holder}: {}", second.stderr);
    let named = second.stderr.contains(" (linkrate), started by process ");
    assert!(named && !second.stderr.contains("--stdio"), "a name alone: {}", second.stderr);
    // nor by another name
    machine.sh("ip link property add dev eth1 altname lan1");
    let mut by_another = command(own.program(), "measure --interface lan1 --runs 1");
    machine.on(by_another.args(["--client", "interface:eth2"]));
    let refused = Running::start(&mut by_another).wait();
    let reason = "lan1 is another name of interface eth1";
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    machine.sh("ip link property del dev eth1 altname lan1");
    first.signal(Signal::INT);
    first.wait();
    assert_eq!(settings(&machine), before);
    own.expect_nothing_left();
}

#[test]
fn what_the_kernel_removes_from_an_interface_that_moves_comes_back() {
    needs!(root, "ethtool", "ip", two_cpus);
    for killed in [false, true] {
        let (machine, own) = (with_a_furnished_loop(), OwnCopy::new());
        let before = everything(&machine);
        // below 1280 the kernel removes IPv6, whose settings must come back too
        let changes = "--time 300ms --offload none --mtu 1200";
        let runs = if killed { 100 } else { 1 };
        let words = format!("--runs {runs} {changes}");
        let running = Running::start(&mut measure_the_loop(&machine, &own.program(), &words));
        let said = match killed {
            // the machine may be too busy for the run itself
            false => running.wait().stderr,
            true => {
                kill_under_traffic(running, &own);
                doctor_restores(&machine, &own).stderr
            }
        };
        assert!(!said.contains("not restored"), "{said}");
        expect_everything(&machine, &before, &format!("killed {killed}: {said}"));
        own.expect_nothing_left();
    }
}

#[test]
fn an_interface_that_would_lose_something_is_not_lent() {
    needs!(root, "ethtool", "ip", two_cpus);
    let own = OwnCopy::new();
    for (script, reason) in [
        ("tc qdisc add dev eth2 root handle 1: htb", "the queueing discipline htb 1:"),
        (
            "tc qdisc add dev eth2 handle 7: root tbf rate 1gbit burst 1mb latency 50ms
          tc qdisc add dev eth2 parent 7:1 pfifo",
            "a queueing discipline in another, pfifo",
        ),
        (
            "tc qdisc add dev eth2 clsact
          tc filter add dev eth2 ingress protocol ip u32 match ip src 10.0.0.0/8 classid 1:1",
            "a tc filter on ingress",
        ),
        (
            "tc qdisc add dev eth2 clsact
          tc filter add dev eth2 egress protocol ip u32 match ip src 10.0.0.0/8 classid 1:1",
            "a tc filter on egress",
        ),
        ("ip nexthop add id 5 via 198.51.100.1 dev eth2", "the nexthop object 5"),
        ("ip token set ::1234 dev eth2", "the IPv6 token ::1234"),
        (
            "ip address add 198.51.100.9/24 dev eth2 valid_lft 999 preferred_lft 999",
            "the leased address 198.51.100.9",
        ),
        ("ip link add link eth2 name mv0 type macvlan", "it carries mv0"),
        ("ip link add br0 type bridge; ip link set eth2 master br0", "it is part of br0"),
    ] {
        let machine = with_a_loop();
        machine.sh(script);
        let before = everything(&machine);
        let running = Running::start(&mut measure_the_loop(&machine, &own.program(), "--runs 1"));
        let refused = running.wait();
        assert!(matches!(refused.code(), Some(1 | 2)), "{reason}: {}", refused.stderr);
        for part in [reason, "eth2", "hint:"] {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
        expect_everything(&machine, &before, reason);
    }
    own.expect_nothing_left();
}
