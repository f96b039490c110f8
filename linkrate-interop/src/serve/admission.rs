//! Who is let in: connections that have not begun a test, and tests that run. Both have a bound in all and one for each
//! client, which is an address, or the /64 of one of IPv6.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linkrate_sys::socket::shut_down;

use super::Limits;
use super::report::{Ending, SessionReport};

/// Most connections of one client that have not begun a test are this part of all.
const PART_OF_CLIENT: usize = 4;

/// Lines for clients that have not begun a test come at most so often.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// Who is let in to the server of a program.
#[derive(Debug)]
pub(super) struct Admission<'a> {
    program: &'static str,
    pub(super) limits: &'a Limits,
    /// Most connections that have not begun a test.
    most: usize,
    next: AtomicU64,
    /// They, in the order in which they came.
    pending: Mutex<BTreeMap<u64, (IpAddr, Arc<TcpStream>)>>,
    /// Tests that run, by client.
    tests: Mutex<HashMap<IpAddr, u32>>,
    unsaid: Mutex<Unsaid>,
}

/// Lines that were left out since the last one.
#[derive(Debug, Default)]
struct Unsaid {
    last: Option<Instant>,
    count: u64,
    report: Option<SessionReport>,
}

/// A connection that has not begun a test, until it is dropped.
#[derive(Debug)]
pub(super) struct Pending<'a> {
    admission: &'a Admission<'a>,
    /// Its place in the order in which all came.
    pub(super) place: u64,
}

/// The place of a test that runs, until it is dropped.
#[derive(Debug)]
pub(super) struct Running<'a> {
    admission: &'a Admission<'a>,
    client: IpAddr,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        lock(&self.admission.pending).remove(&self.place);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut tests = lock(&self.admission.tests);
        let count = tests.get_mut(&self.client).map(|count| {
            *count -= 1;
            *count
        });
        if count == Some(0) {
            tests.remove(&self.client);
        }
    }
}

impl<'a> Admission<'a> {
    /// Of the server of `program`, with at most so many connections that have not begun a test.
    pub(super) fn new(program: &'static str, limits: &'a Limits, most: usize) -> Self {
        Self {
            program,
            limits,
            most,
            next: AtomicU64::new(0),
            pending: Mutex::default(),
            tests: Mutex::default(),
            unsaid: Mutex::default(),
        }
    }

    /// Most threads: of tests, and of connections before and behind one.
    pub(super) fn most_threads(&self) -> usize {
        /// Those that end.
        const ENDING: usize = 64;
        self.most + self.limits.sessions as usize + ENDING
    }

    /// Takes a connection. Where it is one too many, the oldest one of this client or else of all is closed: one that
    /// has something to ask asks at once. Returns whether that was so.
    pub(super) fn arrived(
        &'a self,
        stream: &Arc<TcpStream>,
        client: IpAddr,
    ) -> (Pending<'a>, bool) {
        let client = network(client);
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let mut pending = lock(&self.pending);
        let of_client = |pending: &BTreeMap<_, (IpAddr, _)>| {
            pending.values().filter(|(other, _)| *other == client).count()
        };
        let crowd = pending.len() >= self.most / PART_OF_CLIENT
            && of_client(&pending) >= (self.most / PART_OF_CLIENT).max(1);
        let oldest = match crowd {
            true => pending.iter().find(|(_, (other, _))| *other == client),
            false if pending.len() >= self.most => pending.iter().next(),
            false => None,
        };
        let oldest = oldest.map(|(place, _)| *place);
        if let Some((_, stream)) = oldest.and_then(|place| pending.remove(&place)) {
            // its thread sees the end
            shut_down(&*stream);
        }
        pending.insert(place, (client, Arc::clone(stream)));
        (Pending { admission: self, place }, oldest.is_some())
    }

