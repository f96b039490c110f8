//! The terminal of a progress bar. Drawing on it never blocks for long: a terminal that is stopped,
//! or whose connection hangs, must not hold up what is measured.

use std::io::{self, IsTerminal};

use indicatif::{ProgressDrawTarget, TermLike};
use linkrate_sys::stderr;

/// Drawings a second, at most.
const RATE: u8 = 20;

/// Standard error if it is a terminal; otherwise nothing is drawn.
pub fn draw_target() -> ProgressDrawTarget {
    match io::stderr().is_terminal() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(Terminal), RATE),
        false => ProgressDrawTarget::hidden(),
    }
}

/// Columns of the terminal that standard error is.
pub fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    size.map(|size| size.ws_col).filter(|columns| *columns > 0).unwrap_or(80)
}

#[derive(Debug)]
struct Terminal;

impl Terminal {
    /// Moves the cursor; a zero would move it by one.
    fn r#move(n: usize, direction: char) -> io::Result<()> {
        if n > 0 {
            stderr::raw(&format!("\u{1b}[{n}{direction}"));
        }
        Ok(())
    }
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        width()
    }

    fn height(&self) -> u16 {
        let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
        size.map(|size| size.ws_row).filter(|rows| *rows > 0).unwrap_or(24)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        Self::r#move(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        Self::r#move(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        Self::r#move(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        Self::r#move(n, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        stderr::raw(&format!("{text}\n"));
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        stderr::raw(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        stderr::raw("\r\u{1b}[2K");
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
