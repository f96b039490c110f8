//! `effects` of `[method]`: the factors whose effects are asked.

use linkrate_model::nearest::{name_hint, shortened};
use toml::de::DeValue;

use super::cells::Cells;
use super::reader::{Entry, Reader, described};
use crate::study::{Factor, PART};

/// Leaves out the effects of all factors but those named. After an error all are left as they
/// are, so that published figures do not repeat it.
pub(super) fn choose(reader: &mut Reader<'_>, entry: &Entry<'_>, cells: &mut Cells) {
    let Some(asked) = names(reader, entry, &cells.factors) else { return };
    let of_parts = cells.parts.iter_mut().flat_map(|part| &mut part.factors);
    for factor in cells.factors.iter_mut().chain(of_parts) {
        factor.effects &= asked.contains(&factor.name);
    }
}

/// The factors named, each once; `None` after an error.
fn names(reader: &mut Reader<'_>, entry: &Entry<'_>, factors: &[Factor]) -> Option<Vec<String>> {
    let DeValue::Array(array) = entry.value() else {
        let message = format!("{} is not an array of factors", described(entry.value()));
        reader.refuse(entry, message, "expected for example [\"offload\"]");
        return None;
    };
    if array.is_empty() {
        let hint = "name at least one factor, or leave effects out to compare all factors";
        reader.refuse(entry, "an empty list of factors".to_owned(), hint);
        return None;
    }
    let varied: Vec<Factor> =
        factors.iter().filter(|factor| factor.name != PART).cloned().collect();
    let mut names: Vec<String> = Vec::new();
    let mut sound = true;
    for value in array.iter() {
        if reader.is_full() {
            return None;
        }
        let at = value.span().start;
        let (message, hint) = match value.get_ref().as_str() {
            None => {
                let message = format!("{} is not text", described(value.get_ref()));
                (message, "expected the name of a factor")
            }
            Some(PART) if varied.len() < factors.len() => {
                ("effects of parts are not computed".to_owned(), "name factors within the parts")
            }
            Some(name) if names.iter().any(|known| known == name) => {
                (format!("{name} occurs twice"), "leave one out")
            }
            Some(name) if known_factor(reader, entry, at, name, &varied) => {
                names.push(name.to_owned());
                continue;
            }
            Some(_) => {
                sound = false;
                continue;
            }
        };
        reader.error(at, &entry.path(), message, Some(hint.to_owned()));
        sound = false;
    }
    sound.then_some(names)
}

/// Whether `name`, which stands at `at`, is one of the factors; an error if not.
pub(super) fn known_factor(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    at: usize,
    name: &str,
    factors: &[Factor],
) -> bool {
    let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
    if names.contains(&name) {
        return true;
    }
    let message = format!("{:?} is not a factor of this study", shortened(name));
    reader.error(at, &entry.path(), message, Some(name_hint(name, &names)));
    false
}

#[cfg(test)]
mod tests {
    use crate::analysis::effects::comparisons;
    use crate::file::parse;
    use crate::study::Study;

    const TWO: &str = "title = \"t\"\n[factors]\noffload = [\"none\", \"gso\", \"tso\"]\n\
                       mtu = [1500, 9000]\n";

    const PARTS: &str = "title = \"t\"\n[[part]]\nname = \"one\"\n[part.factors]\n\
                         mtu = [1500, 9000]\ngro = [true, false]\n[[part]]\nname = \"two\"\n\
                         [part.factors]\nmtu = [1500, 9000]\nmessage = [1, 2]\n";

    fn study(text: &str, method: &str) -> Result<Study, String> {
        parse("t", "t.toml", &format!("{text}[method]\n{method}\n"))
            .map_err(|errors| errors.to_string())
    }

