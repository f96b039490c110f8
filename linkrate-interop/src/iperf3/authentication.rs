//! Who asks: a name and a password, encrypted for the server with its public key (RSA).
//!
//! The plain text is `user: NAME`, `pwd:  PASSWORD` and `ts:   SECONDS`, a line each, with the time of the client in
//! seconds since 1970. It is padded by OAEP since iperf 3.17, by PKCS #1 v1.5 before, encrypted, and written in base 64.
//! The server has a list of users, each with the SHA-256 of `{NAME}PASSWORD` in hexadecimal digits.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey};
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey};
use rsa::sha2::{Digest, Sha256};
use sha1::Sha1;

/// Most characters of a name or a password; more do not fit into a block of RSA.
const MAX_WORD: usize = 256;

/// How the plain text is padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Padding {
    /// RFC 8017, 7.1, with SHA-1: iperf 3.17 and later.
    #[default]
    Oaep,
    /// RFC 8017, 7.2: before, and later on request.
    Pkcs1,
}

/// Why there is no authentication.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// A text is not a key.
    #[error("no {expected} in PEM form: {reason}")]
    Key {
        expected: &'static str,
        /// What the decoder says.
        reason: String,
    },
    /// A line of the users is not one.
    #[error("line {line} of the users is not a name, a comma, and 64 hexadecimal digits")]
    User {
        /// Its number, from 1.
        line: usize,
    },
    #[error("no user, expected a line with a name, a comma, and 64 hexadecimal digits")]
    NoUser,
    /// A name or a password cannot be sent.
    #[error("{which} has {length} characters or white space, expected 1 to {MAX_WORD} without it")]
    Word {
        /// The name or the password.
        which: &'static str,
        length: usize,
    },
    /// The key is too short for name and password.
    #[error("the public key is too short for name and password: {0}")]
    TooLong(String),
}

/// The key of a client.
#[derive(Debug, Clone)]
pub struct PublicKey(rsa::PublicKey);

impl PublicKey {
    /// Reads a key in PEM form.
    pub fn of_pem(text: &str) -> Result<Self, AuthenticationError> {
        let expected = "public key (RSA, 1024 to 8192 bits)";
        rsa::PublicKey::from_public_key_pem(text)
            .or_else(|error| rsa::PublicKey::from_pkcs1_pem(text).map_err(|_| error))
            .map(Self)
            .map_err(|error| AuthenticationError::Key { expected, reason: error.to_string() })
    }
}

/// The key of a server.
pub struct PrivateKey(rsa::PrivateKey);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

impl PrivateKey {
    /// Reads a key in PEM form that has no password.
    pub fn of_pem(text: &str) -> Result<Self, AuthenticationError> {
        let expected = "private key (RSA, 1024 to 8192 bits, without a password)";
        rsa::PrivateKey::from_pkcs8_pem(text)
            .or_else(|error| rsa::PrivateKey::from_pkcs1_pem(text).map_err(|_| error))
            .map(Self)
            .map_err(|error| AuthenticationError::Key { expected, reason: error.to_string() })
    }
}

/// A name and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    name: String,
    password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.name)
    }
}

impl Credentials {
    /// Of a name and a password without white space, which ends them in the plain text.
    pub fn new(name: &str, password: &str) -> Result<Self, AuthenticationError> {
        for (which, word) in [("the name", name), ("the password", password)] {
            let length = word.chars().count();
            if !(1..=MAX_WORD).contains(&length) || word.contains(char::is_whitespace) {
                return Err(AuthenticationError::Word { which, length });
            }
        }
        Ok(Self { name: name.to_owned(), password: password.to_owned() })
    }

    /// The token for a server, at `now` seconds since 1970.
    pub fn token(
        &self,
        key: &PublicKey,
        padding: Padding,
        now: u64,
    ) -> Result<String, AuthenticationError> {
        let text = format!("user: {}\npwd:  {}\nts:   {now}", self.name, self.password);
        let encrypted = match padding {
            Padding::Oaep => key.0.oaep_encrypt::<Sha1>(text.as_bytes()),
            Padding::Pkcs1 => key.0.pkcs1v15_encrypt(text.as_bytes()),
        };
        let encrypted =
            encrypted.map_err(|error| AuthenticationError::TooLong(error.to_string()))?;
        Ok(BASE64_STANDARD.encode(encrypted))
    }

