//! The limit of a PCI Express slot, which carries an adapter's data in packets of its own.

use linkrate_model::BitRate;

/// Bytes that each packet has besides its data: framing 4, sequence number 2, header 16 (64-bit
/// addresses), link CRC 4; PCI Express Base Specification 3.0, sections 2.2, 3.6 and 4.2.2.
pub const PACKET_OVERHEAD: u64 = 26;

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
            fast if fast <= 32.0 => 128.0 / 130.0,
            _ => 236.0 / 256.0,
        };
        BitRate(self.gigatransfers * 1e9 * code * f64::from(self.lanes))
    }

    /// The highest rate of data in packets of [`USUAL_PAYLOAD`]. Descriptors, doorbells and
    /// acknowledgements of the bus take from it too, so an adapter reaches somewhat less.
    pub fn data_rate(&self) -> BitRate {
        let share = USUAL_PAYLOAD as f64 / (USUAL_PAYLOAD + PACKET_OVERHEAD) as f64;
        BitRate(self.raw_rate().0 * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_people_have() {
        let data = |gigatransfers, lanes| PcieLink { gigatransfers, lanes }.data_rate().to_string();
        assert_eq!(data(2.5, 4), "7.262 Gb/s");
        assert_eq!(data(8.0, 8), "57.21 Gb/s");
        assert_eq!(data(8.0, 16), "114.4 Gb/s");
        assert_eq!(data(16.0, 16), "228.8 Gb/s");
        let sixth = PcieLink { gigatransfers: 64.0, lanes: 1 };
        assert_eq!(sixth.raw_rate().to_string(), "59.00 Gb/s");
    }
}
