//! Facts about a testbed that travel with every result.

use std::collections::BTreeMap;
use std::fs;

use linkrate_model::TestbedSpec;
use linkrate_protocol::Hello;
use linkrate_study::executor::Facts;
use linkrate_sys::cgroup::cpu_quota;
use linkrate_sys::host_settings;
use linkrate_sys::tree::Tree;

use super::contention::Calibration;
use crate::testbed::{ReceiveSteering, Testbed};

pub(super) fn facts(testbed: &Testbed, spec: &TestbedSpec, measured: &Calibration) -> Facts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let hello = &testbed.sut.hello;
    let mut facts = BTreeMap::from(
        [
            ("kernel", hello.kernel.clone()),
            ("cpu-model", hello.cpu_model.clone()),
            ("online-cpus", hello.online_cpus.to_string()),
            ("sut-cpus", testbed.placement.sut.to_string()),
            ("client-cpus", testbed.placement.clients.to_string()),
            ("clients", spec.clients.to_string()),
            ("adapter", spec.adapter.name().to_owned()),
            (
                "plain-payload",
                "sent from and received into a ring of buffers, as netperf has it".to_owned(),
            ),
            (
                "shared-cpus",
                if testbed.placement.is_shared() {
                    "yes: stream receivers are batch threads, plain senders yield every 512 KiB"
                } else {
                    "no"
                }
                .to_owned(),
            ),
            ("receive-processing", testbed.receive_steering.fact()),
            ("idle-time", testbed.idle_source.name().to_owned()),
            ("default-congestion", read("/proc/sys/net/ipv4/tcp_congestion_control")),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let segments = testbed.topology.segments.iter();
    let drawn: Vec<String> = segments.flat_map(|segment| segment.drawn()).collect();
    if !drawn.is_empty() {
        let drawn: Vec<&str> = drawn.iter().map(|line| line.trim_matches([' ', '│'])).collect();
        facts.insert("fabric".to_owned(), drawn.join("; "));
    }
    let here = (!spec.adapter.has_remote_sut()).then(Tree::of_this_host);
    if here.is_none() {
        // what is read of this host says nothing of a system under test elsewhere
        facts.remove("default-congestion");
    }
    facts.extend(hello.settings.clone());
    let sysctls = sysctls(hello, here.as_ref());
    facts.extend(testbed.backend.facts(&testbed.clients));
    let mut warnings = testbed.placement.warnings();
    warnings.extend(testbed.backend.warnings());
    warnings.extend(cpu_quota().map(|quota| format!("{quota}: runs that reach it are held up")));
    if let ReceiveSteering::Unavailable(reason) = &testbed.receive_steering {
        warnings.push(format!(
            "receive processing runs on the CPU of the sender, which pays for it, because it could \
             not be steered to the CPUs of the receiving host: {reason}"
        ));
    }
    let contention = measured.contention();
    Facts { facts, sysctls, measured: measured.facts(), contention, warnings }
}

/// The sysctls of the network of the system under test: those of its namespace, as its agent tells them, and of a
/// system under test on this host those that hold for the whole host.
fn sysctls(hello: &Hello, here: Option<&Tree>) -> BTreeMap<String, String> {
    let mut sysctls = here.map_or_else(BTreeMap::new, host_settings::network_sysctls);
    sysctls.extend(hello.sysctls.clone());
    sysctls
}
