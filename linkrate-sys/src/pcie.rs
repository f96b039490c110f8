//! The PCI Express link of an adapter (Documentation/ABI/testing/sysfs-bus-pci, `current_link_speed` and others).

use std::fmt;
use std::path::Path;

use crate::tree::Tree;

/// The NUMA node of a device at this path; `None` on machines with one node.
pub fn numa_node(tree: &Tree, device: &Path) -> Option<u32> {
    // -1 if the machine has only one node
    tree.number::<i64>(device.join("numa_node")).and_then(|node| u32::try_from(node).ok())
}

/// How fast a link is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSpeed {
    /// Transfers per second of one lane, in units of 1e9.
    pub gigatransfers: f64,
    /// Lanes.
    pub lanes: u32,
}

impl LinkSpeed {
    /// As it was negotiated, of the PCI function at this path below `/sys/devices`; `None` without such a link.
    pub fn current(tree: &Tree, function: &Path) -> Option<Self> {
        Self::read(tree, function, "current")
    }

    /// The most that the function can do.
    pub fn most(tree: &Tree, function: &Path) -> Option<Self> {
        Self::read(tree, function, "max")
    }

    fn read(tree: &Tree, function: &Path, which: &str) -> Option<Self> {
        // "16.0 GT/s PCIe", "Unknown"
        let speed = tree.text(function.join(format!("{which}_link_speed")))?;
        let gigatransfers = speed.split_whitespace().next()?.parse().ok()?;
        // 255 and 0 stand for unknown
        let lanes = tree.number(function.join(format!("{which}_link_width")))?;
        (gigatransfers > 0.0 && (1..=32).contains(&lanes)).then_some(Self { gigatransfers, lanes })
    }
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GT/s x{}", self.gigatransfers, self.lanes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_link_that_is_not_known_is_absent() {
        let directory = tempfile::tempdir().unwrap();
        let function = directory.path().join("sys/devices/pci0000:00/0000:3b:00.0");
        fs::create_dir_all(&function).unwrap();
        let tree = Tree::below(directory.path());
        let own = Path::new("/sys/devices/pci0000:00/0000:3b:00.0");
        let write = |file: &str, text: &str| fs::write(function.join(file), text).unwrap();
        assert_eq!(LinkSpeed::current(&tree, own), None);
        write("current_link_speed", "8.0 GT/s PCIe\n");
        write("current_link_width", "4\n");
        write("max_link_speed", "Unknown\n");
        write("max_link_width", "255\n");
        let current = LinkSpeed::current(&tree, own).unwrap();
        assert_eq!(current.to_string(), "8 GT/s x4");
        assert_eq!(LinkSpeed::most(&tree, own), None);
    }
}
