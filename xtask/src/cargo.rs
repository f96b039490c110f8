//! Cargo, and its metadata of the workspace.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// `cargo` with `arguments`, in the workspace.
pub fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    // set by `cargo run`; the same cargo must do the rest
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Where cargo keeps what it installs and downloads.
pub fn home() -> Option<PathBuf> {
    let named = env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))
}

/// A target of a package: a binary, a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub package: String,
    pub name: String,
    /// `bin`, `test`, `lib`.
    pub kind: String,
}

/// All targets of the workspace that `manifest` belongs to.
pub fn targets(manifest: &Path) -> io::Result<Vec<Target>> {
    let mut command = cargo(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]);
    let output = command.arg(manifest).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(text.trim().trim_start_matches("error: ").to_owned()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let targets = array(&metadata["packages"]).flat_map(|package| {
        array(&package["targets"]).map(|target| Target {
            package: text(&package["name"]),
            name: text(&target["name"]),
            kind: text(&target["kind"][0]),
        })
    });
    Ok(targets.collect())
}

/// The target directory of the workspace, as cargo has it from the environment or by default.
pub fn target_directory() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// The triple of this machine.
pub fn host() -> io::Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output()?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .ok_or_else(|| io::Error::other("rustc -vV names no host"))
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_knows_this_program() {
        let targets = targets(&root().join("Cargo.toml")).unwrap();
        let own = targets.iter().find(|target| target.package == "xtask").unwrap();
        assert_eq!((own.name.as_str(), own.kind.as_str()), ("xtask", "bin"));
    }
}
