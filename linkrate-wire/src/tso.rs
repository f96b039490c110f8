//! TCP segmentation: one superframe into the frames that travel.
//!
//! The rules are those of `tcp_gso_segment` and `inet_gso_segment` of Linux. From segment to
//! segment the sequence number grows by the payload. Lengths, identification and checksums are
//! computed for each segment. FIN and PSH are only on the last one, CWR only on the first.
//! Everything else is repeated, including options. The checksum field of the superframe is ignored,
//! so it may hold the sum of the pseudo-header, as in a packet from a TAP.
//!
//! After [`cut_into`], each cut names the two parts of its frame: `cut.header(&headers)` and `cut.payload(&superframe)`.

use crate::checksum::Sum;
use crate::frame::tcp::{CHECKSUM, CWR, FIN, OFFSET_AND_FLAGS, PSH, SEQUENCE};
use crate::frame::{Headers, TCP, Transport, be16, be32, put16, put32};
use crate::segment::{self, Cut, Cutter, Cwr, Part, Request, SegmentError, Template};

/// Cuts `superframe`, a whole frame without FCS, into segments: appends the headers of all of them to `headers`,
/// and to `cuts` where headers and payload of each are, in order.
///
/// `fetch` is told of each piece of payload some time before it is read, so that it may be brought into the cache
/// meanwhile.
///
/// Fails if `superframe` is not a whole TCP packet, is a fragment, has lengths that contradict each other, or the
/// request cannot be met. Then `headers` and `cuts` are as they were.
pub fn cut_into(
    superframe: &[u8],
    request: &Request,
    headers: &mut Vec<u8>,
    cuts: &mut Vec<Cut>,
    fetch: impl Fn(&[u8]),
) -> Result<(), SegmentError> {
    segment::cut_into(&Tcp::new(superframe, request)?, superframe, headers, cuts, fetch)
}

#[derive(Debug, Clone)]
struct Tcp {
    template: Template,
    cwr: Cwr,
    sequence: u32,
    offset_and_flags: u16,
}

impl Tcp {
    fn new(superframe: &[u8], request: &Request) -> Result<Self, SegmentError> {
        let headers = Headers::parse(superframe)?;
        let at = match headers.transport {
            Transport::Tcp { at } => at,
            Transport::Fragment => return Err(SegmentError::Fragment),
            _ => return Err(SegmentError::Protocol { expected: "TCP" }),
        };
        // sequence number, flags with data offset, checksum
        let varying = [SEQUENCE..SEQUENCE + 4, 12..14, CHECKSUM..CHECKSUM + 2];
        Ok(Self {
            template: Template::new(superframe, &headers, request, (at, TCP), &varying)?,
            cwr: request.cwr,
            sequence: be32(superframe, at + SEQUENCE),
            offset_and_flags: be16(superframe, at + OFFSET_AND_FLAGS),
        })
    }
}

impl Cutter for Tcp {
    fn template(&self) -> &Template {
        &self.template
    }

    fn complete(&self, part: &Part, payload: Sum, header: &mut [u8]) {
        let Self { template, .. } = self;
        let mut flags = self.offset_and_flags;
        if !part.last {
            flags &= !(FIN | PSH);
        }
        if part.index > 0 && self.cwr == Cwr::FirstOnly {
            flags &= !CWR;
        }
        let offset = part.payload.start - template.payload.start;
        #[expect(clippy::cast_possible_truncation, reason = "a superframe is far below 4 GiB")]
        let sequence = self.sequence.wrapping_add(offset as u32);

        let sum = template
            .complete(part, header)
            .then(Sum::words(sequence))
            .then(Sum::word(flags))
            // at an even offset for every payload: headers are whole words
            .then(payload);
        let at = template.transport;
        put32(header, at + SEQUENCE, sequence);
        put16(header, at + OFFSET_AND_FLAGS, flags);
        put16(header, at + CHECKSUM, sum.checksum());
    }
}
