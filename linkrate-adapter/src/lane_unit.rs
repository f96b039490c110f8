//! Units of LAN Emulation, as its machines look at them.
//!
//! A machine reads the first octets of a data frame, and all of a control frame. So a data frame is
//! handed through without a copy, beside a copy of its first octets.

use std::sync::Arc;

use linkrate_wire::atm::aal5::Uncuttable;
use linkrate_wire::control::{lan_emulation, lane_data};
use linkrate_wire::segment::Cut;

use crate::atm::assembly::Received;
use crate::cells::Unit;
use crate::frame::{Block, Burst, Train, VNET_BYTES, WireFrame};

/// The shortest data frame: machines look at no more octets of one.
const START: usize = lane_data::MIN_LENGTH;

/// A frame of a host up to this length is copied, so that its block is free at once.
const SHORT: usize = 256;

/// A frame of the host, or a unit of AAL5.
#[derive(Debug, Clone)]
pub(crate) enum LaneUnit {
    /// An Ethernet frame that the host has posted, with the length of the descriptor.
    Posted(Arc<Block>, usize),
    /// A data frame that came whole, and its first octets.
    Whole([u8; START], Arc<Unit>),
    /// All octets of a unit.
    Octets(Vec<u8>),
}

impl AsRef<[u8]> for LaneUnit {
    /// The Ethernet frame that was posted, all octets of a control frame, or those of a data frame that
    /// are looked at.
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Posted(block, length) => block.bytes(VNET_BYTES..*length),
            Self::Whole(start, _) => start,
            Self::Octets(octets) => octets,
        }
    }
}

impl LaneUnit {
    pub(crate) fn of(received: Received) -> Self {
        let unit = match received {
            Received::Copied(octets) => return Self::Octets(octets),
            Received::Whole(unit) => unit,
        };
        let mut start = [0; START];
        let mut filled = 0;
        for piece in packet(&unit) {
            let now = piece.len().min(START - filled);
            start[filled..filled + now].copy_from_slice(&piece[..now]);
            filled += now;
        }
        if filled < START || lan_emulation::is_control(&start) {
            return Self::Octets(packet(&unit).concat());
        }
        Self::Whole(start, unit)
    }

    /// All octets of a unit that has come.
    pub(crate) fn octets(&self) -> Vec<u8> {
        match self {
            Self::Whole(_, unit) => packet(unit).concat(),
            other => other.as_ref().to_vec(),
        }
    }

    /// The Ethernet frame in a data frame that has come, perhaps with padding behind its packet.
    pub(crate) fn frame(self) -> WireFrame {
        match self {
            Self::Whole(_, unit) if unit.head().len() == lane_data::HEAD => unit.packet().clone(),
            Self::Whole(_, unit) => {
                WireFrame::copied(packet(&unit).concat()[lane_data::HEAD..].to_vec())
            }
            Self::Octets(octets) => {
                WireFrame::copied(octets.get(lane_data::HEAD..).unwrap_or_default().to_vec())
            }
            Self::Posted(block, length) => {
                WireFrame::copied(block.bytes(VNET_BYTES..length).to_vec())
            }
        }
    }

    /// The unit that carries this frame of the host, with the identifier of its client. Fails if AAL5 cannot carry
    /// it.
    pub(crate) fn data(&self, lecid: lan_emulation::Lecid) -> Result<Unit, Uncuttable> {
        let frame = match self {
            Self::Posted(block, length) if *length > SHORT => {
                let payload = 0..(*length - VNET_BYTES) as u32;
                let train = Train {
                    cuts: vec![Cut { header: 0..0, payload, sum: None }],
                    block: Some(Arc::clone(block)),
                    base: VNET_BYTES,
                    ..Train::default()
                };
                Burst::of(&Arc::new(train), 0..1).first()
            }
            short => {
                let octets = short.as_ref();
                WireFrame::copied([octets, lane_data::padding(octets.len())].concat())
            }
        };
        Unit::new(&lane_data::head(lecid), frame)
    }

    /// The unit again, as it came. Fails if AAL5 cannot carry it.
    pub(crate) fn again(self) -> Result<Arc<Unit>, Uncuttable> {
        match self {
            Self::Whole(_, unit) => Ok(unit),
            other => Unit::new(&[], WireFrame::copied(other.as_ref().to_vec())).map(Arc::new),
        }
    }
}

/// The octets of a unit, without its end.
fn packet(unit: &Unit) -> [&[u8]; 3] {
    let [head, first, rest, _] = unit.pieces();
    [head, first, rest]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(head: &[u8], packet: Vec<u8>) -> LaneUnit {
        let unit = Arc::new(Unit::new(head, WireFrame::copied(packet)).unwrap());
        LaneUnit::of(Received::Whole(unit))
    }

    #[test]
    fn a_frame_of_the_host_is_a_data_frame_and_comes_out_as_it_went_in() {
        for octets in [20, 60, 61, 300, 1514] {
            let frame: Vec<u8> = (0..octets).map(|at| at as u8).collect();
            let mut block = Block::new();
            block.bytes_mut()[VNET_BYTES..VNET_BYTES + octets].copy_from_slice(&frame);
            let posted = LaneUnit::Posted(Arc::new(block), VNET_BYTES + octets);
            assert_eq!(posted.as_ref(), frame);
            let unit = Arc::new(posted.data(7).unwrap());
            assert_eq!(unit.head(), [0, 7]);
            assert_eq!(unit.packet().len(), octets.max(60));
            let came = LaneUnit::of(Received::Whole(unit));
            assert!(matches!(came, LaneUnit::Whole(..)));
            assert_eq!(came.as_ref()[..22], [&[0, 7], &frame[..20]].concat());
            assert_eq!(came.frame().to_vec()[..octets], frame);
        }
    }

    #[test]
    fn control_frames_and_short_units_are_seen_whole() {
        let control = whole(&[], [&[0xff, 0][..], &[1; 200]].concat());
        assert_eq!(control.as_ref().len(), 202);
        assert_eq!(whole(&[0, 1], vec![2; 10]).as_ref().len(), 12);
        let copied = LaneUnit::of(Received::Copied(vec![3; 100]));
        assert_eq!((copied.as_ref().len(), copied.clone().frame().len()), (100, 98));
        assert_eq!(copied.again().unwrap().packet().len(), 100);
        // a copy that the BUS has sent on has no header of its own
        let unit = whole(&[], [&[0, 9][..], &[4; 98]].concat());
        assert_eq!(unit.frame().to_vec(), [4; 98]);
    }
}
