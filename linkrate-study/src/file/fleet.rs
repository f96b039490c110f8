//! `[fleet]`.

use toml::de::DeValue;

use super::reader::{Entry, Reader, Table, described};
use crate::adapter::LoadFile;
use crate::fleet::hosts::{self, HostsError};
use crate::fleet::{Fleet, Node, Pattern};
use crate::keys::shortened;

/// The fleet; `None` without one, or after an error. `given` nodes take the place of the file's.
pub(super) fn read(
    reader: &mut Reader<'_>,
    table: Option<Table<'_>>,
    load: &mut LoadFile<'_>,
    given: Option<&[Node]>,
) -> Option<Fleet> {
    let Some(mut table) = table else { return Some(Fleet::of(given?.to_vec())) };
    let errors = reader.errors();
    let (list, lines) = (table.take("hosts"), table.take("nodes"));
    let nodes = match (given, list, lines) {
        (Some(given), ..) => Some(given.to_vec()),
        (None, Some(list), None) => of_file(reader, &list, load),
        (None, None, Some(lines)) => of_lines(reader, &lines),
        (None, Some(_), Some(lines)) => {
            reader.refuse(&lines, "nodes beside hosts".to_owned(), "set one of them");
            None
        }
        (None, None, None) => {
            let hint = "add hosts = \"hosts.txt\", or run the study with --fleet hosts.txt";
            reader.error(0, "fleet", "the nodes are missing".to_owned(), Some(hint.to_owned()));
            None
        }
    };
    let mut fleet = Fleet::of(nodes.unwrap_or_default());
    if let Some(entry) = table.take("pattern")
        && let Some(word) = reader.word(&entry, &Pattern::ALL.map(Pattern::word))
        && let Some(pattern) = Pattern::from_word(word)
    {
        fleet.pattern = pattern;
    }
    if let Some(entry) = table.take("at-once") {
        let most = u64::from(fleet.at_once);
        if let Some(number) = reader.number(&entry, 1, most) {
            fleet.at_once = u32::try_from(number).unwrap_or(fleet.at_once);
        }
    }
    if let Some(entry) = table.take("agent")
        && let Some(program) = reader.line(&entry, 255, "the linkrate program of the nodes")
    {
        fleet.program = program;
    }
    table.finish(reader);
    (reader.errors() == errors).then_some(fleet)
}

/// The nodes of a list in a file of its own.
fn of_file(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    load: &mut LoadFile<'_>,
) -> Option<Vec<Node>> {
    let path = reader.text(entry, "the path of a list of nodes such as \"hosts.txt\"")?.to_owned();
    let text = match load(&path) {
        Ok(text) => text,
        Err(reason) => {
            reader.error(entry.value_at(), &entry.path(), reason, None);
            return None;
        }
    };
    match hosts::parse(&text) {
        Ok(nodes) => Some(nodes),
        Err(HostsError { line, message }) => {
            let message = format!("{}:{line}: {message}", shortened(&path));
            reader.error(entry.value_at(), &entry.path(), message, None);
            None
        }
    }
}

