//! Messages on a byte stream: a 4-byte big-endian length, then that many bytes of JSON.

use std::io::{self, Read, Write};

use serde::Serialize;

/// Longest message, bytes. The largest legitimate message is a histogram of latencies, some hundred
/// kilobytes; a longer frame is an error of the peer and allocates no memory.
pub const MAX_FRAME_BYTES: usize = 4 << 20;

/// Writes `message` as one frame and flushes; `InvalidData` for one longer than [`MAX_FRAME_BYTES`].
pub fn write_frame(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    if body.len() > MAX_FRAME_BYTES {
        return Err(too_long(body.len()));
    }
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&body);
    stream.write_all(&frame)?;
    stream.flush()
}

/// Reads one frame. `None` at the end of the stream, if it ends between two frames; `UnexpectedEof` inside one,
/// `InvalidData` for a length above [`MAX_FRAME_BYTES`].
pub fn read_frame(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    let mut filled = 0;
    while filled < length.len() {
        match stream.read(&mut length[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(too_long(length));
    }
    // grows with the received bytes, so a false length allocates no memory
    let mut body = Vec::new();
    stream.by_ref().take(length as u64).read_to_end(&mut body)?;
    if body.len() < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Some(body)) }
}

/// Collects a frame from parts of a stream, so that the reader never waits inside a frame.
#[derive(Debug, Default)]
pub struct FrameBuffer(Vec<u8>);

impl FrameBuffer {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Whether no part of a frame is waiting for its rest.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the first frame, if it is complete; `InvalidData` for a length above [`MAX_FRAME_BYTES`].
    pub fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(length) = self.0.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(too_long(length));
        }
        if self.0.len() < 4 + length {
            return Ok(None);
        }
        let rest = self.0.split_off(4 + length);
        let mut frame = std::mem::replace(&mut self.0, rest);
        frame.drain(..4);
        Ok(Some(frame))
    }
}

fn too_long(length: usize) -> io::Error {
    let message = format!("frame of {length} bytes, expected at most {MAX_FRAME_BYTES}");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_in_the_order_they_were_written() {
        let mut stream = Vec::new();
        write_frame(&mut stream, &"one").unwrap();
        write_frame(&mut stream, &2).unwrap();
        let mut stream = stream.as_slice();
        assert_eq!(read_frame(&mut stream).unwrap().unwrap(), b"\"one\"");
        assert_eq!(read_frame(&mut stream).unwrap().unwrap(), b"2");
        assert!(read_frame(&mut stream).unwrap().is_none());
    }

    #[test]
    fn frames_are_collected_from_parts() {
        let mut stream = Vec::new();
        write_frame(&mut stream, &"one").unwrap();
        write_frame(&mut stream, &2).unwrap();
        let (mut buffer, mut frames) = (FrameBuffer::default(), Vec::new());
        for byte in stream {
            buffer.add(&[byte]);
            frames.extend(buffer.take().unwrap());
        }
        assert_eq!(frames, [b"\"one\"".to_vec(), b"2".to_vec()]);
        assert!(buffer.is_empty());
        buffer.add(&[0xff; 4]);
        assert!(buffer.take().is_err());
    }

    #[test]
    fn a_message_that_no_reader_takes_is_not_written() {
        let mut stream = Vec::new();
        // two quotation marks belong to it
        let longest = "x".repeat(MAX_FRAME_BYTES - 2);
        write_frame(&mut stream, &longest).unwrap();
        assert!(read_frame(&mut stream.as_slice()).unwrap().is_some());
        let (written, longer) = (stream.len(), longest + "x");
        let error = write_frame(&mut stream, &longer).unwrap_err();
        assert_eq!((error.kind(), stream.len()), (io::ErrorKind::InvalidData, written));
    }

    #[test]
    fn a_false_length_is_refused_before_the_body_is_read() {
        let error = read_frame(&mut &[0xff; 8][..]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_torn_frame_is_an_error() {
        let mut stream = Vec::new();
        write_frame(&mut stream, &"message").unwrap();
        for end in 1..stream.len() {
            let error = read_frame(&mut &stream[..end]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{end}");
        }
    }
}
