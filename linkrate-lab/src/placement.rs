//! CPUs by role: those of the system under test, and those of all other processes.

use linkrate_model::measurement::ThreadTime;
use linkrate_model::{CpuSet, TestbedSpec};
use linkrate_study::validity::Strayed;
use linkrate_sys::cpus;
use linkrate_sys::sched;

use crate::error::LabError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// CPUs of the system under test: its processes, its receive processing.
    pub sut: CpuSet,
    /// CPUs of clients, and of adapters' devices.
    pub clients: CpuSet,
    /// CPUs of the controller: the clients', unless those are another machine's.
    pub controller: CpuSet,
    /// Whether clients are machines of their own, so that CPUs of the same number are not the
    /// same. Their CPUs are then known once they have been asked.
    pub apart: bool,
}

impl Placement {
    /// Whether both roles run on the same CPUs, so that CPU figures include both.
    pub fn is_shared(&self) -> bool {
        !self.apart && self.sut.overlaps(&self.clients)
    }

    /// Takes what `spec` asks for and chooses the rest among the CPUs this process may use. Fails when a requested CPU
    /// is missing, or a role has no CPU.
    ///
    /// The default gives the system under test a quarter of the CPUs, at least one: a client that
    /// receives what the SUT sends needs more CPU than the SUT itself.
    pub fn choose(spec: &TestbedSpec) -> Result<Self, LabError> {
        let allowed = sched::affinity(sched::current_thread())?;
        let online = cpus::online()?;
        let usable: CpuSet = allowed.iter().filter(|cpu| online.contains(*cpu)).collect();
        choose_among(&usable, spec)
    }

    /// Limits of this placement, as sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_shared() {
            warnings.push(format!(
                "the system under test and its clients share CPU {}: CPU use and service demand \
                 include both",
                self.sut
            ));
        }
        for cpu in self.sut.iter() {
            let siblings = cpus::siblings_of(cpu);
            if !self.apart && !self.is_shared() && siblings.overlaps(&self.clients) {
                warnings.push(format!(
                    "CPU {cpu} of the system under test shares a core with the clients' CPUs \
                     (hardware threads {siblings}): their work slows it"
                ));
            }
        }
        warnings
    }
}

/// The controller's place: CPUs by role, with the calling thread bound to the controller's, so that
/// its work is not the system under test's. Dropping it gives the thread its former CPUs back.
#[derive(Debug)]
pub(crate) struct CpuSlot {
    pub(crate) placement: Placement,
    /// CPUs of the thread before.
    home: CpuSet,
}

impl CpuSlot {
    /// Chooses the placement that `spec` asks for and binds the calling thread.
    pub(crate) fn take(spec: &TestbedSpec) -> Result<Self, LabError> {
        let placement = Placement::choose(spec).map_err(LabError::of_the_host)?;
        let home = sched::affinity(sched::current_thread())?;
        sched::set_affinity(sched::current_thread(), &placement.controller)?;
        Ok(Self { placement, home })
    }
}

impl Drop for CpuSlot {
    fn drop(&mut self) {
        // a CPU that has gone offline since must not fail the end of a lab
        let _ = sched::set_affinity(sched::current_thread(), &self.home);
    }
}

/// The threads that may run on other CPUs than all of their role.
pub(crate) fn strayed(threads: &[ThreadTime], role: &CpuSet) -> Vec<Strayed> {
    strayed_if(threads, role, |affinity| affinity != role)
}

/// The same of threads that have a CPU each among those of their role, as drivers and devices have.
pub(crate) fn strayed_from_one(threads: &[ThreadTime], role: &CpuSet) -> Vec<Strayed> {
    let is_one = |cpus: &CpuSet| cpus.len() == 1 && cpus.iter().all(|cpu| role.contains(cpu));
    strayed_if(threads, role, |affinity| !is_one(affinity))
}

fn strayed_if(
    threads: &[ThreadTime],
    role: &CpuSet,
    is_astray: impl Fn(&CpuSet) -> bool,
) -> Vec<Strayed> {
    let strayed = threads.iter().filter(|thread| is_astray(&thread.affinity));
    strayed
        .map(|thread| Strayed {
            thread: thread.name.clone(),
            affinity: thread.affinity.clone(),
            role: role.clone(),
        })
        .collect()
}

