//! The thread of a lab that listens: to commands, to the program in the lab, and to signals.
//!
//! It waits for descriptors alone, and never for an agent, a file or a reader. So a lab that has to
//! end does so at once, whatever its other thread waits for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use linkrate_sys::host::join::{Guest, user};
use linkrate_sys::{local_socket, wait};

use super::caller::{Call, Caller, Heard};
use super::messages::{Refused, Reply, Request, decode_request};
use super::news::{Ended, FAREWELL, MAX_REQUESTS, News, POLL_INTERVAL};
use super::socket::LabSocket;

/// The most commands whose requests are read at a time; others wait to be accepted.
const MAX_CALLERS: usize = 8;

#[derive(Debug)]
pub(super) struct Listener {
    socket: Arc<LabSocket>,
    guest: Option<Guest>,
    /// The process was told to end; also ends the waits of the other thread.
    stop: Arc<AtomicBool>,
    /// The other thread has ended the lab.
    over: Arc<AtomicBool>,
    callers: Vec<Caller>,
}

impl Listener {
    pub(super) fn new(
        socket: Arc<LabSocket>,
        guest: Option<Guest>,
        stop: Arc<AtomicBool>,
        over: Arc<AtomicBool>,
    ) -> Self {
        Self { socket, guest, stop, over, callers: Vec::new() }
    }

    /// Listens until the lab ends, and ends the program in it.
    pub(super) fn run(mut self, news: &SyncSender<News>) -> io::Result<Ended> {
        let ended = self.listen(news);
        // a wait for an agent ends now
        self.stop.store(true, Ordering::Relaxed);
        // a thread that has ended, or has requests left, sees the end of this one
        let _ = news.try_send(News::Ends);
        let ended = ended?;
        if let (Some(guest), false) = (&mut self.guest, matches!(ended, Ended::Program(_))) {
            guest.end(FAREWELL)?;
        }
        Ok(ended)
    }

    fn listen(&mut self, news: &SyncSender<News>) -> io::Result<Ended> {
        loop {
            if let Some(guest) = &mut self.guest
                && let Some(status) = guest.try_wait()?
            {
                return Ok(Ended::Program(status));
            }
            if self.stop.load(Ordering::Relaxed) || self.over.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            if self.look(news)? {
                return Ok(Ended::Down);
            }
        }
    }

    /// Waits for [`POLL_INTERVAL`] at most, and passes on what has arrived. True when the lab is to end.
    fn look(&mut self, news: &SyncSender<News>) -> io::Result<bool> {
        let mut descriptors: Vec<BorrowedFd<'_>> = self.callers.iter().map(AsFd::as_fd).collect();
        let has_room = descriptors.len() < MAX_CALLERS;
        if has_room {
            descriptors.push(self.socket.listener().as_fd());
        }
        descriptors.extend(self.guest.as_ref().map(AsFd::as_fd));
        let ready = wait::wait(&descriptors, Some(POLL_INTERVAL.as_nanos() as u64))?;
        let mut down = false;
        let callers = std::mem::take(&mut self.callers);
        let count = callers.len();
        for (index, caller) in callers.into_iter().enumerate() {
            match caller.hear(ready.contains(index)) {
                Heard::Waiting(caller) => self.callers.push(caller),
                Heard::Call(call) => down |= pass_on(call, news),
                Heard::Gone => {}
            }
        }
        // a listener that fails, for want of descriptors for one, is asked again
        if has_room
            && ready.contains(count)
            && let Ok((stream, _)) = self.socket.listener().accept()
            && let Ok(caller) = Caller::new(stream)
        {
            self.callers.push(caller);
        }
        Ok(down)
    }
}

/// Passes a request of this user on. True for the one that ends the lab, which is answered here.
fn pass_on(call: Call, news: &SyncSender<News>) -> bool {
    match local_socket::peer_user(call.reply_to.stream()) {
        Ok(found) if found == user() => {}
        Ok(found) => {
            let reason = format!("user {found} may not control this lab; expected user {}", user());
            call.reply_to.send(&Reply::Refused(Refused::failed(reason)));
            return false;
        }
        Err(_) => return false,
    }
    if decode_request(&call.frame) == Ok(Request::Down) {
        call.reply_to.send(&Reply::Done);
        return true;
    }
    // without the other thread the command sees the end of the connection
    if let Err(TrySendError::Full(News::Call(call))) = news.try_send(News::Call(Box::new(call))) {
        let reason = format!("the lab has {MAX_REQUESTS} requests before this one");
        call.reply_to.send(&Reply::Refused(Refused::failed(reason)));
    }
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::mpsc::{Receiver, sync_channel};

    use linkrate_protocol::framing::{read_frame, write_frame};

    use super::super::messages::{CONTROL_VERSION, Envelope, decode_reply};
    use super::super::other_user::{NOBODY, Public, as_nobody, connect};
    use super::*;

    /// Accepts a connection and passes the request on that is sent over it.
    fn pass(
        listener: &UnixListener,
        mut theirs: &UnixStream,
        request: Request,
    ) -> (bool, Receiver<News>) {
        write_frame(&mut theirs, &Envelope { version: CONTROL_VERSION, request }).unwrap();
        let (ours, _) = listener.accept().unwrap();
        let Heard::Call(call) = Caller::new(ours).unwrap().hear(true) else { panic!("no call") };
        let (news, told) = sync_channel(1);
        (pass_on(call, &news), told)
    }

    fn reply_to(mut theirs: UnixStream) -> Reply {
        decode_reply(&read_frame(&mut theirs).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn a_request_of_another_user_is_refused_whatever_it_asks() {
        let public = Public::new("listener");
        let listener = public.listen();
        for request in [Request::Down, Request::Lab] {
            let Some(theirs) = as_nobody(|| connect(&public.socket())) else { return };
            let (down, told) = pass(&listener, &theirs, request.clone());
            assert!(!down && told.try_recv().is_err(), "{request:?} is carried out");
            let Reply::Refused(refused) = reply_to(theirs) else { panic!("not refused") };
            let reason =
                format!("user {NOBODY} may not control this lab; expected user {}", user());
            assert_eq!(refused.reason, reason);
        }
        let theirs = connect(&public.socket());
        assert!(pass(&listener, &theirs, Request::Down).0, "of this user");
        assert_eq!(reply_to(theirs), Reply::Done);
        let theirs = connect(&public.socket());
        let (down, told) = pass(&listener, &theirs, Request::Lab);
        assert!(!down && matches!(told.try_recv(), Ok(News::Call(_))));
    }
}
