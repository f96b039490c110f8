//! Harnesses that drive netperf and iperf3: their command lines as they write them, with linkrate at both ends, and of
//! its output what they read, as they read it. Where a reader of theirs fails, the test fails. The lines and what is
//! read are facts of the sources that each test names; durations are the shortest that a line allows.

use std::collections::HashMap;

use crate::common::at_once;
use crate::common::cable::{Cable, HERE, THERE};
use serde_json::Value;

/// `linkrate serve` for clients of netperf, whose data ports are those that they name.
const NETPERF: &str = "serve --bind 192.0.2.2 --programs netperf --allow 192.0.2.0/24";

/// A number as bc(1) and `float()` read it: no exponent, and nothing that is none.
#[track_caller]
fn decimal(text: &str) -> f64 {
    let is_plain = text.chars().all(|letter| letter.is_ascii_digit() || "-.".contains(letter));
    assert!(is_plain && !text.is_empty(), "{text:?}");
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// What k8s-netperf has of one test.
#[derive(Debug, Default)]
struct Sample {
    throughput: f64,
    unit: String,
    latency: f64,
    latency_p99: f64,
    retransmits: f64,
    lost_percent: f64,
}

/// cloud-bulldozer/k8s-netperf, `containers/super-netperf`: lines with `NAME=` are cut at `=`, and numbers of several
/// processes are added by bc(1). `pkg/drivers/netperf.go`: a negative number of retransmissions is that of datagrams.
#[track_caller]
fn super_netperf(outputs: &[String]) -> Sample {
    let mut sample = Sample::default();
    let (mut sent, mut received) = (0.0, 0.0);
    for output in outputs {
        let find = |name: &str| {
            let named = format!("{name}=");
            let found: Vec<&str> = output.lines().filter(|line| line.contains(&named)).collect();
            let [line] = found[..] else { panic!("{name}: {found:?} in {output}") };
            line.split('=').nth(1).expect("a value").to_owned()
        };
        sample.throughput += decimal(&find("THROUGHPUT"));
        sent += decimal(&find("LOCAL_SEND_CALLS"));
        received += decimal(&find("REMOTE_RECV_CALLS"));
        sample.retransmits += decimal(&find("LOCAL_TRANSPORT_RETRANS"));
        // compared as a text, so that it is not added up
        match find("RT_LATENCY").as_str() {
            "-1.000" => sample.latency = -1.0,
            latency => sample.latency += decimal(latency) / outputs.len() as f64,
        }
        sample.latency_p99 += decimal(&find("P99_LATENCY")) / outputs.len() as f64;
        sample.unit = find("THROUGHPUT_UNITS");
        assert!(output.contains(" TEST from "), "its first line is the heading: {output}");
    }
    if sample.retransmits < 0.0 {
        sample.lost_percent = 100.0 - received / sent * 100.0;
    }
    sample
}

#[test]
fn k8s_netperf_adds_up_processes_of_netperf() {
    needs!(root, "ip");
    const NAMES: &str = "rt_latency,p99_latency,throughput,throughput_units,remote_recv_calls,local_send_calls,\
                         local_transport_retrans";
    let cable = Cable::start();
    let _server = cable.there(NETPERF, 12_865);
    // whether the netperf of a virtual machine works: it names a port that is no option
    cable.printed(&format!("netperf -H {THERE} -l 1 -- 42424"));
    let profiles = [
        ("TCP_STREAM", "-m 1024", "10^6bits/s"),
        ("UDP_STREAM", "-m 1024 -R 1", "10^6bits/s"),
        ("TCP_RR", "-r 1024,1024 -b 4", "Trans/s"),
        ("TCP_CRR", "-r 1024,1024", "Trans/s"),
        ("UDP_RR", "-r 64,64", "Trans/s"),
    ];
    let numbered: Vec<_> = (0..).zip(profiles).collect();
    at_once(numbered.len(), &numbered, |&(number, (profile, own, unit))| {
        let line = |process: u16| {
            let port = 42_424 + 2 * number + process;
            format!("netperf -s 2 -H {THERE} -l 1 -t {profile} -- -k {NAMES} {own} -P {port}")
        };
        let processes = [0, 1].map(|process| cable.run(&line(process)));
        let outputs = processes.map(|process| process.wait().expect_code(0).stdout);
        let sample = super_netperf(&outputs);
        let said = format!("{profile}: {sample:?} {outputs:?}");
        assert!(sample.throughput > 0.0 && sample.unit == unit, "{said}");
        assert!(sample.latency_p99 > 0.0, "{said}");
        let is_stream = profile.ends_with("STREAM");
        assert_eq!(sample.latency == -1.0, is_stream, "{said}");
        assert!((0.0..100.0).contains(&sample.lost_percent), "{said}");
        assert_eq!(
            sample.retransmits < 0.0,
            !["TCP_STREAM", "TCP_RR"].contains(&profile),
            "{said}"
        );
    });
}

/// GoogleCloudPlatform/PerfKitBenchmarker, `netperf_benchmark.py` and `linux_packages/netperf.py`: behind a line that
/// begins with OMNI or MIGRATED stand a line of headings and one of values with commas; buckets of times are the numbers
/// between colons from UNIT_USEC up to >100_SECS, as many in each row as there are, each row ten times the one before.
#[track_caller]
fn perfkit(output: &str, with_histogram: bool) -> (HashMap<&str, &str>, Vec<(f64, u64)>) {
    let mut lines = output.lines();
    let banner = lines.next().expect("a line");
    assert!(banner.starts_with("OMNI") || banner.starts_with("MIGRATED"), "{output}");
    let mut row = || lines.next().expect("a line").split(',');
    let (headings, values) = (row(), row());
    let results: HashMap<&str, &str> = headings.zip(values).collect();
    let mut times = Vec::new();
    if with_histogram {
        let (_, text) = output.split_once("UNIT_USEC").expect("a histogram");
        let (text, _) = text.split_once(">100_SECS").expect("its end");
        let mut size = 10.0;
        for line in text.lines() {
            let counts: Vec<u64> = line
                .split(':')
                .skip(1)
                .map(|count| count.trim().parse().unwrap_or_else(|error| panic!("{error}: {line}")))
                .collect();
            let width = size / counts.len() as f64;
            let full = (0..).zip(counts).filter(|(_, count)| *count > 0);
            times.extend(full.map(|(bucket, count)| (f64::from(bucket) * width, count)));
            size *= 10.0;
        }
    }
    (results, times)
}

#[test]
fn perfkit_reads_results_and_histograms() {
    needs!(root, "ip");
    const SELECTORS: &str = "THROUGHPUT,THROUGHPUT_UNITS,P50_LATENCY,P90_LATENCY,P99_LATENCY,STDDEV_LATENCY,\
                             MIN_LATENCY,MAX_LATENCY,CONFIDENCE_ITERATION,THROUGHPUT_CONFID,\
                             LOCAL_TRANSPORT_RETRANS,REMOTE_TRANSPORT_RETRANS,TRANSPORT_MSS";
    let cable = Cable::start();
    let _server = cable.there(&format!("{NETPERF} --netperf-port 20000"), 20_000);
    let benchmarks = [
        ("TCP", "RR", ""),
        ("TCP", "CRR", ""),
        ("UDP", "RR", ""),
        ("TCP", "STREAM", " -m 131072 -M 131072  -G 1400b"),
        ("UDP", "STREAM", " -R 1 -m 1024 -M 1024 "),
    ];
    let numbered: Vec<_> = (0..).zip(benchmarks).collect();
    at_once(numbered.len(), &numbered, |&(number, (protocol, direction, own))| {
        let is_stream = direction == "STREAM";
        let verbosity = if is_stream { "" } else { "-v2 " };
        let port = 20_001 + 2 * number;
        let printed = cable.printed(&format!(
            "netperf -p 20000 -j {verbosity} -t OMNI -H {THERE} -L {HERE} -l 1  -- -T {protocol} \
             -d {direction} -P ,{port} -o {SELECTORS}{own}"
        ));
        let (results, times) = perfkit(&printed, !is_stream);
        let number = |heading: &str| {
            let text = results.get(heading).unwrap_or_else(|| panic!("no {heading}: {printed}"));
            decimal(text)
        };
        assert!(number("Throughput") > 0.0, "{printed}");
        assert_eq!(number("Confidence Iterations Run"), 1.0);
        number("Throughput Confidence Width (%)");
        if protocol == "TCP" {
            for retransmissions in ["Local", "Remote"] {
                let heading = format!("{retransmissions} Transport Retransmissions");
                let value = results.get(heading.as_str()).expect("a value");
                assert!(value.parse::<i64>().is_ok(), "int(): {printed}");
            }
            let mss = number("Transport MSS bytes");
            // timestamps take 12 octets of what -G asks for
            assert!(!is_stream || (1380.0..=1400.0).contains(&mss), "{printed}");
        }
        match results.get("Throughput Units") {
            Some(&"10^6bits/s") if is_stream => {}
            Some(&"Trans/s") if !is_stream => {
                for heading in ["50th Percentile", "90th Percentile", "99th Percentile", "Maximum"]
                {
                    assert!(number(&format!("{heading} Latency Microseconds")) > 0.0, "{printed}");
                }
                number("Minimum Latency Microseconds");
                number("Stddev Latency Microseconds");
                // a bucket is as wide as a tenth of its time at most
                let all: u64 = times.iter().map(|(_, count)| count).sum();
                let mut before = 0;
                let median = times.iter().find(|(_, count)| {
                    before += count;
                    before > all / 2
                });
                let (median, _) = median.expect("a time");
                let p50 = number("50th Percentile Latency Microseconds");
                assert!(
                    all > 100 && (median - p50).abs() <= p50 / 5.0 + 1.0,
                    "{median}: {printed}"
                );
            }
            units => panic!("{units:?}: {printed}"),
        }
    });
    // versions of 2020 and before name a thinking time of none
    let line = format!(
        "netperf -p 20000 -j -v2  -t TCP_RR -H {THERE} -l 1  -- -P ,20001 -U 0,0,0 -o {SELECTORS}"
    );
    let printed = cable.printed(&line);
    assert!(perfkit(&printed, true).0.contains_key("Throughput"), "{printed}");
}

/// microsoft/lisa, `lisa/tools/netperf.py`: it asks for columns, and reads the counters of the interface.
#[test]
fn lisa_runs_transactions_of_netperf() {
    needs!(root, "ip");
    let cable = Cable::start();
    let _server = cable.there(&format!("{NETPERF} --netperf-port 30000"), 30_000);
    let names = "THROUGHPUT, THROUGHPUT_UNITS, MIN_LATENCY, MAX_LATENCY, MEAN_LATENCY, REQUEST_SIZE, \
                 RESPONSE_SIZE, STDDEV_LATENCY";
    let printed = cable.printed(&format!(
        "netperf -L {HERE} -H {THERE} -p 30000 -t TCP_RR -n 16 -l 2 -D 1 -- -O '{names}'"
    ));
    assert!(printed.contains("\nInterim result: "), "{printed}");
    let values: Vec<&str> = printed.lines().last().expect("a line").split_whitespace().collect();
    assert_eq!((values.len(), values[1], values[5]), (8, "Trans/s", "1"), "{printed}");
    assert!(decimal(values[0]) > 0.0 && decimal(values[4]) > 0.0, "{printed}");
}

/// tohojo/flent, `NetperfDemoRunner` of `flent/runners.py`: each name once, but for those with a number in brackets,
/// which are lists; ending and length of an interval with its rate; and what is no number for `int()` and `float()` ends
/// it. On standard error words stand in turn with numbers behind `tcpi`.
#[test]
fn flent_reads_intervals_over_ipv6_and_between_addresses_that_are_named() {
    needs!(root, ipv6, "ip");
    const NAMES: &str = "THROUGHPUT,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL,TRANSPORT_MSS,LOCAL_TRANSPORT_RETRANS,\
                         REMOTE_TRANSPORT_RETRANS,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,DIRECTION,ELAPSED_TIME,PROTOCOL,\
                         LOCAL_SEND_SIZE,LOCAL_RECV_SIZE,REMOTE_SEND_SIZE,REMOTE_RECV_SIZE,LOCAL_BYTES_SENT,\
                         LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD";
    let cable = Cable::start();
    for (machine, address) in [(&cable.here, "fe80::1"), (&cable.there, "fe80::2")] {
        machine.sh(&format!("ip -6 address add {address}/64 dev eth1 nodad"));
    }
    let words = "serve --bind :: --programs netperf --allow fe80::/10 --allow 192.0.2.0/24";
    let _server = cable.there(words, 12_865);
    let hosts = [
        ("4", THERE.to_owned(), HERE.to_owned()),
        ("6", "fe80::2%eth1".to_owned(), "fe80::1%eth1".to_owned()),
    ];
    let kinds = ["TCP_STREAM", "TCP_MAERTS", "UDP_RR"];
    let cases: Vec<_> = hosts.iter().flat_map(|host| kinds.map(|kind| (host, kind))).collect();
    at_once(cases.len(), &cases, |((family, host, local), kind)| {
        let here = format!("-L {local},{family}");
        // of datagrams over IPv6 it names the control connection alone
        let data = match (*kind, family) {
            ("UDP_RR", &"6") => "-e 2 ".to_owned(),
            ("UDP_RR", _) => format!("-e 2  {here} -H {host}"),
            _ => format!("  {here} -H {host}"),
        };
        let format = if *kind == "UDP_RR" { "" } else { "-f m" };
        let line = format!(
            "DUMP_TCP_INFO=1 netperf -P 0 -v 0 -D -0.20 -{family} -Y 184,184 -H {host} -p 12865 -t {kind} -l 2 \
             -F /dev/urandom {format} {here}  -- {data} -k {NAMES}  "
        );
        let finished = cable.run(&line).wait().expect_code(0);
        let (mut lists, mut single) = (HashMap::<&str, Vec<f64>>::new(), HashMap::new());
        for (name, value) in finished.stdout.lines().filter_map(|line| line.split_once('=')) {
            match name.split_once('[') {
                Some(("NETPERF_UNITS", _)) => {}
                Some((name, _)) => lists.entry(name).or_default().push(decimal(value)),
                None => assert_eq!(single.insert(name, value), None, "{name} twice: {finished:?}"),
            }
        }
        let list =
            |name: &str| lists.get(name).unwrap_or_else(|| panic!("no {name}: {finished:?}"));
        let [rates, seconds, ends] =
            ["NETPERF_INTERIM_RESULT", "NETPERF_INTERVAL", "NETPERF_ENDING"].map(list);
        assert!(rates.len() > 4 && rates.len() == seconds.len() && rates.len() == ends.len());
        assert!(rates.iter().zip(seconds).all(|(rate, time)| *rate >= 0.0 && *time > 0.0));
        let value =
            |name: &str| *single.get(name).unwrap_or_else(|| panic!("no {name}: {finished:?}"));
        assert!(decimal(value("THROUGHPUT")) > 0.0 && decimal(value("ELAPSED_TIME")) > 1.5);
        // int(, base=0)
        for end in ["LOCAL_SOCKET_TOS", "REMOTE_SOCKET_TOS"] {
            assert_eq!(value(end), "0xb8", "{line}");
        }
        if *kind == "UDP_RR" {
            assert_eq!(value("PROTOCOL"), "UDP");
            return;
        }
        let (direction, sender, receiver) = match *kind {
            "TCP_STREAM" => ("Send", "LOCAL", "REMOTE"),
            _ => ("Recv", "REMOTE", "LOCAL"),
        };
        assert_eq!((value("PROTOCOL"), value("DIRECTION")), ("TCP", direction), "{line}");
        for name in [
            "TRANSPORT_MSS",
            &format!("{sender}_TRANSPORT_RETRANS"),
            &format!("{sender}_SEND_SIZE"),
            &format!("{receiver}_RECV_SIZE"),
            &format!("{sender}_BYTES_SENT"),
            &format!("{receiver}_BYTES_RECVD"),
        ] {
            assert!(value(name).parse::<u64>().is_ok(), "{name}: {finished:?}");
        }
        assert!(!value(&format!("{sender}_CONG_CONTROL")).is_empty());
        let mut dumped = HashMap::new();
        for line in finished.stderr.lines().filter(|line| line.starts_with("tcpi")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.chunks(2) {
                dumped.insert(pair[0].to_owned(), pair[1].parse::<u64>().expect("int()"));
            }
        }
        assert!(dumped["tcpi_rtt"] > 0 && dumped["tcpi_pmtu"] == 1500, "{finished:?}");
    });
}

/// A number of a document as Go decodes it: absent it is 0, and of another type an error.
#[track_caller]
fn go(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Number(number) => number.as_f64().expect("a number"),
        other => panic!("json: cannot unmarshal {other} into a number"),
    }
}

