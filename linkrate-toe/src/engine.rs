//! The thread of an adapter that serves its connections.
//!
//! While a connection carries bytes, the thread looks at it at its tick, as an adapter polls its rings:
//! a program that sends wakes nobody. After some ticks without a byte, the connection is watched
//! instead, and costs nothing until its descriptor changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use linkrate_model::lab::{Asked, ConnectionStatus, TcpReport};
use linkrate_sys::epoll::{Epoll, Readable, Watch};
use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::memory::PageBuffer;
use linkrate_sys::sched::{self, Ahead, ThreadId};
use linkrate_sys::tcp_info::tcp_info;

use crate::connection::Connection;
use crate::migrate::Refusal;
use crate::pump::{Ended, Pump};
use crate::stack::Stack;
use crate::worker::{Dismissed, Orders, Worker};

/// Time between two polls of connections that carry bytes.
pub const TICK: Duration = Duration::from_micros(100);

/// Ticks without a byte after which a connection is watched.
const QUIET_TICKS: u32 = 20;

/// Ticks between two polls of a connection whose bytes wait for room, once it is quiet.
const STALLED_TICKS: u64 = 50;

/// Bytes that one call carries.
const PIECE: usize = 256 << 10;

/// The number of the doorbell among watched descriptors; connections have two each, from 0.
const BELL: u64 = u64::MAX;

/// A running engine. It ends when it is dropped, with its connections.
#[derive(Debug)]
pub struct Engine {
    worker: Worker<Order>,
}

#[derive(Debug)]
enum Order {
    Import(u32, OwnedFd, Box<Connection>, SyncSender<Result<(), Refusal>>),
    Export(u32, SyncSender<Result<Connection, Refusal>>),
    Look(Asked, SyncSender<Vec<ConnectionStatus>>),
    Forget,
}

impl Engine {
    /// Starts an engine over `stack`, in the namespaces of the calling thread.
    pub fn start<S: Stack>(stack: S) -> SysResult<Self> {
        let worker = Worker::start("toe", |orders| {
            let served = EngineLoop::new(stack, orders)?;
            Ok(move || served.run())
        });
        Ok(Self { worker: worker? })
    }

    /// Takes a connection under the number `id`. `pair` is the adapter's end of the program's stream pair; a
    /// refusal closes it.
    pub fn import(&self, id: u32, pair: OwnedFd, connection: Connection) -> Result<(), Refusal> {
        let _ahead = self.ahead();
        self.ask(|answer| Order::Import(id, pair, Box::new(connection), answer))?
    }

    /// Gives a connection back; if it is refused, the connection continues. What the program has not read is in its
    /// end of the pair, and comes before the bytes that were not read here.
    pub fn export(&self, id: u32) -> Result<Connection, Refusal> {
        let _ahead = self.ahead();
        self.ask(|answer| Order::Export(id, answer))?
    }

    /// How connections fare.
    pub fn look(&self, asked: Asked) -> Result<Vec<ConnectionStatus>, Refusal> {
        self.ask(|answer| Order::Look(asked, answer))
    }

    /// Closes all connections, as the end of their program would.
    pub fn forget(&self) {
        // a thread that has ended has none
        self.worker.order(Order::Forget);
    }

    #[must_use]
    pub fn thread_id(&self) -> ThreadId {
        self.worker.thread_id()
    }

