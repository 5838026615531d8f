/* calls.c - checks the system calls of a run: Rille may only sleep, wake threads, and block signals during kernels.
 *
 * A child process does the work and marks where counting begins and ends. This process traces the child and counts
 * the system calls of all its threads between the marks.
 *
 * Messages between threads that are awake cause no system call of Rille's code. libzmq checks its mailbox (getpid
 * and poll) after every 100 messages of a socket, and when it sends, at most about once per millisecond. On a loaded
 * machine one message can take a millisecond.
 *
 * A traced thread sleeps often. So steps on spinning threads are counted without tracing, by replacing syscall(),
 * through which Rille makes futex calls. */
#include "actors/act/bus/bus.h"
#include "actors/session/run/cache.h"
#include "actors/session/step/compiled.h"
#include "runtime/base/clock.h"
#include "t/lib/plan/train.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int
main(void)
{
    ok(true, "system calls of a run # SKIP a sanitizer makes its own");
    return done();
}
#else

enum { RUNS = 50, MESSAGES = 2000, WARM = 500, MARK = 0x72696c, CALLS = 512 };

/* ---- calls made through syscall() ---- */

static atomic_llong slept; /* number of futex calls, which sleep or wake */

/* Replaces libc's syscall(): counts futex calls, then calls libc's function. */
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

/* Makes a prctl call with an unknown option. The call marks a point for the tracer and has no other effect. */
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
    usleep(200000); /* waits until libzmq's own threads have started */
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

/* A pipelined step on two threads. If each thread has a core, the threads spin while they wait. */
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

/* Polls for messages without ever sleeping, and sends each one back to the other thread, `most` times. */
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

/* Passes a message back and forth between two threads that poll for it. */
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

/* ---- the tracer's side ---- */

struct tally {
    int64_t call[CALLS], all; /* call: number of calls by system call number; all: their total */
    int64_t ns;               /* time between the marks, ns */
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

/* Follows all threads until the child ends. Returns the child's exit status; -1 if the child was lost. */
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

/* Counts the system calls of `work` between its marks. Returns false if tracing is not permitted here. */
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
    is_int(status, 0, "the traced work succeeds");
    ok(t->marked && !t->counting, "the traced work has set both marks");
    return true;
}

/* Returns the number of calls by which libzmq polls its mailboxes and grows the heap for its queues. It depends on
 * chance. The calls are not Rille's, because Rille allocates nothing in a step (see below, and t/act/alloc.c). */
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

/* Runs steps until RUNS of them have made no futex call, but at most MOST steps. More than RUNS may be needed,
 * because on a loaded machine threads share a core and sleep. */
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
       "%s: steps in micro-batches send messages between threads without allocating", name);
    ok(nawake == RUNS, "%s: spinning threads make no futex call for messages", name);
    diag("%d of %d steps slept", n - nawake, n);
    pipeline_close(&p);
}

int
main(void)
{
    struct tally t;
    alarm(HANG);
    if (!count_calls(asks, &t)) {
        ok(true, "system calls of a run # SKIP tracing is not permitted here");
        return done();
    }
    is_int(t.all, 7, "the tracer counts seven system calls");
    count_calls(one_thread, &t);
    if (!is_int(t.all, 2 * RUNS, "a step on one thread makes two system calls")) show(&t);
    is_int(t.call[SYS_rt_sigprocmask], t.all, "these block and unblock signals once per step");
    count_calls(four_threads, &t);
    int64_t own = t.all - library_calls(&t);
    if (!is_int(own, t.call[SYS_futex] + t.call[SYS_rt_sigprocmask],
                "a step on four threads also sleeps and wakes, and makes no other call"))
        show(&t);
    for (size_t k = 0; k < countof(schedules); k++) {
        schedule = schedules[k];
        count_calls(pipeline, &t);
        own = t.all - library_calls(&t);
        if (!is_int(own, t.call[SYS_futex] + t.call[SYS_rt_sigprocmask],
                    "a pipeline in micro-batches makes no other call"))
            show(&t);
    }
    count_calls(spinning, &t);
    if (!is_int(t.all - library_calls(&t), 0,
                "messages between threads that are awake cause no system call of Rille's code"))
        show(&t);
    /* upper bound: each of two threads checks its mailbox once per ms, by two calls; doubled as a margin */
    int64_t sending = 2 * 2 * t.ns / 1000000;
    if (!ok(library_calls(&t) <= 2 * MESSAGES / 10 + sending,
            "messages between threads that are awake cause few system calls of libzmq"))
        show(&t);
    bool cores = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    for (size_t k = 0; k < countof(schedules) && cores; k++) awake(schedules[k]);
    return done();
}
#endif
