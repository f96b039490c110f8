//! TCP segmentation: one superframe into the frames that travel.
//!
//! As `tcp_gso_segment` and `inet_gso_segment` of Linux do it. From segment to segment the
//! sequence number grows by the payload; lengths, identification and checksums are made anew; FIN
//! and PSH are only on the last one and CWR only on the first. All else is repeated, options
//! included. The checksum field of the superframe is not looked at, so it may hold the sum of the
//! pseudo-header, as a TAP leaves it.
//!
//! ```no_run
//! # fn transmit(_: &[u8], _: &[u8]) {}
//! # let superframe = Vec::new();
//! use linkrate_wire::{segment::Request, tso};
//!
//! for segment in tso::segments(&superframe, &Request::new(1448))? {
//!     transmit(&segment.header, &superframe[segment.payload]);
//! }
//! # Ok::<(), linkrate_wire::segment::SegmentError>(())
//! ```

use crate::checksum::Sum;
use crate::frame::tcp::{CHECKSUM, CWR, FIN, OFFSET_AND_FLAGS, PSH, SEQUENCE};
use crate::frame::{Headers, TCP, Transport, be16, be32, put16, put32};
use crate::segment::{Cwr, Request, Segment, SegmentError, Template, cut};

/// The segments of a TCP superframe, in order.
#[derive(Debug, Clone)]
pub struct Segments<'a> {
    superframe: &'a [u8],
    template: Template,
    request: Request,
    sequence: u32,
    offset_and_flags: u16,
    index: usize,
}

/// Cuts `superframe`, a whole frame without FCS.
///
/// # Errors
/// It is no whole TCP packet, it is a fragment, its lengths contradict each other, or the request
/// cannot be met.
pub fn segments<'a>(superframe: &'a [u8], request: &Request) -> Result<Segments<'a>, SegmentError> {
    let headers = Headers::parse(superframe)?;
    let at = match headers.transport {
        Transport::Tcp { at } => at,
        Transport::Fragment => return Err(SegmentError::Fragment),
        _ => return Err(SegmentError::Protocol { expected: "TCP" }),
    };
    // sequence number, flags with data offset, checksum
    let varying = [SEQUENCE..SEQUENCE + 4, 12..14, CHECKSUM..CHECKSUM + 2];
    Ok(Segments {
        superframe,
        template: Template::new(superframe, headers, request, (at, TCP), &varying)?,
        request: *request,
        sequence: be32(superframe, at + SEQUENCE),
        offset_and_flags: be16(superframe, at + OFFSET_AND_FLAGS),
        index: 0,
    })
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let Self { template, request, index, .. } = self;
        let (payload, last) = cut(&template.payload, request.segment_size, *index)?;

        let mut flags = self.offset_and_flags;
        if !last {
            flags &= !(FIN | PSH);
        }
        if *index > 0 && request.cwr == Cwr::FirstOnly {
            flags &= !CWR;
        }
        #[expect(clippy::cast_possible_truncation, reason = "a superframe is far below 4 GiB")]
        let sequence = self.sequence.wrapping_add((payload.start - template.payload.start) as u32);

        let (mut header, sum) = template.instance(*index, payload.len());
        let sum = sum
            .and(&sequence.to_be_bytes())
            .then(Sum::word(flags))
            // even, whatever the payload is: headers are whole words
            .and(&self.superframe[payload.clone()]);
        let at = template.transport;
        let bytes = header.as_mut();
        put32(bytes, at + SEQUENCE, sequence);
        put16(bytes, at + OFFSET_AND_FLAGS, flags);
        put16(bytes, at + CHECKSUM, sum.checksum());

        self.index += 1;
        Some(Segment { header, payload })
    }
}