/// edgard/iperf3_exporter, `internal/iperf/iperf.go`: of streams the sums, of datagrams the first stream and the sum, in
/// which `socket` is a whole number and `sender` is true or false.
#[test]
fn the_exporter_for_prometheus_reads_each_of_its_probes() {
    needs!(root, "ip");
    let cable = Cable::start();
    let _server = cable.there("serve --bind 192.0.2.2 --programs iperf3", 5201);
    let probes = ["", " -R", " -b 50M", " -u -b 1M", " -R -u -b 20M"];
    at_once(probes.len(), &probes, |probe| {
        let line = format!("iperf3 -J -t 1 -c {THERE} -p 5201 -B {HERE}{probe}");
        let printed = cable.printed(&line);
        let document: Value = serde_json::from_str(&printed).expect("json.Unmarshal");
        let end = &document["end"];
        if !probe.contains("-u") {
            for sum in ["sum_sent", "sum_received"] {
                for key in ["seconds", "bytes", "bits_per_second"] {
                    assert!(go(&end[sum][key]) > 0.0, "{line}: {sum}.{key} {end:#}");
                }
            }
            go(&end["sum_sent"]["retransmits"]);
            assert_eq!(document["start"]["test_start"]["protocol"], "TCP");
            return;
        }
        assert_eq!(document["start"]["test_start"]["protocol"], "UDP");
        assert!(end["streams"][0]["udp"]["socket"].is_i64(), "{end:#}");
        for part in [&end["streams"][0]["udp"], &end["sum"]] {
            assert!(part["sender"].is_boolean(), "{line}: {part:#}");
            for key in ["seconds", "bytes", "bits_per_second", "packets"] {
                assert!(go(&part[key]) > 0.0, "{line}: {key} {part:#}");
            }
            for key in ["jitter_ms", "lost_packets", "lost_percent", "start", "end"] {
                assert!(go(&part[key]) >= 0.0, "{line}: {key} {part:#}");
            }
        }
    });
}

