use linkrate_protocol::{Reply, Request, Steered};

use crate::backend::ReceiveSteering;
use crate::connection::{AgentError, expect_reply};
use crate::error::LabError;
use crate::host::{Client, Host};
use crate::placement::Placement;

/// Steers receive processing to the CPUs of each host that does not have its whole machine.
pub(super) fn steer(
    sut: &mut Host,
    clients: &mut [Client],
    names: &[String],
    placement: &Placement,
    warnings: &mut Vec<String>,
) -> Result<ReceiveSteering, LabError> {
    if placement.is_shared() {
        return Ok(ReceiveSteering::NotNeeded);
    }
    let mut steering = ReceiveSteering::WholeMachines;
    for name in names {
        match steer_one(sut, name, warnings)? {
            // the worst of several counts
            found if found > rank(&steering) => steering = found.into(),
            _ => {}
        }
    }
    for client in clients {
        let interface = client.interface.clone();
        if let Steering::Refused(reason) = steer_one(&mut client.host, &interface, warnings)? {
            warnings.push(format!(
                "receive processing of {} could not be steered to its CPUs: {reason}",
                client.host.name
            ));
        }
    }
    Ok(steering)
}

/// How one interface was steered; later variants are worse.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Steering {
    NotNeeded,
    Interrupts,
    Queues,
    Refused(String),
}

fn rank(steering: &ReceiveSteering) -> Steering {
    match steering {
        ReceiveSteering::NotNeeded
        | ReceiveSteering::Napi
        | ReceiveSteering::Drivers(_)
        | ReceiveSteering::WholeMachines => Steering::NotNeeded,
        ReceiveSteering::Interrupts => Steering::Interrupts,
        ReceiveSteering::Rps => Steering::Queues,
        ReceiveSteering::Unavailable(reason) => Steering::Refused(reason.clone()),
    }
}

impl From<Steering> for ReceiveSteering {
    fn from(steering: Steering) -> Self {
        match steering {
            Steering::NotNeeded => Self::WholeMachines,
            Steering::Interrupts => Self::Interrupts,
            Steering::Queues => Self::Rps,
            Steering::Refused(reason) => Self::Unavailable(reason),
        }
    }
}

fn steer_one(
    host: &mut Host,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<Steering, LabError> {
    if host.cpus == host.hello.online_cpus {
        return Ok(Steering::NotNeeded);
    }
    let request = Request::SteerInterface { name: name.to_owned(), cpus: host.cpus.clone() };
    let steered = expect_reply!(host.connection, request, Reply::Steered(steered) => steered);
    match steered {
        Ok(Steered { interrupts, stuck }) => {
            if !stuck.is_empty() {
                let numbers: Vec<String> = stuck.iter().map(u32::to_string).collect();
                warnings.push(format!(
                    "{}: interrupts {} of {name} cannot be moved to CPUs {}: other CPUs may \
                     process part of the received packets",
                    host.name,
                    numbers.join(", "),
                    host.cpus
                ));
            }
            let any = interrupts > 0 || !stuck.is_empty();
            Ok(if any { Steering::Interrupts } else { Steering::Queues })
        }
        Err(AgentError::Refused(refusal)) => Ok(Steering::Refused(refusal.reason)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_steering_counts() {
        let all = [
            ReceiveSteering::WholeMachines,
            ReceiveSteering::Interrupts,
            ReceiveSteering::Rps,
            ReceiveSteering::Unavailable("no".to_owned()),
        ];
        assert!(all.windows(2).all(|pair| rank(&pair[0]) < rank(&pair[1])));
        for steering in all {
            assert_eq!(ReceiveSteering::from(rank(&steering)), steering);
        }
    }
}
