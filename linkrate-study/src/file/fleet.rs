//! `[fleet]`.

use linkrate_model::nearest::shortened;
use linkrate_model::{Direction, Task};
use toml::de::DeValue;

use super::reader::{Entry, Reader, Table, described};
use crate::adapter::LoadFile;
use crate::fleet::hosts::{self, HostsError};
use crate::fleet::{Fleet, Given, Hub, Node, Pattern};
use crate::study::Cell;

/// The fleet; `None` without one, or after an error. `given` nodes take the place of the file's.
pub(super) fn read(
    reader: &mut Reader<'_>,
    table: Option<Table<'_>>,
    load: &mut LoadFile<'_>,
    given: Option<&Given>,
) -> Option<Fleet> {
    let Some(mut table) = table else {
        let given = given?;
        let mut fleet = Fleet::of(given.nodes.clone());
        choose(&mut fleet, given.pattern.unwrap_or_default());
        return Some(fleet);
    };
    let errors = reader.errors();
    let (list, lines) = (table.take("hosts"), table.take("nodes"));
    let nodes = match (given, list, lines) {
        (Some(given), ..) => Some(given.nodes.clone()),
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
        choose(&mut fleet, pattern);
    }
    if let Some(pattern) = given.and_then(|given| given.pattern) {
        choose(&mut fleet, pattern);
    }
    if let Some(entry) = table.take("hubs") {
        hubs(reader, &entry, &mut fleet);
    }
    if let Some(entry) = table.take("at-once")
        && let Some(number) = reader.count(&entry, 1, fleet.at_once)
    {
        fleet.at_once = number;
    }
    if let Some(entry) = table.take("agent")
        && let Some(program) = reader.line(&entry, 255, "the linkrate program of the nodes")
    {
        fleet.program = program;
    }
    table.finish(reader);
    (reader.errors() == errors).then_some(fleet)
}

/// Sets the pattern. One turn with a node in the middle needs all nodes.
fn choose(fleet: &mut Fleet, pattern: Pattern) {
    fleet.pattern = pattern;
    if pattern.hub().is_some() {
        fleet.at_once = 1;
    }
}

/// The nodes in the middle, by their names.
fn hubs(reader: &mut Reader<'_>, entry: &Entry<'_>, fleet: &mut Fleet) {
    const EXPECTED: &str = "expected a list of names of nodes such as [\"n1\", \"n2\"]";
    let DeValue::Array(values) = entry.value() else {
        return reader.refuse(
            entry,
            format!("{} is not a list", described(entry.value())),
            EXPECTED,
        );
    };
    if values.is_empty() {
        return reader.refuse(entry, "the list is empty".to_owned(), EXPECTED);
    }
    for value in values.iter() {
        let DeValue::String(name) = value.get_ref() else {
            let message = format!("{} is not a name", shortened(&described(value.get_ref())));
            return reader.refuse(entry, message, EXPECTED);
        };
        match (0..).zip(&fleet.nodes).find(|(_, node)| node.name == **name) {
            Some((number, _)) => fleet.hubs.push(number),
            None => {
                return reader.refuse(
                    entry,
                    format!("{} is not a node of the list", shortened(name)),
                    EXPECTED,
                );
            }
        }
    }
}

