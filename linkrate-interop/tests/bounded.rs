//! What a stranger sends is read by `linkrate_sys::bounded`, or in one of the loops that are listed here, each of which looks
//! at its end on every turn.

use std::collections::BTreeMap;
use std::path::Path;

/// Calls on sockets, of std and of linkrate_sys.
const CALLS: [&str; 10] = [
    ".read(",
    ".read_exact(",
    ".read_to_end(",
    ".write(",
    ".write_all(",
    ".recv(",
    ".recv_from(",
    ".accept()",
    "receive_now(",
    "send_now(",
];

/// Calls by file: those of loops whose first or last look is at the end of the test, and single ones that do not wait.
const LISTED: [(&str, usize); 13] = [
    // a file, of bounded length
    ("linkrate-interop/src/import.rs", 2),
    // a file of this end's own choice, into its buffers
    ("linkrate-interop/src/netperf/ring.rs", 1),
    // by the stop flag
    ("linkrate-interop/src/scrape.rs", 1),
    ("linkrate-interop/src/serve.rs", 1),
    // one octet in each turn of a test, which looks at the stop flag; one octet that does not wait
    ("linkrate-interop/src/serve/session.rs", 2),
    ("linkrate-interop/src/serve/udp_acceptor.rs", 2),
    // by `Keep::goes_on`
    ("linkrate-interop/src/serve/netperf/flow.rs", 5),
    // by `Phase::is_over`
    ("linkrate-interop/src/payload/datagrams.rs", 1),
    // the output
    ("linkrate-compat/src/iperf3/json.rs", 1),
    // a channel
    ("linkrate-interop/src/payload/guarded.rs", 1),
    ("linkrate-interop/src/payload/stream.rs", 2),
    // by the clock of the test
    ("linkrate-compat/src/netperf/flow.rs", 6),
    // 37 octets into an empty buffer; a deadline
    ("linkrate-compat/src/iperf3/open.rs", 2),
];

#[test]
fn no_other_loop_reads_the_socket_of_a_stranger() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut found = BTreeMap::new();
    for package in ["linkrate-interop/src", "linkrate-compat/src"] {
        count(root, Path::new(package), &mut found);
    }
    let listed = LISTED.map(|(file, calls)| (file.to_owned(), calls)).into();
    assert_eq!(found, listed, "use linkrate_sys::bounded, or look at the end on each turn");
}

fn count(root: &Path, directory: &Path, found: &mut BTreeMap<String, usize>) {
    for entry in root.join(directory).read_dir().expect("a directory") {
        let name = directory.join(entry.expect("an entry").file_name());
        if root.join(&name).is_dir() {
            count(root, &name, found);
        } else if let Some(calls) = calls(&std::fs::read_to_string(root.join(&name)).expect("text"))
        {
            found.insert(name.display().to_string(), calls);
        }
    }
}

/// Calls that are none of `linkrate_sys::bounded`, before the tests of the file.
fn calls(text: &str) -> Option<usize> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let lines = lines.filter(|line| !line.contains("bound().") && !line.contains("bound."));
    let lines = lines.filter(|line| !line.contains("Bound::") && !line.trim().starts_with("use "));
    let calls = lines.filter(|line| CALLS.iter().any(|call| line.contains(call))).count();
    Some(calls).filter(|calls| *calls > 0)
}
