//! Figures by HTTP, for `--metrics`.

use std::net::IpAddr;

use linkrate_interop::scrape::{Endpoint, Page};
use linkrate_report::openmetrics;

use super::serve::listen;
use crate::args::metrics::MetricsArgs;
use crate::exit::{Exit, Failure};

/// Answers with `text`, if that is asked for, clients that `admits` knows.
pub fn answer(
    asked: &MetricsArgs,
    admits: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<Option<Endpoint>, Failure> {
    let Some(at) = asked.metrics else { return Ok(None) };
    let listener = listen(at.ip(), at.port(), "metrics", "--metrics PORT")?;
    let page = Page {
        media_type: openmetrics::CONTENT_TYPE,
        admits: Box::new(admits),
        text: Box::new(text),
    };
    let failed = |error| Failure::new(Exit::Failure, format!("--metrics: {error}"));
    Endpoint::start(listener, page).map(Some).map_err(failed)
}
