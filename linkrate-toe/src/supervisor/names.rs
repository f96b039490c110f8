//! Under which numbers a program knows a socket that it connects.
//!
//! Nearly always there is one: that of the call. To look through all descriptors of a program for others
//! would take the longer, the more connections it has. So the calls that give a file another number, and
//! those that make an epoll set, wait for the supervisor, which notes them and lets the kernel carry them
//! out. A socket that a program has sent to itself in a message is not noticed.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use linkrate_sys::seccomp::Listener;
use linkrate_sys::{descriptors, socket_calls, socket_swap};

use super::running::Replaced;
use super::{Group, MAX_KEPT};

/// Most sockets that are remembered. A program with more is looked through for each connection.
const MAX_SOCKETS: usize = 1 << 16;

/// What a program and its children have done that gives sockets other numbers.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The epoll sets that the first process had when it began were looked for.
    looked: bool,
    /// Epoll sets exist.
    has_sets: bool,
    /// Sockets, by their cookies, that have a second descriptor or had one.
    duplicated: BTreeSet<u64>,
    /// There are more of them.
    too_many: bool,
}

impl Names {
    /// An epoll set will exist.
    pub(super) fn makes_set(&mut self) {
        self.has_sets = true;
    }

    /// A descriptor of a thread will have a second number. A thread that changes the descriptor at the same
    /// time cannot know what its program duplicates either.
    pub(super) fn duplicates(&mut self, thread: u32, descriptor: i32) {
        let Ok(file) = socket_swap::descriptor_of_thread(thread, descriptor) else { return };
        // connections have other sockets than these
        if !socket_calls::is_tcp(&file) {
            return;
        }
        match socket_calls::cookie(&file) {
            Ok(cookie) if self.duplicated.len() < MAX_SOCKETS => {
                self.duplicated.insert(cookie);
            }
            _ => self.too_many = true,
        }
    }

    /// Whether the socket of a call has one descriptor, and no epoll set waits for it.
    fn knows_one(&self, cookie: u64) -> bool {
        !self.has_sets && !self.too_many && !self.duplicated.contains(&cookie)
    }
}

impl Group {
    pub(super) fn new(listener: Listener) -> Self {
        Self {
            listener: listener.into(),
            names: Names::default(),
            kept: Vec::new(),
            connected: Vec::new(),
            late: Vec::new(),
        }
    }

    /// Keeps a connection for the next accept(2) on that listening socket.
    pub(super) fn keep_accepted(&mut self, listening: u64, accepted: OwnedFd) {
        if self.kept.len() < MAX_KEPT {
            self.kept.push((listening, accepted));
        }
    }

    /// The descriptors that name a socket which `thread` connects by `descriptor`. Fails when the process has
    /// ended.
    pub(super) fn names_of(
        &mut self,
        thread: u32,
        descriptor: i32,
        socket: &OwnedFd,
    ) -> io::Result<Replaced> {
        if !self.names.looked {
            self.names.has_sets |= descriptors::has_sets(thread)?;
            self.names.looked = true;
        }
        match socket_calls::cookie(socket) {
            Ok(cookie) if self.names.knows_one(cookie) => Replaced::at(thread, descriptor, socket),
            _ => Replaced::find(thread, socket),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_a_tcp_socket_that_was_duplicated_may_have_two_numbers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let [one, other] = [(); 2].map(|()| TcpStream::connect(listener.local_addr().unwrap()));
        let [one, other] = [one.unwrap(), other.unwrap()];
        let (stream, _far) = UnixStream::pair().unwrap();
        let own = std::process::id();
        let mut names = Names::default();
        for file in [one.as_raw_fd(), stream.as_raw_fd(), 1_000_000, -1] {
            names.duplicates(own, file);
        }
        let cookies = [&one, &other].map(|of| socket_calls::cookie(of).unwrap());
        assert_eq!(cookies.map(|of| names.knows_one(of)), [false, true]);
        assert_eq!(names.duplicated.len(), 1);
        names.makes_set();
        assert!(!names.knows_one(cookies[1]));
    }

    #[test]
    fn a_program_with_too_many_duplicates_is_looked_through() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut names = Names { duplicated: (0..MAX_SOCKETS as u64).collect(), ..Names::default() };
        assert!(names.knows_one(u64::MAX));
        names.duplicates(std::process::id(), listener.as_raw_fd());
        assert!(!names.knows_one(u64::MAX));
    }
}
