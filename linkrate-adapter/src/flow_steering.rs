//! The connections of a TCP offload engine, as the controller steers their frames.
//!
//! The controller gives orders, the device carries them out at the beginning of its next turn and
//! acknowledges each. A connection that moves is held first: its peer's frames wait in the device,
//! and what the device had handed over before has been taken when the order is acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::interface::tx_revoke::{ConnectionEnds, Span};
use crate::settings::NotAcknowledged;

/// How long a device may take to carry out an order.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two checks whether the thread of the device has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Keep the frames of the peer.
    Hold(ConnectionEnds),
    /// The same for a connection at the adapter that is to return: the host may send for it before the
    /// controller says so.
    Return(ConnectionEnds),
    /// The connection left its previous TCP stack: drop that stack's packets that are still queued.
    TakeBack(ConnectionEnds),
    /// The connection is at the adapter: frames go there, those that were kept first. The host had sent
    /// all before this sequence number.
    ToAdapter(ConnectionEnds, u32),
    /// The connection is at the host: frames go there, those that were kept first.
    ToHost(ConnectionEnds),
    /// The connection stays where it is: frames that were kept continue.
    Release(ConnectionEnds),
    /// No connection is at the adapter.
    Forget,
}

/// Why a device asks that a connection returns to the host: only the host's TCP can tell its program
/// what has arrived. The frame waits meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// The peer has reset it.
    Reset,
    /// The peer has sent urgent data (RFC 9293, 3.8.5).
    Urgent,
    /// A segment of the peer comes in fragments, which the host puts together.
    Fragment,
}

/// What the device thread calls when it asks that a connection returns. It must not wait.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// The orders of one port.
#[derive(Default)]
pub(crate) struct Orders {
    state: Mutex<State>,
    /// The number of the latest order.
    latest: AtomicU64,
    carried_out: Condvar,
    /// Who is told when the device asks.
    notify: OnceLock<Notify>,
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, latest, .. } = self;
        f.debug_struct("Orders")
            .field("state", state)
            .field("latest", latest)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<(u64, Order)>,
    /// Connections that take a place of the table.
    known: BTreeSet<ConnectionEnds>,
    /// Connections that are to return to the host.
    asks: Vec<(ConnectionEnds, Asks)>,
    /// The number of the latest order that was carried out.
    done: u64,
    /// What was taken back by orders whose answer nobody has taken yet.
    taken_back: BTreeMap<u64, Vec<Span>>,
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, State> {
        // a holder that panicked left whole values
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order. `None` when a table of `most` connections is full.
    pub(crate) fn give(&self, order: Order, most: usize) -> Option<u64> {
        let mut state = self.lock();
        match order {
            Order::Hold(ends) => {
                if !state.known.contains(&ends) && state.known.len() >= most {
                    return None;
                }
                state.known.insert(ends);
            }
            Order::ToHost(ends) => {
                state.known.remove(&ends);
            }
            Order::Forget => {
                state.known.clear();
                state.asks.clear();
            }
            Order::ToAdapter(..) | Order::Release(_) | Order::Return(_) | Order::TakeBack(_) => {}
        }
        let number = self.latest.load(Ordering::Relaxed) + 1;
        state.waiting.push((number, order));
        self.latest.store(number, Ordering::Release);
        Some(number)
    }

    /// Connections in the table.
    pub(crate) fn known(&self) -> usize {
        self.lock().known.len()
    }

    /// Waits until order number `number` was carried out.
    pub(crate) fn wait(
        &self,
        number: u64,
        ended: impl Fn() -> bool,
    ) -> Result<(), NotAcknowledged> {
        let deadline = Instant::now() + TIMEOUT;
        let mut state = self.lock();
        while state.done < number {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || ended() {
                return Err(NotAcknowledged);
            }
            let waited = self.carried_out.wait_timeout(state, left.min(POLL_INTERVAL));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// The number of the latest order. For the device.
    pub(crate) fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }

    /// The orders that were given since the last call. For the device.
    pub(crate) fn take(&self) -> Vec<(u64, Order)> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// Calls `notify` whenever the device asks that a connection returns. The first one stays.
    pub(crate) fn notify(&self, notify: &Notify) {
        self.notify.get_or_init(|| Arc::clone(notify));
    }

    /// Asks that a connection returns to the host. For the device.
    pub(crate) fn ask(&self, ends: ConnectionEnds, why: Asks) {
        self.lock().asks.push((ends, why));
        if let Some(notify) = self.notify.get() {
            notify();
        }
    }

    /// What the device has asked for since the last call.
    pub(crate) fn asked(&self) -> Vec<(ConnectionEnds, Asks)> {
        std::mem::take(&mut self.lock().asks)
    }

    /// The answer to an order to take packets back. For the device.
    pub(crate) fn took_back(&self, number: u64, payload: Vec<Span>) {
        self.lock().taken_back.insert(number, payload);
        self.acknowledge(number);
    }

    /// What was taken back by an order that was carried out.
    pub(crate) fn taken_back(&self, number: u64) -> Vec<Span> {
        self.lock().taken_back.remove(&number).unwrap_or_default()
    }

    /// All orders up to this one are carried out. For the device.
    pub(crate) fn acknowledge(&self, number: u64) {
        let mut state = self.lock();
        state.done = state.done.max(number);
        self.carried_out.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn ends(port: u16) -> ConnectionEnds {
        let address = |port| SocketAddr::new([10, 0, 0, 1].into(), port);
        ConnectionEnds { own: address(1), far: address(port) }
    }

    #[test]
    fn a_full_table_takes_no_further_connection_until_one_has_left() {
        let orders = Orders::default();
        assert_eq!(orders.give(Order::Hold(ends(1)), 1), Some(1));
        // it has its place
        assert_eq!(orders.give(Order::Hold(ends(1)), 1), Some(2));
        assert_eq!(orders.give(Order::Hold(ends(2)), 1), None);
        assert_eq!(orders.give(Order::ToHost(ends(1)), 1), Some(3));
        assert_eq!(orders.give(Order::Hold(ends(2)), 1), Some(4));
        assert_eq!((orders.known(), orders.take().len()), (1, 4));
    }

    #[test]
    fn who_listens_is_told_once_the_device_has_asked() {
        let orders = Arc::new(Orders::default());
        orders.ask(ends(1), Asks::Urgent);
        let (told, tells) = std::sync::mpsc::channel();
        let asked = Arc::clone(&orders);
        let notify: Notify = Arc::new(move || told.send(asked.asked()).unwrap());
        orders.notify(&notify);
        orders.ask(ends(2), Asks::Reset);
        let both = vec![(ends(1), Asks::Urgent), (ends(2), Asks::Reset)];
        assert_eq!(tells.try_recv(), Ok(both));
    }

    #[test]
    fn who_waits_is_told_when_the_order_was_carried_out_or_cannot_be() {
        let orders = Orders::default();
        let number = orders.give(Order::Forget, 0).unwrap();
        assert_eq!(orders.wait(number, || true), Err(NotAcknowledged));
        orders.acknowledge(number);
        assert_eq!(orders.wait(number, || true), Ok(()));
    }
}
