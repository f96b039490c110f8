//! Whatever frames, gaps, markers and ports come, each frame leaves by an active port, no frame
//! overtakes another of its flow, and nothing is counted twice.

#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use linkrate_wire::balance::{Balance, Balancer, PortIndex};

const PORTS: u8 = 4;
/// The delay of the path of each port.
const DELAYS: [u64; PORTS as usize] = [0, 40, 100, 200];
const QUIET: u64 = 200;

fuzz_target!(|bytes: &[u8]| {
    let Some((&policy, events)) = bytes.split_first() else {
        return;
    };
    let balance = Balance::ALL[usize::from(policy) % Balance::ALL.len()];
    let mut balancer = Balancer::new(balance, PORTS.into(), QUIET).expect("four ports");
    let mut active: Vec<u8> = (0..PORTS).collect();
    // of each flow, the arrival of its last frame and the port it left by
    let mut last: HashMap<u8, (u64, u8)> = HashMap::new();
    // port, sending and arrival of each marker
    let mut markers: Vec<(u8, u64, u64)> = Vec::new();
    let (mut now, mut frames) = (0u64, 0);
    // what happens, and to whom
    for event in events.chunks_exact(3) {
        let [kind, a, b] = [event[0] % 8, event[1], event[2]];
        match kind {
            0 => {
                active = (0..PORTS).filter(|port| a >> port & 1 == 1).collect();
                let ports: Vec<PortIndex> = active.iter().copied().map(PortIndex).collect();
                balancer.set_active(now, &ports).expect("ports of the aggregate");
                // what was on the path of a port that leaves is lost
                last.retain(|_, (_, port)| active.contains(port));
                markers.retain(|(port, ..)| active.contains(port));
            }
            1 => {
                let port = a % PORTS;
                if active.contains(&port) {
                    markers.push((port, now, now + DELAYS[usize::from(port)]));
                }
            }
            2 => now += u64::from(a),
            3 => now += u64::from(a) << (b % 40),
            _ => {
                let flow = a % 16;
                // an entry of its own by each field
                let frame = [0, 0, 0, 0, 0, flow, 0, 0, 0, 0, 0, 0, 8, 6];
                let length = 14 + 256 * usize::from(b);
                let port = balancer.choose(now, &frame, length, flow.into());
                assert_eq!(port.is_some(), !active.is_empty());
                let Some(PortIndex(port)) = port else { continue };
                assert!(active.contains(&port));
                frames += 1;
                let arrival = now + DELAYS[usize::from(port)];
                let before = last.insert(flow, (arrival, port));
                if let Some((earlier, from)) = before.filter(|_| !balance.reorders()) {
                    assert!(earlier < arrival || from == port, "flow {flow} is reordered");
                }
            }
        }
        for (port, sent, _) in markers.extract_if(.., |(_, _, at)| *at <= now) {
            balancer.marker_answered(PortIndex(port), sent);
        }
        for entry in balancer.entries() {
            assert!(active.contains(&entry.port.0) && active.contains(&entry.wanted.0));
        }
    }
    assert_eq!(balancer.shares().iter().map(|share| share.frames).sum::<u64>(), frames);
    // a frame of any bytes has an entry, if it is not for a group of stations
    let entry = balancer.entry_of(bytes, bytes.len(), 0);
    let is_for_a_group = bytes.len() >= 6 && bytes[0] & 1 == 1;
    assert_eq!(entry.is_none(), balance == Balance::RoundRobin || is_for_a_group);
});
