//! The program with real traffic, real privileges and real peers.

#[macro_use]
#[path = "../../../linkrate-sys/tests/common/skip.rs"]
mod skip;
#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod adapter;
mod aggregate;
mod atm;
mod atm_captures;
#[path = "../../../linkrate-study/tests/book/mod.rs"]
mod book;
mod compare;
mod control;
mod datagrams;
mod dropin_iperf3;
mod dropin_netperf;
mod existing;
mod failover;
mod failure;
mod fleet;
mod flent;
mod harnesses;
mod hostile_clients;
mod iperf3;
mod iperf3_options;
mod ipv6;
mod knobs;
mod known_work;
mod lab;
mod lane;
mod limits;
mod matrix;
mod measure;
mod netperf;
#[path = "../common/open_vswitch.rs"]
mod open_vswitch;
#[path = "../common/own_host.rs"]
mod own_host;
#[path = "../../../linkrate-wire/tests/common/mod.rs"]
mod packets;
mod partner;
mod peers;
mod ports;
mod profile;
mod programs;
mod public_cases;
mod restore;
mod router;
mod sabotage;
mod scale;
mod segmentation;
mod self_test;
mod serve;
mod signals;
mod slurm;
mod soak;
mod stack;
mod study;
mod sweep;
#[path = "../common/tap_host.rs"]
mod tap_host;
mod toe;
mod toe_captures;
mod toe_moves;
mod toe_programs;
mod transfer;
mod trouble;
mod truth;
mod tuning;
mod user;
mod verdict;
