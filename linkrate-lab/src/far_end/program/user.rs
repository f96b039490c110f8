//! The user that an iperf3 server asks for.

use std::fs;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use linkrate_interop::client::{ClientError, Iperf3Test};
use linkrate_interop::iperf3::{AuthenticationError, Credentials, Padding, Parameters, PublicKey};
use linkrate_terms::interfaces::ProgramUser;

use crate::error::LabError;

/// Where the password is, as for iperf3 itself: a command line can be read by all users of a host.
const PASSWORD: &str = "IPERF3_PASSWORD";

/// A user with a password, and the key of the server.
#[derive(Debug)]
pub(super) struct User {
    credentials: Credentials,
    key: PublicKey,
    padding: Padding,
}

impl User {
    /// Reads the key and the password.
    ///
    /// # Errors
    /// No such file, a file that has no key, or no password.
    pub(super) fn read(user: &ProgramUser) -> Result<Self, LabError> {
        let wrong = |what: String, hint: &str| LabError::Invalid { what, hint: hint.to_owned() };
        let of_file = "give the file of the server's public key: iperf3:USER@HOST,FILE";
        let text = fs::read_to_string(&user.key)
            .map_err(|error| wrong(format!("{}: {error}", user.key), of_file))?;
        let key = PublicKey::of_pem(&text)
            .map_err(|error| wrong(format!("{}: {error}", user.key), of_file))?;
        let password = std::env::var(PASSWORD).map_err(|_| {
            let what = format!("no password of {} in the environment", user.name);
            wrong(what, "set IPERF3_PASSWORD, as for iperf3 itself")
        })?;
        let credentials = Credentials::new(&user.name, &password)
            .map_err(|error| wrong(format!("user {}: {error}", user.name), "change it"))?;
        Ok(Self { credentials, key, padding: Padding::default() })
    }

    /// Asks for a test as this user. A server that denies access may be one of before 3.17, which pads in another
    /// way, and which may close the connection without a word where it cannot read a name: it is asked once more in
    /// that way, and from then on.
    ///
    /// # Errors
    /// The key is too short.
    pub(super) fn ask(
        &mut self,
        server: SocketAddrV4,
        asked: Parameters,
        stop: &Arc<AtomicBool>,
    ) -> Result<Result<Iperf3Test, ClientError>, LabError> {
        let with = |token| Parameters { authentication: Some(token), ..asked.clone() };
        let first = Iperf3Test::ask(server, &with(self.token()?), stop);
        let may_be_old = matches!(first, Err(ClientError::Denied | ClientError::Ended { .. }));
        if !may_be_old || self.padding == Padding::Pkcs1 {
            return Ok(first);
        }
        self.padding = Padding::Pkcs1;
        let second = Iperf3Test::ask(server, &with(self.token()?), stop);
        if second.is_err() {
            self.padding = Padding::default();
            return Ok(first);
        }
        Ok(second)
    }

    fn token(&self) -> Result<String, LabError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.credentials.token(&self.key, self.padding, now).map_err(
            |error: AuthenticationError| LabError::Invalid {
                what: error.to_string(),
                hint: "use a longer key".to_owned(),
            },
        )
    }
}
