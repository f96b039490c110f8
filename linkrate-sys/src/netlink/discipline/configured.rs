//! The queueing disciplines that somebody configured on an interface, and whether they have filters.
//!
//! The kernel gives every interface its default disciplines, with handle zero, when it comes up
//! (`attach_default_qdiscs`, net/sched/sch_generic.c). Configured ones have another handle.

use std::io;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE};

use crate::error::SysResult;
use crate::netlink::raw::{Raw, text};
use crate::netlink::{RouteSocket, check_name, quoted};

/// The length of `struct tcmsg`, linux/rtnetlink.h, and the offsets of its fields.
pub(super) const HEADER: usize = 20;
const INDEX: usize = 4;
pub(super) const HANDLE: usize = 8;
pub(super) const PARENT: usize = 12;

// linux/rtnetlink.h
pub(super) const TCA_KIND: u16 = 1;
pub(super) const TCA_OPTIONS: u16 = 2;
const TCA_STAB: u16 = 8;
const TCA_INGRESS_BLOCK: u16 = 13;
const TCA_EGRESS_BLOCK: u16 = 14;

/// The parent of a root discipline, and of one on ingress (`clsact`, `ingress`).
pub(super) const ROOT: u32 = u32::MAX;
pub(super) const INGRESS: u32 = 0xffff_fff1;

/// The parents of filters on ingress and egress (`TC_H_MIN_INGRESS`, `TC_H_MIN_EGRESS`).
pub(in crate::netlink) const HOOKS: [(u32, &str); 2] =
    [(0xffff_fff2, "ingress"), (0xffff_fff3, "egress")];

/// Disciplines that are the same after they were removed and made again from what the kernel told.
/// `fq_codel` is not one of them: each time it rounds its times.
const EXACT: [&str; 6] = ["pfifo", "bfifo", "tbf", "noqueue", "clsact", "ingress"];

/// The disciplines of one interface that somebody configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Disciplines(Vec<Raw>);

