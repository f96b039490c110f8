//! Names as a user gives them: cut for messages, and compared with those that are valid.

/// Returns the candidate most like `given`, if one is near enough for a typing error.
///
/// Near enough means a Damerau-Levenshtein distance of at most a third of the longer name,
/// and at least one edit is always allowed.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            (strsim::damerau_levenshtein(&given, &candidate.to_lowercase()), candidate)
        })
        .filter(|(distance, candidate)| {
            *distance <= (given.chars().count().max(candidate.chars().count()) / 3).max(1)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A `; did you mean "x"?` tail for an error message, empty when nothing is near.
pub fn did_you_mean<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(given, candidates) {
        Some(name) => format!("; did you mean \"{name}\"?"),
        None => String::new(),
    }
}

/// The longest text that may be a value. Longer text is cut in messages. It is not compared with
/// valid names, because the cost of that grows with the length.
pub const MAX_TEXT: usize = 64;

/// The beginning of a text, short enough for a message.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The nearest of `candidates`, unless `given` is too long to be a mistyped name.
pub fn nearest_name<'a>(
    given: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if given.len() > MAX_TEXT { None } else { nearest(given, candidates) }
}

/// What would be right in the place of `given`, as a hint: the nearest of these names, or all of them.
pub fn name_hint(given: &str, names: &[&str]) -> String {
    match nearest_name(given, names.iter().copied()) {
        Some(name) => format!("did you mean {name:?}?"),
        None => format!("expected one of {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearest_name() {
        let names = ["offload", "direction", "message"];
        assert_eq!(nearest("ofload", names), Some("offload"));
        assert_eq!(nearest("Direciton", names), Some("direction"));
        assert_eq!(nearest("colour", names), None);
    }

    #[test]
    fn no_suggestion_without_a_candidate() {
        assert_eq!(did_you_mean("zzzzzz", ["offload"]), "");
        assert_eq!(did_you_mean("tos", ["tso", "gso"]), "; did you mean \"tso\"?");
    }
}
