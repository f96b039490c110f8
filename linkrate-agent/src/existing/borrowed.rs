//! An interface of another network namespace that stays in this host as long as its agent lives.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use linkrate_sys::error::SysError;
use linkrate_sys::host;
use linkrate_sys::netlink::{Belongings, RouteSocket};

use crate::protocol::Refusal;

/// A borrowed interface. Dropping it returns it, with its addresses and routes.
#[derive(Debug)]
pub struct Borrowed {
    name: String,
    home: OwnedFd,
    /// A socket at home, to restore addresses and routes there.
    at_home: RouteSocket,
    belongings: Belongings,
}

impl Borrowed {
    /// Takes `name` from the network namespace of process `pid` into the caller's, with its
    /// addresses.
    ///
    /// # Errors
    /// When it has no IPv4 address, cannot move, or the namespace may not be entered.
    pub fn take(name: &str, pid: u32) -> Result<Self, Refusal> {
        let home = host::network_namespace_of(pid)?;
        let own = OwnedFd::from(File::open("/proc/self/ns/net")?);
        let mut at_home = RouteSocket::open_in(home.as_fd())?;
        let belongings = at_home.belongings(name)?;
        if !belongings.has_ipv4() {
            return Err(Refusal {
                reason: format!("{name} has no IPv4 address, and the client needs one"),
                hint: Some(format!("give it one first: ip address add ADDRESS/LENGTH dev {name}")),
            });
        }
        at_home.move_to(name, own.as_fd()).map_err(|error| Refusal {
            reason: error.to_string(),
            hint: Some(
                "run as root, and choose an interface that may change its network namespace"
                    .to_owned(),
            ),
        })?;
        // from here on Drop returns it
        let borrowed = Self { name: name.to_owned(), home, at_home, belongings };
        let mut here = RouteSocket::open()?;
        here.set_up("lo")?;
        here.give_belongings(name, &borrowed.belongings, false)?;
        here.set_up(name)?;
        Ok(borrowed)
    }

    fn take_home(&mut self) -> Result<(), SysError> {
        RouteSocket::open()?.move_to(&self.name, self.home.as_fd())?;
        self.at_home.give_belongings(&self.name, &self.belongings, true)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Err(error) = self.take_home() {
            eprintln!(
                "warning: {} is not returned with its addresses and routes: {error}",
                self.name
            );
        }
    }
}
