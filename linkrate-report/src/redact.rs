//! A study without what names its hosts and people: for a report that leaves the house.
//!
//! The stored study is redacted, not the documents: whatever is derived from it, in any format, cannot name what is not
//! there. Host and user names are known from the peers and nodes of the plan; addresses, files and names of processes
//! are known by their form.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use linkrate_model::interfaces::Peer;
use linkrate_model::spec::Adapter;
use linkrate_study::store::{StoredPlan, StoredStudy};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ReportError;
use crate::paper::COMMAND_LINE;

/// What stands for a process.
const PROCESS: &str = "a background process";
/// What stands for a file. Those of the kernel are the same on all hosts.
const FILE: &str = "/redacted";
const OF_THE_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// What stands for an address.
const ADDRESS: &str = "0.0.0.0";
/// What stands for an Ethernet address.
const ETHERNET: &str = "00:00:00:00:00:00";
/// Facts that have versions which look like addresses.
const VERSIONS: [&str; 4] = ["firmware", "version", "kernel", "microcode"];
/// The field with the background processes of a run.
const BACKGROUND: &str = "background";

/// The study, redacted.
pub fn redacted(stored: &StoredStudy) -> Result<StoredStudy, ReportError> {
    let names = Names::of(&stored.plan);
    let mut plan = stored.plan.clone();
    for facts in plan.resumed.iter_mut().map(|of| &mut of.facts).chain([&mut plan.facts]) {
        facts.facts.retain(|name, _| !name.ends_with(COMMAND_LINE));
    }
    let runs = stored.runs.iter().map(|run| names.without(run));
    Ok(StoredStudy {
        directory: PathBuf::new(),
        plan: names.without(&plan)?,
        runs: runs.collect::<Result<_, _>>()?,
        torn: stored.torn,
        ended: names.without(&stored.ended)?,
    })
}

/// Names of hosts and users, in the order in which they get their numbers.
struct Names(Vec<String>);

impl Names {
    fn of(plan: &StoredPlan) -> Self {
        let study = &plan.study;
        let mut found = Vec::new();
        if let Adapter::Interfaces(on) = &study.testbed.adapter {
            on.clients.iter().chain(&on.sut).for_each(|peer| found.extend(words_of(peer)));
        }
        for node in study.fleet.iter().flat_map(|fleet| fleet.all_nodes()) {
            found.push(node.name.clone());
            found.extend(words_of(&node.end));
            found.extend(node.rack.iter().chain(&node.switch).cloned());
        }
        let mut names: Vec<String> = Vec::new();
        for name in found {
            if !names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                names.push(name);
            }
        }
        Self(names)
    }

    /// A value without them. Its fields keep their order, which levels of factors depend on.
    fn without<T: Serialize + DeserializeOwned>(&self, of: &T) -> Result<T, ReportError> {
        let document = serde_json::to_string(of).map_err(ReportError::Redaction)?;
        let redacted = self.document(&document).map_err(ReportError::Redaction)?;
        serde_json::from_str(&redacted).map_err(ReportError::Redaction)
    }

    /// A JSON document with each of its strings redacted.
    fn document(&self, document: &str) -> Result<String, serde_json::Error> {
        let mut out = String::with_capacity(document.len());
        // the name of the field in which something is, and those around it
        let (mut field, mut around) = (String::new(), Vec::new());
        let mut rest = document;
        while let Some(first) = rest.chars().next() {
            let end = if first == '"' { end_of_string(rest) } else { first.len_utf8() };
            let (token, after) = rest.split_at(end);
            rest = after;
            match first {
                '{' | '[' => around.push(field.clone()),
                '}' | ']' => field = around.pop().unwrap_or_default(),
                _ => {}
            }
            if first != '"' {
                out.push_str(token);
                continue;
            }
            let text: String = serde_json::from_str(token)?;
            let is_name = rest.starts_with(':');
            let of_process = field == "name" && around.last().is_some_and(|of| of == BACKGROUND);
            let redacted = match is_name {
                true => self.text(&text, ""),
                false if of_process => PROCESS.to_owned(),
                false => self.text(&text, &field),
            };
            if is_name {
                field = text;
            }
            out.push_str(&serde_json::to_string(&redacted)?);
        }
        Ok(out)
    }

    /// A text without names, addresses, files and processes.
    fn text(&self, text: &str, key: &str) -> String {
        // latencies as base64
        if key == "histogram" {
            return text.to_owned();
        }
        let is_version = VERSIONS.iter().any(|version| key.ends_with(version));
        let text = without_processes(text);
        let mut out = String::with_capacity(text.len());
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || "._:/@~-".contains(c);
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c: char| is_of_word(c) != is_of_word(first)).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            match is_of_word(first) {
                true => out.push_str(&self.word(run, is_version)),
                false => out.push_str(run),
            }
            rest = after;
        }
        out
    }

    fn word(&self, word: &str, is_version: bool) -> String {
        let core = word.trim_end_matches(['.', ':', '-']);
        let end = &word[core.len()..];
        let is_file = (core.starts_with('/') || core.starts_with("~/")) && core.len() > 1;
        if is_file && !core.starts_with("//") {
            let is_public = OF_THE_KERNEL.iter().any(|start| core.starts_with(start));
            return if is_public { word.to_owned() } else { format!("{FILE}{end}") };
        }
        if let Some(address) = address(core).filter(|_| !is_version) {
            return format!("{address}{end}");
        }
        let mut out = String::new();
        for part in core.split_inclusive([':', '/', '@']) {
            let name = part.trim_end_matches([':', '/', '@']);
            let separator = &part[name.len()..];
            out.push_str(&match (self.known(name), address(name).filter(|_| !is_version)) {
                (Some(known), _) => known,
                (None, Some(address)) => address,
                _ if separator == "@" => "user".to_owned(),
                _ if out.ends_with('@') => "host".to_owned(),
                _ => name.to_owned(),
            });
            out.push_str(separator);
        }
        out + end
    }

    /// What stands for a name that is known, with what is behind it: `lab2`, `lab2.example`, `lab2.example.org`.
    fn known(&self, name: &str) -> Option<String> {
        let first = name.split('.').next().unwrap_or_default();
        let place = self.0.iter().position(|known| {
            let label = known.split('.').next().unwrap_or_default();
            known.eq_ignore_ascii_case(name) || label.eq_ignore_ascii_case(first)
        })?;
        Some(format!("host-{}", place + 1))
    }
}