/// cloud-bulldozer/k8s-netperf, `pkg/drivers/iperf.go`: the first document of a file, and of it three sums.
#[test]
fn k8s_netperf_reads_a_file_of_iperf3() {
    needs!(root, "ip");
    let cable = Cable::start();
    let _server =
        cable.there("serve --bind 192.0.2.2 --programs iperf3 --iperf3-port 22865", 22_865);
    for (number, own) in [(1, "-l 1024 -p 22865"), (2, "-u -l 1024 -p 22865 -b 0")] {
        let file = cable.file(&format!("iperf-{number}"));
        cable.printed(&format!("iperf3 -J -P 2 -c {THERE} -t 1 {own} --logfile={file}"));
        let text = std::fs::read_to_string(&file).expect("its file");
        let first = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next();
        let document = first.expect("a document").expect("json.Decode");
        let end = &document["end"];
        // a rate of sum_received is taken first, and with it no loss
        let rate = go(&end["sum_received"]["bits_per_second"]);
        assert!(rate > 1e6, "{own}: {end:#}");
        go(&end["sum_sent"]["retransmits"]);
        if number == 2 {
            assert!(go(&end["sum"]["bits_per_second"]) > 0.0, "{end:#}");
            assert!((0.0..100.0).contains(&go(&end["sum"]["lost_percent"])), "{end:#}");
        }
    }
}

