//! The virtual channel connections of a port.

use std::collections::BTreeSet;

use crate::atm::Connection;
use crate::atm::cell::FIRST_FREE_VCI;

/// The virtual channel connections of a port that are in use. VCI 0 to 31 of each virtual path are
/// reserved (ITU-T I.361, ATM Forum UNI 3.1): 5 for signalling, 16 for ILMI, 17 for the LECS.
#[derive(Debug, Clone)]
pub struct Circuits {
    highest: Connection,
    used: BTreeSet<Connection>,
    /// Where the search for a free one begins. One that was freed is used again as late as possible,
    /// so that cells that are still under way find nobody.
    next: Connection,
}

/// A connection that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CircuitError {
    /// The VCI is reserved.
    #[error("VCI {0} is reserved, expected {FIRST_FREE_VCI} or more")]
    Reserved(u16),
    /// The VPI or VCI is beyond those of the port.
    #[error(
        "VPI {} and VCI {} are not on this port, expected up to {} and {}",
        found.vpi, found.vci, highest.vpi, highest.vci
    )]
    Beyond {
        /// The connection.
        found: Connection,
        /// The highest VPI and VCI of the port.
        highest: Connection,
    },
    /// Another connection has them.
    #[error("VPI {} and VCI {} are in use", .0.vpi, .0.vci)]
    InUse(Connection),
}

impl Circuits {
    /// Those of a port with VPI 0 to `highest.vpi` and VCI up to `highest.vci`, all free.
    #[must_use]
    pub const fn new(highest: Connection) -> Self {
        let next = Connection { vpi: 0, vci: FIRST_FREE_VCI };
        Self { highest, used: BTreeSet::new(), next }
    }

    /// Those in use.
    pub fn used(&self) -> impl Iterator<Item = Connection> + '_ {
        self.used.iter().copied()
    }

    /// Takes a connection that the owner has chosen. Fails if it is reserved, beyond the port, or in use.
    pub fn take(&mut self, found: Connection) -> Result<(), CircuitError> {
        if found.vci < FIRST_FREE_VCI {
            return Err(CircuitError::Reserved(found.vci));
        }
        if found.vpi > self.highest.vpi || found.vci > self.highest.vci {
            return Err(CircuitError::Beyond { found, highest: self.highest });
        }
        if !self.used.insert(found) {
            return Err(CircuitError::InUse(found));
        }
        Ok(())
    }

    /// Takes a free connection; `None` if all are in use.
    pub fn allocate(&mut self) -> Option<Connection> {
        let paths = usize::from(self.highest.vpi) + 1;
        let channels =
            (usize::from(self.highest.vci) + 1).saturating_sub(usize::from(FIRST_FREE_VCI));
        if self.used.len() >= paths * channels {
            return None;
        }
        loop {
            let found = self.next;
            self.next = self.after(found);
            if self.used.insert(found) {
                return Some(found);
            }
        }
    }

    const fn after(&self, Connection { vpi, vci }: Connection) -> Connection {
        match (vpi, vci) {
            (vpi, vci) if vci < self.highest.vci => Connection { vpi, vci: vci + 1 },
            (vpi, _) if vpi < self.highest.vpi => Connection { vpi: vpi + 1, vci: FIRST_FREE_VCI },
            _ => Connection { vpi: 0, vci: FIRST_FREE_VCI },
        }
    }

    /// Gives a connection back. Says whether it was in use.
    pub fn free(&mut self, connection: Connection) -> bool {
        self.used.remove(&connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(vpi: u8, vci: u16) -> Connection {
        Connection { vpi, vci }
    }

    #[test]
    fn reserved_foreign_and_used_ones_are_refused() {
        let mut circuits = Circuits::new(at(1, 100));
        circuits.take(at(1, 100)).unwrap();
        for (found, said) in [
            (at(0, 31), "VCI 31 is reserved, expected 32 or more"),
            (at(2, 32), "VPI 2 and VCI 32 are not on this port, expected up to 1 and 100"),
            (at(0, 101), "VPI 0 and VCI 101 are not on this port, expected up to 1 and 100"),
            (at(1, 100), "VPI 1 and VCI 100 are in use"),
        ] {
            assert_eq!(circuits.take(found).unwrap_err().to_string(), said);
        }
        assert!(circuits.free(at(1, 100)) && !circuits.free(at(1, 100)));
        circuits.take(at(1, 100)).unwrap();
    }

    #[test]
    fn all_are_given_out_once() {
        let mut circuits = Circuits::new(at(1, 34));
        let all: Vec<_> = std::iter::from_fn(|| circuits.allocate()).collect();
        assert_eq!(all, [at(0, 32), at(0, 33), at(0, 34), at(1, 32), at(1, 33), at(1, 34)]);
        circuits.free(at(0, 33));
        assert_eq!((circuits.allocate(), circuits.allocate()), (Some(at(0, 33)), None));
        assert_eq!(Circuits::new(at(0, 31)).allocate(), None);
        assert_eq!(Circuits::new(at(255, u16::MAX)).allocate(), Some(at(0, 32)));
    }

    proptest! {
        #[test]
        fn none_is_given_out_twice(steps in prop::collection::vec((any::<bool>(), 0_u16..8), 0..80)) {
            let mut circuits = Circuits::new(at(1, 35));
            let mut used = BTreeSet::new();
            for (takes, number) in steps {
                let one = at((number / 4) as u8, 32 + number % 4);
                if takes {
                    prop_assert_eq!(circuits.take(one).is_ok(), used.insert(one));
                } else if used.len() < 8 {
                    let one = circuits.allocate().expect("one is free");
                    prop_assert!(used.insert(one));
                } else {
                    prop_assert_eq!(circuits.allocate(), None);
                    used.remove(&one);
                    prop_assert!(circuits.free(one));
                }
                prop_assert!(circuits.used().eq(used.iter().copied()));
            }
        }
    }
}