    /// The place of a test, or why there is none.
    pub(super) fn begin(&'a self, client: IpAddr) -> Result<Running<'a>, String> {
        let client = network(client);
        let mut tests = lock(&self.tests);
        if tests.values().sum::<u32>() >= self.limits.sessions {
            return Err(self.limits.full());
        }
        let count = tests.entry(client).or_default();
        if *count >= self.limits.client_sessions {
            return Err(self.limits.full_of_client());
        }
        *count += 1;
        Ok(Running { admission: self, client })
    }

    /// Whether a test could begin in no case.
    pub(super) fn is_full(&self) -> bool {
        lock(&self.tests).values().sum::<u32>() >= self.limits.sessions
    }

    /// Says what became of a client that has not begun a test: one line a second, with the number of those that were
    /// left out.
    pub(super) fn say(&self, report: SessionReport, ended: &impl Fn(&SessionReport)) {
        let mut unsaid = lock(&self.unsaid);
        unsaid.count += 1;
        unsaid.report = Some(report);
        drop(unsaid);
        self.say_rest(ended);
    }

    /// The same of one of which nothing more is known.
    pub(super) fn say_of(
        &self,
        client: SocketAddr,
        ending: Ending,
        ended: &impl Fn(&SessionReport),
    ) {
        self.say(SessionReport { ending, ..SessionReport::of(self.program, Some(client)) }, ended);
    }

    /// Says what was left out, if it is time.
    pub(super) fn say_rest(&self, ended: &impl Fn(&SessionReport)) {
        let mut unsaid = lock(&self.unsaid);
        if unsaid.last.is_some_and(|last| last.elapsed() < BETWEEN_LINES) {
            return;
        }
        let Some(mut report) = unsaid.report.take() else { return };
        let others = std::mem::take(&mut unsaid.count).saturating_sub(1);
        unsaid.last = Some(Instant::now());
        drop(unsaid);
        if others > 0 {
            let reason = match report.ending {
                Ending::Refused(reason) | Ending::Failed(reason) => reason,
                _ => "the client has left".to_owned(),
            };
            report.ending = Ending::Refused(format!("{reason}; {others} others without a test"));
            report.others = others;
        }
        ended(&report);
    }
}

/// What counts as one client: an address of IPv4, or 64 bits of one of IPv6.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::Mutex;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn connection() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        far.set_nonblocking(true).unwrap();
        (Arc::new(listener.accept().unwrap().0), far)
    }

    /// Whether the near end has closed it.
    fn is_closed(mut far: &TcpStream) -> bool {
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            matches!(far.read(&mut [0]), Ok(0))
        })
    }

    #[test]
    fn the_oldest_connection_makes_room_first_one_of_the_same_client() {
        let limits = Limits::default();
        let admission = Admission::new("iperf3", &limits, 8);
        let mut held = Vec::new();
        let mut arrive = |client: &str| {
            let (near, far) = connection();
            let (pending, has_closed) = admission.arrived(&near, ip(client));
            held.push((pending, near, far));
            has_closed
        };
        assert!(!arrive("192.0.2.9"));
        // two are a quarter of all, and a /64 is one client
        for client in ["2001:db8::1", "2001:db8::2"] {
            assert!(!arrive(client));
        }
        assert!(arrive("2001:db8::3"));
        for last in 10..15 {
            assert!(!arrive(&format!("192.0.2.{last}")));
        }
        assert!(arrive("192.0.2.77"));
        let closed: Vec<bool> = held.iter().map(|(_, _, far)| is_closed(far)).collect();
        let of =
            |places: [usize; 2]| (0..10).map(|place| places.contains(&place)).collect::<Vec<_>>();
        assert_eq!(closed, of([0, 1]));
        held.clear();
        assert!(lock(&admission.pending).is_empty());
    }

    #[test]
    fn tests_are_bounded_in_all_and_for_each_client() {
        let limits = Limits { sessions: 3, client_sessions: 2, ..Limits::default() };
        let admission = Admission::new("netperf", &limits, 8);
        let first = admission.begin(ip("::ffff:192.0.2.1")).unwrap();
        let _second = admission.begin(ip("192.0.2.1")).unwrap();
        let refused = admission.begin(ip("192.0.2.1")).unwrap_err();
        assert_eq!(refused, "more than 2 sessions of one client");
        assert!(!admission.is_full());
        let _third = admission.begin(ip("192.0.2.2")).unwrap();
        assert!(admission.is_full());
        assert_eq!(admission.begin(ip("192.0.2.3")).unwrap_err(), "more than 3 sessions");
        drop(first);
        admission.begin(ip("192.0.2.1")).unwrap();
    }

    #[test]
    fn clients_without_a_test_have_a_line_a_second_with_their_number() {
        let limits = Limits::default();
        let admission = Admission::new("iperf3", &limits, 8);
        let lines = Mutex::new(Vec::new());
        let ended = |report: &SessionReport| lines.lock().unwrap().push(report.ending.clone());
        let refused = || Ending::Refused("no".to_owned());
        for _ in 0..1000 {
            admission.say_of("192.0.2.1:9".parse().unwrap(), refused(), &ended);
        }
        std::thread::sleep(BETWEEN_LINES);
        admission.say_rest(&ended);
        admission.say_rest(&ended);
        let all = Ending::Refused("no; 998 others without a test".to_owned());
        assert_eq!(lines.into_inner().unwrap(), [refused(), all]);
    }
}
