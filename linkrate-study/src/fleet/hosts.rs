//! The list of a fleet's nodes: a line for each.
//!
//! ```text
//! # name  reached by  interface  labels
//! n1      ssh:n1      eth1       rack=a switch=s1
//! n2      ssh:root@n2,10.0.0.2  eth1  rack=a switch=s1
//! ```

use linkrate_model::interfaces::is_interface_name;
use linkrate_model::{Peer, clean};

use super::{MAX_NODES, Node};

/// Largest list, bytes.
pub const MAX_LIST_BYTES: usize = 1 << 20;

/// Most bytes of a name or a label.
const MAX_WORD: usize = 64;

/// How a name or a label is written.
pub(super) const WORD_EXPECTED: &str =
    "a name: 1 to 64 letters, digits, dots, dashes and underscores";

/// How a node is reached.
pub(super) const END_EXPECTED: &str =
    "expected \"ssh:HOST\" or \"slurm:NODE\", and \",ADDRESS\" after it if needed";

/// How a line is written.
const LINE_EXPECTED: &str =
    "expected NAME ssh:HOST INTERFACE, and rack=NAME and switch=NAME after it if known";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct HostsError {
    /// Line, from 1.
    pub line: usize,
    /// The error with the value, and what would be right.
    pub message: String,
}

/// Whether a text is a name of a node, a rack or a switch.
pub(super) fn is_word(text: &str) -> bool {
    (1..=MAX_WORD).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Reads the nodes of a list; refuses one with fewer than two nodes, or more than [`MAX_NODES`].
pub fn parse(text: &str) -> Result<Vec<Node>, HostsError> {
    let mut nodes: Vec<(usize, Node)> = Vec::new();
    let mut last = 1;
    for (number, line) in (1..).zip(text.lines()) {
        last = number;
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let refused = |message: String| HostsError { line: number, message };
        let node = self::node(line).map_err(refused)?;
        if let Some((first, _)) = nodes.iter().find(|(_, other)| other.name == node.name) {
            return Err(refused(format!("node {} is in line {first} already", node.name)));
        }
        if nodes.len() == MAX_NODES {
            return Err(refused(format!("more than {MAX_NODES} nodes")));
        }
        nodes.push((number, node));
    }
    if nodes.len() < 2 {
        let message = format!("{} nodes, expected 2 or more", nodes.len());
        return Err(HostsError { line: last, message });
    }
    Ok(nodes.into_iter().map(|(_, node)| node).collect())
}

/// The node of a line without its comment.
fn node(line: &str) -> Result<Node, String> {
    let shown = |text: &str| format!("{:?}", clean::short_line(text, 64));
    let mut words = line.split_whitespace();
    let (Some(name), Some(end), Some(interface)) = (words.next(), words.next(), words.next())
    else {
        return Err(format!("{} is not a node: {LINE_EXPECTED}", shown(line)));
    };
    if !is_word(name) {
        return Err(format!("{} is not {WORD_EXPECTED}", shown(name)));
    }
    let end: Peer = end.parse().map_err(|_| format!("{}: {END_EXPECTED}", shown(end)))?;
    // a list may come from anybody
    if !end.is_agent_elsewhere() || end.is_command() {
        return Err(format!("{}: {END_EXPECTED}", shown(&end.to_string())));
    }
    if !is_interface_name(interface) {
        return Err(format!("{} is not an interface name: {LINE_EXPECTED}", shown(interface)));
    }
    let mut node = Node {
        name: name.to_owned(),
        end,
        interface: interface.to_owned(),
        rack: None,
        switch: None,
    };
    for word in words {
        let (place, value) = match word.split_once('=') {
            Some(("rack", value)) => (&mut node.rack, value),
            Some(("switch", value)) => (&mut node.switch, value),
            _ => {
                return Err(format!(
                    "{} is no label: expected rack=NAME or switch=NAME",
                    shown(word)
                ));
            }
        };
        if !is_word(value) {
            return Err(format!("{}: the label is not {WORD_EXPECTED}", shown(word)));
        }
        if place.replace(value.to_owned()).is_some() {
            return Err(format!("{}: a second label of this kind", shown(word)));
        }
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_a_node() {
        let text = "# the lab\nn1 ssh:n1 eth1 rack=a switch=s1\n\n  n2\tssh:root@n2,10.0.0.2 eth2 # slow\r\n";
        let nodes = parse(text).unwrap();
        let of = |node: &Node| (node.name.clone(), node.end.to_string(), node.interface.clone());
        assert_eq!(of(&nodes[0]), ("n1".into(), "ssh:n1".into(), "eth1".into()));
        assert_eq!(of(&nodes[1]), ("n2".into(), "ssh:root@n2,10.0.0.2".into(), "eth2".into()));
        assert_eq!((nodes[0].rack.as_deref(), nodes[0].switch.as_deref()), (Some("a"), Some("s1")));
        assert_eq!(nodes[1].rack, None);
    }

    #[test]
    fn an_error_names_line_and_value() {
        let good = "n1 ssh:n1 eth1\n";
        for (text, line, part) in [
            ("n2 ssh:n2", 2, "expected NAME ssh:HOST INTERFACE"),
            ("n2 n2 eth1", 2, "expected \"ssh:HOST\""),
            ("n2 interface:eth2 eth1", 2, "expected \"ssh:HOST\""),
            ("n2 exec:sh eth1", 2, "expected \"ssh:HOST\""),
            ("n2 iperf3:n2 eth1", 2, "expected \"ssh:HOST\""),
            ("n2 ssh:n2 eth/1", 2, "\"eth/1\" is not an interface name"),
            ("n2 ssh:n2 eth1 row=3", 2, "\"row=3\" is no label"),
            ("n2 ssh:n2 eth1 rack=", 2, "the label is not"),
            ("n2 ssh:n2 eth1 rack=a rack=b", 2, "a second label"),
            ("\nn1 ssh:n2 eth1", 3, "node n1 is in line 1"),
            ("n/2 ssh:n2 eth1", 2, "\"n/2\" is not a name"),
            ("", 1, "1 nodes, expected 2 or more"),
        ] {
            let error = parse(&format!("{good}{text}")).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_an_error(text in "(n[0-9] ssh:[a-z]{1,3} eth[0-9]( rack=[a-z])?\n|[ -~é\n]{0,20}){0,6}") {
            if let Ok(nodes) = parse(&text) {
                prop_assert!(super::super::Fleet::of(nodes).check().is_ok());
            }
        }
    }
}
