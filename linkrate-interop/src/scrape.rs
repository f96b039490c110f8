//! Figures for a program that asks for them by HTTP, as Prometheus does: `GET /metrics`.
//!
//! A client has a bound in time and in octets, in both directions, and there are a few at once: each of the threads
//! serves one after another, and others wait in the queue of the kernel. A connection is for one request.

use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use linkrate_sys::bounded::Bound;
use linkrate_sys::socket::{shut_down, wait_ready};

/// Clients at once.
const THREADS: usize = 4;
/// How long a client may take for its request, and for taking the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most octets of a request.
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// How long a thread waits for a client until it looks whether it is to end: long, since each look takes CPU time from
/// a measurement. An [`Endpoint`] that is dropped ends the wait.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// How long after an error of the system the next client is asked for.
const PAUSE: Duration = Duration::from_millis(100);

/// What is answered, and to whom.
pub struct Page {
    /// The media type of the text.
    pub media_type: &'static str,
    /// Whether a client at this address is answered.
    pub admits: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// The text.
    pub text: Box<dyn Fn() -> String + Send + Sync>,
}

/// Answers until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    listener: Arc<TcpListener>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Endpoint {
    /// Answers clients of `listener`.
    ///
    /// # Errors
    /// Those of the system, such as no thread.
    pub fn start(listener: TcpListener, page: Page) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (listener, page) = (Arc::new(listener), Arc::new(page));
        let mut endpoint = Self { listener, stop: Arc::default(), threads: Vec::new() };
        for _ in 0..THREADS {
            let (listener, page) = (Arc::clone(&endpoint.listener), Arc::clone(&page));
            let stop = Arc::clone(&endpoint.stop);
            let thread = std::thread::Builder::new().name("metrics".to_owned());
            endpoint.threads.push(thread.spawn(move || answer_each(&listener, &page, &stop))?);
        }
        Ok(endpoint)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // a thread that waits for a client wakes up
        shut_down(&*self.listener);
        for thread in self.threads.drain(..) {
            // a panic has been told of
            let _ = thread.join();
        }
    }
}

