//! Pause frames: a far end that waits instead of a ring that overflows.

use linkrate_sys::shell;

use super::advice::{Advice, Cost};
use super::facts::Interface;

/// Off, while packets are missed.
pub(super) fn advice(interface: &Interface) -> Option<Advice> {
    interface.device.as_ref()?;
    let pause = interface.pause?;
    let missed = interface.count("rx_missed_errors");
    let word = shell::word(&interface.name);
    let switch = |on: bool| if on { "on" } else { "off" };
    let seen = format!("rx {}, tx {}", switch(pause.rx), switch(pause.tx));
    let from = format!("ethtool -a {word}");
    if pause.tx || missed == 0 {
        let detail = format!("pause frames {seen}, and nothing was missed for want of them");
        let detail = if missed == 0 { detail } else { format!("pause frames {seen}") };
        return Some(Advice::good("pause", detail).on(&interface.name).seen(seen, from));
    }
    let cost = Cost::unknown(
        "the packets that were missed; but a far end that waits holds up all it sends to, so that \
         longer rings come first",
    );
    let detail = format!("{missed} packets were missed, and the far end was not told to wait");
    Some(
        Advice::consider("pause", detail, cost)
            .on(&interface.name)
            .seen(seen, from)
            .seen(format!("rx_missed_errors {missed}"), interface.counter_path("rx_missed_errors"))
            .run(format!("ethtool -A {word} rx on tx on"))
            .note("the switch must obey it; do not where priority flow control (DCB) is used"),
    )
}
