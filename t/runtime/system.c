/* system.c - tests system.h: waiting on a memory word (futex), events, processes, shared memory, and process
 * identities.
 *
 * system_posix.c and system_kqueue.c include this file, so the tests run on all versions of system.h. A lost wake-up
 * makes the test hang. */
#include "runtime/base/system.h"
#include "runtime/base/clock.h"
#include "t/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MS = 1000000 };

/* ---- words in memory on which threads wait ---- */

static void
test_returns(void)
{
    _Atomic uint32_t word = 7;
    for (int shared = 0; shared < 2; shared++) {
        const char *kind = shared ? "shared" : "private";
        system_wake(&word);
        system_sleep(&word, 6, 0, shared);
        ok(true, "%s: a thread does not sleep on a word that differs from the expected value", kind);
        int64_t begin = now_ns();
        system_sleep(&word, 7, 5 * MS, shared);
        int64_t took = now_ns() - begin;
        ok(took >= 5 * MS, "%s: a sleep lasts for its timeout", kind);
    }
}

/* A ring of threads, in which one at a time has its turn. Thread i waits until word == i, modulo the number of
 * threads, and then increments it. Word k belongs to ring k. */
struct ring {
    _Atomic uint32_t word;
    uint32_t nthread, rounds;
    bool shared;
    int64_t sum; /* changed without locks, by the thread whose turn it is */
};
struct member {
    struct ring *ring;
    uint32_t nth;
};

static void *
take_turns(void *arg)
{
    struct member *m = arg;
    struct ring *r = m->ring;
    for (uint32_t round = 0; round < r->rounds; round++) {
        uint32_t turn = round * r->nthread + m->nth, now;
        while ((now = atomic_load(&r->word)) != turn) system_sleep(&r->word, now, 0, r->shared);
        r->sum += turn;
        atomic_store(&r->word, turn + 1);
        system_wake(&r->word);
    }
    return NULL;
}

/* Runs more rings than there are condition variables, so that some rings share one. */
static void
test_rings(bool shared)
{
    enum { RINGS = 70, THREADS = 3 };
    static struct ring ring[RINGS];
    static struct member member[RINGS][THREADS];
    static pthread_t thread[RINGS][THREADS];
    int wrong = 0;
    uint64_t state = seed_of(1);
    for (int k = 0; k < RINGS; k++) {
        ring[k] =
            (struct ring){.nthread = THREADS, .rounds = 1 + (uint32_t)(next_random(&state) % 40), .shared = shared};
        for (uint32_t i = 0; i < THREADS; i++) {
            member[k][i] = (struct member){&ring[k], i};
            if (pthread_create(&thread[k][i], NULL, take_turns, &member[k][i])) exit(1);
        }
    }
    for (int k = 0; k < RINGS; k++) {
        int64_t n = (int64_t)ring[k].rounds * THREADS;
        for (int i = 0; i < THREADS; i++) pthread_join(thread[k][i], NULL);
        wrong += ring[k].sum != n * (n - 1) / 2;
    }
    ok(!wrong, "%d threads wake each other in turn on %d %s words", RINGS * THREADS, RINGS,
       shared ? "shared" : "private");
}

static void *
sleep_until_changed(void *word)
{
    while (!atomic_load((_Atomic uint32_t *)word)) system_sleep(word, 0, 0, false);
    return NULL;
}

static void
test_many_sleepers(void)
{
    enum { SLEEPERS = 50 };
    pthread_t thread[SLEEPERS];
    _Atomic uint32_t word = 0;
    for (int i = 0; i < SLEEPERS; i++)
        if (pthread_create(&thread[i], NULL, sleep_until_changed, &word)) exit(1);
    usleep(2000);
    atomic_store(&word, 1);
    system_wake(&word);
    for (int i = 0; i < SLEEPERS; i++) pthread_join(thread[i], NULL);
    ok(true, "one wake wakes %d threads", SLEEPERS);
}

/* ---- memory, and words in memory that processes share ---- */

static char other[SYSTEM_NAME]; /* name of the memory file that was opened last */

static int
play(const char *name, size_t bytes)
{
    int fd = system_memory_open(name, bytes, other);
    if (fd < 0) return 1;
    struct ring *r = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (r == MAP_FAILED) return 1;
    take_turns(&(struct member){r, 1});
    return 0;
}

