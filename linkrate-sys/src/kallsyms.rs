//! Names of kernel functions, from `/proc/kallsyms` (kernel/kallsyms.c).
//!
//! Each line has an address, a letter for the kind of symbol, a name and, in brackets, the module.
//! Sizes are missing: a function ends where the next symbol begins.

use std::fs;
use std::io;

use crate::error::{SysError, SysResult};

const PATH: &str = "/proc/kallsyms";

/// An address further from the beginning of a function belongs to no listed function.
const MAX_FUNCTION: u64 = 256 << 10;

/// The functions, by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Addresses in ascending order; `None` marks the end of a function.
    starts: Vec<(u64, Option<Name>)>,
    /// All names, concatenated.
    names: String,
}

/// Position of a name in `names`.
#[derive(Debug, Clone, Copy)]
struct Name {
    from: u32,
    to: u32,
}

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    address: u64,
    kind: u8,
    name: &'a str,
    module: Option<&'a str>,
}

impl KernelSymbols {
    /// Reads the symbols of the running kernel.
    ///
    /// # Errors
    /// When the file cannot be read, or hides its addresses from this process.
    pub fn read() -> SysResult<Self> {
        let text = fs::read_to_string(PATH).map_err(|error| {
            SysError::new("read", PATH, error).with_hint("use a kernel with CONFIG_KALLSYMS")
        })?;
        let symbols = Self::parse(&text);
        if symbols.starts.is_empty() {
            let error =
                io::Error::new(io::ErrorKind::PermissionDenied, "the kernel hides its addresses");
            return Err(SysError::new("read", PATH, error)
                .with_hint("run as root with `sysctl -w kernel.kptr_restrict=0`"));
        }
        Ok(symbols)
    }

    /// Parses the text of the file. A symbol that is not a function only ends the function before
    /// it. Of several names of one address, the most usual one is taken.
    pub fn parse(text: &str) -> Self {
        let mut lines: Vec<Line<'_>> =
            text.lines().filter_map(line).filter(|line| line.address > 0).collect();
        lines.sort_by_key(|line| (line.address, rank(line)));
        lines.dedup_by_key(|line| line.address);
        let mut symbols = Self { starts: Vec::with_capacity(lines.len()), names: String::new() };
        for line in lines {
            let name = is_function(line.kind).then(|| {
                let from = symbols.names.len() as u32;
                symbols.names.push_str(line.name);
                if let Some(module) = line.module {
                    symbols.names.push(' ');
                    symbols.names.push_str(module);
                }
                Name { from, to: symbols.names.len() as u32 }
            });
            symbols.starts.push((line.address, name));
        }
        symbols
    }

    /// The function at `address`; a function of a module is followed by its name (`f [m]`).
    pub fn name_of(&self, address: u64) -> Option<&str> {
        let behind = self.starts.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.starts.get(behind.checked_sub(1)?)?;
        let Name { from, to } = (*name)?;
        let inside = address - start < MAX_FUNCTION;
        inside.then(|| &self.names[from as usize..to as usize])
    }

    /// Number of functions.
    pub fn len(&self) -> usize {
        self.starts.iter().filter(|(_, name)| name.is_some()).count()
    }

    /// Whether it has no functions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn line(text: &str) -> Option<Line<'_>> {
    let mut words = text.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = *words.next()?.as_bytes().first()?;
    Some(Line { address, kind, name: words.next()?, module: words.next() })
}

/// Text, global or local, or weak, nm(1).
fn is_function(kind: u8) -> bool {
    matches!(kind, b't' | b'T' | b'w' | b'W')
}

/// Rank of a name among several of one address: functions before other symbols, global before
/// local, plain before underscored, and marks of linkers and compilers last. Sorting is stable, so
/// among equals the first in the file is taken.
fn rank(line: &Line<'_>) -> (bool, bool, usize, bool) {
    let marks =
        ["_stext", "_text", "_etext", "__pfx_", "__cfi_", "__start_", "__end_", "_sinittext"];
    let is_mark = marks.iter().any(|mark| line.name.starts_with(mark))
        || line.name.ends_with("_start")
        || line.name.ends_with("_end");
    let underscores = line.name.bytes().take_while(|byte| *byte == b'_').count();
    (!is_function(line.kind), is_mark, underscores, !line.kind.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000001000 T _stext
0000000000001000 T first
0000000000001040 t __tcp_do
0000000000001040 t tcp_do
0000000000001080 T tcp_more
0000000000001100 T _etext
0000000000002000 D jiffies
ffffffffc0000000 t veth_xmit\t[veth]
ffffffffc0000100 d veth_data\t[veth]
nonsense
0000000000000010
";

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = KernelSymbols::parse(TEXT);
        for (address, name) in [
            (0xfff, None),
            (0x1000, Some("first")),
            (0x103f, Some("first")),
            (0x1041, Some("tcp_do")),
            (0x1080, Some("tcp_more")),
            (0x2001, None),
            (0xffff_ffff_c000_0001, Some("veth_xmit [veth]")),
            (0xffff_ffff_c000_0100, None),
            (u64::MAX, None),
        ] {
            assert_eq!(symbols.name_of(address), name, "{address:#x}");
        }
    }

    #[test]
    fn what_is_far_behind_the_last_function_is_in_none() {
        let symbols = KernelSymbols::parse("ffffffff81000000 T last\n");
        assert_eq!(symbols.name_of(0xffff_ffff_8100_0fff), Some("last"));
        assert_eq!(symbols.name_of(0xffff_ffff_9000_0000), None);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        assert!(KernelSymbols::parse("0000000000000000 T a\n0000000000000000 T b\n").is_empty());
        assert_eq!(KernelSymbols::default().name_of(7), None);
    }

    #[test]
    fn this_kernel_has_functions_or_says_how_to_see_them() {
        match KernelSymbols::read() {
            Ok(symbols) => assert!(symbols.len() > 1000, "{}", symbols.len()),
            Err(error) => assert!(error.hint().is_some(), "{error}"),
        }
    }
}
