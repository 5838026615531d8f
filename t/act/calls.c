/* calls.c - what a run asks the kernel for: to sleep and to wake, and to hold signals while products are
 * computed.
 *
 * Messages between threads that are awake make no system call of ours; libzmq looks into its mailbox after 100 messages
 * of a socket, and when it sends, at most once in a millisecond or so (getpid and poll): on a loaded machine a message
 * takes that long. A child does the work and marks where counting begins and ends; this process traces it and counts
 * the system calls of all its threads in between. Who is traced sleeps often: what steps do on threads that spin is
 * counted without, where our own code calls syscall(). */
#include "actors/act/bus/bus.h"
#include "actors/session/step/compiled.h"
#include "runtime/base/clock.h"
#include "t/lib/train.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int
main(void)
{
    ok(true, "system calls are counted # SKIP a sanitizer makes its own");
    return done();
}
#else

enum { RUNS = 50, MESSAGES = 2000, WARM = 500, MARK = 0x72696c, CALLS = 512 };

/* ---- calls by the name of syscall() ---- */

static atomic_llong slept; /* calls to sleep or to wake */

/* In place of libc's, which it calls. */
long
syscall(long number, ...)
{
    void *libc = dlsym(RTLD_NEXT, "syscall");
    long (*next)(long, ...), a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(args, long);
    va_end(args);
    memcpy(&next, &libc, sizeof next);
    if (number == SYS_futex) atomic_fetch_add(&slept, 1);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- the child's side ---- */

/* No call that there is, so that nothing happens; the tracer sees it. */
static void
mark(bool on)
{
    prctl(MARK, on, 0, 0, 0);
}

static void
asks(void)
{
    mark(true);
    for (int i = 0; i < 7; i++) syscall(SYS_getppid);
    mark(false);
}

static void
repeat(const struct train_options *o)
{
    struct train t;
    struct rille_tensor *loss;
    train_open(&t, o);
    must(train_step(&t, &loss), "step");
    struct runner *r = t.s->cache.latest->runner;
    must(engine_run(t.s->engine, &r->run), "run");
    usleep(200000); /* libzmq's own threads have started by now */
    mark(true);
    for (int i = 0; i < RUNS; i++) must(engine_run(t.s->engine, &r->run), "run");
    mark(false);
    rille_tensor_free(&loss);
    train_close(&t);
}

static void
one_thread(void)
{
    repeat(&(struct train_options){.bus = "zmq", .threads = 1, .kind = "cpu"});
}

static void
four_threads(void)
{
    repeat(&(struct train_options){.bus = "zmq", .threads = 4, .kind = "cpu"});
}

/* Steps of a pipeline in micro-batches, on two threads that spin as long as each has a core. */
struct piped {
    struct train t;
    struct rille_tensor *loss;
    struct engine *e;
    struct run *run;
};

static void
pipeline_open(struct piped *p, const char *schedule)
{
    train_open(&p->t, &(struct train_options){.bus = "zmq", .threads = 2, .kind = "cpu", .schedule = schedule});
    must(train_step(&p->t, &p->loss), "step");
    p->run = &p->t.graph->runner->run;
    must(engine_new(&(struct engine_options){.threads = 2, .bus = &bus_zmq, .spin_ns = 10000000000}, &p->e), "engine");
    for (int i = 0; i < 2; i++) must(engine_run(p->e, p->run), "run");
    usleep(200000);
}

static void
pipeline_close(struct piped *p)
{
    engine_free(&p->e);
    rille_tensor_free(&p->loss);
    train_close(&p->t);
}

static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
static const char *schedule;

static void
pipeline(void)
{
    struct piped p;
    pipeline_open(&p, schedule);
    mark(true);
    for (int i = 0; i < RUNS; i++) must(engine_run(p.e, p.run), "run");
    mark(false);
    pipeline_close(&p);
}

static struct bus *bus;

/* Sends each message on that comes, without ever sleeping, until so many came. */
static void
hand_on(uint32_t self, int most)
{
    struct msg m;
    for (int n = 0; n < most;) {
        if (bus->kind->recv(bus, self, &m, 1, BUS_LOOK) == 0) continue;
        m.from = self;
        m.to = 1 - self;
        must(bus_send(bus, &m), "send");
        n++;
    }
}

static void *
other_end(void *arg)
{
    hand_on(1, WARM + MESSAGES);
    return arg;
}

/* A message goes to and fro between two threads that look for it. */
static void
spinning(void)
{
    pthread_t thread;
    must(bus_zmq.open(&(struct bus_options){.nthread = 2, .spin_ns = 1}, &bus), "open");
    must(bus_zmq.grow(bus, 2), "grow");
    if (pthread_create(&thread, NULL, other_end, NULL)) _exit(1);
    must(bus_send(bus, &(struct msg){.from = 0, .to = 1}), "send");
    hand_on(0, WARM);
    mark(true);
    hand_on(0, MESSAGES - 1);
    mark(false);
    pthread_join(thread, NULL);
}

/* ---- the tracer's ---- */

struct tally {
    int64_t call[CALLS], all; /* by number */
    int64_t ns;               /* between the marks */
    bool counting, marked;
};

static void
note_call(struct tally *t, pid_t tid)
{
    struct __ptrace_syscall_info i;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof i, &i) <= 0 || i.op != PTRACE_SYSCALL_INFO_ENTRY) return;
    if (i.entry.nr == SYS_prctl && i.entry.args[0] == MARK) {
        t->counting = i.entry.args[1];
        t->ns = now_ns() - t->ns;
        t->marked = true;
    } else if (t->counting) {
        t->all++;
        if (i.entry.nr < CALLS) t->call[i.entry.nr]++;
    }
}

