//! UDP segmentation: one superframe into separate datagrams, each with its own length and checksum.
//!
//! As `__udp_gso_segment` of Linux does it. A checksum that comes out as zero is sent as 0xffff.

use crate::checksum::Sum;
use crate::frame::udp::{CHECKSUM, HEADER, LENGTH, length};
use crate::frame::{Headers, Transport, UDP, put16};
use crate::segment::{Request, Segment, SegmentError, Template, cut, narrow};

/// The datagrams of a UDP superframe, in order.
#[derive(Debug, Clone)]
pub struct Segments<'a> {
    superframe: &'a [u8],
    template: Template,
    request: Request,
    index: usize,
}

/// Cuts `superframe`, a whole frame without FCS. The request's CWR means nothing here.
///
/// # Errors
/// It is no whole UDP packet, it is a fragment, its lengths contradict each other, or the request
/// cannot be met.
pub fn segments<'a>(superframe: &'a [u8], request: &Request) -> Result<Segments<'a>, SegmentError> {
    let headers = Headers::parse(superframe)?;
    let at = match headers.transport {
        Transport::Udp { at } => at,
        Transport::Fragment => return Err(SegmentError::Fragment),
        _ => return Err(SegmentError::Protocol { expected: "UDP" }),
    };
    let expected = at + usize::from(length(superframe, at));
    if expected != headers.end {
        return Err(SegmentError::Length { found: headers.end, expected, of: "UDP" });
    }
    let varying = [LENGTH..LENGTH + 2, CHECKSUM..CHECKSUM + 2];
    let template = Template::new(superframe, headers, request, (at, UDP), &varying)?;
    Ok(Segments { superframe, template, request: *request, index: 0 })
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let Self { template, request, index, .. } = self;
        let (payload, _) = cut(&template.payload, request.segment_size, *index)?;
        let length = narrow(HEADER + payload.len());

        let (mut header, sum) = template.instance(*index, payload.len());
        let sum = sum.then(Sum::word(length)).and(&self.superframe[payload.clone()]);
        let at = template.transport;
        let bytes = header.as_mut();
        put16(bytes, at + LENGTH, length);
        put16(bytes, at + CHECKSUM, sum.udp_checksum());

        self.index += 1;
        Some(Segment { header, payload })
    }
}
