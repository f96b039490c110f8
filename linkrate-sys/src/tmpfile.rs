//! Regular files without a name, which vanish with the last process that has them open: nothing of
//! them stays after a kill.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Advice, Mode, OFlags};

/// `TMPFS_MAGIC` of include/uapi/linux/magic.h.
const TMPFS: u64 = 0x0102_1994;

/// A file in the file system of `directory`, for reading and writing, O_TMPFILE of open(2).
///
/// # Errors
/// As open(2); `Unsupported` on a file system that has no such files.
pub fn create(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
    Ok(File::from(rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Whether the file is in memory alone, so that no page of it can leave the cache: tmpfs.
pub fn is_in_memory(file: &File) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u64 == TMPFS)
}

/// Writes what is not on the disk yet, and takes the file out of the page cache.
pub fn leave_cache(file: &File) -> io::Result<()> {
    file.sync_data()?;
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn a_file_has_content_and_no_name() {
        let directory = std::env::temp_dir();
        let mut file = create(&directory).unwrap();
        file.write_all(b"content").unwrap();
        file.rewind().unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "content");
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0);
        if !is_in_memory(&file).unwrap() {
            leave_cache(&file).unwrap();
        }
        assert!(is_in_memory(&create(Path::new("/dev/shm")).unwrap()).unwrap());
    }
}
