//! How it was measured, in prose with the values of this study.

use linkrate_stats::paired::MIN_TO_CLAIM;
use linkrate_study::keys::kind_name;
use linkrate_study::labels;
use linkrate_study::results::StudyResults;
use linkrate_study::store::StoredPlan;
use linkrate_study::store::directory::minute_stamp;
use linkrate_study::study::{Family, OnFailure, PART};
use linkrate_study::validity::Purpose;
use linkrate_terms::measurement::IdleSource;
use linkrate_terms::mix::MixPart;
use linkrate_terms::units::format_duration;
use linkrate_terms::{ByteSize, MessageSize, Protocol, SendPath, Task, Workload};

use crate::{number, words};

/// The paragraphs. Without a plan only those of the results.
pub fn paragraphs(results: &StudyResults) -> Vec<String> {
    if !results.imported.is_empty() {
        return super::imported::method(results);
    }
    let mut all = Vec::new();
    if let Some(plan) = &results.plan {
        all.push(design(results, plan));
        all.extend(work(plan));
    }
    all.push(meters(results));
    all.push(statistics(results));
    if let Some(plan) = &results.plan {
        all.push(versions(results, plan));
    }
    all
}

fn design(results: &StudyResults, plan: &StoredPlan) -> String {
    let (study, method) = (&plan.study, &plan.study.method);
    let varied: Vec<String> = study
        .factors
        .iter()
        .filter(|factor| factor.name != PART)
        .map(|factor| {
            let levels: Vec<String> =
                factor.levels.iter().map(|l| labels::short_level(&factor.name, l)).collect();
            format!("{} ({})", labels::factor(&factor.name), levels.join(", "))
        })
        .collect();
    let cells = words::count(study.cells.len(), "cell");
    let mut text = match (varied.is_empty(), study.parts.len()) {
        (true, _) => format!("The study has {cells}."),
        (false, 0) => format!("The study varies {}: {cells}.", labels::listed(&varied)),
        (false, parts) => format!(
            "The study has {parts} parts with {cells} together and varies {}.",
            labels::listed(&varied)
        ),
    };
    let idle = match method.idle.is_zero() {
        true => String::new(),
        false => format!(", and one idle run of {}", format_duration(method.idle)),
    };
    let twice = match method.aa {
        true => " and a second one of the first cell (A/A test)",
        false => "",
    };
    text.push_str(&format!(
        " A block is one run of every cell{twice} {} (seed {}){idle}, so that drift over time affects \
         all cells alike. A run is {} of warm-up and one window of {} in which both ends count. Before each run linkrate sets the knobs and reads them back; a knob that differs fails the run and is named.",
        words::order(method),
        method.seed(),
        format_duration(method.warm_up),
        format_duration(method.run),
    ));
    let blocks = if method.min_blocks == method.max_blocks {
        words::count(method.max_blocks as usize, "block")
    } else {
        format!("{} to {} blocks", method.min_blocks, method.max_blocks)
    };
    let budget = method
        .budget
        .map_or_else(String::new, |budget| format!(", within {}", format_duration(budget)));
    text.push_str(&format!(
        " The stop rule was: {blocks}{budget}, until every interval is within {} of its mean.",
        number::percent(method.precision)
    ));
    if !results.stopped.is_empty() {
        text.push_str(&format!(" The study ended for this reason: {}", sentence(&results.stopped)));
    }
    if method.purpose != Purpose::Costs {
        text.push_str(&format!(" The runs were for {}.", method.purpose.word()));
    }
    if method.rebuild {
        text.push_str(" Each block had a testbed of its own.");
    }
    if method.on_failure == OnFailure::Stop {
        text.push_str(" The first failed run would have ended the study.");
    }
    text
}

