//! The thread of an adapter that serves its connections.
//!
//! While a connection carries bytes, the thread looks at it at its tick, as an adapter polls its rings:
//! a program that sends wakes nobody. After some ticks without a byte, the connection is watched
//! instead, and costs nothing until its descriptor changes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use linkrate_sys::doorbell::Doorbell;
use linkrate_sys::epoll::{Epoll, Readable, Watch};
use linkrate_sys::error::SysResult;
use linkrate_sys::sched::{self, Ahead, ThreadId, current_thread};
use linkrate_sys::tcp_info::{TcpInfo, tcp_info};

use crate::connection::Connection;
use crate::hand_over::Refusal;
use crate::pump::{Ended, Pump};
use crate::stack::Stack;

/// Time between two looks at connections that carry bytes.
pub const TICK: Duration = Duration::from_micros(100);

/// Ticks without a byte after which a connection is watched.
const QUIET_TICKS: u32 = 20;

/// Ticks between two looks at a connection whose bytes wait for room, once it is quiet.
const STALLED_TICKS: u64 = 50;

/// Bytes that one call carries.
const PIECE: usize = 256 << 10;

/// The number of the doorbell among watched descriptors; connections have two each, from 0.
const BELL: u64 = u64::MAX;

/// A connection in an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its number.
    pub id: u64,
    /// Bytes from the program since it came.
    pub sent: u64,
    /// Bytes for the program since it came.
    pub received: u64,
    /// Retransmission time-outs in sequence without an acknowledgement.
    pub timeouts: u8,
    /// How it ended, if it has.
    pub ended: Option<Ended>,
    /// The descriptor of the connection in the stack, as long as it has one.
    pub descriptor: RawFd,
    /// TCP_INFO, where the stack is the kernel's.
    pub tcp: Option<TcpInfo>,
}

/// A running engine. It ends when it is dropped, with its connections.
#[derive(Debug)]
pub struct Engine {
    orders: Sender<Order>,
    bell: Doorbell,
    thread: Option<JoinHandle<()>>,
    thread_id: ThreadId,
}

#[derive(Debug)]
enum Order {
    Import(u64, OwnedFd, Box<Connection>, SyncSender<Result<(), Refusal>>),
    Export(u64, SyncSender<Result<Connection, Refusal>>),
    Look(SyncSender<Vec<Status>>),
    /// The same, and those that have ended are forgotten.
    Reap(SyncSender<Vec<Status>>),
    Forget,
}

impl Engine {
    /// Starts an engine over `stack`, in the namespaces of the calling thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start<S: Stack>(stack: S) -> SysResult<Self> {
        let failed = |error| linkrate_sys::error::SysError::new("start", "toe engine", error);
        let bell = Doorbell::new()?;
        let (orders, received) = channel();
        let served = Served::new(stack, bell.try_clone().map_err(failed)?, received)?;
        let (told, tells) = sync_channel(1);
        let body = move || {
            // the receiver waits for exactly this message
            let _ = told.send(current_thread());
            served.run();
        };
        let thread = std::thread::Builder::new().name("toe".to_owned()).spawn(body);
        let thread = Some(thread.map_err(failed)?);
        let thread_id = tells.recv().map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self { orders, bell, thread, thread_id })
    }

    /// Takes a connection under the number `id`. `pair` is the adapter's end of the program's stream
    /// pair.
    ///
    /// # Errors
    /// [`Refusal`]; the pair is closed then.
    pub fn import(&self, id: u64, pair: OwnedFd, connection: Connection) -> Result<(), Refusal> {
        let _ahead = self.ahead();
        self.ask(|answer| Order::Import(id, pair, Box::new(connection), answer))?
    }

    /// Gives a connection back. What the program has not read is in its end of the pair, and comes
    /// before the bytes that were not read here.
    ///
    /// # Errors
    /// [`Refusal`]; the connection goes on.
    pub fn export(&self, id: u64) -> Result<Connection, Refusal> {
        let _ahead = self.ahead();
        self.ask(|answer| Order::Export(id, answer))?
    }

    /// The connections that it has, and those that have ended since the last [`forget`](Self::forget).
    ///
    /// # Errors
    /// The thread has ended.
    pub fn look(&self) -> Result<Vec<Status>, Refusal> {
        self.ask(Order::Look)
    }

    /// As [`look`](Self::look), and forgets those that have ended.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn reap(&self) -> Result<Vec<Status>, Refusal> {
        self.ask(Order::Reap)
    }

    /// Closes all connections, as the end of their program would.
    pub fn forget(&self) {
        // a thread that has ended has none
        let _ = self.orders.send(Order::Forget);
        self.bell.ring();
    }

    /// The far end's frames wait while a connection moves, and the CPU of the thread is often busy.
    fn ahead(&self) -> Ahead {
        Ahead::of(self.thread_id)
    }

    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Result<T, Refusal> {
        let ended = || Refusal::System {
            step: "ask the engine of the adapter",
            cause: io::ErrorKind::BrokenPipe.into(),
        };
        let (answer, answered) = sync_channel(1);
        self.orders.send(order(answer)).map_err(|_| ended())?;
        self.bell.ring();
        answered.recv().map_err(|_| ended())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // the thread ends when nobody can give orders any more
        self.orders = channel().0;
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // a panic was reported where it happened
            let _ = thread.join();
        }
    }
}