/* Follows all threads to the end of the first; returns its status, -1 when it was lost. */
static int
follow(pid_t child, struct tally *t)
{
    int status;
    for (pid_t tid = child, sent = 0;; ptrace(PTRACE_SYSCALL, tid, 0, sent)) {
        tid = waitpid(-1, &status, __WALL);
        if (tid < 0) return -1;
        sent = 0;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (tid == child) return status;
        } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            note_call(t, tid);
        } else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP) {
            sent = WSTOPSIG(status);
        }
    }
}

/* Counts what work does between its marks. False: nothing may be traced here. */
static bool
count_calls(void (*work)(void), struct tally *t)
{
    int status;
    *t = (struct tally){0};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(2);
        raise(SIGSTOP);
        work();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) return false;
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    status = follow(child, t);
    is_int(status, 0, "the work that is traced is done");
    ok(t->marked && !t->counting, "and marked");
    return true;
}

/* libzmq's looks into its mailboxes, and the heap where a chunk of its queues comes or goes at the heap's end: that is
 * chance, and steps allocate nothing of their own (below, and t/act/alloc.c). */
static int64_t
library_calls(const struct tally *t)
{
    return t->call[SYS_poll] + t->call[SYS_getpid] + t->call[SYS_brk];
}

static void
show(const struct tally *t)
{
    for (int n = 0; n < CALLS; n++)
        if (t->call[n]) diag("system call %d: %lld", n, (long long)t->call[n]);
}

/* Most steps; two threads on one core sleep, so that a loaded machine takes some more. */
static void
awake(const char *name)
{
    enum { MOST = 20000 };
    struct piped p;
    int nawake = 0, n = 0;
    pipeline_open(&p, name);
    struct engine_count before = engine_count(p.e), after;
    for (; nawake < RUNS && n < MOST; n++) {
        int64_t was = atomic_load(&slept);
        must(engine_run(p.e, p.run), "run");
        nawake += atomic_load(&slept) == was;
    }
    after = engine_count(p.e);
    ok(after.thread_messages - before.thread_messages >= (int64_t)n * PIECES && after.allocations == before.allocations,
       "%s: steps in micro-batches send messages between threads, and allocate nothing", name);
    ok(nawake == RUNS, "%s: who spins makes no call for them", name);
    diag("%d of %d steps slept", n - nawake, n);
    pipeline_close(&p);
}

int
main(void)
{
    struct tally t;
    alarm(HANG);
    if (!count_calls(asks, &t)) {
        ok(true, "system calls are counted # SKIP nothing may be traced here");
        return done();
    }
    is_int(t.all, 7, "system calls are counted");
    count_calls(one_thread, &t);
    if (!is_int(t.all, 2 * RUNS, "a step on one thread holds signals once and lets them pass")) show(&t);
    is_int(t.call[SYS_rt_sigprocmask], t.all, "and asks for nothing else");
    count_calls(four_threads, &t);
    int64_t own = t.all - library_calls(&t);
    if (!is_int(own, t.call[SYS_futex] + t.call[SYS_rt_sigprocmask], "one on four threads sleeps and wakes besides"))
        show(&t);
    for (size_t k = 0; k < countof(schedules); k++) {
        schedule = schedules[k];
        count_calls(pipeline, &t);
        own = t.all - library_calls(&t);
        if (!is_int(own, t.call[SYS_futex] + t.call[SYS_rt_sigprocmask], "a pipeline in micro-batches does no more"))
            show(&t);
    }
    count_calls(spinning, &t);
    if (!is_int(t.all - library_calls(&t), 0, "messages between threads that are awake make none of ours")) show(&t);
    int64_t sending = 2 * 2 * t.ns / 1000000; /* two threads, two calls a look */
    if (!ok(library_calls(&t) <= 2 * MESSAGES / 10 + sending, "and few of the library's")) show(&t);
    bool cores = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    for (size_t k = 0; k < countof(schedules) && cores; k++) awake(schedules[k]);
    return done();
}
#endif
