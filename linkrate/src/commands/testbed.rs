//! The testbed that the options describe.

use std::path::Path;

use linkrate_model::TestbedSpec;
use linkrate_model::spec::Adapter;
use linkrate_study::adapter;
use linkrate_study::bounds::{SCALE_EXPECTED, SCALES};

use crate::exit::{Exit, Failure};
use crate::input::load_model;

/// The testbed with the adapter of that name, or of that file.
pub fn testbed_of(
    adapter: &str,
    clients_per_port: Option<u32>,
    scale: Option<f64>,
) -> Result<TestbedSpec, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let adapter = adapter::find(adapter, &mut |path| load_model(Path::new(path)))
        .map_err(|error| usage(format!("--adapter: {error}")))?;
    if let Adapter::Veth = adapter {
        let given =
            [("--clients-per-port", clients_per_port.is_some()), ("--scale", scale.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            let hint = "leave it out, or choose a model, for example --adapter gigabit";
            return Err(usage(format!("{option} does not apply to a veth pair; {hint}")));
        }
    }
    let scale = scale.unwrap_or(1.0);
    if !SCALES.contains(&scale) {
        return Err(usage(format!("--scale: {scale} is out of range; {SCALE_EXPECTED}")));
    }
    let clients_per_port = clients_per_port.unwrap_or(1);
    Ok(TestbedSpec { adapter, clients_per_port, scale, ..TestbedSpec::default() })
}