static void
test_memory(void)
{
    enum { BYTES = 1 << 20, PAGE = 4096 };
    char name[SYSTEM_NAME];
    int fd = system_memory_new(BYTES, name), status;
    char *base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ok(fd >= 0 && base != MAP_FAILED && (fcntl(fd, F_GETFD) & FD_CLOEXEC), "a memory file is created and mapped");
    ok(!system_memory_pages(fd, base, 0, 4 * PAGE, false), "pages are allocated");
    memset(base, 1, 4 * PAGE);
    bool freed = !system_memory_pages(fd, base, PAGE, PAGE, true) && !system_memory_pages(fd, base, PAGE, PAGE, false);
    ok(freed && base[PAGE - 1] && base[2 * PAGE] && !base[PAGE] && !base[2 * PAGE - 1],
       "released pages are zero after the next allocation, and others keep their bytes");
    struct ring *r = (struct ring *)base;
    *r = (struct ring){.nthread = 2, .rounds = 200, .shared = true};
    pid_t child = fork();
    if (!child) _exit(play(name, BYTES));
    take_turns(&(struct member){r, 0});
    waitpid(child, &status, 0);
    ok(status == 0 && atomic_load(&r->word) == 400, "two processes wake each other on a word in shared memory");
    int again = system_memory_open(name, BYTES, other);
    ok(again >= 0, "a memory file is opened by name");
    int third = system_memory_open(other, BYTES, other);
    ok(third >= 0, "it is opened by the name of whoever opened it");
    close(again);
    close(third);
    ok(system_memory_open(name, BYTES + (1 << 16), other) < 0 && errno == EINVAL, "another size is refused");
    ok(system_memory_open("/dev/null", BYTES, other) < 0 && system_memory_open("/proc/self/exe", BYTES, other) < 0,
       "files of other kinds are refused");
    system_memory_unlink(name);
    close(fd);
    ok(system_memory_open(name, BYTES, other) < 0, "a memory file cannot be opened after it was closed and unlinked");
    munmap(base, BYTES);
}

/* Checks that a process that calls exit() without system_memory_unlink() leaves no shared memory name behind. */
static void
test_exit(void)
{
    char name[SYSTEM_NAME] = "";
    int told[2];
    if (system_pipe(told, false)) exit(1);
    pid_t child = fork();
    if (!child) {
        system_memory_new(4096, name);
        exit(write(told[1], name, sizeof name) != sizeof name);
    }
    bool read_all = read(told[0], name, sizeof name) == sizeof name;
    waitpid(child, NULL, 0);
    ok(read_all && name[0] && system_memory_open(name, 4096, other) < 0, "exit() removes the names of memory files");
    for (int i = 0; i < 2; i++) close(told[i]);
}

/* ---- events ---- */

