//! The user that an iperf3 server asks for.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::iperf3::{AuthenticationError, Credentials, Padding, PublicKey};

/// Where the password is, as for iperf3 itself: a command line can be read by all users of a host.
pub const PASSWORD: &str = "IPERF3_PASSWORD";

/// Where the padding is, if the server is one of before 3.17: `pkcs1`. It is the weaker one, so the user chooses it: what
/// a server says, or that a connection ends, may be of anybody on the path.
pub const PADDING: &str = "IPERF3_PADDING";

/// Why there is no user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The file of the key cannot be read, or has none.
    #[error("{file}: {reason}")]
    Key { file: String, reason: String },
    /// There is no password.
    #[error("{PASSWORD} is not set; user {0} needs its password there")]
    NoPassword(String),
    /// There is no such padding.
    #[error("{PADDING} is {0:?}, expected oaep or pkcs1")]
    Padding(String),
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
        let padding = match std::env::var(PADDING).as_deref() {
            Err(_) | Ok("oaep") => Padding::Oaep,
            Ok("pkcs1") => Padding::Pkcs1,
            Ok(other) => return Err(UserError::Padding(other.to_owned())),
        };
        let refused = |reason| UserError::Credentials { name: name.to_owned(), reason };
        let credentials = Credentials::new(name, &password).map_err(refused)?;
        let user = Self { credentials, key, padding };
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
}
