//! Whatever driver and traffic do, no two packets of a flow wait in two queues, and nothing is held
//! up for ever.

#![no_main]

use std::collections::{HashMap, VecDeque};

use libfuzzer_sys::fuzz_target;
use linkrate_wire::steering::{Indirection, PortTable, Progress};

const QUEUES: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let Some((&capacity, events)) = bytes.split_first() else {
        return;
    };
    let mut table = PortTable::new(usize::from(capacity % 8), 16);
    let mut indirection = Indirection::new(2);
    let mut queues = [Progress::default(); QUEUES];
    let mut waiting: [VecDeque<(u16, u32)>; QUEUES] = Default::default();
    let mut now = 0;
    // what happens, and to whom
    for event in events.chunks_exact(3) {
        let [kind, a, b] = [event[0] % 8, event[1], event[2]];
        match kind {
            0 => {
                let _ = table.set((a % 8).into(), (b % 5).into(), now, &queues);
            }
            1 => indirection.set(a.into(), u16::from(b) % 4),
            2 => now += u64::from(a),
            3 => {
                table.age(now, &queues);
            }
            4 | 5 => {
                let (queue, packets) = (usize::from(a) % QUEUES, usize::from(b));
                let packets = packets.min(waiting[queue].len());
                waiting[queue].drain(..packets);
                queues[queue].consumed += packets as u64;
            }
            _ => {
                let (port, hash) = (u16::from(a % 8), u32::from(b % 4));
                let queue = table.lookup(port, now, &queues, || indirection.lookup(hash, &queues));
                let queue = usize::from(queue);
                // the others were dropped
                if b < 0xe0 {
                    queues[queue].placed += 1;
                    waiting[queue].push_back((port, hash));
                }
                let mut places = HashMap::new();
                for (queue, flow) in waiting
                    .iter()
                    .enumerate()
                    .flat_map(|(at, flows)| flows.iter().map(move |f| (at, f)))
                {
                    assert_eq!(*places.entry(*flow).or_insert(queue), queue);
                }
            }
        }
    }
    queues.iter_mut().for_each(|queue| queue.consumed = queue.placed);
    let entries: Vec<(u16, u16)> = table.entries().collect();
    for (port, queue) in entries {
        assert_eq!(table.lookup(port, 0, &queues, || 0), queue);
    }
});
