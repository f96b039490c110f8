//! A thread that ends the agent when its carrier closes or a signal arrives, whatever the other
//! threads wait for. It restores existing interfaces first.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use linkrate_sys::socket;

use crate::existing::Lease;

/// How long the main thread may take to end by itself once the carrier has closed. It answers the
/// requests that had arrived before, and reports a stream that ended inside a message.
const GRACE: Duration = Duration::from_secs(2);

pub const THREAD: &str = "watch";

/// Starts the thread. `signals` can be read once a signal asks the agent to end.
pub fn start(carrier: BorrowedFd<'_>, signals: OwnedFd, lease: &Lease) -> io::Result<()> {
    let carrier = carrier.try_clone_to_owned()?;
    let lease = lease.clone();
    std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        // an error means that nothing can be watched: the main thread still sees the end
        let Ok(closed) = socket::wait_closed(&carrier, &signals) else { return };
        lease.give_back();
        if closed {
            std::thread::sleep(GRACE);
        }
        std::process::exit(0);
    })?;
    Ok(())
}
