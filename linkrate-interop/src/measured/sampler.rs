//! The counters of all streams, as intervals.

use std::os::fd::{AsFd, AsRawFd};

use linkrate_sys::tcp_info::TcpInfo;

use super::{Interval, Mark, OwnEnd, Path, Spread, StreamInterval, datagrams};
use crate::payload::Stream;

/// What a sender's path has been.
#[derive(Debug, Clone, Copy, Default)]
struct Gathered {
    spread: Spread,
    rtt_sum: u64,
    samples: u64,
}

/// Reads the counters.
#[derive(Debug)]
pub struct Sampler<'a> {
    streams: &'a [Stream],
    is_udp: bool,
    /// Where the figures begin: behind what is left out.
    from: Vec<Mark>,
    last: Vec<Mark>,
    gathered: Vec<Gathered>,
}

impl<'a> Sampler<'a> {
    pub fn new(streams: &'a [Stream], is_udp: bool) -> Self {
        let zero = vec![Mark::default(); streams.len()];
        let gathered = vec![Gathered::default(); streams.len()];
        Self { streams, is_udp, from: zero.clone(), last: zero, gathered }
    }

    /// Begins the figures here.
    pub fn leave_out(&mut self) {
        for ((stream, from), gathered) in
            self.streams.iter().zip(&mut self.from).zip(&mut self.gathered)
        {
            let retransmits = info(stream).map_or(0, |info| info.total_retrans);
            *from = Mark { count: stream.leave_out(), retransmits };
            *gathered = Gathered::default();
        }
        self.last.clone_from(&self.from);
    }

    /// The interval since the last one.
    pub fn interval(&mut self, start: f64, end: f64, is_omitted: bool) -> Interval {
        let mut streams = Vec::with_capacity(self.streams.len());
        let each = self.streams.iter().zip(&mut self.last).zip(&mut self.gathered);
        for ((stream, last), gathered) in each {
            let info = info(stream);
            let now = Mark {
                count: stream.count(),
                retransmits: info.map_or(0, |info| info.total_retrans),
            };
            let path = info.map(|info| path(&info, now.retransmits.wrapping_sub(last.retransmits)));
            if let Some(path) = path {
                gathered.add(&path);
            }
            streams.push(StreamInterval {
                socket: name(stream),
                sends: stream.sends,
                bytes: now.count.bytes.saturating_sub(last.count.bytes),
                datagrams: self.is_udp.then(|| datagrams(&last.count, &now.count)),
                path,
            });
            *last = now;
        }
        Interval { start, end, is_omitted, streams: streams.into() }
    }

    /// What this end knows of each stream: until the figures began, and until the last interval.
    pub fn ends(&self) -> Vec<OwnEnd> {
        let each = self.streams.iter().zip(&self.from).zip(&self.last).zip(&self.gathered);
        each.map(|(((stream, from), last), gathered)| OwnEnd {
            socket: name(stream),
            sends: stream.sends,
            marks: [*from, *last],
            spread: gathered.spread(),
        })
        .collect()
    }

    /// Octets that have arrived since the figures began.
    pub fn received(&self) -> u64 {
        let receivers = self.streams.iter().zip(&self.from).filter(|(stream, _)| !stream.sends);
        receivers.map(|(stream, from)| stream.count().bytes.saturating_sub(from.count.bytes)).sum()
    }

    /// Whether everything that was sent over connections is acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        let mut senders = self.streams.iter().filter_map(info);
        senders.all(|info| info.unacked == 0 && info.notsent_bytes == 0)
    }
}

impl Gathered {
    fn add(&mut self, path: &Path) {
        let spread = &mut self.spread;
        spread.max_snd_cwnd = spread.max_snd_cwnd.max(path.snd_cwnd);
        spread.max_snd_wnd = spread.max_snd_wnd.max(path.snd_wnd);
        spread.max_rtt_us = spread.max_rtt_us.max(path.rtt_us);
        spread.reordered = path.reordered;
        spread.min_rtt_us = match self.samples {
            0 => path.rtt_us,
            _ => spread.min_rtt_us.min(path.rtt_us),
        };
        self.rtt_sum += u64::from(path.rtt_us);
        self.samples += 1;
    }

    fn spread(&self) -> Spread {
        let mean_rtt_us = self.rtt_sum.checked_div(self.samples).unwrap_or(0) as u32;
        Spread { mean_rtt_us, ..self.spread }
    }
}

/// The descriptor of a stream's socket, which names it.
fn name(stream: &Stream) -> i32 {
    stream.socket().as_fd().as_raw_fd()
}

/// TCP_INFO of a sender.
fn info(stream: &Stream) -> Option<TcpInfo> {
    stream.tcp_info().filter(|_| stream.sends)
}

fn path(info: &TcpInfo, retransmits: u32) -> Path {
    Path {
        retransmits: retransmits.into(),
        snd_cwnd: u64::from(info.snd_cwnd) * u64::from(info.snd_mss),
        snd_wnd: info.snd_wnd.into(),
        rtt_us: info.rtt_us,
        rttvar_us: info.rttvar_us,
        path_mtu: info.path_mtu,
        reordered: info.reordered,
    }
}
