/* collect.c - collectives of a library in plans: values are those of moves that read each other's parts,
 * whatever the order of events; failures end the run for all; mistakes planted in them are refused. Random programs on
 * late devices, whose library is a stand-in (t/lib/collecting.h). */
#include "t/lib/plans.h"

#include "t/lib/collecting.h"

#include <unistd.h>

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

/* The plan that the seed gives with a library, which has some collectives; *plain: without. NULL: none has. */
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

/* ---- values ---- */

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
    is_int(none, 0, "without a library there are no collectives of one");
    ok(same == n && batched > 0, "%d programs (%d in pieces) have the bits of moves that read each other's parts", n,
       batched);
    ok(alike == n, "so they have on threads");
    bool each = true;
    for (size_t i = 0; i < countof(ncollected); i++) each = each && ncollected[i] > 0;
    ok(each, "with %ld all-reduces, %ld reduce-scatters, %ld all-gathers and %ld all-to-alls of a rank",
       ncollected[COLLECT_REDUCE], ncollected[COLLECT_SCATTER], ncollected[COLLECT_GATHER],
       ncollected[COLLECT_EXCHANGE]);
    engine_free(&one);
    engine_free(&other);
    engine_free(&real);
}

/* ---- failures ---- */

/* Act k fails; true: there is one. The run says so, and not that others were cut. */
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

/* Each act once; behind each the plan runs as before. */
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
    ok(n > 0 && wrong == 0, "%d acts that fail end the run, by their own words, and the next is whole", n);
    engine_free(&played);
    engine_free(&real);
}

/* ---- planted mistakes ---- */

static bool
is_refused(const struct plan *p, const char *text)
{
    bool refused = plan_verify(p) == E_PLAN && strstr(err_text(), text);
    if (!refused) diag("%s", plan_verify(p) ? err_text() : "it passes");
    return refused;
}

/* Takes port k of a task away, and its place among the readers; a fan without any was the last. */
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

/* The port by which a collective comes behind the one before it on its device, by nothing else; -1. */
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

struct tried {
    int orders, seats, streams, refused, wrong, events, late, ncopy, copies;
};

/* A block that is packed, or unpacked, from the wrong place. */
static void
try_copy(struct plan *p, struct move_comm_rank *seat, const struct move_comm_rank *was, struct tried *n)
{
    struct comm_rank_copy copy[MEET_SEATS];
    int32_t many = was->npack ? was->npack : was->nunpack;
    *seat = *was;
    if (many == 0) return;
    memcpy(copy, was->npack ? was->pack : was->unpack, sizeof *copy * (size_t)many);
    *(was->npack ? &seat->pack : &seat->unpack) = copy;
    copy[many - 1].from_skip += 4;
    n->copies += is_refused(p, "skip of a ");
    copy[many - 1].from_skip -= 4;
    copy[many - 1].to_skip += 4;
    n->copies += is_refused(p, "skip of a ");
    n->ncopy += 2;
}

static void
try_seat(struct plan *p, int32_t i, struct tried *n)
{
    struct task *t = &p->task[i];
    const struct move_comm_rank *was = t->move.seat;
    struct move_comm_rank seat = *was;
    t->move.seat = &seat;
    seat.seat = (was->seat + 1) % was->in->n;
    n->refused += is_refused(p, "seat");
    seat = *was;
    seat.numel++;
    n->refused += is_refused(p, "elements of a block");
    struct communicator other = *was->in;
    seat = *was;
    seat.in = &other;
    n->refused += is_refused(p, "communicator") || was->seat == 0; /* the others' is another then */
    other.n--;
    n->refused += is_refused(p, "seats");
    n->seats += 4;
    try_copy(p, &seat, was, n);
    t->move.seat = was;
    uint8_t stream = t->stream;
    t->stream = STREAM_MOVE;
    n->streams += is_refused(p, "on which collectives alone") ? 0 : 1;
    t->stream = stream;
}

static void
try_verb(struct plan *p, struct plan_move *m, struct tried *n)
{
    const struct collective *was = m->by;
    if (!was) return;
    struct collective by = *was;
    m->by = &by;
    by.verb = (uint8_t)((was->verb + 1) % 4);
    n->wrong += !is_refused(p, "no such collective");
    by = *was;
    by.dtype = DT_I32;
    n->wrong += !is_refused(p, "no such collective");
    m->by = was;
}

/* Who is told that a collective is done is told when it is issued. */
static void
try_readers(struct plan *p, int32_t i, struct tried *n)
{
    for (int32_t k = 0; k < p->task[i].nin; k++) {
        struct in_port *in = &p->task[i].in[k];
        struct fan *f = &p->task[in->task].out[in->out].fan[in->fan];
        if (p->task[in->task].kind != &kind_collect || in->token != SYNC_HOST || f->nreader > 1) continue;
        in->token = SYNC_EVENT;
        f->nissued = 1;
        n->events++;
        n->late += is_refused(p, "goes on before the work of task");
        in->token = SYNC_HOST;
        f->nissued = 0;
    }
}

static void
test_mistakes(struct rille_session *s, uint64_t seed)
{
    struct tried n = {0};
    for (int i = 0; i < 400 || n.orders == 0; i++) {
        struct plan *plain, *p = draw(s, &seed, i % 3 == 2, &plain);
        if (!p) continue;
        for (int32_t k = 0; k < p->nmove; k++) try_verb(p, p->move[k], &n);
        for (int32_t k = 0; k < p->ntask; k++)
            if (p->task[k].kind == &kind_collect) try_seat(p, k, &n);
        for (int32_t k = 0; k < p->ntask; k++) try_readers(p, k, &n);
        int32_t task = p->ntask - 1, port = -1;
        while (task >= 0 && (p->task[task].kind != &kind_collect || (port = order_port(p, task)) < 0)) task--;
        if (task >= 0) {
            drop_port(p, task, port);
            n.orders++;
            n.wrong += !is_refused(p, "at the same time as task");
        }
        plan_free(&p);
        plan_free(&plain);
    }
    ok(n.seats > 0 && n.refused == n.seats, "a seat that is another's, or has more elements, is refused (%d)", n.seats);
    ok(n.ncopy > 0 && n.copies == n.ncopy, "so is a block that is rearranged wrongly (%d)", n.ncopy);
    is_int(n.streams, 0, "so is one on the stream of other moves");
    ok(n.wrong == 0, "so are other verbs, and collectives of a device without an order (%d)", n.orders);
    ok(n.events > 0 && n.late == n.events, "and who waits on a stream for a collective (%d)", n.events);
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
