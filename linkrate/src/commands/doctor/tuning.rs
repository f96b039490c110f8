//! The second part of the doctor's text: how the host could be tuned.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linkrate_doctor::tuning::{Advice, Basis, Cost, Question, Tuning, advise, this_host};
use linkrate_model::units::parse_duration;

use crate::args::TuneArgs;
use crate::exit::{Exit, Failure};
use crate::output::wrap;

/// Columns of the labels.
const INDENT: usize = 9;

/// The request, checked before any slow work.
pub(super) fn question(arguments: &TuneArgs) -> Result<Question, Failure> {
    let round_trip = arguments.round_trip.as_deref().map(parse_duration).transpose();
    let round_trip =
        round_trip.map_err(|error| Failure::new(Exit::Usage, format!("--round-trip: {error}")))?;
    Ok(Question { interface: arguments.interface.clone(), round_trip })
}

/// Advice about this host, by likely gain.
pub(super) fn findings(question: &Question) -> Result<Vec<Advice>, Failure> {
    advise(&this_host(), question).map_err(|error| Failure::new(Exit::Usage, error.to_string()))
}

/// A paragraph for each finding to improve or to consider. Good findings are listed by name, in one
/// line for each interface.
pub(super) fn text(findings: &[Advice], width: usize, color: bool) -> String {
    let of = |state| findings.iter().filter(move |advice| advice.state == state);
    let mut text = String::new();
    for advice in of(Tuning::Improve).chain(of(Tuning::Consider)) {
        paragraph(&mut text, advice, width, color);
        text.push('\n');
    }
    let mut good: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
    for advice in of(Tuning::Good) {
        good.entry(advice.interface.as_deref()).or_default().push(advice.name);
    }
    for (interface, names) in good {
        let subject = interface.map_or_else(String::new, |name| format!("{name}: "));
        labelled(&mut text, "good", &format!("{subject}{}", names.join(", ")), width, color);
    }
    for advice in of(Tuning::Unseen) {
        labelled(
            &mut text,
            "unseen",
            &format!("{}: {}", title(advice), advice.detail),
            width,
            color,
        );
    }
    text.push('\n');
    for line in wrap(&summary(findings), width) {
        // writing to a String does not fail
        let _ = writeln!(text, "{line}");
    }
    text
}

fn title(advice: &Advice) -> String {
    match &advice.interface {
        Some(interface) => format!("{interface} {}", advice.name),
        None => advice.name.to_owned(),
    }
}

fn paragraph(text: &mut String, advice: &Advice, width: usize, color: bool) {
    let state = advice.state.word();
    labelled(text, state, &format!("{}: {}", title(advice), advice.detail), width, color);
    for evidence in &advice.evidence {
        labelled(text, "  seen", &format!("{} ({})", evidence.value, evidence.from), width, color);
    }
    if let Some(cost) = &advice.cost {
        labelled(text, "  cost", &reported(cost), width, color);
    }
    for command in &advice.commands {
        // commands are not wrapped, so that people can copy them
        let command: String = command.chars().filter(|c| !c.is_control()).collect();
        let _ = writeln!(text, "{:<INDENT$}{command}", "  run");
    }
    if let Some(note) = &advice.note {
        labelled(text, "  note", note, width, color);
    }
}

fn reported(cost: &Cost) -> String {
    let basis = match cost.basis {
        Basis::Measured => "measured",
        Basis::Published => "published",
        Basis::Computed => "computed",
        Basis::Unknown => return format!("unknown; {}", cost.text),
    };
    match &cost.from {
        Some(from) => format!("{} ({basis}: {from})", cost.text),
        None => format!("{} ({basis})", cost.text),
    }
}

fn labelled(text: &mut String, label: &str, content: &str, width: usize, color: bool) {
    let code = match label {
        "improve" => Some("1;31"),
        "consider" => Some("1;33"),
        "good" => Some("32"),
        _ => None,
    };
    let mut shown = format!("{label:<INDENT$}");
    if let Some(code) = code.filter(|_| color) {
        shown = format!("\u{1b}[{code}m{shown}\u{1b}[0m");
    }
    let room = width.saturating_sub(INDENT).max(20);
    for (index, line) in wrap(content, room).iter().enumerate() {
        let _ = match index {
            0 => writeln!(text, "{shown}{line}"),
            _ => writeln!(text, "{:INDENT$}{line}", ""),
        };
    }
}

fn summary(findings: &[Advice]) -> String {
    let count = |state| findings.iter().filter(|advice| advice.state == state).count();
    let counts = [
        (count(Tuning::Improve), "to improve"),
        (count(Tuning::Consider), "to consider"),
        (count(Tuning::Good), "good"),
        (count(Tuning::Unseen), "unseen"),
    ];
    let counts = counts.map(|(count, what)| format!("{count} {what}")).join(", ");
    let commands = findings.iter().any(|advice| !advice.commands.is_empty());
    match commands {
        true => format!(
            "{counts}. Nothing was changed. The commands need root, and hold until the next boot."
        ),
        false => format!("{counts}. Nothing was changed."),
    }
}

#[cfg(test)]
mod tests {
    use linkrate_doctor::tuning::Evidence;

    use super::*;

    fn advice(name: &'static str, state: Tuning, interface: Option<&str>) -> Advice {
        Advice {
            name,
            interface: interface.map(str::to_owned),
            state,
            detail: "a finding that is long enough to need a second line".to_owned(),
            evidence: Vec::new(),
            cost: None,
            commands: Vec::new(),
            note: None,
        }
    }

    #[test]
    fn commands_stay_in_one_piece_and_good_findings_are_short() {
        let cost = |basis, from: Option<&str>| Cost {
            basis,
            lost_share: None,
            text: "a tenth".to_owned(),
            from: from.map(str::to_owned),
        };
        let mut improve = advice("tso", Tuning::Improve, Some("eth0"));
        improve.evidence =
            vec![Evidence { value: "off".to_owned(), from: "ethtool -k eth0".to_owned() }];
        improve.cost = Some(cost(Basis::Measured, Some("a study")));
        improve.commands =
            vec!["ethtool -K eth0 sg on tx on tso on # wider than the page is".to_owned()];
        let mut consider = advice("lro", Tuning::Consider, Some("eth0"));
        consider.cost = Some(cost(Basis::Unknown, None));
        consider.note = Some("not on a router".to_owned());
        let good = advice("link", Tuning::Good, Some("eth0"));
        let also = advice("rings", Tuning::Good, Some("eth0"));
        let host = advice("governor", Tuning::Good, None);
        let unseen = advice("adapter", Tuning::Unseen, None);
        let all = [improve, consider, good, also, host, unseen];
        insta::assert_snapshot!(text(&all, 50, false));
        assert!(text(&all, 50, true).contains("\u{1b}[1;31mimprove"));
    }

    #[test]
    fn removes_control_characters_from_commands() {
        let mut hostile = advice("tso", Tuning::Improve, Some("a\u{1b}[2Jb"));
        hostile.commands = vec!["ethtool -K a\u{1b}[2Jb tso on".to_owned()];
        let shown = text(&[hostile], 80, false);
        assert!(shown.chars().all(|c| !c.is_control() || c == '\n'), "{shown:?}");
    }
}
