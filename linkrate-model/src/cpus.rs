//! Sets of CPUs in the kernel's list format (`0-3,8`).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clean::short_line;

/// The largest CPU number accepted; the kernel's own NR_CPUS limit on x86-64 is 8192.
pub const MAX_CPU: u32 = 8191;

/// Most characters of a refused list in a message.
const MAX_GIVEN: usize = 64;

/// A set of CPU numbers, printed and read as the kernel does (`0-3,8`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<u32>);

/// Why a CPU list could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{given}\" is not a CPU list; expected a list such as \"0\" or \"0-3,8\", with numbers up to 8191"
)]
pub struct CpuSetError {
    given: String,
}

impl CpuSet {
    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Whether the two sets share a CPU.
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// The mask in the format of `rps_cpus`: 32-bit groups in hexadecimal, most significant first.
    pub fn to_kernel_mask(&self) -> String {
        let groups = self.0.last().map_or(1, |last| last / 32 + 1);
        let words: Vec<String> = (0..groups)
            .rev()
            .map(|group| {
                let word = self
                    .iter()
                    .filter(|cpu| cpu / 32 == group)
                    .fold(0u32, |word, cpu| word | 1 << (cpu % 32));
                format!("{word:08x}")
            })
            .collect();
        words.join(",")
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(given: &str) -> Result<Self, CpuSetError> {
        let error = || CpuSetError { given: short_line(given, MAX_GIVEN).into_owned() };
        let number = |text: &str| {
            text.trim().parse::<u32>().ok().filter(|cpu| *cpu <= MAX_CPU).ok_or_else(error)
        };
        let mut cpus = BTreeSet::new();
        // ranges that overlap make a short text stand for any number of CPUs
        let mut named = 0;
        for part in given.trim().split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            named += u64::from(last.saturating_sub(first)) + 1;
            if first > last || named > u64::from(MAX_CPU) + 1 {
                return Err(error());
            }
            cpus.extend(first..=last);
        }
        if cpus.is_empty() { Err(error()) } else { Ok(Self(cpus)) }
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;

    fn try_from(given: String) -> Result<Self, CpuSetError> {
        if given.is_empty() { Ok(Self::default()) } else { given.parse() }
    }
}

impl From<CpuSet> for String {
    fn from(cpus: CpuSet) -> Self {
        cpus.to_string()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut first_range = true;
        while let Some(start) = cpus.next() {
            let mut end = start;
            while cpus.next_if_eq(&(end + 1)).is_some() {
                end += 1;
            }
            if !first_range {
                f.write_str(",")?;
            }
            first_range = false;
            if start == end { write!(f, "{start}")? } else { write!(f, "{start}-{end}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_and_print_as_the_kernel_does() {
        for (given, printed) in [("0", "0"), ("0-3,8", "0-3,8"), ("1,0,2", "0-2"), ("5, 7", "5,7")]
        {
            assert_eq!(given.parse::<CpuSet>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn invalid_lists_are_refused() {
        for given in ["", ",", "a", "3-1", "-1", "9999", "1-"] {
            assert!(given.parse::<CpuSet>().is_err(), "{given}");
        }
    }

    #[test]
    fn a_list_names_no_more_cpus_than_there_can_be() {
        assert_eq!("0-8191".parse::<CpuSet>().unwrap().len(), 8192);
        let error = "0-8191,".repeat(1000).parse::<CpuSet>().unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }

    #[test]
    fn masks_are_in_groups_of_32_bits() {
        assert_eq!("0".parse::<CpuSet>().unwrap().to_kernel_mask(), "00000001");
        assert_eq!("1,33".parse::<CpuSet>().unwrap().to_kernel_mask(), "00000002,00000002");
    }
}
