//! `run --format ktap`: a study as a test of the kernel, on the interface and with the peer that the environment of
//! its NetDrvEpEnv names (tools/testing/selftests/drivers/net).
//!
//! Exit codes are those of kselftest, to which 2 to 4 mean something else than to linkrate.

use linkrate_model::Peer;
use linkrate_report::ktap;
use linkrate_study::results::StudyResults;
use linkrate_sys::stderr;

use super::output::Wanted;
use super::run::run_on;
use crate::args::existing::ExistingArgs;
use crate::args::study::StudyRunArgs;
use crate::exit::{Exit, Failure};
use crate::output::print;

/// KSFT_SKIP, of which linkrate has the number for something else.
const SKIPPED: Exit = Exit::RunsFailed;

/// Variables of NetDrvEpEnv that are not used: interface and peer find these addresses.
const NOT_USED: [&str; 3] = ["LOCAL_V4", "LOCAL_V6", "REMOTE_V6"];

/// Runs a study. What this host cannot measure is skipped.
pub fn run(arguments: &StudyRunArgs) -> Result<Exit, Failure> {
    let is_given = !arguments.existing.interface.is_empty() || arguments.fleet.fleet.is_some();
    let named = match is_given {
        true => None,
        false => named(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))?,
    };
    let (existing, environment) = named.unwrap_or_default();
    let existing = if environment.is_empty() { &arguments.existing } else { &existing };
    let wanted = Wanted { ktap: Some(environment.clone()), ..Wanted::default() };
    run_on(arguments, existing, wanted).map_err(Failure::at_limit).or_else(|failure| match failure
        .exit
    {
        Exit::CannotMeasure => {
            print(&ktap::skipped(&failure.message, &environment))?;
            failure.print();
            Ok(SKIPPED)
        }
        Exit::Interrupted | Exit::Limit => Err(failure),
        _ => Err(Failure { exit: Exit::Failure, ..failure }),
    })
}

/// Prints results of runs that ended so. A study may lack runs of which no case tells, such as idle ones.
pub fn present(
    results: &StudyResults,
    environment: &[String],
    runs: Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let found = ktap::document(results, environment);
    print(&found.text)?;
    stderr::line(format_args!("results  {}", results.directory));
    Ok(match runs? {
        Exit::Interrupted => Exit::Interrupted,
        _ if found.failed > 0 => Exit::Failure,
        _ if found.passed == 0 => SKIPPED,
        Exit::Success => Exit::Success,
        _ => Exit::Failure,
    })
}

/// The interface and the peer that variables name, and lines about them. None without NETIF: the study runs on the
/// adapter of its file then, as tests of the kernel run on software devices.
fn named(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<(ExistingArgs, Vec<String>)>, Failure> {
    let Some(interface) = variable("NETIF") else { return Ok(None) };
    let wrong = |message: String, hint: &str| {
        let message = format!("NETIF={interface}: {message}");
        Err(Failure::new(Exit::Failure, message).with_hint(Some(hint.to_owned())))
    };
    let example = "set for example REMOTE_TYPE=ssh REMOTE_ARGS=root@lab2 REMOTE_V4=192.0.2.2";
    let (Some(kind), Some(host)) = (variable("REMOTE_TYPE"), variable("REMOTE_ARGS")) else {
        return wrong("REMOTE_TYPE or REMOTE_ARGS is not set".to_owned(), example);
    };
    if kind != "ssh" && kind != "netns" {
        return wrong(format!("REMOTE_TYPE={kind}: expected ssh or netns"), example);
    }
    let address = variable("REMOTE_V4");
    let behind = address.as_ref().map_or_else(String::new, |address| format!(",{address}"));
    let Ok(peer) = format!("{kind}:{host}{behind}").parse::<Peer>() else {
        let address = address.unwrap_or_default();
        let message = format!("REMOTE_ARGS={host} REMOTE_V4={address}: no host and address");
        return wrong(message, example);
    };
    let behind = address.map_or_else(String::new, |address| format!(" REMOTE_V4={address}"));
    let used = format!(
        "environment: NETIF={interface} REMOTE_TYPE={kind} REMOTE_ARGS={host}{behind}: --interface {interface} \
         --client {peer}"
    );
    let others: Vec<&str> = NOT_USED.into_iter().filter(|name| variable(name).is_some()).collect();
    let others = (!others.is_empty())
        .then(|| format!("environment: set and not used: {}", others.join(" ")));
    let existing =
        ExistingArgs { interface: vec![interface], client: vec![peer], ..ExistingArgs::default() };
    Ok(Some((existing, [used].into_iter().chain(others).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the variables `NAME=value` name.
    fn of(set: &str) -> Result<Option<(ExistingArgs, Vec<String>)>, Failure> {
        let pairs: Vec<(&str, &str)> =
            set.split(' ').filter_map(|word| word.split_once('=')).collect();
        named(|name| {
            let found = pairs.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_of_a_kernel_test_names_interface_and_peer() {
        assert!(of("REMOTE_TYPE=ssh REMOTE_ARGS=lab2").unwrap().is_none());
        let set = "NETIF=eth1 LOCAL_V4=192.0.2.1 REMOTE_V4=192.0.2.2 REMOTE_TYPE=ssh REMOTE_ARGS=root@lab2";
        let (existing, lines) = of(set).unwrap().unwrap();
        assert_eq!(existing.interface, ["eth1"]);
        assert_eq!(existing.client[0].to_string(), "ssh:root@lab2,192.0.2.2");
        assert_eq!(
            lines,
            [
                "environment: NETIF=eth1 REMOTE_TYPE=ssh REMOTE_ARGS=root@lab2 REMOTE_V4=192.0.2.2: --interface eth1 \
                 --client ssh:root@lab2,192.0.2.2",
                "environment: set and not used: LOCAL_V4"
            ]
        );
    }

    #[test]
    fn a_namespace_of_this_machine_is_a_peer() {
        let set = "NETIF=eth1 REMOTE_V4=192.0.2.2 REMOTE_TYPE=netns REMOTE_ARGS=peer";
        let (existing, lines) = of(set).unwrap().unwrap();
        assert_eq!(existing.client[0].to_string(), "netns:peer,192.0.2.2");
        assert!(lines[0].ends_with("--interface eth1 --client netns:peer,192.0.2.2"), "{lines:?}");
    }

    #[test]
    fn an_environment_that_does_not_do_is_refused() {
        for (set, said) in [
            ("NETIF=eth1", "REMOTE_TYPE or REMOTE_ARGS is not set"),
            (
                "NETIF=eth1 REMOTE_TYPE=vsock REMOTE_ARGS=3",
                "REMOTE_TYPE=vsock: expected ssh or netns",
            ),
            ("NETIF=eth1 REMOTE_TYPE=netns REMOTE_ARGS=../lab2", "REMOTE_ARGS=../lab2"),
            ("NETIF=eth1 REMOTE_TYPE=ssh REMOTE_ARGS=-v", "REMOTE_ARGS=-v"),
            ("NETIF=eth1 REMOTE_TYPE=ssh REMOTE_ARGS=lab2 REMOTE_V4=lab2", "REMOTE_V4=lab2"),
        ] {
            let failure = of(set).unwrap_err();
            assert!(failure.message.contains(said), "{set}: {}", failure.message);
            assert_eq!(failure.exit, Exit::Failure);
        }
    }
}
