/* streams.c - tests the streams of a device: moves and kernels run at the same time, in an order that the plan's
 * synchronisation allows.
 *
 * A program on an async test device has a kernel, a transfer in, a transfer out, and a move between devices. Each of
 * these four waits until all four have begun, which would hang on a single stream. A second program multiplies
 * panels; each product must overlap with the move of a later panel. A device with a single stream must give the same
 * results. verify.c tests that the verifier rejects other streams and weaker synchronisation. */
#include "actors/plan/compile.h"
#include "runtime/device/stream.h"
#include "t/lib/plan/net.h"
#include "t/lib/plan/plans.h"

#include <sched.h>

/* ---- work that waits for work of other streams ---- */

static int (*enqueue_late)(struct stream *s, const struct stream_work *w);
/* set of stream roles (bits) whose first pieces of work wait until all of them have begun */
static unsigned expected;
static _Atomic unsigned begun; /* set of stream roles (bits) whose first piece of work has begun */
static struct stream_work first[NSTREAM];

static int
meet(const struct stream_work *w, const struct stream *s)
{
    UNUSED(w);
    atomic_fetch_or(&begun, 1U << s->role);
    while ((atomic_load(&begun) & expected) != expected) sched_yield();
    return first[s->role].run(&first[s->role], s);
}

/* Replaces the enqueue function of the async device. On device 0, the first piece of work of each expected role then
 * waits for the first pieces of the other roles. */
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

/* Records one step of independent work on async:0. */
static struct rille_graph *
trace(struct rille_session *s, struct rille_tensor *const *x)
{
    struct rille_tensor *in[RESULTS], *out[RESULTS];
    struct rille_graph_options o = {0};
    struct rille_graph *g;
    must(rille_trace_begin(s, &o, RESULTS, x, in), "trace");
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = in[STREAM_COMPUTE]};
    must(rille_call(s, rille_op_find("neg"), 1, &arg, 0, NULL, &out[STREAM_COMPUTE]), "neg");
    must(rille_tensor_to_global(in[STREAM_IN], layout_on(s, "async", 1, "B"), &out[STREAM_IN]), "in");
    must(rille_tensor_to_global(in[STREAM_OUT], layout_on(s, "cpu", 1, "B"), &out[STREAM_OUT]), "out");
    must(rille_tensor_to_global(in[STREAM_MOVE], layout_on(s, "async", 2, "B"), &out[STREAM_MOVE]), "move");
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

/* Runs the program. The first pieces of work of the stream roles `roles` (a set of bits) wait for each other.
 * Returns true if the program ends with the right values. */
static bool
ends(unsigned roles)
{
    struct rille_options o = {.devices = "cpu:1,async:2", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    struct rille_tensor *x[RESULTS], *y[RESULTS];
    must(rille_open(&o, &s), "open");
    x[STREAM_COMPUTE] = tensor(s, layout_on(s, "async", 1, "B"));
    x[STREAM_IN] = tensor(s, layout_on(s, "cpu", 1, "B"));
    x[STREAM_OUT] = tensor(s, layout_on(s, "async", 1, "B"));
    x[STREAM_MOVE] = tensor(s, layout_on(s, "async", 2, "S(0)"));
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
    for (int role = STREAM_COMPUTE + 1; role <= STREAM_MOVE; role++)
        ok(ends(1U << STREAM_COMPUTE | 1U << role),
           "a kernel and work of stream \"%s\" of one device run at the same time", stream_role_text(role));
    ok(ends(1U << STREAM_COMPUTE | 1U << STREAM_IN | 1U << STREAM_OUT),
       "a kernel, a transfer in and a transfer out run at the same time");
    device_late.enqueue = enqueue_late;
}

/* ---- products and moves of panels ---- */

enum {
    PANELS = 6,
    ROWS = 128,
    WIDTH = 16
    /* WIDTH: columns of a panel. A panel is then larger than the values that fusion keeps alive (WAITS_FREELY). */
};

/* Work of device 0, by stream role, in the order in which it is enqueued. Product k and move k + `ahead` wait
 * until both have begun. */
static struct work {
    struct stream_work work;
    int k;
} work[NSTREAM][PANELS];
static int ahead, nwork[NSTREAM];
/* by stream role: bit k is set once product or move k has begun */
static _Atomic unsigned under_way[NSTREAM];

static int
meet_panel(const struct stream_work *w, const struct stream *s)
{
    const struct work *mine = w->of;
    int other = s->role == STREAM_MOVE ? STREAM_COMPUTE : STREAM_MOVE;
    int k = mine->k + (s->role == STREAM_MOVE ? -ahead : ahead);
    atomic_fetch_or(&under_way[s->role], 1U << mine->k);
    while (k >= 0 && k < PANELS && !(atomic_load(&under_way[other]) >> k & 1)) sched_yield();
    return mine->work.run(&mine->work, s);
}

static int
enqueue_panel(struct stream *s, const struct stream_work *w)
{
    int n = s->device == 0 ? nwork[s->role]++ : PANELS;
    if (n >= PANELS) return enqueue_late(s, w);
    work[s->role][n] = (struct work){*w, n};
    return enqueue_late(s, &(struct stream_work){.run = meet_panel, .of = &work[s->role][n]});
}

/* Returns the columns of x that form panel k. */
static struct rille_tensor *
panel_of(struct net *b, int64_t k)
{
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = b->x};
    struct rille_attr cut[] = {{.name = "axis", .kind = RILLE_INT, .i = 1},
                               {.name = "start", .kind = RILLE_INT, .i = k * WIDTH},
                               {.name = "stop", .kind = RILLE_INT, .i = (k + 1) * WIDTH}};
    struct rille_tensor *panel;
    must(rille_call(b->s, rille_op_find("slice"), 1, &arg, countof(cut), cut, &panel), "slice");
    return panel;
}

