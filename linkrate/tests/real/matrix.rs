//! iperf3 3.12 and linkrate as client and as server of each other: the table of the manual.

use crate::book;
use crate::common::ends::{Served, await_listener, free_port};
use crate::common::{Finished, LINKRATE, Running, at_once, command, skip};
use serde_json::Value;

/// The version whose table it is.
const VERSION: &str = "iperf 3.12 ";

/// Clients with servers: each is linkrate or not.
const PAIRS: [[bool; 2]; 4] = [[false, true], [true, false], [true, true], [false, false]];

const CASES: [&str; 13] = [
    "",
    "-R",
    "--bidir",
    "-u",
    "-u -R",
    "-u --bidir",
    "-P 2",
    "-u -P 2 -R",
    "-Z",
    "-w 128K",
    "-M 1400",
    "--get-server-output",
    "--json-stream",
];

/// What both ends may differ by, as a part: a sender goes on until it hears of the end.
const AGREE: f64 = 0.1;

/// The client's document, or why there is none.
fn document(finished: &Finished, case: &str) -> Result<Value, &'static str> {
    if finished.code() != Some(0) {
        return Err(match &finished.stderr {
            said if said.contains("unrecognized option") => "no such option",
            said if said.contains("does not take iperf3's option") => "not taken",
            said => panic!("{case}: {said}{}", finished.stdout),
        });
    }
    if case != "--json-stream" {
        return Ok(finished.json());
    }
    let events = finished.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let mut end = events.filter(|event: &Value| event["event"] == "end");
    Ok(serde_json::json!({"end": end.next().expect("an end")["data"]}))
}

#[track_caller]
fn agree(said: &str, here: &Value, there: &Value) {
    let [first, second] = [here, there].map(|octets| octets.as_f64().unwrap_or_default());
    assert!(
        first > 0.0 && (first / second - 1.0).abs() < AGREE,
        "{said}: {here} and {there} octets"
    );
}

/// Runs a test of 1 s, and says whether both ends tell the same of it, or why there is nothing to tell.
#[track_caller]
fn outcome([is_our_client, is_our_server]: [bool; 2], case: &str) -> &'static str {
    let said = format!("{case:?}, linkrate as client {is_our_client}, as server {is_our_server}");
    let ours = is_our_server.then(|| Served::start("iperf3", ""));
    let port = ours.as_ref().map_or_else(free_port, |served| served.port);
    let theirs = (!is_our_server).then(|| {
        let server = Running::start(&mut command("iperf3", &format!("-s -J -1 -p {port}")));
        await_listener(port);
        server
    });
    let json = if case == "--json-stream" { "" } else { "-J" };
    let words = format!("-c 127.0.0.1 -p {port} -t 1 -b 20M -l 8K {json} {case}");
    let mut client = match is_our_client {
        true => command(LINKRATE, &format!("iperf3 {words}")),
        false => command("iperf3", &words),
    };
    let found = match document(&Running::start(&mut client).wait(), case) {
        Ok(found) => found,
        Err(reason) => return reason,
    };
    assert!(found["error"].is_null(), "{said}: {found:#}");
    let end = &found["end"];
    // octets by the server, of the way to it and of the way back
    let (received, sent) = match (ours, theirs) {
        (Some(served), _) => {
            let [line] = &served.end()[..] else { panic!("{said}: one line for one test") };
            assert_eq!(line["ended"], "complete", "{said}: {line:#}");
            (line["received_bytes"].clone(), line["sent_bytes"].clone())
        }
        (None, server) => {
            let there = server.expect("a server").wait().expect_code(0).json();
            let back = if case.contains("--bidir") { "sum_sent_bidir_reverse" } else { "sum_sent" };
            (there["end"]["sum_received"]["bytes"].clone(), there["end"][back]["bytes"].clone())
        }
    };
    if !case.contains("-R") {
        agree(&said, &end["sum_sent"]["bytes"], &received);
        agree(&said, &end["sum_received"]["bytes"], &received);
    } else {
        agree(&said, &end["sum_received"]["bytes"], &sent);
    }
    if case.contains("--bidir") {
        agree(&said, &end["sum_received_bidir_reverse"]["bytes"], &sent);
    }
    let is_without = case == "--get-server-output" && found["server_output_json"].is_null();
    if is_without { "no output" } else { "agrees" }
}

#[test]
fn linkrate_and_iperf3_agree_as_the_manual_says() {
    needs!("iperf3");
    let version = Running::start(&mut command("iperf3", "--version")).wait().stdout;
    if !version.starts_with(VERSION) {
        return skip(format!("the table is of {VERSION}, this is {version}"));
    }
    let cells: Vec<_> = CASES.iter().flat_map(|case| PAIRS.map(|pair| (*case, pair))).collect();
    let found = std::sync::Mutex::new(vec![""; cells.len()]);
    let numbered: Vec<_> = cells.iter().enumerate().collect();
    at_once(8, &numbered, |(at, (case, pair))| {
        let outcome = outcome(*pair, case);
        found.lock().expect("no panic")[*at] = outcome;
    });
    let found = found.into_inner().expect("no panic");
    let rows = CASES.iter().zip(found.chunks(PAIRS.len())).map(|(case, cells)| {
        let options = if case.is_empty() { "TCP".to_owned() } else { format!("`{case}`") };
        let [a, b, c, d] = cells else { panic!("four cells") };
        [options, (*a).to_owned(), (*b).to_owned(), (*c).to_owned(), (*d).to_owned()]
    });
    let titles =
        ["options", "iperf3→linkrate", "linkrate→iperf3", "linkrate→linkrate", "iperf3→iperf3"];
    let table = book::table(titles, rows);
    book::check("guide/compatibility.md", "linkrate/tests/real/matrix.rs", &table);
}
