/* transfer.c - tests plans whose devices cannot read each other's memory: moves must give the bits of devices with a
 * common memory.
 *
 * Every move between layouts, and every random program, runs on cpu and asynchronous test devices. The program then
 * runs again with other cpu devices in place of the asynchronous devices. Memory of asynchronous devices faults if
 * host code touches it. A second pass without ONE_SPACE simulates GPUs without peer access. Finally a training step
 * has stages on both kinds of devices. */
#include "actors/plan/compile.h"
#include "actors/plan/verify/verify.h"
#include "actors/plan/verify/verify_program.h"
#include "t/lib/plan/plans.h"
#include "t/lib/plan/train.h"
#include "actors/plan/model/program_bytes.h"

/* ---- a program and its copy on cpu devices ---- */

/* Returns the layout on cpu devices. Asynchronous device n becomes cpu device NDEV + n. */
static const struct layout *
on_cpu(struct rille_session *s, const struct layout *l)
{
    const struct place *p = l->place, *q;
    const struct layout *out;
    int32_t rank[2 * NDEV];
    if (p->kind == DEV_CPU) return l;
    for (int32_t i = 0; i < p->nrank; i++) rank[i] = p->rank[i] + NDEV;
    assert(place_new(s->atlas, DEV_CPU, p->naxis, p->axis, rank, &q) == 0);
    assert(layout_new(s->atlas, q, l->sbp, l->order, &out) == 0);
    return out;
}

static void
all_on_cpu(struct rille_session *s, int n, const struct layout *const *list)
{
    /* replaces layouts of the program in place, which is allowed because nothing else uses this new program */
    const struct layout **l = (const struct layout **)(uintptr_t)list;
    for (int k = 0; k < n; k++)
        if (l[k]) l[k] = on_cpu(s, l[k]);
}

static struct program *
program_on_cpu(struct rille_session *s, const struct program *of)
{
    struct str bytes = {0};
    struct program *g;
    program_write(of, &bytes);
    assert(program_read(str_text(&bytes), bytes.len, s->atlas, &g) == 0);
    for (int32_t i = 0; i < g->nleaf; i++) g->leaf[i].layout = on_cpu(s, g->leaf[i].layout);
    for (int32_t i = 0; i < g->nnode; i++) {
        const struct prog_node *n = &g->node[i];
        all_on_cpu(s, n->nin, n->want);
        all_on_cpu(s, n->nout, n->layout);
    }
    str_free(&bytes);
    return g;
}

struct count {
    int programs, planned, transfers, same;
};

static int
count_transfers(const struct plan *p)
{
    int n = 0;
    for (int32_t i = 0; i < p->ntask; i++) n += p->task[i].kind == &kind_transfer;
    return n;
}

/* Runs the plan in two orders of events. After each run, compares the bytes of all root shards with those of the
 * program on cpu devices. */
static void
try_plan(struct rille_session *s, struct plan *p, uint64_t seed, struct count *n)
{
    struct engine *e = simulator(seed), *other = simulator(seed + 1);
    struct plan *plain;
    n->programs++;
    n->transfers += count_transfers(p);
    if (plan_compile(program_on_cpu(s, p->program), s->atlas, &plain) == 0) {
        uint64_t want = outcome(e, plain);
        bool same = want && outcome(e, p) == want && outcome(other, p) == want;
        if (!same) diag("seed %llu: another result", (unsigned long long)seed);
        n->planned += count_transfers(plain) == 0;
        n->same += same;
    } else {
        diag("seed %llu: %s", (unsigned long long)seed, err_text());
    }
    plan_free(&plain);
    engine_free(&e);
    engine_free(&other);
}

/* ---- every move ---- */

/* Moves a leaf to another layout and back. */
static struct plan *
there_and_back(struct rille_session *s, const struct layout *from, const struct layout *to)
{
    return plan_moves_of(s, 6, from, 2, (const struct layout *[]){to, from});
}

/* Returns true for a move that changes the layout and is possible: P(sum) cannot become P(max). */
static bool
is_move(const struct layout *from, const struct layout *to)
{
    enum reduce a = layout_partial(from), b = layout_partial(to);
    return from != to && (a == RED_NONE || b == RED_NONE || a == b);
}

