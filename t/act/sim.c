/* sim.c - tests that a training step gives the same bits in every order of events, and that the simulator finds
 * mistakes.
 *
 * A seed decides which thread runs next, which message arrives, which ready actor acts and when async work is done.
 * Unused registers are filled with NaN. The test runs 300 seeds, or 2,000 if RILLE_LONG=1. A failing seed is
 * printed, so that the failure can be repeated. */
#include "actors/session/core/session.h"
#include "t/lib/plan/faults.h"
#include "t/lib/plan/train.h"

#include <sys/wait.h>

enum { STEPS = 2 };

/* A kind of plan: device kinds of the first and the second stage, schedule, and network (exact or not). */
struct variant {
    const char *kind, *second, *schedule;
    bool exact;
    struct train_state want; /* expected result, from a run on real threads */
};
static struct variant variant[18];

static struct train_options
options_of(const struct variant *v, const char *bus)
{
    return (struct train_options){
        .bus = bus, .kind = v->kind, .second = v->second, .schedule = v->schedule, .exact = v->exact};
}

static void
list_variants(void)
{
    static const char *const kind[] = {"cpu", "async"}, *const schedule[] = {"1f1b", "gpipe", NULL};
    for (int i = 0; i < 12; i++)
        variant[i] = (struct variant){.kind = kind[i % 2], .exact = i / 2 % 2, .schedule = schedule[i / 4]};
    for (int i = 0; i < 6; i++) /* variants whose pipeline stages are on two kinds of devices */
        variant[12 + i] = (struct variant){
            .kind = kind[i / 3], .second = kind[!(i / 3)], .exact = i % 2, .schedule = schedule[i % 3]};
}

static const char *
text_of(const struct variant *v)
{
    static char text[80];
    struct train_options o = options_of(v, NULL);
    snprintf(text, sizeof text, "%s, %s, %s", train_kinds(&o), v->schedule ? v->schedule : "plain loop",
             v->exact ? "exact net" : "classifier");
    return text;
}

static bool
same(const struct train_state *a, const struct train_state *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* ---- plans on real threads ---- */

static double
distance(const struct train_state *a, const struct train_state *b)
{
    const float *x = &a->loss, *y = &b->loss;
    double worst = 0;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++) {
        double d = fabs((double)x[i] - (double)y[i]) / (1 + fabs((double)y[i]));
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

/* Checks plans on real threads. Values must equal those on one device, and one to four threads must give the same
 * bits. */
static void
on_threads(struct variant *v)
{
    struct train_options o = options_of(v, "zmq");
    struct train_state again, one;
    if (!ok(!train_once(&o, STEPS, &v->want), "%s: runs on four threads", text_of(v))) diag("%s", rille_error());
    bool repeats = true;
    for (int i = 0; i < 5; i++) {
        o.threads = 1 + i % 4;
        repeats = repeats && !train_once(&o, STEPS, &again) && same(&again, &v->want);
    }
    ok(repeats, "%s: gives the same bits on one to four threads", text_of(v));
    o.single = true;
    o.threads = 1;
    must(train_once(&o, STEPS, &one), "one device");
    if (v->exact)
        ok(same(&one, &v->want), "%s: gives the bits of one device", text_of(v));
    else
        ok(distance(&one, &v->want) < 1e-5, "%s: gives the numbers of one device up to rounding", text_of(v));
}

/* Checks that the exact network gives the same bits on every kind of device, with every schedule. */
static void
exact_ones_agree(void)
{
    bool agree = true;
    const struct train_state *first = NULL;
    for (int i = 0; i < 18; i++) {
        if (!variant[i].exact || !variant[i].schedule) continue;
        if (!first) first = &variant[i].want;
        agree = agree && same(first, &variant[i].want);
    }
    ok(agree, "the exact net gives the same bits with both schedules and both device kinds");
}

/* ---- every order of events ---- */

static bool
seed_agrees(const struct variant *v, uint64_t seed)
{
    char bus[40];
    snprintf(bus, sizeof bus, "sim:%llu", (unsigned long long)seed);
    struct train_options o = options_of(v, bus);
    struct train_state got;
    /* odd seeds use two threads, so that one thread serves several devices, whose streams wait for each other */
    o.threads = seed % 2 ? 2 : 4;
    int status = train_once(&o, STEPS, &got);
    if (!status && same(&got, &v->want)) return true;
    diag("%s, RILLE_BUS=sim:%llu: %s", text_of(v), (unsigned long long)seed, status ? rille_error() : "another result");
    return false;
}

static void
many_seeds(void)
{
    uint64_t first = seed_of(0), failed = 0;
    uint64_t n = (uint64_t)share_of(getenv("RILLE_LONG") ? 2000 : 300, &first);
    for (uint64_t i = 0; i < n; i++) failed += !seed_agrees(&variant[i % 18], first + i);
    ok(failed == 0, "%d simulated seeds give the same bits as real threads", (int)n);
}

/* ---- mistakes that the test must find ---- */

/* A training step into which a mistake is injected. */
struct trial {
    enum fault mistake;
    struct train_options o;
    const struct train_state *want;
    const char *words; /* text expected in the error */
    uint64_t seed;
    char bus[40];
};

static struct trial
trial_of(enum fault mistake, struct train_options o, uint64_t seed)
{
    struct trial t = {.mistake = mistake, .o = o, .seed = seed};
    snprintf(t.bus, sizeof t.bus, "sim:%llu", (unsigned long long)seed);
    return t;
}

/* Runs the step with labels y; NULL: the training step's own labels. */
static int
run_trial(const struct trial *trial, const int64_t *y, struct train_state *got)
{
    struct train_options o = trial->o;
    struct train t;
    int64_t shape[1] = {ROWS};
    o.bus = trial->bus;
    train_open(&t, &o);
    if (y) {
        rille_tensor_free(&t.y);
        must(rille_tensor_from_host(t.s, "i64", 1, shape, y, train_layout(&t, 1, "S(0)"), &t.y), "labels");
    }
    fault = trial->mistake;
    return train_run(&t, STEPS, got);
}

/* Runs fn in a child process, because the mistake may end in an assertion. Returns the child's wait status; 0 if
 * fn returned true. */
static int
in_child(bool (*fn)(const struct trial *t), const struct trial *t)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool good = fn(t);
        fflush(stdout);
        _exit(!good);
    }
    int status = 0;
    return child < 0 || waitpid(child, &status, 0) != child ? -1 : status;
}

