//! `[testbed]`.

use linkrate_model::spec::Adapter;
use linkrate_model::{BitRate, CpuMeter, CpuSet, Interfaces, TestbedSpec};
use toml::de::DeValue;

use super::interfaces;
use super::reader::{Entry, Reader, Table, described};
use crate::adapter::{self, AdapterError, LoadFile};
use crate::bounds::{MAX_CLIENTS, MAX_PORTS, SCALE_EXPECTED, SCALES};

/// Keys that choose the testbed's backend.
const OF_AN_ADAPTER: [&str; 13] = [
    "adapter",
    "interface",
    "clients",
    "agent",
    "ports",
    "clients-per-port",
    "bridged-clients",
    "aggregate",
    "switches",
    "spread-clients",
    "router",
    "line-rate",
    "scale",
];

/// The remedy for a testbed beside a fleet.
const FLEET_OR_TESTBED: &str =
    "leave it out, or [fleet]; the interface of each node is in the list of nodes";

/// What the line rate of all links may be, bit/s.
const LINE_RATES: std::ops::RangeInclusive<f64> = 1e6..=100e9;

/// Longest CPU list that is read: a short text may stand for many CPUs many times over.
const MAX_LIST: usize = 1024;

/// The testbed; `clients` and `ports` are the defaults of the cells. Beside a fleet of the same file, a testbed
/// is an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    table: Option<Table<'_>>,
    load: &mut LoadFile<'_>,
    on: Option<&Interfaces>,
    beside_fleet: bool,
) -> TestbedSpec {
    let mut testbed = TestbedSpec { adapter: adapter::default(), ..TestbedSpec::default() };
    if let Some(on) = on {
        testbed = testbed.on_interfaces(on.clone());
    }
    let Some(mut table) = table else { return testbed };
    if beside_fleet {
        for entry in OF_AN_ADAPTER.into_iter().filter_map(|key| table.take(key)) {
            let message = format!("{} beside [fleet], whose nodes are the testbed", entry.name);
            reader.refuse_key(&entry, message, FLEET_OR_TESTBED);
        }
    } else if on.is_some() {
        // the testbed of the command line takes the place of the file's
        for key in OF_AN_ADAPTER {
            let _ = table.take(key);
        }
    } else if let Some(entry) = table.take("interface") {
        interfaces::read(reader, &mut table, &entry, &mut testbed);
    } else {
        adapter_and_clients(reader, &mut table, load, &mut testbed);
    }
    let sut = table.take("sut-cpus");
    let client = table.take("client-cpus");
    testbed.sut_cpus = sut.as_ref().and_then(|entry| cpus(reader, entry));
    testbed.client_cpus = client.as_ref().and_then(|entry| cpus(reader, entry));
    // on other machines they are CPUs of two machines
    let apart = matches!(&testbed.adapter, Adapter::Interfaces(on) if on.is_remote());
    if let (Some(entry), Some(sut), Some(client)) =
        (&client, &testbed.sut_cpus, &testbed.client_cpus)
        && !apart
        && sut.overlaps(client)
        && sut != client
    {
        // The same CPUs for both is a placement one may ask for (it is fastest on a machine
        // whose CPUs interrupt each other slowly); half an overlap is a slip.
        let message = format!("CPUs {client} overlap with sut-cpus {sut}");
        reader.refuse(entry, message, "keep them apart, or give both the same CPUs");
    }
    if let Some(entry) = table.take("cpu-meter") {
        let word = reader.word(&entry, &CpuMeter::ALL.map(CpuMeter::word));
        testbed.cpu_meter = word.and_then(CpuMeter::from_word).unwrap_or_default();
    }
    table.finish(reader);
    testbed
}

