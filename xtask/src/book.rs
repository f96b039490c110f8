//! The manual in `docs/`, and whether its links lead anywhere.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::root;
use crate::process::check;
use crate::summary::{Note, Outcome};
use crate::tools::MDBOOK;

/// Builds the manual with mdBook.
pub fn build() -> io::Result<Outcome> {
    let Some(mdbook) = MDBOOK.find() else {
        let reason = format!("mdbook is not installed; {}", MDBOOK.remedy());
        return Ok(Outcome::skipped("manual", reason));
    };
    let mut command = Command::new(mdbook);
    let mut outcome = check(command.args(["build", "docs"]).current_dir(root()))?;
    if outcome.failed == 0 && !is_searchable(&root().join("docs/book"))? {
        let reason = format!("mdbook was built without it; {} --force", MDBOOK.remedy());
        outcome.skipped.push(Note { name: "manual: search".to_owned(), reason });
    }
    Ok(outcome)
}

/// Whether a built manual has an index for its search, which mdBook gives a name with a hash.
fn is_searchable(built: &Path) -> io::Result<bool> {
    let mut names = fs::read_dir(built)?.map(|entry| Ok(entry?.file_name()));
    names.try_fold(false, |found, name: io::Result<_>| {
        Ok(found || name?.to_string_lossy().starts_with("searchindex"))
    })
}

/// Checks that the links of the manual, of `docs/internals` and of the pages in the root lead to a
/// file, and to a heading where they name one. What is on other sites is left alone: a test must not
/// depend on it.
pub fn links() -> io::Result<Outcome> {
    if !book().join("SUMMARY.md").is_file() {
        return Ok(Outcome::failed("docs/src/SUMMARY.md is missing: mdBook's table of contents\n"));
    }
    let mut pages = pages()?;
    let beside = root().join("docs/internals");
    if beside.is_dir() {
        pages.extend(pages_in(&beside, true)?);
    }
    let broken: Vec<String> = pages
        .iter()
        .map(|page| broken_links(page))
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    Ok(if broken.is_empty() {
        Outcome::passed().remark(format!("{} pages", pages.len()))
    } else {
        Outcome::failed(broken.join("\n"))
    })
}

fn book() -> PathBuf {
    root().join("docs/src")
}

/// The pages of the manual, and those in the root of the workspace.
pub fn pages() -> io::Result<Vec<PathBuf>> {
    let mut pages = pages_in(&root(), false)?;
    pages.extend(pages_in(&book(), true)?);
    Ok(pages)
}

/// The Markdown files of a directory, sorted.
fn pages_in(directory: &Path, below: bool) -> io::Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if below && path.is_dir() {
            pages.extend(pages_in(&path, below)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// The links of `page` that lead nowhere, each with file and line.
fn broken_links(page: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(page)?;
    let shown = page.strip_prefix(root()).unwrap_or(page).display();
    let mut broken = Vec::new();
    for (number, line) in prose(&text) {
        for link in link_targets(&line) {
            if let Some(reason) = why_broken(page, &link)? {
                broken.push(format!("{shown}:{number}: {link}: {reason}"));
            }
        }
    }
    Ok(broken)
}

fn why_broken(page: &Path, link: &str) -> io::Result<Option<String>> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(None);
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    if file.is_empty() && anchor.is_empty() {
        return Ok(Some("an empty link".to_owned()));
    }
    let target = match file {
        "" => page.to_owned(),
        _ => page.parent().unwrap_or(page).join(file),
    };
    if !target.exists() {
        return Ok(Some("no such file".to_owned()));
    }
    if anchor.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return Ok(None);
    }
    let anchors = anchors(&fs::read_to_string(&target)?);
    Ok((!anchors.contains(anchor)).then(|| "no such heading".to_owned()))
}

/// The lines of a page outside fenced code, with inline code blanked out, numbered from 1.
pub fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let outside = line.split('`').step_by(2);
            lines.push((number, outside.collect::<Vec<_>>().join("``")));
        }
    }
    lines
}

/// What stands in the brackets of `[text](target)`, without a title.
fn link_targets(line: &str) -> Vec<String> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_whitespace().next().unwrap_or("").to_owned())
        .collect()
}

/// The anchors of a page's headings, as mdBook and code hosting sites make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let heading = line.trim_start_matches('#').trim();
        let slug = slug(heading);
        let repeated = (1..).map(|number| format!("{slug}-{number}"));
        let mut free = std::iter::once(slug.clone()).chain(repeated);
        anchors.extend(free.find(|anchor| !anchors.contains(anchor)));
    }
    anchors
}

/// Letters, digits, hyphens and underscores stay, blanks become hyphens, the rest goes.
fn slug(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|c| match c {
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            c if c.is_whitespace() => Some('-'),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_to_file_and_heading() {
        let directory = tempfile::tempdir().unwrap();
        let other =
            "# Limits & theory\n\n```sh\n# no heading\n```\n## Use `--json`\n## Use `--json`\n";
        fs::write(directory.path().join("other.md"), other).unwrap();
        let page = directory.path().join("page.md");
        let text = "[a](other.md) [b](other.md#limits--theory) [c](other.md#use---json-1)\n\
                    [site](https://example.org/x) `[code](nowhere.md)`\n\
                    [d](missing.md) [e](other.md#no-heading) [f]()\n";
        fs::write(&page, text).unwrap();
        let broken = broken_links(&page).unwrap();
        let reasons: Vec<&str> =
            broken.iter().map(|line| line.split_once(":3: ").unwrap().1).collect();
        assert_eq!(
            reasons,
            ["missing.md: no such file", "other.md#no-heading: no such heading", ": an empty link"]
        );
    }
}
