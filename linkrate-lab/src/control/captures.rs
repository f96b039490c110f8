//! Captures to files that another command has opened.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use linkrate_sys::open_file;

use super::messages::{Refused, Reply};
use super::server::{Answer, OpenLab};

/// How long a file may take for the packets that wait when a capture is stopped.
const TIMEOUT: Duration = Duration::from_secs(2);

impl OpenLab {
    /// Begins a capture into the file that came with the request.
    pub(super) fn start_capture(
        &mut self,
        port: String,
        name: String,
        file: Option<OwnedFd>,
    ) -> Result<Reply, Refused> {
        let found = self.port(&port)?;
        if let Some(other) = self.captures.get(&port) {
            let reason = format!("port {port} is being captured to {other}");
            return Err(Refused::failed(reason)
                .with_hint(format!("linkrate adapter capture {port} --stop")));
        }
        let Some(file) = file else {
            return Err(Refused::wrong(format!("{name}: the request came without an open file")));
        };
        let file = File::from(file);
        check(&file).map_err(|reason| Refused::wrong(format!("{name}: {reason}")))?;
        found.start_capture(file)?;
        self.captures.insert(port, name);
        Ok(Reply::Done)
    }

    /// Ends a capture. The reply waits until the file has taken the packets.
    pub(super) fn stop_capture(&mut self, port: String) -> Result<Answer, Refused> {
        let found = self.port(&port)?;
        let (ending, file) = match (found.stop_capture(), self.captures.remove(&port)) {
            (Some(ending), Some(file)) => (ending, file),
            _ => return Err(Refused::failed(format!("port {port} is not being captured"))),
        };
        Ok(Answer::Later(Box::new(move || {
            let total = ending.wait(TIMEOUT);
            match total.failure {
                Some(failure) => Reply::Refused(Refused::failed(format!(
                    "write capture {file}: {failure}, after {} packets",
                    total.packets
                ))),
                None => Reply::Captured { packets: total.packets, lost: total.lost, file },
            }
        })))
    }
}

/// Whether packets can be written to it.
fn check(file: &File) -> Result<(), String> {
    let found = file.metadata().map_err(|error| error.to_string())?.file_type();
    let kind = if found.is_dir() {
        "a directory"
    } else if found.is_block_device() {
        "a block device"
    } else if !open_file::is_writable(file).map_err(|error| error.to_string())? {
        "not open for writing"
    } else {
        return Ok(());
    };
    Err(format!("it is {kind}, expected a file or a FIFO that is open for writing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_packets_is_taken() {
        assert_eq!(check(&File::options().write(true).open("/dev/null").unwrap()), Ok(()));
        let (reader, writer) = std::io::pipe().unwrap();
        assert_eq!(check(&File::from(OwnedFd::from(writer))), Ok(()));
        for (file, reason) in [
            (File::open("/").unwrap(), "a directory"),
            (File::open("/dev/null").unwrap(), "not open for writing"),
            (File::from(OwnedFd::from(reader)), "not open for writing"),
        ] {
            assert!(check(&file).unwrap_err().contains(reason));
        }
    }
}
