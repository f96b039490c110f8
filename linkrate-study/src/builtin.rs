//! The studies that come with the program: the files of `studies/`, compiled in.

use linkrate_model::nearest::{nearest_name, shortened};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Its name: the file's stem.
    pub name: &'static str,
    /// The file's text; [`crate::file::parse`] reads it.
    pub text: &'static str,
}

impl Builtin {
    /// How messages call its file: `studies/tso.toml`.
    pub fn path(&self) -> String {
        format!("studies/{}.toml", self.name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown study {given:?}; {}", remedy(*.nearest))]
pub struct UnknownStudy {
    pub given: String,
    pub nearest: Option<&'static str>,
}

fn remedy(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => {
            let names: Vec<&str> = all().iter().map(|study| study.name).collect();
            format!("expected a file, or one of {}", names.join(", "))
        }
    }
}

/// Studies by the stems of their files.
macro_rules! built_in {
    ($($name:literal)+) => {
        &[$(Builtin { name: $name, text: include_str!(concat!("../../studies/", $name, ".toml")) }),+]
    };
}

/// The papers' studies first, then those of today.
pub fn all() -> &'static [Builtin] {
    built_in! {
        "tso" "tso-files" "tso-store" "ten-gigabit" "apa" "apa-router"
        "atm" "atm-adapters" "atm-lane" "atm-binding" "toe" "toe-worth-it"
        "jumbo-today" "big-tcp" "interrupts" "cell-tax" "failover" "offload-ladder" "message-size"
        "request-response" "latency-under-load" "peer" "zero-copy" "a-a"
    }
}

pub fn find(name: &str) -> Result<&'static Builtin, UnknownStudy> {
    all().iter().find(|study| study.name == name).ok_or_else(|| UnknownStudy {
        given: shortened(name),
        nearest: nearest_name(name, all().iter().map(|study| study.name)),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use linkrate_model::{ByteSize, MessageSize, Protocol, Task};

    use super::*;
    use crate::file::parse;
    use crate::levels::Level;
    use crate::published::Basis;
    use crate::quick::{QUICK_TIME, form};
    use crate::schedule::{RUN_OVERHEAD, estimate};
    use crate::study::{Cell, PART, Study};

    fn built_in(name: &str) -> Study {
        let builtin = find(name).unwrap();
        parse(builtin.name, &builtin.path(), builtin.text).unwrap()
    }

    #[test]
    fn every_file_of_the_directory_is_built_in_and_parses() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../studies");
        let mut files = 0;
        for file in std::fs::read_dir(directory).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let name = path.file_stem().unwrap().to_str().unwrap();
                let builtin = find(name).unwrap();
                assert_eq!(builtin.text, std::fs::read_to_string(&path).unwrap());
                files += 1;
            }
        }
        assert_eq!(files, all().len());
        for builtin in all() {
            let study = parse(builtin.name, &builtin.path(), builtin.text);
            study.unwrap_or_else(|errors| panic!("{errors}"));
        }
    }

    #[test]
    fn every_one_takes_less_than_five_minutes_and_reaches_its_fewest_blocks() {
        for builtin in all() {
            let study = parse(builtin.name, &builtin.path(), builtin.text).unwrap();
            let estimate = estimate(&study, Duration::from_millis(300));
            assert!(estimate.longest < Duration::from_secs(300), "{}", builtin.name);
            let fewest = estimate.block * study.method.min_blocks;
            assert!(estimate.shortest >= fewest, "{}: {fewest:?}", builtin.name);
        }
    }

    #[test]
    fn the_tso_study_has_the_cells_of_the_paper() {
        let study = built_in("tso");
        assert_eq!(study.paper.as_deref(), Some("tso"));
        assert_eq!((study.testbed.ports, study.testbed.clients), (4, 8));
        assert_eq!((study.cells.len(), study.published.len()), (27, 14));
        assert_eq!(study.cells[26].levels.to_string(), "tso, bidirectional, ports 4");
        // three pairs of rungs at nine combinations of direction and ports, and nothing else
        let comparisons = crate::analysis::effects::comparisons(&study);
        assert_eq!(comparisons.len(), 27);
        assert!(comparisons.iter().all(|comparison| comparison.factor == "offload"));
        assert!(
            study
                .cells
                .iter()
                .all(|cell| Some(cell.spec.clients) == cell.spec.ports.map(|n| n * 2))
        );
    }

    #[test]
    fn each_study_of_a_paper_says_how_it_departs_from_its_method() {
        for builtin in all() {
            let study = parse(builtin.name, &builtin.path(), builtin.text).unwrap();
            let says = builtin.text.contains("# Departures from the paper's method:");
            assert_eq!(says, study.paper.is_some(), "{}", builtin.name);
        }
    }

    /// GRO is off on a fresh virtual adapter.
    #[test]
    fn the_hosts_of_papers_have_no_gro_unless_a_cell_asks_what_it_is_worth() {
        for builtin in all() {
            let study = parse(builtin.name, &builtin.path(), builtin.text).unwrap();
            let gro = crate::levels::Level::Text("gro".to_owned());
            for cell in study.cells.iter().filter(|_| study.paper.is_some()) {
                let asks = cell.levels.get("merge") == Some(&gro);
                assert_eq!(
                    cell.spec.interface.gro == Some(true),
                    asks,
                    "{} {:?}",
                    builtin.name,
                    cell.levels
                );
                let kinds = [cell.spec.interface.gro_list, cell.spec.interface.udp_gro_forwarding];
                assert_eq!(kinds, [None; 2], "{}", builtin.name);
            }
        }
    }

    #[test]
    fn the_tso_studies_beside_it_have_the_traits_that_they_ask_about() {
        let files = built_in("tso-files");
        for cell in &files.cells {
            let Task::Workload(workload) = &cell.spec.task else { panic!("idle cell") };
            assert_eq!(workload.send_path, linkrate_model::workload::SendPath::Sendfile);
            assert_eq!(Some(cell.spec.clients), cell.spec.ports.map(|ports| ports * 2));
        }
        // more than 50 % of no workload in particular
        assert!(files.published.iter().all(|one| one.basis == Basis::Derived));
        let store = built_in("tso-store");
        let stores =
            store.cells.iter().map(|cell| match &store.testbed.of_run(&cell.spec).adapter {
                linkrate_model::spec::Adapter::Model(model) => model.stores_superframes,
                other => panic!("{other:?}"),
            });
        assert_eq!(stores.filter(|stores| *stores).count(), 2, "one of two models");
        // the model was made so that its loss lies in the range
        assert!(store.published.iter().all(|one| one.basis == Basis::Parameter));
    }

    #[test]
    fn the_ten_gigabit_study_asks_in_parts() {
        let study = built_in("ten-gigabit");
        let cells: Vec<(&str, usize)> = study
            .parts
            .iter()
            .map(|part| {
                let name = Level::Text(part.name.clone());
                let of_part = |cell: &&Cell| cell.levels.get(PART) == Some(&name);
                (part.name.as_str(), study.cells.iter().filter(of_part).count())
            })
            .collect();
        let expected = [
            ("jumbo frames", 6),
            ("reassembly", 3),
            ("steering", 2),
            ("adapters", 12),
            ("connections", 4),
            ("requests", 4),
        ];
        assert_eq!(cells, expected);
        for cell in &study.cells {
            let Task::Workload(workload) = &cell.spec.task else { panic!("idle cell") };
            let jumbo = cell.spec.interface.mtu == Some(9000);
            let size = ByteSize(if jumbo { 128 << 10 } else { 64 << 10 });
            if workload.kind == Protocol::Stream {
                assert_eq!(workload.message, MessageSize::Fixed(size), "{}", cell.levels);
                assert_eq!(cell.spec.socket.buffer, Some(ByteSize(size.0 * 4)), "{}", cell.levels);
            }
        }
        assert_eq!((study.testbed.ports, study.testbed.queues), (4, 4));
        // near saturation of the host
        let near = |cell: &&Cell| matches!(&cell.spec.task, Task::Workload(work) if work.connections == 64);
        let requests: Vec<_> = study.cells.iter().filter(|c| c.spec.is_transactional()).collect();
        assert!(requests.len() == 4 && requests.iter().all(near));
        let compared = crate::analysis::effects::comparisons(&study);
        let count = |factor: &str| compared.iter().filter(|c| c.factor == factor).count();
        let counts = ["mtu", "merge", "steering", "connections", "ports", "direction"].map(count);
        assert_eq!(counts, [3, 3, 1, 2, 20, 0]);
    }

    #[test]
    fn the_atm_studies_ask_what_the_paper_asks() {
        let atm = built_in("atm");
        assert_eq!(atm.paper.as_deref(), Some("atm"));
        // tables 1 to 3 with their ratios and those of service demand, tables 4 and 5, figure 1
        assert_eq!((atm.cells.len(), atm.published.len()), (37, 18 + 12 + 10 + 5 + 1));
        // the theory of table 1 stands beside each stream of it, by adapter and direction
        let of_cell = |cell: &Cell| crate::analysis::limit::of_cell(&cell.spec, &atm.testbed, &[]);
        let limits: Vec<f64> = atm.cells.iter().take(18).filter_map(of_cell).collect();
        let megabits: Vec<f64> = limits.iter().map(|limit| (limit / 1e4).round() / 100.0).collect();
        let (of_155, of_622) = ([134.34, 134.34, 268.67], [537.35, 537.35, 1074.69]);
        assert_eq!(
            (megabits[..3].to_vec(), megabits[9..12].to_vec()),
            (of_155.into(), of_622.into())
        );
        // one way with units of 9234 and of 1516 octets: the MTU is that of the model
        let one_way = [3, 6, 12, 15].map(|cell| megabits[cell]);
        assert_eq!(one_way, [134.2, 127.86, 536.79, 511.44]);
        let requests = |cell: &&Cell| cell.spec.is_transactional();
        assert!(atm.cells.iter().filter(requests).all(|cell| of_cell(cell).is_none()));

        let adapters = built_in("atm-adapters");
        let most = |name: Option<&str>| {
            let of_model =
                adapters.cells.iter().filter(|cell| cell.spec.adapter.as_deref() == name);
            of_model.filter_map(|cell| cell.spec.ports).max()
        };
        assert_eq!((most(None), most(Some("atm-155"))), (Some(8), Some(12)));
        assert_eq!((adapters.testbed.ports, adapters.testbed.clients), (12, 12));

        let emulated = built_in("atm-lane");
        assert_eq!((emulated.cells.len(), emulated.published.len()), (18, 12 + 6 + 5));
        assert!(emulated.cells.iter().all(|cell| cell.spec.ports == Some(4)));

        let tax = built_in("cell-tax");
        let rates = tax.cells.iter().map(|cell| match &tax.testbed.of_run(&cell.spec).adapter {
            linkrate_model::spec::Adapter::Model(model) => (model.name.clone(), model.rate),
            other => panic!("{other:?}"),
        });
        let rates: std::collections::BTreeMap<_, _> = rates.collect();
        let names = ["atm-622", "atm-622-lane-1516", "atm-622-lane-9234", "gigabit"];
        assert_eq!(rates.keys().collect::<Vec<_>>(), names);
        let line = Some(linkrate_wire::link::atm::OC12C);
        assert!(rates.values().all(|rate| *rate == line), "{rates:?}");
    }

    #[test]
    fn the_study_of_toe_asks_what_the_paper_leaves_open() {
        let study = built_in("toe-worth-it");
        assert_eq!((study.cells.len(), study.published.len(), study.parts.len()), (40, 0, 7));
        let losses = |ppm: u32| study.cells.iter().filter(|cell| cell.spec.loss_ppm == ppm).count();
        assert_eq!([0, 3000, 20_000].map(losses), [32, 4, 4]);
        let merging = study.cells.iter().filter(|cell| cell.spec.interface.port.lro == Some(true));
        assert_eq!(merging.count(), 4);
        let compared = crate::analysis::effects::comparisons(&study);
        assert!(compared.iter().all(|comparison| comparison.factor == "toe"));
        // three levels are compared in three pairs, two in one
        assert_eq!(compared.len(), 2 * 3 + 17);
    }

    /// The whole step from one size of frames to the other at each of the four, and who published what.
    #[test]
    fn the_study_of_jumbo_frames_changes_the_mtu_alone() {
        let study = built_in("jumbo-today");
        assert_eq!((study.cells.len(), study.parts.len(), study.published.len()), (8, 4, 10));
        let compared = crate::analysis::effects::comparisons(&study);
        assert_eq!(compared.len(), 4);
        for one in compared {
            let [from, to] = [one.from_cell, one.to_cell].map(|cell| &study.cells[cell].spec);
            let mut same = from.clone();
            same.interface.mtu = Some(9000);
            assert_eq!((&same, one.factor.as_str()), (to, "mtu"));
        }
        assert!(study.published.iter().all(|one| one.source.is_some()));
        let quick = form(study).unwrap();
        assert_eq!((quick.cells.len(), quick.published.len()), (6, 10));
    }

    #[test]
    fn the_study_of_big_tcp_asks_of_sender_receiver_and_requests() {
        let study = built_in("big-tcp");
        assert_eq!((study.cells.len(), study.published.len()), (12, 3));
        assert_eq!(crate::analysis::effects::comparisons(&study).len(), 2 + 5 + 2);
        for cell in &study.cells {
            let knobs = &cell.spec.interface;
            // what is merged may be as large as what is sent, where requests go both ways
            if cell.spec.is_transactional() {
                assert_eq!(knobs.gso_max_size, knobs.gro_max_size, "{}", cell.levels);
            }
            assert_eq!(knobs.gro_max_size.is_some(), knobs.gro == Some(true), "{}", cell.levels);
        }
        let quick = form(study).unwrap();
        assert_eq!((quick.cells.len(), quick.published.len()), (6, 3));
    }

    #[test]
    fn the_study_of_interrupts_asks_at_each_load_by_an_open_loop() {
        let study = built_in("interrupts");
        assert_eq!(study.cells.len(), 3 * 4 + 4);
        let compared = crate::analysis::effects::comparisons(&study);
        assert!(compared.iter().all(|one| one.factor == "interrupts"));
        for cell in &study.cells {
            let Task::Workload(workload) = &cell.spec.task else { panic!("idle cell") };
            assert_eq!(cell.spec.is_transactional(), workload.request_rate_per_s.is_some());
            let knobs = &cell.spec.interface.port;
            assert!(knobs.rx_usecs.is_some() || knobs.adaptive_rx == Some(true), "{}", cell.levels);
        }
        assert_eq!(form(study).unwrap().cells.len(), 6);
    }

    #[test]
    fn the_study_of_latency_under_load_has_the_same_requests_alone_and_beside_streams() {
        let study = built_in("latency-under-load");
        assert_eq!(study.cells.len(), 8);
        let requests = |cell: &Cell| {
            let Task::Workload(workload) = &cell.spec.task else { panic!("idle cell") };
            let by_client = workload.by_client(cell.spec.clients);
            let mut all = by_client.concat();
            all.retain(|part| part.kind == Protocol::RequestResponse);
            (all, by_client.len())
        };
        let (idle, loaded) = study.cells.split_at(4);
        for (idle, loaded) in idle.iter().zip(loaded) {
            let ((alone, one), (beside, two)) = (requests(idle), requests(loaded));
            assert_eq!((alone.len(), one, two), (1, 1, 2), "{}", loaded.levels);
            assert_eq!(alone, beside);
            assert!(alone[0].request_rate_per_s.is_some());
        }
    }

    #[test]
    fn a_quick_run_of_any_built_in_study_takes_less_than_a_minute() {
        for builtin in all() {
            let study = parse(builtin.name, &builtin.path(), builtin.text).unwrap();
            assert!(study.quick.is_some(), "{}", builtin.name);
            let quick = form(study.clone()).unwrap();
            assert!(quick.cells.len() <= 6 && quick.method.min_blocks >= 5, "{}", builtin.name);
            let estimate = estimate(&quick, RUN_OVERHEAD);
            assert!(estimate.longest <= QUICK_TIME, "{}: {estimate:?}", builtin.name);
            // there is something to claim
            assert!(!crate::analysis::effects::comparisons(&quick).is_empty(), "{}", builtin.name);
        }
    }

    #[test]
    fn the_a_a_study_compares_identical_levels() {
        let study = built_in("a-a");
        let comparisons = crate::analysis::effects::comparisons(&study);
        assert_eq!((study.cells.len(), comparisons.len()), (12, 6));
        // what its header says of false claims holds for each effect
        assert_eq!(study.method.family, crate::study::Family::Effect);
        for comparison in comparisons {
            let [from, to] = [comparison.from_cell, comparison.to_cell].map(|c| &study.cells[c]);
            assert_eq!(comparison.factor, "repeat");
            assert_ne!(from.levels, to.levels);
            assert_eq!(from.spec, to.spec);
        }
    }

    #[test]
    fn suggests_the_study_for_a_mistyped_name() {
        assert_eq!(
            find("tos").unwrap_err().to_string(),
            "unknown study \"tos\"; did you mean \"tso\"?"
        );
        assert!(find("nothing-like-it").unwrap_err().to_string().contains("one of tso, "));
    }
}