/// The nodes of a list in the study file.
fn of_lines(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<Vec<Node>> {
    const EXPECTED: &str = "expected a list such as [\"n1 ssh:n1 eth1\", \"n2 ssh:n2 eth1\"]";
    let DeValue::Array(values) = entry.value() else {
        reader.refuse(entry, format!("{} is not a list", described(entry.value())), EXPECTED);
        return None;
    };
    let mut lines = Vec::new();
    for value in values.iter() {
        match value.get_ref() {
            DeValue::String(line) if !line.contains('\n') => lines.push(line.to_string()),
            other => {
                reader.refuse(
                    entry,
                    format!("{} is not a node", shortened(&described(other))),
                    EXPECTED,
                );
                return None;
            }
        }
    }
    match hosts::parse(&lines.join("\n")) {
        Ok(nodes) => Some(nodes),
        Err(HostsError { line, message }) => {
            let message = format!("node {line} of the list: {message}");
            reader.error(entry.value_at(), &entry.path(), message, None);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{parse, parse_nodes, parse_with};
    use crate::order::Order;
    use crate::study::Study;

    const NODES: &str =
        "nodes = [\"a ssh:a eth1 rack=2\", \"b ssh:b,10.0.0.2 eth1 rack=1\", \"c ssh:c eth2\"]";

    fn read(fleet: &str) -> Result<Study, String> {
        let text =
            format!("title = \"t\"\n[fleet]\n{fleet}\n[factors]\noffload = [\"none\", \"tso\"]\n");
        parse("t", "t.toml", &text).map_err(|errors| errors.to_string())
    }

    #[test]
    fn nodes_are_sorted_and_the_testbed_is_that_of_a_pair() {
        let study =
            read(&format!("{NODES}\npattern = \"ring\"\nat-once = 1\nagent = \"/opt/linkrate\""))
                .unwrap();
        let fleet = study.fleet.clone().unwrap();
        let names: Vec<&str> = fleet.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert_eq!((fleet.pattern, fleet.at_once), (Pattern::Ring, 1));
        assert_eq!(
            (study.method.order, study.most_turns()),
            (Order::Independent, 3 * study.method.max_blocks)
        );
        let linkrate_terms::spec::Adapter::Interfaces(on) = &study.testbed.adapter else {
            panic!()
        };
        assert_eq!((on.names[0].as_str(), on.program.as_str()), ("eth2", "/opt/linkrate"));
        assert_eq!(on.clients[0].to_string(), "ssh:b,10.0.0.2");
        assert_eq!(on.sut.as_ref().unwrap().to_string(), "ssh:c");
    }

    #[test]
    fn a_list_is_in_the_file_or_beside_it_or_given() {
        let text = |keys: &str| {
            format!("title = \"t\"\n[fleet]\n{keys}\n[factors]\noffload = [\"none\", \"tso\"]\n")
        };
        let mut load = |path: &str| match path {
            "hosts.txt" => Ok("x ssh:x eth1\ny ssh:y eth1\n".to_owned()),
            _ => Ok("x ssh:x eth1\ny y eth1\n".to_owned()),
        };
        let beside = parse_with("t", "t.toml", &text("hosts = \"hosts.txt\""), &mut load).unwrap();
        assert_eq!(beside.fleet.unwrap().nodes[1].name, "y");
        let wrong = parse_with("t", "t.toml", &text("hosts = \"bad.txt\""), &mut load).unwrap_err();
        assert!(
            wrong.to_string().contains("fleet.hosts: bad.txt:2: \"y\": expected \"ssh:HOST\""),
            "{wrong}"
        );
        let nodes = hosts::parse("p ssh:p eth1\nq ssh:q eth1\n").unwrap();
        for keys in ["hosts = \"hosts.txt\"", "pattern = \"bisection\""] {
            let given = parse_nodes("t", "t.toml", &text(keys), &mut load, &nodes).unwrap();
            assert_eq!(given.fleet.unwrap().nodes[0].name, "p");
        }
    }

    #[test]
    fn errors_name_key_and_value() {
        for (keys, part) in [
            ("pattern = \"ring\"", "fleet: the nodes are missing; add hosts = "),
            (&format!("{NODES}\npattern = \"incast\""), "fleet.pattern: unknown "),
            (
                &format!("{NODES}\npattern = \"bisection\""),
                "bisection of 3 nodes, expected an even number",
            ),
            (&format!("{NODES}\nat-once = 2"), "fleet.at-once: 2"),
            (&format!("{NODES}\nhosts = \"h\""), "fleet.nodes: nodes beside hosts"),
            (&format!("{NODES}\nspeed = 3"), "fleet: unknown key \"speed\""),
            (
                "nodes = [\"a ssh:a eth1\", \"a ssh:b eth1\"]",
                "node 2 of the list: node a is in line 1",
            ),
            ("nodes = [1, 2]", "1 is not a node"),
        ] {
            let error = read(keys).unwrap_err();
            assert!(error.contains(part), "{keys}: {error}");
        }
    }
}
