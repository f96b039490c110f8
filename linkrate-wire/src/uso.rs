//! UDP segmentation: one superframe into separate datagrams, each with its own length and checksum.
//!
//! The rules are those of `__udp_gso_segment` of Linux. A checksum of zero is sent as 0xffff.

use crate::checksum::Sum;
use crate::frame::udp::{CHECKSUM, HEADER, LENGTH, length};
use crate::frame::{Headers, Transport, UDP, put16};
use crate::header::narrow;
use crate::segment::{self, Cut, Cutter, Part, Request, SegmentError, Template};

/// Cuts `superframe`, a whole frame without FCS, into datagrams: appends the headers of all of them to `headers`,
/// and to `cuts` where headers and payload of each are, in order. The request's `cwr` has no effect.
///
/// `fetch` is told of each piece of payload some time before it is read, so that it may be brought into the cache
/// meanwhile.
///
/// Fails if `superframe` is not a whole UDP packet, is a fragment, has lengths that contradict each other, or the
/// request cannot be met. Then `headers` and `cuts` are as they were.
pub fn cut_into(
    superframe: &[u8],
    request: &Request,
    headers: &mut Vec<u8>,
    cuts: &mut Vec<Cut>,
    fetch: impl Fn(&[u8]),
) -> Result<(), SegmentError> {
    segment::cut_into(&Udp::new(superframe, request)?, superframe, headers, cuts, fetch)
}

#[derive(Debug, Clone)]
struct Udp {
    template: Template,
}

impl Udp {
    fn new(superframe: &[u8], request: &Request) -> Result<Self, SegmentError> {
        let headers = Headers::parse(superframe)?;
        let at = datagram(superframe, &headers)?;
        let varying = [LENGTH..LENGTH + 2, CHECKSUM..CHECKSUM + 2];
        let template = Template::new(superframe, &headers, request, (at, UDP), &varying)?;
        Ok(Self { template })
    }
}

/// Where the UDP header of a superframe is, if it is that of one whole datagram.
fn datagram(superframe: &[u8], headers: &Headers) -> Result<usize, SegmentError> {
    let at = match headers.transport {
        Transport::Udp { at } => at,
        Transport::Fragment => return Err(SegmentError::Fragment),
        _ => return Err(SegmentError::Protocol { expected: "UDP" }),
    };
    let expected = at + usize::from(length(superframe, at));
    if expected != headers.end {
        return Err(SegmentError::Length { found: headers.end, expected, of: "UDP" });
    }
    Ok(at)
}

impl Cutter for Udp {
    fn template(&self) -> &Template {
        &self.template
    }

    fn complete(&self, part: &Part, payload: Sum, header: &mut [u8]) {
        let Self { template } = self;
        let length = narrow(HEADER + part.payload.len());
        let sum = template.complete(part, header).then(Sum::word(length)).then(payload);
        let at = template.transport;
        put16(header, at + LENGTH, length);
        put16(header, at + CHECKSUM, sum.udp_checksum());
    }
}
