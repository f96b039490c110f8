//! Untrusted text, made harmless.
//!
//! Text that comes from a peer, from a file or from another program may hold control characters.
//! On a terminal these move the cursor, change the title or forge lines; in a report they reverse
//! the direction of writing or hide text. Such text is cleaned where it enters linkrate: by the
//! decoder of the protocol, and by the reader of a results directory.

use std::borrow::Cow;

/// What stands for a character that was taken out: U+FFFD, the replacement character.
pub const REPLACEMENT: char = '\u{fffd}';

/// Whether the character acts on a display instead of appearing on it: control characters (C0, DEL,
/// C1), and the format characters of Unicode that hide text, reverse it or break lines (UAX 9, UTS
/// 39).
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// The text as one line: line breaks and tabs become blanks, other harmful characters become
/// [`REPLACEMENT`].
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_blank(c) { ' ' } else { harmless(c) }).collect())
}

/// As [`line()`], of at most `most` characters; a longer text is cut and ends in `...`.
pub fn short_line(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => line(text),
        Some((end, _)) => Cow::Owned(format!("{}...", line(&text[..end]))),
    }
}

/// The text with its lines: line feeds and tabs stay, other harmful characters become
/// [`REPLACEMENT`].
pub fn lines(text: &str) -> Cow<'_, str> {
    let stays = |c: char| matches!(c, '\n' | '\t');
    if !text.contains(|c| is_harmful(c) && !stays(c)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if stays(c) { c } else { harmless(c) }).collect())
}

fn is_blank(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\t' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn harmless(c: char) -> char {
    if is_harmful(c) { REPLACEMENT } else { c }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_for_people_stays() {
        for text in ["", "Intel® 82599, ±2.5 %", "日本語", "e\u{301}", "a 👩‍👧"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
        assert_eq!(lines("a\n\tb"), "a\n\tb");
    }

    #[test]
    fn what_acts_on_a_terminal_is_taken_out() {
        for (text, one, many) in [
            ("\u{1b}[2Jx", "\u{fffd}[2Jx", "\u{fffd}[2Jx"),
            ("a\nhint: b", "a hint: b", "a\nhint: b"),
            ("\u{9b}31m", "\u{fffd}31m", "\u{fffd}31m"),
            ("a\u{202e}b\u{2066}c", "a\u{fffd}b\u{fffd}c", "a\u{fffd}b\u{fffd}c"),
            ("a\rb\u{7f}", "a b\u{fffd}", "a\u{fffd}b\u{fffd}"),
        ] {
            assert_eq!((line(text).as_ref(), lines(text).as_ref()), (one, many));
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(short_line("ééé", 3), "ééé");
        assert_eq!(short_line("ééé\u{1b}", 2), "éé...");
    }

    proptest! {
        #[test]
        fn nothing_harmful_is_left_and_cleaning_again_changes_nothing(text in any::<String>()) {
            let clean = line(&text).into_owned();
            prop_assert!(!clean.contains(is_harmful));
            prop_assert_eq!(line(&clean), clean.as_str());
            let clean = lines(&text).into_owned();
            prop_assert!(!clean.contains(|c| is_harmful(c) && c != '\n' && c != '\t'));
            prop_assert!(short_line(&text, 10).chars().count() <= 13);
        }
    }
}
