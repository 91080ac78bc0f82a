// Page-cache events of regular files on watched file systems, for Duet.
//
// Each program turns a kernel event into bits of a chunk of 64 pages, in the active one of two
// maps. User space flips the maps and drains the idle one. A chunk holds, for presence and for
// dirtiness, which pages changed (seen) and what they are now (value); so repeated events are
// harmless, and opposite ones leave the final state. See src/ebpf.rs, which shares the layouts.
#include "kernel.h"
char _license[] SEC("license") = "GPL";

enum { ADDED, REMOVED, DIRTIED, FLUSHED };
#define BTRFS_MAGIC 0x9123683E
#define FUSE_MAGIC 0x65735546
#define PAGE_SHIFT 12
#define REQ_OP_WRITE 1
#define BTRFS_ORDERED_COMPRESSED (1UL << 3)

// The active map, and the file system that is watched; device 0 is none.
struct control { u32 active; u32 device; };
struct key { u64 inode; u64 root; u64 chunk; u32 device; u32 generation; };
struct chunk { u64 seen_present, present, seen_dirty, dirty; };
struct counters { u64 events[4]; u64 dropped; };

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct control); } control SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 65536); __type(key, struct key); __type(value, struct chunk); } chunks_0 SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 65536); __type(key, struct key); __type(value, struct chunk); } chunks_1 SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct counters); } counters SEC(".maps");

struct run { struct key key; u64 index; u64 pages; u32 event; u32 active; };

static __always_inline struct counters *count(void) {
    u32 zero = 0;
    return bpf_map_lookup_elem(&counters, &zero);
}

static __always_inline void drop(void) {
    struct counters *c = count();
    if (c) c->dropped++;
}

static __always_inline struct chunk *chunk_of(struct run *run) {
    struct key *key = &run->key;
    struct chunk *chunk = run->active ? bpf_map_lookup_elem(&chunks_1, key) : bpf_map_lookup_elem(&chunks_0, key);
    if (chunk) return chunk;
    struct chunk empty = {};
    // Another processor may have made it meanwhile; a full map is found by the second look.
    if (run->active) bpf_map_update_elem(&chunks_1, key, &empty, BPF_NOEXIST);
    else bpf_map_update_elem(&chunks_0, key, &empty, BPF_NOEXIST);
    return run->active ? bpf_map_lookup_elem(&chunks_1, key) : bpf_map_lookup_elem(&chunks_0, key);
}

static long one_chunk(u32 step, struct run *run) {
    if (!run->pages) return 1;
    u64 first = run->index & 63, pages = 64 - first;
    if (pages > run->pages) pages = run->pages;
    u64 mask = (pages == 64 ? ~0ULL : (1ULL << pages) - 1) << first;
    run->key.chunk = run->index >> 6;
    run->index += pages;
    run->pages -= pages;
    struct chunk *chunk = chunk_of(run);
    if (!chunk) { drop(); return 0; }
    if (run->event == ADDED) {
        __sync_fetch_and_or(&chunk->seen_present, mask);
        __sync_fetch_and_or(&chunk->present, mask);
    } else if (run->event == REMOVED) {
        // A page that is not there is not dirty either.
        __sync_fetch_and_or(&chunk->seen_present, mask);
        __sync_fetch_and_and(&chunk->present, ~mask);
        __sync_fetch_and_or(&chunk->seen_dirty, mask);
        __sync_fetch_and_and(&chunk->dirty, ~mask);
    } else {
        __sync_fetch_and_or(&chunk->seen_dirty, mask);
        if (run->event == DIRTIED) __sync_fetch_and_or(&chunk->dirty, mask);
        else __sync_fetch_and_and(&chunk->dirty, ~mask);
    }
    return 0;
}

// Records `pages` pages from `index` of the inode at address `at`.
static __noinline int record(u64 at, u64 index, u64 pages, u32 event) {
    struct inode *inode = (struct inode *)at;
    u32 zero = 0;
    struct control *set = bpf_map_lookup_elem(&control, &zero);
    if (!set) return 0;
    u32 device = BPF_CORE_READ(inode, i_sb, s_dev);
    if (device != set->device || (BPF_CORE_READ(inode, i_mode) & 0170000) != 0100000) return 0;
    struct counters *c = count();
    if (c) c->events[event & 3] += pages;
    struct run run = { .index = index, .pages = pages, .event = event, .active = set->active };
    run.key.inode = BPF_CORE_READ(inode, i_ino);
    run.key.device = device;
    unsigned long magic = BPF_CORE_READ(inode, i_sb, s_magic);
    // A server of FUSE says one generation to the kernel and another one, or none, to who asks.
    if (magic != FUSE_MAGIC) run.key.generation = BPF_CORE_READ(inode, i_generation);
    if (bpf_core_type_exists(struct btrfs_inode) && magic == BTRFS_MAGIC) {
        struct btrfs_inode *of = (void *)(at - bpf_core_field_offset(struct btrfs_inode, vfs_inode));
        run.key.root = BPF_CORE_READ(of, root, root_key.objectid);
    }
    if ((index & 63) + pages <= 64) one_chunk(0, &run);
    else bpf_loop(1 << 15, one_chunk, &run, 0);
    if (run.pages) drop();
    return 0;
}

