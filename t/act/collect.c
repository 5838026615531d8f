/* collect.c - tests plans whose moves call a collective library.
 *
 * Random programs run on async test devices with a stand-in for the library (t/lib/plan/collecting.h). In every order
 * of events the results equal those of plans whose moves do not use the library. A failing act ends the run on all
 * devices. The verifier rejects plans with an injected mistake. */
#include "actors/plan/compile.h"
#include "actors/plan/verify/verify.h"
#include "t/lib/plan/plans.h"

#include "t/lib/plan/collecting.h"

static int
count(const struct plan *p)
{
    int n = 0;
    for (int32_t i = 0; i < p->ntask; i++) n += p->task[i].kind == &kind_collect;
    return n;
}

static struct engine *
threads(void)
{
    struct engine *e;
    struct engine_options o = {.threads = NTHREAD, .bus = &bus_zmq};
    return engine_new(&o, &e) ? NULL : e;
}

/* Compiles the random program of a seed in two ways. Returns the plan with library collectives; sets *plain to the
 * plan without. Returns NULL if the first plan contains no collective. */
static struct plan *
draw(struct rille_session *s, uint64_t *seed, bool pieces, struct plan **plain)
{
    uint64_t again = *seed;
    struct plan *p = random_plan(s, seed, pieces);
    collecting_end();
    *plain = random_plan(s, &again, pieces);
    collecting_begin(collecting_driven);
    if (p && count(p) > 0) return p;
    plan_free(&p);
    plan_free(plain);
    return NULL;
}

/* ---- comparing values ---- */

static void
test_values(struct rille_session *s, uint64_t seed)
{
    struct engine *one = simulator(seed), *other = simulator(seed + 1), *real = threads();
    int n = 0, same = 0, alike = 0, none = 0, batched = 0, most = getenv("RILLE_LONG") ? 3000 : 150;
    for (int i = 0; n < most; i++) {
        struct plan *plain, *p = draw(s, &seed, i % 3 == 2, &plain);
        if (!p) continue;
        uint64_t want = outcome(one, plain);
        n++;
        batched += p->pieces > 1;
        none += count(plain);
        collecting_driven = true;
        same += outcome(one, p) == want && outcome(other, p) == want;
        collecting_driven = false;
        alike += outcome(real, p) == want;
        plan_free(&p);
        plan_free(&plain);
    }
    collecting_driven = true;
    is_int(none, 0, "without a library a plan has no library collectives");
    ok(same == n && batched > 0,
       "%d programs (%d in micro-batches) give the same bits with and without library collectives", n, batched);
    ok(alike == n, "they give the same bits on threads");
    bool each = true;
    for (size_t i = 0; i < countof(ncollected); i++) each = each && ncollected[i] > 0;
    ok(each, "all verbs occurred: %ld all-reduces, %ld reduce-scatters, %ld all-gathers, %ld all-to-alls",
       ncollected[COLLECT_REDUCE], ncollected[COLLECT_SCATTER], ncollected[COLLECT_GATHER],
       ncollected[COLLECT_EXCHANGE]);
    engine_free(&one);
    engine_free(&other);
    engine_free(&real);
}

/* ---- failures ---- */

/* Makes act k fail; returns false if the run has no act k. Counts in *wrong if the run's error is not the injected
 * failure, but a consequence of it. */
static bool
fail_at(struct engine *e, struct plan *p, int64_t k, int *wrong)
{
    struct bench b;
    bench_open(&b, p);
    engine_fail_act(e, k);
    int status = engine_run(e, &b.run);
    engine_fail_act(e, 0);
    if (status && (status != E_KERNEL || !strstr(err_text(), "made to fail by a test"))) {
        diag("act %lld: %s", (long long)k, err_text());
        ++*wrong;
    }
    bench_close(&b);
    return status;
}

/* Makes each act fail in turn. After each failure the plan must run as before. */
static void
fail_each(struct engine *e, struct plan *p, bool driven, int *n, int *wrong)
{
    collecting_driven = driven;
    uint64_t want = outcome(e, p);
    for (int64_t k = 1; fail_at(e, p, k, wrong); k++) {
        ++*n;
        *wrong += outcome(e, p) != want;
    }
    collecting_driven = true;
}

static void
test_failures(struct rille_session *s, uint64_t seed)
{
    struct engine *played = simulator(seed), *real = threads();
    int n = 0, wrong = 0;
    for (int i = 0, plans = 0; plans < (getenv("RILLE_LONG") ? 300 : 12); i++) {
        struct plan *plain, *p = draw(s, &seed, false, &plain);
        if (!p) continue;
        plans++;
        fail_each(played, p, true, &n, &wrong);
        fail_each(real, p, false, &n, &wrong);
        plan_free(&p);
        plan_free(&plain);
    }
    ok(n > 0 && wrong == 0, "each of %d failing acts ends the run with its own error, and the next run succeeds", n);
    engine_free(&played);
    engine_free(&real);
}

