//! Examples, which stand first in the help of every command.

use clap::Command;

/// The words of a command, and its examples: a line each, and what it does where its words do not say so.
type Examples = (&'static str, &'static [(&'static str, &'static str)]);

/// How many of them are in `-h`.
const SHORT: usize = 2;

const EXAMPLES: &[Examples] = &[
    (
        "linkrate",
        &[
            ("linkrate doctor", "what this host can measure"),
            ("linkrate run tso --quick", "a study in less than a minute"),
            ("linkrate measure -R -P 4", "one test, as with iperf3"),
        ],
    ),
    ("list", &[("linkrate list", "")]),
    (
        "show",
        &[
            ("linkrate show tso --quick", "cases, duration, limits of this host"),
            ("linkrate show tso --toml > my.toml", "the file, to begin one of your own"),
        ],
    ),
    (
        "run",
        &[
            ("linkrate run tso --quick", "less than a minute"),
            ("linkrate run tso --only ports=4 --budget 5min", "some of the cases"),
            ("linkrate run tso --set congestion=bbr --scale 0.3", "other settings"),
            ("linkrate run my.toml --dir results/before", ""),
            ("linkrate run offload-ladder --interface eth1 --client ssh://lab2", "a real adapter"),
            ("linkrate run offload-ladder --format ktap", "as a test of the kernel"),
        ],
    ),
    ("resume", &[("linkrate resume results/tso-20261121-1512", "")]),
    ("watch", &[("linkrate watch results/tso-20261121-1512", "from another terminal")]),
    (
        "report",
        &[
            ("linkrate report results/before", ""),
            ("linkrate report results/before --details effects", "every effect"),
            ("linkrate report results/before -o report.md", "also .html, .csv, .json"),
        ],
    ),
    (
        "import",
        &[
            ("linkrate import old/*.json --dir results/old", ""),
            ("linkrate run results/old/study.toml --dir results/new", "the same test again"),
            ("linkrate compare results/old results/new --allow imported", ""),
        ],
    ),
    (
        "compare",
        &[
            ("linkrate compare results/before results/after", ""),
            ("linkrate compare results/before results/after --allow kernel", "a new kernel"),
            ("linkrate compare --live 'iperf3 -J -c HOST' 'iperf3 -J -Z -c HOST'", "in turn"),
        ],
    ),
    (
        "trend",
        &[
            ("linkrate trend results/tso-*", ""),
            ("linkrate trend results/tso-* --recent 5 -o trend.html", "for a nightly job"),
        ],
    ),
    ("schema", &[("linkrate schema results > results.schema.json", "")]),
    (
        "measure",
        &[
            ("linkrate measure -R -P 4 -t 10s", "receive on four connections"),
            ("linkrate measure --test TCP_RR", "request/response, as netperf"),
            ("linkrate measure --interface eth1 --client ssh://lab2", "a real adapter"),
        ],
    ),
    (
        "limit ethernet",
        &[
            ("linkrate limit ethernet", "common rates and MTUs"),
            ("linkrate limit ethernet --rate 10G --mtu 9000", "where every byte goes"),
            ("linkrate limit ethernet --rate 1G --mtu 1500 --udp --message 64,512,1472", ""),
        ],
    ),
    (
        "limit atm",
        &[
            ("linkrate limit atm", "OC-3c and OC-12c, common MTUs"),
            ("linkrate limit atm --rate oc3c --mtu 9180", "where every byte goes"),
            ("linkrate limit atm --published-formula", "the ATM paper's ten values"),
            ("linkrate limit atm --rate oc3c --published-formula --message 128,64K", ""),
        ],
    ),
    (
        "limit aggregate",
        &[
            ("linkrate limit aggregate", "2, 4 and 8 ports, 8 flows"),
            ("linkrate limit aggregate --ports 4 --flows 1,4,16 --balance port,adaptive", ""),
            (
                "linkrate limit aggregate --ports 2 --balance mac --flow 10.0.0.1,40000,10.0.0.2,5201,02:00:00:00:00:02",
                "",
            ),
        ],
    ),
    (
        "lab up",
        &[
            ("linkrate lab up", "a shell behind one emulated port"),
            ("linkrate lab up --adapter ten-gigabit --ports 2 -- iperf3 -s", "a program instead"),
            ("linkrate lab up --wait", "until Ctrl-C, for other terminals"),
        ],
    ),
    ("lab exec", &[("linkrate lab exec client-0 -- iperf3 -c 198.18.0.1", "")]),
    ("lab show", &[("linkrate lab show", "")]),
    ("lab list", &[("linkrate lab list", "")]),
    ("lab down", &[("linkrate lab down", "")]),
    ("adapter show", &[("linkrate adapter show eth0", "")]),
    ("adapter aggregate", &[("linkrate adapter aggregate agg0", "")]),
    ("adapter aggregate create", &[("linkrate adapter aggregate create eth0 eth1", "")]),
    ("adapter aggregate remove", &[("linkrate adapter aggregate remove agg0", "")]),
    ("adapter top", &[("linkrate adapter top --interval 500ms", "")]),
    (
        "adapter set",
        &[
            ("linkrate adapter set eth0 offload=none rx-usecs=50", ""),
            ("linkrate adapter set agg0 mode=lacp balance=port", "an aggregate"),
        ],
    ),
    ("adapter add", &[("linkrate adapter add --ports 2", "")]),
    ("adapter remove", &[("linkrate adapter remove eth1", "")]),
    (
        "adapter capture",
        &[
            ("linkrate adapter capture eth0 eth0.pcapng --duration 10s", ""),
            ("linkrate adapter capture eth0 --stop", ""),
        ],
    ),
    (
        "adapter link",
        &[
            ("linkrate adapter link eth0 down", ""),
            ("linkrate adapter link client-0 100M", "another rate"),
        ],
    ),
    ("adapter faults", &[("linkrate adapter faults eth0 loss=1% delay=1ms", "")]),
    ("adapter toe show", &[("linkrate adapter toe show", "")]),
    ("adapter toe offload", &[("linkrate adapter toe offload 4711:5", "")]),
    ("adapter vlan", &[("linkrate adapter vlan eth0 trunk=10,20-29 native=1", "")]),
    ("models", &[("linkrate models", ""), ("linkrate models gigabit", "")]),
    (
        "doctor",
        &[
            ("linkrate doctor", "capabilities and tuning"),
            ("linkrate doctor tune --interface eth1", "tuning of one interface"),
            ("linkrate doctor self-test", "the error of each CPU meter"),
        ],
    ),
    ("doctor check", &[("linkrate doctor check", "")]),
    ("doctor tune", &[("linkrate doctor tune --interface eth1 --round-trip 20ms", "")]),
    ("doctor self-test", &[("linkrate doctor self-test", "half a minute")]),
    ("restore", &[("linkrate restore", "")]),
    (
        "serve",
        &[
            ("linkrate serve", "for clients on this host"),
            ("linkrate serve --bind 0.0.0.0 --allow 192.0.2.0/24 --duration 60s", ""),
            ("linkrate serve --metrics 9100", "for Prometheus on this host"),
        ],
    ),
    ("netperf", &[("linkrate netperf -H lab2 -t TCP_RR -l 10", "")]),
    ("iperf3", &[("linkrate iperf3 -c lab2 -R -P 4", ""), ("linkrate iperf3 -s", "")]),
    (
        "completions",
        &[
            ("linkrate completions bash > ~/.local/share/bash-completion/completions/linkrate", ""),
            ("linkrate completions zsh > ~/.zfunc/_linkrate", "with fpath+=~/.zfunc in ~/.zshrc"),
            ("linkrate completions fish > ~/.config/fish/completions/linkrate.fish", ""),
        ],
    ),
];

