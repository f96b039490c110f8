//! Phrases that must not come back in the texts that people read.
//!
//! Each is on the list because it made readers stop, has a plain replacement, and has no other use. The
//! lint reads the manual, and in the source all string literals (errors, hints, verdicts, reports) and
//! the comments that become help texts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

use crate::book;
use crate::cargo::root;
use crate::git;
use crate::summary::Outcome;

/// Phrases in lower case, each with its remedy.
const PHRASES: &[(&str, &str)] = &[
    ("and this is none", "say what it is instead"),
    ("as fast as it goes", "write \"no limit\""),
    ("far end", "write \"peer\""),
    ("far ends", "write \"peers\""),
    ("has it otherwise", "name the difference"),
    ("in no figure", "write \"not in the results\""),
    ("interfaces that are not linkrate's own", "write \"existing interfaces\""),
    ("is there twice", "write \"occurs twice\""),
    ("lets nobody", "write \"does not allow\""),
    ("means nothing to", "write \"has no effect on\""),
    ("no oftener", "write \"not more often\""),
    ("nobody", "name the person or the program"),
    ("of one's own", "write \"your own\""),
    ("program of others", "write \"third-party program\""),
    ("programs of others", "write \"third-party programs\""),
    ("standing interface", "write \"existing interface\""),
    ("standing interfaces", "write \"existing interfaces\""),
    ("opening of the window", "write \"beginning of the measurement\""),
    ("on the mean", "write \"mean\" or \"on average\""),
    ("that are none", "write \"that are not ...\""),
    ("that is none", "write \"that is not a ...\""),
    ("that was there already", "write \"existing\""),
    ("what it is told", "name the setting"),
    ("whoever", "name the person or the program"),
];

/// Names of types, functions and constants that were private words for what the field has a name for, each with that name.
const IDENTIFIERS: &[(&str, &str)] = &[
    ("Belief", "Validity"),
    ("CellLook", "CellProgress"),
    ("Crew", "ProfiledThreads"),
    ("Duty", "Permissions"),
    ("FarEnd", "Peer"),
    ("FarProgram", "PeerServer"),
    ("FigureLook", "FigureProgress"),
    ("GLANCE", "POLL_INTERVAL"),
    ("GivenUp", "Revoked"),
    ("Grants", "Limits"),
    ("Ground", "Backend"),
    ("HandOver", "OffloadCost"),
    ("Holdings", "Lease"),
    ("LOOK", "POLL_INTERVAL"),
    ("MoveWatch", "PathChangeWatch"),
    ("OneWay", "FlowDirection"),
    ("Outlet", "TxSink or OffloadPort"),
    ("PATIENCE", "a name that ends in TIMEOUT"),
    ("Seat", "CpuSlot"),
    ("Shelf", "ParkedSocket"),
    ("Strangers", "UnexpectedPeers"),
    ("Waker", "ThreadDoorbell"),
    ("WayRate", "DirectionRate"),
    ("Worth", "Paybacks"),
    ("await_silence", "drain"),
    ("is_believed", "is_valid"),
    ("nameless_file", "tmpfile"),
    ("standstill", "ptrace_stop"),
];

/// Checks the manual, the README and the source.
pub fn lint() -> io::Result<Outcome> {
    let mut found = Vec::new();
    let mut files = 0;
    for page in book::pages()? {
        let text = fs::read_to_string(&page)?;
        let shown = page.strip_prefix(root()).unwrap_or(&page);
        found.extend(in_lines(shown, &book::prose(&text)));
        files += 1;
    }
    for path in production_files()? {
        let text = fs::read_to_string(root().join(&path))?;
        found.extend(in_lines(&path, &texts_of(&text, is_command_line(&path))));
        found.extend(identifiers_in(&path, &text));
        files += 1;
    }
    Ok(if found.is_empty() {
        Outcome::passed().remark(format!("{files} files"))
    } else {
        Outcome::failed(found.join("\n"))
    })
}

/// The identifiers that must not come back, each with file, line and remedy.
fn identifiers_in(path: &Path, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        for word in line.split(|c: char| !is_part(c)) {
            if let Some((old, new)) = IDENTIFIERS.iter().find(|(old, _)| *old == word) {
                found.push(format!("{}:{number}: \"{old}\"\nhint: write {new}", path.display()));
            }
        }
    }
    found
}

/// Whether comments become help texts: clap makes them of the arguments' comments.
fn is_command_line(path: &Path) -> bool {
    path.starts_with("linkrate/src")
}

