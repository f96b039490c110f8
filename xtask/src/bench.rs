//! Benchmarks: ratios to third-party peers in one run, never times against a bound.

use crate::peers;
use crate::process;
use crate::summary::Summary;
