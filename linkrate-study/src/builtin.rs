//! The studies that come with the program: the files of `studies/`, compiled in.

use crate::keys::{nearest_name, shortened};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Its name: the file's stem.
    pub name: &'static str,
    /// The file's text; [`crate::file::parse`] reads it.
    pub text: &'static str,
}

impl Builtin {
    /// How messages call its file: `studies/tso.toml`.
    pub fn path(&self) -> String {
        format!("studies/{}.toml", self.name)
    }
}

/// There is no such study.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown study {given:?}; {}", remedy(*.nearest))]
pub struct UnknownStudy {
    /// What was given.
    pub given: String,
    /// The name most like it.
    pub nearest: Option<&'static str>,
}

fn remedy(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => {
            let names: Vec<&str> = all().iter().map(|study| study.name).collect();
            format!("expected a file, or one of {}", names.join(", "))
        }
    }
}

/// The papers' studies first, then the examples.
pub fn all() -> &'static [Builtin] {
    &[
        Builtin { name: "tso", text: include_str!("../../studies/tso.toml") },
        Builtin { name: "message-size", text: include_str!("../../studies/message-size.toml") },
        Builtin {
            name: "request-response",
            text: include_str!("../../studies/request-response.toml"),
        },
        Builtin { name: "zero-copy", text: include_str!("../../studies/zero-copy.toml") },
    ]
}

/// The study of that name.
///
/// # Errors
/// [`UnknownStudy`] with the nearest name.
pub fn find(name: &str) -> Result<&'static Builtin, UnknownStudy> {
    all().iter().find(|study| study.name == name).ok_or_else(|| UnknownStudy {
        given: shortened(name),
        nearest: nearest_name(name, all().iter().map(|study| study.name)),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::file::parse;
    use crate::plan::estimate;

    #[test]
    fn every_file_of_the_directory_is_built_in_and_parses() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../studies");
        let mut files = 0;
        for file in std::fs::read_dir(directory).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let name = path.file_stem().unwrap().to_str().unwrap();
                let builtin = find(name).unwrap();
                assert_eq!(builtin.text, std::fs::read_to_string(&path).unwrap());
                files += 1;
            }
        }
        assert_eq!(files, all().len());
        for builtin in all() {
            let study = parse(builtin.name, &builtin.path(), builtin.text);
            study.unwrap_or_else(|errors| panic!("{errors}"));
        }
    }

    #[test]
    fn every_one_takes_less_than_five_minutes_and_reaches_its_fewest_blocks() {
        for builtin in all() {
            let study = parse(builtin.name, &builtin.path(), builtin.text).unwrap();
            let estimate = estimate(&study, Duration::from_millis(300));
            assert!(estimate.longest < Duration::from_secs(300), "{}", builtin.name);
            assert!(estimate.shortest >= estimate.block * study.method.min_blocks);
        }
    }

    #[test]
    fn the_paper_study_asks_what_the_paper_asked() {
        let study = parse("tso", "studies/tso.toml", find("tso").unwrap().text).unwrap();
        assert_eq!(study.paper.as_deref(), Some("tso"));
        let cells: Vec<String> = study.cells.iter().map(|cell| cell.levels.to_string()).collect();
        let expected = [
            "none, transmit",
            "none, bidirectional",
            "gso, transmit",
            "gso, bidirectional",
            "tso, transmit",
            "tso, bidirectional",
        ];
        assert_eq!(cells, expected);
    }

    #[test]
    fn a_mistyped_name_finds_its_study() {
        assert_eq!(
            find("tos").unwrap_err().to_string(),
            "unknown study \"tos\"; did you mean \"tso\"?"
        );
        assert!(find("nothing-like-it").unwrap_err().to_string().contains("one of tso, "));
    }
}