/// Keys of iperf3 that become keys of perfSONAR's result.
#[track_caller]
fn renamed(part: &Value, needed: &[&str]) {
    let part = part.as_object().unwrap_or_else(|| panic!("no object: {part}"));
    for key in needed {
        assert!(part.contains_key(*key), "no {key}: {part:#?}");
    }
}

/// perfsonar/pscheduler, `pscheduler-tool-iperf3/iperf3/iperf3_parser.py`: an `error` ends it; `intervals` and `end`
/// must be there; the sum is `sum_sent`, or else `sum`, and the receiver's rate that of `sum_received`.
#[track_caller]
fn pscheduler(document: &Value, is_udp: bool, sends: bool) {
    assert!(document.get("error").is_none(), "{document:#}");
    let usual = ["socket", "start", "end", "bytes", "bits_per_second", "omitted"];
    let more: &[&str] = match (is_udp, sends) {
        (true, true) => &["packets"],
        (true, false) => &["packets", "lost_packets", "jitter_ms"],
        (false, true) => &["retransmits", "snd_cwnd", "rtt"],
        (false, false) => &[],
    };
    for interval in document["intervals"].as_array().expect("intervals") {
        for stream in interval["streams"].as_array().expect("streams") {
            renamed(stream, &[&usual[..], more].concat());
        }
        renamed(&interval["sum"], &usual[1..]);
    }
    let end = &document["end"];
    let sum = if end.get("sum_sent").is_some() { &end["sum_sent"] } else { &end["sum"] };
    renamed(sum, &["start", "end", "bytes", "bits_per_second"]);
    if let Some(received) = end.get("sum_received") {
        renamed(received, &["bits_per_second"]);
    }
    for stream in end["streams"].as_array().expect("streams") {
        match (stream.get("udp"), stream.get("sender")) {
            (Some(udp), _) => renamed(udp, &["socket", "packets", "lost_packets", "jitter_ms"]),
            // a server that received knows no path
            (None, Some(sender))
                if document["start"].get("accepted_connection").is_some() && !sends =>
            {
                renamed(sender, &["socket", "bytes"]);
            }
            (None, Some(sender)) => renamed(sender, &["socket", "bytes", "mean_rtt"]),
            (None, None) => panic!("{stream:#}"),
        }
    }
}

