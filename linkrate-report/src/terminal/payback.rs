//! Whether connection offloads to a TCP offload engine pay, for a user at a terminal.

use super::{Page, clean, shape};
use crate::words::payback::{COSTS, TITLES, cost_fields, fields};
use linkrate_study::results::payback::Paybacks;

impl Page<'_> {
    /// After how many bytes connection offloads have paid, and what they cost; `None` without such a
    /// question.
    pub(super) fn worth(&self) -> Option<String> {
        let Paybacks { costs, paybacks, .. } = self.results.payback.as_ref()?;
        let mut paid = self.paper.new_table();
        paid.set_header(["offload"].into_iter().chain(TITLES));
        for payback in paybacks {
            let name = clean(&payback.at.to_string());
            paid.add_row([name].into_iter().chain(fields(payback)));
        }
        let mut cost = self.paper.new_table();
        cost.set_header(["cost of an offload"].into_iter().chain(COSTS));
        for one in costs {
            let name = clean(&one.at.to_string());
            cost.add_row([name].into_iter().chain(cost_fields(one)));
        }
        for (table, columns) in [(&mut paid, TITLES.len()), (&mut cost, COSTS.len())] {
            for column in 0..=columns {
                shape(table, column, column > 1, column > 1);
            }
        }
        let cost = (!cost.is_empty()).then(|| self.paper.print(&cost));
        let tables = std::iter::once(self.paper.print(&paid)).chain(cost);
        Some(tables.collect::<Vec<_>>().join("\n\n"))
    }
}
