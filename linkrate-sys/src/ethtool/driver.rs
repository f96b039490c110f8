//! The driver of an interface: names and versions, which ethtool's netlink family does not report.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::quoted;
use crate::error::{SysError, SysResult};
use crate::netlink::check_name;

/// `ETHTOOL_GDRVINFO`, linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 3;
/// `SIOCETHTOOL`, linux/sockios.h.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// The driver of an interface. A field that the driver does not report is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Driver {
    /// Name of the driver: `e1000e`, `veth`.
    pub name: String,
    /// Its version; for drivers of the kernel tree, the version of the kernel.
    pub version: String,
    /// Firmware version of the adapter.
    pub firmware: String,
    /// Bus address of the adapter: `0000:3b:00.0`.
    pub bus: String,
}

/// `struct ethtool_drvinfo`, linux/ethtool.h.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    expansion_rom: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

impl Driver {
    /// The driver of interface `name` in the network namespace of the calling thread.
    ///
    /// # Errors
    /// `ENODEV` when this namespace has no interface of that name, `EOPNOTSUPP` when the driver
    /// reports nothing.
    pub fn of(name: &str) -> SysResult<Self> {
        const OPERATION: &str = "read driver of";
        check_name(OPERATION, name)?;
        let failed = |error: io::Error| SysError::new(OPERATION, quoted(name), error);
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .map_err(|error| failed(error.into()))?;
        let mut info = DriverInfo {
            command: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            version: [0; 32],
            firmware: [0; 32],
            bus: [0; 32],
            expansion_rom: [0; 32],
            reserved: [0; 12],
            counts: [0; 5],
        };
        // SAFETY: all zeroes are a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // the name was checked: it fits with its terminating zero
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut info).cast();
        // SAFETY: the request is a valid ifreq whose data points at a `struct ethtool_drvinfo` that
        // lives across the call, which is all that this command writes to.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if result < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        Ok(Self {
            name: text(&info.driver),
            version: text(&info.version),
            firmware: text(&info.firmware),
            bus: text(&info.bus),
        })
    }
}

/// The text before the terminating zero; empty if it is "N/A", which drivers report instead.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or(&[]));
    match text.trim() {
        "N/A" | "n/a" => String::new(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_leaves_out_is_empty() {
        assert_eq!(text(b"e1000e\0\0\0"), "e1000e");
        assert_eq!(text(b"N/A\0rest"), "");
        assert_eq!(text(b"\0"), "");
        assert_eq!(text(&[b'x'; 32]), "x".repeat(32));
        assert_eq!(std::mem::size_of::<DriverInfo>(), 196);
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = Driver::of("no-such-if").unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENODEV));
        assert!(error.to_string().starts_with("read driver of \"no-such-if\""), "{error}");
        assert!(Driver::of("a name that is too long").is_err());
    }
}