static void
every_move(struct rille_session *s, int a, int b, const char *name)
{
    const struct layout *from[LAYOUTS_ON], *to[LAYOUTS_ON];
    struct count n = {0};
    int nfrom = layouts_on(s, a, NULL, 3, from), nto = layouts_on(s, b, NULL, 3, to), npair = 0;
    for (int i = 0; i < nfrom * nto; i++) {
        if (!is_move(from[i / nto], to[i % nto]) || !share(i)) continue;
        struct plan *p = there_and_back(s, from[i / nto], to[i % nto]);
        npair++;
        if (p)
            try_plan(s, p, (uint64_t)i, &n);
        else
            diag("%s", err_text());
        plan_free(&p);
    }
    ok(n.same == npair, "%s: every pair of layouts, there and back, has the bits of one memory space", name);
    ok(n.transfers > npair, "%s: the moves use transfers", name);
    diag("%d pairs, %d transfers", npair, n.transfers);
}

/* ---- random programs ---- */

static void
random_programs(struct rille_session *s, uint64_t seed, const char *name)
{
    struct count n = {0};
    int most = share_of(getenv("RILLE_LONG") ? 20000 : 800, &seed);
    for (int i = 0; i < most; i++) {
        uint64_t rng = seed + (uint64_t)i;
        struct plan *p = random_plan(s, &rng, i % 3 == 2);
        if (p) try_plan(s, p, seed + (uint64_t)i, &n);
        plan_free(&p);
    }
    ok(n.programs > most / 3 && n.same == n.programs, "%s: %d random programs have the bits of one memory space", name,
       n.programs);
    if (!strcmp(name, "cpu and async")) is_int(n.planned, n.programs, "one memory space has no transfers");
    diag("%d transfers", n.transfers);
}

/* ---- training ---- */

/* Checks that stages on two kinds of devices give the bits of stages on one kind, on threads and in any order of
 * events. */
static void
training(const char *kind, const char *second, const char *schedule)
{
    int wrong = 0, seeds = getenv("RILLE_LONG") ? 200 : 12;
    struct train_options plain = {.bus = "zmq", .kind = "cpu", .schedule = schedule};
    struct train_options o = {.bus = "zmq", .kind = kind, .second = second, .schedule = schedule};
    struct train_state want, got;
    must(train_once(&plain, 3, &want), "cpu");
    for (o.threads = 1; o.threads <= 4; o.threads++)
        wrong += train_once(&o, 3, &got) || memcmp(&got, &want, sizeof got);
    for (int seed = 0; seed < seeds; seed++) {
        char bus[40];
        snprintf(bus, sizeof bus, "sim:%d", seed);
        o.bus = bus;
        o.threads = 1 + seed % 4;
        bool same = !train_once(&o, 3, &got) && !memcmp(&got, &want, sizeof got);
        if (!same && wrong++ == 0) diag("%s: %s", bus, rille_error());
    }
    ok(wrong == 0, "a step (%s) whose stages are %s and %s has the bits of one memory space",
       schedule ? schedule : "plain", kind, second);
}

/* ---- refused plans ---- */

/* Checks that a plan is rejected if an asynchronous device writes to a GPU's memory. */
static void
refused(struct rille_session *s)
{
    struct plan *p = there_and_back(s, row_layout(s, DEV_ASYNC, "B"), row_layout(s, DEV_CUDA, "B"));
    ok(!p && strstr(err_text(), "a value cannot be copied directly from async to cuda devices"),
       "a move between kinds that cannot access each other is refused by name");
}

/* Makes a plan while devices share memory, then revokes the access. The verifier must find the reads. */
static void
found(struct rille_session *s)
{
    struct plan *p = there_and_back(s, row_layout(s, DEV_ASYNC, "P"), row_layout(s, DEV_ASYNC, "S(0)"));
    assert(p && plan_verify(p) == 0);
    device_late.flags &= ~(unsigned)ONE_SPACE;
    ok(plan_verify(p) == E_PLAN, "a plan without the transfers that it needs is refused");
    device_late.flags |= ONE_SPACE;
    plan_free(&p);
}

int
main(void)
{
    struct rille_options o = {.devices = "cpu:8,async:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    alarm(HANG);
    if (rille_open(&o, &s)) return 1;
    every_move(s, DEV_CPU, DEV_ASYNC, "cpu -> async");
    every_move(s, DEV_ASYNC, DEV_CPU, "async -> cpu");
    other_kind = DEV_ASYNC;
    random_programs(s, seed_of(1), "cpu and async");
    refused(s);
    found(s);
    device_late.flags &= ~(unsigned)ONE_SPACE;
    every_move(s, DEV_ASYNC, DEV_ASYNC, "async devices that cannot access each other");
    random_programs(s, seed_of(1), "cpu and async devices that cannot access each other");
    device_late.flags |= ONE_SPACE;
    rille_close(&s);
    static const char *const schedule[] = {NULL, "1f1b", "gpipe"};
    for (int i = 0; i < 6; i++) training(i % 2 ? "cpu" : "async", i % 2 ? "async" : "cpu", schedule[i / 2]);
    return done();
}