/// The command with the examples of all its commands.
pub fn with_examples(command: Command) -> Command {
    let name = command.get_name().to_owned();
    of(command, &name, "")
}

fn of(command: Command, name: &str, path: &str) -> Command {
    let key = if path.is_empty() { name } else { path };
    let found = EXAMPLES.iter().find(|(of, _)| *of == key);
    let command = match found {
        Some((_, examples)) => command
            .before_help(text(&examples[..examples.len().min(SHORT)]))
            .before_long_help(text(examples)),
        None => command,
    };
    command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        let path = format!("{path} {name}").trim_start().to_owned();
        of(sub, &name, &path)
    })
}

/// What they do stands in a column of its own.
fn text(examples: &[(&str, &str)]) -> String {
    let explained = examples.iter().filter(|(_, what)| !what.is_empty());
    let wide = explained.map(|(words, _)| words.len()).max().unwrap_or(0);
    let lines = examples.iter().map(|(words, what)| format!("  {words:wide$}  {what}"));
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    format!("Examples:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        for sub in visible {
            let path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
            if sub.get_subcommands().next().is_none() {
                found.push(path.clone());
            }
            leaves(sub, &path, found);
        }
    }

    #[test]
    fn every_command_has_examples_that_are_read() {
        let mut commands = Vec::new();
        leaves(&Cli::command(), "", &mut commands);
        for command in &commands {
            // `doctor check` and its like are in the help of the command above, too
            assert!(EXAMPLES.iter().any(|(of, _)| of == command), "{command}");
        }
        for (words, _) in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
            let words = words.split(" > ").next().unwrap_or_default();
            let split = linkrate_model::shell::split(words).unwrap();
            let read = Cli::command().try_get_matches_from(split);
            assert!(read.is_ok(), "{words}: {}", read.unwrap_err());
        }
    }
}
