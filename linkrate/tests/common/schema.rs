//! Documents against the schemas that the program prints, by a validator that is not its own.

use boon::{Compiler, Schemas};
use serde_json::Value;

use super::linkrate;

/// Fails unless `document` is what `linkrate schema WHICH` promises.
#[track_caller]
pub fn check(which: &str, document: &Value) {
    if let Err(reason) = validate(which, document) {
        panic!("the document is not what `schema {which}` promises:\n{reason}");
    }
}

/// What the schema has against a document.
pub fn validate(which: &str, document: &Value) -> Result<(), String> {
    let schema = linkrate(&format!("schema {which}")).expect_code(0).json();
    let id = schema["$id"].as_str().expect("a schema has an $id").to_owned();
    let mut compiler = Compiler::new();
    compiler.add_resource(&id, schema).map_err(|error| error.to_string())?;
    let mut schemas = Schemas::new();
    let index = compiler.compile(&id, &mut schemas).map_err(|error| format!("{error:#}"))?;
    schemas.validate(document, index).map_err(|error| format!("{error:#}"))
}
