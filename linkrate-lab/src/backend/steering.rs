/// Where the packets that an interface receives are processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiveSteering {
    /// On the CPUs of the receiving host, by RPS.
    Rps,
    /// On the CPUs of the receiving host, in NAPI threads of the kernel that were placed there.
    Napi,
    /// On the CPUs of the receiving host, in the driver threads of virtual adapters, because there are no NAPI threads for
    /// this reason.
    Drivers(String),
    /// All hosts run on the same CPUs; nothing to steer.
    NotNeeded,
    /// Each host has every CPU of its machine; nothing to steer.
    WholeMachines,
    /// On the CPUs of the receiving host, to which the interrupts of its adapters were moved.
    Interrupts,
    /// On the CPU of the sender, for this reason.
    Unavailable(String),
}

impl ReceiveSteering {
    /// The fact that travels with results.
    pub(crate) fn fact(&self) -> String {
        let fact = match self {
            Self::Rps => "receive packet steering to the CPUs of the receiving host",
            Self::Napi => "in NAPI threads, on the CPUs of the receiving host",
            Self::Drivers(why) => {
                return format!("in the driver threads, on the CPUs of the receiving host: {why}");
            }
            Self::NotNeeded => "not steered: all on the same CPUs",
            Self::WholeMachines => "not steered: hosts have all CPUs of their machines",
            Self::Interrupts => "interrupts of adapters on the CPUs of the receiving host",
            Self::Unavailable(_) => "not steered: on the CPU of the sender",
        };
        fact.to_owned()
    }
}