    /// What the list of users has for them.
    fn digest(&self) -> [u8; 32] {
        Sha256::digest(format!("{{{}}}{}", self.name, self.password)).into()
    }
}

/// Whom a server admits.
#[derive(Debug)]
pub struct Users {
    key: PrivateKey,
    padding: Padding,
    /// The clocks of client and server may differ by as much, s.
    skew_seconds: u64,
    digests: BTreeMap<String, [u8; 32]>,
    /// Tokens that were taken, with the last second in which they count.
    taken: Mutex<HashMap<[u8; 32], u64>>,
}

impl Users {
    /// Reads a list of users: a line each with the name, a comma, and the SHA-256 of `{NAME}PASSWORD` in hexadecimal
    /// digits. Empty lines and lines that begin with `#` are left out.
    pub fn read(
        text: &str,
        key: PrivateKey,
        padding: Padding,
        skew_seconds: u64,
    ) -> Result<Self, AuthenticationError> {
        let mut digests = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let user = line.split_once(',').and_then(|(name, digits)| {
                Some((name.trim(), digest_of(digits.trim())?)).filter(|(name, _)| !name.is_empty())
            });
            let (name, digest) = user.ok_or(AuthenticationError::User { line: number })?;
            digests.insert(name.to_owned(), digest);
        }
        match digests.is_empty() {
            true => Err(AuthenticationError::NoUser),
            false => Ok(Self { key, padding, skew_seconds, digests, taken: Mutex::default() }),
        }
    }

    /// The same as [`admit`](Self::admit), where the token was not taken before: each client encrypts another one.
    #[must_use]
    pub fn admit_once(&self, token: &str, now: u64) -> Option<String> {
        let user = self.admit(token, now)?;
        let digest = Sha256::digest(BASE64_STANDARD.decode(token).ok()?).into();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, last| *last >= now);
        // its own time is at most so much later
        let last = now.saturating_add(self.skew_seconds.saturating_mul(2));
        taken.insert(digest, last).is_none().then_some(user)
    }

    /// The user whose token it is, at `now` seconds since 1970; `None` if it is no user's, or too old. The reason is
    /// nobody's business: a client that learns it learns about keys and passwords.
    #[must_use]
    pub fn admit(&self, token: &str, now: u64) -> Option<String> {
        let encrypted = BASE64_STANDARD.decode(token).ok()?;
        let plain = match self.padding {
            Padding::Oaep => self.key.0.oaep_decrypt::<Sha1>(&encrypted),
            Padding::Pkcs1 => self.key.0.pkcs1v15_decrypt(&encrypted),
        };
        let (credentials, at) = parse(std::str::from_utf8(&plain.ok()?).ok()?)?;
        let is_user = self.digests.get(&credentials.name) == Some(&credentials.digest());
        (is_user && at.abs_diff(now) <= self.skew_seconds).then_some(credentials.name)
    }
}

/// The credentials and the time of a plain text. Words are separated by white space of any kind.
fn parse(text: &str) -> Option<(Credentials, u64)> {
    let mut words = text.split_whitespace();
    let mut labelled = |label| (words.next()? == label).then(|| words.next()).flatten();
    let (name, password, at) = (labelled("user:")?, labelled("pwd:")?, labelled("ts:")?);
    Some((Credentials::new(name, password).ok()?, at.parse().ok()?))
}

