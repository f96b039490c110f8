//! Pause frames: the peer waits instead of overflowing the ring.

use linkrate_model::shell;

use super::advice::{Advice, Cost};
use super::facts::Interface;

/// Advice on pause frames that are off while the adapter misses packets.
pub(super) fn advice(interface: &Interface) -> Option<Advice> {
    interface.device.as_ref()?;
    let pause = interface.pause?;
    let missed = interface.count("rx_missed_errors");
    let word = shell::word(&interface.name);
    let switch = |on: bool| if on { "on" } else { "off" };
    let seen = format!("rx {}, tx {}", switch(pause.rx), switch(pause.tx));
    let from = format!("ethtool -a {word}");
    if pause.tx || missed == 0 {
        let detail = format!("pause frames {seen}, and no packet was missed");
        let detail = if missed == 0 { detail } else { format!("pause frames {seen}") };
        return Some(Advice::good("pause", detail).on(&interface.name).seen(seen, from));
    }
    let cost = Cost::unknown(
        "TCP must send the missed packets again; but a peer that waits delays all its traffic, so \
         lengthen the rings first",
    );
    let detail = format!("{missed} packets were missed, and the adapter sends no pause frames");
    Some(
        Advice::consider("pause", detail, cost)
            .on(&interface.name)
            .seen(seen, from)
            .seen(format!("rx_missed_errors {missed}"), interface.counter_path("rx_missed_errors"))
            .run(format!("ethtool -A {word} rx on tx on"))
            .note("the switch must obey pause frames; do not enable them with priority flow control (DCB)"),
    )
}
