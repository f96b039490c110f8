//! Holds the programs that tests and benchmarks start against the list of peers.
//!
//! A program that is missing from the list works on the machine of the test's author, and
//! fails on a fresh one. So every program must be a peer, which `cargo xtask test` installs, or part
//! of every Debian system; and a test that starts a peer must ask for it first, so that it skips
//! itself by name where the peer could not be installed.
//!
//! - [`rust`]: calls and texts in Rust source
//! - [`shell`]: programs in a line of shell

mod rust;
mod shell;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use self::rust::Source;
use self::rust::{Call, UNKNOWN, Value};
use crate::cargo::root;
use crate::peers::{OF_BENCHMARKS, OF_TESTS, Peer};
use crate::summary::Outcome;

/// Programs that every Debian system has: their packages are marked essential, or `mount`, which
/// every installation has as well.
const EVERYWHERE: &[&str] = &[
    // bash, dash
    "bash", "sh", //
    // coreutils
    "cat", "cksum", "cp", "df", "echo", "env", "expr", "false", "head", "ls", "mkdir", "mknod",
    "printenv", "pwd", "readlink", "seq", "sleep", "sort", "test", "timeout", "true", "wc", //
    // hostname
    "hostname", //
    // grep, sed
    "grep", "sed", //
    // mount, util-linux
    "mount", "nsenter", "setpriv", "taskset", "umount", "unshare",
];

/// Programs that run another, and their options that take a value of their own.
const WRAPPERS: &[(&str, &[&str])] = &[
    ("nsenter", &["--target"]),
    ("setpriv", &["--pdeathsig", "--regid", "--reuid"]),
    ("taskset", &["-c"]),
    ("unshare", &["--propagation"]),
];

/// Names for programs that tests expect not to exist.
const ABSENT: &[&str] = &["no-such-program", "program"];

/// Functions that start a program which their caller, or nobody, can name in the source, with what
/// they start.
const NAMELESS: &[(&str, &str)] = &[
    // the peer chromium, under one of several names
    ("linkrate-report/tests/report/chromium.rs", "start_or_skip"),
    // flent, from the virtual environment that the tests find it in
    ("linkrate/tests/common/flent.rs", "with"),
    // the linkrate of another commit, which the caller builds
    ("linkrate/benches/against.rs", "measure"),
    // a copy of the test itself
    ("linkrate-agent/src/absence.rs", "a_process_that_was_stopped_knows_it"),
    ("linkrate-sys/tests/it/hosts.rs", "an_ordinary_user_can_do_it_all"),
];

/// A function that starts programs, or asks whether they are here.
struct Starter {
    name: &'static str,
    /// What stands before `::`.
    path: Option<&'static str>,
    /// How many arguments it has, where that tells it from another one.
    count: Option<usize>,
    /// The argument that is read.
    at: usize,
    reads: Reads,
    /// Whether it only asks.
    asks: bool,
}

#[derive(Clone, Copy)]
enum Reads {
    /// A program; its arguments follow.
    Program,
    /// A program with its arguments, split at blanks.
    Words,
    /// Lines of shell.
    Script,
    /// A list of programs.
    Each,
}

const fn starts(name: &'static str, at: usize, reads: Reads) -> Starter {
    Starter { name, path: None, count: None, at, reads, asks: false }
}

const fn asks(name: &'static str, at: usize, reads: Reads) -> Starter {
    Starter { asks: true, ..starts(name, at, reads) }
}

/// Every function of the standard library and of the tests that does so.
const STARTERS: &[Starter] = &[
    Starter { path: Some("Command"), ..starts("new", 0, Reads::Program) },
    Starter { path: Some("Namespace"), ..starts("with", 1, Reads::Script) },
    starts("as_user", 0, Reads::Program),
    starts("command", 0, Reads::Program),
    starts("daemon", 0, Reads::Program),
    starts("exec", 1, Reads::Words),
    starts("inside", 1, Reads::Program),
    starts("output_in", 1, Reads::Program),
    Starter { count: Some(1), ..starts("run", 0, Reads::Script) },
    Starter { count: Some(2), ..starts("run", 1, Reads::Words) },
    Starter { count: Some(2), ..starts("run", 0, Reads::Program) },
    starts("sh", 0, Reads::Script),
    // a flow is spawned too, with more arguments
    Starter { count: Some(3), ..starts("spawn", 0, Reads::Program) },
    asks("can_run", 1, Reads::Each),
    asks("has", 1, Reads::Program),
    asks("has_or_skips", 1, Reads::Program),
    asks("ready", 1, Reads::Each),
];

