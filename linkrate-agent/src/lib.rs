//! What runs in each host: workloads, meters, knobs; one protocol
