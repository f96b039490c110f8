//! Tests of the store as a directory.

use std::fs;

use super::*;
use crate::fixture;
use linkrate_stats::stop::StopReason;

fn facts() -> Facts {
    let mut facts = Facts::default();
    facts.facts.insert("kernel".to_owned(), "6.12.1".to_owned());
    facts
}

fn create(directory: &Path) -> Store {
    Store::create(directory, &fixture::ladder(), facts(), fixture::STARTED_MS).unwrap()
}

fn filled(directory: &Path, count: u32) -> Vec<StoredRun> {
    let mut store = create(directory);
    for n in 0..count {
        let cell = (n % 4).checked_sub(1);
        store.append(&fixture::run(n, n / 4, cell, fixture::stream(1e9, 0.5))).unwrap();
    }
    store.runs().to_vec()
}

#[test]
fn reads_a_stored_study() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    let runs = filled(&path, 6);
    let stored = Store::read(&path).unwrap();
    assert_eq!(stored.runs, runs);
    assert_eq!(stored.plan.study, fixture::ladder());
    assert_eq!(stored.plan.facts, facts());
    assert_eq!((stored.torn, stored.ended), (false, None));
    let source = fs::read_to_string(path.join(STUDY_FILE)).unwrap();
    assert_eq!(source, fixture::ladder().source);
}

#[test]
fn results_are_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("thesis.txt"), "precious").unwrap();
    let error = Store::create(directory.path(), &fixture::ladder(), facts(), 0).unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn two_writers_are_refused_and_readers_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(directory.path());
    let error = Store::resume(directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(Store::read(directory.path()).is_ok());
    drop(store);
    assert!(Store::resume(directory.path()).is_ok());
}

#[test]
fn who_resumes_waits_for_one_that_looks_and_has_the_plan_that_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), 3);
    let looks = fs::File::open(directory.path().join(RUNS_FILE)).unwrap();
    looks.lock_shared().unwrap();
    let path = directory.path().to_owned();
    let resumed = std::thread::spawn(move || Store::resume(&path));
    // it has seen the plan that was there, and waits
    std::thread::sleep(std::time::Duration::from_millis(30));
    let plan = directory.path().join(PLAN_FILE);
    let text = fs::read_to_string(&plan).unwrap();
    let title = fixture::ladder().title;
    assert!(text.contains(&title), "{text}");
    fs::write(&plan, text.replace(&title, "written meanwhile")).unwrap();
    drop(looks);
    let resumed = resumed.join().unwrap().unwrap();
    assert_eq!(resumed.plan().study.title, "written meanwhile");
}

#[test]
fn moves_a_torn_line_to_its_own_file() {
    let directory = tempfile::tempdir().unwrap();
    let runs = filled(directory.path(), 3);
    let path = directory.path().join(RUNS_FILE);
    let bytes = fs::read(&path).unwrap();
    let whole = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();

    let read = Store::read(directory.path()).unwrap();
    assert!(read.torn);
    assert_eq!(read.runs, runs[..2]);
    // reading has changed nothing
    assert_eq!(fs::read(&path).unwrap().len(), bytes.len() - 20);

    let mut store = Store::resume(directory.path()).unwrap();
    assert_eq!(store.runs(), &runs[..2]);
    assert_eq!(store.recovered().unwrap().bytes as usize, bytes.len() - 20 - whole);
    let kept = fs::read(directory.path().join(TORN_FILE)).unwrap();
    assert_eq!(kept[..kept.len() - 1], bytes[whole..bytes.len() - 20]);
    store.append(&runs[2]).unwrap();
    drop(store);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert!(Store::resume(directory.path()).unwrap().recovered().is_none());
}