impl Disciplines {
    /// As rtnetlink messages, for a file.
    pub fn to_messages(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|message| message.body.clone()).collect()
    }

    /// Reads what [`to_messages`](Self::to_messages) wrote; `InvalidData` for bytes that are no such messages.
    pub fn of_messages(messages: &[Vec<u8>]) -> io::Result<Self> {
        let read = |bytes: &Vec<u8>| {
            let message = Raw::new(libc::RTM_NEWQDISC, bytes.clone());
            let whole = message.attribute(HEADER, TCA_KIND).is_some();
            whole.then_some(message).ok_or(io::ErrorKind::InvalidData)
        };
        Ok(Self(messages.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first that cannot be restored exactly, in words for a user.
    pub fn inexact(&self) -> Option<String> {
        self.0.iter().find_map(|message| {
            let kind = kind(message);
            let handle = message.word(HANDLE).unwrap_or(0);
            let name = format!("{kind} {:x}:", handle >> 16);
            let of_root = matches!(message.word(PARENT), Some(ROOT | INGRESS));
            let shares = [TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK];
            if !of_root {
                Some(format!("a queueing discipline in another, {name}"))
            } else if shares.iter().any(|block| message.attribute(HEADER, *block).is_some()) {
                Some(format!("the queueing discipline {name} with a shared block of filters"))
            } else if !EXACT.contains(&kind.as_str()) {
                Some(format!("the queueing discipline {name}"))
            } else {
                None
            }
        })
    }
}

impl RouteSocket {
    /// The disciplines of an interface that somebody configured.
    pub fn configured_disciplines(&mut self, name: &str) -> SysResult<Disciplines> {
        let found = self.traffic_control(name, libc::RTM_GETQDISC, 0)?;
        let configured = found.iter().filter(|message| message.word(HANDLE) != Some(0));
        Ok(Disciplines(configured.map(restorable).collect()))
    }

    /// The kinds of the disciplines that the kernel gave the interface itself.
    pub fn default_disciplines(&mut self, name: &str) -> SysResult<Vec<String>> {
        let found = self.traffic_control(name, libc::RTM_GETQDISC, 0)?;
        Ok(found.iter().filter(|message| message.word(HANDLE) == Some(0)).map(kind).collect())
    }

    /// Where the interface has filters beside its queues: `ingress` or `egress`.
    pub fn filtered_hook(&mut self, name: &str) -> SysResult<Option<&'static str>> {
        for (parent, hook) in HOOKS {
            if !self.traffic_control(name, libc::RTM_GETTFILTER, parent)?.is_empty() {
                return Ok(Some(hook));
            }
        }
        Ok(None)
    }

    /// Restores configured disciplines that are missing or differ. The interface must be up, if it
    /// was.
    ///
    /// # Errors
    /// The first refusal; or the kernel made another discipline of one.
    pub fn restore_disciplines(&mut self, name: &str, disciplines: &Disciplines) -> SysResult<()> {
        const OPERATION: &str = "restore a queueing discipline of";
        let there = self.configured_disciplines(name)?;
        let index = self.link(name)?.index;
        let missing = || disciplines.0.iter().filter(|message| !there.0.contains(message));
        for message in missing() {
            let mut message = message.clone();
            message.body[INDEX..INDEX + 4].copy_from_slice(&index.to_ne_bytes());
            self.0
                .request::<_, Raw>(message, NLM_F_CREATE | NLM_F_REPLACE)
                .map_err(|refusal| refusal.during(OPERATION, quoted(name)))?;
        }
        if missing().next().is_some() && self.configured_disciplines(name)? != *disciplines {
            let cause = io::Error::other("it does not read back as it was");
            return Err(crate::error::SysError::new(OPERATION, quoted(name), cause));
        }
        Ok(())
    }

    /// What the kernel reports on the traffic control of an interface: a dump of this kind.
    pub(in crate::netlink) fn traffic_control(
        &mut self,
        name: &str,
        kind: u16,
        parent: u32,
    ) -> SysResult<Vec<Raw>> {
        const OPERATION: &str = "read the traffic control of";
        check_name(OPERATION, name)?;
        let index = self.link(name)?.index;
        let mut header = [0; HEADER];
        header[INDEX..INDEX + 4].copy_from_slice(&index.to_ne_bytes());
        header[PARENT..PARENT + 4].copy_from_slice(&parent.to_ne_bytes());
        let mut replies: Vec<Raw> = self
            .0
            .request(Raw::new(kind, header), NLM_F_DUMP)
            .map_err(|refusal| refusal.during(OPERATION, quoted(name)))?;
        replies.retain(|message| message.word(INDEX) == Some(index));
        Ok(replies)
    }
}

fn kind(message: &Raw) -> String {
    text(message.attribute(HEADER, TCA_KIND).unwrap_or_default())
}

/// The discipline as a request, without counters, and without the index, which may change.
fn restorable(reported: &Raw) -> Raw {
    let mut header = [0; HEADER];
    for at in [HANDLE, PARENT] {
        header[at..at + 4].copy_from_slice(&reported.word(at).unwrap_or(0).to_ne_bytes());
    }
    let mut message = Raw::new(libc::RTM_NEWQDISC, header);
    let kept = [TCA_KIND, TCA_OPTIONS, TCA_STAB, TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK];
    for (kind, value) in reported.attributes(HEADER).filter(|(kind, _)| kept.contains(kind)) {
        message.push(kind, value);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(kind: &str, handle: u32, parent: u32) -> Raw {
        let words = [0, 7, handle, parent, 2];
        let header: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        let mut message = Raw::new(libc::RTM_NEWQDISC, header);
        message.push(TCA_KIND, format!("{kind}\0").as_bytes());
        message.push(TCA_OPTIONS, &1000u32.to_ne_bytes());
        // counters
        message.push(7, &[0; 8]);
        message
    }

    #[test]
    fn disciplines_survive_a_file_without_index_and_counters() {
        let kept = restorable(&reported("pfifo", 0x7_0000, ROOT));
        assert_eq!((kept.word(INDEX), kept.attributes(HEADER).count()), (Some(0), 2));
        let all = Disciplines(vec![kept]);
        assert_eq!(Disciplines::of_messages(&all.to_messages()).unwrap(), all);
        assert!(Disciplines::of_messages(&[vec![0; HEADER]]).is_err());
    }

    #[test]
    fn what_cannot_be_made_again_is_named() {
        let inexact = |message: Raw| Disciplines(vec![message]).inexact();
        assert_eq!(inexact(reported("pfifo", 0x8001_0000, ROOT)), None);
        assert_eq!(inexact(reported("clsact", 0xffff_0000, INGRESS)), None);
        let htb = inexact(reported("htb", 0x1_0000, ROOT));
        assert_eq!(htb.as_deref(), Some("the queueing discipline htb 1:"));
        let inner = inexact(reported("pfifo", 0x14_0000, 0x1_0014)).unwrap();
        assert_eq!(inner, "a queueing discipline in another, pfifo 14:");
        let mut shared = reported("clsact", 0xffff_0000, INGRESS);
        shared.push(TCA_INGRESS_BLOCK, &1u32.to_ne_bytes());
        assert!(inexact(shared).unwrap().contains("shared block"));
    }
}
