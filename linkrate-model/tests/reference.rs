//! The book's page about models against the models.

use linkrate_model::model;

#[test]
fn the_page_of_models_has_their_moderation_and_rings() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/concepts/emulation.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| Model | `rx-usecs`"));
    let rows: Vec<&str> = rows.skip(2).take_while(|line| line.starts_with('|')).collect();
    for model in model::built_in() {
        let quoted = format!("`{}`", model.name);
        let row = rows.iter().find(|row| row.contains(&quoted));
        let row = row.unwrap_or_else(|| panic!("no row of {quoted}"));
        let fields: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, names, usecs, why, rings, why_rings, _] = fields[..] else { panic!("{row}") };
        // a row has one value for all of its models, or one for each
        let place = names.split(", ").position(|name| name == quoted).expect("its name");
        let of_each: Vec<&str> = usecs.split(", ").collect();
        let usecs = of_each.get(place).unwrap_or(&of_each[0]);
        let defaults = &model.defaults;
        assert_eq!(usecs.parse(), Ok(defaults.rx_usecs), "{quoted}");
        assert_eq!(defaults.rx_usecs, defaults.tx_usecs, "{quoted}");
        assert_eq!(rings, format!("{}, {}", model.transmit_ring, model.receive_ring), "{quoted}");
        // each says where it comes from
        for source in [why, why_rings] {
            let said = ["assumed", "paper", "measured"].iter().any(|word| source.starts_with(word));
            assert!(said, "{quoted}: {source}");
        }
    }
}
