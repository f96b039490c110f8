//! Files to be imported: whatever is in them, reading them takes no more than eight times their size of memory.

use std::fs;

use super::{bounded, bounded_by};

/// Octets of each file.
const SIZE: usize = 4 << 20;

/// Address space that the program has before it reads anything, KiB, and some more.
const OWN_KIB: u32 = 120 << 10;

/// `begin`, `part` over and over, and `end`: [`SIZE`] octets.
fn filled(begin: &str, part: &str, end: &str) -> String {
    format!("{begin}{}{end}", part.repeat((SIZE - begin.len() - end.len()) / part.len()))
}

/// Files in which each octet would become many in memory, and what is said of each.
fn files() -> Vec<(&'static str, String, &'static str)> {
    let fields: Vec<String> = (0..SIZE / 18).map(|n| format!("\"x{n} sum\":[]")).collect();
    let flent = "{\"version\":4,\"metadata\":{\"NAME\":\"n\"},\"raw_values\":{},";
    let test = "{\"start\":{\"test_start\":{\"protocol\":\"TCP\"}},\"end\":{\"sum_received\":\
                {\"bits_per_second\":1}},\"intervals\":[{\"streams\":[";
    vec![
        ("objects", filled("{\"start\":[", "{\"\":0},", "0]}"), "expected an object"),
        ("lists", filled("{\"start\":", "[", ""), "EOF"),
        ("numbers", filled("{\"start\":[", "0,", "0]}"), "expected an object"),
        ("documents", filled("", "{}", ""), "more runs"),
        (
            "events",
            filled("{\"event\":\"start\",\"data\":0}", "{\"event\":\"interval\",\"data\":0}", ""),
            "expected an object",
        ),
        ("streams", filled(test, "{\"\":0},", "0]}]}"), "intervals[1]"),
        (
            "text",
            filled("Connecting to host \n", "[1] 0-1 sec 1 B 1 bits/sec receiver\n", ""),
            "more streams",
        ),
        ("titles", filled("OMNI Send TEST from a\nThroughput", ",", "\n1\n"), "expected 1025"),
        (
            "columns",
            filled("Driver,Profile,Throughput Metric", ",", "\n1\n"),
            "line 2: 1 values, expected 1025",
        ),
        ("rows", filled("", "20260101000000,a,1,b,5001,1,0-1,1,1\n", "x\n"), "9 or 14 columns"),
        ("keys", filled("num_threads=1\nnum_flows=1\n", "a=\n", ""), "no request_size"),
        ("warnings", filled("", "x\n", "{"), "EOF"),
        ("words", filled("{\"a\":[", "nan,", "0]}"), "no \"start\""),
        ("lines", filled("TCP STREAM TEST from a\n", "\n", ""), "lines behind it"),
        ("banners", filled("", "TCP STREAM TEST from \n", ""), "a banner without a table"),
        (
            "moments",
            format!(
                "{flent}{}",
                filled("\"results\":{\"TCP upload\":0},\"x_values\":[", "0,", "0]}")
            ),
            "as x_values",
        ),
        (
            "series",
            format!("{flent}\"x_values\":[],\"results\":{{{}}}}}", fields.join(",")),
            "more than 4096 fields",
        ),
    ]
}

#[test]
fn what_is_in_a_file_does_not_multiply_in_memory() {
    let home = tempfile::tempdir().expect("a directory");
    for (name, text, said) in files() {
        fs::write(home.path().join(name), &text).expect("write");
        let most = OWN_KIB + 8 * (SIZE >> 10) as u32;
        let refused = bounded_by(home.path(), &format!("import {name} --dir new"), most);
        let refused = refused.expect_code(2).stderr;
        assert!(refused.contains(said), "{name}: {refused}");
    }
}

#[test]
fn a_file_that_is_too_long_is_refused_before_it_is_read() {
    let home = tempfile::tempdir().expect("a directory");
    let file = fs::File::create(home.path().join("long")).expect("a file");
    file.set_len(100 << 20).expect("100 MiB of zeros");
    let refused = bounded(home.path(), "import long --dir new").expect_code(2).stderr;
    assert!(refused.contains("104857600 bytes, expected at most 67108864 bytes"), "{refused}");
}
