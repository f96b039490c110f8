//! The congestion controls of this kernel.

use std::fs;

use linkrate_model::nearest::did_you_mean;

use crate::LabError;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Refuses the name of a congestion control that this kernel lacks, with the nearest name, before a testbed is built.
/// A kernel that does not list its algorithms refuses nothing here; the run then fails by the knob's name.
pub fn check<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), LabError> {
    let listed = fs::read_to_string(AVAILABLE).unwrap_or_default();
    check_among(&listed.split_whitespace().collect::<Vec<_>>(), names)
}

fn check_among<'a>(
    available: &[&str],
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), LabError> {
    let missing = names.into_iter().find(|name| !available.contains(name));
    match missing {
        Some(name) if !available.is_empty() => Err(LabError::Invalid {
            what: format!(
                "congestion: this kernel has no \"{name}\"{}",
                did_you_mean(name, available.iter().copied())
            ),
            hint: format!(
                "it has {}; others may be modules that are not loaded, see modprobe",
                available.join(", ")
            ),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_the_kernel_lacks_is_refused_with_the_nearest() {
        let error = check_among(&["reno", "cubic"], ["cubic", "cubbic"]).unwrap_err();
        assert!(error.to_string().contains("\"cubbic\"; did you mean \"cubic\"?"), "{error}");
        assert!(check_among(&["reno", "cubic"], ["reno"]).is_ok());
        assert!(check_among(&[], ["anything"]).is_ok());
    }
}