/// The work of the cells, where it is the same in all of them.
fn work(plan: &StoredPlan) -> Option<String> {
    let study = &plan.study;
    let specs: Vec<_> = study.cells.iter().map(|cell| &cell.spec).collect();
    let workloads: Vec<&Workload> = specs
        .iter()
        .filter_map(|spec| match &spec.task {
            Task::Workload(workload) => Some(workload),
            Task::Idle => None,
        })
        .collect();
    let first = *workloads.first()?;
    let same = |get: &dyn Fn(&Workload) -> String| {
        let of_first = get(first);
        workloads.iter().all(|workload| get(workload) == of_first).then_some(of_first)
    };
    if !first.mix.is_empty() {
        let part = |part: &MixPart| {
            format!("{} (share {}, {})", part.name, part.share, kind_name(part.workload.kind))
        };
        let parts: Vec<String> = first.mix.iter().map(part).collect();
        let connections = words::count(first.connections as usize, "connection");
        return Some(format!(
            "Workload: a mix on {connections} per client: {}.",
            labels::listed(&parts)
        ));
    }
    let kind = same(&|workload| {
        match workload.kind {
            Protocol::Stream => "TCP streams",
            Protocol::RequestResponse => "TCP transactions on open connections",
            Protocol::ConnectRequestResponse => "TCP connections of one transaction each",
            Protocol::UdpStream => "UDP datagrams one way",
            Protocol::UdpRequestResponse => "UDP transactions",
            Protocol::Transfer => "TCP transfers on open connections",
            Protocol::Backup => "a backup of the clients' files to the system under test",
        }
        .to_owned()
    });
    let mut parts = Vec::new();
    let transactional = first.kind.is_transactional();
    if kind.is_some() && first.kind == Protocol::Transfer {
        parts.extend(same(&|workload| format!("{} a transfer", workload.transfer)));
    }
    if kind.is_some() && first.kind == Protocol::Backup {
        parts.extend(same(&|workload| {
            let drives = words::count(workload.backup.drives as usize, "drive");
            format!("{drives} that take {} each", rate(workload.backup.drive_rate))
        }));
        parts.extend(same(&|workload| format!("files in {}", workload.backup.directory)));
    }
    if kind.is_some() && !transactional {
        parts.extend(same(&|workload| format!("messages of {}", message(workload.message))));
    }
    if kind.is_some() && transactional {
        parts.extend(same(&|workload| format!("requests of {}", message(workload.request))));
        parts.extend(same(&|workload| format!("responses of {}", message(workload.response))));
    }
    parts.extend(same(&|workload| {
        words::count(workload.connections as usize, "connection") + " per client"
    }));
    if transactional {
        parts.extend(same(&|workload| match (workload.request_rate_per_s, workload.burst) {
            (Some(rate), _) => format!("{rate} requests a second on each (open loop)"),
            (None, 1) => "one request outstanding at a time (closed loop)".to_owned(),
            (None, more) => format!("{more} requests outstanding (closed loop)"),
        }));
    }
    let sockets = |get: &dyn Fn(&linkrate_terms::RunSpec) -> String| {
        let of_first = get(specs.first()?);
        specs.iter().all(|spec| get(spec) == of_first).then_some(of_first)
    };
    parts.extend(sockets(&|spec| match spec.socket.buffer {
        Some(size) => format!("requested socket buffers of {size}"),
        None => "socket buffers tuned by the kernel".to_owned(),
    }));
    parts.extend(sockets(&|spec| format!("congestion control {}", spec.socket.congestion)));
    parts.extend(
        sockets(&|spec| if spec.socket.nodelay { "TCP_NODELAY".to_owned() } else { String::new() })
            .filter(|text| !text.is_empty()),
    );
    parts.extend(
        same(&|workload| match workload.send_path {
            SendPath::Plain => String::new(),
            SendPath::MsgZerocopy => "MSG_ZEROCOPY".to_owned(),
            SendPath::Sendfile => "sendfile(2)".to_owned(),
            SendPath::Splice => "splice(2)".to_owned(),
        })
        .filter(|text| !text.is_empty()),
    );
    let what = kind.unwrap_or_else(|| "Streams and transactions, by cell".to_owned());
    Some(match parts.is_empty() {
        true => format!("Workload: {what}."),
        false => format!("Workload: {what}, {}.", labels::listed(&parts)),
    })
}

/// A rate in the decimal units of drives.
fn rate(each_second: ByteSize) -> String {
    format!("{} MB/s", each_second.0 as f64 / 1e6)
}

fn message(size: MessageSize) -> String {
    match size {
        MessageSize::Fixed(size) => size.to_string(),
        MessageSize::Uniform { low, high } => format!("{low} to {high}, every size equally likely"),
    }
}