/* ---- mistakes that the verifier must find ---- */

static bool
is_refused(const struct plan *p, const char *text)
{
    bool refused = plan_verify(p) == E_PLAN && strstr(err_text(), text);
    if (!refused) diag("%s", plan_verify(p) ? err_text() : "it passes");
    return refused;
}

/* Removes input port k of a task, and its entry in the readers of the source. These readers are grouped by thread
 * (struct fan). If the entry is the only one of its group, the group must be the last one of the result. */
static void
drop_port(struct plan *p, int32_t task, int32_t k)
{
    struct task *t = &p->task[task];
    for (int32_t i = k; i < t->nin; i++) {
        struct fan *f = &p->task[t->in[i].task].out[t->in[i].out].fan[t->in[i].fan];
        struct reader *r = (struct reader *)(uintptr_t)f->reader;
        for (int32_t j = 0, kept = 0, n = f->nreader; j < n; j++) {
            bool own = r[j].task == task && r[j].port == i;
            if (own && i == k) {
                p->task[t->in[i].task].out[t->in[i].out].nfan -= --f->nreader == 0;
                f->nissued -= j < f->nissued;
                continue;
            }
            r[kept] = r[j];
            if (own) r[kept].port--;
            kept++;
        }
    }
    memmove(&t->in[k], &t->in[k + 1], sizeof *t->in * (size_t)(t->nin - k - 1));
    t->nin--;
}

/* Returns the input port by which a collective waits for the previous collective of its device. Returns -1 if
 * there is no such port, or several, or if drop_port() cannot remove it. */
static int32_t
order_port(const struct plan *p, int32_t task)
{
    const struct task *t = &p->task[task];
    int32_t last = task - 1, found = -1;
    while (last >= 0 && (p->task[last].kind != &kind_collect || p->task[last].device != t->device)) last--;
    for (int32_t k = 0; k < t->nin && last >= 0; k++) {
        if (t->in[k].task != last) continue;
        const struct out_port *o = &p->task[last].out[t->in[k].out];
        if (found >= 0 || !o->control || (o->fan[t->in[k].fan].nreader == 1 && t->in[k].fan < o->nfan - 1)) return -1;
        found = k;
    }
    return found;
}

/* Replaces a collective's communicator: first by a copy, which the verifier must count as another communicator,
 * then by a copy with one rank fewer. Returns true if the verifier rejects both plans. Does not try the first plan
 * for rank 0, because the verifier compares the communicators of all other ranks with that of rank 0. */
static bool
other_communicator_is_refused(struct plan *p, struct task *t)
{
    const struct move_comm_rank *was = t->move.member;
    struct move_comm_rank member = *was;
    struct communicator other = *was->in;
    member.in = &other;
    t->move.member = &member;
    bool refused = was->comm_rank == 0 || is_refused(p, "communicator");
    other.n--;
    refused = refused && is_refused(p, "ranks");
    t->move.member = was;
    return refused;
}

/* Tries mistakes that change several numbers of a plan. (verify.c changes single numbers of collectives.) */
static void
test_mistakes(struct rille_session *s, uint64_t seed)
{
    int orders = 0, ordered = 0, members = 0, refused = 0;
    for (int i = 0; i < 400 || orders == 0; i++) {
        struct plan *plain, *p = draw(s, &seed, i % 3 == 2, &plain);
        if (!p) continue;
        for (int32_t k = 0; k < p->ntask; k++) {
            if (p->task[k].kind != &kind_collect) continue;
            members++;
            refused += other_communicator_is_refused(p, &p->task[k]);
        }
        int32_t task = p->ntask - 1, port = -1;
        while (task >= 0 && (p->task[task].kind != &kind_collect || (port = order_port(p, task)) < 0)) task--;
        if (task >= 0) {
            drop_port(p, task, port);
            orders++;
            ordered += is_refused(p, "the previous collective on its device");
        }
        plan_free(&p);
        plan_free(&plain);
    }
    ok(members > 0 && refused == members, "a collective with another communicator is refused (%d)", members);
    is_int(ordered, orders, "unordered collectives of a device are refused");
}

int
main(void)
{
    struct rille_options o = {.devices = "cpu:4,async:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    uint64_t seed = seed_of(18);
    alarm(getenv("RILLE_LONG") ? 2 * HANG : HANG);
    if (rille_open(&o, &s)) return 1;
    other_kind = DEV_ASYNC;
    collecting_begin(true);
    test_values(s, seed);
    test_failures(s, seed + 1);
    test_mistakes(s, seed + 2);
    rille_close(&s);
    return done();
}
