//! TCP_INFO: state of one TCP connection in the kernel.

use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd};

use linkrate_model::lab::TcpReport;

/// Fields of TCP_INFO of a connection of this process, in the kernel's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// Sending maximum segment size, bytes.
    pub snd_mss: u32,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Mean deviation of the round-trip time, µs.
    pub rttvar_us: u32,
    /// Shortest recent round trip, µs; `u32::MAX` before the first.
    pub min_rtt_us: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Window that the peer offers, bytes; zero before Linux 5.4, which does not report.
    pub snd_wnd: u32,
    /// Segments that are sent and not acknowledged.
    pub unacked: u32,
    /// Part of them that the peer has, behind a gap.
    pub sacked: u32,
    /// Payload that is not sent yet, bytes.
    pub notsent_bytes: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Slow start threshold, segments; `0x7fff_ffff` before the first loss (`TCP_INFINITE_SSTHRESH`).
    pub snd_ssthresh: u32,
    /// Retransmitted segments.
    pub total_retrans: u32,
    /// Segments found reordered on the path; zero before Linux 4.19, which does not report.
    pub reordered: u32,
    /// Time with data to send, µs.
    pub busy_time_us: u64,
    /// Part of that time limited by the receiver's window, µs.
    pub rwnd_limited_us: u64,
    /// Part of that time limited by the send buffer, µs.
    pub sndbuf_limited_us: u64,
    /// Payload that was sent again, bytes; zero before Linux 4.19, which does not report.
    pub resent_bytes: u64,
    /// Payload that TCP has taken from the program, sent or not, bytes; zero before Linux 4.19.
    pub taken_bytes: u64,
    /// Segments sent with payload, those sent again included; zero before Linux 4.6, which does not
    /// report.
    pub data_segments_out: u32,
    /// Segments received without payload; zero before Linux 4.6.
    pub acknowledgements_in: u32,
    /// Payload that the peer has acknowledged, bytes; at the connecting end plus one for the SYN; zero
    /// before Linux 4.1, which does not report.
    pub bytes_acked: u64,
    /// Payload received in order, bytes, whether the program has read it or not; zero before
    /// Linux 4.1, which does not report.
    pub bytes_received: u64,
}

/// Path information of TCP for a connection of any process, in the kernel's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathInfo {
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Shortest recent round trip, µs; `u32::MAX` before the first, as in the kernel.
    pub min_rtt_us: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Payload that the peer has acknowledged, bytes; at the connecting end plus one for the
    /// SYN.
    pub bytes_acked: u64,
    /// Payload received, bytes.
    pub bytes_received: u64,
    /// Segments sent with payload, including retransmissions.
    pub data_segments_out: u32,
    /// Retransmitted segments.
    pub total_retrans: u32,
    /// Sending maximum segment size, bytes.
    pub snd_mss: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
}

impl PathInfo {
    /// Reads a `struct tcp_info` from bytes. Fields that an older kernel does not have are zero.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        let long = |at: usize| {
            let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        Self {
            rtt_us: word(offset_of!(RawTcpInfo, rtt)),
            min_rtt_us: word(offset_of!(RawTcpInfo, min_rtt)),
            path_mtu: word(offset_of!(RawTcpInfo, pmtu)),
            bytes_acked: long(offset_of!(RawTcpInfo, bytes_acked)),
            bytes_received: long(offset_of!(RawTcpInfo, bytes_received)),
            data_segments_out: word(offset_of!(RawTcpInfo, data_segs_out)),
            total_retrans: word(offset_of!(RawTcpInfo, total_retrans)),
            snd_mss: word(offset_of!(RawTcpInfo, snd_mss)),
            snd_cwnd: word(offset_of!(RawTcpInfo, snd_cwnd)),
        }
    }

    /// The shortest round trip, µs, or the smoothed one on kernels without it; `None` before the
    /// first.
    pub fn round_trip_us(&self) -> Option<u32> {
        let known = |us: &u32| *us > 0 && *us < u32::MAX;
        [self.min_rtt_us, self.rtt_us].into_iter().find(known)
    }
}

macro_rules! reported {
    ($($info:ty),*) => {
        $(impl From<$info> for TcpReport {
            fn from(info: $info) -> Self {
                Self {
                    mss: info.snd_mss,
                    rtt_us: info.rtt_us,
                    congestion_window: info.snd_cwnd,
                    retransmitted: info.total_retrans,
                }
            }
        })*
    };
}

reported!(TcpInfo, PathInfo);

/// `struct tcp_info` of include/uapi/linux/tcp.h up to `tcpi_snd_wnd`. Older kernels fill
/// a shorter prefix and the rest stays zero; fields of newer kernels are cut off.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawTcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    wscale: u8,
    flags: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
}