    /// The peer's frames wait while a connection moves, and the CPU of the thread is often busy.
    fn ahead(&self) -> Ahead {
        Ahead::of(self.thread_id())
    }

    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Result<T, Refusal> {
        let (answer, answered) = sync_channel(1);
        self.worker.order(order(answer));
        answered.recv().map_err(|_| Refusal::System {
            step: "ask the engine of the adapter",
            cause: io::ErrorKind::BrokenPipe.into(),
        })
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
    /// Its number is among the news.
    is_news: bool,
}

impl<S: Stack> Member<S> {
    fn new(pump: Pump<S>) -> Self {
        Self { pump, quiet: 0, polled: true, stalled: false, is_news: true }
    }
}

#[derive(Debug)]
struct EngineLoop<S: Stack> {
    stack: S,
    epoll: Epoll,
    orders: Orders<Order>,
    connections: BTreeMap<u32, Member<S>>,
    /// Those that have ended since the last look at news.
    ended: Vec<ConnectionStatus>,
    /// The others that the next look at news is to report on.
    news: BTreeSet<u32>,
    polled: Vec<u32>,
    ticks: u64,
    buffer: PageBuffer,
}

impl<S: Stack> EngineLoop<S> {
    fn new(stack: S, orders: Orders<Order>) -> SysResult<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&orders, BELL, Watch::Always)?;
        Ok(Self {
            stack,
            epoll,
            orders,
            connections: BTreeMap::new(),
            ended: Vec::new(),
            news: BTreeSet::new(),
            polled: Vec::new(),
            ticks: 0,
            buffer: PageBuffer::zeroed(PIECE)
                .map_err(|error| SysError::new("map", "the buffer of the engine", error))?,
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
                    self.orders.quieten();
                    if self.carry_out_orders() == Err(Dismissed) {
                        return;
                    }
                    continue;
                }
                let id = (number / 2) as u32;
                if let Some(served) = self.connections.get_mut(&id)
                    && !served.polled
                {
                    served.polled = true;
                    served.quiet = 0;
                    self.polled.push(id);
                }
            }
            if !self.polled.is_empty() {
                self.tick();
            }
        }
    }

    fn carry_out_orders(&mut self) -> Result<(), Dismissed> {
        while let Some(order) = self.orders.next()? {
            self.carry_out(order);
        }
        Ok(())
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
            Order::Look(asked, answer) => {
                let _ = answer.send(self.look(asked));
            }
            Order::Forget => {
                self.ended.clear();
                self.news.clear();
                self.polled.clear();
                for (_, served) in std::mem::take(&mut self.connections) {
                    served.pump.close(&mut self.stack, &Ended::Closed);
                }
            }
        }
    }

    fn look(&mut self, asked: Asked) -> Vec<ConnectionStatus> {
        let of = |(id, served): (&u32, &Member<S>)| status(*id, served, &self.stack);
        match asked {
            Asked::All => self.connections.iter().map(of).collect(),
            Asked::One(id) => self.connections.get_key_value(&id).map(of).into_iter().collect(),
            Asked::News => self.look_at_news(),
        }
    }

    fn look_at_news(&mut self) -> Vec<ConnectionStatus> {
        let mut all = std::mem::take(&mut self.ended);
        let Self { stack, connections, news, .. } = self;
        news.retain(|id| {
            let Some(served) = connections.get_mut(id) else { return false };
            all.push(status(*id, served, stack));
            // time-outs may follow, of which no descriptor tells
            served.is_news = served.pump.has_unacknowledged(stack);
            served.is_news
        });
        all
    }

    fn import(&mut self, id: u32, pair: OwnedFd, connection: Connection) -> Result<(), Refusal> {
        let pump = Pump::new(&mut self.stack, pair, connection)?;
        let failed = |error: SysError| Refusal::System {
            step: "watch the connection",
            cause: io::Error::other(error.to_string()),
        };
        let [pair, tcp] = watched(id);
        self.epoll.add(pump.pair(), pair, Watch::Once).map_err(failed)?;
        self.epoll.add(pump.tcp(), tcp, Watch::Once).map_err(failed)?;
        self.insert(id, pump);
        Ok(())
    }

    fn insert(&mut self, id: u32, pump: Pump<S>) {
        self.connections.insert(id, Member::new(pump));
        self.polled.push(id);
        self.news.insert(id);
    }

    fn export(&mut self, id: u32) -> Result<Connection, Refusal> {
        let Some(served) = self.connections.remove(&id) else {
            let cause = io::ErrorKind::NotFound.into();
            return Err(Refusal::System { step: "find the connection", cause });
        };
        self.polled.retain(|polled| *polled != id);
        self.news.remove(&id);
        // closed descriptors leave the set by themselves, unless they are held elsewhere
        let _ = self.epoll.remove(served.pump.pair());
        let _ = self.epoll.remove(served.pump.tcp());
        match served.pump.export(&mut self.stack, &mut self.buffer) {
            Ok(connection) => Ok(connection),
            Err(refused) => {
                let (refusal, pump) = *refused;
                let [pair, tcp] = watched(id);
                let _ = self.epoll.add(pump.pair(), pair, Watch::Once);
                let _ = self.epoll.add(pump.tcp(), tcp, Watch::Once);
                self.insert(id, pump);
                Err(refusal)
            }
        }
    }

    /// Looks at every connection that is not watched.
    fn tick(&mut self) {
        self.ticks += 1;
        let rarely = self.ticks.is_multiple_of(STALLED_TICKS);
        let Self { stack, epoll, connections, ended, news, polled, buffer, .. } = self;
        polled.retain(|id| {
            let Some(served) = connections.get_mut(id) else { return false };
            if served.stalled && served.quiet > QUIET_TICKS && !rarely {
                return true;
            }
            let turn = served.pump.turn(stack, buffer);
            if let Some(how) = turn.ended {
                if let Some(served) = connections.remove(id) {
                    let last = status(*id, &served, stack);
                    ended.push(ConnectionStatus {
                        ended: true,
                        descriptor: None,
                        tcp: None,
                        ..last
                    });
                    served.pump.close(stack, &how);
                }
                return false;
            }
            if turn.bytes > 0 && !served.is_news {
                served.is_news = true;
                news.insert(*id);
            }
            served.quiet = if turn.bytes > 0 { 0 } else { served.quiet.saturating_add(1) };
            served.stalled = turn.stalled;
            if served.quiet > QUIET_TICKS && !served.stalled {
                served.pump.rest();
                served.polled = watch(epoll, *id, &served.pump).is_err();
            }
            served.polled
        });
    }
}

/// The numbers of a connection's pair and of its TCP among watched descriptors.
fn watched(id: u32) -> [u64; 2] {
    [0, 1].map(|which| 2 * u64::from(id) + which)
}

/// Watches the descriptors of a quiet connection. One whose end was read stays readable, and only
/// hanging up is news of it.
fn watch<S: Stack>(epoll: &Epoll, id: u32, pump: &Pump<S>) -> SysResult<()> {
    let (out_ended, in_ended) = pump.ends_read();
    let [pair, tcp] = watched(id);
    match out_ended {
        true => epoll.change(pump.pair(), pair, Watch::Once)?,
        false => epoll.arm(pump.pair(), pair)?,
    }
    match in_ended {
        true => epoll.change(pump.tcp(), tcp, Watch::Once),
        false => epoll.arm(pump.tcp(), tcp),
    }
}

/// That of a connection that has not ended.
fn status<S: Stack>(id: u32, served: &Member<S>, stack: &S) -> ConnectionStatus {
    let (sent, received) = served.pump.carried();
    let (timeouts, socket) = (served.pump.timeouts(stack), served.pump.tcp());
    // a stack that is not the kernel's has none
    let tcp = tcp_info(socket).ok().map(TcpReport::from);
    let descriptor = Some(socket.as_raw_fd());
    ConnectionStatus { id, sent, received, timeouts, ended: false, descriptor, tcp }
}
