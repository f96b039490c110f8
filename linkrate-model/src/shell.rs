//! Words for a shell, and those of its lines. An interface name may contain almost any character, and people
//! paste printed commands into a root shell.

/// `word` quoted for a shell, only if it needs quotes.
pub fn word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if word.chars().any(char::is_control) {
        // only this form can express control characters (bash, POSIX.1-2024)
        let escaped: String = word
            .chars()
            .map(|c| match c {
                '\\' | '\'' => format!("\\{c}"),
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    let bytes = c.encode_utf8(&mut bytes).bytes();
                    bytes.map(|byte| format!("\\{byte:03o}")).collect()
                }
                c => c.to_string(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of a line as a shell reads them: white space separates them, quotes and backslashes keep it. Nothing is
/// expanded. `None` where a quote has no end.
pub fn split(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let text = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => text.push(c),
                    }
                }
            }
            '"' => {
                let text = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            c @ ('"' | '\\' | '$' | '`') => text.push(c),
                            c => text.extend(['\\', c]),
                        },
                        c => text.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn read_back(text: &str) -> Option<String> {
        let script = format!("printf %s {}", word(text));
        let output = Command::new("bash").args(["-c", &script]).output().ok()?;
        String::from_utf8(output.stdout).ok()
    }

    #[test]
    fn names_that_need_no_quotes_have_none() {
        assert_eq!(word("enp1s0f0np0"), "enp1s0f0np0");
        assert_eq!(word("eth0.100@x"), "eth0.100@x");
        assert_eq!(word("a;reboot"), "'a;reboot'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word("\u{1b}[31m"), "$'\\033[31m'");
        assert_eq!(word(""), "''");
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let of = |line| split(line).map(|words| words.join("|"));
        assert_eq!(of("docker exec -i  web sh -c").as_deref(), Some("docker|exec|-i|web|sh|-c"));
        assert_eq!(of(r#"a 'b c'd "e\" $f" g\ h ''"#).as_deref(), Some(r#"a|b cd|e" $f|g h|"#));
        assert_eq!(of(r#""\n""#).as_deref(), Some(r"\n"));
        assert_eq!(
            (of(""), of("a 'b"), of("a \"b"), of("a\\")),
            (Some(String::new()), None, None, None)
        );
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec("[ -~é]{0,8}", 0..5)) {
            let line = words.iter().map(|word| self::word(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split(&line), Some(words));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn a_shell_reads_back_what_was_meant(text in "[ -~\u{1}-\u{1f}é]{0,15}") {
            // without bash the test cannot check
            if let Some(read) = read_back(&text) {
                prop_assert_eq!(read, text);
            }
        }
    }
}