static __always_inline unsigned long folio_flags(struct folio *folio) {
    // The first word of a folio in every version.
    unsigned long flags = 0;
    bpf_probe_read_kernel(&flags, sizeof flags, folio);
    return flags;
}

static __always_inline u64 is_dirty(struct folio *folio) {
    return folio_flags(folio) & (1UL << bpf_core_enum_value(enum pageflags, PG_dirty));
}

static __always_inline u64 folio_pages(struct folio *folio) {
    if (!(folio_flags(folio) & (1UL << bpf_core_enum_value(enum pageflags, PG_head)))) return 1;
    return 1ULL << (BPF_CORE_READ(folio, _flags_1) & 0xff & 31);
}

static __always_inline u64 pages_of(u64 offset, u64 bytes) {
    return ((offset & 4095) + bytes + 4095) >> PAGE_SHIFT;
}

// A folio became clean as a whole when its writeback began, even if only some of its blocks are
// written. Since then somebody may have written to it, and may do so during this call: the event of
// that may come before or after what is recorded here, but the flag is set before the event.
static __always_inline void flushed(u64 inode, struct folio *folio) {
    if (is_dirty(folio)) return;
    u64 index = BPF_CORE_READ(folio, index), pages = folio_pages(folio);
    record(inode, index, pages, FLUSHED);
    if (is_dirty(folio)) record(inode, index, pages, DIRTIED);
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(added, struct folio *folio) {
    record((u64)folio->mapping->host, folio->index, folio_pages(folio), ADDED);
    return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(removed, struct folio *folio) {
    record((u64)folio->mapping->host, folio->index, folio_pages(folio), REMOVED);
    return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(dirtied, struct folio *folio, struct address_space *mapping) {
    if (!mapping) return 0;
    record((u64)mapping->host, folio->index, folio_pages(folio), DIRTIED);
    return 0;
}

// The pages of the page cache that a write refers to, found from its vectors.
struct vectors { u64 at; u32 bytes_left; u32 done; };

static long one_piece(u32 step, struct vectors *v) {
    if (!v->bytes_left) return 1;
    struct bio_vec *vector = (void *)v->at;
    u64 page_at = (u64)BPF_CORE_READ(vector, bv_page);
    u32 vector_bytes = BPF_CORE_READ(vector, bv_len);
    u64 offset = (u64)BPF_CORE_READ(vector, bv_offset) + v->done;
    u32 bytes = vector_bytes - v->done;
    if (bytes > v->bytes_left) bytes = v->bytes_left;
    u32 page_struct_bytes = bpf_core_type_size(struct page);
    page_at += (offset >> PAGE_SHIFT) * page_struct_bytes;
    u64 head = BPF_CORE_READ((struct page *)page_at, compound_head);
    u64 folio_at = head & 1 ? head - 1 : page_at;
    struct folio *folio = (struct folio *)folio_at;
    u64 within = (page_at - folio_at) / page_struct_bytes;
    u64 folio_bytes_left = ((folio_pages(folio) - within) << PAGE_SHIFT) - (offset & 4095);
    if (bytes > folio_bytes_left) bytes = folio_bytes_left;
    // The low bits mark anonymous memory.
    u64 mapping = (u64)BPF_CORE_READ(folio, mapping);
    if (mapping && !(mapping & 3)) {
        u64 inode = (u64)BPF_CORE_READ((struct address_space *)mapping, host);
        if (inode) flushed(inode, folio);
    }
    v->bytes_left -= bytes;
    v->done += bytes;
    if (v->done >= vector_bytes) { v->at += bpf_core_type_size(struct bio_vec); v->done = 0; }
    return 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(flushed_by_bio, struct bio *bio) {
    if ((bio->bi_opf & 0xff) != REQ_OP_WRITE) return 0;
    struct vectors v = { .bytes_left = bio->bi_iter.bi_size, .done = bio->bi_iter.bi_bvec_done };
    // Read as a number: a typed pointer that a loop advances never converges in the verifier.
    v.at = (u64)BPF_CORE_READ(bio, bi_io_vec) + bio->bi_iter.bi_idx * bpf_core_type_size(struct bio_vec);
    bpf_loop(1 << 16, one_piece, &v, 0);
    if (v.bytes_left) drop();
    return 0;
}

// FUSE writes back without a bio. Others that come here submit bios.
SEC("tp_btf/iomap_writeback_folio")
int BPF_PROG(flushed_by_iomap, struct inode *inode, s64 offset, u64 bytes) {
    if (inode->i_sb->s_magic != FUSE_MAGIC) return 0;
    record((u64)inode, (u64)offset >> PAGE_SHIFT, pages_of(offset, bytes), FLUSHED);
    return 0;
}

// The bios of compressed btrfs extents carry other pages than those of the page cache.
SEC("tp_btf/btrfs_ordered_extent_add")
int BPF_PROG(flushed_compressed, struct btrfs_inode *inode, struct btrfs_ordered_extent *extent) {
    if (!(extent->flags & BTRFS_ORDERED_COMPRESSED)) return 0;
    record((u64)&inode->vfs_inode, extent->file_offset >> PAGE_SHIFT, pages_of(extent->file_offset, extent->num_bytes), FLUSHED);
    return 0;
}

SEC("tp_btf/extent_writepage")
int BPF_PROG(flushed_by_btrfs, struct folio *folio, struct inode *inode) {
    flushed((u64)inode, folio);
    return 0;
}