    /// The factors of all comparisons, each with how many there are.
    fn compared(text: &str, method: &str) -> Vec<(String, usize)> {
        let study = study(text, method).unwrap_or_else(|error| panic!("{error}"));
        let mut counted: Vec<(String, usize)> = Vec::new();
        for comparison in comparisons(&study) {
            match counted.iter_mut().find(|(factor, _)| *factor == comparison.factor) {
                Some((_, count)) => *count += 1,
                None => counted.push((comparison.factor, 1)),
            }
        }
        counted
    }

    #[test]
    fn compares_only_the_requested_effects() {
        let count = |factor: &str, count| (factor.to_owned(), count);
        // every pair of three levels, at both levels of the other factor
        assert_eq!(compared(TWO, ""), [count("offload", 6), count("mtu", 3)]);
        assert_eq!(compared(TWO, "effects = [\"offload\"]"), [count("offload", 6)]);
        let both = "effects = [\"mtu\", \"offload\"]";
        assert_eq!(compared(TWO, both), [count("offload", 6), count("mtu", 3)]);
        assert_eq!(compared(PARTS, "effects = [\"mtu\"]"), [count("mtu", 4)]);
        assert_eq!(
            compared(PARTS, "effects = [\"message\", \"gro\"]"),
            [count("gro", 2), count("message", 2)]
        );
    }

    #[test]
    fn a_stored_study_keeps_its_effects_and_an_old_one_has_all() {
        let study = study(TWO, "effects = [\"mtu\"]").unwrap();
        let json = serde_json::to_string(&study).unwrap();
        assert_eq!(serde_json::from_str::<Study>(&json).unwrap(), study);
        let old = json.replace(",\"effects\":false", "").replace(",\"effects\":true", "");
        let old: Study = serde_json::from_str(&old).unwrap();
        assert!(old.factors.iter().all(|factor| factor.effects));
    }

    #[test]
    fn explains_an_unknown_factor() {
        for (text, effects, message) in [
            (TWO, "[]", "t.toml:6:11: method.effects: an empty list of factors; name at least one"),
            (TWO, "\"mtu\"", "\"mtu\" is not an array of factors; expected for example"),
            (TWO, "[1]", "t.toml:6:12: method.effects: 1 is not text; expected the name of a"),
            (TWO, "[\"mut\"]", "\"mut\" is not a factor of this study; did you mean \"mtu\"?"),
            (
                TWO,
                "[\"mtu\", \"colour\"]",
                "6:19: method.effects: \"colour\" is not a factor of this",
            ),
            (
                TWO,
                "[\"part\"]",
                "\"part\" is not a factor of this study; expected one of offload, mtu",
            ),
            (TWO, "[\"mtu\", \"mtu\"]", "6:19: method.effects: mtu occurs twice; leave one out"),
            (
                PARTS,
                "[\"part\"]",
                "method.effects: effects of parts are not computed; name factors within the p",
            ),
            (PARTS, "[\"colour\"]", "expected one of mtu, gro, message"),
        ] {
            let error = study(text, &format!("effects = {effects}")).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{effects}: {error}");
            assert!(error.contains(message), "{effects}: {error}");
        }
    }

    #[test]
    fn refuses_a_published_effect_outside_the_effects_of_the_study() {
        let published = |figure: &str| {
            format!(
                "effects = [\"mtu\"]\n[[published]]\nmeasure = \"throughput\"\n\
                 at = {{ mtu = 1500 }}\nfactor = \"offload\"\nfrom = \"none\"\nto = \"tso\"\n{figure}"
            )
        };
        for figure in ["effect = \"+3 %\"", "difference = \"1 Gb/s\""] {
            assert_eq!(
                study(TWO, &published(figure)).unwrap_err(),
                "t.toml:10:10: published.factor: offload is not among the effects of [method]; add \
                 it there, or remove this figure"
            );
        }
        // a value compares nothing
        let value = "effects = [\"mtu\"]\n[[published]]\nmeasure = \"throughput\"\n\
                     at = { mtu = 1500, offload = \"tso\" }\nvalue = \"1 Gb/s\"";
        assert!(study(TWO, value).is_ok());
    }
}
