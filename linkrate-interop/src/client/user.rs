//! The user that an iperf3 server asks for.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linkrate_sys::stderr;

use super::ClientError;
use crate::iperf3::{AuthenticationError, Credentials, Padding, PublicKey};

/// Where the password is, as for iperf3 itself: a command line can be read by all users of a host.
pub const PASSWORD: &str = "IPERF3_PASSWORD";

/// How long a server that has denied access may take until it listens again.
const RESTART: Duration = Duration::from_secs(2);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Why there is no user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The file of the key cannot be read, or has none.
    #[error("{file}: {reason}")]
    Key { file: String, reason: String },
    /// There is no password.
    #[error("{PASSWORD} is not set; user {0} needs its password there")]
    NoPassword(String),
    /// The name or the password cannot be sent.
    #[error("user {name}: {reason}")]
    Credentials { name: String, reason: AuthenticationError },
}

/// A user with a password, and the key of the server.
#[derive(Debug)]
pub struct User {
    credentials: Credentials,
    key: PublicKey,
    padding: Padding,
}

impl User {
    /// Reads the key of the server, in PEM form, and the password of `name` from the environment.
    pub fn read(name: &str, key: &Path) -> Result<Self, UserError> {
        let wrong = |reason: String| UserError::Key { file: key.display().to_string(), reason };
        let text = fs::read_to_string(key).map_err(|error| wrong(error.to_string()))?;
        let key = PublicKey::of_pem(&text).map_err(|error| wrong(error.to_string()))?;
        let password =
            std::env::var(PASSWORD).map_err(|_| UserError::NoPassword(name.to_owned()))?;
        let refused = |reason| UserError::Credentials { name: name.to_owned(), reason };
        let credentials = Credentials::new(name, &password).map_err(refused)?;
        let user = Self { credentials, key, padding: Padding::default() };
        // so that no later one can fail
        user.encrypted().map_err(refused)?;
        Ok(user)
    }

    /// The same with this padding alone.
    #[must_use]
    pub fn padded(self, padding: Padding) -> Self {
        Self { padding, ..self }
    }

    /// The token for the next request.
    #[must_use]
    pub fn token(&self) -> String {
        self.encrypted().unwrap_or_default()
    }

    fn encrypted(&self) -> Result<String, AuthenticationError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.credentials.token(&self.key, self.padding, now)
    }

    /// Asks for a test as this user. A server that denies access may be one of before 3.17, which pads in another
    /// way: it is asked once more in that way, and from then on, which a note says. One that merely ends the connection
    /// is not: anybody on the path can end it, and that padding is weaker. If both attempts fail, the first error counts.
    pub fn ask<T>(
        &mut self,
        ask: &mut dyn FnMut(&Self) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let first = ask(self);
        if !matches!(first, Err(ClientError::Denied)) || self.padding == Padding::Pkcs1 {
            return first;
        }
        stderr::note(
            "the server denied access: it is asked once more with the weaker padding of iperf3 before 3.17",
        );
        self.padding = Padding::Pkcs1;
        let deadline = Instant::now() + RESTART;
        loop {
            std::thread::sleep(PAUSE);
            match ask(self) {
                // an old server listens again after each test
                Err(ClientError::Unreachable { .. } | ClientError::Ended { .. })
                    if Instant::now() < deadline => {}
                Err(_) => {
                    self.padding = Padding::default();
                    return first;
                }
                admitted => return admitted,
            }
        }
    }
}
