/* system_posix.c - system.h by POSIX, for systems other than Linux. kqueue reports the ends of processes where it
 * exists; elsewhere they are polled. */
#include "runtime/base/system.h"

#ifndef SYSTEM_LINUX

#include "runtime/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined __APPLE__
#include <libproc.h>
#elif defined __FreeBSD__
#include <sys/procctl.h>
#endif
#if defined __APPLE__ || defined __FreeBSD__
#include <sys/event.h>
#include <sys/sysctl.h>
#define HAS_KQUEUE 1
#endif

/* ---- sleeping on a word: threads sleep on one of a few condition variables, chosen by the word's address ---- */

enum { NBED = 64, NAP_LEAST_NS = 20000, NAP_MOST_NS = 1000000 };

static struct bed {
    pthread_mutex_t lock;
    pthread_cond_t woken;
} beds[NBED];
static pthread_once_t beds_once = PTHREAD_ONCE_INIT;

static void
make_beds(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
/* macOS has timeouts relative to now instead of this clock */
#ifndef __APPLE__
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
#endif
    for (int i = 0; i < NBED; i++) {
        pthread_mutex_init(&beds[i].lock, NULL);
        pthread_cond_init(&beds[i].woken, &attr);
    }
    pthread_condattr_destroy(&attr);
}

static struct bed *
bed_of(_Atomic uint32_t *word)
{
    pthread_once(&beds_once, make_beds);
    return &beds[((uintptr_t)word * 0x9e3779b97f4a7c15u >> 32) % NBED];
}

/* Waits on the condition variable for at most ns nanoseconds. The caller holds the lock. */
static void
wait_in_bed(struct bed *b, int64_t ns)
{
#ifdef __APPLE__
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    pthread_cond_timedwait_relative_np(&b->woken, &b->lock, &t);
#else
    int64_t end = now_ns() + ns;
    struct timespec t = {end / 1000000000, end % 1000000000};
    pthread_cond_timedwait(&b->woken, &b->lock, &t);
#endif
}

/* A wake by another process reaches no condition variable of this process, so a shared word is read again after naps
 * that grow to NAP_MOST_NS. */
void
system_sleep(_Atomic uint32_t *word, uint32_t expected, int64_t ns, bool shared)
{
    struct bed *b = bed_of(word);
    int64_t end = ns ? now_ns() + ns : 0, nap = NAP_LEAST_NS;
    pthread_mutex_lock(&b->lock);
    while (atomic_load(word) == expected) {
        int64_t left = end ? end - now_ns() : INT64_MAX;
        if (left <= 0) break;
        if (shared && nap < left) left = nap;
        if (left == INT64_MAX)
            pthread_cond_wait(&b->woken, &b->lock);
        else
            wait_in_bed(b, left);
        nap = nap < NAP_MOST_NS / 2 ? 2 * nap : NAP_MOST_NS;
    }
    pthread_mutex_unlock(&b->lock);
}

void
system_wake(_Atomic uint32_t *word)
{
    struct bed *b = bed_of(word);
    /* a thread that has read the old word holds the lock until it sleeps; so it sleeps before the broadcast */
    pthread_mutex_lock(&b->lock);
    pthread_mutex_unlock(&b->lock);
    pthread_cond_broadcast(&b->woken);
}

/* ---- events: a pipe that holds bytes while the event is raised ---- */

int
system_event_open(struct system_event *e)
{
    int fd[2];
    *e = SYSTEM_NO_EVENT;
    if (system_pipe(fd, true)) return -1;
    *e = (struct system_event){fd[0], fd[1]};
    return 0;
}

void
system_raise(const struct system_event *e)
{
    /* write() can fail only if the pipe is full, and the event is raised then anyway */
    if (write(e->raise, "", 1) < 0) return;
}

void
system_lower(const struct system_event *e)
{
    char bytes[256];
    while (read(e->fd, bytes, sizeof bytes) == sizeof bytes) continue;
}

void
system_event_close(struct system_event *e)
{
    if (e->fd >= 0) close(e->fd);
    if (e->raise >= 0) close(e->raise);
    *e = SYSTEM_NO_EVENT;
}

/* ---- watching processes ---- */

/* Returns a kqueue that is readable after the process has ended; -1: none can be made. */
static int
end_queue(int pid)
{
#ifdef HAS_KQUEUE
    struct kevent end;
    int fd = kqueue();
    if (fd < 0) return -1;
    EV_SET(&end, (uintptr_t)pid, EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, NULL);
    if (!fcntl(fd, F_SETFD, FD_CLOEXEC) && !kevent(fd, &end, 1, NULL, 0, NULL)) return fd;
    close(fd);
#else
    (void)pid;
#endif
    return -1;
}

