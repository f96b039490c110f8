//! The option that lets a program read figures by HTTP.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

/// `--metrics`
#[derive(Debug, Default, Args)]
pub struct MetricsArgs {
    /// Answer GET /metrics with OpenMetrics text at this port of 127.0.0.1, or of another address, without any
    /// authentication; port 0 is any free one
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = place)]
    pub metrics: Option<SocketAddr>,
}

/// `9100`, `192.0.2.7:9100` or `[2001:db8::7]:9100`.
fn place(text: &str) -> Result<SocketAddr, String> {
    let on_loopback = || Some(SocketAddr::from((Ipv4Addr::LOCALHOST, text.parse().ok()?)));
    let found = text.parse().ok().or_else(on_loopback);
    found.ok_or_else(|| {
        "expected a port, or an address and a port, such as 127.0.0.1:9100".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        for (text, expected) in [
            ("9100", Some("127.0.0.1:9100")),
            ("0", Some("127.0.0.1:0")),
            ("192.0.2.7:9100", Some("192.0.2.7:9100")),
            ("[::1]:9100", Some("[::1]:9100")),
            ("65536", None),
            ("lab2:9100", None),
            (":9100", None),
        ] {
            let expected = expected.map(|expected| expected.parse().unwrap());
            assert_eq!(place(text).ok(), expected, "{text}");
        }
    }
}
