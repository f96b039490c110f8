//! `[testbed]`.

use linkrate_terms::spec::Adapter;
use linkrate_terms::{CpuSet, TestbedSpec};
use toml::de::DeValue;

use super::reader::{Entry, Reader, Table, described};

/// Longest CPU list that is read: a short text may stand for many CPUs many times over.
const LONGEST_LIST: usize = 1024;

/// The testbed; `clients` is what each cell takes that sets none itself.
pub(super) fn read(reader: &mut Reader<'_>, table: Option<Table<'_>>) -> TestbedSpec {
    let mut testbed = TestbedSpec::default();
    let Some(mut table) = table else { return testbed };
    if let Some(entry) = table.take("adapter")
        && reader.word(&entry, &["veth"]).is_some()
    {
        testbed.adapter = Adapter::Veth;
    }
    if let Some(entry) = table.take("clients")
        && let Some(clients) = reader.number(&entry, 1, 64)
    {
        testbed.clients = u32::try_from(clients).unwrap_or(1);
    }
    let sut = table.take("sut-cpus");
    let client = table.take("client-cpus");
    testbed.sut_cpus = sut.as_ref().and_then(|entry| cpus(reader, entry));
    testbed.client_cpus = client.as_ref().and_then(|entry| cpus(reader, entry));
    if let (Some(entry), Some(sut), Some(client)) =
        (&client, &testbed.sut_cpus, &testbed.client_cpus)
        && sut.overlaps(client)
        && sut != client
    {
        // The same CPUs for both is a placement one may ask for (it is fastest on a machine
        // whose CPUs interrupt each other slowly); half an overlap is a slip.
        let message = format!("CPUs {client} overlap with sut-cpus {sut}");
        reader.refuse(entry, message, "keep them apart, or give both the same CPUs");
    }
    table.finish(reader);
    testbed
}

fn cpus(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<CpuSet> {
    let list = match entry.value() {
        DeValue::String(text) => text.to_string(),
        other => described(other),
    };
    let parsed = if list.len() > LONGEST_LIST { None } else { list.parse::<CpuSet>().ok() };
    if parsed.is_none() {
        let message = format!("{} is not a CPU list", described(entry.value()));
        reader.refuse(entry, message, "expected for example \"0\" or \"0-3,8\"");
    }
    parsed
}
