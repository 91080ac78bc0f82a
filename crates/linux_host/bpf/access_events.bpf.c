// Reads and writes of regular files on one file system, for FragPicker.
//
// Each program sends the ranges that somebody asked for to a ring buffer: of buffered reads, direct
// requests, faults of mappings, and pages that became dirty. With `exact`, system calls that read or
// write are reported at their end, to the byte, and not by the programs that see them below. See
// src/accesses.rs, which shares the layouts.
#include "kernel.h"
char _license[] SEC("license") = "GPL";

enum { READ, WRITE, DIRECT_READ, DIRECT_WRITE, MAPPED, COMES_AGAIN };
#define PAGE_SHIFT 12
#define BTRFS_MAGIC 0x9123683E
#define BTRFS_FIRST_FREE_OBJECTID 256
#define O_APPEND 02000
#define O_DIRECT 040000
#define PF_KTHREAD 0x00200000
#define TS_COMPAT 2

// Set by the loader: the file system, and whether system calls are reported.
const volatile u32 device = 0;
const volatile u32 exact = 0;

struct access { u64 inode, root, offset, bytes; u32 generation, thread, kind, reserved; };

struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 1 << 24); } accesses SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } lost SEC(".maps");

// Sends an access to the inode at address `at`.
static __noinline int send(u64 at, u64 offset, u64 bytes, u32 kind) {
    struct inode *inode = (struct inode *)at;
    if (!at || !bytes || BPF_CORE_READ(inode, i_sb, s_dev) != device) return 0;
    if ((BPF_CORE_READ(inode, i_mode) & 0170000) != 0100000) return 0;
    u64 number = BPF_CORE_READ(inode, i_ino), root = 0;
    if (bpf_core_type_exists(struct btrfs_inode) && BPF_CORE_READ(inode, i_sb, s_magic) == BTRFS_MAGIC) {
        // The file system keeps its trees in the pages of an inode.
        if (number < BTRFS_FIRST_FREE_OBJECTID) return 0;
        struct btrfs_inode *of = (void *)(at - bpf_core_field_offset(struct btrfs_inode, vfs_inode));
        root = BPF_CORE_READ(of, root, root_key.objectid);
    }
    struct access *access = bpf_ringbuf_reserve(&accesses, sizeof *access, 0);
    if (!access) {
        u32 zero = 0;
        u64 *count = bpf_map_lookup_elem(&lost, &zero);
        if (count) ++*count;
        return 0;
    }
    access->inode = number;
    access->root = root;
    access->offset = offset;
    access->bytes = bytes;
    access->generation = BPF_CORE_READ(inode, i_generation);
    access->thread = (u32)bpf_get_current_pid_tgid();
    access->kind = kind;
    access->reserved = 0;
    bpf_ringbuf_submit(access, BPF_RB_NO_WAKEUP);
    return 0;
}

// What a system call of x86-64 does with its first argument, a file: 1 reads, 2 writes; 4 more if
// its fourth argument is the position.
static __always_inline u32 purpose(u64 number) {
    switch (number) {
    case 0: case 19: return 1; // read, readv
    case 1: case 20: return 2; // write, writev
    case 17: case 295: case 327: return 5; // pread64, preadv, preadv2
    case 18: case 296: case 328: return 6; // pwrite64, pwritev, pwritev2
    default: return 0;
    }
}

static __always_inline struct file *open_file(struct task_struct *task, u32 fd) {
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    if (!table || fd >= BPF_CORE_READ(table, max_fds)) return 0;
    struct file **slots = BPF_CORE_READ(table, fd), *file = 0;
    bpf_probe_read_kernel(&file, sizeof file, slots + fd);
    return file;
}

static __always_inline int is_foreign(struct task_struct *task) {
    // Threads of the kernel have no system call, and programs of 32 bits have other numbers.
    return (BPF_CORE_READ(task, flags) & PF_KTHREAD) || (BPF_CORE_READ(task, thread_info.status) & TS_COMPAT);
}

