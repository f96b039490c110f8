//! The valid name nearest to a mistyped one.

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
