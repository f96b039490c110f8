//! Whatever a model file holds, it is an adapter or refused by line and reason, and an adapter is the
//! same once it was stored.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_model::Model;

fuzz_target!(|text: &str| {
    match Model::parse(text) {
        Ok(model) => {
            let stored = serde_json::to_string(&model).expect("a model that was read");
            assert_eq!(serde_json::from_str::<Model>(&stored).expect("what was stored"), model);
            for scale in [1e-3, 0.1, 1.0] {
                let scaled = model.clone().scaled(scale);
                for rate in [scaled.rate, scaled.bus].into_iter().flatten() {
                    assert!(rate.0.is_finite() && rate.0 > 0.0, "{rate:?}");
                }
            }
        }
        Err(error) => assert!(error.to_string().starts_with("line "), "{error}"),
    }
});
