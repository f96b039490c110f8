//! TCP transfers on connections that stay open: a file's worth of bytes in messages, the word of the
//! peer that it arrived, and the next.
//!
//! The word is the number of bytes that the peer has received since the connection began, in network
//! byte order. A sender compares it with the number that it sent: bytes that are lost or doubled end the
//! run. Words are not payload, and no counter of payload has them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_sys::socket;

use super::FlowContext;
use super::send_path::Sender;
use super::sizes::Sizes;
use super::stream::{Receiver, Turns};

const WORD_BYTES: usize = 8;

/// Sends transfers of `bytes` each until told to stop, and keeps the time of each one. Fails with `UnexpectedEof` when
/// the peer closes first, and with `InvalidData` when its word is another than the bytes that were sent.
pub fn transmit(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut sender: Sender,
    mut sizes: Sizes,
    bytes: u64,
    mut turns: Turns,
) -> io::Result<()> {
    let mut sent = 0_u64;
    while !flow.control.stopped() {
        flow.begin();
        let mut left = bytes;
        while left > 0 && !flow.control.stopped() {
            let length = (sizes.draw() as u64).min(left);
            sender.send(length as usize, flow)?;
            left -= length;
            turns.sent(length as usize);
        }
        if left > 0 {
            return Ok(());
        }
        sent += bytes;
        await_word(flow, socket, sent)?;
        flow.completed();
    }
    Ok(())
}

/// Waits for the peer's word that `sent` bytes arrived.
fn await_word(flow: &FlowContext, socket: &OwnedFd, sent: u64) -> io::Result<()> {
    let mut word = [0; WORD_BYTES];
    let mut have = 0;
    while have < WORD_BYTES {
        match flow.parking.call(|| socket::receive(socket, &mut word[have..]))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            received => have += received,
        }
    }
    let arrived = u64::from_be_bytes(word);
    if arrived == sent {
        return Ok(());
    }
    let reason = format!("the peer received {arrived} bytes of {sent}");
    Err(io::Error::new(io::ErrorKind::InvalidData, reason))
}

/// Receives transfers of `bytes` each until told to stop, and gives its word after each one. Fails with `UnexpectedEof`
/// when the sender closes first, and with `InvalidData` when it sends on before it has the word.
pub fn receive(
    flow: &mut FlowContext,
    socket: &Arc<OwnedFd>,
    mut receiver: Receiver,
    bytes: u64,
) -> io::Result<()> {
    let (mut arrived, mut left) = (0_u64, bytes);
    while !flow.control.stopped() {
        let received = flow.parking.call(|| receiver.receive(socket))?;
        flow.counters.add_received(received as u64);
        arrived += received as u64;
        left = left.checked_sub(received as u64).ok_or_else(|| {
            let reason = format!("{received} bytes arrived where {left} were left of a transfer");
            io::Error::new(io::ErrorKind::InvalidData, reason)
        })?;
        if left > 0 {
            // a pause after the last byte would be part of the sender's response time
            receiver.gather(received, &flow.counters);
            continue;
        }
        left = bytes;
        let word = arrived.to_be_bytes();
        let mut sent = 0;
        while sent < WORD_BYTES {
            sent += flow.parking.call(|| socket::send(socket, &word[sent..]))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use linkrate_model::units::ByteSize;
    use linkrate_model::{MessageSize, Workload};

    use super::super::stream::Taking;
    use super::super::{Control, Flow};
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn sizes() -> Sizes {
        let (low, high) = (ByteSize(1), ByteSize(5000));
        Sizes::new(MessageSize::Uniform { low, high }, 7)
    }

    fn sending(stream: TcpStream, control: &Arc<Control>, bytes: u64) -> Flow {
        let socket = Arc::new(OwnedFd::from(stream));
        let shared = Some(Arc::clone(&socket));
        Flow::spawn("send 0.0".to_owned(), control, shared, true, move |flow| {
            let sender = Sender::new(Arc::clone(&socket), &Workload::default())?;
            transmit(flow, &socket, sender, sizes(), bytes, Turns::none())
        })
        .unwrap()
    }

    fn receiving(stream: TcpStream, control: &Arc<Control>, bytes: u64) -> Flow {
        let socket = Arc::new(OwnedFd::from(stream));
        let shared = Some(Arc::clone(&socket));
        Flow::spawn("receive 0.0".to_owned(), control, shared, false, move |flow| {
            let receiver = Receiver::new(&Workload::default(), Taking::AtOnce)?;
            receive(flow, &socket, receiver, bytes)
        })
        .unwrap()
    }

    fn finished(control: &Control, flows: Vec<Flow>) -> Vec<(Option<String>, u64)> {
        control.stop();
        for flow in &flows {
            socket::shut_down(flow.socket.as_ref().unwrap());
        }
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let ended = flows.into_iter().map(|flow| flow.join(deadline));
        ended.map(|(reason, latency)| (reason, latency.all.len())).collect()
    }

    #[test]
    fn a_transfer_ends_with_its_word_and_has_a_time() {
        let (near, far) = pair();
        let control = Arc::new(Control::default());
        let flows = vec![sending(near, &control, 100_003), receiving(far, &control, 100_003)];
        control.begin();
        control.open_measurement();
        while flows[0].counters.transactions() < 20 {
            assert!(!flows.iter().any(Flow::has_ended));
            std::thread::yield_now();
        }
        let [sent, received] = [flows[0].counters.sent(), flows[1].counters.received()];
        assert!(sent >= 20 * 100_003 && received >= 20 * 100_003, "{sent} {received}");
        assert_eq!((flows[0].counters.received(), flows[1].counters.sent()), (0, 0), "words");
        let ended = finished(&control, flows);
        assert!(ended.iter().all(|(reason, _)| reason.is_none()), "{ended:?}");
        assert!(ended[0].1 >= 20, "{ended:?}");
    }

    /// Runs a sender against a peer that reads a transfer and answers with `word`.
    fn answered(word: u64) -> Option<String> {
        let (near, mut far) = pair();
        let control = Arc::new(Control::default());
        let flow = sending(near, &control, 9);
        control.begin();
        // the socket of a flow that broke stays open until the flow is joined
        far.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
        far.read_exact(&mut [0; 9]).unwrap();
        far.write_all(&word.to_be_bytes()).unwrap();
        // the next transfer, or the end
        let more = far.read(&mut [0; 1]);
        drop(far);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let reason = flow.join(deadline).0;
        // without a stop, the end of the connection breaks an honest one too
        more.is_ok_and(|read| read > 0).then(|| "went on".to_owned()).or(reason)
    }

    #[test]
    fn a_wrong_word_breaks_the_flow() {
        assert_eq!(answered(9).as_deref(), Some("went on"));
        let reason = answered(8).unwrap();
        assert_eq!(reason, "flow \"send 0.0\": the peer received 8 bytes of 9");
    }

    #[test]
    fn a_sender_that_does_not_wait_breaks_the_flow() {
        let (mut near, far) = pair();
        let control = Arc::new(Control::default());
        let flow = receiving(far, &control, 10);
        near.write_all(&[0; 64]).unwrap();
        control.begin();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let reason = flow.join(deadline).0.unwrap();
        assert!(reason.contains("64 bytes arrived where 10 were left"), "{reason}");
    }
}
