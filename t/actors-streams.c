/* actors-streams.c - the streams of a device: its moves and its kernels are under way at the same time, in the order
 * that tokens say.
 *
 * A program has a kernel, a transfer in, one out, and a move on one late device. Work of each waits until all of them
 * have begun: on one stream that would never end. Then plans in which an edge between two streams of a device says no
 * more than that work was enqueued, and plans in which a task has another stream, are shown to the proof. */
#include "runtime/stream.h"
#include "t/must.h"
#include "t/plans.h"

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- work that waits for work of other streams ---- */

static int (*enqueue_late)(struct stream *s, const struct stream_work *w);
static unsigned expected;      /* roles whose first work waits for each other */
static _Atomic unsigned begun; /* roles whose work has begun */
static struct stream_work first[NSTREAM];

static int
meet(const struct stream_work *w, const struct stream *s)
{
    UNUSED(w);
    atomic_fetch_or(&begun, 1U << s->role);
    while ((atomic_load(&begun) & expected) != expected) sched_yield();
    return first[s->role].run(&first[s->role], s);
}

/* Instead of late's: the first work of each role of device 0 meets that of the others. */
static int
enqueue(struct stream *s, const struct stream_work *w)
{
    bool meets = s->device == 0 && expected >> s->role & 1 && !first[s->role].run;
    if (!meets) return enqueue_late(s, w);
    first[s->role] = *w;
    return enqueue_late(s, &(struct stream_work){.run = meet});
}

static const struct rille_layout *
layout_on(struct rille_session *s, const char *kind, int n, const char *sbp)
{
    const struct rille_place *p;
    const struct rille_layout *l;
    must(rille_place(s, kind, 1, &(int32_t){n}, (int32_t[]){0, 1}, &p), "placement");
    must(rille_layout(s, p, 1, &sbp, NULL, -1, &l), "layout");
    return l;
}

static const float value[4] = {1, -2, 3, -4};

static struct rille_tensor *
tensor(struct rille_session *s, const struct rille_layout *l)
{
    struct rille_tensor *x;
    must(rille_tensor_from_host(s, "f32", 1, (int64_t[]){4}, value, l, &x), "tensor");
    return x;
}

enum { RESULTS = 4 };

/* One step: what does not depend on each other, on late:0. */
static struct rille_graph *
trace(struct rille_session *s, struct rille_tensor *const *x)
{
    struct rille_tensor *in[RESULTS], *out[RESULTS];
    struct rille_graph_options o = {0};
    struct rille_graph *g;
    must(rille_trace_begin(s, &o, RESULTS, x, in), "trace");
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = in[STREAM_COMPUTE]};
    must(rille_call(s, rille_op_find("neg"), 1, &arg, 0, NULL, &out[STREAM_COMPUTE]), "neg");
    must(rille_tensor_to_global(in[STREAM_IN], layout_on(s, "late", 1, "B"), &out[STREAM_IN]), "in");
    must(rille_tensor_to_global(in[STREAM_OUT], layout_on(s, "cpu", 1, "B"), &out[STREAM_OUT]), "out");
    must(rille_tensor_to_global(in[STREAM_MOVE], layout_on(s, "late", 2, "B"), &out[STREAM_MOVE]), "move");
    must(rille_trace_end(s, RESULTS, out, &g), "trace");
    for (int i = 0; i < RESULTS; i++) {
        rille_tensor_free(&in[i]);
        rille_tensor_free(&out[i]);
    }
    return g;
}

static bool
holds(struct rille_tensor *y, float factor)
{
    float got[4];
    bool good = !rille_tensor_read(y, got);
    for (int i = 0; good && i < 4; i++) good = got[i] == factor * value[i];
    return good;
}