static bool
goes_well(const struct trial *t)
{
    struct train_state got;
    fclose(stderr); /* hides the assertion's text */
    return !run_trial(t, NULL, &got) && same(&got, t->want);
}

/* Mistakes, and the steps into which they are injected. once: true: the step has no micro-batches, so each
 * register is filled once. */
static const struct mistake {
    enum fault fault;
    const char *name, *kind;
    int threads;
    bool once;
} mistakes[] = {
    {NO_FAULT, "without a mistake all seeds pass", "cpu", 4, false},
    {NO_CREDIT, "an actor that does not wait for a free register", "cpu", 4, false},
    {EARLY_FREE, "a register that its first reader frees", "cpu", 4, false},
    {READER_COUNT, "a wrong count of readers", "cpu", 4, false},
    {EARLY_BACK, "a register released before it is read", "cpu", 4, false},
    {NO_FAULT, "without a mistake all seeds pass where registers are filled once", "cpu", 4, true},
    {EARLY_BACK, "a register that is filled once, released before it is read,", "cpu", 4, true},
    {EARLY_BACK, "a register released when work is enqueued, not done,", "async", 4, false},
    {EARLY_READ, "a reader that is notified before the work is done", "async", 4, false},
    {NO_EVENT, "a stream that does not wait for another of its device", "async", 4, false},
    {NO_EVENT, "a stream that does not wait for another of its thread", "async", 2, false},
    {NEXT_ADDRESS, "work that uses the addresses of the next act", "async", 4, false},
};

static void
is_caught(const struct mistake *m)
{
    enum { SEEDS = 60 };
    int caught = 0, first = -1, asserted = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        const struct variant *v = m->once ? &variant[8 + seed % 4] : &variant[seed % 8];
        if (strcmp(v->kind, m->kind)) continue;
        struct trial t = trial_of(m->fault, options_of(v, NULL), (uint64_t)seed);
        t.want = &v->want;
        t.o.threads = m->threads;
        int status = in_child(goes_well, &t);
        if (status == 0) continue;
        if (caught++ == 0) first = seed;
        asserted += WIFSIGNALED(status);
    }
    if (m->fault == NO_FAULT)
        ok(caught == 0, "%s", m->name);
    else
        ok(covered(caught > 0), "%s is caught", m->name);
    if (caught) diag("by %d of %d seeds, first by %d; %d times by an assertion", caught, SEEDS / 2, first, asserted);
}

/* Runs a step with an invalid label. Returns true if it ends with E_VALUE. With the injected mistake, the result
 * of the label check is read before the check is done, so some seeds end without an error. */
static bool
says_so(const struct trial *t)
{
    struct train_state got;
    int64_t label[ROWS] = {0};
    label[t->seed * 5 % ROWS] = CLASSES;
    return run_trial(t, label, &got) == E_VALUE;
}

static void
is_said(enum fault mistake, const char *name)
{
    enum { SEEDS = 12 };
    int silent = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct trial t = trial_of(mistake, (struct train_options){.kind = "async", .schedule = "1f1b"}, seed);
        silent += in_child(says_so, &t) != 0;
    }
    ok(mistake == NO_FAULT ? silent == 0 : covered(silent > 0), "%s", name);
}

/* Returns true if the run ends with a deadlock error that names the waiting actor. */
static bool
tells_who_waits(const struct trial *t)
{
    struct train_state got;
    int status = run_trial(t, NULL, &got);
    bool good =
        status == E_PLAN && strstr(rille_error(), "deadlock: no actor can act") && strstr(rille_error(), t->words);
    if (!good || t->seed == 0) diag("seed %llu: %s", (unsigned long long)t->seed, status ? rille_error() : "no error");
    return good;
}

static void
is_deadlock(enum fault mistake, int threads, const char *name, const char *words)
{
    enum { SEEDS = 24 };
    int reported = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct trial t = trial_of(mistake, options_of(&variant[seed % 4], NULL),
                                  /* uses options with few registers, so that acts wait for released registers */
                                  seed);
        t.o.threads = threads;
        t.words = words;
        reported += in_child(tells_who_waits, &t) == 0;
    }
    ok(reported == SEEDS, "%s: the run ends and the error names the waiting actor", name);
}

int
main(void)
{
    list_variants();
    for (int i = 0; i < 18; i++) on_threads(&variant[i]);
    exact_ones_agree();
    many_seeds();
    for (size_t i = 0; i < countof(mistakes); i++) is_caught(&mistakes[i]);
    is_said(NO_FAULT, "an invalid label is refused on streams in every order of events");
    is_said(EARLY_SAY, "a data check read before the work is done is caught");
    is_deadlock(KEPT, 0, "a register that is never released", "a free register of result");
    is_deadlock(KEPT, 1, "a register that is never released on one thread", "a free register of result");
    is_deadlock(LOST, 0, "a message that is lost", " acts done, waits for ");
    return done();
}
