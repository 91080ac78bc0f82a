//! Numbers that the kernel's header fixes.
//!
//! Invariant: names are those of the header without their prefix; values never change.

/// Major version of the protocol.
pub const VERSION_MAJOR: u32 = 7;
/// Newest minor version that this room knows.
pub const VERSION_MINOR: u32 = 38;
/// Oldest minor version whose layouts are those of this room (Linux 3.15).
pub const VERSION_MINOR_OLDEST: u32 = 23;
/// Node of the top directory.
pub const ROOT_NODE: u64 = 1;
/// A reader of the device must offer at least this, bytes.
pub const READ_BUFFER_BYTES_MIN: usize = 8192;
/// Longest name of a directory entry, bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// What the kernel asks for.
pub mod opcode {
    /// Finds a name in a directory.
    pub const LOOKUP: u32 = 1;
    /// Gives lookups of a node back.
    pub const FORGET: u32 = 2;
    /// Attributes of a node.
    pub const GETATTR: u32 = 3;
    /// Changes attributes.
    pub const SETATTR: u32 = 4;
    /// Target of a symbolic link.
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
    /// Gives another name.
    pub const RENAME: u32 = 12;
    /// Makes a hard link.
    pub const LINK: u32 = 13;
    /// Opens a file.
    pub const OPEN: u32 = 14;
    /// Reads a file.
    pub const READ: u32 = 15;
    /// Writes a file.
    pub const WRITE: u32 = 16;
    /// Numbers of the whole file system.
    pub const STATFS: u32 = 17;
    /// Closes a file for the last time.
    pub const RELEASE: u32 = 18;
    /// Makes a file durable.
    pub const FSYNC: u32 = 20;
    /// Sets an extended attribute.
    pub const SETXATTR: u32 = 21;
    /// An extended attribute's value.
    pub const GETXATTR: u32 = 22;
    /// Names of extended attributes.
    pub const LISTXATTR: u32 = 23;
    /// Removes an extended attribute.
    pub const REMOVEXATTR: u32 = 24;
    /// A descriptor was closed.
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
    /// Asks for permission.
    pub const ACCESS: u32 = 34;
    /// Makes and opens a file.
    pub const CREATE: u32 = 35;
    /// Somebody no longer waits for an answer.
    pub const INTERRUPT: u32 = 36;
    /// Ends the session.
    pub const DESTROY: u32 = 38;
    /// Answers a notice that asked for pages.
    pub const NOTIFY_REPLY: u32 = 41;
    /// Gives lookups of several nodes back.
    pub const BATCH_FORGET: u32 = 42;
    /// Allocates, punches a hole or zeroes.
    pub const FALLOCATE: u32 = 43;
    /// Lists a directory with attributes.
    pub const READDIRPLUS: u32 = 44;
    /// Gives another name, with flags.
    pub const RENAME2: u32 = 45;
    /// Finds data or a hole.
    pub const LSEEK: u32 = 46;
    /// Makes an unnamed file.
    pub const TMPFILE: u32 = 51;
}

/// What kernel and session agree on; bits 32 to 63 travel in a second field.
pub mod init {
    /// Several reads of a file at once, for read-ahead.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Writes of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The kernel may list directories with attributes.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// It decides by itself when that is worth it.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Several direct reads and writes at once.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Several look-ups and listings of a directory at once.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The kernel enforces ACLs that extended attributes hold.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// The answer says how many pages a request may have.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Targets of symbolic links stay in the page cache.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// Set-user-ID bits are not the kernel's business at every write.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// There is a second field of flags.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Files that are read past the page cache may be mapped and shared all the same.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// How an opened file behaves.
pub mod open {
    /// Read and write past the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Keep what the page cache has.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// Keep the listing of a directory.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// Direct writes to one file at once.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Which attributes a SETATTR means.
pub mod set_attribute {
    /// Length.
    pub const SIZE: u32 = 1 << 3;
}

/// How FALLOCATE changes a range; numbers of Linux.
pub mod allocate {
    /// The length stays.
    pub const KEEP_SIZE: u32 = 1;
    /// Give the space back; reads as zeroes.
    pub const PUNCH_HOLE: u32 = 2;
    /// Reads as zeroes.
    pub const ZERO_RANGE: u32 = 16;
}

/// What LSEEK looks for; numbers of Linux.
pub mod seek {
    /// The next byte that is not in a hole.
    pub const DATA: u32 = 3;
    /// The next hole, or the end.
    pub const HOLE: u32 = 4;
}

/// Notices: what a session tells the kernel unasked.
pub mod notice {
    /// Drop attributes and pages of a node.
    pub const INVAL_INODE: i32 = 2;
    /// Drop a name.
    pub const INVAL_ENTRY: i32 = 3;
    /// Put bytes into the page cache.
    pub const STORE: i32 = 4;
    /// Send bytes of the page cache.
    pub const RETRIEVE: i32 = 5;
}
