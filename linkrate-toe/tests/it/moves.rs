//! A connection under traffic in both directions moves down and up: every byte arrives, and nothing is
//! reset.

use crate::{common, wire};
/// How many moves down and up.
fn cycles(default: u32) -> u32 {
    std::env::var("LINKRATE_TOE_MOVES").ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

#[test]
fn a_busy_connection_moves_without_a_wrong_byte() {
    common::run_inside("moves::inside::without_loss");
}

#[test]
fn a_busy_connection_moves_under_loss() {
    common::run_inside("moves::inside::with_little_loss");
    common::run_inside("moves::inside::with_loss");
}

#[test]
fn a_segment_that_is_lost_after_a_move_comes_again_as_early_as_any_other() {
    common::run_inside("moves::inside::lost_after_a_move");
}

#[test]
fn a_closed_window_opens_at_the_adapter_when_the_program_reads() {
    common::run_inside("moves::inside::closed_window");
}

#[test]
fn buffers_of_a_slow_reader_and_a_slow_sender_do_not_grow_with_their_moves() {
    common::run_inside("moves::inside::slow");
}

#[test]
fn an_idle_connection_is_no_news() {
    common::run_inside("moves::inside::news");
}

mod inside {
    use std::io::ErrorKind;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use linkrate_model::lab::Asked;
    use linkrate_sys::{socket, socket_swap, tcp_repair};

    use super::{common, cycles, wire};

    /// Time in which what one end does reaches the other one.
    const PAUSE: Duration = Duration::from_millis(100);

    #[test]
    #[ignore = "runs in a host of its own"]
    fn lost_after_a_move() {
        if !common::in_a_host() {
            return;
        }
        let mut testbed = wire::Testbed::new(0);
        let (near, far) = testbed.sockets();
        let mut byte = [0];
        for down in [true, false] {
            testbed.move_to(down);
            testbed.lose_all(true);
            let began = Instant::now();
            assert_eq!(socket::send(&near, b"!").unwrap(), 1);
            std::thread::sleep(PAUSE);
            testbed.lose_all(false);
            assert_eq!(socket::receive(&far, &mut byte).unwrap(), 1);
            let took = began.elapsed();
            // the least time-out of Linux is 200 ms; one that knows no round trip waits 1 s
            assert!(took > PAUSE && took < Duration::from_millis(700), "down {down}: {took:?}");
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn closed_window() {
        if !common::in_a_host() {
            return;
        }
        let mut testbed = wire::Testbed::new(0);
        let (near, far) = testbed.sockets();
        // until the peer's probes of the window are more than 2 s apart
        let (began, mut sent) = (Instant::now(), 0);
        let mut bytes = vec![7; 65_536];
        while began.elapsed() < Duration::from_millis(3600) {
            match socket::send_now(&far, &bytes) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        testbed.offload();
        let (began, mut received) = (Instant::now(), 0);
        while received < sent {
            received += socket::receive(&near, &mut bytes).unwrap();
        }
        let took = began.elapsed();
        assert!(took < Duration::from_millis(1500), "{took:?} for {received} bytes");
    }

    /// Sends until there has been no room for a while.
    fn send_all(socket: &impl AsFd) -> usize {
        let (bytes, mut sent, mut last) = (vec![7; 65_536], 0, Instant::now());
        while last.elapsed() < PAUSE {
            match socket::send_now(socket, &bytes) {
                Ok(count) => (sent, last) = (sent + count, Instant::now()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        sent
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn slow() {
        if !common::in_a_host() {
            return;
        }
        let mut testbed = wire::Testbed::new(0);
        let (near, far) = testbed.sockets();
        // nobody reads
        let mut sent = [&near, &far].map(send_all);
        let first = socket_swap::buffers(&near).unwrap();
        for moves in 1..=5 {
            for down in [true, false] {
                testbed.move_to(down);
                for (sent, from) in sent.iter_mut().zip([&near, &far]) {
                    *sent += send_all(from);
                }
            }
            // the adapter takes a window of its own, which the host must have room for
            let unread = tcp_repair::readable(&near).unwrap();
            let now = socket_swap::buffers(&near).unwrap();
            println!("{moves}: {now:?} for {unread} bytes, before {first:?}");
            let is_small = now.receive <= unread * 2 + first.receive && now.send <= first.send * 2;
            assert!(is_small, "{moves}: {now:?} for {unread} bytes, before {first:?}");
        }
        // every byte is there
        for (sent, to) in sent.into_iter().zip([&far, &near]) {
            socket::set_receive_timeout(to, PAUSE * 50).unwrap();
            let (mut received, mut bytes) = (0, vec![0; 65_536]);
            while received < sent {
                received += socket::receive(to, &mut bytes).unwrap();
            }
            assert_eq!(received, sent);
        }
        // without bytes that wait, it is as it was
        let before = socket_swap::buffers(&near).unwrap();
        for down in [true, false, true, false] {
            testbed.move_to(down);
        }
        assert_eq!(socket_swap::buffers(&near).unwrap(), before);
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn news() {
        if !common::in_a_host() {
            return;
        }
        let mut testbed = wire::Testbed::new(0);
        let (near, far) = testbed.sockets();
        let (look, mut bytes) = (Asked::News, [0; 8]);
        assert!(testbed.look(look).is_empty());
        testbed.offload();
        assert_eq!(testbed.look(look).len(), 1, "it has come");
        assert!(testbed.look(look).is_empty());
        assert_eq!(socket::send(&near, b"bytes").unwrap(), 5);
        assert_eq!(socket::receive(&far, &mut bytes).unwrap(), 5);
        std::thread::sleep(PAUSE);
        let told = testbed.look(look);
        assert_eq!(told.iter().map(|of| (of.id, of.sent)).collect::<Vec<_>>(), [(1, 5)]);
        assert!(testbed.look(look).is_empty(), "it is idle");
        assert_eq!((testbed.look(Asked::All).len(), testbed.look(Asked::One(1)).len()), (1, 1));
        assert!(testbed.look(Asked::One(2)).is_empty());
        // bytes that nobody acknowledges are news as long as that lasts
        testbed.lose_all(true);
        assert_eq!(socket::send(&near, b"!").unwrap(), 1);
        std::thread::sleep(PAUSE * 10);
        for _ in 0..2 {
            let told = testbed.look(look);
            assert!(told.len() == 1 && told[0].timeouts >= 1, "{told:?}");
        }
        testbed.lose_all(false);
        assert_eq!(socket::receive(&far, &mut bytes).unwrap(), 1);
        std::thread::sleep(PAUSE);
        let _ = testbed.look(look);
        assert!(testbed.look(look).is_empty());
        // an end is told of once
        for end in [&near, &far] {
            linkrate_sys::socket_swap::end_sending(end);
        }
        std::thread::sleep(PAUSE);
        let told = testbed.look(look);
        assert!(told.len() == 1 && told[0].ended, "{told:?}");
        assert!(testbed.look(look).is_empty() && testbed.look(Asked::All).is_empty());
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn without_loss() {
        if common::in_a_host() {
            wire::Testbed::new(0).carry(cycles(20));
        }
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn with_little_loss() {
        if common::in_a_host() {
            wire::Testbed::new(333).carry(cycles(8));
        }
    }

    #[test]
    #[ignore = "runs in a host of its own"]
    fn with_loss() {
        if common::in_a_host() {
            wire::Testbed::new(50).carry(cycles(8));
        }
    }
}