#[test]
fn pscheduler_reads_its_client_of_iperf3() {
    needs!(root, "ip");
    let cable = Cable::start();
    let _server = cable.there("serve --bind 192.0.2.2 --programs iperf3", 5201);
    // participant-data: the second word is a version
    let version = cable.printed("iperf3 --version");
    let version: Vec<&str> =
        version.split_whitespace().nth(1).expect("a word").split('.').collect();
    assert!(version.iter().all(|number| number.parse::<u32>().is_ok()), "{version:?}");
    let specs = [
        (format!("-B {HERE} -c {THERE} -t 2 --json -i 1 -P 2"), false, true),
        (format!("-4 -B {HERE} -c {THERE} -t 2 --json -i 1 -O 1"), false, true),
        (
            format!("-c {THERE} -t 2 --json -w 262144 -M 1400 -b 50000000 -S 32 -C cubic -Z"),
            false,
            true,
        ),
        (format!("-B {HERE} -c {THERE} -t 2 --json -i 1 -l 16384 -R"), false, false),
        (format!("-B {HERE} -c {THERE} -t 2 --json -i 1 -b 20000000 -u"), true, true),
        (format!("-B {HERE} -c {THERE} -t 2 --json -b 20000000 -u -l 1000 -S 128 -R"), true, false),
    ];
    at_once(specs.len(), &specs, |(spec, is_udp, sends)| {
        let printed = cable.printed(&format!("iperf3 -p 5201 {spec}"));
        let document = serde_json::from_str(&printed).expect("json.loads");
        pscheduler(&document, *is_udp, *sends);
    });
    // what a test that fails says stands in its document
    let failed = cable.run(&format!("iperf3 -p 5202 -c {THERE} -t 2 --json")).wait();
    assert!(failed.code() != Some(0) && failed.json()["error"].is_string(), "{failed:?}");
}

