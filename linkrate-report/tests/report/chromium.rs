//! A headless Chromium that is asked what it sees, over the DevTools protocol on a pipe.
//!
//! Messages are JSON ended by a zero byte, read by Chromium from descriptor 3 and written to 4; a
//! shell moves its own standard streams there.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Names under which distributions have it.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: UnixStream,
    messages: Receiver<Value>,
    next: u64,
    session: Option<String>,
    /// What it told by itself since it was last asked.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// What became of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Everything it asked for.
    pub requests: Vec<String>,
    /// Everything it complained of.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts the browser, if there is one.
    pub fn start() -> Result<Self, &'static str> {
        let found = PROGRAMS.into_iter().find(|program| {
            Command::new(program).arg("--version").stdin(Stdio::null()).output().is_ok()
        });
        found.map(Self::of).ok_or("chromium is not installed; apt-get install chromium")
    }

    fn of(program: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (input, theirs_in) = UnixStream::pair().unwrap();
        let (output, theirs_out) = UnixStream::pair().unwrap();
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2", program])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(OwnedFd::from(theirs_in))
            .stdout(OwnedFd::from(theirs_out))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut message = Vec::new();
            while matches!(reader.read_until(0, &mut message), Ok(length) if length > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                message.clear();
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            input,
            messages,
            next: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", &attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Network", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Carries out a command and returns its result.
    pub fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        let number = self.next;
        let answer = self.wait(|message| message["id"] == json!(number));
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).expect("chromium does not answer");
            if wanted(&message) {
                return message;
            }
            self.events.push(message);
        }
    }

    /// The window in CSS pixels, and the scheme and medium of the pages in it.
    pub fn set(&mut self, width: u32, scheme: &str, medium: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let media = json!({ "media": medium, "features": features });
        self.ask("Emulation.setEmulatedMedia", &media);
    }

    /// Loads a page from a file and waits until it is done.
    pub fn load(&mut self, path: &Path) -> Loaded {
        self.events.clear();
        self.ask("Page.navigate", &json!({ "url": format!("file://{}", path.display()) }));
        let is_done = |message: &Value| message["method"] == "Page.loadEventFired";
        if !self.events.iter().any(is_done) {
            self.wait(is_done);
        }
        // what is told after the page is loaded comes before the answer to this
        self.evaluate("new Promise(done => setTimeout(done, 100))");
        let mut loaded = Loaded::default();
        for event in &self.events {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str().unwrap_or_default();
                    loaded.requests.push(url.to_owned());
                }
                "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                    loaded.complaints.push(parameters.to_string());
                }
                _ => {}
            }
        }
        loaded
    }

    /// The value of an expression on the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.ask("Runtime.evaluate", &parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// The page as PDF, with the paper and margins that its style sheet asks for.
    pub fn print(&mut self) -> Vec<u8> {
        use base64::Engine as _;

        let parameters = json!({ "preferCSSPageSize": true, "printBackground": true });
        let printed = self.ask("Page.printToPDF", &parameters);
        let data = printed["data"].as_str().unwrap();
        base64::engine::general_purpose::STANDARD.decode(data).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // told to close it leaves no helper behind; killed it would
        let close = b"{\"id\":0,\"method\":\"Browser.close\"}\0";
        let _ = self.input.write_all(close);
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
