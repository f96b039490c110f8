//! How it was measured, in half a page with the values of this study.

use linkrate_model::measurement::IdleSource;
use linkrate_model::mix::MixPart;
use linkrate_model::units::format_duration;
use linkrate_model::{ByteSize, MessageSize, Protocol, SendPath, Task, Workload};
use linkrate_study::analysis::runs_by_cell::fallen_blocks;
use linkrate_study::keys::kind_name;
use linkrate_study::labels;
use linkrate_study::results::StudyResults;
use linkrate_study::store::StoredPlan;
use linkrate_study::study::{Family, OnFailure, PART, Purpose};
use serde::Serialize;

use crate::number::moment;
use crate::{number, words};
use linkrate_stats::interval::MIN_TO_CLAIM;

/// What is said of each subject. Without a plan only what the results tell.
pub fn paragraphs(results: &StudyResults) -> Vec<(&'static str, String)> {
    if !results.imported.is_empty() {
        return super::imported::method(results);
    }
    let mut all = Vec::new();
    if let Some(plan) = &results.plan {
        all.extend(design(results, plan));
        all.extend(work(plan).map(|text| ("Workload", text)));
    }
    all.push(("Quantities", quantities(results)));
    all.push(("Statistics", statistics(results)));
    all.extend(
        words::aa(results).map(|found| ("A/A test", format!("{}.", words::capitalised(&found)))),
    );
    if let Some(plan) = &results.plan {
        all.extend(sessions(plan).map(|text| ("Resumed", text)));
    }
    all
}

