// The parts of kernel structures that the programs read. The loader finds the true offsets in the
// running kernel's BTF (CO-RE), so the order and the missing fields here do not matter.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
typedef __u8 u8; typedef __u16 u16; typedef __u32 u32; typedef __u64 u64; typedef __s64 s64;
#define CORE __attribute__((preserve_access_index))
struct super_block { u32 s_dev; unsigned long s_magic; } CORE;
struct inode { u16 i_mode; u32 i_generation; struct super_block *i_sb; unsigned long i_ino; } CORE;
struct address_space { struct inode *host; } CORE;
struct page { unsigned long compound_head; } CORE;
struct folio { struct address_space *mapping; unsigned long index; unsigned long _flags_1; } CORE;
struct bio_vec { struct page *bv_page; unsigned int bv_len; unsigned int bv_offset; } CORE;
struct bvec_iter { unsigned int bi_size; unsigned int bi_idx; unsigned int bi_bvec_done; } CORE;
struct bio { unsigned int bi_opf; struct bvec_iter bi_iter; struct bio_vec *bi_io_vec; } CORE;
struct btrfs_key { u64 objectid; } CORE;
struct btrfs_root { struct btrfs_key root_key; } CORE;
struct btrfs_inode { struct btrfs_root *root; struct inode vfs_inode; } CORE;
struct btrfs_ordered_extent { u64 file_offset; u64 num_bytes; unsigned long flags; } CORE;
enum pageflags { PG_dirty = 4, PG_head = 6 };
struct thread_info { u32 status; } CORE;
struct fdtable { unsigned int max_fds; struct file **fd; } CORE;
struct files_struct { struct fdtable *fdt; } CORE;
struct task_struct { struct thread_info thread_info; unsigned int flags; struct files_struct *files; } CORE;
struct pt_regs { unsigned long r10, di, orig_ax; } CORE;
struct file { unsigned int f_flags; struct inode *f_inode; s64 f_pos; } CORE;
struct iov_iter { u8 data_source; unsigned long count; } CORE;
struct kiocb { struct file *ki_filp; s64 ki_pos; } CORE;