/// What stands on virtual adapters or on veth.
fn adapter_and_clients(
    reader: &mut Reader<'_>,
    table: &mut Table<'_>,
    load: &mut LoadFile<'_>,
    testbed: &mut TestbedSpec,
) {
    // a refused adapter is neither veth nor a model: keys of either are then accepted
    let mut known = true;
    let adapter_entry = table.take("adapter");
    let default = adapter_entry.is_none();
    if let Some(entry) = adapter_entry {
        match adapter(reader, &entry, load) {
            Some(adapter) => testbed.adapter = adapter,
            None => known = false,
        }
    }
    let on_model = matches!(testbed.adapter, Adapter::Model(_));
    if on_model {
        // the study keeps those that its cells ask for
        testbed.others = linkrate_model::model::with_emulated().collect();
    }
    if let Some(entry) = table.take("line-rate") {
        if known && !on_model {
            refuse_key(reader, &entry, &testbed.adapter);
        } else if let Some(rate) = line_rate(reader, &entry) {
            for model in &mut testbed.others {
                model.rate = Some(rate);
            }
            if let Adapter::Model(model) = &mut testbed.adapter {
                model.rate = Some(rate);
            }
        }
    }
    aggregate(reader, table, known, testbed);
    fabric(reader, table, testbed);
    for (key, of_model, high) in [
        ("clients", false, MAX_CLIENTS),
        ("ports", true, MAX_PORTS),
        ("clients-per-port", true, MAX_PORTS),
    ] {
        let Some(entry) = table.take(key) else { continue };
        let is_list = key == "clients" && matches!(entry.value(), DeValue::Array(_));
        if is_list && (default || !on_model) {
            let message = "a list of clients needs interface".to_owned();
            let hint =
                "add interface = \"eth1\", or set adapter = \"veth\" and a number of clients";
            reader.refuse(&entry, message, hint);
        } else if testbed.aggregate > 0 && of_model {
            let message = "the ports of an aggregate act as one".to_owned();
            let hint = "set aggregate, the number of ports, and clients";
            reader.refuse_key(&entry, message, hint);
        } else if known && of_model != on_model && testbed.aggregate == 0 {
            refuse_key(reader, &entry, &testbed.adapter);
        } else if let Some(number) = reader.count(&entry, 1, high) {
            match key {
                "clients" => testbed.clients = number,
                "ports" => testbed.ports = number,
                _ => testbed.clients_per_port = number,
            }
        }
    }
    bridged(reader, table, known, testbed);
    if let Some(entry) = table.take("scale") {
        if known && !on_model {
            refuse_key(reader, &entry, &testbed.adapter);
        } else if let Some(scale) = scale(reader, &entry) {
            testbed.scale = scale;
        }
    }
    if let Some(entry) = table.take("agent") {
        let hint = "set interface and clients, or leave it out";
        reader.refuse_key(&entry, "no client is reached by ssh".to_owned(), hint);
    }
}

/// The ports that act as one, with a client for each unless `clients` says otherwise.
fn aggregate(
    reader: &mut Reader<'_>,
    table: &mut Table<'_>,
    known: bool,
    testbed: &mut TestbedSpec,
) {
    let Some(entry) = table.take("aggregate") else { return };
    if known && !matches!(testbed.adapter, Adapter::Model(_)) {
        refuse_key(reader, &entry, &testbed.adapter);
    } else if let Some(number) = reader.count(&entry, 1, MAX_PORTS) {
        testbed.aggregate = number;
        testbed.clients = testbed.aggregate;
        testbed.ports = testbed.aggregate;
    }
}

/// The clients that are on Ethernet, behind a bridge into the emulated LAN of the others.
fn bridged(reader: &mut Reader<'_>, table: &mut Table<'_>, known: bool, testbed: &mut TestbedSpec) {
    let Some(entry) = table.take("bridged-clients") else { return };
    let Some(bridged_clients) = reader.count(&entry, 0, MAX_PORTS) else { return };
    let with = TestbedSpec { bridged_clients, ..testbed.clone() };
    match with.check_bridge() {
        Ok(()) => *testbed = with,
        Err(error) if known => reader.refuse(&entry, error.to_string(), error.hint()),
        Err(_) => {}
    }
}