fn meters(results: &StudyResults) -> String {
    let mut text = "Throughput is the payload that the receivers counted. Service demand is the \
                    CPU time of the system under test for one KB (1024 bytes) of payload, or for one transaction. CPU time is the window minus idle and stolen time"
        .to_owned();
    let sources: Vec<IdleSource> =
        results.cells.iter().filter_map(|cell| cell.evidence.idle_source).collect();
    match sources.first() {
        Some(IdleSource::TimerList) if sources.iter().all(|s| *s == IdleSource::TimerList) => {
            text.push_str(", from the kernel's idle time in nanoseconds (/proc/timer_list)");
        }
        Some(IdleSource::ProcStat) if sources.iter().all(|s| *s == IdleSource::ProcStat) => {
            text.push_str(", from /proc/stat, which counts in ticks");
        }
        _ => {}
    }
    text.push('.');
    if results.cells.iter().any(|cell| cell.has_shared_cpus()) {
        text.push_str(
            " The system under test and its clients share CPUs: CPU time is the sum of \
                       both.",
        );
    }
    if let Some(background) = &results.background_cpu {
        text.push_str(&format!(
            " Without load the CPUs of the system under test were {} busy.",
            number::with_margin(background)
        ));
    }
    if results.cells.iter().any(|cell| cell.limit.is_some()) {
        text.push_str(
            " The limit is the most payload that links and bus can carry: the link's rate minus \
             preamble, gap, headers and checksums of each frame, without acknowledgements.",
        );
    }
    text
}

/// The effects that are claimed together.
fn adjusted(results: &StudyResults) -> String {
    let judged =
        results.effects.iter().filter(|effect| effect.probabilities.adjusted_p.is_some()).count();
    let together = match results.family {
        Family::Study => format!("for all {judged} effects of the study"),
        Family::Part => "for all effects of a part of the study".to_owned(),
        Family::Effect => {
            return "Claims are not adjusted for the number of effects: of twenty effects that do \
                    not exist, one is claimed by chance."
                .to_owned();
        }
    };
    format!(
        "The probability of chance is that of a t test, adjusted {together} together (Holm's \
         method), so that any of them is claimed wrongly in at most {} of studies; intervals are \
         those of each effect by itself.",
        number::percent(1.0 - results.confidence)
    )
}

fn statistics(results: &StudyResults) -> String {
    let confidence = number::percent(results.confidence);
    let mut text = format!(
        "Intervals are {confidence} t intervals over runs; a run is the unit of replication."
    );
    if !results.effects.is_empty() {
        text.push_str(&format!(
            " An effect is the geometric mean of the ratios of two cells within each block, so \
             that drift of the machine cancels. It is significant only if at least five blocks have it and a test shows that it is larger than {minimum}. {} An effect is significant but may be small, if it is shown to exist and not shown to be larger. One whose whole interval lies within {minimum} is no relevant change; every other one is inconclusive, which does not mean that there is no difference. Where the CPU of the system under test is full in both cells, throughput and service demand are one fact, and the service demand alone is judged.",
            adjusted(results),
            minimum = number::percent(results.minimum_effect)
        ));
        let computed_at = results.effect_interval_confidence;
        if computed_at > results.confidence {
            text.push_str(&format!(
                " Intervals of effects are computed at {} so that their coverage is {confidence}.",
                number::percent(computed_at)
            ));
        }
        if results.blocks < MIN_TO_CLAIM {
            text.push_str(
                " A rhythm of two blocks may look like an effect in 20 to 32 % of studies of two to four \
                 blocks.",
            );
        }
    }
    if let Some(found) = words::aa(results) {
        text.push_str(&format!(" The A/A test: {found}."));
    }
    text.push_str(
        " Failed runs are not in the results and are listed with their reasons; no run is \
                   left out as an outlier.",
    );
    text
}