#[test]
fn damage_in_the_middle_is_an_error_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), 3);
    let path = directory.path().join(RUNS_FILE);
    let mut bytes = fs::read(&path).unwrap();
    bytes[50] ^= 4;
    fs::write(&path, &bytes).unwrap();
    for error in
        [Store::read(directory.path()).unwrap_err(), Store::resume(directory.path()).unwrap_err()]
    {
        assert!(matches!(error, StoreError::Damaged { line: 1, .. }), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert!(!directory.path().join(TORN_FILE).exists());
}

#[test]
fn a_newer_store_is_refused_with_its_version() {
    let directory = tempfile::tempdir().unwrap();
    let text = r#"{"format": 5, "linkrate_version": "9.1.0", "study": {"unheard": "of"}}"#;
    fs::write(directory.path().join(PLAN_FILE), text).unwrap();
    let error = Store::read(directory.path()).unwrap_err();
    assert!(error.to_string().ends_with(
        "plan.json has store format 5, this linkrate reads formats up \
                                     to 1"
    ));
    assert_eq!(error.hint().unwrap(), "use linkrate 9.1.0 or later");
}

#[test]
fn tells_a_missing_store_from_a_damaged_one() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(Store::read(directory.path()), Err(StoreError::NotAStore { .. })));
    for text in ["", "{}", "[]", "{\"format\": 0}", "{\"format\": 1}", "\u{0}"] {
        fs::write(directory.path().join(PLAN_FILE), text).unwrap();
        let error = Store::read(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::DamagedFile { .. }), "{text}: {error}");
    }
}

#[test]
fn a_plan_that_cannot_be_run_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), 0);
    let path = directory.path().join(PLAN_FILE);
    let text = fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("\"confidence\": 0.95", "\"confidence\": 95.0"),
        ("\"precision\": 0.025", "\"precision\": -1.0"),
        ("\"max_blocks\": 6", "\"max_blocks\": 0"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        fs::write(&path, changed).unwrap();
        let error = Store::read(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::DamagedFile { .. }), "{error}");
    }
}

#[test]
fn creates_no_directory_for_an_unreadable_study() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new");
    let mut study = fixture::ladder();
    study.method.minimum_effect = f64::NAN;
    let error = Store::create(&path, &study, facts(), 0).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
    assert!(!path.exists());
}

#[test]
fn the_end_reason_is_kept_until_resume() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = create(directory.path());
    for ended in [
        Ended::Interrupted,
        Ended::Rule(StopReason::Precision { blocks: 5, half_width: 0.02 }),
        Ended::TestbedLost(fixture::failed("agent gone")),
    ] {
        store.finish(&ended).unwrap();
        assert_eq!(Store::read(directory.path()).unwrap().ended, Some(ended));
    }
    drop(store);
    drop(Store::resume(directory.path()).unwrap());
    assert_eq!(Store::read(directory.path()).unwrap().ended, None);
}

#[test]
fn a_run_out_of_sequence_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = create(directory.path());
    let run = fixture::run(1, 0, None, fixture::idle(0.01));
    assert!(matches!(store.append(&run), Err(StoreError::Unreadable { .. })));
    assert_eq!(store.next_sequence(), 0);
}

#[test]
fn reports_changed_facts() {
    let plan = StoredPlan::new(fixture::ladder(), facts(), 0);
    assert_eq!(plan.changed_facts(&facts()), Vec::<String>::new());
    let mut now = facts();
    now.facts.insert("kernel".to_owned(), "6.13.0".to_owned());
    now.facts.insert("cpu-model".to_owned(), "x".to_owned());
    assert_eq!(
        plan.changed_facts(&now),
        [
            "kernel was 6.12.1 when the study began, now 6.13.0",
            "cpu-model was not known when the study began, now x"
        ]
    );
}

#[test]
fn a_plan_that_would_be_too_long_to_read_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results");
    let mut facts = facts();
    facts.warnings = vec!["x".repeat(plan::MAX_DOCUMENT_BYTES as usize)];
    let error = Store::create(&path, &fixture::ladder(), facts, 0).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("expected at most 16777216"), "{error}");
    assert!(!path.exists());
}

#[test]
fn texts_of_a_peer_are_stored_and_read_without_escape_sequences() {
    let directory = tempfile::tempdir().unwrap();
    let mut facts = facts();
    facts.facts.insert("kernel".to_owned(), "6.12\u{1b}[2J\nerror: x".to_owned());
    let mut store = Store::create(directory.path(), &fixture::ladder(), facts, 0).unwrap();
    let reason = "peer: \u{9b}31m";
    store.append(&fixture::run(0, 0, None, fixture::failed(reason))).unwrap();
    assert_eq!(store.plan().facts.facts["kernel"], "6.12\u{fffd}[2J error: x");
    let read = Store::read(directory.path()).unwrap();
    assert_eq!(read.plan.facts, store.plan().facts);
    assert_eq!(read.runs[0].failure().unwrap().reason, "peer: \u{fffd}31m");
    assert_eq!(read.runs, store.runs());
}
