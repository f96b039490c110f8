//! Queues by port and by hash, and that no packet overtakes another of its flow.

use std::collections::{BTreeMap, VecDeque};

use linkrate_wire::steering::{Indirection, PortTable, Progress, SteeringError};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn place(queues: &mut [Progress], queue: u16) {
    queues[usize::from(queue)].placed += 1;
}

fn consume_all(queues: &mut [Progress]) {
    queues.iter_mut().for_each(|queue| queue.consumed = queue.placed);
}

#[test]
fn a_port_goes_to_its_queue_and_others_to_the_fallback() {
    let mut table = PortTable::new(4, SECOND);
    let queues = [Progress::default(); 3];
    table.set(80, 2, 0, &queues).expect("room");
    assert_eq!(table.lookup(80, 1, &queues, || 1), 2);
    assert_eq!(table.lookup(81, 1, &queues, || 1), 1);
    let counts = table.counts();
    assert_eq!((counts.hits, counts.misses, counts.moves), (1, 1, 1));
    assert_eq!(table.entries().collect::<Vec<_>>(), [(80, 2)]);
}

#[test]
fn a_port_stays_until_its_old_queue_is_empty() {
    let mut table = PortTable::new(4, SECOND);
    let mut queues = [Progress::default(); 3];
    // steered by the fallback, before the driver knew the port
    assert_eq!(table.lookup(80, 0, &queues, || 1), 1);
    place(&mut queues, 1);
    table.set(80, 2, 0, &queues).expect("room");
    assert_eq!(table.lookup(80, 0, &queues, || 1), 1);
    place(&mut queues, 1);
    queues[1].consumed = 1;
    assert_eq!(table.lookup(80, 0, &queues, || 1), 1);
    place(&mut queues, 1);
    consume_all(&mut queues);
    assert_eq!(table.lookup(80, 0, &queues, || 1), 2);
    place(&mut queues, 2);

    // what waits of others does not hold it up
    place(&mut queues, 0);
    table.set(80, 0, 0, &queues).expect("there");
    assert_eq!(table.lookup(80, 0, &queues, || 1), 2);
    // that one is dropped: only the one before it counts
    queues[2].consumed = 1;
    assert_eq!(table.lookup(80, 0, &queues, || 1), 0);
    assert_eq!(table.counts().moves, 2);
}

#[test]
fn a_full_table_replaces_the_longest_idle_entry() {
    let mut table = PortTable::new(2, SECOND);
    let mut queues = [Progress::default(); 2];
    table.set(1, 1, 0, &queues).expect("room");
    table.set(2, 1, 5, &queues).expect("room");
    assert_eq!(table.lookup(1, 10, &queues, || 0), 1);
    table.set(3, 1, 20, &queues).expect("one was idle");
    assert_eq!((table.entries().count(), table.counts().evicted), (2, 1));
    assert_eq!(table.lookup(2, 30, &queues, || 0), 0);

    // both in use: none can go
    for port in [1, 3] {
        assert_eq!(table.lookup(port, 30, &queues, || 0), 1);
        place(&mut queues, 1);
    }
    let error = table.set(4, 1, 3 * SECOND, &queues).expect_err("full");
    assert_eq!(
        error.to_string(),
        "port 4: all 2 entries have packets waiting, expected one without any"
    );
    assert_eq!((table.counts().refused, table.age(3 * SECOND, &queues)), (1, 0));
    consume_all(&mut queues);
    assert_eq!(table.lookup(1, 3 * SECOND, &queues, || 0), 0);
    assert_eq!(table.age(3 * SECOND, &queues), 1);
    assert!(table.is_empty());
    assert_eq!(table.counts().aged, 2);
}

#[test]
fn refuses_a_missing_queue() {
    let error = PortTable::new(2, 0).set(9, 4, 0, &[Progress::default(); 4]).expect_err("no queue");
    assert_eq!(error, SteeringError::Queue { port: 9, queue: 4, queues: 4 });
    assert_eq!(error.to_string(), "port 9: queue is 4, expected less than 4");
}

#[derive(Debug, Clone)]
enum Event {
    Set { port: u16, queue: u16 },
    SetBucket { bucket: usize, queue: u16 },
    Packet { port: u16, hash: u32, dropped: bool },
    Consume { queue: usize, packets: usize },
    Pass { ns: u64 },
    Age,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0u16..5, 0u16..4).prop_map(|(port, queue)| Event::Set { port, queue }),
        1 => (0usize..3, 0u16..3).prop_map(|(bucket, queue)| Event::SetBucket { bucket, queue }),
        8 => (0u16..5, 0u32..3, prop::bool::weighted(0.1))
            .prop_map(|(port, hash, dropped)| Event::Packet { port, hash, dropped }),
        6 => (0usize..3, 1usize..4).prop_map(|(queue, packets)| Event::Consume { queue, packets }),
        1 => (0u64..20).prop_map(|ns| Event::Pass { ns }),
        1 => Just(Event::Age),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_two_packets_of_a_flow_wait_in_two_queues(
        events in prop::collection::vec(event(), 0..200),
        capacity in 1usize..4,
        by_hash: bool,
    ) {
        let mut table = PortTable::new(capacity, 10);
        let mut indirection = Indirection::new(2);
        let mut queues = [Progress::default(); 3];
        let mut waiting: [VecDeque<(u16, u32)>; 3] = Default::default();
        let mut now = 0;
        for event in events {
            match event {
                Event::Set { port, queue } => {
                    let known = queue < 3;
                    let result = table.set(port, queue, now, &queues);
                    prop_assert!(known || result.is_err());
                }
                Event::SetBucket { bucket, queue } => indirection.set(bucket, queue),
                Event::Packet { port, hash, dropped } => {
                    let fallback = || if by_hash { indirection.lookup(hash, &queues) } else { 0 };
                    let queue = table.lookup(port, now, &queues, fallback);
                    if !dropped {
                        place(&mut queues, queue);
                        // without a hash, all packets to a port are one flow
                        waiting[usize::from(queue)].push_back((port, if by_hash { hash } else { 0 }));
                    }
                }
                Event::Consume { queue, packets } => {
                    let packets = packets.min(waiting[queue].len());
                    waiting[queue].drain(..packets);
                    queues[queue].consumed += packets as u64;
                }
                Event::Pass { ns } => now += ns,
                Event::Age => {
                    table.age(now, &queues);
                }
            }
            let mut places: BTreeMap<(u16, u32), usize> = BTreeMap::new();
            for (queue, flows) in waiting.iter().enumerate() {
                for flow in flows {
                    prop_assert_eq!(*places.entry(*flow).or_insert(queue), queue, "{:?}", flow);
                }
            }
            prop_assert!(table.entries().count() <= capacity);
        }
        // nothing is held up for ever
        for (waiting, queue) in waiting.iter_mut().zip(&mut queues) {
            waiting.clear();
            queue.consumed = queue.placed;
        }
        let entries: Vec<(u16, u16)> = table.entries().collect();
        for (port, queue) in entries {
            let found = table.lookup(port, 0, &queues, || 0);
            prop_assert_eq!(found, queue);
        }
    }
}
