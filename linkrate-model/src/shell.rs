//! Quoting of words for a shell. An interface name may contain almost any character, and people
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
