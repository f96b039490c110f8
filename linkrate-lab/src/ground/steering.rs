//! Where the packets that an interface receives are processed.

/// Where the packets that an interface receives are processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiveSteering {
    /// RPS hands them to the CPUs of the receiving host.
    Rps,
    /// The driver threads of virtual adapters process them, on the CPUs of the receiving host.
    Drivers,
    /// All hosts run on the same CPUs; nothing to steer.
    NotNeeded,
    /// Each host has every CPU of its machine; nothing to steer.
    WholeMachines,
    /// The interrupts of adapters go to the CPUs of the receiving host.
    Interrupts,
    /// They stay on the CPU of the sender, for this reason.
    Unavailable(String),
}

impl ReceiveSteering {
    /// The fact that travels with results.
    pub(crate) fn fact(&self) -> &'static str {
        match self {
            Self::Rps => "receive packet steering to the CPUs of the receiving host",
            Self::Drivers => "in the driver threads, on the CPUs of the receiving host",
            Self::NotNeeded => "not steered: all on the same CPUs",
            Self::WholeMachines => "not steered: hosts have all CPUs of their machines",
            Self::Interrupts => "interrupts of adapters on the CPUs of the receiving host",
            Self::Unavailable(_) => "not steered: on the CPU of the sender",
        }
    }
}
