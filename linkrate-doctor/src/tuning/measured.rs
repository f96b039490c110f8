//! What settings were seen to cost. The runs are in docs/src/guide/tuning.md, "What the costs rest
//! on"; the papers' figures are those that the studies have beside theirs.

use super::advice::{Basis, Cost};

const RUNS: &str = "linkrate measure on veth, guide \"Tuning a host\"";

/// TSO off and software GSO on: 0.427 against 0.248 µs/KB; the tso paper has 47 % for TSO off
/// without GSO.
pub(super) fn without_tso() -> Cost {
    let text = "CPU time per byte sent falls by about 42 % with it (0.427 to 0.248 µs/KB, 10.5 to \
                32.7 Gb/s); the tso paper has 47 % against sending without any";
    Cost::known(Basis::Measured, 0.42, text, RUNS)
}

/// Neither TSO nor GSO: 1.50 against 0.427 µs/KB.
pub(super) fn without_gso() -> Cost {
    let text = "CPU time per byte sent falls by about 72 % with it (1.50 to 0.427 µs/KB, 5.15 to \
                10.5 Gb/s)";
    Cost::known(Basis::Measured, 0.72, text, RUNS)
}

/// GRO off: 0.585 against 0.454 µs/KB.
pub(super) fn without_gro() -> Cost {
    let text = "CPU time per byte received falls by about 22 % with it (0.585 to 0.454 µs/KB, 10.7 \
                to 12.8 Gb/s)";
    Cost::known(Basis::Measured, 0.22, text, RUNS)
}

/// Transmit checksums in software: 0.534 against 0.424 µs/KB.
pub(super) fn without_tx_checksum() -> Cost {
    let text = "CPU time per byte sent falls by about 21 % with it (0.534 to 0.424 µs/KB), and TSO \
                needs it";
    Cost::known(Basis::Measured, 0.21, text, RUNS)
}

/// bbr instead of cubic over a fast path: 1.10 against 0.248 µs/KB with TSO.
pub(super) fn pacing() -> Cost {
    let text = "on a fast path without loss, CPU time per byte sent falls by about 77 % with cubic \
                (1.10 to 0.248 µs/KB with TSO, 7.15 to 32.7 Gb/s); on long or lossy paths bbr may \
                carry more";
    Cost::known(Basis::Measured, 0.77, text, RUNS)
}

/// MTU 1500 instead of 9000, ten-gigabit paper: 1.35 to 0.86 and 2.20 to 1.21 µs/KB.
pub(super) fn without_jumbo() -> Cost {
    let text = "CPU time per byte falls by 36 % sending and 45 % receiving with an MTU of 9000 \
                (1.35 to 0.86 and 2.20 to 1.21 µs/KB)";
    Cost::known(Basis::Published, 0.36, text, "the ten-gigabit paper, 2008")
}

/// A process away from the CPU of its adapter's interrupt, atm paper.
pub(super) fn unbound() -> Cost {
    let text = "about 20 % more throughput for a process bound to the CPU of its adapter's \
                interrupts";
    Cost::known(Basis::Published, 0.17, text, "the atm paper, tuning guidelines")
}
