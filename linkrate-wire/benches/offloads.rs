//! What one core does of each offload, in memory that is in its cache: `cargo bench -p
//! linkrate-wire`. Takes a few seconds and judges nothing.

use std::hint::black_box;
use std::time::{Duration, Instant};

use linkrate_wire::atm::cell::{self, Headers as CellHeaders};
use linkrate_wire::atm::{Connection, Reassembler, Segmenter, hec, reassembly::Completed};
use linkrate_wire::balance::{Balance, Balancer, PortIndex};
use linkrate_wire::checksum::Sum;
use linkrate_wire::frame::{Headers, Verification};
use linkrate_wire::lro::{Coalescer, Delivery};
use linkrate_wire::segment::{Cut, Request};
use linkrate_wire::toeplitz::{MICROSOFT_KEY, Toeplitz};
use linkrate_wire::tso;

/// Repetitions, of which the median is shown. They are shorter than a scheduler's time slice, so
/// that few are interrupted and the median is none of those.
const REPETITIONS: usize = 201;
const REPETITION: Duration = Duration::from_millis(1);

/// Together they fit the second-level cache of most cores.
const SUPERFRAMES: usize = 4;
/// Payload of a superframe: what an IP packet holds beside its headers, in whole segments.
const MAX: usize = 65_535 - 40 - 12;

/// What one call did.
struct Done {
    bytes: usize,
    /// Frames, or hashes.
    pieces: usize,
}

fn main() {
    println!(
        "one core, median of {REPETITIONS} repetitions of {} ms\n\n{:44} {:>9} {:>13} {:>10}",
        REPETITION.as_millis(),
        "",
        "GB/s",
        "pieces/s",
        "ns/piece"
    );
    checksums();
    for segment in [1448, 8948] {
        segmentation(segment);
        reassembly(segment);
    }
    hashes();
    balancing();
    aal5();
}

/// Runs `work` over and over and prints a line.
fn measure(what: &str, mut work: impl FnMut() -> Done) {
    let mut rates: Vec<(f64, f64)> = (0..REPETITIONS)
        .map(|_| {
            let (mut bytes, mut pieces) = (0, 0);
            let begun = Instant::now();
            let mut seconds = 0.0;
            while seconds < REPETITION.as_secs_f64() {
                for _ in 0..4 {
                    let done = work();
                    bytes += done.bytes;
                    pieces += done.pieces;
                }
                seconds = begun.elapsed().as_secs_f64();
            }
            (pieces as f64 / seconds, bytes as f64 / seconds)
        })
        .collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (pieces, bytes) = rates[REPETITIONS / 2];
    println!("{what:44} {:9.2} {pieces:13.0} {:10.1}", bytes / 1e9, 1e9 / pieces);
}

fn checksums() {
    let bytes: Vec<u8> = (0..0x10000).map(|at| (at * 7 + at / 251) as u8).collect();
    for length in [20, 64, 1448, 0x10000] {
        measure(&format!("checksum of {length} bytes"), || {
            for _ in 0..32 {
                black_box(Sum::of(black_box(&bytes[..length])));
            }
            Done { bytes: 32 * length, pieces: 32 }
        });
    }
}

/// TCP over IPv4 with timestamps, the payload a multiple of `segment`.
fn superframes(segment: usize) -> Vec<Vec<u8>> {
    let payload = MAX / segment * segment;
    let superframe = |index: usize| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0];
        frame.extend(u16::try_from(20 + 32 + payload).expect("an IP packet").to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x30, 0x39, 0x14, 0x51]);
        let sequence = u32::try_from(index * payload).expect("few bytes");
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 1, 0x80, 0x10, 1, 0xf5, 0, 0, 0, 0]);
        frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        frame.extend((0..payload).map(|at| (at * 7 + at / 251 + index) as u8));
        frame
    };
    (0..SUPERFRAMES).map(superframe).collect()
}

fn cut(superframe: &[u8], segment: usize, headers: &mut Vec<u8>, cuts: &mut Vec<Cut>) {
    headers.clear();
    cuts.clear();
    let request = Request::new(u16::try_from(segment).expect("a segment size"));
    tso::cut_into(superframe, &request, headers, cuts, |_| ()).expect("a good superframe");
}

fn segmentation(segment: usize) {
    let superframes = superframes(segment);
    let (mut headers, mut cuts, mut next) = (Vec::new(), Vec::new(), 0);
    measure(&format!("cut and checksum, segments of {segment}"), || {
        let superframe = &superframes[next % SUPERFRAMES];
        next += 1;
        cut(superframe, segment, &mut headers, &mut cuts);
        black_box((&headers, &cuts));
        Done { bytes: superframe.len(), pieces: cuts.len() }
    });
}

