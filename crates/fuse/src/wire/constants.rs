//! Lists the numbers that the kernel's header defines. The rest of `wire` uses them.
//!
//! Invariant: names are those of the header without their prefix. Values never change.

/// Major version of the protocol.
pub const VERSION_MAJOR: u32 = 7;
/// Newest minor version that this crate supports.
pub const VERSION_MINOR: u32 = 38;
/// Oldest minor version with the layouts of this crate (Linux 3.15).
pub const VERSION_MINOR_OLDEST: u32 = 23;
/// Node of the top directory.
pub const ROOT_NODE: u64 = 1;
/// Minimum size of the buffer for a read of the device, bytes.
pub const READ_BUFFER_BYTES_MIN: usize = 8192;
/// Longest name of a directory entry, bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// Codes of requests.
pub mod opcode {
    /// Finds a name in a directory.
    pub const LOOKUP: u32 = 1;
    /// Subtracts lookups of a node.
    pub const FORGET: u32 = 2;
    /// Returns attributes of a node.
    pub const GETATTR: u32 = 3;
    /// Changes attributes.
    pub const SETATTR: u32 = 4;
    /// Returns the target of a symbolic link.
    pub const READLINK: u32 = 5;
    /// Makes a symbolic link.
    pub const SYMLINK: u32 = 6;
    /// Makes a file or device.
    pub const MKNOD: u32 = 8;
    /// Makes a directory.
    pub const MKDIR: u32 = 9;
    /// Removes a name.
    pub const UNLINK: u32 = 10;
    /// Removes a directory.
    pub const RMDIR: u32 = 11;
    /// Renames a file.
    pub const RENAME: u32 = 12;
    /// Makes a hard link.
    pub const LINK: u32 = 13;
    /// Opens a file.
    pub const OPEN: u32 = 14;
    /// Reads a file.
    pub const READ: u32 = 15;
    /// Writes a file.
    pub const WRITE: u32 = 16;
    /// Returns numbers of the whole file system.
    pub const STATFS: u32 = 17;
    /// Closes a file for the last time.
    pub const RELEASE: u32 = 18;
    /// Makes a file durable.
    pub const FSYNC: u32 = 20;
    /// Sets an extended attribute.
    pub const SETXATTR: u32 = 21;
    /// Returns an extended attribute's value.
    pub const GETXATTR: u32 = 22;
    /// Returns names of extended attributes.
    pub const LISTXATTR: u32 = 23;
    /// Removes an extended attribute.
    pub const REMOVEXATTR: u32 = 24;
    /// Reports that a descriptor was closed.
    pub const FLUSH: u32 = 25;
    /// Begins the session.
    pub const INIT: u32 = 26;
    /// Opens a directory.
    pub const OPENDIR: u32 = 27;
    /// Lists a directory.
    pub const READDIR: u32 = 28;
    /// Closes a directory.
    pub const RELEASEDIR: u32 = 29;
    /// Makes a directory durable.
    pub const FSYNCDIR: u32 = 30;
    /// Checks access permission.
    pub const ACCESS: u32 = 34;
    /// Makes and opens a file.
    pub const CREATE: u32 = 35;
    /// Reports that a process no longer waits for an answer.
    pub const INTERRUPT: u32 = 36;
    /// Ends the session.
    pub const DESTROY: u32 = 38;
    /// Subtracts lookups of several nodes.
    pub const BATCH_FORGET: u32 = 42;
    /// Allocates, punches a hole or zeroes.
    pub const FALLOCATE: u32 = 43;
    /// Lists a directory with attributes.
    pub const READDIRPLUS: u32 = 44;
    /// Renames a file, with flags.
    pub const RENAME2: u32 = 45;
    /// Finds data or a hole.
    pub const LSEEK: u32 = 46;
    /// Makes an unnamed file.
    pub const TMPFILE: u32 = 51;
}

/// Features on which kernel and session agree. Bits 32 to 63 travel in a second field.
pub mod init {
    /// Several reads of a file at once, for read-ahead.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Writes of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The kernel may list directories with attributes.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// The kernel decides by itself when that is worth it.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Several direct reads and writes at once.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Several look-ups and listings of a directory at once.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The kernel enforces ACLs in extended attributes.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// The answer says how many pages a request may have.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Targets of symbolic links stay in the page cache.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// The kernel does not clear set-user-ID bits at every write.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// There is a second field of flags.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Files that are read past the page cache may still be mapped and shared.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// Flags of an opened file.
pub mod open {
    /// Read and write past the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Keep the file's pages in the page cache.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// Keep the listing of a directory.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// Direct writes to one file at once.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Attributes that a SETATTR sets.
pub mod set_attribute {
    /// Length.
    pub const SIZE: u32 = 1 << 3;
}

/// Ways in which FALLOCATE changes a range; numbers of Linux.
pub mod allocate {
    /// Keep the length.
    pub const KEEP_SIZE: u32 = 1;
    /// Free the space; the range reads as zeroes.
    pub const PUNCH_HOLE: u32 = 2;
    /// Make the range read as zeroes.
    pub const ZERO_RANGE: u32 = 16;
}

/// Targets of LSEEK; numbers of Linux.
pub mod seek {
    /// The next byte that is not in a hole.
    pub const DATA: u32 = 3;
    /// The next hole, or the end.
    pub const HOLE: u32 = 4;
}
