//! UDP fragmentation: one datagram into IP fragments (VIRTIO_NET_HDR_GSO_UDP).
//!
//! As `udp4_ufo_fragment`, `udp6_ufo_fragment` and `inet_gso_segment` of Linux do it. The checksum
//! is that of the whole datagram, so it is completed first. All fragments have one identification,
//! every one but the last has "more fragments", and each offset is a multiple of 8. Over IPv4, DF is
//! not set in a fragment, the last one may fill what the others lose to the multiple of 8
//! (`ip_do_fragment`; sockets give no IPv6 fragment more than another, `__ip6_append_data`), and
//! options that only the first fragment may have (RFC 791, 3.1) are replaced with no-operation in the
//! others. Over IPv6, a fragment header stands behind what every fragment repeats (RFC 8200, 4.5).
//!
//! A datagram that fits one fragment stays whole and only gets its checksum.

use crate::checksum::Sum;
use crate::encapsulation::{Encapsulation, link_header};
use crate::frame::udp::CHECKSUM;
use crate::frame::{Headers, Ipv4, Ipv6, Network, UDP, ipv4, ipv6, link, put16, put32};
use crate::segment::{Cut, LONGEST_HEADER, Request, SegmentError, narrow};
use crate::uso::datagram;

/// Bytes of the fragment header of IPv6.
const FRAGMENT_HEADER: usize = 8;
/// "More fragments" beside the offset in it.
const MORE_FRAGMENTS: u16 = 1;

/// IPv4 options are copied to all fragments if this bit of their kind is set.
const COPIED: u8 = 0x80;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Cuts `superframe`, a whole frame without FCS, appends the headers of all fragments to
/// `headers`, and tells in `cuts` what makes each fragment.
///
/// The segment size of the request counts the UDP header too, as a TAP has it, and is rounded down
/// to a multiple of 8, but for the last fragment over IPv4. `identification` is for IPv6, where the packet
/// has none yet; it must not repeat soon between two hosts (RFC 7739). The request's own rule for
/// identifications and its CWR mean nothing here.
///
/// # Errors
/// It is no whole UDP packet, it is a fragment, its lengths contradict each other, or the request
/// cannot be met. Then `headers` and `cuts` are as they were.
pub fn cut_into(
    superframe: &[u8],
    request: &Request,
    identification: u32,
    headers: &mut Vec<u8>,
    cuts: &mut Vec<Cut>,
) -> Result<(), SegmentError> {
    let parsed = Headers::parse(superframe)?;
    let plan = Plan::new(superframe, &parsed, request, identification)?;
    let found = headers.len().saturating_add(plan.count * LONGEST_HEADER);
    if u32::try_from(found).is_err() {
        return Err(SegmentError::Batch { found });
    }
    let (ethernet, link) =
        link_header(superframe, &parsed.link, plan.encapsulation, plan.longest())?;
    for index in 0..plan.count {
        let start = headers.len();
        let (offset, end) = plan.piece(index);
        let repeated = &superframe[parsed.link.length..plan.fixed];
        // what the first fragment alone has of the headers
        let chain = if offset == 0 { &superframe[plan.fixed..parsed.payload] } else { &[] };
        let extension = [0; FRAGMENT_HEADER];
        let extension = if plan.extended() { &extension[..] } else { &[] };
        let payload = parsed.payload.max(plan.fixed + offset)..plan.fixed + end;
        let parts = [&*ethernet, repeated, extension, chain];
        cuts.extend(Cut::append(headers, &parts, &payload));

        let header = &mut headers[start..];
        let total = header.len() + payload.len();
        if link.snap {
            put16(header, link.type_or_length_at(), narrow(total + link::SNAP - link.length));
        }
        let (before, packet) = header.split_at_mut(link.length);
        let length = total - before.len();
        match plan.network {
            Network::V4(ip) => plan.complete_v4(ip, packet, offset, length),
            Network::V6(ip) => plan.complete_v6(ip, superframe, packet, offset, length),
            Network::Other => {}
        }
        if offset == 0 {
            let udp = header.len() - (parsed.payload - plan.udp);
            put16(header, udp + CHECKSUM, plan.checksum);
        }
    }
    Ok(())
}

/// How a datagram is cut.
struct Plan {
    network: Network,
    encapsulation: Encapsulation,
    identification: u32,
    /// Where the UDP header is.
    udp: usize,
    /// Where what every fragment repeats ends.
    fixed: usize,
    /// Bytes after that, which are shared out.
    length: usize,
    /// How many of them each fragment has but the last.
    size: usize,
    /// How many fragments there are.
    count: usize,
    /// Of the whole datagram.
    checksum: u16,
}

