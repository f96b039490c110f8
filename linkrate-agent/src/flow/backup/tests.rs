//! Tests of a client and a sink over a real connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use linkrate_model::backup::{Backup, FileSizes};
use linkrate_model::{ByteSize, MessageSize};

use super::super::{Control, Flow};
use super::header::FilePath;
use super::*;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn tree() -> Tree {
    let directory = std::env::temp_dir().display().to_string();
    let files = FileSizes::One(ByteSize(30_000));
    Tree::new(&Backup { files, tree: ByteSize(90_000), directory, ..Backup::default() }, 5).unwrap()
}

fn client(stream: TcpStream, control: &Arc<Control>) -> Flow {
    let socket = Arc::new(OwnedFd::from(stream));
    let shared = Some(Arc::clone(&socket));
    Flow::spawn("send 0.0".to_owned(), control, shared, true, move |flow| {
        let sizes = Sizes::new(MessageSize::Fixed(ByteSize(4096)), 1);
        send(flow, &socket, &tree(), sizes)
    })
    .unwrap()
}

fn sinking(stream: TcpStream, control: &Arc<Control>, rate: u64) -> Flow {
    let socket = Arc::new(OwnedFd::from(stream));
    let shared = Some(Arc::clone(&socket));
    Flow::spawn("sink 0.0".to_owned(), control, shared, false, move |flow| {
        sink(flow, &socket, &Drive::new(rate))
    })
    .unwrap()
}

fn reason(flow: Flow) -> Option<String> {
    flow.join(Instant::now() + Duration::from_secs(5)).0
}

#[test]
fn files_arrive_with_their_checksums_at_the_rate_of_the_drive() {
    let (near, far) = pair();
    let control = Arc::new(Control::default());
    let flows = [client(near, &control), sinking(far, &control, 3_000_000)];
    control.begin();
    control.open_measurement();
    let begun = Instant::now();
    while flows[1].counters.transactions() < 30 {
        assert!(!flows.iter().any(Flow::has_ended));
        std::thread::sleep(Duration::from_millis(1));
    }
    // 30 files of 30,000 bytes in 0.3 s, less the credit
    let elapsed = begun.elapsed();
    assert!(elapsed > Duration::from_millis(280), "{elapsed:?}");
    control.stop();
    flows.iter().for_each(|flow| socket::shut_down(flow.socket.as_ref().unwrap()));
    let deadline = Instant::now() + Duration::from_secs(5);
    let [sent, sunk] = flows.map(|flow| flow.join(deadline));
    assert_eq!((sent.0, sunk.0), (None, None));
    assert!(sent.1.all.len() >= 25, "{} response times", sent.1.all.len());
}

#[test]
fn a_file_without_its_checksum_breaks_the_sink() {
    let (mut near, far) = pair();
    let control = Arc::new(Control::default());
    let flow = sinking(far, &control, 1 << 30);
    control.begin();
    let header = Header { number: 0, length: 9, checksum: 0xcbf4_3926, path: FilePath::of(0) };
    near.write_all(&header.to_bytes()).unwrap();
    near.write_all(b"123456789").unwrap();
    let mut word = [0; WORD_BYTES];
    near.read_exact(&mut word).unwrap();
    assert_eq!(u64::from_be_bytes(word), 1);
    near.write_all(&Header { number: 1, ..header }.to_bytes()).unwrap();
    near.write_all(b"123456780").unwrap();
    let reason = reason(flow).unwrap();
    assert!(reason.contains("file 1 (d0000/f000000) has checksum"), "{reason}");
}

#[test]
fn a_header_that_is_not_the_next_breaks_the_sink() {
    let (mut near, far) = pair();
    let control = Arc::new(Control::default());
    let flow = sinking(far, &control, 1 << 30);
    control.begin();
    let header = Header { number: 4, length: 9, checksum: 0, path: FilePath::of(0) };
    near.write_all(&header.to_bytes()).unwrap();
    let reason = reason(flow).unwrap();
    assert!(reason.ends_with("file 4 came, expected 0"), "{reason}");
}

#[test]
fn a_sink_that_counts_otherwise_breaks_the_client() {
    let (near, mut far) = pair();
    let control = Arc::new(Control::default());
    let flow = client(near, &control);
    control.begin();
    far.read_exact(&mut [0; HEADER_BYTES]).unwrap();
    far.write_all(&2_u64.to_be_bytes()).unwrap();
    let mut rest = Vec::new();
    let reason = std::thread::spawn(move || {
        let _ = far.read_to_end(&mut rest);
    });
    let broken = self::reason(flow).unwrap();
    assert!(broken.ends_with("the sink has 2 files, expected 1"), "{broken}");
    reason.join().unwrap();
}