/// Reads TCP_INFO of a TCP socket, tcp(7); `ENOPROTOOPT` or `EOPNOTSUPP` for a socket that is not TCP.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = MaybeUninit::<RawTcpInfo>::zeroed();
    let mut length = size_of::<RawTcpInfo>() as libc::socklen_t;
    // SAFETY: `raw` is writable for `length` bytes, and the kernel writes no more than `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every field is an integer, so that all bit patterns, zero included, are valid.
    let raw = unsafe { raw.assume_init() };
    Ok(TcpInfo {
        snd_mss: raw.snd_mss,
        rtt_us: raw.rtt,
        rttvar_us: raw.rttvar,
        min_rtt_us: raw.min_rtt,
        path_mtu: raw.pmtu,
        snd_wnd: raw.snd_wnd,
        unacked: raw.unacked,
        sacked: raw.sacked,
        notsent_bytes: raw.notsent_bytes,
        snd_cwnd: raw.snd_cwnd,
        snd_ssthresh: raw.snd_ssthresh,
        total_retrans: raw.total_retrans,
        reordered: raw.reord_seen,
        busy_time_us: raw.busy_time,
        rwnd_limited_us: raw.rwnd_limited,
        sndbuf_limited_us: raw.sndbuf_limited,
        resent_bytes: raw.bytes_retrans,
        taken_bytes: match raw.bytes_sent {
            0 => 0,
            sent => sent.saturating_sub(raw.bytes_retrans) + u64::from(raw.notsent_bytes),
        },
        data_segments_out: raw.data_segs_out,
        // both go around
        acknowledgements_in: raw.segs_in.wrapping_sub(raw.data_segs_in),
        bytes_acked: raw.bytes_acked,
        bytes_received: raw.bytes_received,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_connection_that_sent_has_been_busy() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let mut buffer = vec![1; 8 << 20];
        // the receiver does not read, so its window fills and the sender has to wait, until the kernel has counted that
        let waiting = sender.try_clone().unwrap();
        let reader = std::thread::spawn(move || {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while tcp_info(&waiting).unwrap().rwnd_limited_us == 0
                && std::time::Instant::now() < deadline
            {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            receiver.read_exact(&mut buffer).unwrap();
        });
        sender.write_all(&vec![1; 8 << 20]).unwrap();
        reader.join().unwrap();
        let info = tcp_info(&sender).unwrap();
        assert!(
            info.snd_mss > 500
                && info.snd_cwnd > 0
                && info.busy_time_us > 0
                && info.rwnd_limited_us > 0,
            "{info:?}"
        );
    }

    #[test]
    fn payload_counts_as_received_before_it_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[1; 5000]).unwrap();
        while receiver.peek(&mut [0; 5000]).unwrap() < 5000 {}
        assert_eq!(tcp_info(&receiver).unwrap().bytes_received, 5000);
        receiver.read_exact(&mut [0; 3000]).unwrap();
        assert_eq!(tcp_info(&receiver).unwrap().bytes_received, 5000);
        assert_eq!(tcp_info(&sender).unwrap().bytes_received, 0);
    }

    #[test]
    fn payload_counts_as_taken_before_its_call_returns() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_receiver, _) = listener.accept().unwrap();
        sender.write_all(&[1; 5000]).unwrap();
        assert_eq!(tcp_info(&sender).unwrap().taken_bytes, 5000);
        sender.set_nonblocking(true).unwrap();
        // nobody reads, so part of it is not sent
        let mut taken = 5000;
        while let Ok(more) = sender.write(&[1; 100_000]) {
            taken += more as u64;
        }
        let info = tcp_info(&sender).unwrap();
        assert!(info.notsent_bytes > 0, "{info:?}");
        assert_eq!(info.taken_bytes, taken);
    }

    #[test]
    fn a_shorter_structure_of_an_older_kernel_is_read_as_far_as_it_goes() {
        let mut bytes = [0; 104];
        bytes[68..72].copy_from_slice(&250u32.to_ne_bytes());
        let old = PathInfo::from_bytes(&bytes);
        assert_eq!((old.rtt_us, old.min_rtt_us, old.round_trip_us()), (250, 0, Some(250)));
        assert_eq!(PathInfo { min_rtt_us: u32::MAX, ..old }.round_trip_us(), Some(250));
        assert_eq!(PathInfo::from_bytes(&[]), PathInfo::default());
        assert_eq!(PathInfo::default().round_trip_us(), None);
    }

    #[test]
    fn a_udp_socket_has_none() {
        assert!(tcp_info(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
