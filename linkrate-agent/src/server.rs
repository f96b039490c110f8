//! The agent: one reply to each request, until the carrier closes.

mod own_host;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use linkrate_model::{CpuSet, InterfaceKnobs};
use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};
use linkrate_sys::ethtool::Ethtool;
use linkrate_sys::host_settings::{self, network_sysctls};
use linkrate_sys::netlink::{DatagramLimit, RouteSocket};
use linkrate_sys::sched::Ahead;
use linkrate_sys::stack::StackReader;
use linkrate_sys::tree::Tree;
use linkrate_sys::{cpus, host, sched, socket};

use crate::absence::Absences;
use crate::cpu_meter::{self, CpuMeter};
use crate::existing::{self, Lease};
use crate::intervals::Sampler;
use crate::knobs;
use crate::meter::{self, Meters, SLOW_AHEAD_NS, crossing};
use crate::permissions::Permissions;
use crate::profile::{Profiler, Sampling};
use crate::send_buffers::{self, SendBuffers};
use crate::session::Session;
use crate::taps::{Setup, Taps};
use crate::toe;
use linkrate_protocol::framing::read_frame;
use linkrate_protocol::{
    Hello, InterfaceSetup, ListenSpec, MeasureSpec, PROTOCOL_VERSION, RecordReport, Refusal, Reply,
    Request, decode_request, write_message,
};
use own_host::{reach_over_ipv6, steer, steer_queues, watch};

/// What is due within this time is done at once, so that the CPU wakes once for both, ns.
const SOON_NS: u64 = 1_000_000;

/// The longest measurement an agent measures.
const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);

/// How long a link may take to come up; the kernel acts on a carrier up to a second later.
const LINK_UP: Duration = Duration::from_secs(10);

/// Serves one controller over `carrier` until it closes. Existing interfaces are then restored
/// before anything else. Once `signals` can be read, they are restored and the process ends. `input`
/// must not read ahead: it is read when `carrier` has data. A request that cannot be carried out is answered, and is
/// no error here.
pub fn serve(
    input: &mut impl Read,
    output: &mut impl Write,
    carrier: BorrowedFd<'_>,
    signals: OwnedFd,
    permissions: Permissions,
) -> io::Result<()> {
    let lease = Lease::default();
    if let Err(error) = watch(carrier, signals, &lease) {
        // nothing would end it in time; the controller is told why it ends now
        let Some(frame) = read_frame(input)? else { return Ok(()) };
        let reply = Reply::Refused(refusal(format!("start thread: {error}")));
        return write_message(output, decode_request(&frame).0, &reply);
    }
    let mut agent = Agent {
        carrier,
        permissions,
        lease,
        cpu_meter: CpuMeter::unasked(),
        listening: None,
        session: None,
        ahead: None,
        fresh: BTreeMap::new(),
        steered: BTreeMap::new(),
        taps: Taps::default(),
        toe: toe::Shared::default(),
        profiler: None,
        stack: StackReader::default(),
    };
    while let Some(frame) = read_frame(input)? {
        let (number, request) = decode_request(&frame);
        let reply = match request {
            Ok(request) => agent.answer(request).unwrap_or_else(Reply::Refused),
            Err(error) => Reply::Refused(Refusal { reason: error.to_string(), hint: None }),
        };
        match write_message(output, number, &reply) {
            // too long for a frame, of which nothing has been written
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let refusal = refusal(format!("the reply cannot be sent: {error}"));
                write_message(output, number, &Reply::Refused(refusal))?;
            }
            written => written?,
        }
    }
    Ok(())
}

struct Agent<'a> {
    carrier: BorrowedFd<'a>,
    permissions: Permissions,
    /// Existing interfaces, restored when the agent ends.
    lease: Lease,
    cpu_meter: CpuMeter,
    listening: Option<ListenSpec>,
    session: Option<Session>,
    /// From the beginning of the flows to their end; threads of flows are started before.
    ahead: Option<Ahead>,
    /// The knobs of each interface before the first run changed it.
    fresh: BTreeMap<String, Fresh>,
    /// The CPUs that process the received packets of each steered interface.
    steered: BTreeMap<String, CpuSet>,
    taps: Taps,
    /// Shared with the thread that moves connections while this one measures.
    toe: toe::Shared,
    /// `Some` after prepare-profile.
    profiler: Option<Profiler>,
    stack: StackReader,
}