// Is this access a part of a system call that `at_exit` reports?
static __noinline int comes_at_exit(u64 inode, u32 wanted) {
    if (!exact || !bpf_core_field_exists(struct pt_regs, orig_ax)) return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    if (is_foreign(task)) return 0;
    struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
    if ((purpose(BPF_CORE_READ(regs, orig_ax)) & 3) != wanted) return 0;
    struct file *file = open_file(task, BPF_CORE_READ(regs, di));
    // Below an overlay the call's file is another one than that which is read.
    return file && (u64)BPF_CORE_READ(file, f_inode) == inode;
}

SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(got_pages, struct address_space *mapping, unsigned long index, unsigned long last) {
    u64 inode = (u64)BPF_CORE_READ(mapping, host);
    if (last < index || comes_at_exit(inode, 1)) return 0;
    send(inode, (u64)index << PAGE_SHIFT, ((u64)last - index + 1) << PAGE_SHIFT, READ);
    return 0;
}

SEC("tp_btf/iomap_dio_rw_begin")
int BPF_PROG(direct, struct kiocb *kiocb, struct iov_iter *iter, unsigned int flags, unsigned long done) {
    u64 inode = (u64)BPF_CORE_READ(kiocb, ki_filp, f_inode);
    u32 writes = BPF_CORE_READ(iter, data_source) & 1;
    // btrfs comes here again for the rest of a request.
    if (done || comes_at_exit(inode, writes ? 2 : 1)) return 0;
    send(inode, BPF_CORE_READ(kiocb, ki_pos), BPF_CORE_READ(iter, count), writes ? DIRECT_WRITE : DIRECT_READ);
    return 0;
}

// btrfs gives up a request whose memory is not in place, and io_uring one that would wait. It is made
// again: directly, through the page cache, or by a worker.
SEC("tp_btf/iomap_dio_complete")
int BPF_PROG(direct_failed, struct kiocb *kiocb, int error, long result) {
    u64 inode = (u64)BPF_CORE_READ(kiocb, ki_filp, f_inode);
    if (result > 0 || comes_at_exit(inode, 1) || comes_at_exit(inode, 2)) return 0;
    send(inode, BPF_CORE_READ(kiocb, ki_pos), 1, COMES_AGAIN);
    return 0;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(fault, struct address_space *mapping, unsigned long index) {
    send((u64)BPF_CORE_READ(mapping, host), (u64)index << PAGE_SHIFT, 1 << PAGE_SHIFT, MAPPED);
    return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(became_dirty, struct folio *folio, struct address_space *mapping) {
    if (!mapping) return 0;
    u64 inode = (u64)BPF_CORE_READ(mapping, host);
    if (comes_at_exit(inode, 2)) return 0;
    unsigned long set = 0;
    bpf_probe_read_kernel(&set, sizeof set, folio); // The first word of a folio in every version.
    u64 pages = set & (1UL << bpf_core_enum_value(enum pageflags, PG_head)) ? 1ULL << (BPF_CORE_READ(folio, _flags_1) & 0xff & 31) : 1;
    send(inode, (u64)BPF_CORE_READ(folio, index) << PAGE_SHIFT, pages << PAGE_SHIFT, WRITE);
    return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(at_exit, struct pt_regs *regs, long result) {
    if (!exact || result <= 0) return 0;
    u32 does = purpose(BPF_CORE_READ(regs, orig_ax));
    if (!does) return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    if (is_foreign(task)) return 0;
    struct file *file = open_file(task, BPF_CORE_READ(regs, di));
    if (!file) return 0;
    u32 set = BPF_CORE_READ(file, f_flags), writes = (does & 3) == 2;
    s64 at = BPF_CORE_READ(regs, r10);
    if (!(does & 4) || at == -1 || (writes && (set & O_APPEND))) at = BPF_CORE_READ(file, f_pos) - result;
    u32 kind = set & O_DIRECT ? (writes ? DIRECT_WRITE : DIRECT_READ) : (writes ? WRITE : READ);
    send((u64)BPF_CORE_READ(file, f_inode), at, result, kind);
    return 0;
}
