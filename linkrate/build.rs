//! Tells the program which sources it is built from, for `linkrate --version`.
//!
//! A debug build tells no commit: each commit would build the program and its tests again.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LINKRATE_COMMIT");
    let build = ["PROFILE", "TARGET", "CARGO_CFG_TARGET_FEATURE"].map(of_cargo);
    let [profile, target, features] = &build;
    let libc = if features.split(',').any(|feature| feature == "crt-static") {
        "static"
    } else {
        "dynamic"
    };
    println!("cargo::rustc-env=LINKRATE_BUILD={profile}, {target}, {libc}, {}", compiler());
    // sources without a repository: whoever packs them knows the commit
    let commit = match env::var("LINKRATE_COMMIT") {
        Ok(commit) => commit,
        Err(_) if profile == "debug" => "debug build".to_owned(),
        Err(_) => of_repository().unwrap_or_else(|| "commit not known".to_owned()),
    };
    println!("cargo::rustc-env=LINKRATE_COMMIT={commit}");
}

/// A variable that cargo sets, except that a list may be empty.
fn of_cargo(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The compiler's name and version.
fn compiler() -> String {
    let rustc = env::var_os("RUSTC").expect("cargo names the compiler");
    let output = Command::new(rustc).arg("--version").output().expect("start the compiler");
    // "rustc 1.95.0 (59807616e 2026-04-14)"
    let reported = String::from_utf8_lossy(&output.stdout);
    reported.split(" (").next().unwrap_or_default().trim().to_owned()
}

/// The commit, and whether the sources differ from it. `None` outside a repository.
fn of_repository() -> Option<String> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")?;
    let workspace = Path::new(&manifest).parent()?;
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(workspace).args(words).output().ok()?;
        let reported = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| reported.trim().to_owned())
    };
    // a package may lie inside somebody else's repository
    let root = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&root) != workspace.canonicalize().ok()? {
        return None;
    }
    let commit = git(&["log", "-1", "--format=%h, %cs", "--abbrev=12"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={}", workspace.join(path).display());
        }
    }
    // whatever makes the program again also asks again whether it is the commit's
    for part in git(&["ls-files", "--", "*Cargo.toml", "Cargo.lock", "*/src", "studies"])?
        .lines()
        .filter_map(source)
        .collect::<std::collections::BTreeSet<_>>()
    {
        println!("cargo::rerun-if-changed={}", workspace.join(part).display());
    }
    Some(if changes.is_empty() { commit } else { format!("{commit}, changed") })
}

/// The directory or file of the workspace to watch for a tracked file.
fn source(path: &str) -> Option<&str> {
    if path.starts_with("studies/") {
        return Some("studies");
    }
    match path.find("/src/") {
        // the manual's pages are in no program
        Some(_) if path.starts_with("docs/") => None,
        Some(end) => Some(&path[..end + "/src".len()]),
        None => Some(path),
    }
}
