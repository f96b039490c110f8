//! One run as a line: `{"crc":"9ae0daaf","run":{...}}`.
//!
//! The checksum is CRC-32 (IEEE 802.3, as in zlib) over the bytes of the value of `run`, exactly
//! as they stand on the line. A line is still a JSON object, so that any tool can read the file.

use crate::store::{StoredRun, json};

/// Longest line, newline included. A run takes a few KiB.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

const HEAD: &[u8] = b"{\"crc\":\"";
const MIDDLE: &[u8] = b"\",\"run\":";
const TAIL: &[u8] = b"}";

/// Writes a run as a line, newline included; fails when the run would not read back, or would be too long.
pub fn encode(run: &StoredRun) -> Result<Vec<u8>, String> {
    let body = serde_json::to_vec(run).map_err(|error| error.to_string())?;
    let crc = format!("{:08x}", crc32(&body));
    let line = [HEAD, crc.as_bytes(), MIDDLE, &body, TAIL, b"\n"].concat();
    if line.len() as u64 > MAX_LINE_BYTES {
        return Err(format!(
            "the run takes {} bytes, expected at most {MAX_LINE_BYTES}",
            line.len()
        ));
    }
    Ok(line)
}

/// Reads a line, given without its newline.
pub fn decode(line: &[u8]) -> Result<StoredRun, String> {
    let (crc, body) = line
        .strip_prefix(HEAD)
        .and_then(|rest| rest.split_at_checked(8))
        .and_then(|(crc, rest)| Some((crc, rest.strip_prefix(MIDDLE)?.strip_suffix(TAIL)?)))
        .ok_or_else(|| "it does not have the form {\"crc\":\"...\",\"run\":{...}}".to_owned())?;
    let found = format!("{:08x}", crc32(body));
    if found.as_bytes() != crc {
        return Err(format!(
            "checksum \"{}\" on the line, {found} over its run",
            crc.escape_ascii()
        ));
    }
    let body = json::harmless(body)?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// CRC-32 with the reflected polynomial 0xEDB88320.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0u32; 256];
        let mut index = 0;
        while index < 256 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0xEDB8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes
        .iter()
        .fold(!0u32, |crc, byte| crc >> 8 ^ TABLE[usize::from((crc ^ u32::from(*byte)) as u8)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    #[test]
    fn matches_the_known_checksum() {
        // the check value of the CRC catalogue
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn a_line_is_json_and_reads_back() {
        let run = fixture::run(3, 1, Some(0), fixture::stream(9.4e9, 0.8));
        let line = encode(&run).unwrap();
        let text = line.strip_suffix(b"\n").unwrap();
        let value: serde_json::Value = serde_json::from_slice(text).unwrap();
        assert_eq!(value["run"]["sequence"], 3);
        assert_eq!(decode(text).unwrap(), run);
    }

    #[test]
    fn reads_a_stored_failure() {
        let run = fixture::run(0, 0, None, fixture::failed("gso_max_segs reads 65535"));
        let line = encode(&run).unwrap();
        assert_eq!(decode(&line[..line.len() - 1]).unwrap(), run);
    }

    #[test]
    fn a_run_that_no_reader_takes_is_not_written() {
        let long = fixture::run(0, 0, None, fixture::failed(&"x".repeat(MAX_LINE_BYTES as usize)));
        let reason = encode(&long).unwrap_err();
        assert!(reason.ends_with("expected at most 16777216"), "{reason}");
    }

    #[test]
    fn the_reason_names_the_error() {
        let line = encode(&fixture::run(0, 0, None, fixture::failed("x"))).unwrap();
        let text = String::from_utf8(line).unwrap();
        let text = text.trim_end();
        assert!(decode(b"").unwrap_err().contains("form"));
        assert!(
            decode(text.replace("\"x\"", "\"y\"").as_bytes()).unwrap_err().contains("checksum")
        );
        assert!(decode(&text.as_bytes()[..text.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_noticed(at in any::<prop::sample::Index>(), change in 1u8..=255) {
            let run = fixture::run(3, 1, Some(0), fixture::stream(9.4e9, 0.8));
            let mut line = encode(&run).unwrap();
            line.pop();
            let at = at.index(line.len());
            line[at] ^= change;
            prop_assert!(decode(&line).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&bytes).is_err());
        }
    }
}
