//! Limits as people and scripts see them.

use linkrate_model::{BitRate, ByteSize};
use linkrate_report::limit::{Case, Formula, document, formula_document, formula_text, text};
use linkrate_report::terminal::Style;
use linkrate_wire::limits::{Cut, IpVersion, Traffic};
use linkrate_wire::link::atm::{OC3C, OC12C};
use linkrate_wire::link::{Framing, Link};

const PLAIN: Style = Style { color: false };

fn ethernet(rate: f64, traffic: Traffic) -> Case {
    Case::new(Link::ethernet(BitRate(rate)), traffic).unwrap()
}

#[test]
fn many_cases_are_a_table() {
    let message = |size| Traffic { cut: Cut::Message(ByteSize(size)), ..Traffic::udp(1500) };
    let cases = [
        ethernet(10e6, Traffic::udp(1500)),
        ethernet(1e9, message(1)),
        ethernet(2.5e9, message(1472)),
        ethernet(400e9, message(32768)),
    ];
    insta::assert_snapshot!(text(&cases, PLAIN));
}

#[test]
fn one_case_is_an_account() {
    let framing = Framing::Ethernet { vlan_tags: 2, snap: true };
    let link = Link { line_rate: BitRate(10e9), framing };
    let traffic = Traffic { ip: IpVersion::V6, ..Traffic::tcp(9000) };
    insta::assert_snapshot!(text(&[Case::new(link, traffic).unwrap()], PLAIN));
}

#[test]
fn a_message_in_cells_is_accounted_for_whole() {
    let link = Link { line_rate: OC12C, framing: Framing::LanEmulation };
    let traffic = Traffic { cut: Cut::Message(ByteSize(65536)), ..Traffic::tcp(9218) };
    insta::assert_snapshot!(text(&[Case::new(link, traffic).unwrap()], PLAIN));
}

#[test]
fn every_line_fits_80_columns() {
    let framing = Framing::Ethernet { vlan_tags: 2, snap: true };
    let link = Link { line_rate: BitRate(1e12), framing };
    let traffic =
        Traffic { ip: IpVersion::V6, cut: Cut::Message(ByteSize(1 << 50)), ..Traffic::tcp(65535) };
    let case = Case::new(link, traffic).unwrap();
    let formula = Formula::new(BitRate(999.999_999e9), ByteSize(1_048_577)).unwrap();
    let texts = [
        text(std::slice::from_ref(&case), PLAIN),
        text(&[case.clone(), case], PLAIN),
        formula_text(&[formula], PLAIN),
    ];
    for line in texts.iter().flat_map(|text| text.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn colour_is_only_the_title() {
    let cases = [ethernet(1e9, Traffic::tcp(1500))];
    let colored = text(&cases, Style { color: true });
    assert_eq!(colored.replace("\u{1b}[1m", "").replace("\u{1b}[0m", ""), text(&cases, PLAIN));
    assert_eq!(colored.matches('\u{1b}').count(), 2);
    assert_eq!(text(&[], PLAIN), "");
}

#[test]
fn the_document_has_units_in_its_names() {
    let link = Link::classical_ip(OC3C);
    let case = Case::new(link, Traffic::tcp(9180)).unwrap();
    insta::assert_snapshot!(document(&[case]));
    let formula = Formula::new(OC3C, ByteSize(65536)).unwrap();
    insta::assert_snapshot!(formula_document(&[formula]));
}