/// microsoft/lisa, `_pre_handle` of `lisa/tools/iperf3.py`: from the first brace to the last one.
#[track_caller]
fn within_braces(text: &str) -> Value {
    let (first, last) = (text.find('{').expect("a brace"), text.rfind('}').expect("a brace"));
    serde_json::from_str(&text[first..=last]).expect("json.loads")
}

/// The same, `_sender_pattern`: in one line behind a letter of S, U and M a number of Gbits/sec, and then `sender`.
fn gigabits(text: &str, end: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let rest = &line[line.find(['S', 'U', 'M'])?..];
        let (before, behind) = rest.split_once(" Gbits/sec")?;
        let (_, number) = before.rsplit_once(' ')?;
        behind.contains(end).then(|| number.parse().ok())?
    })
}

#[test]
fn lisa_reads_its_client_of_iperf3() {
    needs!(root, "ip");
    let cable = Cable::start();
    let _servers = [750, 751, 5201].map(|port| {
        let words = format!("serve --bind 192.0.2.2 --programs iperf3 --iperf3-port {port}");
        cable.there(&words, port)
    });
    assert!(cable.printed("iperf3 -h").contains("--logfile"));
    let version = cable.printed("iperf3 --version");
    let number = version.strip_prefix("iperf ").and_then(|rest| rest.split_whitespace().next());
    assert!(number.is_some_and(|number| number.contains('.')), "{version}");
    // streams, and datagrams of which each process has a port
    let printed = cable.printed(&format!(
        "iperf3 -t 2 -c {THERE} -J  -i1  -f g  -p 750  -P 4 -B {HERE} -l 65536  -4 "
    ));
    let document = within_braces(&printed);
    let intervals = document["intervals"].as_array().expect("intervals");
    assert!(intervals.len() >= 2, "{document:#}");
    for interval in intervals {
        assert!(interval["streams"][0]["snd_cwnd"].as_u64().is_some_and(|window| window > 0));
    }
    assert!(
        document["end"]["sum_received"]["bits_per_second"].as_f64().is_some_and(|rate| rate > 0.0)
    );
    for stream in document["end"]["streams"].as_array().expect("streams") {
        assert!(stream["sender"]["retransmits"].is_u64(), "{stream:#}");
    }
    let lines = [750, 751].map(|port| {
        format!("iperf3 -t 1 -c {THERE} -u  -J  -i1  -f g  -p {port}  -P 2 -B {HERE} -l 1024  -4 ")
    });
    at_once(2, &lines, |line| {
        let document = within_braces(&cable.printed(line));
        assert!(document["end"]["sum"]["lost_percent"].is_number(), "{document:#}");
        for interval in document["intervals"].as_array().expect("intervals") {
            assert!(interval["sum"]["bits_per_second"].is_number(), "{interval:#}");
        }
    });
    // text: of all streams, and while it lasts
    let text = cable.printed(&format!("iperf3 -t 1 -c {THERE} -P 8"));
    assert!(gigabits(&text, "sender").is_some_and(|rate| rate > 0.1), "{text}");
    assert!(gigabits(&text, "receiver").is_some(), "{text}");
    let file = cable.file("iperfResults.log");
    cable.printed(&format!("iperf3 -t 1 -c {THERE} -B {HERE} --logfile {file}"));
    let log = std::fs::read_to_string(file).expect("its file");
    assert!(log.contains("Connecting to host ") && !log.contains("error"), "{log}");
}

