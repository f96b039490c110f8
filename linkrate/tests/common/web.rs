//! A web server in a lab: nginx serves one file, and curl fetches it.

use std::fs;

use tempfile::TempDir;

use super::Running;
use super::processes::readable_by_all;
use super::up::Up;

/// A directory with the configuration of nginx and the file that it serves.
#[derive(Debug)]
pub struct Web {
    directory: TempDir,
    content: Vec<u8>,
}

impl Web {
    /// A file of `bytes` bytes, a multiple of 4, without two equal blocks: misplaced data shows.
    pub fn with_file_of(bytes: u32) -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        readable_by_all(directory.path());
        let words = (0..bytes / 4).map(|number| number.wrapping_mul(2_654_435_761));
        let content: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let web = Self { directory, content };
        let at = web.at();
        let configuration = format!(
            "daemon off; user root; pid {at}/pid; error_log stderr;\n\
             events {{}}\n\
             http {{ access_log off; sendfile on; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
             fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{ listen 80; root {at}; }} }}\n"
        );
        fs::write(web.directory.path().join("nginx.conf"), configuration).expect("write a file");
        fs::write(web.directory.path().join("file"), &web.content).expect("write a file");
        web
    }

    fn at(&self) -> &str {
        self.directory.path().to_str().expect("a path that is text")
    }

    /// nginx in the system under test. It ends with the lab.
    pub fn serve(&self, lab: &Up) -> Running {
        Running::start(&mut lab.exec("sut", &format!("nginx -c {}/nginx.conf", self.at())))
    }

    /// Fetches the file to a client from an address of the system under test. It must come out the same.
    #[track_caller]
    pub fn fetch(&self, lab: &Up, client: &str, address: &str) {
        let at = self.at();
        let words = format!(
            "curl -sS --fail --retry 20 --retry-connrefused --retry-delay 1 -o {at}/{client} \
             http://{address}/file"
        );
        lab.run(client, &words).expect_code(0);
        let fetched = fs::read(self.directory.path().join(client)).expect("a file");
        assert!(fetched == self.content, "the file came out different at {client}");
    }
}
