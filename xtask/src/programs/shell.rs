//! The programs that a line of shell starts.

use super::rust::UNKNOWN;

/// What a shell does itself, or what only groups its commands.
const OWN: &[&str] = &[
    "!", ".", ":", "[", "break", "cd", "command", "continue", "do", "done", "echo", "elif", "else",
    "exec", "exit", "export", "false", "fi", "if", "kill", "printf", "pwd", "read", "return",
    "set", "shift", "test", "then", "time", "trap", "true", "ulimit", "umask", "unset", "until",
    "wait", "while", "{", "}",
];

/// Of these, what follows is a command again.
const BEFORE_A_COMMAND: &[&str] =
    &["!", "command", "do", "elif", "else", "exec", "if", "then", "time", "until", "while", "{"];

/// The words of each command of `script` that starts a program, without assignments and
/// redirections. Functions of the script itself are no programs.
pub fn commands(script: &str) -> Vec<Vec<String>> {
    let functions: Vec<&str> = script
        .match_indices("()")
        .filter_map(|(at, _)| script[..at].split_whitespace().next_back())
        .collect();
    let mut all = simple_commands(script);
    all.iter_mut().for_each(|words| *words = started(words).to_vec());
    all.retain(|words| words.first().is_some_and(|word| !functions.contains(&word.as_str())));
    all
}

/// From the word on that is started; nothing if the shell does it all itself.
fn started(words: &[String]) -> &[String] {
    let Some(first) = words.first() else { return words };
    let is_assignment = first.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    });
    if is_assignment || BEFORE_A_COMMAND.contains(&first.as_str()) {
        return started(&words[1..]);
    }
    // a loop's list, a variable, or something the caller puts in
    let unknown = matches!(first.as_str(), "for" | "case") || first.contains(['$', UNKNOWN]);
    if unknown || OWN.contains(&first.as_str()) { &[] } else { words }
}

fn simple_commands(script: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut to_file = false;
    let mut rest = script.chars().peekable();
    // ends a word; where a redirection leads is not one
    fn end(word: &mut Option<String>, to_file: &mut bool, all: &mut [Vec<String>]) {
        if let Some(word) = word.take()
            && !std::mem::take(to_file)
        {
            all.last_mut().expect("one at least").push(word);
        }
    }
    while let Some(c) = rest.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                while let Some(inner) = rest.next().filter(|inner| *inner != c) {
                    match inner {
                        '\\' if c == '"' => word.extend(rest.next()),
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => {
                if let Some(next) = rest.next().filter(|next| *next != '\n') {
                    word.get_or_insert_default().push(next);
                }
            }
            '#' if word.is_none() => while rest.next_if(|c| *c != '\n').is_some() {},
            '<' | '>' => {
                // the number of a descriptor belongs to it
                word.take_if(|word| word.chars().all(|c| c.is_ascii_digit()));
                end(&mut word, &mut to_file, &mut all);
                while rest.next_if(|c| matches!(c, '<' | '>' | '&')).is_some() {}
                to_file = true;
            }
            '$' if rest.peek() == Some(&'(') => {
                word.get_or_insert_default().push('$');
            }
            ';' | '&' | '|' | '\n' | '(' | ')' | '`' => {
                end(&mut word, &mut to_file, &mut all);
                all.push(Vec::new());
            }
            c if c.is_whitespace() => end(&mut word, &mut to_file, &mut all),
            c => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut to_file, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(script: &str) -> Vec<String> {
        commands(script).into_iter().map(|words| words[0].clone()).collect()
    }

    #[test]
    fn every_command_of_a_script_is_found() {
        let script = "mount -t sysfs sysfs /sys && ip link set 'a;touch$x' up; A=1 B=2 ethtool -k x | sed 's/;//' || true\n\
                      exec sleep 300 # curl\n(ping -c 1 x) >/dev/null 2>&1 & wait";
        assert_eq!(programs(script), ["mount", "ip", "ethtool", "sed", "sleep", "ping"]);
    }

    #[test]
    fn finds_no_programs_in_loops_functions_and_variables() {
        let script = "for try in 1 2; do head -c 9 /dev/zero > /dev/udp/x; done\n\
                      attempt() { \"$@\" >\"$OUT/$NAME\"; cat x; }\nNAME=a attempt \"$PROGRAM\" run\n\
                      while :; do sleep 1; done; trap 'curl' TERM; \u{fffc} lab show && x=$(uname -r)";
        assert_eq!(programs(script), ["head", "cat", "sleep", "uname"]);
    }

    #[test]
    fn words_keep_their_quotes_contents() {
        let all = commands("sh -c 'ip link; ls' 2>file");
        assert_eq!(all, [["sh", "-c", "ip link; ls"]]);
    }
}