/// 32 octets of 64 hexadecimal digits.
fn digest_of(digits: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if digits.len() != 2 * digest.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (octet, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *octet = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;
    use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};

    use super::*;

    /// A key of the shortest length, which is made at once. It protects nothing.
    static KEY: LazyLock<rsa::PrivateKey> = LazyLock::new(|| {
        rsa::PrivateKey::new(&mut ChaCha8Rng::seed_from_u64(7), 1024).expect("a key")
    });

    fn private_key() -> PrivateKey {
        let text = KEY.to_pkcs8_pem(LineEnding::LF).expect("PEM");
        PrivateKey::of_pem(&text).expect("a key")
    }

    fn public_key() -> PublicKey {
        let text = KEY.to_public_key().to_public_key_pem(LineEnding::LF).expect("PEM");
        PublicKey::of_pem(&text).expect("a key")
    }

    /// `printf '{mario}rossi' | sha256sum`
    const MARIO: &str = "mario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b";

    fn users(padding: Padding) -> Users {
        let text = format!("# users\n\n{MARIO}\nother,{}\n", "0".repeat(64));
        Users::read(&text, private_key(), padding, 10).expect("users")
    }

    #[test]
    fn a_user_with_its_password_is_admitted_for_ten_seconds() {
        for padding in [Padding::Oaep, Padding::Pkcs1] {
            let users = users(padding);
            let token = |name, password, now| {
                let credentials = Credentials::new(name, password).unwrap();
                credentials.token(&public_key(), padding, now).unwrap()
            };
            let mario = token("mario", "rossi", 1000);
            for (now, admitted) in [(989, false), (990, true), (1010, true), (1011, false)] {
                assert_eq!(users.admit(&mario, now).is_some(), admitted, "{now}");
            }
            assert_eq!(users.admit(&mario, 1000).as_deref(), Some("mario"));
            assert_eq!(users.admit(&token("mario", "Rossi", 1000), 1000), None);
            assert_eq!(users.admit(&token("maria", "rossi", 1000), 1000), None);
            assert_eq!(users.admit(&token("other", "rossi", 1000), 1000), None);
            assert_eq!(users.admit(&mario[4..], 1000), None);
            assert_eq!(users.admit("", 1000), None);
            assert!(users.admit_once(&mario, 1000).is_some());
            assert_eq!(users.admit_once(&mario, 1010), None, "one that is sent again");
            assert!(users.admit_once(&token("mario", "rossi", 1000), 1010).is_some());
            let other = match padding {
                Padding::Oaep => Padding::Pkcs1,
                Padding::Pkcs1 => Padding::Oaep,
            };
            let credentials = Credentials::new("mario", "rossi").unwrap();
            let padded = credentials.token(&public_key(), other, 1000).unwrap();
            assert_eq!(users.admit(&padded, 1000), None);
        }
    }

    #[test]
    fn what_is_no_user_or_key_is_refused_by_its_place() {
        let read = |text: &str| {
            Users::read(text, private_key(), Padding::Oaep, 10).unwrap_err().to_string()
        };
        assert_eq!(read("# nobody\n"), AuthenticationError::NoUser.to_string());
        for wrong in ["mario", "mario,12", ",", &MARIO[..69], &MARIO.replace(",", ",g")] {
            let error = read(&format!("{MARIO}\n{wrong}\n"));
            assert!(error.starts_with("line 2 of the users is not a name"), "{wrong}: {error}");
        }
        let error = PrivateKey::of_pem("key").unwrap_err().to_string();
        assert!(error.starts_with("no private key (RSA"), "{error}");
        let error = PublicKey::of_pem("key").unwrap_err().to_string();
        assert!(error.starts_with("no public key (RSA"), "{error}");
        for (name, password) in [("", "x"), ("a b", "x"), ("a", ""), ("a", "x\ny")] {
            assert!(Credentials::new(name, password).is_err());
        }
        let long = Credentials::new("mario", &"x".repeat(200)).unwrap();
        let error = long.token(&public_key(), Padding::Oaep, 0).unwrap_err().to_string();
        assert!(error.starts_with("the public key is too short"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_server_reads_what_a_client_encrypts(
            name in "[!-+.-~]{1,12}", password in "[!-~]{1,12}", now in 0_u64..=1 << 40,
        ) {
            let credentials = Credentials::new(&name, &password).unwrap();
            let digits: String =
                credentials.digest().iter().map(|octet| format!("{octet:02x}")).collect();
            let text = format!("u{name},{digits}\n");
            let users = Users::read(&text, private_key(), Padding::Oaep, 10).unwrap();
            let token = credentials.token(&public_key(), Padding::Oaep, now).unwrap();
            prop_assert_eq!(users.admit(&token, now), None);
            let users = Users::read(&text[1..], private_key(), Padding::Oaep, 10);
            // a name that begins a remark is none
            if let Ok(users) = users {
                prop_assert_eq!(users.admit(&token, now), Some(name));
            }
        }

        #[test]
        fn any_plain_text_is_read_or_not(text in ".{0,200}") {
            let _ = parse(&text);
        }
    }
}
