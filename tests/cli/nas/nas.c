// A file system that passes everything to a directory, except what a share may lack: the names in NAS, of link, flock,
// renflag, sock, fsyncdir, statfs, odirect, falloc, chmod. It may lack speed too: each read takes 1 ms, and nothing of a
// container stays in memory.
//   NAS=link,sock nas DIRECTORY MOUNTPOINT
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static char below[PATH_MAX], lacking[512];

static int lacks(const char *what) {
    char word[64];
    snprintf(word, sizeof word, ",%s,", what);
    return strstr(lacking, word) != 0;
}
static int answer(long result) { return result < 0 ? -errno : (int)result; }
static const char *real(const char *path, char *into) {
    snprintf(into, 2 * PATH_MAX, "%s%s", below, path);
    return into;
}
#define REAL char to[2 * PATH_MAX]; real(path, to)

static int get_attributes(const char *path, struct stat *found, struct fuse_file_info *file) { REAL; return answer(lstat(to, found)); }
static int list(const char *path, void *into, fuse_fill_dir_t fill, off_t at, struct fuse_file_info *file, enum fuse_readdir_flags flags) {
    REAL;
    DIR *open = opendir(to);
    struct dirent *entry;
    if (!open) return -errno;
    while ((entry = readdir(open))) fill(into, entry->d_name, 0, 0, 0);
    closedir(open);
    return 0;
}
static int make_directory(const char *path, mode_t mode) { REAL; return answer(mkdir(to, mode)); }
static int make_node(const char *path, mode_t mode, dev_t device) { REAL; return S_ISSOCK(mode) && lacks("sock") ? -EPERM : answer(mknod(to, mode, device)); }
static int remove_file(const char *path) { REAL; return answer(unlink(to)); }
static int remove_directory(const char *path) { REAL; return answer(rmdir(to)); }
static int make_link(const char *from, const char *path) { REAL; char source[2 * PATH_MAX]; return lacks("link") ? -EOPNOTSUPP : answer(link(real(from, source), to)); }
static int move(const char *from, const char *path, unsigned flags) { REAL; char source[2 * PATH_MAX]; return flags && lacks("renflag") ? -EINVAL : answer(renameat2(AT_FDCWD, real(from, source), AT_FDCWD, to, flags)); }
static int set_mode(const char *path, mode_t mode, struct fuse_file_info *file) { REAL; return lacks("chmod") ? -EPERM : answer(chmod(to, mode)); }
static int set_owner(const char *path, uid_t user, gid_t group, struct fuse_file_info *file) { REAL; return lacks("chmod") ? -EPERM : answer(lchown(to, user, group)); }
static int set_length(const char *path, off_t bytes, struct fuse_file_info *file) { REAL; return answer(file ? ftruncate(file->fh, bytes) : truncate(to, bytes)); }
static int set_times(const char *path, const struct timespec times[2], struct fuse_file_info *file) { REAL; return answer(utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW)); }
static int open_as(const char *path, struct fuse_file_info *file, int flags, mode_t mode) {
    REAL;
    if (flags & O_DIRECT && lacks("odirect")) return -EINVAL;
    int opened = open(to, flags & ~O_DIRECT, mode);
    if (opened < 0) return -errno;
    file->fh = opened;
    file->direct_io = lacks("speed");
    return 0;
}
static int open_file(const char *path, struct fuse_file_info *file) { return open_as(path, file, file->flags, 0); }
static int make_file(const char *path, mode_t mode, struct fuse_file_info *file) { return open_as(path, file, file->flags | O_CREAT, mode); }
static int read_file(const char *path, char *into, size_t bytes, off_t at, struct fuse_file_info *file) {
    if (lacks("speed")) usleep(1000);
    return answer(pread(file->fh, into, bytes, at));
}
static int write_file(const char *path, const char *from, size_t bytes, off_t at, struct fuse_file_info *file) { return answer(pwrite(file->fh, from, bytes, at)); }
static int get_space(const char *path, struct statvfs *space) {
    REAL;
    int got = answer(statvfs(to, space));
    if (lacks("statfs")) { memset(space, 0, sizeof *space); space->f_bsize = 4096; space->f_namemax = 255; }
    return got;
}
static int close_file(const char *path, struct fuse_file_info *file) { close(file->fh); return 0; }
static int sync_file(const char *path, int only_data, struct fuse_file_info *file) { return answer(fsync(file->fh)); }
static int sync_directory(const char *path, int only_data, struct fuse_file_info *file) { return lacks("fsyncdir") ? -EINVAL : 0; }
static int allocate(const char *path, int mode, off_t at, off_t bytes, struct fuse_file_info *file) { return lacks("falloc") ? -EOPNOTSUPP : answer(fallocate(file->fh, mode, at, bytes)); }
static int lock_file(const char *path, struct fuse_file_info *file, int how) { return lacks("flock") ? -ENOLCK : answer(flock(file->fh, how)); }

static struct fuse_operations operations = {
    .getattr = get_attributes, .readdir = list, .mkdir = make_directory, .mknod = make_node, .unlink = remove_file,
    .rmdir = remove_directory, .link = make_link, .rename = move, .chmod = set_mode, .chown = set_owner,
    .truncate = set_length, .utimens = set_times, .open = open_file, .create = make_file, .read = read_file,
    .write = write_file, .statfs = get_space, .release = close_file, .fsync = sync_file, .fsyncdir = sync_directory,
    .fallocate = allocate, .flock = lock_file,
};

int main(int count, char **arguments) {
    if (count < 3 || !realpath(arguments[1], below)) return 2;
    snprintf(lacking, sizeof lacking, ",%s,", getenv("NAS") ? getenv("NAS") : "");
    arguments[1] = arguments[0];
    return fuse_main(count - 1, arguments + 1, &operations, 0);
}
