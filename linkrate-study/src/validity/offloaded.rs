//! With a TCP offload engine, the connections of a run are at the adapter, and the host sends nothing
//! for them.

use linkrate_model::Measurement;
use linkrate_model::knobs::Toe;

use super::Rejection;
use crate::executor::Stage;

/// Connections that stay at the host would be measured as if they were not.
pub(super) fn check(run: &Measurement) -> Result<(), Rejection> {
    let toe = run.effective.interface.port.toe.unwrap_or(Toe::Off);
    if toe == Toe::Off {
        return Ok(());
    }
    let refused =
        |reason: String| Err(Rejection { stage: Stage::Measure, named: "toe".to_owned(), reason });
    let ports = || run.evidence.adapter.iter().flat_map(|adapter| &adapter.ports);
    let sum = |name: &str| ports().filter_map(|port| port.counters.get(name)).sum::<u64>();
    let segments = sum("toeHostSegments");
    if segments > 0 {
        return refused(format!(
            "TCP of the host sent {segments} packets for connections that are at the adapter"
        ));
    }
    // which ones are at the adapter, and when, is the question of `auto`
    if toe == Toe::Auto {
        return Ok(());
    }
    let stayed: Vec<String> = ports()
        .flat_map(|port| &port.counters)
        .filter_map(|(name, count)| Some((name.strip_prefix("toeStayed.")?, count)))
        .map(|(reason, count)| format!("{count} for {reason}"))
        .collect();
    if sum("toeConnections") == 0 || !stayed.is_empty() {
        return refused(format!(
            "toe was on with {} connections at the adapter; at the host stayed {}",
            sum("toeConnections"),
            if stayed.is_empty() { "the others".to_owned() } else { stayed.join(", ") }
        ));
    }
    Ok(())
}
