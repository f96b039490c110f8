//! Text of studies and hosts within Markdown.

use linkrate_model::clean::is_harmful;

/// Text without a meaning in Markdown, in a table's cell too: markup and HTML are escaped, line
/// breaks become blanks.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c if is_harmful(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Text as a block of code, in a fence that is longer than any within it.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|c: char| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}toml\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(escaped("a|b *c* <d> `e`\nf"), "a\\|b \\*c\\* &lt;d&gt; \\`e\\` f");
        assert_eq!(escaped("a\u{1b}[2J\u{202e}b"), "a \\[2J b");
        assert_eq!(escaped("rx_usecs [1]"), "rx\\_usecs \\[1\\]");
        assert_eq!(escaped("±2.5 %, 1.0 to 2.0"), "±2.5 %, 1.0 to 2.0");
    }

    #[test]
    fn makes_a_fence_longer_than_its_content() {
        assert_eq!(fenced("a"), "```toml\na\n```");
        assert!(fenced("a ```` b").starts_with("`````toml\n"));
    }
}