/// Both read the document of the server as that of the client, and LISA of each interval the sum alone.
#[test]
fn lisa_and_pscheduler_read_their_server_of_iperf3() {
    needs!(root, "ip");
    let cable = Cable::start();
    let client = format!("-B {HERE} -c {THERE} -t 2 --json -b 50000000");
    let cases = [
        (
            750,
            " -1  -J  -i10  -f g ",
            format!("-t 2 -c {THERE} -J  -i1  -f g -P 2 -B {HERE} -l 8192  -4 "),
        ),
        (
            751,
            " -1  -J  -i10  -f g ",
            format!("-t 2 -c {THERE} -u  -J  -i1  -f g -P 2 -B {HERE} -l 1024  -4 "),
        ),
        (5201, " -1 --json -4", client.clone()),
        (5202, " -1 --json -4", format!("{client} -R")),
        (5203, " -1 --json -4", format!("{client} -u")),
        (5204, " -1 --json -4", format!("{client} -u -R")),
    ];
    at_once(cases.len(), &cases, |(port, server, client)| {
        let words = format!("iperf3 -s{server} -p {port}  -B {THERE} ");
        let server = cable.there(&words, *port);
        let ours = within_braces(&cable.printed(&format!("iperf3 {client} -p {port}")));
        let theirs = within_braces(&server.wait().expect_code(0).stdout);
        let rate = |document: &Value, sum: &str| {
            let rate = &document["end"][sum]["bits_per_second"];
            rate.as_f64().unwrap_or_else(|| panic!("no {sum}: {document:#}"))
        };
        let is_udp = client.contains("-u");
        let is_reverse = client.contains("-R");
        pscheduler(&theirs, is_udp, is_reverse);
        for sum in ["sum_sent", "sum_received"] {
            let [here, there] = [&ours, &theirs].map(|document| rate(document, sum));
            assert!((here / there - 1.0).abs() < 0.05, "{client}: {sum} {ours:#} {theirs:#}");
        }
        let intervals = theirs["intervals"].as_array().expect("intervals");
        assert!(intervals.iter().all(|interval| interval["sum"]["bits_per_second"].is_number()));
        if is_udp && !is_reverse {
            assert!(!intervals.is_empty() && theirs["end"]["sum"]["lost_percent"].is_number());
        }
    });
}