fn versions(results: &StudyResults, plan: &StoredPlan) -> String {
    let facts = &plan.facts.facts;
    let fact = |name: &str| facts.get(name).filter(|value| !value.is_empty());
    let mut on = Vec::new();
    on.extend(
        fact("kernel").map(|kernel| format!("Linux {}", kernel.trim_start_matches("Linux "))),
    );
    on.extend(fact("cpu-model").cloned());
    let mut text = format!("Measured with linkrate {}", plan.linkrate_version);
    if !on.is_empty() {
        text.push_str(&format!(" on {}", on.join(", ")));
    }
    text.push_str(&format!(", begun {}.", moment(plan.started_unix_ms)));
    for session in &plan.resumed {
        text.push_str(&format!(
            " Resumed {} with linkrate {}.",
            moment(session.started_unix_ms),
            session.linkrate_version
        ));
    }
    text.push_str(&format!(
        " {} stored, seed {}. The appendix has the study file; the same seed gives the same order.",
        words::capitalised(&words::count(results.runs.len(), "run")),
        plan.study.method.seed()
    ));
    text
}

/// `2026-11-21 15:12 UTC`.
pub fn moment(unix_ms: u64) -> String {
    let stamp = minute_stamp(unix_ms);
    let part = |range: std::ops::Range<usize>| stamp.get(range).unwrap_or_default();
    // the year may have more digits one day, so the parts are counted from the end
    let end = stamp.len();
    format!(
        "{}-{}-{} {}:{} UTC",
        part(0..end.saturating_sub(9)),
        part(end.saturating_sub(9)..end.saturating_sub(7)),
        part(end.saturating_sub(7)..end.saturating_sub(5)),
        part(end.saturating_sub(4)..end.saturating_sub(2)),
        part(end.saturating_sub(2)..end),
    )
}

/// The text as a sentence with a stop.
fn sentence(text: &str) -> String {
    let text = text.trim_end_matches('.');
    format!("{text}.")
}

/// The question at the head of a study file, and the rest of its first comment.
/// Nothing unless the first paragraph asks.
pub fn question(source: &str) -> Option<(String, Vec<String>)> {
    let comment = source.lines().take_while(|line| line.starts_with('#'));
    let mut paragraphs: Vec<String> = vec![String::new()];
    for line in comment {
        // code in a comment is set off there as in Markdown
        let line = line.trim_start_matches('#').trim().replace('`', "");
        // an item of a list has a line of its own
        if let Some(item) = line.strip_prefix("- ") {
            paragraphs.push(format!("• {item}"));
            continue;
        }
        match (line.is_empty(), paragraphs.last_mut()) {
            (true, _) => paragraphs.push(String::new()),
            (false, Some(last)) if last.is_empty() => last.push_str(&line),
            (false, Some(last)) => {
                last.push(' ');
                last.push_str(&line);
            }
            (false, None) => {}
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    let mut paragraphs = paragraphs.into_iter();
    let first = paragraphs.next().filter(|first| first.ends_with('?'))?;
    Some((first, paragraphs.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_the_first_paragraph_with_a_question_mark() {
        let (question, rest) =
            question("# What does it\n# buy?\n#\n# Much.\n# Or not.\n\ntitle = 1\n# no\n").unwrap();
        assert_eq!(question, "What does it buy?");
        assert_eq!(rest, ["Much. Or not."]);
        let (_, rest) = super::question(
            "# Why?\n#\n# Departures:\n#   - one, of\n#     two lines\n#   - two\n",
        )
        .unwrap();
        assert_eq!(rest, ["Departures:", "• one, of two lines", "• two"]);
        assert_eq!(super::question("# Licence\n#\n# What?\n"), None);
        assert_eq!(super::question("title = 1\n"), None);
    }

    #[test]
    fn studies_of_few_blocks_warn_of_a_rhythm() {
        use linkrate_study::levels::{Level, Levels};
        use linkrate_study::quantity::{Interval, Measure};
        use linkrate_study::results::Effect;

        let text = "title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\n";
        let mut results = crate::unmeasured::without_runs(text);
        let warned =
            |results: &StudyResults| statistics(results).contains("A rhythm of two blocks");
        results.blocks = 4;
        assert!(!warned(&results), "no effects");
        let ends = ["none", "tso"].map(|level| Level::Text(level.to_owned()));
        let ratio = Interval { mean: 0.9, low: Some(0.8), high: Some(0.99) };
        let (at, measure) = (Levels::default(), Measure::ServiceDemand);
        results.effects = vec![Effect::of("offload", ends, at, measure, ratio, 4)];
        assert!(warned(&results));
        results.blocks = 5;
        assert!(!warned(&results));
    }

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(moment(1_700_000_000_000), "2023-11-14 22:13 UTC");
    }
}
