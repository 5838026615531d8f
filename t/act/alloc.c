/* alloc.c - tests that Rille's own code allocates no memory during a run.
 *
 * The test replaces malloc() and related functions by functions that count calls. The return address shows who calls:
 * this program, which contains Rille, or a shared library (oneDNN, OpenMP, ZeroMQ). The test takes a runner (a plan
 * that is ready to run) from the plan cache and runs it again, so that only the run is counted, not tracing and
 * planning. */
#include "actors/session/core/session.h"
#include "actors/session/run/cache.h"
#include "actors/session/run/runner.h"
#include "t/lib/plan/train.h"

#include <errno.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int
main(void)
{
    ok(true, "allocations of a run # SKIP a sanitizer replaces malloc");
    return done();
}
#else

/* ---- counting allocations ---- */

extern char __executable_start, etext; /* begin and end of the program's code, defined by the linker */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n);

static atomic_bool counting;
static atomic_llong ours, theirs;

static void
count(const void *caller)
{
    if (!atomic_load_explicit(&counting, memory_order_relaxed)) return;
    bool own = (const char *)caller >= &__executable_start && (const char *)caller < &etext;
    atomic_fetch_add(own ? &ours : &theirs, 1);
}

/* Counts the call and allocates memory. Must not be inlined, because count() needs the return address. */
__attribute__((noinline)) void *
malloc(size_t n)
{
    count(__builtin_return_address(0));
    return __libc_malloc(n);
}

__attribute__((noinline)) void *
calloc(size_t n, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, size);
}

__attribute__((noinline)) void *
realloc(void *p, size_t n)
{
    count(__builtin_return_address(0));
    return __libc_realloc(p, n);
}

__attribute__((noinline)) void *
memalign(size_t align, size_t n)
{
    count(__builtin_return_address(0));
    return __libc_memalign(align, n);
}

__attribute__((noinline)) void *
aligned_alloc(size_t align, size_t n)
{
    count(__builtin_return_address(0));
    return __libc_memalign(align, n);
}

__attribute__((noinline)) int
posix_memalign(void **p, size_t align, size_t n)
{
    count(__builtin_return_address(0));
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}

/* ---- runs that must not allocate ---- */

/* Returns the runner used last. */
static struct runner *
last_runner(struct rille_session *s)
{
    return s->cache.latest->runner;
}

static void
repeat(struct rille_session *s, struct runner *r, const char *name)
{
    enum { RUNS = 50 };
    struct rille_counters before, after;
    /* counts from the second run on, because libraries allocate memory in the first one */
    int status = engine_run(s->engine, &r->run);
    rille_count(s, &before);
    atomic_store(&ours, 0);
    atomic_store(&theirs, 0);
    atomic_store(&counting, true);
    for (int i = 0; !status && i < RUNS; i++) status = engine_run(s->engine, &r->run);
    atomic_store(&counting, false);
    rille_count(s, &after);
    must(status, name);
    if (!is_int(atomic_load(&ours), 0, name)) diag("in %d runs", RUNS);
    diag("libraries: %lld in %d runs", (long long)atomic_load(&theirs), RUNS);
    is_int(after.run_allocations - before.run_allocations, 0, "the session's counter run_allocations agrees");
    ok(after.runs - before.runs == RUNS && after.acts > before.acts, "%s: the plan did run", name);
}

/* Checks a step without micro-batches. The step computes values, gradients and updates, so its actors are of other
 * kinds than those of a pipeline. */
static void
plain(int threads, const char *kind, bool timed)
{
    char name[80];
    struct train t;
    struct rille_tensor *loss;
    train_open(&t, &(struct train_options){.bus = "zmq", .threads = threads, .kind = kind});
    must(train_step(&t, &loss), "step");
    struct runner *r = last_runner(t.s);
    r->run.timed = timed;
    snprintf(name, sizeof name, "%s, threads: %d%s: a step allocates no memory", kind, threads, timed ? ", timed" : "");
    repeat(t.s, r, name);
    rille_tensor_free(&loss);
    train_close(&t);
}

/* Checks that a sum over 70 devices allocates no memory. Rille's tables of fixed size on the stack have room for
 * fewer devices. */
static void
wide(void)
{
    enum { DEVICES = 70 };
    struct rille_session *s;
    struct rille_tensor *x, *sum, *y;
    const struct rille_place *p;
    const struct rille_layout *split, *whole;
    int32_t rank[DEVICES], size = DEVICES;
    int64_t shape[2] = {DEVICES, 3};
    float value[DEVICES * 3], out[3];
    for (int i = 0; i < DEVICES; i++) rank[i] = i;
    for (int i = 0; i < DEVICES * 3; i++) value[i] = (float)(i % 7);
    must(rille_open(&(struct rille_options){.devices = "cpu:70", .threads = 2}, &s), "open");
    must(rille_place(s, "cpu", 1, &size, rank, &p), "place");
    must(rille_layout(s, p, 1, (const char *[]){"S(0)"}, NULL, -1, &split), "split");
    must(rille_layout(s, p, 1, (const char *[]){"B"}, NULL, -1, &whole), "whole");
    must(rille_tensor_from_host(s, "f32", 2, shape, value, split, &x), "values");
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = x};
    struct rille_attr axis = {.name = "axis", .kind = RILLE_INT, .i = 0};
    must(rille_call(s, rille_op_find("sum"), 1, &arg, 1, &axis, &sum), "sum");
    must(rille_tensor_to_global(sum, whole, &y), "move");
    must(rille_tensor_read(y, out), "read");
    repeat(s, last_runner(s), "a sum over 70 devices allocates no memory");
    rille_tensor_free(&x);
    rille_tensor_free(&sum);
    rille_tensor_free(&y);
    rille_close(&s);
}

/* Checks the session's own counter: it must count no allocation in runs of compiled steps, even in the first run. */
static void
compiled(int threads, const char *schedule)
{
    struct train t;
    struct rille_counters c;
    struct train_state state;
    train_open(&t, &(struct train_options){.bus = "zmq", .threads = threads, .schedule = schedule});
    must(train_run(&t, 50, &state), "steps");
    rille_count(t.s, &c);
    ok(c.runs >= 50 && c.run_allocations == 0, "%s, threads: %d: 50 calls of a compiled step allocate no memory",
       schedule, threads);
    train_close(&t);
}

/* Checks that the test's counter and the library's counter work. */
static void
counts(void)
{
    static void *volatile p;
    atomic_store(&ours, 0);
    atomic_store(&counting, true);
    p = malloc(100);
    p = realloc(p, 200);
    free(p);
    free(p = aligned_alloc(64, 64));
    atomic_store(&counting, false);
    is_int(atomic_load(&ours), 3, "three allocations of this program are counted");
    int64_t before = must_count();
    free(must_alloc(10));
    is_int(must_count() - before, 1, "an allocation of Rille's is counted by the library's own counter");
}

int
main(void)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "zb-h2", "auto"};
    counts();
    wide();
    for (int threads = 1; threads <= 2; threads++) {
        plain(threads, "cpu", false);
        plain(threads, "cpu", true);
        plain(threads, "async", false);
        for (size_t i = 0; i < countof(schedules); i++) compiled(threads, schedules[i]);
    }
    return done();
}
#endif
