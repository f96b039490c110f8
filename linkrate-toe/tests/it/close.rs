//! How connections end at the adapter, beside how they end at the host: both ends see the same, error for
//! error.

use crate::common;
#[test]
fn a_connection_ends_at_the_adapter_as_at_the_host() {
    common::run_inside("close::inside::every_way_to_end");
}

mod inside {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use linkrate_sys::{socket, socket_swap};

    use super::common;
    use crate::wire::{Testbed, talker};

    /// Time in which what one end does reaches the other one.
    const PAUSE: Duration = Duration::from_millis(100);

    /// How long a read waits.
    const TIMEOUT: Duration = Duration::from_secs(1);

    #[derive(Debug, Clone, Copy)]
    enum Does {
        Sends(usize),
        Reads,
        /// Sends FIN: shutdown(2) of the sending direction.
        Finishes,
        Closes,
        /// Makes its close a reset (SO_LINGER of 0 s), and closes.
        Resets,
    }
    use Does::{Closes, Finishes, Reads, Resets, Sends};

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Near(Does),
        Far(Does),
        /// The peer does so while the program waits in a read.
        FarWhileNearReads(Does),
    }
    use Step::{Far, FarWhileNearReads, Near};

    const WAYS: &[(&str, &[Step])] = &[
        (
            "FIN of the peer",
            &[Far(Finishes), Near(Reads), Near(Sends(3)), Far(Reads), Near(Closes), Far(Reads)],
        ),
        (
            "FIN of the program",
            &[Near(Finishes), Far(Reads), Far(Sends(5)), Near(Reads), Far(Closes), Near(Reads)],
        ),
        ("both finish", &[Near(Finishes), Far(Finishes), Near(Reads), Far(Reads)]),
        ("send after FIN", &[Near(Finishes), Near(Sends(1))]),
        ("peer closes", &[Far(Closes), Near(Reads), Near(Sends(1)), Near(Sends(1)), Near(Reads)]),
        ("peer closes in a read", &[FarWhileNearReads(Closes), Near(Reads)]),
        ("peer resets", &[Far(Resets), Near(Reads), Near(Reads), Near(Sends(1))]),
        ("peer resets, send first", &[Far(Resets), Near(Sends(1)), Near(Reads)]),
        ("peer resets in a read", &[FarWhileNearReads(Resets), Near(Reads), Near(Sends(1))]),
        (
            "peer resets behind unread bytes",
            &[Far(Sends(7)), Far(Resets), Near(Reads), Near(Reads)],
        ),
        (
            "peer closes with unread bytes",
            &[Near(Sends(9)), Far(Closes), Near(Reads), Near(Sends(1))],
        ),
        (
            "peer resets after FIN of the program",
            &[Near(Finishes), Far(Resets), Near(Reads), Near(Reads)],
        ),
        ("program closes", &[Near(Sends(4)), Near(Closes), Far(Reads), Far(Reads)]),
        (
            "program closes with unread bytes",
            &[Far(Sends(6)), Near(Closes), Far(Reads), Far(Sends(1))],
        ),
        ("program closes, peer sends", &[Near(Closes), Far(Sends(1)), Far(Sends(1)), Far(Reads)]),
        ("program resets", &[Near(Resets), Far(Reads), Far(Sends(1))]),
        (
            "program resets behind its bytes",
            &[Near(Sends(8)), Far(Reads), Near(Resets), Far(Reads)],
        ),
    ];

    /// What cannot be as at the host: behind FIN of one end, a connection cannot return any more, and its
    /// program reads the end of the stream where it would read the reset.
    const NOT_NATIVE: &[(&str, &str)] = &[(
        "peer resets after FIN of the program",
        "near finishes, far closes, near reads 0, near reads 0",
    )];

    fn read(socket: &OwnedFd) -> String {
        let mut buffer = [0; 64];
        match socket::receive(socket, &mut buffer) {
            Ok(count) => format!("reads {count}"),
            Err(error) => format!("reads {:?}", error.kind()),
        }
    }

    fn act(socket: &OwnedFd, does: Does) -> String {
        match does {
            Sends(count) => match socket::send(socket, &[7; 64][..count]) {
                Ok(sent) => format!("sends {sent}"),
                Err(error) => format!("sends {:?}", error.kind()),
            },
            Reads => read(socket),
            Finishes => {
                socket_swap::end_sending(socket);
                "finishes".to_owned()
            }
            Closes | Resets => {
                // the number stays: the file behind it is closed
                let nothing = File::open("/dev/null").unwrap();
                if matches!(does, Resets) {
                    // the program of a connection at the adapter has set it before
                    let _ = socket_swap::reset_on_close(socket);
                }
                socket_swap::replace(socket, nothing).unwrap();
                "closes".to_owned()
            }
        }
    }

    /// What both ends see.
    fn seen(steps: &[Step], offloaded: bool) -> Vec<String> {
        let mut testbed = Testbed::new(0);
        let (near, far) = testbed.sockets();
        for end in [&near, &far] {
            socket::set_receive_timeout(end, TIMEOUT).unwrap();
        }
        if steps.iter().any(|step| matches!(step, Near(Resets))) {
            socket_swap::reset_on_close(&near).unwrap();
        }
        if offloaded {
            testbed.offload();
        }
        let mut all = Vec::new();
        for step in steps {
            match *step {
                Near(does) => all.push(format!("near {}", act(&near, does))),
                Far(does) => all.push(format!("far {}", act(&far, does))),
                FarWhileNearReads(does) => {
                    let result = Arc::new(Mutex::new(String::new()));
                    let reader = talker({
                        let (near, result) = (Arc::clone(&near), Arc::clone(&result));
                        move |parking, _| {
                            let mut buffer = [0; 64];
                            let read = parking.call(|| socket::receive(&near, &mut buffer));
                            let read = read.map_err(|error| error.kind());
                            *result.lock().unwrap() = format!("{read:?}");
                        }
                    });
                    std::thread::sleep(PAUSE);
                    act(&far, does);
                    let deadline = Instant::now() + TIMEOUT / 2;
                    while !reader.handle.is_finished() && Instant::now() < deadline {
                        if testbed.asks() && reader.parking.park(reader.thread).is_ok() {
                            testbed.tend();
                            reader.parking.release();
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    reader.handle.join().unwrap();
                    all.push(format!("near waits and reads {}", result.lock().unwrap()));
                }
            }
            std::thread::sleep(PAUSE);
            if testbed.tend() {
                std::thread::sleep(PAUSE);
            }
        }
        all
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn every_way_to_end() {
        if !common::in_a_host() {
            return;
        }
        let mut different = Vec::new();
        for (way, steps) in WAYS {
            let (native, offloaded) = (seen(steps, false), seen(steps, true));
            println!("{way}: {}", native.join(", "));
            let known = NOT_NATIVE.iter().find(|(of, _)| of == way);
            let expected = known.map_or(native.join(", "), |(_, seen)| (*seen).to_owned());
            if offloaded.join(", ") != expected {
                different.push(format!("{way}: {native:?}, at the adapter {offloaded:?}"));
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}
