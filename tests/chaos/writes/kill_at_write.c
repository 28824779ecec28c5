/* Kills this process at its n-th call that changes what stands below a folder.
 *
 * Preloaded (LD_PRELOAD). Calls are counted in a file that whoever starts the process maps, too: so
 * they go on being counted in a process that is started again, and the order to kill is given from
 * outside. A kill is SIGKILL: what was written before it stays, as the kernel has it.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BEFORE = 1, AFTER = 2, TORN = 3 };

/* `tests/chaos/writes/preload.py` has the same layout. */
struct order {
    _Atomic uint64_t calls;  /* all calls that change something */
    _Atomic uint64_t writes; /* those of them that write bytes */
    _Atomic uint64_t at;     /* the one to be killed at; of `writes` if torn; 0 is none */
    _Atomic uint64_t how;
    _Atomic uint64_t again;  /* so many calls behind that, killed once more; 0 is not */
    _Atomic uint64_t kills;
    char what[32];           /* of the first kill */
    char where[216];
};

static struct order *order;
static char folder[4096];
static size_t length;

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("PENSTOCK_CHAOS_WRITES"), *below = getenv("PENSTOCK_CHAOS_FOLDER");
    if (file == NULL || below == NULL || strlen(below) >= sizeof folder) return;
    int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof(struct order), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return;
    strcpy(folder, below);
    length = strlen(folder);
    order = at;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (real == NULL) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int below(const char *path) {
    return order != NULL && path != NULL && strncmp(path, folder, length) == 0 &&
           (path[length] == '/' || path[length] == 0);
}

static int is_open(int fd, char *path, size_t size) {
    char link[64];
    if (order == NULL) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int saved = errno;
    ssize_t found = readlink(link, path, size - 1);
    errno = saved;
    if (found < 0) return 0;
    path[found] = 0;
    return below(path);
}

static void die(const char *what, const char *path) {
    if (atomic_fetch_add(&order->kills, 1) == 0) {
        strncpy(order->what, what, sizeof order->what - 1);
        strncpy(order->where, path + length, sizeof order->where - 1);
    }
    uint64_t again = atomic_exchange(&order->again, 0);
    atomic_store(&order->at, again ? atomic_load(&order->at) + again : 0);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Count a call; return how it is to be done. */
static uint64_t count(const char *what, const char *path, int bytes) {
    uint64_t call = atomic_fetch_add(&order->calls, 1) + 1;
    uint64_t write = bytes ? atomic_fetch_add(&order->writes, 1) + 1 : 0;
    uint64_t how = atomic_load(&order->how), at = atomic_load(&order->at);
    if (how == BEFORE && call == at) die(what, path);
    if (how == TORN && bytes && write == at) return TORN;
    return how == AFTER && call == at ? AFTER : 0;
}

#define CHANGE(what, path, act) \
    do { \
        uint64_t how = count(what, path, 0); \
        __typeof__(act) done = (act); \
        if (how == AFTER) die(what, path); \
        return done; \
    } while (0)

#define WRITE(what, path, whole, half) \
    do { \
        uint64_t how = count(what, path, 1); \
        ssize_t done = how == TORN ? (half) : (whole); \
        if (how) die(what, path); \
        return done; \
    } while (0)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    char path[4200];
    if (!is_open(fd, path, sizeof path)) return real(fd, data, size);
    WRITE("write", path, real(fd, data, size), real(fd, data, size / 2));
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    char path[4200];
    if (!is_open(fd, path, sizeof path)) return real(fd, data, size, at);
    WRITE("pwrite", path, real(fd, data, size, at), real(fd, data, size / 2, at));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    char path[4200];
    if (!is_open(fd, path, sizeof path)) return real(fd, data, size, at);
    WRITE("pwrite", path, real(fd, data, size, at), real(fd, data, size / 2, at));
}

ssize_t writev(int fd, const struct iovec *parts, int many) {
    REAL(writev);
    char path[4200];
    if (!is_open(fd, path, sizeof path)) return real(fd, parts, many);
    WRITE("writev", path, real(fd, parts, many), real(fd, parts, (many + 1) / 2));
}

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    char path[4200];
    if (!is_open(fd, path, sizeof path)) return real(fd, size);
    CHANGE("ftruncate", path, real(fd, size));
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    char path[4200];
    if (!is_open(fd, path, sizeof path)) return real(fd, size);
    CHANGE("ftruncate", path, real(fd, size));
}

int rename(const char *from, const char *to) {
    REAL(rename);
    if (!below(to)) return real(from, to);
    CHANGE("rename", to, real(from, to));
}

int unlink(const char *path) {
    REAL(unlink);
    if (!below(path)) return real(path);
    CHANGE("unlink", path, real(path));
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    if (!below(path)) return real(path, mode);
    CHANGE("mkdir", path, real(path, mode));
}

/* Opening a file changes something where it is made, or emptied. */
static int changes(const char *path, int flags) {
    if (!below(path)) return 0;
    int saved = errno;
    int is_new = (flags & O_CREAT) && access(path, F_OK) != 0;
    errno = saved;
    return is_new || (flags & O_TRUNC);
}

static mode_t mode_of(int flags, va_list more) {
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(more, int) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        if (!changes(path, flags)) return real(path, flags, mode); \
        CHANGE("open", path, real(path, flags, mode)); \
    }

OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        if (!changes(path, flags)) return real(dir, path, flags, mode); \
        CHANGE("open", path, real(dir, path, flags, mode)); \
    }

OPENAT(openat)
OPENAT(openat64)