/* Returns true if the process has ended: its descriptor is readable, the process is a zombie child, or no process
 * has the pid. */
static bool
is_ended(const struct system_process *p)
{
    siginfo_t info = {0};
    struct pollfd end = {.fd = p->fd, .events = POLLIN};
    if (poll(&end, 1, 0) == 1) return true;
    if (!waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT)) return info.si_pid == p->pid;
    return kill(p->pid, 0) && errno == ESRCH;
}

int
system_process_open(struct system_process *p, int pid)
{
    *p = (struct system_process){0, -1};
    if (pid <= 0 || (kill(pid, 0) && errno == ESRCH)) return -1;
    *p = (struct system_process){pid, end_queue(pid)};
    return 0;
}

bool
system_process_ended(const struct system_process *p, int ms)
{
    int64_t end = now_ns() + (int64_t)ms * 1000000;
    while (!is_ended(p)) {
        struct pollfd ended = {.fd = p->fd, .events = POLLIN};
        if (now_ns() >= end) return false;
        poll(&ended, 1, 1); /* sleeps for 1 ms if there is no descriptor */
    }
    return true;
}

int
system_process_kill(const struct system_process *p)
{
    if (!is_ended(p)) return kill(p->pid, SIGKILL);
    errno = ESRCH;
    return -1;
}

void
system_process_close(struct system_process *p)
{
    if (p->fd >= 0) close(p->fd);
    *p = (struct system_process){0, -1};
}

/* Writes the path of the program that a process runs. Returns false, and writes "", if the path is unknown. */
static bool
process_program(int pid, char *path, size_t size)
{
    path[0] = '\0';
#if defined __APPLE__
    return proc_pidpath(pid, path, (uint32_t)size) > 0;
#elif defined __FreeBSD__
    int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PATHNAME, pid};
    return !sysctl(name, 4, path, &size, NULL, 0) && path[0];
#else
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t n = readlink(link, path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0;
#endif
}

bool
system_process_runs_us(int pid)
{
    char own[PATH_MAX], other[PATH_MAX];
    struct stat us, it;
    if (pid <= 1 || pid == (int)getpid() || kill(pid, 0)) return false;
    if (!process_program((int)getpid(), own, sizeof own) || !process_program(pid, other, sizeof other)) return false;
    return !stat(own, &us) && !stat(other, &it) && it.st_dev == us.st_dev && it.st_ino == us.st_ino;
}

void
system_end_with_parent(void)
{
#ifdef __FreeBSD__
    int number = SIGKILL;
    procctl(P_PID, 0, PROC_PDEATHSIG_CTL, &number);
#endif
}

int
system_thread_id(void)
{
    return 0;
}

void
system_thread_await(int id)
{
    (void)id;
}

/* ---- sharing memory between processes by named objects: the end of a process removes its names, unless it was
 * killed ---- */

static atomic_int nmemory; /* number of memory files that this process has created */

/* Writes the name of the i-th memory file of this process. macOS allows 31 bytes. */
static void
memory_name(int i, char name[SYSTEM_NAME])
{
    snprintf(name, SYSTEM_NAME, "/rille-%ld-%d", (long)getpid(), i);
}

static void
unlink_all(void)
{
    char name[SYSTEM_NAME];
    for (int i = 0; i < nmemory; i++) {
        memory_name(i, name);
        shm_unlink(name);
    }
}

int
system_memory_new(size_t bytes, char name[SYSTEM_NAME])
{
    int i = atomic_fetch_add(&nmemory, 1);
    if (i == 0 && atexit(unlink_all)) return -1;
    memory_name(i, name);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0) return -1;
    if (!ftruncate(fd, (off_t)bytes)) return fd;
    int why = errno;
    shm_unlink(name);
    close(fd);
    errno = why;
    return -1;
}

int
system_memory_open(const char *name, size_t bytes, char own[SYSTEM_NAME])
{
    struct stat st;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = shm_open(name, O_RDWR, 0600);
    if (fd < 0) return -1;
    snprintf(own, SYSTEM_NAME, "%s", name);
    /* macOS rounds the size up to whole pages */
    if (!fstat(fd, &st) && ((size_t)st.st_size + page - 1) / page == (bytes + page - 1) / page) return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

int
system_memory_pages(int fd, char *base, size_t at, size_t bytes, bool release)
{
    (void)fd;
    if (!release) memset(base + at, 0, bytes);
    return 0;
}

void
system_memory_unlink(const char *name)
{
    shm_unlink(name);
}

/* ---- opening and polling descriptors ---- */

/* An accepted socket of FreeBSD inherits O_NONBLOCK, so this function sets the flag in both cases. */
static void
set_flags(int fd, bool nonblocking)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, nonblocking ? O_NONBLOCK : 0);
}