/// The direction of the cells that a pattern with a node in the middle asks for, where the study says none.
pub(super) fn direct(reader: &mut Reader<'_>, fleet: &Fleet, cells: &mut [Cell], is_set: bool) {
    let direction = match fleet.pattern.hub() {
        None => return,
        Some(Hub::Receives) => Direction::Receive,
        Some(Hub::Sends) => Direction::Transmit,
    };
    let workloads = || {
        cells.iter().filter_map(|cell| match &cell.spec.task {
            Task::Workload(workload) if !workload.kind.is_transactional() => {
                Some(workload.direction)
            }
            _ => None,
        })
    };
    let is_set = is_set || workloads().any(|set| set != Direction::Transmit);
    if is_set && workloads().any(|set| set != direction) {
        let message = format!(
            "direction cannot be combined with pattern {}, in which the hub {}",
            fleet.pattern.word(),
            if direction == Direction::Receive { "receives" } else { "sends" }
        );
        let hint = "leave direction out of factors and workload";
        return reader.error(0, "fleet.pattern", message, Some(hint.to_owned()));
    }
    for cell in cells {
        if let Task::Workload(workload) = &mut cell.spec.task
            && !workload.kind.is_transactional()
        {
            workload.direction = direction;
        }
    }
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
    use crate::study::Study;
    use linkrate_stats::order::Order;

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
        let linkrate_model::spec::Adapter::Interfaces(on) = &study.testbed.adapter else {
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
            let given = Given { nodes: nodes.clone(), pattern: None };
            let given = parse_nodes("t", "t.toml", &text(keys), &mut load, &given).unwrap();
            assert_eq!(given.fleet.unwrap().nodes[0].name, "p");
        }
        let given = Given { nodes, pattern: Some(Pattern::Ring) };
        for text in [text("pattern = \"bisection\""), text("").replace("[fleet]", "")] {
            let study = parse_nodes("t", "t.toml", &text, &mut load, &given).unwrap();
            assert_eq!(study.fleet.unwrap().pattern, Pattern::Ring);
        }
    }

    fn directions(study: &Study) -> Vec<Direction> {
        let of = |cell: &Cell| match &cell.spec.task {
            Task::Workload(workload) => workload.direction,
            Task::Idle => panic!("an idle cell"),
        };
        study.cells.iter().map(of).collect()
    }

    #[test]
    fn the_pattern_says_which_way_the_node_in_the_middle_works() {
        for (pattern, direction) in
            [("incast", Direction::Receive), ("one-to-many", Direction::Transmit)]
        {
            let keys = format!("{NODES}\npattern = \"{pattern}\"");
            let study = read(&keys).unwrap();
            assert_eq!(directions(&study), [direction; 2]);
            assert_eq!(study.cells[0].spec.clients, 2);
            let same = if direction == Direction::Receive { "receive" } else { "transmit" };
            let other = if direction == Direction::Receive { "transmit" } else { "receive" };
            let set = |word: &str| read(&format!("{keys}\n[workload]\ndirection = \"{word}\""));
            assert_eq!(directions(&set(same).unwrap()), [direction; 2]);
            let error = set(other).unwrap_err();
            assert!(
                error.contains(&format!("direction cannot be combined with pattern {pattern}")),
                "{error}"
            );
        }
        let hubs = read(&format!("{NODES}\npattern = \"incast\"\nhubs = [\"a\"]")).unwrap();
        let fleet = hubs.fleet.unwrap();
        // the nodes are sorted by rack
        assert_eq!(
            (fleet.hubs.clone(), fleet.name(fleet.hubs[0]), fleet.turns()),
            (vec![2], "a", 1)
        );
    }

    #[test]
    fn a_ground_beside_nodes_is_an_error_and_cpus_are_not() {
        let read = |testbed: &str| {
            let fleet = format!("{NODES}\n[testbed]\n{testbed}");
            self::read(&fleet)
        };
        assert!(read("sut-cpus = \"0\"\nclient-cpus = \"1\"").is_ok());
        for (testbed, key) in [
            ("adapter = \"gigabit\"", "adapter"),
            ("interface = \"eth1\"", "interface"),
            ("clients = [\"ssh:x\"]", "clients"),
            ("line-rate = \"1 Gb/s\"", "line-rate"),
        ] {
            let error = read(testbed).unwrap_err();
            let expected = format!(
                "testbed.{key}: {key} beside [fleet], whose nodes are the testbed; leave it out"
            );
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn errors_name_key_and_value() {
        for (keys, part) in [
            ("pattern = \"ring\"", "fleet: the nodes are missing; add hosts = "),
            (&format!("{NODES}\npattern = \"star\""), "fleet.pattern: unknown "),
            (
                &format!("{NODES}\npattern = \"incast\"\nhubs = [\"d\"]"),
                "fleet.hubs: d is not a node of the list",
            ),
            (&format!("{NODES}\nhubs = [\"a\"]"), "with pattern all-pairs, which has none"),
            (&format!("{NODES}\npattern = \"incast\"\nat-once = 2"), "fleet.at-once: 2"),
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
