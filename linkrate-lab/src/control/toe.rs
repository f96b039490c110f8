//! Requests about connections and the TCP offload engine: where they are, and moves of running programs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use linkrate_model::lab::{ConnectionPlace, ToeConnection, ToeReport};
use linkrate_sys::{descriptors, processes};
use linkrate_toe::supervisor::Unmoved;

use super::messages::{Refused, Reply};
use super::server::{Answer, OpenLab};

/// How long a move may take: all threads of a program stop, and agents answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The remedy where there is no engine.
const ENGINE: &str = "linkrate lab up --adapter toe";

impl From<Unmoved> for Refused {
    fn from(unmoved: Unmoved) -> Self {
        let reason = unmoved.to_string();
        match unmoved {
            Unmoved::NotSupervised { .. } => Self::failed(reason)
                .with_hint("start the program with `linkrate lab exec sut -- PROGRAM`"),
            Unmoved::Stays(_) | Unmoved::Refused { .. } => Self::failed(reason),
            Unmoved::NotTcp { .. } | Unmoved::NoDescriptor { .. } => {
                Self::wrong(reason).with_hint("`linkrate adapter toe show` lists connections")
            }
            Unmoved::NoProcess { .. } | Unmoved::Shared { .. } | Unmoved::Ended => {
                Self::wrong(reason)
            }
        }
    }
}

impl OpenLab {
    /// Moves the connection of a running program, and answers when it has moved.
    pub(super) fn offload(&self, process: u32, descriptor: i32) -> Result<Answer, Refused> {
        let Some(supervisor) = &self.supervisor else {
            let reason = format!("the adapters of lab {} have no TCP offload engine", self.name);
            return Err(Refused::failed(reason).with_hint(ENGINE));
        };
        let answered = supervisor.move_running(process, descriptor);
        Ok(Answer::Later(Box::new(move || match answered.recv_timeout(TIMEOUT) {
            Ok(Ok(())) => Reply::Done,
            Ok(Err(unmoved)) => Reply::Refused(unmoved.into()),
            Err(RecvTimeoutError::Timeout) => {
                let reason = format!("no answer after {} s", TIMEOUT.as_secs());
                Reply::Refused(Refused::failed(reason))
            }
            Err(RecvTimeoutError::Disconnected) => Reply::Refused(Refused::failed("the lab ends")),
        })))
    }

    /// Every TCP connection of the system under test over a port with an engine.
    pub(super) fn connections(&mut self) -> Result<ToeReport, Refused> {
        self.adapters()?;
        if !self.offloads() {
            let reason = format!("the adapters of lab {} have no TCP offload engine", self.name);
            return Err(Refused::failed(reason).with_hint(ENGINE));
        }
        let Some(adapters) = self.testbed.backend.adapters() else {
            return Err(Refused::failed("no adapters"));
        };
        let statuses: BTreeMap<u32, _> =
            adapters.connections_status()?.into_iter().map(|of| (of.id, of)).collect();
        let mut connections = Vec::new();
        for entry in self.programs.table.all() {
            let status = statuses.get(&entry.id);
            connections.push(ToeConnection {
                at: ConnectionPlace::Adapter,
                port: adapters.program_port(entry.id).unwrap_or_default(),
                own: entry.own,
                far: entry.far,
                process: Some(entry.process),
                program: Some(entry.program.clone()),
                descriptor: entry.descriptor(),
                sent: status.map_or(0, |of| of.sent),
                received: status.map_or(0, |of| of.received),
                age_ms: Some(u64::try_from(entry.since.elapsed().as_millis()).unwrap_or(u64::MAX)),
                moves: 1,
                ended: status.is_none_or(|of| of.ended),
                tcp: status.and_then(|of| of.tcp),
            });
        }
        let at_host = adapters.host_connections(&mut self.testbed.sut)?;
        let inodes: BTreeSet<u64> = at_host.iter().map(|(_, of)| of.inode.into()).collect();
        let owners = descriptors::owners(&inodes);
        for (port, of) in at_host {
            let owner = owners.get(&of.inode.into());
            connections.push(ToeConnection {
                at: ConnectionPlace::Host,
                port,
                own: of.own,
                far: of.far,
                process: owner.map(|(process, _)| *process),
                program: owner.and_then(|(process, _)| processes::program_of(*process).ok()),
                descriptor: owner.map(|(_, descriptor)| *descriptor),
                sent: of.sent,
                received: of.received,
                age_ms: None,
                moves: 0,
                ended: false,
                tcp: Some(of.tcp),
            });
        }
        let (moves, stayed) = (adapters.moves(), adapters.stayed());
        Ok(ToeReport { lab: self.name.to_string(), connections, moves, stayed })
    }
}