/// Checks all tests and benchmarks of the workspace.
///
/// # Errors
/// A file cannot be read.
pub fn lint() -> io::Result<Outcome> {
    let mut wrong = Vec::new();
    let mut all = BTreeSet::new();
    for (path, tests_only) in files()? {
        let text = fs::read_to_string(root().join(&path))?;
        let peers =
            if path.iter().any(|part| part == "benches") { OF_BENCHMARKS } else { OF_TESTS };
        let found = check(&path, &Source::read(&text, tests_only), peers);
        wrong.extend(found.wrong);
        all.extend(found.programs);
    }
    if all.is_empty() {
        return Ok(Outcome::failed("error: no program was found in any test\n"));
    }
    Ok(if wrong.is_empty() {
        Outcome::passed().remark(format!("{} programs", all.len()))
    } else {
        Outcome::failed(wrong.join("\n"))
    })
}

/// The Rust files of the workspace's packages that are no tests or benchmarks, below its root.
///
/// # Errors
/// A directory cannot be read.
pub fn production_files() -> io::Result<Vec<PathBuf>> {
    let all = files()?.into_iter();
    Ok(all
        .filter_map(|(path, production)| (production && !path.starts_with("xtask")).then_some(path))
        .collect())
}

/// The Rust files of the workspace's packages, below its root, each with whether it is production code,
/// which has its tests behind `#[cfg(test)]`.
fn files() -> io::Result<Vec<(PathBuf, bool)>> {
    fn below(directory: &Path, all: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(root().join(directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                below(&path, all)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all.push(path);
            }
        }
        Ok(())
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(root())? {
        let package = PathBuf::from(entry?.file_name());
        for folder in ["src", "tests", "benches"].map(|folder| package.join(folder)) {
            if root().join(&package).join("Cargo.toml").is_file() && root().join(&folder).is_dir() {
                below(&folder, &mut all)?;
            }
        }
    }
    all.sort();
    let is_production = |path: &PathBuf| {
        let of_tests = |part: &std::ffi::OsStr| part == "tests" || part == "benches";
        !path.iter().any(of_tests) && path.file_name().is_none_or(|name| name != "tests.rs")
    };
    Ok(all.into_iter().map(|path| (path.clone(), is_production(&path))).collect())
}

/// What one file starts.
#[derive(Debug, Default)]
struct Found {
    /// Every program by its name.
    programs: BTreeSet<String>,
    /// What is wrong, each with file and line, and what would be right.
    wrong: Vec<String>,
}

/// Checks one file.
fn check(path: &Path, source: &Source, peers: &[Peer]) -> Found {
    let mut found = Found::default();
    let functions = source.functions();
    let calls = source.calls();
    let mut uses: Vec<Uses> = functions.iter().map(|_| Uses::default()).collect();
    for call in &calls {
        let function = around(&functions, call.at);
        if let Some(index) = function {
            uses[index].calls.insert((call.path, call.name));
        }
        let is_new = call.name == "new" && call.path == Some("Command");
        let name = function.map_or("", |index| functions[index].name);
        if is_new && is_nameless(source, call) && !may_be_nameless(path, name) {
            found.wrong.push(format!(
                "{}:{}: the program that {name} starts is not a literal, so it cannot be checked\n\
                 hint: add {name} to STARTERS in xtask/src/programs.rs, with the argument that is \
                 the program",
                path.display(),
                call.line
            ));
        }
        for (program, asked) in named(source, call) {
            let package = |peer: &&Peer| peer.programs.contains(&program.as_str());
            let peer = peers.iter().find(package);
            let is_known = peer.is_some() || EVERYWHERE.contains(&program.as_str());
            if !is_known && !ABSENT.contains(&program.as_str()) {
                let list = if peers == OF_BENCHMARKS { "OF_BENCHMARKS" } else { "OF_TESTS" };
                found.wrong.push(format!(
                    "{}:{}: starts \"{program}\", which a fresh machine may not have\nhint: add it \
                     with its Debian package to {list} in xtask/src/peers.rs, or to EVERYWHERE in \
                     xtask/src/programs.rs if every Debian system has it",
                    path.display(),
                    call.line
                ));
            }
            if let (Some(peer), Some(index)) = (peer, function) {
                if asked {
                    uses[index].asked.insert(program.clone());
                } else {
                    uses[index].started.entry(program.clone()).or_insert(call.line);
                }
                found.wrong.extend(
                    wrong_package(source, call, &program, peer)
                        .map(|hint| format!("{}:{}: {hint}", path.display(), call.line)),
                );
            }
            found.programs.insert(program);
        }
    }
    // a function that tries, and says so itself
    for (at, text) in source.texts().filter(|(_, text)| text.starts_with("SKIPPED ")) {
        let Some(index) = around(&functions, at) else { continue };
        let words = text.split([' ', ':', ';']).map(str::to_owned);
        uses[index].asked.extend(words);
    }
    for (index, function) in functions.iter().enumerate().filter(|(_, f)| f.is_test) {
        let mut whole = Uses::default();
        gather(index, &functions, &uses, &mut BTreeSet::new(), &mut whole);
        let unasked = whole.started.iter().filter(|(program, _)| !whole.asked.contains(*program));
        found.wrong.extend(unasked.map(|(program, line)| {
            format!(
                "{}:{line}: test {} starts \"{program}\" without asking for it\nhint: begin the \
                 test with has_or_skips, so that it is skipped by name where \"{program}\" is missing",
                path.display(),
                function.name
            )
        }));
    }
    found
}

/// The innermost function around a token.
fn around(functions: &[rust::Function<'_>], at: usize) -> Option<usize> {
    let around = functions.iter().enumerate().filter(|(_, function)| function.body.contains(&at));
    around.max_by_key(|(_, function)| function.body.start).map(|(index, _)| index)
}

/// What a function does itself.
#[derive(Debug, Default)]
struct Uses<'a> {
    /// What it calls: what stands before `::`, and the name.
    calls: BTreeSet<(Option<&'a str>, &'a str)>,
    /// Peers it asks for.
    asked: BTreeSet<String>,
    /// Peers it starts, and in which line.
    started: BTreeMap<String, usize>,
}

/// Adds up what a function and those of the same file that it calls do.
fn gather(
    index: usize,
    functions: &[rust::Function<'_>],
    uses: &[Uses<'_>],
    seen: &mut BTreeSet<usize>,
    whole: &mut Uses<'_>,
) {
    if !seen.insert(index) {
        return;
    }
    whole.asked.extend(uses[index].asked.iter().cloned());
    for (program, line) in &uses[index].started {
        whole.started.entry(program.clone()).or_insert(*line);
    }
    let called = |function: &rust::Function<'_>| {
        uses[index].calls.iter().any(|(path, name)| {
            let of_type = path.filter(|path| path.starts_with(char::is_uppercase));
            let same_type = of_type.is_none_or(|of| of == "Self" || Some(of) == function.owner);
            *name == function.name && same_type
        })
    };
    for (next, _) in functions.iter().enumerate().filter(|(_, function)| called(function)) {
        gather(next, functions, uses, seen, whole);
    }
}

/// Whether the program of a `Command::new` cannot be told from the source.
fn is_nameless(source: &Source, call: &Call<'_>) -> bool {
    let Some(argument) = call.arguments.first() else { return false };
    // linkrate as it was built, or the test itself
    let own = argument.iter().any(|token| {
        let own = ["CARGO_BIN_EXE_linkrate", "LINKRATE", "current_exe"];
        matches!(&token.kind, rust::Kind::Word(word) | rust::Kind::Text(word)
            if own.contains(&word.as_str()))
    });
    !own && source.value(argument, call.at) == Value::Unknown
}

fn may_be_nameless(path: &Path, function: &str) -> bool {
    STARTERS.iter().any(|starter| starter.name == function)
        || NAMELESS.iter().any(|(file, name)| Path::new(file) == path && *name == function)
}

/// The programs that a call names, each with whether it is only asked for.
fn named(source: &Source, call: &Call<'_>) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    for starter in STARTERS {
        let is_it = starter.name == call.name
            && starter.path.is_none_or(|path| Some(path) == call.path)
            && starter.count.is_none_or(|count| count == call.arguments.len());
        let Some(argument) = call.arguments.get(starter.at).filter(|_| is_it) else { continue };
        let names = match (starter.reads, source.value(argument, call.at)) {
            // `run(program, arguments)` and `run(host, words)` differ in the second argument
            (Reads::Program, _) if starter.count == Some(2) && !is_list(source, call, 1) => {
                continue;
            }
            (Reads::Program, Value::Text(program)) => {
                let mut words = vec![program];
                let after = call.arguments.iter().skip(starter.at + 1).chain(&call.added);
                if !starter.asks {
                    after.for_each(|argument| {
                        add_words(source.value(argument, call.at), &mut words)
                    });
                }
                programs(&words)
            }
            (Reads::Words, Value::Text(text)) => {
                programs(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            }
            (Reads::Script, Value::Text(text)) => of_script(&text),
            (Reads::Program | Reads::Each, Value::List(items)) => texts(items).collect(),
            _ => continue,
        };
        all.extend(names.into_iter().map(|name| (name, starter.asks)));
    }
    if call.name == "args" {
        // wherever the shell was named
        if let Some(Value::List(items)) = call.arguments.first().map(|a| source.value(a, call.at)) {
            all.extend(script_of(&items).into_iter().map(|name| (name, false)));
        }
    }
    all
}

fn is_list(source: &Source, call: &Call<'_>, argument: usize) -> bool {
    let argument = call.arguments.get(argument);
    argument.is_some_and(|argument| matches!(source.value(argument, call.at), Value::List(_)))
}

fn texts(items: Vec<Value>) -> impl Iterator<Item = String> {
    items.into_iter().filter_map(|item| match item {
        Value::Text(text) => Some(text),
        _ => None,
    })
}

/// The words of an argument of a command; one that is not known stays one.
fn add_words(value: Value, words: &mut Vec<String>) {
    match value {
        Value::List(items) => items.into_iter().for_each(|item| match item {
            Value::Text(text) => words.push(text),
            _ => words.push(UNKNOWN.to_string()),
        }),
        Value::Text(text) => words.extend(text.split_whitespace().map(str::to_owned)),
        Value::Unknown => words.push(UNKNOWN.to_string()),
    }
}

/// The programs of the script in `... "-c", SCRIPT`.
fn script_of(items: &[Value]) -> Vec<String> {
    let is_option =
        |item: &Value| matches!(item, Value::Text(text) if text == "-c" || text == "-ec");
    match items.iter().position(is_option).and_then(|at| items.get(at + 1)) {
        Some(Value::Text(script)) => of_script(script),
        _ => Vec::new(),
    }
}

fn of_script(script: &str) -> Vec<String> {
    shell::commands(script).iter().flat_map(|words| programs(words)).collect()
}

/// The programs of one command: it, what it wraps, and what a shell is told to run.
fn programs(words: &[String]) -> Vec<String> {
    // `inside::agent` is a test
    let is_name = |word: &&String| !word.contains(UNKNOWN) && !word.contains("::");
    let Some(program) = words.first().filter(is_name) else {
        return Vec::new();
    };
    let name = program.rsplit('/').next().unwrap_or(program).to_owned();
    let rest = &words[1..];
    let mut all = vec![name];
    if let Some((_, with_value)) = WRAPPERS.iter().find(|(wrapper, _)| all[0] == *wrapper) {
        let mut rest = rest;
        while let Some(option) = rest.first().filter(|word| word.starts_with('-')) {
            let takes_value = with_value.contains(&option.as_str());
            rest = &rest[rest.len().min(1 + usize::from(takes_value))..];
        }
        all.extend(programs(rest));
    } else if all[0] == "sh" || all[0] == "bash" {
        let items: Vec<Value> = rest.iter().cloned().map(Value::Text).collect();
        all.extend(script_of(&items));
    }
    all
}

/// What is wrong with the package that a test names for a peer.
fn wrong_package(source: &Source, call: &Call<'_>, program: &str, peer: &Peer) -> Option<String> {
    let reported = match (call.name, call.arguments.get(2)) {
        ("has_or_skips", Some(package)) => match source.value(package, call.at) {
            Value::Text(package) => package,
            _ => return None,
        },
        // it takes the program's name for the package's
        ("ready", None) => program.to_owned(),
        _ => return None,
    };
    (reported != peer.package).then(|| {
        format!(
            "{program} is said to be in package {reported}, and is in {}\nhint: ask with \
             has_or_skips(test, \"{program}\", \"{}\")",
            peer.package, peer.package
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a test file.
    fn wrong(text: &str) -> Vec<String> {
        check(Path::new("a/tests/b.rs"), &Source::read(text, false), OF_TESTS).wrong
    }

    fn names(text: &str) -> Vec<String> {
        let found = check(Path::new("a/tests/b.rs"), &Source::read(text, false), OF_TESTS);
        found.programs.into_iter().collect()
    }

    #[test]
    fn this_workspace_starts_only_what_is_listed() {
        let outcome = lint().unwrap();
        assert_eq!((outcome.failed, outcome.output.as_str()), (0, ""));
    }

    #[test]
    fn refuses_a_program_that_is_not_a_peer() {
        let text = "fn a() {\n    Command::new(\"nuttcp\").args([\"-H\"]);\n}";
        let expected = "a/tests/b.rs:2: starts \"nuttcp\", which a fresh machine may not have\n\
                        hint: add it with its Debian package to OF_TESTS in xtask/src/peers.rs, or \
                        to EVERYWHERE in xtask/src/programs.rs if every Debian system has it";
        assert_eq!(wrong(text), [expected]);
    }

    #[test]
    fn programs_are_found_wherever_helpers_take_them() {
        for (text, expected) in [
            ("lab.run(\"sut\", &format!(\"tipc -s {X}\"))", &["tipc"][..]),
            ("self.exec(host, \"sockperf sr\")", &["sockperf"]),
            ("machine.sh(\"ss -t | wc -l\")", &["ss", "wc"]),
            ("Namespace::with(test, \"devlink dev\")", &["devlink"]),
            ("inside(pid, \"bpftool\")", &["bpftool"]),
            (
                "command(\"setpriv\", \"--reuid 1 --clear-groups strace -f\")",
                &["setpriv", "strace"],
            ),
            ("Command::new(\"unshare\").args([\"-n\", \"socat\"])", &["socat", "unshare"]),
            ("Command::new(\"/usr/sbin/ss\").arg(\"-t\")", &["ss"]),
            ("let s = r#\"perf x\"#; shell.args([\"-ec\", &s])", &["perf"]),
            ("for p in [\"wrk\", \"ab\"] { has_or_skips(t, p, k); }", &["ab", "wrk"]),
            ("switch.run(\"ovs-ofctl\", &[\"show\"])", &["ovs-ofctl"]),
            ("lab.run(\"sut\", words)", &[]),
        ] {
            let text = format!("fn a() {{ {text}; }}");
            assert_eq!(names(&text), expected, "{text}");
            let wrong = wrong(&text).join("\n");
            assert!(
                expected.iter().all(|p| wrong.contains(p) || EVERYWHERE.contains(p)),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_test_asks_before_it_starts_a_peer() {
        let start = "lab.run(\"sut\", \"ping -c 1 x\");";
        let unasked = format!("#[test]\nfn t() {{\n    {start}\n}}");
        let said = wrong(&unasked);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("a/tests/b.rs:3: test t starts \"ping\" without"), "{said:?}");
        // what the test calls counts, for asking and for starting
        let ask = "has_or_skips(test, \"ping\", \"iputils-ping\")";
        let asked =
            format!("fn ok() {{ {ask} }} fn go() {{ {start} }} #[test]\nfn t() {{ ok(); go(); }}");
        assert_eq!(wrong(&asked), Vec::<String>::new());
        let other =
            format!("fn ok() {{ {ask} }} fn go() {{ {start} }} #[test]\nfn t() {{ go(); }}");
        assert_eq!(wrong(&other).len(), 1);
    }

    #[test]
    fn names_the_package_of_a_peer() {
        let said = wrong("fn a() { ready(test, &[\"iperf3\", \"ping\"]); }");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("has_or_skips(test, \"ping\", \"iputils-ping\")"), "{said:?}");
        assert_eq!(wrong("fn a() { has_or_skips(test, \"ip\", \"ip\"); }").len(), 1);
    }

    #[test]
    fn refuses_an_unknown_helper() {
        let said = wrong("fn spy(program: &str) {\n Command::new(program);\n}");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("a/tests/b.rs:2: the program that spy starts"), "{said:?}");
        assert_eq!(wrong("fn a() { Command::new(env!(\"CARGO_BIN_EXE_linkrate\")); }").len(), 0);
    }

    #[test]
    fn benchmarks_have_a_list_of_their_own() {
        let source = Source::read("fn a() { Command::new(\"nginx\"); }", false);
        assert_eq!(check(Path::new("a/benches/b.rs"), &source, OF_BENCHMARKS).wrong.len(), 1);
        assert_eq!(check(Path::new("a/tests/b.rs"), &source, OF_TESTS).wrong.len(), 0);
    }
}