int
system_pipe(int fd[2], bool nonblocking)
{
    if (pipe(fd)) return -1;
    for (int i = 0; i < 2; i++) set_flags(fd[i], nonblocking);
    return 0;
}

static int
set_socket(int fd, bool nonblocking)
{
    if (fd < 0) return -1;
    set_flags(fd, nonblocking);
#ifdef SO_NOSIGPIPE
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
    return fd;
}

int
system_socket(int family, int type, bool nonblocking)
{
    return set_socket(socket(family, type, 0), nonblocking);
}

int
system_accept(int listener, bool nonblocking)
{
    return set_socket(accept(listener, NULL, NULL), nonblocking);
}

int
system_unnamed_file(char *path, size_t size)
{
    char name[] = "/tmp/rille-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0) return -1;
    unlink(name);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    snprintf(path, size, "/dev/fd/%d", fd);
    return fd;
}

/* select() has no bit for a descriptor of FD_SETSIZE or above, which is then taken for readable. */
int
system_poll(struct pollfd *fd, int n, const struct timespec *t, const sigset_t *mask)
{
    static const struct timespec soon = {.tv_nsec = 1000000};
    fd_set in;
    int most = -1;
    FD_ZERO(&in);
    for (int i = 0; i < n; i++)
        if (fd[i].fd >= (int)FD_SETSIZE)
            t = &soon;
        else if (fd[i].fd >= 0)
            FD_SET(fd[i].fd, &in), most = fd[i].fd > most ? fd[i].fd : most;
    int ready = pselect(most + 1, &in, NULL, NULL, t, mask);
    for (int i = 0; i < n; i++) {
        bool beyond = fd[i].fd >= (int)FD_SETSIZE, readable = ready >= 0 && fd[i].fd >= 0 && !beyond;
        fd[i].revents = beyond || (readable && FD_ISSET(fd[i].fd, &in)) ? POLLIN : 0;
    }
    return ready;
}

void
system_erase(void *p, size_t n)
{
    for (volatile char *c = p; n > 0; n--) *c++ = 0;
}

/* ---- sorting with an argument ---- */

#ifdef __APPLE__
struct order {
    int (*compare)(const void *a, const void *b, void *arg);
    void *arg;
};

static int
compare_by(void *order, const void *a, const void *b)
{
    const struct order *o = order;
    return o->compare(a, b, o->arg);
}
#endif

void
system_sort(void *base, size_t n, size_t size, int (*compare)(const void *a, const void *b, void *arg), void *arg)
{
#ifdef __APPLE__
    qsort_r(base, n, size, &(struct order){compare, arg}, compare_by);
#else
    qsort_r(base, n, size, compare, arg);
#endif
}

/* ---- identifying this host, this program and peers ---- */

bool
system_program(char *path, size_t size)
{
    return process_program((int)getpid(), path, size);
}

bool
system_peer_is_ours(int fd)
{
#ifdef __linux__
    struct ucred peer;
    socklen_t n = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.uid == geteuid();
#else
    uid_t user;
    gid_t group;
    return !getpeereid(fd, &user, &group) && user == geteuid();
#endif
}

/* Returns the time of the system's start, s; 0: unknown. */
static long
boot_time(void)
{
    struct timeval boot = {0, 0};
#ifdef HAS_KQUEUE
    size_t n = sizeof boot;
    if (sysctlbyname("kern.boottime", &boot, &n, NULL, 0)) return 0;
#endif
    return (long)boot.tv_sec;
}

void
system_host(char text[SYSTEM_HOST])
{
    char name[96] = "";
    gethostname(name, sizeof name - 1);
    snprintf(text, SYSTEM_HOST, "%s-%ld-%ld %ld", name, gethostid(), boot_time(), (long)geteuid());
}

int
system_cores(void)
{
#ifdef __APPLE__
    return 0;
#else
    cpu_set_t own;
    return sched_getaffinity(0, sizeof own, &own) ? 0 : CPU_COUNT(&own);
#endif
}

int
system_core(void)
{
#ifdef __APPLE__
    return -1;
#else
    return sched_getcpu();
#endif
}

#endif