/* Gathers the panels one by one and multiplies each by w. Sets y[0] to the sum of the products. */
static int
gather_and_multiply(struct net *b, const struct rille_layout *whole, struct rille_tensor **y)
{
    for (int k = 0; k < PANELS; k++) {
        struct rille_tensor *part = panel_of(b, k);
        net_move(&part, whole);
        net_call(b, "matmul", &part, b->y);
        if (k == 0) y[0] = rille_tensor_hold(part);
        if (k > 0) net_call(b, "add", &y[0], part);
        rille_tensor_free(&part);
    }
    return 1;
}

/* Multiplies panel k by w and gathers the product into y[k]. */
static int
multiply_and_gather(struct net *b, const struct rille_layout *whole, struct rille_tensor **y)
{
    for (int k = 0; k < PANELS; k++) {
        y[k] = panel_of(b, k);
        net_call(b, "matmul", &y[k], b->y);
        net_move(&y[k], whole);
    }
    return PANELS;
}

/* Multiplies b->x by b->y in panels. Product k and move k + way wait until both have begun. way: positive: panels
 * are gathered before the products; otherwise products are gathered. Returns false if a stream did not get PANELS
 * pieces of work. */
static bool
multiply(struct net *b, int way, float *got)
{
    struct rille_tensor *y[PANELS];
    ahead = way;
    memset(nwork, 0, sizeof nwork);
    for (int role = 0; role < NSTREAM; role++) atomic_store(&under_way[role], 0);
    int n = (way > 0 ? gather_and_multiply : multiply_and_gather)(b, layout_on(b->s, "async", 2, "B"), y);
    device_late.enqueue = enqueue_panel;
    must(rille_eval(b->s, n, y), "eval");
    device_late.enqueue = enqueue_late;
    memset(got, 0, ROWS * sizeof *got);
    for (int k = 0; k < n; k++) {
        float part[ROWS];
        must(rille_tensor_read(y[k], part), "read");
        for (int i = 0; i < ROWS; i++) got[i] += part[i];
        rille_tensor_free(&y[k]);
    }
    return nwork[STREAM_COMPUTE] == PANELS && nwork[STREAM_MOVE] == PANELS;
}

static void
test_panels(void)
{
    struct rille_options o = {.devices = "cpu:1,async:2", .threads = 1, .bus = "zmq"};
    struct net b = {0};
    static float x[ROWS][PANELS * WIDTH], w[WIDTH], want[ROWS], got[ROWS];
    for (int j = 0; j < WIDTH; j++) w[j] = (float)(j % 5 - 2);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < PANELS * WIDTH; j++) {
            x[i][j] = (float)(3 * i + j % 7 - 2);
            want[i] += x[i][j] * w[j % WIDTH];
        }
    int64_t of_x[] = {ROWS, PANELS * WIDTH}, of_w[] = {WIDTH, 1};
    must(rille_open(&o, &b.s), "open");
    must(rille_tensor_from_host(b.s, "f32", 2, of_x, x, layout_on(b.s, "async", 2, "S(0)"), &b.x), "x");
    must(rille_tensor_from_host(b.s, "f32", 2, of_w, w, layout_on(b.s, "async", 2, "B"), &b.y), "w");
    ok(multiply(&b, 1, got) && memcmp(got, want, sizeof got) == 0,
       "panel k + 1 is gathered while panel k is multiplied");
    ok(multiply(&b, -1, got) && memcmp(got, want, sizeof got) == 0,
       "the product of panel k is gathered while panel k + 1 is multiplied");
    net_close(&b);
}

/* ---- a device with one stream ---- */

/* Checks that a device with a single stream runs all work on it, with the same results. */
static void
test_one_stream(struct rille_session *s, uint64_t seed)
{
    struct engine *e = simulator(seed);
    int same = 0, n = 0, apart = 0;
    other_kind = DEV_ASYNC;
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
    ok(n > 0 && apart > 0 && same == n, "a device with one stream gives the same bits as with several");
    engine_free(&e);
}

int
main(void)
{
    struct rille_options o = {.devices = "cpu:4,async:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    alarm(HANG);
    test_side_by_side();
    test_panels();
    must(rille_open(&o, &s), "open");
    test_one_stream(s, seed_of(4));
    rille_close(&s);
    return done();
}