/// GoogleCloudPlatform/PerfKitBenchmarker, `windows_packages/iperf3.py`: of streams the words of each line with
/// `receiver`; of datagrams the line behind as many intervals as seconds, and five more.
#[test]
fn perfkit_reads_the_text_of_iperf3() {
    needs!(root, "ip");
    let cable = Cable::start();
    let _server = cable.there("serve --bind 192.0.2.2 --programs iperf3", 5201);
    let file = cable.file("iperf_results");
    let read = |words: &str| {
        cable.printed(&format!("iperf3 --client {THERE} {words} > {file}"));
        std::fs::read_to_string(&file).expect("its file")
    };
    let text = read("--port 5201 -t 1 -P 3 -f m  -w 0.1M ");
    let mut threads = Vec::new();
    for line in text.split('\n').filter(|line| line.contains("receiver")) {
        let mut words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        if words[0] == "[" {
            words.remove(0);
        }
        assert!(decimal(words[5]) > 0.0 && words[6] == "Mbits/sec", "{line}");
        threads.push(words[0].trim_end_matches(']').trim_start_matches('['));
    }
    assert_eq!((threads.len(), threads[3]), (4, "SUM"), "{text}");
    const SECONDS: usize = 2;
    let text = read(&format!("--udp -t {SECONDS} -P 1 -b 50M -l 1000"));
    let line = text.split('\n').nth(2 + SECONDS + 3).expect("a line");
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    decimal(words[8]);
    assert!(decimal(words[6]) > 0.0 && words[7] == "Mbits/sec", "{line}");
    let (lost, all) = words[10].split_once('/').expect("lost and all");
    let [lost, all] = [lost, all].map(|count| count.parse::<u64>().expect("int()"));
    // it divides by them
    assert!(lost <= all && all > 0, "{line}");
}
