//! Text to the terminal and to pipes.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;

use linkrate_model::shell;

use crate::args::ColorWhen;
use crate::exit::{Exit, Failure};

/// When output has colours.
static COLOR: OnceLock<ColorWhen> = OnceLock::new();

/// Chooses when output has colours; the first choice counts.
pub fn set_color(when: ColorWhen) {
    COLOR.get_or_init(|| when);
}

/// Writes data to stdout. A reader that has gone away is no failure of ours.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// The same for bytes.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failure, format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// A path as a shell takes it, for commands in hints.
pub fn quoted(path: &Path) -> String {
    shell::word(&path.display().to_string())
}

/// The cursor to the upper left corner, and everything behind it away.
pub const REDRAW: &str = "\u{1b}[H\u{1b}[J";

/// Columns and lines of the terminal that stdout is; `None` if stdout is not a terminal.
pub fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// How a table fits stdout: its width if it is a terminal, and whether colour helps.
pub fn terminal_style() -> (Option<u16>, linkrate_report::terminal::Style) {
    let stdout = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok();
    let width = size.map(|size| size.ws_col).filter(|columns| *columns > 0);
    // https://no-color.org: any value that is not empty
    let plain = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let color = match COLOR.get().copied().unwrap_or_default() {
        ColorWhen::Auto => stdout.is_terminal() && !plain(),
        ColorWhen::Always => true,
        ColorWhen::Never => false,
    };
    (width, linkrate_report::terminal::Style { color })
}

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
