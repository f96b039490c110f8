//! Factors with a name of the file's own, whose levels set several things:
//! `interrupts = { fixed = { rx-usecs = 100 }, adaptive = { adaptive-rx = "on" } }`.

use linkrate_model::TestbedSpec;

use super::question::{PlacedFactor, apply_all, refuse, settings};
use super::reader::{Entry, Reader, Table, described};
use crate::bounds::MAX_LEVELS;
use crate::keys::{self, Setup};
use crate::levels::Level;
use crate::study::{Factor, PART};

/// Refuses levels that set what another factor sets.
pub(super) fn apart(reader: &mut Reader<'_>, factors: &[PlacedFactor]) -> bool {
    let mut sound = true;
    for (index, placed) in factors.iter().enumerate() {
        for set in placed.sets.iter().flatten().flatten() {
            let others = factors.iter().enumerate().filter(|(other, _)| *other != index);
            let other = others.map(|(_, other)| other).find(|other| other.overlaps(&set.key));
            if let Some(other) = other {
                let message = format!("sets what factor {} sets", other.factor.name);
                reader.error(set.at, &set.path, message, Some("leave one out".to_owned()));
                sound = false;
            }
        }
    }
    sound
}

/// One of them; `None` after an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    levels: Table<'_>,
    testbed: &TestbedSpec,
) -> Option<PlacedFactor> {
    if keys::find(&entry.name).is_ok() || entry.name == PART {
        let hint = match entry.name.as_str() {
            PART => "give it another name".to_owned(),
            key => {
                format!("give an array of its values, as in {key} = [...], or give it another name")
            }
        };
        reader.refuse_key(entry, "is the name of a setting".to_owned(), hint);
        return None;
    }
    let mut sound = is_name(reader, entry);
    if levels.entries.len() > MAX_LEVELS || levels.entries.is_empty() {
        let message = format!("{} levels, expected 1 to {MAX_LEVELS}", levels.entries.len());
        reader.refuse(entry, message, "name each level, as in { fixed = { rx-usecs = 100 } }");
        return None;
    }
    let (mut names, mut levels_at, mut sets) = (Vec::new(), Vec::new(), Vec::new());
    let mut setups: Vec<Setup> = Vec::new();
    for level in &levels.entries {
        if reader.is_full() {
            return None;
        }
        sound &= is_name(reader, level);
        let Some(table) = level.own_table() else {
            let message = format!("{} is not a table", described(level.value()));
            reader.refuse(level, message, "give what it sets, as in { rx-usecs = 100 }");
            sound = false;
            continue;
        };
        let Some(settings) = settings(reader, Some(table), testbed) else {
            sound = false;
            continue;
        };
        let mut setup = Setup::default();
        apply_all(&mut setup, &settings);
        if let Some(same) = setups.iter().position(|other| *other == setup) {
            let message = format!("sets the same as {}", names[same]);
            reader.refuse_key(level, message, "leave one out");
            sound = false;
            continue;
        }
        setups.push(setup);
        names.push(Level::Text(level.name.clone()));
        levels_at.push(level.key_at());
        sets.push(settings);
    }
    let factor = Factor { name: entry.name.clone(), levels: names, effects: true };
    let (path, key_at) = (entry.path(), entry.key_at());
    sound.then_some(PlacedFactor { factor, path, key_at, levels_at, sets: Some(sets) })
}

/// Whether a key can name a factor or a level; an error if not.
fn is_name(reader: &mut Reader<'_>, entry: &Entry<'_>) -> bool {
    // the names of repetitions are bounded likewise
    let level = Level::Text(entry.name.clone());
    let error = keys::apply(&mut Setup::default(), "repeat", &level).err();
    if let Some(error) = &error {
        refuse(reader, entry, entry.key_at(), error, "name");
    }
    error.is_none()
}

#[cfg(test)]
mod tests {
    use linkrate_model::RunSpec;

    use super::super::tests::{errors, refused};
    use crate::analysis::effects::comparisons;
    use crate::file::parse;
    use crate::study::Study;

    const FILE: &str = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\nmtu = [1500, 576]\n\
                        [factors.interrupts]\n\"at once\" = { rx-usecs = 0 }\nas-it-is = {}\n\
                        adaptive = { adaptive-rx = \"on\", rx-usecs = 70 }\n[workload]\nrx-usecs = 30\n";

    fn study(text: &str) -> Study {
        parse("t", "t.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn each_level_sets_what_it_says_and_leaves_the_rest() {
        let study = study(FILE);
        let of = |spec: &RunSpec| (spec.interface.port.rx_usecs, spec.interface.port.adaptive_rx);
        let set: Vec<_> = study.cells.iter().map(|cell| of(&cell.spec)).collect();
        let levels = [(Some(0), None), (Some(30), None), (Some(70), Some(true))];
        assert_eq!(set, [levels, levels].concat());
        let names: Vec<String> = study.cells.iter().map(|cell| cell.levels.to_string()).collect();
        assert_eq!(names[..2], ["mtu 1500, at once", "mtu 1500, as-it-is"]);
        let asked = comparisons(&study);
        assert!(asked.iter().any(|one| one.factor == "interrupts"), "{asked:?}");
        assert_eq!(study.check(), Ok(()));
    }

    #[test]
    fn errors_name_the_place_and_the_remedy() {
        for (from, to, expected) in [
            (
                "[factors.interrupts]",
                "[factors.gro]",
                "factors.gro: is the name of a setting; give an array",
            ),
            (
                "[factors.interrupts]",
                "[factors.part]",
                "factors.part: is the name of a setting; give it",
            ),
            (
                "as-it-is = {}",
                "as-it-is = 3",
                "factors.interrupts.as-it-is: 3 is not a table; give what",
            ),
            ("as-it-is = {}", "more = { rx-usecs = 0 }", "sets the same as at once; leave one out"),
            (
                "as-it-is = {}",
                "more = { mtu = 900 }",
                "interrupts.more.mtu: sets what factor mtu sets",
            ),
            ("as-it-is = {}", "more = { rx-usec = 9 }", "did you mean \"rx-usecs\"?"),
            ("as-it-is = {}", "\"\\u001b\" = {}", "expected a name of up to 24 letters"),
            (
                "as-it-is = {}",
                "more = { rx-usecs = 9 }",
                "workload.rx-usecs: no cell uses this setting",
            ),
            (
                "as-it-is = {}",
                "more = { burst = 9 }",
                "interrupts.more.burst: cell \"mtu 1500, more\"",
            ),
            ("as-it-is = {}", "more = { request = 9 }", "workloads of kind stream do not use it"),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{from}");
            refused(&text, expected);
        }
        let whens = format!("{FILE}[[when]]\nis = {{ mtu = 576 }}\nset = {{ rx-usecs = 9 }}\n");
        refused(&whens, "when.set.rx-usecs: is set by factor interrupts; remove it");
        let none = "title = \"t\"\n[factors]\ninterrupts = {}\n";
        assert_eq!(errors(none).len(), 1);
        refused(none, "0 levels, expected 1 to 64");
    }
}