fn reassembly(segment: usize) {
    let superframes = superframes(segment);
    let cut_up: Vec<(Vec<u8>, Vec<Cut>)> = superframes
        .iter()
        .map(|superframe| {
            let (mut headers, mut cuts) = (Vec::new(), Vec::new());
            cut(superframe, segment, &mut headers, &mut cuts);
            (headers, cuts)
        })
        .collect();
    let frames = |next: usize| {
        let (headers, cuts) = &cut_up[next % SUPERFRAMES];
        let superframe = &superframes[next % SUPERFRAMES];
        cuts.iter().map(move |cut| (cut.header(headers), cut.payload(superframe)))
    };

    let mut next = 0;
    measure(&format!("parse, segments of {segment}"), || {
        next += 1;
        let mut done = Done { bytes: 0, pieces: 0 };
        for (head, tail) in frames(next) {
            black_box(Headers::parse_parts(head, tail.len()).expect("a good frame"));
            done.bytes += head.len() + tail.len();
            done.pieces += 1;
        }
        done
    });
    let (mut coalescer, mut next) = (Coalescer::new(8), 0);
    measure(&format!("parse and merge, segments of {segment}"), || {
        next += 1;
        merge(&mut coalescer, frames(next), false)
    });
    let (mut coalescer, mut next) = (Coalescer::new(8), 0);
    measure(&format!("parse, verify and merge, segments of {segment}"), || {
        next += 1;
        merge(&mut coalescer, frames(next), true)
    });
}

fn merge<'a>(
    coalescer: &mut Coalescer<(&'a [u8], &'a [u8])>,
    frames: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    verify: bool,
) -> Done {
    let mut done = Done { bytes: 0, pieces: 0 };
    for (head, tail) in frames {
        let headers = Headers::parse_parts(head, tail.len()).expect("a good frame");
        if verify {
            assert!(headers.network_checksum_verifies(head));
            assert_eq!(headers.transport_checksum_parts(head, tail), Verification::Right);
        }
        let offered = coalescer.offer_verified((head, tail), &headers);
        assert!(offered.flushed.is_empty());
        done.bytes += head.len() + tail.len();
        done.pieces += 1;
    }
    for delivery in coalescer.flush() {
        let Delivery::Superframe { superframe, .. } = black_box(delivery) else {
            panic!("frames that merge");
        };
        assert_eq!(superframe.segments, done.pieces);
    }
    done
}

fn hashes() {
    let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
    for (what, length) in [("IPv4 and ports", 12), ("IPv6 and ports", 36)] {
        let mut input = [7u8; 36];
        measure(&format!("Toeplitz, {what}"), || {
            for _ in 0..64 {
                input[0] = input[0].wrapping_add(1);
                black_box(toeplitz.hash(black_box(&input[..length])));
            }
            Done { bytes: 64 * length, pieces: 64 }
        });
    }
}

/// Choosing a port for a frame whose headers were not looked at before: each frame is of another
/// flow, and each thousandth comes after a gap.
fn balancing() {
    const PORTS: usize = 8;
    const FLOWS: usize = 64;
    let superframe = superframes(1448).swap_remove(0);
    let heads: Vec<Vec<u8>> = (0..FLOWS)
        .map(|flow| {
            let mut head = superframe[..66].to_vec();
            (head[5], head[29], head[35]) = (flow as u8, flow as u8, flow as u8);
            head
        })
        .collect();
    for balance in Balance::ALL {
        let mut balancer = Balancer::new(balance, PORTS, 1_000_000_000).expect("eight ports");
        let (mut now_ps, mut frames) = (0, 0usize);
        measure(&format!("choose a port of {PORTS}, {balance}"), || {
            let mut bytes = 0;
            for head in &heads {
                frames += 1;
                now_ps += if frames % 1000 == 0 { 2_000_000_000 } else { 1_000_000 };
                let port =
                    balancer.choose(now_ps, black_box(head), superframe.len(), frames as u16);
                black_box(port);
                bytes += superframe.len();
            }
            Done { bytes, pieces: FLOWS }
        });
        // all ports must have had frames
        assert!(balancer.shares().iter().all(|share| share.frames > 0), "{balance}");
        assert_eq!(balancer.active().first(), Some(&PortIndex(0)));
    }
}

/// Units of Classical IP with the usual MTU, and their cells: CRC and header error control are made,
/// and verified.
fn aal5() {
    let connection = Connection { vpi: 0, vci: 100 };
    let unit: Vec<u8> = (0..9188).map(|at| (at * 7) as u8).collect();
    let segmenter = Segmenter::new(connection);
    let mut cells = Vec::new();
    measure("AAL5 segmentation, 9188 octets", || {
        cells.clear();
        let count = segmenter.cut(&[black_box(&unit)], 0, &mut cells).expect("a unit");
        black_box(&cells);
        Done { bytes: unit.len(), pieces: count }
    });
    let headers = CellHeaders::of(connection);
    let mut line = hec::Receiver::default();
    let mut reassembler = Reassembler::new(9188, Duration::from_secs(1));
    measure("AAL5 reassembly, 9188 octets", || {
        let mut bytes = 0;
        for octets in black_box(&cells) {
            let kind =
                headers.payload_type(cell::header(octets)).expect("a cell of the connection");
            line.right();
            let completed = reassembler.take(Duration::ZERO, kind, cell::payload(octets));
            if let Some(Completed::Unit { octets, .. }) = completed {
                bytes += black_box(octets).len();
            }
        }
        assert_eq!(bytes, unit.len());
        Done { bytes, pieces: cells.len() }
    });
}
