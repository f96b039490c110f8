//! Costs of settings that were measured or published. docs/src/guide/tuning.md, "Sources of the
//! costs", has the runs; the studies print the figures of the papers beside their own.

use super::advice::{Basis, Cost};

const RUNS: &str = "linkrate measure on veth, guide \"Tuning a host\"";

/// TSO off and software GSO on: 0.427 against 0.248 µs/KB; the tso paper has 47 % for TSO off
/// without GSO.
pub(super) fn without_tso() -> Cost {
    let text = "TSO saves about 42 % of the CPU time per byte sent (0.427 to 0.248 µs/KB, 10.5 to \
                32.7 Gb/s); the tso paper reports 47 % compared with no segmentation offload";
    Cost::known(Basis::Measured, 0.42, text, RUNS)
}

/// Neither TSO nor GSO: 1.50 against 0.427 µs/KB.
pub(super) fn without_gso() -> Cost {
    let text = "GSO saves about 72 % of the CPU time per byte sent (1.50 to 0.427 µs/KB, 5.15 to \
                10.5 Gb/s)";
    Cost::known(Basis::Measured, 0.72, text, RUNS)
}

/// GRO off: 0.585 against 0.454 µs/KB.
pub(super) fn without_gro() -> Cost {
    let text = "GRO saves about 22 % of the CPU time per byte received (0.585 to 0.454 µs/KB, 10.7 to \
                12.8 Gb/s)";
    Cost::known(Basis::Measured, 0.22, text, RUNS)
}

/// Transmit checksums in software: 0.534 against 0.424 µs/KB.
pub(super) fn without_tx_checksum() -> Cost {
    let text = "checksum offload saves about 21 % of the CPU time per byte sent (0.534 to 0.424 \
                µs/KB), and TSO needs it";
    Cost::known(Basis::Measured, 0.21, text, RUNS)
}

/// bbr instead of cubic over a fast path: 1.10 against 0.248 µs/KB with TSO.
pub(super) fn pacing() -> Cost {
    let text = "on a fast path without loss, cubic saves about 77 % of the CPU time per byte sent \
                (1.10 to 0.248 µs/KB with TSO, 7.15 to 32.7 Gb/s); on long or lossy paths bbr may \
                reach a higher rate";
    Cost::known(Basis::Measured, 0.77, text, RUNS)
}

/// MTU 1500 instead of 9000, ten-gigabit paper: 1.35 to 0.86 and 2.20 to 1.21 µs/KB.
pub(super) fn without_jumbo() -> Cost {
    let text = "an MTU of 9000 saves 36 % of the CPU time per byte sent and 45 % per byte received \
                (1.35 to 0.86 and 2.20 to 1.21 µs/KB)";
    Cost::known(Basis::Published, 0.36, text, "the ten-gigabit paper, 2008")
}

/// A process on another CPU than the interrupts of its adapter, atm paper.
pub(super) fn unbound() -> Cost {
    let text = "a process bound to the CPU of its adapter's interrupts has about 20 % more \
                throughput";
    Cost::known(Basis::Published, 0.17, text, "the atm paper, tuning guidelines")
}