fn choose_among(usable: &CpuSet, spec: &TestbedSpec) -> Result<Placement, LabError> {
    let all: Vec<u32> = usable.iter().collect();
    let apart = spec.adapter.has_remote_clients();
    for (key, asked) in [("sut-cpus", &spec.sut_cpus), ("client-cpus", &spec.client_cpus)] {
        let here = if key == "sut-cpus" { !spec.adapter.has_remote_sut() } else { !apart };
        let Some(asked) = asked.as_ref().filter(|_| here) else { continue };
        if let Some(missing) = asked.iter().find(|cpu| !usable.contains(*cpu)) {
            return Err(LabError::Invalid {
                what: format!("{key} names CPU {missing}, which this process may not use"),
                hint: format!("usable here: {usable}"),
            });
        }
    }
    let rest = |taken: &CpuSet| -> CpuSet {
        let rest: CpuSet = all.iter().copied().filter(|cpu| !taken.contains(*cpu)).collect();
        // with every CPU taken the roles must share
        if rest.is_empty() { taken.clone() } else { rest }
    };
    if spec.adapter.has_remote_sut() {
        // this machine has only the controller
        let sut = spec.sut_cpus.clone().unwrap_or_default();
        let clients = spec.client_cpus.clone().unwrap_or_default();
        return Ok(Placement { controller: usable.clone(), sut, clients, apart });
    }
    if apart {
        // this machine has only the SUT and the controller, which sleeps during a measurement
        let sut = spec.sut_cpus.clone().unwrap_or_else(|| usable.clone());
        let clients = spec.client_cpus.clone().unwrap_or_default();
        return Ok(Placement { controller: rest(&sut), sut, clients, apart });
    }
    let (sut, clients) = match (&spec.sut_cpus, &spec.client_cpus) {
        (Some(sut), Some(clients)) => (sut.clone(), clients.clone()),
        (Some(sut), None) => (sut.clone(), rest(sut)),
        (None, Some(clients)) => (rest(clients), clients.clone()),
        (None, None) => {
            let sut: CpuSet = all.iter().copied().take((all.len() / 4).max(1)).collect();
            let clients = rest(&sut);
            (sut, clients)
        }
    };
    if sut != clients && sut.overlaps(&clients) {
        return Err(LabError::Invalid {
            what: format!("sut-cpus {sut} and client-cpus {clients} overlap partly"),
            hint: "give both the same CPUs, or sets without a common CPU".to_owned(),
        });
    }
    Ok(Placement { sut, controller: clients.clone(), clients, apart })
}

#[cfg(test)]
mod tests {
    use linkrate_model::Interfaces;
    use linkrate_model::spec::Adapter;

    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn chosen(
        usable: &str,
        sut: Option<&str>,
        clients: Option<&str>,
    ) -> Result<Placement, LabError> {
        let spec = TestbedSpec {
            sut_cpus: sut.map(cpus),
            client_cpus: clients.map(cpus),
            ..TestbedSpec::default()
        };
        choose_among(&cpus(usable), &spec)
    }

    #[test]
    fn a_driver_of_one_cpu_of_its_host_is_in_its_place() {
        let thread = |name: &str, on: &str| ThreadTime {
            name: name.to_owned(),
            affinity: cpus(on),
            cpu_ns: 0,
            user_ns: 0,
        };
        let threads = [thread("drv 0", "0"), thread("drv 2", "2"), thread("all", "0-1")];
        let names =
            |strayed: Vec<Strayed>| strayed.into_iter().map(|one| one.thread).collect::<Vec<_>>();
        assert_eq!(names(strayed_from_one(&threads, &cpus("0-1"))), ["drv 2", "all"]);
        // the threads of an agent may run on each CPU of its host
        assert_eq!(names(strayed(&threads, &cpus("0-1"))), ["drv 0", "drv 2"]);
    }

    #[test]
    fn the_sut_gets_a_quarter_and_never_shares_unless_it_must() {
        for (usable, sut, clients) in
            [("0", "0", "0"), ("0-1", "0", "1"), ("0-3", "0", "1-3"), ("2-9", "2-3", "4-9")]
        {
            let placement = chosen(usable, None, None).unwrap();
            assert_eq!((placement.sut, placement.clients), (cpus(sut), cpus(clients)), "{usable}");
        }
        assert!(chosen("0", None, None).unwrap().is_shared());
        assert_eq!(chosen("0", None, None).unwrap().warnings().len(), 1);
    }

    #[test]
    fn hosts_of_their_own_have_all_their_cpus() {
        let on = |sut: Option<&str>, clients: Option<&str>| {
            let ends = vec!["ssh:lab2".parse().unwrap()];
            let on = Interfaces::new(vec!["eth1".to_owned()], ends, None).unwrap();
            let spec = TestbedSpec {
                adapter: Adapter::Interfaces(on),
                sut_cpus: sut.map(cpus),
                client_cpus: clients.map(cpus),
                ..TestbedSpec::default()
            };
            choose_among(&cpus("0-3"), &spec).unwrap()
        };
        let whole = on(None, None);
        assert_eq!((whole.sut, whole.controller), (cpus("0-3"), cpus("0-3")));
        // the client's machine may have more CPUs than this one
        let some = on(Some("0-1"), Some("0-15"));
        assert!(!some.is_shared() && some.warnings().is_empty());
        assert_eq!((some.controller, some.clients), (cpus("2-3"), cpus("0-15")));
    }

    #[test]
    fn what_is_asked_for_is_given_or_refused() {
        let placement = chosen("0-3", Some("3"), None).unwrap();
        assert_eq!((placement.sut, placement.clients), (cpus("3"), cpus("0-2")));
        assert!(chosen("0-1", Some("0"), Some("0")).unwrap().is_shared());
        assert!(chosen("0-1", Some("7"), None).is_err());
        assert!(chosen("0-3", Some("0-1"), Some("1-2")).is_err());
    }
}
