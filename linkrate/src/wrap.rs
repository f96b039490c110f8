//! Lines of the doctor's text.

/// Width of the text without a terminal, and the largest width on a terminal.
pub const PIPE_WIDTH: usize = 100;

/// Breaks lines at blanks, except inside a command in backquotes that fits on a line, so that
/// people can copy it. Replaces control characters by blanks.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for piece in pieces(text, width) {
        let line = lines.last_mut().expect("never empty");
        if line.is_empty() {
            line.push_str(&piece);
        } else if line.chars().count() + 1 + piece.chars().count() <= width {
            line.push(' ');
            line.push_str(&piece);
        } else {
            lines.push(piece);
        }
    }
    lines
}

/// Words, and whole commands in backquotes.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut command: Vec<&str> = Vec::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        let was_open = !command.is_empty();
        let toggles = word.matches('`').count() % 2 == 1;
        command.push(word);
        if was_open == toggles {
            let whole = command.join(" ");
            match whole.chars().count() <= width {
                true => pieces.push(whole),
                false => pieces.extend(command.iter().map(|word| (*word).to_owned())),
            }
            command.clear();
        }
    }
    // words after an unmatched backquote
    pieces.extend(command.into_iter().map(str::to_owned));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_control_characters() {
        assert_eq!(wrap("a\u{1b}[31m b\nc", 80), ["a [31m b c"]);
        assert_eq!(wrap("", 80), [""]);
        assert_eq!(wrap("wider-than-the-room x", 5), ["wider-than-the-room", "x"]);
    }

    #[test]
    fn keeps_a_command_that_fits_on_one_line() {
        assert_eq!(wrap("run `a -b c`, then `d`", 10), ["run", "`a -b c`,", "then `d`"]);
        assert_eq!(wrap("run `a -b c` now", 6), ["run `a", "-b c`", "now"]);
        assert_eq!(wrap("it`s one quote", 9), ["it`s one", "quote"]);
    }
}
