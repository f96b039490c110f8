//! Tests of testbeds on existing interfaces.

use linkrate_model::spec::Adapter;
use linkrate_model::{CpuMeter, Interfaces, TestbedSpec};

use crate::file::tests::errors;
use crate::file::{parse, parse_on};

#[test]
fn reads_a_testbed_on_existing_interfaces() {
    let text = |testbed: &str, rest: &str| {
        format!("title = \"t\"\n[testbed]\n{testbed}\n[factors]\ngro = [true]\n{rest}")
    };
    let two = "interface = [\"eth1\", \"eth2\"]\nagent = \"/opt/linkrate\"\n\
               clients = [\"ssh:lab2\", \"ssh:me@lab3,10.0.0.3\"]";
    let study = parse("t", "t", &text(two, "")).unwrap();
    let Adapter::Interfaces(on) = &study.testbed.adapter else { panic!("{:?}", study.testbed) };
    assert_eq!((on.names.join(" "), on.program.as_str()), ("eth1 eth2".into(), "/opt/linkrate"));
    assert_eq!(on.clients[1].to_string(), "ssh:me@lab3,10.0.0.3");
    assert_eq!((study.testbed.ports, study.testbed.clients), (2, 2));
    assert_eq!((study.cells[0].spec.ports, study.cells[0].spec.clients), (Some(2), 2));
    let again: TestbedSpec =
        serde_json::from_str(&serde_json::to_string(&study.testbed).unwrap()).unwrap();
    assert_eq!(again, study.testbed);

    let one = "interface = \"eth1\"\nclients = [\"ssh:lab2\"]";
    let apart = format!("{one}\nsut-cpus = \"0-3\"\nclient-cpus = \"2-5\"");
    assert!(parse("t", "t", &text(&apart, "")).is_ok(), "CPUs of two machines do not overlap");
    for (testbed, rest, expected) in [
        ("interface = \"eth1\"", "", "testbed.interface: clients are missing"),
        (
            "interface = \"eth1\"\nclients = [\"lab2\"]",
            "",
            "t.toml:4:11: testbed.clients: \"lab2\" is not a client",
        ),
        (
            "interface = \"eth1\"\nclients = [\"exec:sh -c\"]",
            "",
            "testbed.clients: \"exec:sh -c\" is a command, and a study file starts none",
        ),
        ("interface = 1\nclients = [\"ssh:a\"]", "", "testbed.interface: 1 is not text"),
        (
            "interface = [\"e1\", \"e2\"]\nclients = [\"ssh:a\"]",
            "",
            "testbed.interface: 1 clients cannot be divided among 2 interfaces",
        ),
        ("clients = [\"ssh:a\"]", "", "testbed.clients: a list of clients needs interface"),
        ("agent = \"x\"", "", "testbed.agent: no client is reached by ssh"),
        (&format!("adapter = \"gigabit\"\n{one}"), "", "adapter cannot be combined with interface"),
        (&format!("{one}\nscale = 0.5"), "", "scale cannot be combined with interface"),
        (
            one,
            "[workload]\nlro = true",
            "workload.lro: linkrate does not set lro on an existing interface",
        ),
        (one, "[workload]\nclients = 2", "the number of clients follows from the ports"),
        (one, "[workload]\nports = 2", "ports 2 is more than the number of interfaces"),
    ] {
        let errors = errors(&text(testbed, rest)).join("\n");
        assert!(errors.contains(expected), "{testbed} {rest}: {errors}");
    }
}

#[test]
fn options_move_a_study_to_existing_interfaces() {
    let on =
        Interfaces::new(vec!["eth1".to_owned()], vec!["interface:eth2".parse().unwrap()], None)
            .unwrap();
    let take = |text: &str| {
        let mut none = |path: &str| Err(path.to_owned());
        parse_on("t", "t.toml", text, &mut none, Some(&on))
    };
    let study = take(
        "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\nclients-per-port = 2\n\
                      cpu-meter = \"idle-time\"\n[factors]\ngro = [true]\n",
    )
    .unwrap();
    assert_eq!((study.testbed.adapter.name(), study.testbed.clients), ("interface", 1));
    assert_eq!(study.testbed.cpu_meter, CpuMeter::IdleTime);
    let errors = take(
        "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\n\
                       ports = [1, 2]\n",
    )
    .unwrap_err();
    assert!(
        errors.to_string().contains("ports 2 is more than the number of interfaces"),
        "{errors}"
    );
    // an unknown key of the replaced testbed is still an error
    assert!(take("title = \"t\"\n[testbed]\nadpter = 1\n[factors]\ngro = [true]\n").is_err());
}
