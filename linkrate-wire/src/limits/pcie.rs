//! The limit of a PCI Express slot, which carries an adapter's data in packets of its own.

use linkrate_model::BitRate;

/// Bytes of the header of a packet that writes to a 64-bit address (PCI Express Base Specification 3.0, 2.2).
const HEADER: u64 = 16;

/// Bytes of framing, sequence number and link CRC around a packet. Up to 5 GT/s that is 1 + 2 + 4 + 1 for the end; from
/// 8 GT/s on the token at the begin has 4, which hold the sequence number, and there is no end (4.2.2.3.1).
const FRAMING: u64 = 8;

/// The fastest lane whose packets are framed one by one, in units of 1e9 transfers a second. Beyond, a flit has sequence
/// number and CRC for all of its packets (flit mode, Base Specification 6.0), and [`PcieLink::raw_rate`] leaves them out.
const FASTEST_FRAMED: f64 = 32.0;

/// Bytes of data in a packet on nearly every system.
pub const USUAL_PAYLOAD: u64 = 256;

/// One direction of a PCI Express link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PcieLink {
    /// Transfers per second of one lane, in units of 1e9 (2.5, 5, 8, 16, 32, 64).
    pub gigatransfers: f64,
    /// Lanes.
    pub lanes: u32,
}

impl PcieLink {
    /// Bits per second of packets, after the line code: 8b/10b up to 5 GT/s, 128b/130b up to 32,
    /// and 236 of 256 bytes of a flit at 64.
    pub fn raw_rate(&self) -> BitRate {
        let code = match self.gigatransfers {
            slow if slow <= 5.0 => 8.0 / 10.0,
            fast if fast <= FASTEST_FRAMED => 128.0 / 130.0,
            _ => 236.0 / 256.0,
        };
        BitRate(self.gigatransfers * 1e9 * code * f64::from(self.lanes))
    }

    /// Bytes that each packet has besides its data.
    fn overhead(&self) -> u64 {
        if self.gigatransfers > FASTEST_FRAMED { HEADER } else { HEADER + FRAMING }
    }

    /// The highest rate of data in packets of [`USUAL_PAYLOAD`] that write, as those of received frames. Descriptors,
    /// doorbells, acknowledgements of the bus and requests to read take from it too, so an adapter reaches somewhat
    /// less. What it transmits comes in completions, whose headers are 4 bytes shorter.
    pub fn data_rate(&self) -> BitRate {
        let share = USUAL_PAYLOAD as f64 / (USUAL_PAYLOAD + self.overhead()) as f64;
        BitRate(self.raw_rate().0 * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_people_have() {
        let data = |gigatransfers, lanes| PcieLink { gigatransfers, lanes }.data_rate().to_string();
        assert_eq!(data(2.5, 4), "7.314 Gb/s");
        assert_eq!(data(8.0, 8), "57.61 Gb/s");
        assert_eq!(data(8.0, 16), "115.2 Gb/s");
        assert_eq!(data(16.0, 16), "230.5 Gb/s");
        let sixth = PcieLink { gigatransfers: 64.0, lanes: 1 };
        assert_eq!(sixth.raw_rate().to_string(), "59.00 Gb/s");
        assert_eq!(sixth.data_rate().to_string(), "55.53 Gb/s");
    }
}
