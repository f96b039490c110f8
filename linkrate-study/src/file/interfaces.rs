//! `interface`, `clients` and `agent` of `[testbed]`: interfaces that exist already.

use linkrate_model::nearest::shortened;
use linkrate_model::{Interfaces, Peer, TestbedSpec};
use toml::de::DeValue;

use super::reader::{Entry, Reader, Table, described};
use crate::bounds::MAX_CLIENTS;

/// Reads them from the key `interface`. After an error the testbed is on veth.
pub(super) fn read(
    reader: &mut Reader<'_>,
    table: &mut Table<'_>,
    entry: &Entry<'_>,
    testbed: &mut TestbedSpec,
) {
    let beside = "an existing interface has its own hardware; leave one of the two out";
    for key in ["adapter", "ports", "clients-per-port", "scale"] {
        if let Some(other) = table.take(key) {
            let message = format!("{key} cannot be combined with interface");
            reader.refuse_key(&other, message, beside);
        }
    }
    let errors = reader.errors();
    let names = texts(reader, entry, "an interface such as \"eth1\", or a list of them");
    let clients = match table.take("clients") {
        Some(clients) => clients_of(reader, &clients),
        None => {
            let hint = "expected for example clients = [\"ssh:lab2\"]";
            reader.refuse_key(entry, "clients are missing".to_owned(), hint);
            Vec::new()
        }
    };
    let program = table
        .take("agent")
        .and_then(|entry| reader.line(&entry, 255, "the linkrate program at the peer of ssh"));
    if reader.errors() > errors {
        return;
    }
    match Interfaces::new(names, clients, program) {
        Ok(interfaces) => *testbed = testbed.clone().on_interfaces(interfaces),
        Err(error) => reader.error(entry.value_at(), &entry.path(), error.to_string(), None),
    }
}

fn clients_of(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Vec<Peer> {
    let expected = "a list such as [\"ssh:lab2\"]";
    let mut ends = Vec::new();
    for text in texts(reader, entry, expected) {
        match text.parse() {
            // a file may come from anybody
            Ok(Peer::Command { .. }) => {
                let message = format!("{text:?} is a command, and a study file starts none");
                let hint = "give it on the command line: --interface NAME --client 'exec:COMMAND'";
                reader.refuse(entry, message, hint);
            }
            Ok(end) => ends.push(end),
            Err(error) => {
                let message = format!("{error}");
                reader.error(entry.value_at(), &entry.path(), message, None);
            }
        }
    }
    if ends.len() > MAX_CLIENTS as usize {
        let message = format!("{} clients, more than {MAX_CLIENTS}", ends.len());
        reader.refuse(entry, message, "leave some out");
    }
    ends
}

/// One text, or a list of them.
fn texts(reader: &mut Reader<'_>, entry: &Entry<'_>, expected: &str) -> Vec<String> {
    let values: Vec<&DeValue<'_>> = match entry.value() {
        DeValue::Array(values) => values.iter().map(|value| value.get_ref()).collect(),
        value => vec![value],
    };
    let mut found = Vec::new();
    for value in values {
        match value {
            DeValue::String(text) => found.push(text.to_string()),
            other => {
                let message = format!("{} is not text", shortened(&described(other)));
                reader.refuse(entry, message, format_args!("expected {expected}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