/// The knobs of an interface before the first run changed it.
#[derive(Debug, Clone)]
struct Fresh {
    knobs: InterfaceKnobs,
    /// Most segments of a superframe; `None` where superframes were off.
    segments: Option<u32>,
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        // before anything that can wait
        self.lease.give_back();
        self.end_session();
    }
}

fn refusal(reason: impl Into<String>) -> Refusal {
    Refusal { reason: reason.into(), hint: None }
}

impl Agent<'_> {
    fn answer(&mut self, request: Request) -> Result<Reply, Refusal> {
        self.permissions.check(&request, &self.lease)?;
        match request {
            Request::Hello { version } => self.hello(version),
            Request::Clock => Ok(Reply::Clock { monotonic_ns: monotonic_ns() }),
            Request::Place { cpus } => {
                sched::set_affinity(sched::current_thread(), &cpus)?;
                Ok(Reply::Placed { cpus: sched::affinity(sched::current_thread())? })
            }
            Request::Account { cpus, meter, traces } => {
                // the old one's threads end before new ones start
                self.cpu_meter = CpuMeter::unasked();
                let meter = CpuMeter::new(cpu_meter::choose(meter), &cpus)?;
                self.cpu_meter = if traces { meter.tracing() } else { meter };
                toe::locked(&self.toe).trace = self.cpu_meter.trace();
                Ok(Reply::Accounts { source: self.cpu_meter.source() })
            }
            Request::CreateWire { name, peer_name, peer_pid, queues } => {
                let peer = host::network_namespace_of(peer_pid).map_err(|error| {
                    refusal(format!("network namespace of process {peer_pid}: {error}"))
                })?;
                RouteSocket::open()?.create_veth(&name, &peer_name, peer.as_fd(), queues)?;
                Ok(Reply::Done)
            }
            Request::CreateTap { name, carries, queues, address, mtu, tx_queue_length, napi } => {
                let setup = Setup { carries, address, mtu, tx_queue_length, napi };
                Ok(self.taps.create(&name, queues, setup)?)
            }
            Request::LimitDatagrams { name, bytes_per_second, burst_us, overhead, in_cells } => {
                let burst = Duration::from_micros(burst_us.into());
                let limit = DatagramLimit { bytes_per_second, burst, overhead, in_cells };
                RouteSocket::open()?.limit_datagrams(&name, &limit)?;
                Ok(Reply::Done)
            }
            Request::ReleaseTap { name } => match self.taps.release(&name) {
                true => Ok(Reply::Done),
                false => Err(refusal(format!("no TAP {name:?} on this agent"))),
            },
            Request::ConfigureInterface(setup) => configure_interface(&setup),
            Request::ReachOverIpv6(setup) => {
                reach_over_ipv6(&setup)?;
                Ok(Reply::Done)
            }
            Request::AwaitLink { name } => {
                RouteSocket::open()?.wait_running(&name, LINK_UP)?;
                Ok(Reply::Done)
            }
            Request::SteerReceive { name, cpus } => {
                steer_queues(&name, &cpus)?;
                self.steered.insert(name, cpus);
                Ok(Reply::Done)
            }
            Request::Describe { name } => {
                Ok(Reply::Interface(Box::new(existing::describe(&name)?)))
            }
            Request::Addresses => Ok(Reply::Addresses(RouteSocket::open()?.ipv4_addresses()?)),
            Request::RouteTo { address } => {
                let (interface, source) = RouteSocket::open()?.route_to(address)?;
                Ok(Reply::Route { interface, source })
            }
            Request::Keep { names } => {
                let lease = self.lease.clone();
                let _change = lease.change()?;
                names.iter().try_for_each(|name| lease.keep(name))?;
                Ok(Reply::Done)
            }
            Request::Lend { name, pid } => {
                let lease = self.lease.clone();
                let _change = lease.change()?;
                lease.lend(&name, pid)?;
                Ok(Reply::Done)
            }
            Request::SteerInterface { name, cpus } => {
                let lease = self.lease.clone();
                let _change = lease.change()?;
                let steered = steer(&name, &cpus)?;
                if steered.interrupts == 0 && steered.stuck.is_empty() {
                    self.steered.insert(name, cpus);
                }
                Ok(Reply::Steered(steered))
            }
            Request::SetKnobs { interfaces, knobs } => self.set_knobs(&interfaces, &knobs),
            Request::ReadKnobs { interfaces } => {
                let read = |name: String| Ok((name.clone(), knobs::read(&name)?));
                let all: Result<_, knobs::KnobError> = interfaces.into_iter().map(read).collect();
                all.map(Reply::Knobs).map_err(|error| refusal(error.to_string()))
            }
            Request::ReadStack { interfaces, peers } => {
                Ok(Reply::Stack(Box::new(self.stack.read(&interfaces, &peers))))
            }
            Request::Listen(spec) => {
                let ports = self.session_beside(spec.concurrent).listen(&spec)?;
                self.listening = Some(spec);
                Ok(Reply::Listening { ports })
            }
            Request::Connect(spec) => {
                let session = self.session_beside(spec.concurrent);
                session.connect(&spec)?;
                Ok(Reply::Flows(session.facts()))
            }
            Request::Dial(spec) => {
                let session = self.session_beside(spec.concurrent);
                session.dial(&spec)?;
                Ok(Reply::Flows(session.facts()))
            }
            Request::Settle { all } => match &self.session {
                Some(session) => {
                    session.settle(all)?;
                    Ok(Reply::Done)
                }
                None => Err(refusal("settle came before the flows")),
            },
            Request::AwaitFlows => match (&mut self.session, &self.listening) {
                (Some(session), Some(spec)) => Ok(Reply::Flows(session.await_flows(spec)?)),
                _ => Err(refusal("await-flows came before listen")),
            },
            Request::Begin => {
                let session =
                    self.session.as_ref().ok_or_else(|| refusal("begin came before the flows"))?;
                // An agent that must share its CPU with a dozen flows would hear of the measurement when
                // it is over, and read its counters late. It sleeps in between.
                self.ahead = Some(Ahead::now());
                self.cpu_meter.run();
                toe::locked(&self.toe).attend(session);
                session.control.begin();
                Ok(Reply::Done)
            }
            Request::Progress => match &self.session {
                Some(session) => Ok(Reply::Progress {
                    unacknowledged: session.unacknowledged(),
                    bytes: session.progress(),
                }),
                None => Err(refusal("progress came before the flows")),
            },
            Request::PrepareProfile { cpus } => {
                self.profiler = Some(Profiler::prepare(&cpus)?);
                Ok(Reply::Done)
            }
            Request::Measure(spec) => self.measure(&spec),
            Request::Toe(request) => toe::answer(&self.toe, request, self.session.as_ref()),
            Request::Finish => {
                self.listening = None;
                self.ahead = None;
                self.cpu_meter.rest();
                let session =
                    self.session.take().ok_or_else(|| refusal("finish came before the flows"))?;
                toe::locked(&self.toe).release_flows();
                let finished = session.finish();
                toe::locked(&self.toe).forget();
                Ok(Reply::Finished(finished))
            }
        }
    }

    /// The session for more flows: a new one, unless they stand beside others.
    fn session_beside(&mut self, beside: bool) -> &mut Session {
        if !beside {
            self.end_session();
        }
        self.session.get_or_insert_default()
    }

    fn hello(&self, version: u32) -> Result<Reply, Refusal> {
        if version != PROTOCOL_VERSION {
            return Err(Refusal {
                reason: format!("protocol version {version}, this agent speaks {PROTOCOL_VERSION}"),
                hint: Some("install the same linkrate on both hosts".to_owned()),
            });
        }
        Ok(Reply::Hello(Hello {
            version: PROTOCOL_VERSION,
            pid: std::process::id(),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            cpu_model: cpu_model(),
            online_cpus: cpus::online()?,
            boot_id: read_line("/proc/sys/kernel/random/boot_id"),
            sysctls: network_sysctls(&Tree::of_this_host()),
            settings: host_settings::of_host(&Tree::of_this_host()),
        }))
    }

    /// Sets knobs on every interface and reads each back. A knob that the run does not name returns
    /// to the value of a fresh interface.
    fn set_knobs(
        &mut self,
        interfaces: &[String],
        asked: &InterfaceKnobs,
    ) -> Result<Reply, Refusal> {
        let lease = self.lease.clone();
        let _change = lease.change()?;
        let mut effective = BTreeMap::new();
        for interface in interfaces {
            let fresh = self.fresh(interface)?;
            let now =
                knobs::apply(interface, &knobs::defaults(asked, &fresh.knobs), fresh.segments)
                    .map_err(|error| refusal(error.to_string()))?;
            effective.insert(interface.clone(), now);
            if let Some(cpus) = self.steered.get(interface) {
                // a queue that was off comes back without its steering
                steer_queues(interface, cpus)?;
            }
        }
        Ok(Reply::Knobs(effective))
    }

    /// The knobs of an interface before the first run changed it.
    fn fresh(&mut self, interface: &str) -> Result<Fresh, Refusal> {
        if let Some(fresh) = self.fresh.get(interface) {
            return Ok(fresh.clone());
        }
        let link = RouteSocket::open()?.link(interface)?;
        let fresh = Fresh {
            knobs: knobs::fresh(interface).map_err(|error| refusal(error.to_string()))?,
            segments: Some(link.gso_max_segs).filter(|segments| *segments > 1),
        };
        self.fresh.insert(interface.to_owned(), fresh.clone());
        Ok(fresh)
    }

    /// Measures, in an idle run too, ahead of all other threads.
    fn measure(&mut self, spec: &MeasureSpec) -> Result<Reply, Refusal> {
        let _ahead = Ahead::now();
        if self.session.is_some() {
            // it runs from the flows' beginning to their end
            return self.measure_interval(spec);
        }
        self.cpu_meter.run();
        let reply = self.measure_interval(spec);
        self.cpu_meter.rest();
        reply
    }

    fn measure_interval(&mut self, spec: &MeasureSpec) -> Result<Reply, Refusal> {
        let longest = MAX_DURATION.as_nanos() as u64;
        if spec.end_ns.saturating_sub(monotonic_ns()) > longest {
            return Err(refusal(format!(
                "the measurement ends in {} s, expected at most {} s",
                spec.end_ns.saturating_sub(monotonic_ns()) / 1_000_000_000,
                MAX_DURATION.as_secs()
            )));
        }
        let flows = self.session.as_ref().map_or(&[][..], |session| &session.flows);
        let control = self.session.as_ref().map(|session| &session.control);
        let meters = Meters::new(spec, flows, &self.cpu_meter);
        let mut sampling = match (&self.profiler, spec.profile) {
            (Some(profiler), true) => {
                Some(profiler.start(&spec.cpus, spec.end_ns.saturating_sub(monotonic_ns()))?)
            }
            (None, true) => return Err(refusal("profile requested before prepare-profile")),
            (_, false) => None,
        };
        if let (Some(control), Some(event_ns)) = (control, spec.event_ns) {
            control.moments.set(spec.start_ns, event_ns);
        }
        self.sleep_until(spec.start_ns.saturating_sub(SLOW_AHEAD_NS))?;
        let slow = meters.prepare()?;
        self.sleep_until(spec.start_ns.saturating_sub(crossing::AROUND_NS))?;
        let around = meters.approach(spec.start_ns);
        self.sleep_until(spec.start_ns)?;
        let opened = meters.open(slow, around)?;
        if let Some(control) = control {
            control.open_measurement();
        }
        if let Some(sampling) = &mut sampling {
            sampling.opened(&opened);
        }
        let mut buffers = SendBuffers::of(flows);
        let mut sampler = Sampler::of(flows, spec.start_ns, spec.end_ns, send_buffers::EVERY_NS);
        let mut absences = Absences::from_now(spec.readers);
        let looks = (&mut buffers, &mut sampler, &mut absences);
        let at_event = self.watch(spec, &meters, sampling.as_mut(), looks)?;
        let asleep_until_ns = spec.end_ns.max(monotonic_ns());
        self.sleep_until(spec.end_ns)?;
        absences.woke(asleep_until_ns);
        let broken = self.session.as_ref().and_then(Session::broken);
        if let Some(control) = control {
            control.close_measurement();
        }
        // the readings that close the measurement take the CPU of the flows for some milliseconds
        let intervals = sampler.finish();
        let closed = meters.close(&opened)?;
        let mut report = meters.report(&opened, &closed, broken);
        let session = self.session.as_ref().filter(|_| spec.event_ns.is_some());
        report.record = session.map(|session| {
            let resent = at_event.map(|event| event.resent(&closed)).unwrap_or_default();
            Box::new(RecordReport { resent, ..session.record(spec.end_ns) })
        });
        report.senders.buffer_samples = buffers.looks;
        report.senders.buffer_full_samples = buffers.full;
        report.stalled_ns = absences.sum_ns();
        report.intervals = intervals;
        if let Some(sampling) = sampling {
            report.profile = Some(Box::new(sampling.closed(&closed, flows)?));
        }
        Ok(Reply::Measured(Box::new(report)))
    }

    /// Looks at the send buffers and at the counters of the flows while the measurement is open, and if this process stalled;
    /// reads samples in a long one. Returns the reading at the event, if there is one.
    fn watch(
        &self,
        spec: &MeasureSpec,
        meters: &Meters<'_>,
        mut sampling: Option<&mut Sampling<'_>>,
        (buffers, sampler, absences): (&mut SendBuffers<'_>, &mut Sampler<'_>, &mut Absences),
    ) -> Result<Option<meter::Event>, Refusal> {
        let due_ns = |sampling: &Sampling<'_>| monotonic_ns().saturating_add(sampling.lasts_ns());
        let mut rings_ns = sampling.as_deref().map(due_ns);
        let (mut event_ns, mut at_event) = (spec.event_ns, None);
        loop {
            let presence = spec.samples_often.then(|| absences.next_ns());
            let looks = [buffers.next_ns(), sampler.next_ns(), presence];
            let due = [event_ns, rings_ns].into_iter().chain(looks).flatten().min();
            let Some(next_ns) = due.filter(|next_ns| *next_ns < spec.end_ns) else {
                return Ok(at_event);
            };
            // what is overdue already was kept by the look before
            let asleep_until_ns = next_ns.max(monotonic_ns());
            self.sleep_until(next_ns)?;
            absences.woke(asleep_until_ns);
            if event_ns.take_if(|event_ns| *event_ns == next_ns).is_some() {
                at_event = Some(meters.at_event());
            }
            // both may be due within a moment: the CPU is woken once
            let soon_ns = monotonic_ns().saturating_add(SOON_NS);
            if buffers.next_ns().is_some_and(|next_ns| next_ns <= soon_ns) {
                buffers.look();
            }
            if sampler.next_ns().is_some_and(|next_ns| next_ns <= soon_ns) {
                sampler.take();
            }
            if rings_ns == Some(next_ns)
                && let Some(sampling) = sampling.as_mut()
            {
                sampling.read()?;
                rings_ns = Some(due_ns(sampling));
            }
        }
    }

    /// Sleeps, but not through the controller's death: a closed carrier ends the agent at once.
    fn sleep_until(&self, deadline_ns: u64) -> Result<(), Refusal> {
        /// Polling for the controller would wake the SUT's CPU each time.
        const NEAR_NS: u64 = 20_000_000;
        let wait_ns = deadline_ns.saturating_sub(monotonic_ns() + NEAR_NS);
        if socket::wait_ready(self.carrier, false, Duration::from_nanos(wait_ns))? {
            return Err(refusal("request or end of input before the measurement ended"));
        }
        sleep_until_ns(deadline_ns);
        Ok(())
    }

    fn end_session(&mut self) {
        self.listening = None;
        self.ahead = None;
        self.cpu_meter.rest();
        toe::locked(&self.toe).release_flows();
        if let Some(session) = self.session.take() {
            session.finish();
        }
        toe::locked(&self.toe).forget();
    }
}