fn design(results: &StudyResults, plan: &StoredPlan) -> [(&'static str, String); 3] {
    let (study, method) = (&plan.study, &plan.study.method);
    let varied: Vec<String> = study
        .factors
        .iter()
        .filter(|factor| factor.name != PART)
        .map(|factor| {
            let levels: Vec<String> =
                factor.levels.iter().map(|l| labels::on_axis(&factor.name, l)).collect();
            format!("{} ({})", labels::factor(&factor.name), levels.join(", "))
        })
        .collect();
    let cells = words::count(study.cells.len(), "cell");
    let mut cells = match (varied.is_empty(), study.parts.len()) {
        (true, _) => cells,
        (false, 0) => format!("{cells}: {}", labels::listed(&varied)),
        (false, parts) => {
            format!("{cells} in {}: {}", words::count(parts, "part"), labels::listed(&varied))
        }
    };
    cells.push('.');
    let idle = match method.idle.is_zero() {
        true => String::new(),
        false => format!(", and one idle run of {}", format_duration(method.idle)),
    };
    let twice = match method.aa {
        true => " and a second one of the first cell (A/A test)",
        false => "",
    };
    let mut runs = format!(
        "A run has {} of warm-up and a measurement interval of {}. Before it, linkrate sets the knobs and reads them \
         back. A block is one run of every cell{twice} {} (seed {}){idle}: drift affects all cells alike.",
        format_duration(method.warm_up),
        format_duration(method.run),
        words::order(method, &fallen_blocks(&plan.study, &results.runs)),
        method.seed(),
    );
    if method.purpose != Purpose::Costs {
        runs.push_str(&format!(" The runs were for {}.", method.purpose.word()));
    }
    if method.rebuild {
        runs.push_str(" Each block had a testbed of its own.");
    }
    if method.on_failure == OnFailure::Stop {
        runs.push_str(" The first failed run would have ended the study.");
    }
    let blocks = if method.min_blocks == method.max_blocks {
        words::count(method.max_blocks as usize, "block")
    } else {
        format!("{} to {} blocks", method.min_blocks, method.max_blocks)
    };
    let budget = method
        .budget
        .map_or_else(String::new, |budget| format!(", within {}", format_duration(budget)));
    let mut stop = format!(
        "{blocks}{budget}, until {}.",
        match method.find {
            Some(find) =>
                format!("9 of 10 such sessions would find a change of {}", number::percent(find)),
            None => {
                let precision = number::percent(method.precision);
                format!("every interval is within {precision} of its mean")
            }
        }
    );
    if !results.stopped.is_empty() {
        stop.push_str(&format!(" The study ended: {}", sentence(&results.stopped)));
    }
    [("Cells", cells), ("Runs", runs), ("Stop rule", words::capitalised(&stop))]
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
        return Some(format!("A mix on {connections} per client: {}.", labels::listed(&parts)));
    }
    let kind = same(&|workload| {
        match workload.kind {
            Protocol::Stream => "TCP streams",
            Protocol::RequestResponse => "TCP transactions on open connections",
            Protocol::ConnectRequestResponse => "TCP connections of one transaction each",
            Protocol::UdpStream => "UDP datagrams one way",
            Protocol::UdpRequestResponse => "UDP transactions",
            Protocol::Transfer => "TCP transfers on open connections",
            Protocol::Backup => "A backup of the clients' files to the system under test",
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
    let sockets = |get: &dyn Fn(&linkrate_model::RunSpec) -> String| {
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
        true => format!("{what}."),
        false => format!("{what}, {}.", labels::listed(&parts)),
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

fn quantities(results: &StudyResults) -> String {
    let mut text = "Throughput: payload that the receivers counted. Service demand: CPU time of the SUT (system under test) \
                    for one KB (1024 bytes) of payload, or for one transaction; CPU time is the interval without idle and stolen time"
        .to_owned();
    let sources: Vec<IdleSource> =
        results.cells.iter().filter_map(|cell| cell.evidence.idle_source).collect();
    match sources.first() {
        Some(IdleSource::TimerList) if sources.iter().all(|s| *s == IdleSource::TimerList) => {
            text.push_str(", from /proc/timer_list in nanoseconds");
        }
        Some(IdleSource::ProcStat) if sources.iter().all(|s| *s == IdleSource::ProcStat) => {
            text.push_str(", from /proc/stat in ticks");
        }
        _ => {}
    }
    text.push('.');
    if results.cells.iter().any(|cell| cell.has_shared_cpus()) {
        text.push_str(" The SUT and its clients share CPUs: CPU time is the sum of both.");
    }
    if let Some(background) = &results.background_cpu {
        text.push_str(&format!(
            " Without load the SUT's CPUs were {} busy.",
            number::with_margin(background)
        ));
    }
    if results.cells.iter().any(|cell| cell.limit.is_some()) {
        text.push_str(
            " Maximum: the payload that links and bus can carry, without acknowledgements.",
        );
    }
    text
}

/// For how many effects together chance is kept out.
fn adjusted(results: &StudyResults) -> String {
    let judged =
        results.effects.iter().filter(|effect| effect.probabilities.adjusted_p.is_some()).count();
    let error = number::percent(1.0 - results.confidence);
    match results.family {
        _ if judged == 0 => "No effect here has as many blocks.".to_owned(),
        Family::Study => format!(
            "Holm's method keeps the probability of any false one among all {judged} effects below {error}."
        ),
        Family::Part => format!(
            "Holm's method keeps the probability of any false one in a part of the study below {error}."
        ),
        Family::Effect => {
            "This is not adjusted for the number of effects: of twenty effects that do not exist, one is significant by \
             chance."
                .to_owned()
        }
    }
}

fn statistics(results: &StudyResults) -> String {
    let confidence = number::percent(results.confidence);
    let mut text = format!("Intervals are {confidence} t intervals over runs.");
    if !results.effects.is_empty() {
        text.push_str(&format!(
            " An effect is the geometric mean of the ratios of two cells within each block. It is significant if at least {MIN_TO_CLAIM} \
             blocks have it and a t test shows that it is larger than {minimum}; it may be small if only its existence is \
             shown. {} No relevant change: the whole interval lies within {minimum}. Every other effect is open: inconclusive, or not \
             significant where its own interval excludes no change, as one does by chance among so many. Where the \
             SUT's CPU is full in both cells, throughput follows from service demand and is not judged again; \
             nor is it where both cells reach limits that differ.",
            adjusted(results),
            minimum = number::percent(results.minimum_effect)
        ));
        let computed_at = results.effect_interval_confidence;
        if computed_at > results.confidence {
            text.push_str(&format!(
                " Intervals of effects are computed at {} to cover {confidence}.",
                number::percent(computed_at)
            ));
        }
        if results.blocks < MIN_TO_CLAIM {
            text.push_str(
                " Noise with a period of two blocks may look like an effect in 20 to 32 % of studies of two to four \
                 blocks.",
            );
        }
    }
    text.push_str(" Failed runs are in no result; no run is left out as an outlier.");
    text
}

/// The sessions after the first.
fn sessions(plan: &StoredPlan) -> Option<String> {
    let sessions = plan.resumed.iter().map(|session| {
        format!("{} with linkrate {}", moment(session.started_unix_ms), session.linkrate_version)
    });
    let sessions: Vec<String> = sessions.collect();
    (!sessions.is_empty()).then(|| format!("{}.", sessions.join("; ")))
}

/// The text as a sentence with a stop.
fn sentence(text: &str) -> String {
    let text = text.trim_end_matches('.');
    format!("{text}.")
}

/// A paragraph of prose with the list below it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Paragraph {
    /// The prose.
    pub text: String,
    /// The items of the list; empty for none.
    pub items: Vec<String>,
}

/// The question at the head of a study file, and the rest of its first comment.
/// Nothing unless the first paragraph asks.
pub fn background(source: &str) -> Vec<Paragraph> {
    let comment = source.lines().take_while(|line| line.starts_with('#'));
    let mut all: Vec<Paragraph> = Vec::new();
    let mut is_new = true;
    for line in comment {
        // code in a comment is set off there as in Markdown
        let line = line.trim_start_matches('#').trim().replace('`', "");
        if line.is_empty() {
            is_new = true;
            continue;
        }
        let item = line.strip_prefix("- ");
        match (item, all.last_mut()) {
            // a list belongs to the paragraph before it
            (Some(item), Some(last)) => last.items.push(item.to_owned()),
            (None, Some(last)) if !is_new => {
                let text = last.items.last_mut().unwrap_or(&mut last.text);
                text.push(' ');
                text.push_str(&line);
            }
            _ => all.push(Paragraph { text: line, items: Vec::new() }),
        }
        is_new = false;
    }
    let asks = all.first().is_some_and(|first| first.text.ends_with('?'));
    if asks { all } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_begins_with_a_question_and_has_lists() {
        let texts = |source: &str| -> Vec<(String, Vec<String>)> {
            background(source).into_iter().map(|of| (of.text, of.items)).collect()
        };
        let plain = |text: &str| (text.to_owned(), Vec::new());
        let found = texts("# What does it\n# buy?\n#\n# Much.\n# Or not.\n\ntitle = 1\n# no\n");
        assert_eq!(found, [plain("What does it buy?"), plain("Much. Or not.")]);
        let found = texts(
            "# Why?\n#\n# Departures:\n#   - one, of\n#     two lines\n#   - two\n#\n# End.\n",
        );
        let items = ["one, of two lines", "two"].map(str::to_owned).to_vec();
        assert_eq!(found, [plain("Why?"), ("Departures:".to_owned(), items), plain("End.")]);
        assert_eq!(texts("# Licence\n#\n# What?\n"), []);
        assert_eq!(texts("title = 1\n"), []);
    }

    #[test]
    fn studies_of_few_blocks_warn_of_a_rhythm() {
        use linkrate_study::levels::{Level, Levels};
        use linkrate_study::quantity::{Interval, Measure};
        use linkrate_study::results::Effect;

        let text = "title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\n";
        let mut results = crate::unmeasured::without_runs(text);
        let warned = |results: &StudyResults| {
            statistics(results).contains("Noise with a period of two blocks")
        };
        results.blocks = 4;
        assert!(!warned(&results), "no effects");
        let ends = ["none", "tso"].map(|level| Level::Text(level.to_owned()));
        let ratio = Interval { mean: 0.9, low: Some(0.8), high: Some(0.99) };
        let (at, measure) = (Levels::default(), Measure::ServiceDemand);
        results.effects = vec![Effect::of("offload", ends, at, measure, ratio, 4)];
        assert!(warned(&results));
        // of no effects chance is not kept out
        assert!(
            statistics(&results).contains("shown. No effect here has as many blocks. No relevant")
        );
        results.blocks = 5;
        assert!(!warned(&results));
    }

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(moment(1_700_000_000_000), "2023-11-14 22:13 UTC");
    }
}
