//! An existing interface of another network namespace, moved into this host until its agent ends.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use linkrate_sys::error::SysError;
use linkrate_sys::host;
use linkrate_sys::netlink::{Addressing, RouteSocket};

use crate::protocol::Refusal;

/// A borrowed interface. It returns to its namespace when dropped, with its addresses and routes.
#[derive(Debug)]
pub struct Borrowed {
    name: String,
    home: OwnedFd,
    /// A socket in the original namespace, to restore addresses and routes there.
    at_home: RouteSocket,
    addressing: Addressing,
}

impl Borrowed {
    /// Moves `name` from the network namespace of process `pid` into that of the caller, with its
    /// addresses.
    ///
    /// # Errors
    /// When it has no IPv4 address, cannot move, or the caller may not enter the namespace.
    pub fn take(name: &str, pid: u32) -> Result<Self, Refusal> {
        let home = host::network_namespace_of(pid)?;
        let own = OwnedFd::from(File::open("/proc/self/ns/net")?);
        let mut at_home = RouteSocket::open_in(home.as_fd())?;
        let addressing = at_home.addressing(name)?;
        if !addressing.has_ipv4() {
            return Err(Refusal {
                reason: format!("interface {name} has no IPv4 address, which runs need"),
                hint: Some(format!("add one: ip address add ADDRESS/LENGTH dev {name}")),
            });
        }
        at_home.move_to(name, own.as_fd()).map_err(|error| Refusal {
            reason: error.to_string(),
            hint: Some(
                "run as root, and use an interface that can move to another network namespace"
                    .to_owned(),
            ),
        })?;
        // from here on, drop moves the interface back
        let borrowed = Self { name: name.to_owned(), home, at_home, addressing };
        let mut here = RouteSocket::open()?;
        here.set_up("lo")?;
        here.restore_addressing(name, &borrowed.addressing, false)?;
        here.set_up(name)?;
        Ok(borrowed)
    }

    fn take_home(&mut self) -> Result<(), SysError> {
        RouteSocket::open()?.move_to(&self.name, self.home.as_fd())?;
        self.at_home.restore_addressing(&self.name, &self.addressing, true)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Err(error) = self.take_home() {
            eprintln!("warning: interface {} was not fully restored: {error}", self.name);
        }
    }
}