/// The texts of production code, each with its line.
fn texts_of(source: &str, with_help: bool) -> Vec<(usize, String)> {
    let (production, _) = source.split_once("#[cfg(test)]").unwrap_or((source, ""));
    let mut texts = Vec::new();
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let code: Vec<&str> =
        production.lines().map(|line| if is_comment(&line) { "" } else { line }).collect();
    if let Ok(tokens) = code.join("\n").parse() {
        add_literals(tokens, &mut texts);
    }
    if with_help {
        let help = (1..).zip(production.lines()).filter_map(|(number, line)| {
            Some((number, line.trim_start().strip_prefix("///")?.to_owned()))
        });
        texts.extend(help);
    }
    texts.sort();
    texts
}

/// The string literals among these tokens, each with its line.
fn add_literals(tokens: TokenStream, texts: &mut Vec<(usize, String)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => add_literals(group.stream(), texts),
            TokenTree::Literal(literal) => {
                let source = literal.to_string();
                let Some((_, text)) = source.split_once('"') else { continue };
                let text = text.rsplit_once('"').map_or(text, |(text, _)| text);
                // a line that goes on
                let text = text.split("\\\n").map(str::trim_start).collect::<Vec<_>>().concat();
                texts.push((literal.span().start().line, text));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// The Rust files of the workspace's packages that are no tests or benchmarks, below its root.
fn production_files() -> io::Result<Vec<PathBuf>> {
    let mut files = git::rust_files()?;
    let is_tool = |path: &Path| path.starts_with("xtask") || path.starts_with("fuzz");
    files.retain(|path| !git::is_test(path) && !is_tool(path));
    Ok(files)
}

/// The phrases in these lines, each with file, line and remedy. A phrase may go over the end of a line.
fn in_lines(path: &Path, lines: &[(usize, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, (number, line)) in lines.iter().enumerate() {
        let next = lines.get(index + 1).filter(|(next, _)| *next == number + 1);
        let next = next.map_or("", |(_, next)| next);
        let here = words(line);
        let both = format!("{here} {}", words(next));
        for (phrase, remedy) in PHRASES {
            let at = positions(&both, phrase).any(|at| at < here.len());
            if at {
                let path = path.display();
                found.push(format!("{path}:{number}: \"{phrase}\"\nhint: {remedy}"));
            }
        }
    }
    found
}

/// A line in lower case with single spaces.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Where `phrase` stands in `text` as whole words.
fn positions<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let outside = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(phrase).map(|(at, _)| at).filter(move |at| {
        outside(text[..*at].chars().next_back())
            && outside(text[at + phrase.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Vec<String> {
        let lines: Vec<(usize, String)> =
            (1..).zip(lines.iter().map(|line| (*line).to_owned())).collect();
        in_lines(Path::new("a.md"), &lines)
    }

    #[test]
    fn this_workspace_has_no_listed_phrase() {
        let outcome = lint().unwrap();
        assert_eq!((outcome.failed, outcome.output.as_str()), (0, ""));
    }

    #[test]
    fn refuses_a_phrase_with_its_place_and_remedy() {
        let said = found(&["All is well.", "It asks Whoever is there."]);
        assert_eq!(said, ["a.md:2: \"whoever\"\nhint: name the person or the program"]);
    }

    #[test]
    fn a_phrase_over_two_lines_is_found_once() {
        assert_eq!(found(&["It does what it", "  is told."]).len(), 1);
        assert_eq!(found(&["one, what it is told", "two"]).len(), 1);
    }

    #[test]
    fn old_identifiers_are_found_as_whole_words() {
        let found =
            identifiers_in(Path::new("a.rs"), "let a = 1;\nfn seat() -> Seat {}\nSeats, SeatOf\n");
        assert_eq!(found, ["a.rs:2: \"Seat\"\nhint: write CpuSlot"]);
    }

    #[test]
    fn finds_no_phrases_inside_words() {
        assert_eq!(found(&["that is nonexistent", "outstanding interface"]), [""; 0]);
    }

    #[test]
    fn texts_are_literals_and_help_without_tests() {
        let source = "/// Help.\nfn a() { f(\"one\") } // comment\n#[cfg(test)]\nmod t { \"two\" }";
        assert_eq!(texts_of(source, true), [(1, " Help.".to_owned()), (2, "one".to_owned())]);
        assert_eq!(texts_of(source, false), [(2, "one".to_owned())]);
    }
}