fn configure_interface(setup: &InterfaceSetup) -> Result<Reply, Refusal> {
    let mut route = RouteSocket::open()?;
    // no router solicitation disturbs a measurement
    route.disable_ipv6(&setup.name)?;
    route.add_address(&setup.name, setup.address, setup.prefix_length)?;
    route.set_up("lo")?;
    // an interface has as many queues as any run needs; a run that does not ask uses one
    let mut ethtool = Ethtool::open()?;
    if ethtool.can_set_channels(&setup.name)? {
        knobs::set_queues(&mut ethtool, &setup.name, 1)?;
    }
    route.set_up(&setup.name)?;
    if let Some(congestion) = &setup.route_congestion {
        let mask = u32::MAX.checked_shl(32 - u32::from(setup.prefix_length)).unwrap_or(0);
        let network = Ipv4Addr::from_bits(setup.address.to_bits() & mask);
        route.set_route_congestion(
            &setup.name,
            network,
            setup.prefix_length,
            setup.address,
            congestion,
        )?;
    }
    if let Some(gateway) = setup.gateway {
        route.set_default_route(&setup.name, gateway, setup.route_congestion.as_deref())?;
    }
    Ok(Reply::Done)
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |rest| rest.trim_start_matches([' ', '\t', ':']).to_owned(),
    )
}