/// What is between the ports of an aggregate and its clients.
fn fabric(reader: &mut Reader<'_>, table: &mut Table<'_>, testbed: &mut TestbedSpec) {
    let mut of_an_aggregate = |reader: &mut Reader<'_>, name: &'static str| {
        let entry = table.take(name)?;
        if testbed.aggregate > 0 {
            return Some(entry);
        }
        let message = format!("{name} is of the fabric of an aggregate");
        let hint = "set aggregate, the number of ports that act as one, or leave it out";
        reader.refuse_key(&entry, message, hint);
        None
    };
    let switches = of_an_aggregate(reader, "switches");
    let spread = of_an_aggregate(reader, "spread-clients");
    let router = of_an_aggregate(reader, "router");
    if let Some(number) = switches.and_then(|entry| reader.count(&entry, 1, 2)) {
        testbed.switches = number;
    }
    if let Some(entry) = spread
        && let Some(spread) = reader.switch(&entry)
    {
        testbed.spread_clients = spread;
        if spread && testbed.switches < 2 {
            let message = "clients are spread over two switches".to_owned();
            reader.refuse(&entry, message, "set switches = 2, or leave it out");
        }
    }
    if let Some(entry) = router
        && let Some(router) = reader.switch(&entry)
    {
        testbed.router = router;
        if router && testbed.switches > 1 {
            let message = "a router and two switches".to_owned();
            reader.refuse(&entry, message, "set one of router and switches = 2");
        }
    }
}

/// The adapter; `None` after an error.
fn adapter(reader: &mut Reader<'_>, entry: &Entry<'_>, load: &mut LoadFile<'_>) -> Option<Adapter> {
    let given = reader.text(entry, "veth, or a model such as \"gigabit\"")?;
    match adapter::find(given, load) {
        Ok(adapter) => Some(adapter),
        Err(error) => {
            let message = match &error {
                AdapterError::Unknown { given, .. } => format!("unknown adapter {given:?}"),
                _ => error.to_string(),
            };
            reader.error(entry.value_at(), &entry.path(), message, error.hint());
            None
        }
    }
}

fn refuse_key(reader: &mut Reader<'_>, entry: &Entry<'_>, adapter: &Adapter) {
    let (message, hint) = match adapter {
        Adapter::Veth => {
            (format!("veth pairs have no {}", entry.name), "set clients, or adapter = \"gigabit\"")
        }
        Adapter::Model(model) => (
            format!("adapter {} takes its clients from ports and clients-per-port", model.name),
            "set ports and clients-per-port, or aggregate, or adapter = \"veth\"",
        ),
        Adapter::Interfaces(_) => (
            format!("existing interfaces have no {}", entry.name),
            "list the interfaces in interface and their clients in clients",
        ),
        // no study file names it
        Adapter::Unknown => (
            format!("{} of a testbed that is not known", entry.name),
            "leave it out, or set adapter",
        ),
    };
    reader.refuse_key(entry, message, hint);
}

/// A share of the model's rates.
fn scale(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<f64> {
    let number = match entry.value() {
        DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
        DeValue::Integer(integer) if integer.as_str() == "1" => Some(1.0),
        _ => None,
    };
    let valid = number.filter(|number| SCALES.contains(number));
    if valid.is_none() {
        let message = format!("{} is not a share of the model's rates", described(entry.value()));
        reader.refuse(entry, message, SCALE_EXPECTED);
    }
    valid
}

/// The rate of every model's links, instead of its own.
fn line_rate(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<BitRate> {
    const EXPECTED: &str = "expected a rate from 1 Mb/s to 100 Gb/s, for example \"622.08 Mb/s\"";
    let text = reader.text(entry, EXPECTED)?;
    let rate = text.trim().parse::<BitRate>().ok();
    let valid = rate.filter(|rate| LINE_RATES.contains(&rate.0));
    if valid.is_none() {
        let message = format!("{} is not a rate of a link", described(entry.value()));
        reader.refuse(entry, message, EXPECTED);
    }
    valid
}

fn cpus(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<CpuSet> {
    let list = match entry.value() {
        DeValue::String(text) => text.to_string(),
        other => described(other),
    };
    let parsed = if list.len() > MAX_LIST { None } else { list.parse::<CpuSet>().ok() };
    if parsed.is_none() {
        let message = format!("{} is not a CPU list", described(entry.value()));
        reader.refuse(entry, message, "expected for example \"0\" or \"0-3,8\"");
    }
    parsed
}

#[cfg(test)]
mod tests;
