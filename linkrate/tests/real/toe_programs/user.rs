//! Programs of a user without root, whose connections are at a TCP offload engine.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::common::ends::listening_ports;
use super::common::processes::OwnCopy;
use super::common::up::{CLIENT, SUT};
use super::common::{self, Finished, Running, wait_until};
use super::{BYTES, FIRST_WINDOW, Teller, WAYS, port, stream};

/// Nobody's ids.
const USER: u32 = 65534;

/// A lab of a user, with connections at the adapter.
struct OfUser {
    own: OwnCopy,
    name: String,
    up: Running,
}

impl OfUser {
    /// The lab, if a user can have one here.
    fn start() -> Result<Self, String> {
        let own = OwnCopy::new();
        let name = format!("user-{}-{}", std::process::id(), port());
        let mut up = common::command("setpriv", &Self::ids());
        up.arg(own.program()).args(["lab", "up", "--wait", "--adapter", "toe", "--name", &name]);
        up.env_remove("XDG_RUNTIME_DIR");
        let lab = Self { own, name, up: Running::start(&mut up) };
        let shown = || lab.linkrate("lab show").code() == Some(0);
        if !wait_until(Duration::from_secs(10), shown) {
            lab.up.signal(Signal::TERM);
            let said = lab.up.wait().stderr;
            let said = said.trim().replace('\n', "; ");
            return Err(format!("a user has no lab here: {said}"));
        }
        lab.linkrate("adapter set eth0 toe=on").expect_code(0);
        Ok(lab)
    }

    fn ids() -> String {
        format!("--reuid {USER} --regid {USER} --clear-groups")
    }

    /// `linkrate WORDS --name NAME` by the user.
    fn reported(&self, words: &str) -> Command {
        let mut command = common::command("setpriv", &Self::ids());
        command.arg(self.own.program()).args(words.split_whitespace());
        command.args(["--name", &self.name]).env_remove("XDG_RUNTIME_DIR");
        command
    }

    fn linkrate(&self, words: &str) -> Finished {
        Running::start(&mut self.reported(words)).wait()
    }

    /// A program of the user in a host.
    fn exec(&self, host: &str, words: &str) -> Command {
        let mut command = self.reported(&format!("lab exec {host}"));
        command.arg("--").args(words.split_whitespace());
        command
    }

    /// Payload that the adapter's TCP has sent and received, and packets of the host for its connections.
    fn counters(&self) -> [u64; 3] {
        let shown = self.linkrate("adapter show eth0 --json").json();
        let of = &shown["ports"][0]["counters"];
        ["toeTxBytes", "toeRxBytes", "toeHostSegments"].map(|name| of[name].as_u64().expect(name))
    }

    /// So many bytes went each way by the adapter while `body` ran.
    #[track_caller]
    fn carries(&self, context: &str, bytes: u64, body: impl FnOnce()) {
        let before = self.counters();
        body();
        let now = self.counters();
        assert!(now[0] - before[0] >= bytes, "{context}: {before:?} {now:?}");
        assert!(now[1] - before[1] + FIRST_WINDOW >= bytes, "{context}: {before:?} {now:?}");
        assert_eq!(now[2], 0, "{context}");
    }

    fn down(self) {
        self.linkrate("lab down").expect_code(0);
        self.up.wait();
    }
}

#[test]
#[ignore = "exhaustive: the same without root"]
fn a_user_has_programs_at_the_adapter_whatever_way_they_wait() {
    needs!(root, "c++", "setpriv");
    let lab = or_skip!(OfUser::start());
    let stream = stream().display();
    for way in WAYS {
        let port = port();
        lab.carries(&format!("connect, {way}"), BYTES, || {
            let words = format!("{stream} far {port} {BYTES} 0");
            let mut far = Teller::start(&mut lab.exec("client-0", &words));
            assert_eq!(far.line(), "listens", "{way}");
            let words = format!("{stream} connect {way} {CLIENT} {port} {BYTES}");
            let said = Teller::start(&mut lab.exec("sut", &words)).expect_whole(way);
            assert!(said.contains("whole, state 1, mss 1448"), "{way}: {said}");
            far.expect_whole(way);
        });
    }
    for way in WAYS {
        let port = port();
        lab.carries(&format!("accept, {way}"), BYTES, || {
            let words = format!("{stream} accept {way} {port} {BYTES}");
            let mut near = Teller::start(&mut lab.exec("sut", &words));
            assert_eq!(near.line(), "listens", "{way}");
            // the call waits by then
            std::thread::sleep(Duration::from_millis(50));
            let words = format!("{stream} join {SUT} {port} {BYTES}");
            let far = Teller::start(&mut lab.exec("client-0", &words));
            let said = near.expect_whole(way);
            assert!(said.contains("whole, state 1, mss 1448"), "{way}: {said}");
            far.expect_whole(way);
        });
    }
    lab.down();
}

#[test]
fn a_user_has_iperf3_at_the_adapter() {
    needs!(root, "iperf3", "setpriv");
    let lab = or_skip!(OfUser::start());
    lab.carries("iperf3", 1_000_000, || {
        let server = Running::start(&mut lab.exec("client-0", "iperf3 -s -1"));
        let listens = || {
            let tables =
                Running::start(&mut lab.exec("client-0", "cat /proc/net/tcp /proc/net/tcp6"));
            listening_ports(&tables.wait().stdout).contains(&5201)
        };
        assert!(wait_until(Duration::from_secs(10), listens), "iperf3 does not listen");
        let words = format!("iperf3 -c {CLIENT} -t 1 --bidir");
        Running::start(&mut lab.exec("sut", &words)).wait().expect_code(0);
        server.wait().expect_code(0);
    });
    lab.down();
}
