//! Requests of the ethtool family, with a header that names the interface, and bit sets by name (Documentation/networking/ethtool-netlink.rst, "Request header" and "Bit
//! sets").

use netlink_packet_core::{DecodeError, DefaultNla, parse_string};

#[cfg(test)]
pub(super) use crate::netlink::generic::bytes_of;
use crate::netlink::generic::{Family, Request};
pub(super) use crate::netlink::generic::{each_attribute, nested, number, text};

/// linux/ethtool_netlink_generated.h: `ETHTOOL_GENL_NAME` and `ETHTOOL_GENL_VERSION`.
#[derive(Debug)]
pub(super) struct EthtoolFamily;

impl Family for EthtoolFamily {
    const NAME: &'static str = "ethtool";
    const VERSION: u8 = 1;
}

/// The header is the first attribute of every request.
const ETHTOOL_A_HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;

/// `ETHTOOL_FLAG_OMIT_REPLY`: the acknowledgement is enough, the caller reads back.
const ETHTOOL_FLAG_OMIT_REPLY: u32 = 2;
/// `ETHTOOL_FLAG_STATS`: counters are part of the reply.
const ETHTOOL_FLAG_STATS: u32 = 4;

const ETHTOOL_A_BITSET_NOMASK: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;

/// Asks for a setting of `interface`.
pub(super) fn read(command: u8, interface: &str) -> Request<EthtoolFamily> {
    let header = nested(ETHTOOL_A_HEADER, &[text(ETHTOOL_A_HEADER_DEV_NAME, interface)]);
    Request::new(command, vec![header])
}

/// The same, with what the driver counted beside it.
pub(super) fn read_counted(command: u8, interface: &str) -> Request<EthtoolFamily> {
    let header = nested(
        ETHTOOL_A_HEADER,
        &[
            text(ETHTOOL_A_HEADER_DEV_NAME, interface),
            number(ETHTOOL_A_HEADER_FLAGS, ETHTOOL_FLAG_STATS),
        ],
    );
    Request::new(command, vec![header])
}

/// Changes a setting of `interface`.
pub(super) fn change(
    command: u8,
    interface: &str,
    attributes: Vec<DefaultNla>,
) -> Request<EthtoolFamily> {
    let header = nested(
        ETHTOOL_A_HEADER,
        &[
            text(ETHTOOL_A_HEADER_DEV_NAME, interface),
            number(ETHTOOL_A_HEADER_FLAGS, ETHTOOL_FLAG_OMIT_REPLY),
        ],
    );
    Request::new(command, [vec![header], attributes].concat())
}

/// A bit set that sets the bits it names to the value beside each. Without
/// `ETHTOOL_A_BITSET_NOMASK` the list is also the mask: the kernel leaves all other bits alone.
pub(super) fn bitset(kind: u16, listed: &[(&str, bool)]) -> DefaultNla {
    let bits: Vec<DefaultNla> = listed
        .iter()
        .map(|(name, on)| {
            let mut bit = vec![text(ETHTOOL_A_BITSET_BIT_NAME, name)];
            bit.extend(on.then(|| DefaultNla::new(ETHTOOL_A_BITSET_BIT_VALUE, Vec::new())));
            nested(ETHTOOL_A_BITSET_BITS_BIT, &bit)
        })
        .collect();
    nested(kind, &[nested(ETHTOOL_A_BITSET_BITS, &bits)])
}

/// Name and value of every bit listed in a bit set. In a bit set without a mask, every listed bit
/// is set.
pub(super) fn bits(bitset: &[u8]) -> Result<Vec<(String, bool)>, DecodeError> {
    let mut no_mask = false;
    let mut listed = Vec::new();
    each_attribute(bitset, |kind, value| match kind {
        ETHTOOL_A_BITSET_NOMASK => {
            no_mask = true;
            Ok(())
        }
        ETHTOOL_A_BITSET_BITS => each_attribute(value, |_, bit| {
            let (mut name, mut is_set) = (String::new(), false);
            each_attribute(bit, |kind, value| {
                match kind {
                    ETHTOOL_A_BITSET_BIT_NAME => name = parse_string(value)?,
                    ETHTOOL_A_BITSET_BIT_VALUE => is_set = true,
                    _ => {}
                }
                Ok(())
            })?;
            listed.push((name, is_set));
            Ok(())
        }),
        _ => Ok(()),
    })?;
    Ok(listed.into_iter().map(|(name, is_set)| (name, is_set || no_mask)).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use netlink_packet_core::{Emitable, NLA_F_NESTED};

    use super::*;

    /// A bit set without a mask, as the kernel sends it.
    pub(in crate::ethtool) fn unmasked_bitset(kind: u16, names: &[&str]) -> DefaultNla {
        let listed: Vec<(&str, bool)> = names.iter().map(|name| (*name, false)).collect();
        let no_mask = DefaultNla::new(ETHTOOL_A_BITSET_NOMASK, Vec::new());
        let masked = bitset(kind, &listed);
        let mut value = bytes_of(&[no_mask]);
        value.extend(&bytes_of(&[masked])[4..]);
        DefaultNla::new(kind | NLA_F_NESTED, value)
    }

    #[test]
    fn a_bit_set_reads_back() {
        let listed = [("rx-gro", true), ("tx-tcp-segmentation", false)];
        let bytes = bytes_of(&[bitset(3, &listed)]);
        let read = |bytes: &[u8]| -> Result<_, DecodeError> {
            let mut read = Vec::new();
            each_attribute(bytes, |kind, value| {
                assert_eq!(kind, 3);
                read = bits(value)?;
                Ok(())
            })?;
            Ok(read)
        };
        assert_eq!(read(&bytes).unwrap(), listed.map(|(name, on)| (name.to_owned(), on)));
        let unmasked = bytes_of(&[unmasked_bitset(3, &["sg"])]);
        assert_eq!(read(&unmasked).unwrap(), [("sg".to_owned(), true)]);
        // a reply that ends early is an error or a shorter list, never a panic
        for length in 0..bytes.len() {
            let _ = read(&bytes[..length]);
        }
    }

    #[test]
    fn a_change_names_its_interface_and_wants_no_reply() {
        let request = super::change(12, "v0", vec![number(7, 5)]);
        let mut bytes = vec![0; request.buffer_len()];
        request.emit(&mut bytes);
        let mut attributes = Vec::new();
        each_attribute(&bytes, |kind, value| {
            attributes.push((kind, value.to_vec()));
            Ok(())
        })
        .unwrap();
        let header = bytes_of(&[text(2, "v0"), number(3, 2)]);
        assert_eq!(attributes, [(1, header), (7, 5u32.to_ne_bytes().to_vec())]);
    }
}
