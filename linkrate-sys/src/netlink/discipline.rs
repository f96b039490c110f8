//! Queue disciplines (rtnetlink(7), tc(8)).

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use super::{RouteSocket, check_name, quoted};
use crate::error::SysResult;

/// The root queue discipline of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// No queue before the driver (`noqueue`). It takes no memory.
    NoQueue,
    /// A token bucket (tc-tbf(8)): packets leave at `bytes_per_second` at most, and what waits
    /// still belongs to its socket, whose send buffer so holds the sender back.
    TokenBucket {
        /// Rate.
        bytes_per_second: u64,
        /// Bytes that may leave at once; a longer superframe would be cut in software.
        burst: u32,
        /// Bytes that wait at most.
        limit: u32,
    },
}

impl Discipline {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoQueue => "noqueue",
            Self::TokenBucket { .. } => "tbf",
        }
    }

    fn options(self) -> Vec<TcOption> {
        let Self::TokenBucket { bytes_per_second, burst, limit } = self else { return Vec::new() };
        let option = |kind, value: Vec<u8>| TcOption::Other(DefaultNla::new(kind, value));
        // struct tc_tbf_qopt, include/uapi/linux/pkt_sched.h; a rate that fits no 32 bits has an
        // attribute of its own, and the burst in bytes too
        let rate = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
        let mut parameters = Vec::with_capacity(36);
        parameters.extend([0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
        parameters.extend(rate.to_ne_bytes());
        // no peak rate
        parameters.extend([0; 12]);
        parameters.extend(limit.to_ne_bytes());
        // buffer and mtu, which the attributes replace
        parameters.extend([0; 8]);
        let mut options = vec![option(TCA_TBF_PARMS, parameters)];
        if u64::from(rate) < bytes_per_second {
            options.push(option(TCA_TBF_RATE64, bytes_per_second.to_ne_bytes().to_vec()));
        }
        options.push(option(TCA_TBF_BURST, burst.to_ne_bytes().to_vec()));
        options
    }
}

/// `TC_LINKLAYER_ETHERNET`: lengths count as they are.
const LINKLAYER_ETHERNET: u8 = 1;
/// include/uapi/linux/pkt_sched.h
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;

impl RouteSocket {
    /// Replaces the root queue discipline of an interface. On an interface that is down this spares
    /// the kernel the default discipline, of which every transmit queue has one.
    ///
    /// # Errors
    /// `ENODEV` when this namespace has no interface of that name, `ENOENT` when the kernel lacks
    /// the discipline.
    pub fn set_discipline(&mut self, name: &str, discipline: Discipline) -> SysResult<()> {
        const OPERATION: &str = "set queue discipline of";
        check_name(OPERATION, name)?;
        let mut message = TcMessage::default();
        message.header.index = self.link(name)?.index as i32;
        message.header.parent = TcHandle::ROOT;
        message.attributes = vec![TcAttribute::Kind(discipline.name().to_owned())];
        let options = discipline.options();
        if !options.is_empty() {
            message.attributes.push(TcAttribute::Options(options));
        }
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        self.act(request, NLM_F_CREATE | NLM_F_REPLACE).map_err(|refusal| {
            refusal.during(OPERATION, format!("{} to {}", quoted(name), discipline.name()))
        })
    }
}
