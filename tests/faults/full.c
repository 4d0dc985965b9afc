// Makes a disk full, or read-only, for whatever lies below some folder, while a file exists. LD_PRELOAD loads it.
//
//   FULL_PATH   part of the paths concerned
//   FULL_ERROR  the errno: that of a full disk stops writing, after half of what is written first. That of a read-only
//               one also stops making, renaming and opening files for writing
//   FULL_WHEN   the file that must exist
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int fails(const char* path) {
    const char *part = getenv("FULL_PATH"), *when = getenv("FULL_WHEN");
    if (!part || !when || !strstr(path, part) || access(when, F_OK)) return 0;
    errno = atoi(getenv("FULL_ERROR"));
    return errno;
}

static int is_read_only(int folder, const char* path) {
    char whole[2 * PATH_MAX] = "", link[64];
    if (path[0] != '/') {
        if (folder == AT_FDCWD) {
            if (!getcwd(whole, PATH_MAX)) return 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            if (readlink(link, whole, PATH_MAX) < 0) return 0;
        }
        strcat(whole, "/");
    }
    strncat(whole, path, PATH_MAX);
    return fails(whole) == EROFS;
}

static ssize_t written(int descriptor, const void* bytes, size_t count) {
    static int begun;
    char link[64], path[PATH_MAX + 1] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    int before = errno;
    if (readlink(link, path, PATH_MAX) <= 0 || !fails(path)) {
        errno = before;
        return -2;
    }
    if (!begun++ && errno == ENOSPC && count > 1) return REAL(write)(descriptor, bytes, count / 2);
    return -1;
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
    ssize_t done = written(descriptor, bytes, count);
    return done == -2 ? REAL(write)(descriptor, bytes, count) : done;
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t offset) {
    ssize_t done = written(descriptor, "", 1);
    return done == -2 ? REAL(pwrite64)(descriptor, bytes, count, offset) : -1;
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
    ssize_t done = written(descriptor, "", 1);
    return done == -2 ? REAL(writev)(descriptor, parts, count) : -1;
}

#define OPEN(name)                                                                              \
    int name(const char* path, int flags, ...) {                                                \
        va_list rest;                                                                           \
        va_start(rest, flags);                                                                  \
        mode_t mode = va_arg(rest, mode_t);                                                     \
        va_end(rest);                                                                           \
        if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && is_read_only(AT_FDCWD, path)) return -1; \
        return REAL(name)(path, flags, mode);                                                   \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                          \
    int name(int folder, const char* path, int flags, ...) {                                  \
        va_list rest;                                                                         \
        va_start(rest, flags);                                                                \
        mode_t mode = va_arg(rest, mode_t);                                                   \
        va_end(rest);                                                                         \
        if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && is_read_only(folder, path)) return -1; \
        return REAL(name)(folder, path, flags, mode);                                         \
    }
OPENAT(openat)
OPENAT(openat64)

int mkdir(const char* path, mode_t mode) {
    return is_read_only(AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode);
}

int rename(const char* from, const char* to) {
    return is_read_only(AT_FDCWD, to) || is_read_only(AT_FDCWD, from) ? -1 : REAL(rename)(from, to);
}

int unlink(const char* path) { return is_read_only(AT_FDCWD, path) ? -1 : REAL(unlink)(path); }

int symlink(const char* to, const char* path) {
    return is_read_only(AT_FDCWD, path) ? -1 : REAL(symlink)(to, path);
}
