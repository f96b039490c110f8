//! A capture of a port of a lab, and what tshark says of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempPath;

use super::up::Up;
use super::{Running, reader, tshark};

static CAPTURES: AtomicU32 = AtomicU32::new(0);

/// A capture under way, or its file, which is gone with this value.
#[derive(Debug)]
pub struct Capture<'a> {
    lab: &'a Up,
    port: &'a str,
    file: PathBuf,
}

impl<'a> Capture<'a> {
    /// Begins to capture what a port sends and receives.
    #[track_caller]
    pub fn start(lab: &'a Up, port: &'a str) -> Self {
        let number = CAPTURES.fetch_add(1, Ordering::Relaxed);
        let name = format!("capture-{}-{number}.pcapng", std::process::id());
        let file = std::env::temp_dir().join(name);
        lab.linkrate(&format!("adapter capture {port} {}", file.display()));
        Self { lab, port, file }
    }

    /// Ends it: the file is complete.
    #[track_caller]
    pub fn stop(&self) {
        self.lab.linkrate(&format!("adapter capture {} --stop", self.port));
    }

    /// The given fields of the packets that match a filter: a line for each packet.
    #[track_caller]
    pub fn fields(&self, filter: &str, fields: &[&str]) -> Vec<String> {
        tshark(&self.file, filter, fields).lines().map(str::to_owned).collect()
    }

    /// A file with the packets of one of its interfaces alone, beside it: the "host" or the "wire".
    #[track_caller]
    pub fn of_interface(&self, name: &str) -> TempPath {
        let part = tempfile::Builder::new().suffix(".pcapng").tempfile().expect("make a file");
        let mut split = reader(&self.file);
        split.arg("-w").arg(part.path());
        split.args(["-Y", &format!("frame.interface_name contains \"{name}\"")]);
        Running::start(&mut split).wait().expect_code(0);
        part.into_temp_path()
    }

    /// tshark finds the CRC of each unit of AAL5 right. Returns how many units there are.
    #[track_caller]
    pub fn crcs_are_right(&self) -> usize {
        let mut whole = reader(&self.file);
        whole.arg("-V");
        let text = Running::start(&mut whole).wait().expect_code(0).stdout;
        let crcs = text.lines().filter_map(|line| line.trim().strip_prefix("AAL5 CRC: "));
        let crcs: Vec<&str> = crcs.collect();
        assert!(crcs.iter().all(|crc| crc.ends_with("(correct)")), "{crcs:?}");
        crcs.len()
    }

    /// tshark complains of nothing: neither of a message that it cannot read, nor of a checksum.
    #[track_caller]
    pub fn is_well_formed(&self) {
        let mut wrong =
            vec!["_ws.malformed".to_owned(), "_ws.expert.severity >= 8388608".to_owned()];
        let mut judge = reader(&self.file);
        for protocol in ["ip", "tcp", "udp", "icmp"] {
            wrong.push(format!("{protocol}.checksum.status == 0"));
            if protocol != "icmp" {
                judge.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
            }
        }
        judge.args(["-Y", &wrong.join(" || ")]);
        assert_eq!(Running::start(&mut judge).wait().expect_code(0).stdout, "");
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // a test that has failed may have no file
        let _ = std::fs::remove_file(&self.file);
    }
}
