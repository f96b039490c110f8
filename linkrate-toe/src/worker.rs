//! A thread that carries out orders: the end of who gives them, and the end of the thread.
//!
//! The thread waits for descriptors, so that a bell rings with each order. It ends when nobody can give orders
//! any more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;

use linkrate_sys::doorbell::Doorbell;
use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::sched::{ThreadId, current_thread};

/// The owner of a thread. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker<O> {
    orders: Sender<O>,
    bell: Doorbell,
    thread: Option<JoinHandle<()>>,
    thread_id: ThreadId,
}

/// The orders, as the thread gets them. The descriptor is readable when there may be one.
#[derive(Debug)]
pub(crate) struct Orders<O> {
    received: Receiver<O>,
    bell: Doorbell,
}

/// Nobody can give orders any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dismissed;

impl<O: Send + 'static> Worker<O> {
    /// Starts a thread. `make` makes what it does out of its orders; its error is returned.
    pub(crate) fn start<B: FnOnce() + Send + 'static>(
        name: &'static str,
        make: impl FnOnce(Orders<O>) -> SysResult<B>,
    ) -> SysResult<Self> {
        let failed = |error| SysError::new("start thread", name, error);
        let bell = Doorbell::new()?;
        let (orders, received) = channel();
        let body = make(Orders { received, bell: bell.try_clone().map_err(failed)? })?;
        let (told, tells) = sync_channel(1);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // the receiver waits for exactly this message
            let _ = told.send(current_thread());
            body();
        });
        let thread = Some(thread.map_err(failed)?);
        let thread_id = tells.recv().map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self { orders, bell, thread, thread_id })
    }

    /// Gives an order. A thread that has ended takes none; who waits for its answer sees that.
    pub(crate) fn order(&self, order: O) {
        let _ = self.orders.send(order);
        self.bell.ring();
    }

    pub(crate) fn thread_id(&self) -> ThreadId {
        self.thread_id
    }
}

impl<O> Drop for Worker<O> {
    fn drop(&mut self) {
        self.orders = channel().0;
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // a panic was reported where it happened
            let _ = thread.join();
        }
    }
}

impl<O> Orders<O> {
    /// Makes the bell quiet. Orders that come from now on ring it again.
    pub(crate) fn quieten(&self) {
        self.bell.clear();
    }

    /// The next order; `None` if there is none now. [`Dismissed`] tells the thread to end.
    pub(crate) fn next(&self) -> Result<Option<O>, Dismissed> {
        match self.received.try_recv() {
            Ok(order) => Ok(Some(order)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Dismissed),
        }
    }
}

impl<O> AsFd for Orders<O> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use linkrate_sys::wait;

    use super::*;

    #[test]
    fn every_order_is_carried_out_before_the_thread_ends() {
        let (noted, notes) = channel();
        let worker = Worker::start("test", |orders| {
            Ok(move || {
                loop {
                    wait::wait(&[orders.as_fd()], None).unwrap();
                    orders.quieten();
                    loop {
                        match orders.next() {
                            Ok(Some(order)) => noted.send(order).unwrap(),
                            Ok(None) => break,
                            Err(Dismissed) => return,
                        }
                    }
                }
            })
        })
        .unwrap();
        assert_ne!(worker.thread_id(), current_thread());
        for order in 0..1000 {
            worker.order(order);
        }
        drop(worker);
        assert_eq!(notes.into_iter().collect::<Vec<i32>>(), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_thread_that_cannot_be_made_is_an_error() {
        let made = Worker::<()>::start::<fn()>("test", |_| {
            Err(SysError::new("make", "a test", io::Error::from(io::ErrorKind::NotFound)))
        });
        assert!(made.unwrap_err().to_string().contains("make"));
    }
}