/* Does a run end in which the first works of these roles wait for each other, with the values that it should have? */
static bool
ends(unsigned roles)
{
    struct rille_options o = {.devices = "cpu:1,late:2", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    struct rille_tensor *x[RESULTS], *y[RESULTS];
    must(rille_open(&o, &s), "open");
    x[STREAM_COMPUTE] = tensor(s, layout_on(s, "late", 1, "B"));
    x[STREAM_IN] = tensor(s, layout_on(s, "cpu", 1, "B"));
    x[STREAM_OUT] = tensor(s, layout_on(s, "late", 1, "B"));
    x[STREAM_MOVE] = tensor(s, layout_on(s, "late", 2, "S(0)"));
    struct rille_graph *g = trace(s, x);
    expected = roles;
    atomic_store(&begun, 0);
    memset(first, 0, sizeof first);
    bool good = !rille_graph_run(g, RESULTS, x, y);
    expected = 0;
    for (int i = 0; good && i < RESULTS; i++) good = holds(y[i], i == STREAM_COMPUTE ? -1 : 1);
    for (int i = 0; i < RESULTS; i++) {
        rille_tensor_free(&x[i]);
        rille_tensor_free(&y[i]);
    }
    rille_graph_free(&g);
    rille_close(&s);
    return good && (atomic_load(&begun) & roles) == roles;
}

static void
test_side_by_side(void)
{
    enqueue_late = device_late.enqueue;
    device_late.enqueue = enqueue;
    for (int role = STREAM_COMPUTE + 1; role < NSTREAM; role++)
        ok(ends(1U << STREAM_COMPUTE | 1U << role),
           "a kernel and work of stream \"%s\" of one device wait for each other", stream_role_text(role));
    ok(ends(1U << STREAM_COMPUTE | 1U << STREAM_IN | 1U << STREAM_OUT),
       "a kernel, what is brought in and what is brought out are under way at the same time");
    device_late.enqueue = enqueue_late;
}

/* ---- the proof ---- */

struct count {
    int64_t crossing, early, moved, refused, harmless;
};

static bool
is_refused(const struct plan *p, const char *why)
{
    return plan_verify(p) == E_PLAN && strstr(err_text(), why);
}

/* Each edge between two streams of a device, as if they were one. */
static void
try_edges(struct plan *p, struct count *c)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            struct in_port *in = &p->task[i].in[k];
            const struct task *from = &p->task[in->task];
            if (from->device != p->task[i].device || from->stream == p->task[i].stream) continue;
            c->crossing++;
            c->early += in->token == TOKEN_EVENT;
            uint8_t was = in->token;
            if (was == TOKEN_DONE) continue; /* because of data that may be refused */
            in->token = TOKEN_ISSUED;
            c->refused += is_refused(p, "goes on before the work of task");
            in->token = was;
        }
}

/* Each task on each other stream: refused, or it does no harm. */
static void
try_streams(struct engine *e, struct plan *p, uint64_t want, struct count *c)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (uint8_t stream = 0; stream <= NSTREAM; stream++) {
            uint8_t was = p->task[i].stream;
            if (stream == was) continue;
            p->task[i].stream = stream;
            c->moved++;
            if (plan_verify(p))
                c->refused++;
            else
                c->harmless += outcome(e, p) == want;
            p->task[i].stream = was;
        }
}

static void
test_proof(struct rille_session *s, uint64_t seed)
{
    struct engine *e = simulator(seed);
    struct count edges = {0}, streams = {0};
    other_kind = DEV_LATE;
    for (int i = 0; i < (getenv("RILLE_LONG") ? 2000 : 150); i++) {
        struct plan *p = random_plan(s, &seed, i % 3 == 2);
        if (!p) continue;
        try_edges(p, &edges);
        try_streams(e, p, outcome(e, p), &streams);
        plan_free(&p);
    }
    ok(edges.early > 0 && edges.refused == edges.early,
       "an edge to another stream of its device that says no more than \"enqueued\" is refused");
    diag("%lld of %lld edges between streams of a device are events", (long long)edges.early,
         (long long)edges.crossing);
    ok(streams.refused > 0 && streams.harmless > 0 && streams.refused + streams.harmless == streams.moved,
       "a task on another stream is refused, or does no harm");
    diag("%lld refused, %lld do no harm", (long long)streams.refused, (long long)streams.harmless);
    engine_free(&e);
}

/* Where a device has one stream, all its work is there, with the same results. */
static void
test_one_stream(struct rille_session *s, uint64_t seed)
{
    struct engine *e = simulator(seed);
    int same = 0, n = 0, apart = 0;
    for (int i = 0; i < 60; i++) {
        uint64_t again = seed;
        struct plan *p = random_plan(s, &seed, i % 3 == 2), *one;
        if (!p) continue;
        device_late.flags &= ~(unsigned)ROLES;
        one = random_plan(s, &again, i % 3 == 2);
        same += outcome(e, p) == outcome(e, one);
        device_late.flags |= ROLES;
        n++;
        for (int32_t k = 0; k < p->ntask; k++) apart += p->task[k].stream != STREAM_COMPUTE;
        for (int32_t k = 0; k < one->ntask; k++) same -= one->task[k].stream != STREAM_COMPUTE;
        plan_free(&p);
        plan_free(&one);
    }
    ok(n > 0 && apart > 0 && same == n, "on one stream a device gives the bits that several give");
    engine_free(&e);
}

int
main(void)
{
    struct rille_options o = {.devices = "cpu:4,late:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    alarm(120);
    test_side_by_side();
    must(rille_open(&o, &s), "open");
    test_proof(s, seed_of(3));
    test_one_stream(s, seed_of(4));
    rille_close(&s);
    return done();
}