fn answer_each(listener: &TcpListener, page: &Page, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        // whether there is one is asked for next
        let _ = wait_ready(listener, false, POLL_INTERVAL);
        match listener.accept() {
            Ok((client, from)) if (page.admits)(from.ip()) => answer(&client, page, stop),
            // it is closed
            Ok(_) => {}
            // another thread has it
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // it has gone, or there is no descriptor for it: the next may fare better
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Answers a request. One that does not come in time, and one that is too long, has no answer.
fn answer(client: &TcpStream, page: &Page, stop: &AtomicBool) {
    let bound = Bound::within(TIMEOUT, stop);
    let mut octets = [0; MAX_REQUEST_BYTES];
    let mut have = 0;
    loop {
        match bound.read_some(client, &mut octets[have..]) {
            Ok(count) => have += count,
            Err(_) => return,
        }
        if ends(&octets[..have]) {
            break;
        }
        if have == octets.len() {
            return;
        }
    }
    let reply = reply(&octets[..have], page);
    // a client that has gone does not want it
    let _ = bound.write_all(client, reply.as_bytes());
}

/// Whether the head of a request is there: an empty line ends it. What may follow it is no part of a request to read
/// figures, so it is looked for at the end alone.
fn ends(octets: &[u8]) -> bool {
    octets.ends_with(b"\r\n\r\n") || octets.ends_with(b"\n\n")
}

/// The answer to the head of a request.
fn reply(request: &[u8], page: &Page) -> String {
    let line = request.split(|octet| *octet == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let plain = |status, text: &str| whole(status, "text/plain; charset=utf-8", text, true);
    match words[..] {
        [method @ ("GET" | "HEAD"), target, version] if version.starts_with("HTTP/1.") => {
            match target.split('?').next() {
                Some("/metrics") => {
                    whole("200 OK", page.media_type, &(page.text)(), method == "GET")
                }
                _ => plain("404 Not Found", "expected /metrics\n"),
            }
        }
        [_, _, version] if version.starts_with("HTTP/1.") => {
            plain("405 Method Not Allowed\r\nAllow: GET, HEAD", "expected GET\n")
        }
        _ => plain("400 Bad Request", "expected GET /metrics HTTP/1.1\n"),
    }
}

fn whole(status: &str, media_type: &str, text: &str, has_body: bool) -> String {
    let body = if has_body { text } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::SocketAddr;
    use std::time::Instant;

    use super::*;

    /// How long anything may take on a busy machine.
    const LONG: Duration = Duration::from_secs(30);

    fn page() -> Page {
        Page {
            media_type: "text/x-figures",
            admits: Box::new(|_| true),
            text: Box::new(|| "figures 1\n".to_owned()),
        }
    }

    fn endpoint(page: Page) -> (Endpoint, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        (Endpoint::start(listener, page).unwrap(), here)
    }

    fn connect(here: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(here).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// What the server says until it closes the connection; a reset ends it too.
    fn rest(mut stream: TcpStream) -> String {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    }

    fn ask(here: SocketAddr, request: &str) -> String {
        let mut stream = connect(here);
        stream.write_all(request.as_bytes()).unwrap();
        rest(stream)
    }

    #[test]
    fn a_request_has_its_answer() {
        let (_endpoint, here) = endpoint(page());
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/x-figures\r\nContent-Length: 10\r\n\
                    Connection: close\r\n\r\n";
        let figures = format!("{head}figures 1\n");
        assert_eq!(ask(here, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), figures);
        assert_eq!(ask(here, "GET /metrics?a=b HTTP/1.0\n\n"), figures);
        assert_eq!(ask(here, "HEAD /metrics HTTP/1.1\r\n\r\n"), head);
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found\r\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed\r\nAllow: GET, HEAD\r\n"),
            ("GET /metrics\r\n\r\n", "400 Bad Request\r\n"),
            ("\u{1}\r\n\r\n", "400 Bad Request\r\n"),
        ] {
            let said = ask(here, request);
            assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {said}");
        }
    }

    #[test]
    fn a_request_in_pieces_is_one_and_one_that_is_too_long_is_none() {
        let (_endpoint, here) = endpoint(page());
        let mut stream = connect(here);
        for piece in ["GET /met", "rics HTTP/1.1\r\n", "\r", "\n"] {
            stream.write_all(piece.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(rest(stream).ends_with("figures 1\n"));
        assert_eq!(ask(here, &"x".repeat(MAX_REQUEST_BYTES)), "");
    }

    #[test]
    fn clients_that_trickle_and_take_nothing_hold_up_no_other_for_long_and_not_the_end() {
        // more than the buffers of both ends of a connection take
        let text = "figures 1\n".repeat(2 << 20);
        let (endpoint, here) = endpoint(Page { text: Box::new(move || text.clone()), ..page() });
        let begun = Instant::now();
        let silent: Vec<TcpStream> = (0..THREADS).map(|_| connect(here)).collect();
        let deaf: Vec<TcpStream> = (0..THREADS)
            .map(|_| {
                let mut stream = connect(here);
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
                stream
            })
            .collect();
        let asked = ask(here, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(asked.starts_with("HTTP/1.1 200 OK"), "{asked}");
        assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
        let _late: Vec<TcpStream> = (0..THREADS).map(|_| connect(here)).collect();
        let stopped = Instant::now();
        drop(endpoint);
        assert!(stopped.elapsed() < Duration::from_secs(1), "{:?}", stopped.elapsed());
        assert!(silent.into_iter().map(rest).all(|said| said.is_empty()));
        drop(deaf);
        assert!(TcpStream::connect(here).is_err());
    }

    #[test]
    fn a_client_that_is_not_admitted_has_no_answer() {
        let (_endpoint, here) = endpoint(Page { admits: Box::new(|_| false), ..page() });
        let mut stream = connect(here);
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(rest(stream), "");
    }
}
