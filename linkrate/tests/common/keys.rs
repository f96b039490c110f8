//! Keys and users of servers that ask for a user.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};

use super::{Running, command};

/// Files of a server that admits `mario` with the password `rossi`: `private.pem`, `public.pem` and `users`.
pub struct Keys {
    directory: tempfile::TempDir,
}

impl Keys {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let keys = Self { directory };
        // a short key is made at once, and protects nothing here
        let random = &mut ChaCha8Rng::seed_from_u64(7);
        let key = rsa::PrivateKey::new(random, 1024).expect("a key");
        let private = key.to_pkcs8_pem(LineEnding::LF).expect("PEM");
        let public = key.to_public_key().to_public_key_pem(LineEnding::LF).expect("PEM");
        keys.write("private.pem", &private);
        keys.write("public.pem", &public);
        // printf '{mario}rossi' | sha256sum
        let digest = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b";
        keys.write("users", &format!("# users\nmario,{digest}\n"));
        keys
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }
}

/// The padding that the iperf3 of this machine has, as `IPERF3_PADDING` names it: another one before 3.17.
pub fn padding_of_iperf3() -> &'static str {
    let version = Running::start(&mut command("iperf3", "--version")).wait().expect_code(0).stdout;
    let numbers = version.split_whitespace().nth(1).expect("a version").split(['.', '-', '+']);
    let numbers: Vec<u32> = numbers.map_while(|number| number.parse().ok()).collect();
    if numbers < vec![3, 17] { "pkcs1" } else { "oaep" }
}
