//! Formats, offloads, protocol machines and limits, from outside the crate.

#[macro_use]
#[path = "../../../linkrate-sys/tests/common/skip.rs"]
mod skip;

mod balance;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod control_aggregation;
mod control_tshark;
#[path = "../common/elan.rs"]
mod elan;
mod encapsulation;
#[path = "../common/lacp.rs"]
mod ends;
mod erf_tshark;
mod frame;
#[path = "../common/tshark.rs"]
mod judge;
mod lacp;
mod lacp_bounds;
mod lacp_machines;
mod lacp_selection;
mod limits_published;
mod limits_rules;
#[path = "../common/lone.rs"]
mod lone;
#[path = "../common/lossy.rs"]
mod lossy;
mod lro;
mod lro_gro;
mod machine;
mod machine_atmarp;
mod machine_bfd;
mod machine_call;
mod machine_lan_monitor;
mod machine_lane;
mod machine_lane_bounds;
#[path = "../common/pair.rs"]
mod pair;
mod pcapng;
mod segments;
mod steering;