/// Names of hosts and users in how a peer is reached.
fn words_of(peer: &Peer) -> Vec<String> {
    if let Peer::Command { words } = peer {
        // any of them may name a host
        let may_name =
            |word: &&String| !word.starts_with('-') && !["exec", "sh"].contains(&&***word);
        return words.iter().skip(1).filter(may_name).cloned().collect();
    }
    let reached = match peer {
        Peer::Ssh { destination, .. } => destination.trim_start_matches("ssh://").to_owned(),
        Peer::Slurm { node, .. } => node.clone(),
        Peer::Program { host, user, .. } => {
            let user = user.as_ref().map(|user| format!("@{}", user.name)).unwrap_or_default();
            format!("{host}{user}")
        }
        Peer::Interface { .. }
        | Peer::Namespace { .. }
        | Peer::Process { .. }
        | Peer::Command { .. } => String::new(),
    };
    let words = reached.split(['@', ':', '/', '[', ']']);
    let is_name = |word: &&str| {
        !word.is_empty() && !word.bytes().all(|b| b.is_ascii_digit()) && address(word).is_none()
    };
    words.filter(is_name).map(str::to_owned).collect()
}

/// What stands for an address; `None` for other words. A port or the length of a prefix may be behind it.
fn address(word: &str) -> Option<String> {
    let (start, behind) = word.split_at(word.find('/').unwrap_or(word.len()));
    let with_port = start.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    if start.parse::<Ipv4Addr>().is_ok() {
        return Some(format!("{ADDRESS}{behind}"));
    }
    if let Some((_, port)) = with_port.filter(|(host, _)| host.parse::<Ipv4Addr>().is_ok()) {
        return Some(format!("{ADDRESS}:{port}{behind}"));
    }
    // `::` by itself names no host
    if start.len() > 2 && start.parse::<Ipv6Addr>().is_ok() {
        return Some(format!("::{behind}"));
    }
    let groups: Vec<&str> = start.split([':', '-']).collect();
    let is_byte = |group: &&str| group.len() == 2 && u8::from_str_radix(group, 16).is_ok();
    (groups.len() == 6 && groups.iter().all(is_byte)).then(|| ETHERNET.to_owned())
}

/// Where the string ends that begins a JSON text.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = letter == '\\' && !is_escaped,
        }
    }
    text.len()
}

/// The text without names of processes, which stand in quotes before their numbers: `"git" (process 12)`.
fn without_processes(text: &str) -> String {
    const BEHIND: &str = "\" (process";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(end) = rest.find(BEHIND) {
        let before = &rest[..end];
        let start = before.rfind('"').unwrap_or(end);
        out.push_str(&before[..start]);
        out.push_str(PROCESS);
        rest = &rest[end + 1..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &str) -> String {
        Names(vec!["root".to_owned(), "lab2.example.org".to_owned(), "n1".to_owned()]).text(of, "")
    }

    #[test]
    fn names_addresses_files_and_processes_are_replaced() {
        for (from, to) in [
            ("ssh:root@lab2.example.org,10.0.0.2", "ssh:host-1@host-2,0.0.0.0"),
            ("cannot reach lab2: timed out", "cannot reach host-2: timed out"),
            ("someone@elsewhere.org", "user@host"),
            ("node n1 kernel", "node host-3 kernel"),
            ("10.1.2.3:5201 and 10.1.0.0/16.", "0.0.0.0:5201 and 0.0.0.0/16."),
            ("fe80::1 at 52:54:00:12:34:56", ":: at 00:00:00:00:00:00"),
            ("key=/home/me/key, ~/key", "key=/redacted, /redacted"),
            (
                "\"git\" (process 12) 7 %, \"\" (processes that have ended)",
                "a background process (process 12) 7 %, a background process (processes that have ended)",
            ),
        ] {
            assert_eq!(text(from), to);
        }
        for same in [
            "/proc/timer_list",
            "22:13 at 2.93 µs/KB, 1/2",
            "no offload → TSO",
            "net.ipv4.tcp_rmem",
            "64 KiB::",
        ] {
            assert_eq!(text(same), same);
        }
        assert_eq!(Names(Vec::new()).text("22.5.7.11", "port-1-firmware"), "22.5.7.11");
    }
}
