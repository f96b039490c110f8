//! The ways to send payload into a TCP socket.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_model::{SendPath, Workload};
use linkrate_sys::memory::PageBuffer;
use linkrate_sys::socket;
use linkrate_sys::splice::PagePipes;
use linkrate_sys::unnamed_file::{memory_file, sendfile};

use super::ring::{Ring, fill, payload_pages};
use super::{Counters, FlowContext};

/// Payload that is hard to compress and has a long period, the same for every flow.
pub fn payload(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill(&mut bytes);
    bytes
}

/// A socket, and the means to send messages through it.
#[derive(Debug)]
pub struct Sender {
    socket: Arc<OwnedFd>,
    means: Means,
}

#[derive(Debug)]
enum Means {
    Plain(Ring),
    MsgZerocopy { payload: PageBuffer, outstanding: u64 },
    Sendfile(File),
    Splice(PagePipes),
}

/// Sends after which completions are reaped; few enough to stay below the socket's optmem limit.
const REAP_EVERY: u64 = 16;

impl Sender {
    /// Prepares to send the messages of a workload.
    pub fn new(socket: Arc<OwnedFd>, workload: &Workload) -> io::Result<Self> {
        let payload = || {
            let largest = usize::try_from(workload.message.largest().0);
            payload_pages(largest.map_err(io::Error::other)?)
        };
        let means = match workload.send_path {
            SendPath::Plain => Means::Plain(Ring::to_send(workload.sent_from())?),
            SendPath::Splice => Means::Splice(PagePipes::new(payload()?)?),
            SendPath::MsgZerocopy => {
                socket::enable_zerocopy(&socket)?;
                Means::MsgZerocopy { payload: payload()?, outstanding: 0 }
            }
            SendPath::Sendfile => Means::Sendfile(memory_file(&payload()?)?),
        };
        Ok(Self { socket, means })
    }

    /// Sends one whole message of `length` bytes, and counts each part; `WriteZero` when the peer accepts no more data.
    pub fn send(&mut self, length: usize, flow: &FlowContext) -> io::Result<()> {
        let FlowContext { control, counters, parking, .. } = flow;
        let mut sent = 0;
        while sent < length && !control.stopped() {
            let count = parking.call(|| self.send_some(sent, length - sent, counters))?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            sent += count;
            counters.add_sent(count as u64);
        }
        Ok(())
    }

    fn send_some(&mut self, from: usize, length: usize, counters: &Counters) -> io::Result<usize> {
        let socket = &self.socket;
        match &mut self.means {
            Means::Plain(ring) => ring.send(socket, length),
            Means::MsgZerocopy { payload, outstanding } => {
                let sent = match socket::send_zerocopy(socket, &payload[from..from + length]) {
                    Ok(sent) => {
                        *outstanding += 1;
                        sent
                    }
                    // too many completions are outstanding: reap them, and copy this message
                    Err(error) if socket::is_out_of_buffers(&error) => {
                        *outstanding = REAP_EVERY;
                        counters.add_completed(1);
                        counters.add_copied(1);
                        socket::send(socket, &payload[from..from + length])?
                    }
                    Err(error) => return Err(error),
                };
                if *outstanding >= REAP_EVERY {
                    let done = socket::reap_zerocopy(socket)?;
                    counters.add_completed(done.completed);
                    counters.add_copied(done.copied);
                    *outstanding = outstanding.saturating_sub(done.completed);
                }
                Ok(sent)
            }
            Means::Sendfile(file) => sendfile(socket, file, from as u64, length),
            Means::Splice(pipes) => pipes.send(socket, length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_has_its_length_and_does_not_repeat_early() {
        let bytes = payload(10_001);
        assert_eq!(bytes.len(), 10_001);
        assert_ne!(bytes[..5000], bytes[5000..10_000]);
    }

    #[test]
    fn plain_payload_is_sent_out_of_the_working_set() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let near = Arc::new(OwnedFd::from(near));
        for working_set in [None, Some(linkrate_model::ByteSize(1 << 20))] {
            let workload = Workload { working_set, ..Workload::default() };
            let sender = Sender::new(near.clone(), &workload).unwrap();
            let Means::Plain(ring) = sender.means else { panic!("another path") };
            assert_eq!(ring.length() as u64, workload.sent_from());
        }
    }
}
