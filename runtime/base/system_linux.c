/* system_linux.c - system.h by Linux's own calls. */
#include "runtime/base/system.h"

#ifdef SYSTEM_LINUX

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* ---- raising events: an eventfd ---- */

int
system_event_open(struct system_event *e)
{
    e->fd = e->raise = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return e->fd < 0 ? -1 : 0;
}

void
system_raise(const struct system_event *e)
{
    /* write() can fail only if the counter is full, and the event is raised then anyway */
    if (eventfd_write(e->raise, 1)) return;
}

void
system_lower(const struct system_event *e)
{
    eventfd_t count;
    if (eventfd_read(e->fd, &count)) return; /* the event was not raised */
}

void
system_event_close(struct system_event *e)
{
    if (e->fd >= 0) close(e->fd);
    *e = SYSTEM_NO_EVENT;
}

/* ---- watching processes ---- */

int
system_process_open(struct system_process *p, int pid)
{
    *p = (struct system_process){pid, (int)syscall(SYS_pidfd_open, pid, 0)};
    if (p->fd >= 0) return fcntl(p->fd, F_SETFD, FD_CLOEXEC);
    *p = (struct system_process){0, -1};
    return -1;
}

bool
system_process_ended(const struct system_process *p, int ms)
{
    struct pollfd end = {.fd = p->fd, .events = POLLIN};
    return poll(&end, 1, ms) == 1;
}

int
system_process_kill(const struct system_process *p)
{
    return (int)syscall(SYS_pidfd_send_signal, p->fd, SIGKILL, NULL, 0);
}

void
system_process_close(struct system_process *p)
{
    if (p->fd >= 0) close(p->fd);
    *p = (struct system_process){0, -1};
}

bool
system_process_runs_us(int pid)
{
    char path[64];
    struct stat us, it, owner;
    if (pid <= 1 || pid == (int)getpid()) return false;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (stat(path, &owner) || owner.st_uid != geteuid()) return false;
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    if (stat(path, &it) || stat("/proc/self/exe", &us)) return false;
    return it.st_dev == us.st_dev && it.st_ino == us.st_ino;
}

void
system_end_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int
system_thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

void
system_thread_await(int id)
{
    while (id && !syscall(SYS_tgkill, getpid(), id, 0)) sched_yield();
}

/* ---- memory that processes share ---- */

static void
memory_name(int fd, char name[SYSTEM_NAME])
{
    snprintf(name, SYSTEM_NAME, "/proc/%ld/fd/%d", (long)getpid(), fd);
}

int
system_memory_new(size_t bytes, char name[SYSTEM_NAME])
{
    int fd = memfd_create("rille", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    memory_name(fd, name);
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (!fchmod(fd, 0600) && !ftruncate(fd, (off_t)bytes) && !fcntl(fd, F_ADD_SEALS, seals)) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int
system_memory_open(const char *name, size_t bytes, char own[SYSTEM_NAME])
{
    struct stat st;
    int fd = open(name, O_RDWR | O_CLOEXEC);
    if (fd < 0) return -1;
    memory_name(fd, own);
    int seals = fcntl(fd, F_GET_SEALS);
    if (!fstat(fd, &st) && seals >= 0 && seals & F_SEAL_SHRINK && (size_t)st.st_size == bytes) return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

int
system_memory_pages(int fd, char *base, size_t at, size_t bytes, bool release)
{
    int how = release ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0;
    (void)base;
    return !fallocate(fd, how, (off_t)at, (off_t)bytes) || errno == EOPNOTSUPP ? 0 : -1;
}

void
system_memory_unlink(const char *name)
{
    (void)name; /* the name, /proc/PID/fd/N, disappears when the descriptor is closed */
}

/* ---- opening and polling descriptors ---- */

int
system_pipe(int fd[2], bool nonblocking)
{
    return pipe2(fd, O_CLOEXEC | (nonblocking ? O_NONBLOCK : 0));
}

int
system_socket(int family, int type, bool nonblocking)
{
    return socket(family, type | SOCK_CLOEXEC | (nonblocking ? SOCK_NONBLOCK : 0), 0);
}

int
system_accept(int listener, bool nonblocking)
{
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC | (nonblocking ? SOCK_NONBLOCK : 0));
}

int
system_unnamed_file(char *path, size_t size)
{
    int fd = memfd_create("rille", MFD_CLOEXEC);
    if (fd >= 0 && fchmod(fd, 0600)) return close(fd), -1;
    snprintf(path, size, "/proc/self/fd/%d", fd);
    return fd;
}

int
system_poll(struct pollfd *fd, int n, const struct timespec *t, const sigset_t *mask)
{
    return ppoll(fd, (nfds_t)n, t, mask);
}

void
system_erase(void *p, size_t n)
{
    explicit_bzero(p, n);
}

/* ---- sorting with an argument ---- */

void
system_sort(void *base, size_t n, size_t size, int (*compare)(const void *a, const void *b, void *arg), void *arg)
{
    qsort_r(base, n, size, compare, arg);
}

/* ---- identifying this host, this program and peers ---- */

bool
system_program(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Returns true if the process `pid` is in the same namespace of this kind as this process. Returns false if that
 * cannot be determined. */
static bool
shares_namespace(long pid, const char *kind)
{
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    if (stat(path, &own)) return false;
    snprintf(path, sizeof path, "/proc/%ld/ns/%s", pid, kind);
    return !stat(path, &other) && own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

bool
system_peer_is_ours(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) || peer.uid != geteuid()) return false;
    return peer.pid > 0 && shares_namespace(peer.pid, "pid") && shares_namespace(peer.pid, "user");
}

/* Writes the id of this boot of the kernel; returns its length. */
static size_t
boot_id(char *text, size_t size)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size) : 0;
    size_t used = 0;
    if (fd >= 0) close(fd);
    while ((ssize_t)used < n && text[used] > ' ') used++;
    return used;
}

void
system_host(char text[SYSTEM_HOST])
{
    enum { BOOT = 64 };
    struct stat st;
    size_t n = boot_id(text, BOOT);
    n += (size_t)snprintf(text + n, SYSTEM_HOST - n, " %ld", (long)geteuid());
    if (!stat("/proc/self/ns/pid", &st)) snprintf(text + n, SYSTEM_HOST - n, " %lu", (unsigned long)st.st_ino);
}

int
system_cores(void)
{
    cpu_set_t own;
    /* the call fails if the machine has more cores than a cpu_set_t can hold */
    return sched_getaffinity(0, sizeof own, &own) ? 0 : CPU_COUNT(&own);
}

int
system_core(void)
{
    return sched_getcpu();
}

#endif