/// A connection of the engine, and how often it is looked at.
#[derive(Debug)]
struct Member<S: Stack> {
    pump: Pump<S>,
    /// Ticks without a byte.
    quiet: u32,
    /// It is looked at at each tick; otherwise its descriptors are watched.
    polled: bool,
    stalled: bool,
}

/// What the thread owns.
#[derive(Debug)]
struct Served<S: Stack> {
    stack: S,
    epoll: Epoll,
    bell: Doorbell,
    orders: Receiver<Order>,
    connections: BTreeMap<u64, Member<S>>,
    ended: Vec<Status>,
    /// Connections that are looked at.
    polled: Vec<u64>,
    ticks: u64,
    buffer: Vec<u8>,
}

impl<S: Stack> Served<S> {
    fn new(stack: S, bell: Doorbell, orders: Receiver<Order>) -> SysResult<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&bell, BELL, Watch::Always)?;
        Ok(Self {
            stack,
            epoll,
            bell,
            orders,
            connections: BTreeMap::new(),
            ended: Vec::new(),
            polled: Vec::new(),
            ticks: 0,
            buffer: vec![0; PIECE],
        })
    }

    fn run(mut self) {
        // a sleep would last 50 µs longer otherwise
        let _ = sched::set_timer_slack_ns(1);
        let mut readable = Readable::default();
        loop {
            let timeout = (!self.polled.is_empty()).then_some(TICK.as_nanos() as u64);
            if self.epoll.wait(&mut readable, timeout).is_err() {
                return;
            }
            for number in readable.numbers() {
                if number == BELL {
                    self.bell.clear();
                    if !self.carry_out_orders() {
                        return;
                    }
                } else if let Some(served) = self.connections.get_mut(&(number / 2))
                    && !served.polled
                {
                    served.polled = true;
                    served.quiet = 0;
                    self.polled.push(number / 2);
                }
            }
            if !self.polled.is_empty() {
                self.tick();
            }
        }
    }

    /// False when nobody can give orders any more.
    fn carry_out_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.carry_out(order),
                Err(std::sync::mpsc::TryRecvError::Empty) => return true,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        // who asks waits for the answer; one that has gone needs none
        match order {
            Order::Import(id, pair, connection, answer) => {
                let imported = self.import(id, pair, *connection);
                let _ = answer.send(imported);
            }
            Order::Export(id, answer) => {
                let exported = self.export(id);
                let _ = answer.send(exported);
            }
            Order::Look(answer) => {
                let _ = answer.send(self.all());
            }
            Order::Reap(answer) => {
                let _ = answer.send(self.all());
                self.ended.clear();
            }
            Order::Forget => {
                self.ended.clear();
                self.polled.clear();
                for (_, served) in std::mem::take(&mut self.connections) {
                    served.pump.close(&mut self.stack, &Ended::Closed);
                }
            }
        }
    }

    fn all(&self) -> Vec<Status> {
        let there = self.connections.iter().map(|(id, served)| Status {
            timeouts: served.pump.timeouts(&self.stack),
            ..status(*id, served, None)
        });
        self.ended.iter().cloned().chain(there).collect()
    }

    fn import(&mut self, id: u64, pair: OwnedFd, connection: Connection) -> Result<(), Refusal> {
        let pump = Pump::new(&mut self.stack, pair, connection)?;
        let failed = |error: linkrate_sys::error::SysError| Refusal::System {
            step: "watch the connection",
            cause: io::Error::other(error.to_string()),
        };
        self.epoll.add(pump.pair(), 2 * id, Watch::Once).map_err(failed)?;
        self.epoll.add(pump.tcp(), 2 * id + 1, Watch::Once).map_err(failed)?;
        self.connections.insert(id, Member { pump, quiet: 0, polled: true, stalled: false });
        self.polled.push(id);
        Ok(())
    }

    fn export(&mut self, id: u64) -> Result<Connection, Refusal> {
        let Some(served) = self.connections.remove(&id) else {
            let cause = io::ErrorKind::NotFound.into();
            return Err(Refusal::System { step: "find the connection", cause });
        };
        self.polled.retain(|polled| *polled != id);
        // closed descriptors leave the set by themselves, unless they are held elsewhere
        let _ = self.epoll.remove(served.pump.pair());
        let _ = self.epoll.remove(served.pump.tcp());
        match served.pump.export(&mut self.stack, &mut self.buffer) {
            Ok(connection) => Ok(connection),
            Err((refusal, pump)) => {
                let _ = self.epoll.add(pump.pair(), 2 * id, Watch::Once);
                let _ = self.epoll.add(pump.tcp(), 2 * id + 1, Watch::Once);
                let served = Member { pump, quiet: 0, polled: true, stalled: false };
                self.connections.insert(id, served);
                self.polled.push(id);
                Err(refusal)
            }
        }
    }

    /// Looks at every connection that is not watched.
    fn tick(&mut self) {
        self.ticks += 1;
        let rarely = self.ticks.is_multiple_of(STALLED_TICKS);
        let Self { stack, epoll, connections, ended, polled, buffer, .. } = self;
        polled.retain(|id| {
            let Some(served) = connections.get_mut(id) else { return false };
            if served.stalled && served.quiet > QUIET_TICKS && !rarely {
                return true;
            }
            let turn = served.pump.turn(stack, buffer);
            if let Some(how) = turn.ended {
                if let Some(served) = connections.remove(id) {
                    ended.push(status(*id, &served, Some(how.clone())));
                    served.pump.close(stack, &how);
                }
                return false;
            }
            served.quiet = if turn.bytes > 0 { 0 } else { served.quiet.saturating_add(1) };
            served.stalled = turn.stalled;
            if served.quiet > QUIET_TICKS && !served.stalled {
                served.polled = watch(epoll, *id, &served.pump).is_err();
            }
            served.polled
        });
    }
}

/// Watches the descriptors of a quiet connection. One whose end was read stays readable, and only
/// hanging up is news of it.
fn watch<S: Stack>(epoll: &Epoll, id: u64, pump: &Pump<S>) -> SysResult<()> {
    let (out_ended, in_ended) = pump.ends_read();
    match out_ended {
        true => epoll.change(pump.pair(), 2 * id, Watch::Once)?,
        false => epoll.arm(pump.pair(), 2 * id)?,
    }
    match in_ended {
        true => epoll.change(pump.tcp(), 2 * id + 1, Watch::Once),
        false => epoll.arm(pump.tcp(), 2 * id + 1),
    }
}

fn status<S: Stack>(id: u64, served: &Member<S>, ended: Option<Ended>) -> Status {
    let (sent, received) = served.pump.carried();
    let (descriptor, tcp) = (served.pump.tcp().as_raw_fd(), tcp_info(served.pump.tcp()).ok());
    Status { id, sent, received, timeouts: 0, ended, descriptor, tcp }
}