static bool
is_raised(const struct system_event *e)
{
    struct pollfd fd = {.fd = e->fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void *
raise_later(void *e)
{
    usleep(2000);
    system_raise(e);
    return NULL;
}

static void
test_events(void)
{
    struct system_event e;
    pthread_t thread;
    ok(!system_event_open(&e) && (fcntl(e.fd, F_GETFD) & FD_CLOEXEC), "an event is opened, close-on-exec");
    ok(!is_raised(&e), "a new event is not raised");
    system_raise(&e);
    system_raise(&e);
    ok(is_raised(&e) && is_raised(&e), "an event that was raised twice is raised until it is lowered");
    system_lower(&e);
    ok(!is_raised(&e), "and is not raised after one call lowered it");
    system_lower(&e);
    ok(!is_raised(&e), "lowering an event that is not raised returns at once");
    for (int i = 0; i < 100000; i++) system_raise(&e);
    ok(is_raised(&e), "raising an event 100,000 times does not block");
    system_lower(&e);
    ok(!is_raised(&e), "one call lowers that event, too");
    struct pollfd fd = {.fd = e.fd, .events = POLLIN};
    if (pthread_create(&thread, NULL, raise_later, &e)) exit(1);
    ok(poll(&fd, 1, -1) == 1, "a thread in poll() wakes when another raises the event");
    pthread_join(thread, NULL);
    system_event_close(&e);
    ok(e.fd < 0 && e.raise < 0, "a closed event has no descriptor");
    system_event_close(&e);
}

/* ---- processes ---- */

static void
test_processes(void)
{
    struct system_process p;
    int status, gate[2];
    if (system_pipe(gate, false)) exit(1);
    pid_t child = fork();
    if (!child) _exit(read(gate[0], &status, 1) == 1 ? 5 : 6);
    ok(!system_process_open(&p, child) && p.pid == child, "a child is watched");
    ok(!system_process_ended(&p, 0), "a running process has not ended");
    int64_t begin = now_ns();
    ok(!system_process_ended(&p, 5) && now_ns() - begin >= 5 * MS, "waiting for its end lasts for the timeout");
    struct pollfd end = {.fd = p.fd, .events = POLLIN};
#if defined SYSTEM_LINUX || defined __FreeBSD__
    ok(p.fd >= 0 && (fcntl(p.fd, F_GETFD) & FD_CLOEXEC) && poll(&end, 1, 0) == 0,
       "the descriptor of a running process is not readable");
#endif
    if (write(gate[1], "", 1) != 1) exit(1);
    ok(p.fd < 0 || poll(&end, 1, 10000) == 1, "the descriptor, if there is one, is readable after the end");
    ok(system_process_ended(&p, 10000), "its end is noticed");
    ok(system_process_ended(&p, 0), "and stays noticed");
    ok(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5, "its exit code is left to waitpid()");
    ok(system_process_ended(&p, 0), "a process whose exit code was read has ended");
    ok(system_process_kill(&p) == -1 && errno == ESRCH, "killing an ended process fails");
    system_process_close(&p);
    ok(p.pid == 0 && p.fd < 0 && system_process_open(&p, child) == -1 && p.pid == 0,
       "a process that no longer exists cannot be watched");

    child = fork();
    if (!child) _exit(pause());
    ok(system_process_runs_us(child), "a child that executed nothing runs this program");
    bool killed = !system_process_open(&p, child) && !system_process_kill(&p);
    ok(killed && system_process_ended(&p, 10000), "a killed process ends");
    system_process_close(&p);
    ok(!system_process_open(&p, child) && system_process_ended(&p, 0), "a zombie child can be watched, and has ended");
    system_process_close(&p);
    ok(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL, "it was killed by SIGKILL");

    ok(!system_process_runs_us(1) && !system_process_runs_us((int)getpid()) && !system_process_runs_us(child),
       "process 1, this process and an ended process are not other processes of this program");
    close(gate[0]);
    close(gate[1]);
}

/* Starts a child that starts a grandchild, and ends the child. The grandchild must then be killed; the test sees
 * this because the grandchild's end of the pipe `alive` is closed. */
static void
test_end_with_parent(void)
{
    int alive[2], gate[2], grandchild = 0;
    char byte;
    if (system_pipe(alive, false) || system_pipe(gate, false)) exit(1);
    pid_t child = fork();
    if (!child) {
        close(gate[1]);
        grandchild = fork();
        if (grandchild) close(alive[1]);
        if (grandchild) _exit((int)read(gate[0], &byte, 1));
        system_end_with_parent();
        grandchild = (int)getpid();
        _exit(write(alive[1], &grandchild, sizeof grandchild) > 0 ? pause() : 1);
    }
    close(alive[1]);
    if (read(alive[0], &grandchild, sizeof grandchild) != sizeof grandchild) exit(1);
    close(gate[1]);
    waitpid(child, NULL, 0);
#if defined SYSTEM_LINUX || defined __FreeBSD__
    ok(read(alive[0], &byte, 1) == 0, "a process that asked to end with its parent is killed");
#endif
    kill(grandchild, SIGKILL);
    close(alive[0]);
    close(gate[0]);
}

/* ---- descriptors and identities ---- */

static void
ignore_signal(int number)
{
    (void)number;
}

/* Checks the flags of sockets, and of connections that the other kind of listener accepts. */
static void
test_sockets(bool nonblocking)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    struct sockaddr *address = (struct sockaddr *)&at;
    int listener = system_socket(AF_INET, SOCK_STREAM, !nonblocking),
        out = system_socket(AF_INET, SOCK_STREAM, nonblocking);
    bool listens = !bind(listener, address, size) && !listen(listener, 1) && !getsockname(listener, address, &size);
    int begun = listens ? connect(out, address, size) : -1;
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    if (!begun || errno == EINPROGRESS) poll(&ready, 1, 10000);
    int fd[] = {out, system_accept(listener, nonblocking)};
    for (int i = 0; i < 2; i++) {
        ok(fd[i] >= 0 && fcntl(fd[i], F_GETFD) & FD_CLOEXEC && !(fcntl(fd[i], F_GETFL) & O_NONBLOCK) == !nonblocking,
           "%s %s socket is close-on-exec", i == 0 ? "a new" : "an accepted",
           nonblocking ? "non-blocking" : "blocking");
        close(fd[i]);
    }
    close(listener);
}

static void
test_descriptors(void)
{
    struct stat st;
    char path[64], text[4] = "";
    int fd[2];
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        test_sockets(nonblocking);
        bool opened = !system_pipe(fd, nonblocking), good = opened;
        for (int i = 0; i < 2 && opened; i++)
            good &= fcntl(fd[i], F_GETFD) & FD_CLOEXEC && !(fcntl(fd[i], F_GETFL) & O_NONBLOCK) == !nonblocking;
        ok(good && write(fd[1], "x", 1) == 1 && read(fd[0], text, 1) == 1, "a %s pipe is close-on-exec, and transports",
           nonblocking ? "non-blocking" : "blocking");
        close(fd[0]);
        close(fd[1]);
    }
    int file = system_unnamed_file(path, sizeof path), again = open(path, O_RDONLY | O_CLOEXEC);
    ok(file >= 0 && !fstat(file, &st) && (st.st_mode & 0777) == 0600, "an unnamed file is its user's alone");
    ok(write(file, "key", 3) == 3 && again >= 0 && pread(again, text, 3, 0) == 3 && !memcmp(text, "key", 3),
       "its path opens the same file");
    close(file);
    close(again);
}

