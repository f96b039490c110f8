//! ATM: cells, their header check, and AAL5.
//!
//! A *unit* is the service data unit of AAL5 (ITU-T I.363.5): a packet behind the header of its
//! encapsulation. AAL5 pads it, adds a trailer with a CRC-32, and cuts it into the payload of cells.
//!
//! - [`address`]: addresses of end systems
//! - [`cell`]: the header of a cell (ITU-T I.361)
//! - [`hec`]: the header error control, which corrects one bit (ITU-T I.432.1)
//! - [`aal5`]: the trailer and its CRC
//! - [`segmentation`]: a unit becomes cells
//! - [`reassembly`]: cells become a unit, or one of the defects that RFC 2515 counts
//! - [`snap`]: LLC/SNAP before a packet
//! - [`rate`]: the peak rate of a connection (GCRA, ITU-T I.371)

pub mod aal5;
pub mod address;
pub mod cell;
pub mod hec;
pub mod rate;
pub mod reassembly;
pub mod segmentation;
pub mod snap;

pub use aal5::Defect;
pub use address::AtmAddress;
pub use cell::{Connection, Header, PayloadType};
pub use reassembly::Reassembler;
pub use segmentation::Segmenter;

/// Octets of a cell.
pub const CELL: usize = crate::link::atm::CELL as usize;

/// Octets of the payload of a cell.
pub const PAYLOAD: usize = crate::link::atm::CELL_PAYLOAD as usize;

/// Octets of the header of a cell, with the header error control.
pub const HEADER: usize = CELL - PAYLOAD;