impl Plan {
    fn new(
        superframe: &[u8],
        headers: &Headers,
        request: &Request,
        identification: u32,
    ) -> Result<Self, SegmentError> {
        let udp = datagram(superframe, headers)?;
        if headers.end != superframe.len() {
            let (found, expected) = (superframe.len(), headers.end);
            return Err(SegmentError::Length { found, expected, of: "IP" });
        }
        let found = headers.payload + link::TAG + link::SNAP + FRAGMENT_HEADER;
        if found > LONGEST_HEADER {
            return Err(SegmentError::Headers { found });
        }
        let covered = headers.end - udp;
        let pseudo = headers.pseudo_header(superframe, UDP, covered).ok_or(SegmentError::Routed)?;
        let fixed = match &headers.network {
            Network::V6(ip) => ip.at + ip.unfragmentable(superframe).0,
            Network::V4(_) | Network::Other => udp,
        };
        let length = headers.end - fixed;
        let room = usize::from(request.segment_size);
        let (mut size, mut count) = (length, 1);
        if room < length {
            size = room - room % 8;
            // a first fragment without all headers would be dropped (RFC 7112)
            let lowest = (headers.payload - fixed).next_multiple_of(8);
            if size < lowest {
                return Err(SegmentError::FragmentSize { found: request.segment_size, lowest });
            }
            let last = if matches!(headers.network, Network::V6(_)) { size } else { room };
            count += (length - last).div_ceil(size);
        }
        Ok(Self {
            network: headers.network,
            encapsulation: Encapsulation { vlan: request.vlan, snap: request.snap },
            identification,
            udp,
            fixed,
            length,
            size,
            count,
            checksum: pseudo
                .and(&superframe[udp..udp + CHECKSUM])
                .and(&superframe[headers.payload..])
                .udp_checksum(),
        })
    }

    /// Where a fragment begins in what is shared out, and where it ends.
    fn piece(&self, index: usize) -> (usize, usize) {
        let offset = index * self.size;
        (offset, if index + 1 == self.count { self.length } else { offset + self.size })
    }

    /// Whether there is more than one fragment.
    fn fragmented(&self) -> bool {
        self.count > 1
    }

    /// Whether the fragments have a fragment header.
    fn extended(&self) -> bool {
        self.fragmented() && matches!(self.network, Network::V6(_))
    }

    /// The longest packet.
    fn longest(&self) -> usize {
        let at = match self.network {
            Network::V4(Ipv4 { at, .. }) | Network::V6(Ipv6 { at, .. }) => at,
            Network::Other => 0,
        };
        // the last one may be longer than the others
        let last = self.length - (self.count - 1) * self.size;
        self.fixed - at + self.size.max(last) + if self.extended() { FRAGMENT_HEADER } else { 0 }
    }

    fn is_last(&self, offset: usize) -> bool {
        offset >= (self.count - 1) * self.size
    }

    fn complete_v4(&self, ip: Ipv4, packet: &mut [u8], offset: usize, length: usize) {
        let header = &mut packet[..ip.length];
        put16(header, ipv4::TOTAL_LENGTH, narrow(length));
        if self.fragmented() {
            let more = if self.is_last(offset) { 0 } else { ipv4::MORE_FRAGMENTS };
            put16(header, ipv4::FRAGMENT, narrow(offset / 8) | more);
        }
        if offset > 0 {
            keep_copied_options(&mut header[ipv4::HEADER..]);
        }
        put16(header, ipv4::CHECKSUM, 0);
        let checksum = Sum::of(header).checksum();
        put16(header, ipv4::CHECKSUM, checksum);
    }

    fn complete_v6(
        &self,
        ip: Ipv6,
        superframe: &[u8],
        packet: &mut [u8],
        offset: usize,
        length: usize,
    ) {
        put16(packet, ipv6::PAYLOAD_LENGTH, narrow(length - ipv6::HEADER));
        if !self.extended() {
            return;
        }
        let (at, names_next) = ip.unfragmentable(superframe);
        let next = superframe[names_next];
        packet[names_next - ip.at] = ipv6::FRAGMENT;
        let more = if self.is_last(offset) { 0 } else { MORE_FRAGMENTS };
        packet[at] = next;
        put16(packet, at + 2, narrow(offset) | more);
        put32(packet, at + 4, self.identification);
    }
}

/// Replaces the options that are only for the first fragment, and everything after what is no
/// option, since it could not be told apart (`ip_options_fragment` of Linux).
fn keep_copied_options(options: &mut [u8]) {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let length = match kind {
            END_OF_OPTIONS => return,
            NO_OPERATION => 1,
            _ => match options.get(at + 1) {
                Some(&length) if length >= 2 => usize::from(length),
                _ => options.len() - at,
            },
        };
        let end = options.len().min(at + length);
        if kind & COPIED == 0 || at + length > options.len() {
            options[at..end].fill(NO_OPERATION);
        }
        at = end;
    }
}