static void
test_poll(void)
{
    const struct timespec soon = {.tv_nsec = 3 * MS};
    int low[2], high[2];
    if (system_pipe(low, false) || system_pipe(high, false)) exit(1);
    struct pollfd fd[] = {
        {.fd = low[0], .events = POLLIN}, {.fd = -1, .events = POLLIN}, {.fd = high[0], .events = POLLIN}};
    int64_t begin = now_ns();
    ok(system_poll(fd, 3, &soon, NULL) == 0 && now_ns() - begin >= 3 * MS, "waiting lasts for the timeout");
    if (write(high[1], "", 1) != 1) exit(1);
    ok(system_poll(fd, 3, NULL, NULL) == 1 && !fd[0].revents && !fd[1].revents && fd[2].revents,
       "the descriptor that is readable is marked, and no other");
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    signal(SIGUSR1, ignore_signal);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    raise(SIGUSR1);
    ok(system_poll(fd, 1, &soon, NULL) == 0, "a blocked signal does not end the wait");
    ok(system_poll(fd, 1, NULL, &none) == -1 && errno == EINTR, "the mask lets the signal end the wait");
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < 2; i++) close(low[i]), close(high[i]);
}

static int
compare_mapped(const void *a, const void *b, void *map)
{
    const int *m = map, x = m[*(const int *)a], y = m[*(const int *)b];
    return (x > y) - (x < y);
}

static void
test_memory_functions(void)
{
    enum { N = 100 };
    int map[N], index[N], wrong = 0;
    char text[N], zeros[N] = {0};
    for (int i = 0; i < N; i++) index[i] = i, map[i] = i * 37 % N;
    system_sort(index, N, sizeof *index, compare_mapped, map);
    for (int i = 0; i < N; i++) wrong += map[index[i]] != i;
    ok(!wrong, "elements are sorted by the argument of the comparison");
    memset(text, 1, N);
    system_erase(text, N - 1);
    ok(!memcmp(text, zeros, N - 1) && text[N - 1] == 1, "the bytes to erase are zero, and no others");
}

static void
test_identities(void)
{
    char path[PATH_MAX], host[SYSTEM_HOST], again[SYSTEM_HOST];
    struct stat named, ours;
    int fd[2];
    ok(system_program(path, sizeof path) && !stat(path, &named) && !stat("/proc/self/exe", &ours) &&
           named.st_ino == ours.st_ino,
       "the path of the program is known");
    system_host(host);
    system_host(again);
    ok(*host && !strcmp(host, again), "the text of this host is always the same");
    ok(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd) && system_peer_is_ours(fd[0]), "a peer in this process is ours");
    close(fd[0]);
    close(fd[1]);
    ok(!system_peer_is_ours(-1), "a closed socket has no peer");
    if (geteuid() == 0 && !seteuid(65534)) {
        bool opened = !socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
        ok(!seteuid(0) && opened && !system_peer_is_ours(fd[0]), "a peer of another user is not ours");
        close(fd[0]);
        close(fd[1]);
    }
    ok(system_cores() >= 0 && system_cores() <= sysconf(_SC_NPROCESSORS_CONF), "at most all cores are allowed");
    ok(system_core() >= -1, "the core of a thread is a number, or unknown");
}

int
main(void)
{
    alarm(HANG);
    test_processes();
    test_end_with_parent();
    test_memory();
    test_exit();
    test_returns();
    test_rings(false);
    test_rings(true);
    test_many_sleepers();
    test_events();
    test_descriptors();
    test_poll();
    test_memory_functions();
    test_identities();
    return done();
}
