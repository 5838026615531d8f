/* actors.c - tests moves that actors carry out: a move keeps the value, and each rank reads as many bytes from other
 * ranks as explain() reports.
 *
 * The test tries every pair of layouts on meshes [2], [3], [2, 2] and [2, 3]: on the same ranks, to overlapping
 * ranks, to other ranks, and to and from asynchronous test devices; and samples of the pairs between meshes of
 * different shapes. The addends of a P differ, because they come from a sum. Each pair is traced as a step. The step
 * runs on threads, or on the simulator in an order of events that depends on a seed. Actors count the bytes that
 * they read from other devices. On each rank the count must equal that of explain() and of the plan. In a second
 * pass messages are expensive, which leads to moves of several hops. */
#include "actors/session/step/compiled.h"
#include "boxing/bytes.h"
#include "t/lib/must.h"
#include "t/lib/tap.h"

enum { ROWS = 5, COLUMNS = 7, DEPTH = 4, NELEM = ROWS * COLUMNS, NDEV = 18, MAX_LAYOUT = 40 };

static struct rille_session *s;
static uint64_t seed;
static int npair, nhop; /* npair: number of pairs run so far; nhop: number of moves so far with several hops */

/* ---- meshes and layouts ---- */

struct mesh {
    int naxis;
    int32_t size[2];
};
static const struct mesh meshes[] = {{1, {2}}, {1, {3}}, {2, {2, 2}}, {2, {2, 3}}};

static const struct rille_place *
place_of(const struct mesh *m, const char *kind, int first)
{
    const struct rille_place *p;
    int32_t rank[6];
    for (int i = 0; i < 6; i++) rank[i] = first + i;
    must(rille_place(s, kind, m->naxis, m->size, rank, &p), "place");
    return p;
}

static const struct rille_layout *
layout_of(const struct rille_place *p, int naxis, const char *const *sbp, const int *order)
{
    const struct rille_layout *l;
    must(rille_layout(s, p, naxis, sbp, order, -1, &l), "layout");
    return l;
}

/* Lists all layouts of a matrix. All P of a layout have the same reduction. */
static int
list_layouts(const struct mesh *m, const struct rille_place *p, const struct rille_layout **out)
{
    static const char *const entry[] = {"S(0)", "S(1)", "B", "P", "P(max)"};
    int n = 0;
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < (m->naxis == 2 ? 5 : 1); k++) {
            bool mixed = m->naxis == 2 && i + k == 7 && (i == 3 || i == 4);
            if (!mixed) out[n++] = layout_of(p, m->naxis, (const char *const[]){entry[i], entry[k]}, NULL);
        }
    if (m->naxis == 2) out[n++] = layout_of(p, 2, (const char *const[]){"S(0)", "S(0)"}, (const int[]){1, 0});
    return n;
}

static const struct layout *
inner(const struct rille_layout *l)
{
    return (const struct layout *)l;
}

/* Returns the kind of P in a layout; NREDUCE: none. */
static int
reduce_of(const struct layout *l)
{
    int r = NREDUCE;
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_P) r = l->sbp[a].reduce;
    return r;
}

/* ---- values: sums or maxima over a first axis; if that axis is split, the resulting matrix is partial ---- */

static float
element(int depth, int i)
{
    return (float)((depth * 31 + i * 7) % 23 - 11);
}

static void
expected(bool max, float *out)
{
    for (int i = 0; i < NELEM; i++) {
        out[i] = element(0, i);
        for (int k = 1; k < DEPTH; k++) out[i] = max ? fmaxf(out[i], element(k, i)) : out[i] + element(k, i);
    }
}

static const struct rille_layout *
layout_with_depth(const struct layout *l)
{
    char text[2][8];
    const char *sbp[2] = {text[0], text[1]};
    int order[2];
    for (int a = 0; a < l->place->naxis; a++) {
        static const int8_t first = 0;
        int axis = l->sbp[a].kind == SBP_S ? l->sbp[a].axis + 1 : first;
        if (l->sbp[a].kind == SBP_B)
            snprintf(text[a], sizeof text[a], "B");
        else
            snprintf(text[a], sizeof text[a], "S(%d)", axis);
        order[a] = l->order[a];
    }
    return layout_of((const struct rille_place *)l->place, l->place->naxis, sbp, order);
}

static void
make_input(const struct layout *from, struct rille_tensor **x)
{
    float value[DEPTH * NELEM];
    for (int i = 0; i < DEPTH * NELEM; i++) value[i] = element(i / NELEM, i % NELEM);
    must(
        rille_tensor_from_host(s, "f32", 3, (const int64_t[]){DEPTH, ROWS, COLUMNS}, value, layout_with_depth(from), x),
        "input");
}

static struct rille_tensor *
reduced(struct rille_tensor *x, bool max)
{
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = x};
    struct rille_attr axis = {.name = "axis", .kind = RILLE_INT, .i = 0};
    struct rille_tensor *y;
    must(rille_call(s, rille_op_find(max ? "max" : "sum"), 1, &arg, 1, &axis, &y), "reduction");
    return y;
}

/* ---- one pair of layouts ---- */

/* Traces a step that reduces x and moves the result. read: true: another operator reads the moved value, so that
 * actors may share a shard instead of copying it. Sets *as_meant to true if the reduced value has the layout
 * `from`. */
static struct rille_graph *
trace(struct rille_tensor *x, const struct rille_layout *from, const struct rille_layout *to, bool read, bool *as_meant)
{
    struct rille_graph_options o = {0};
    struct rille_tensor *piece, *v, *y, *z;
    struct rille_graph *g;
    must(rille_trace_begin(s, &o, 1, &x, &piece), "trace");
    v = reduced(piece, reduce_of(inner(from)) == RED_MAX);
    *as_meant = rille_tensor_layout(v) == from;
    must(rille_tensor_to_global(v, to, &y), "to_global");
    if (read) {
        struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = y};
        must(rille_call(s, rille_op_find("relu"), 1, &arg, 0, NULL, &z), "relu");
    } else
        z = rille_tensor_hold(y);
    must(rille_trace_end(s, 1, &z, &g), "end of trace");
    rille_tensor_free(&piece);
    rille_tensor_free(&v);
    rille_tensor_free(&y);
    rille_tensor_free(&z);
    return g;
}

static bool
value_stays(struct rille_tensor *y, bool max, bool read)
{
    float got[NELEM], want[NELEM];
    must(rille_tensor_read(y, got), "read");
    expected(max, want);
    for (int i = 0; i < NELEM; i++)
        if (got[i] != (read ? fmaxf(want[i], 0) : want[i])) return false;
    return true;
}

/* Returns true if, on each device, actors read as many bytes as the plan and explain() state. */
static bool
counts_agree(struct rille_graph *g, const struct rille_layout *from, const struct rille_layout *to)
{
    const struct plan *p = g->runner->plan;
    struct rille_stats st;
    struct rille_explain *e;
    int64_t said[NDEV] = {0}, planned[NDEV] = {0}, total = 0;
    bool agree = true;
    must(rille_graph_stats(g, &st), "stats");
    must(rille_graph_explain(g, &e), "explain");
    agree = agree && e->nboxing == (from != to);
    for (int k = 0; k < e->nboxing; k++) {
        const struct rille_explain_boxing *b = &e->boxing[k];
        nhop += b->candidates[0].nhop > 1;
        agree = agree && b->bytes == b->bound;
        for (int i = 0; i < b->nrank; i++) said[b->rank[i]] += b->received[i];
    }
    for (int32_t i = 0; i < p->ntask; i++)
        if (task_hop(&p->task[i])) planned[p->device[p->task[i].device].rank] += p->task[i].move.received;
    for (int d = 0; d < st.ndevice; d++) {
        int rank = st.device[d].device;
        agree = agree && st.device[d].bytes_in == said[rank] && planned[rank] == said[rank];
        total += st.device[d].bytes_in;
    }
    agree = agree && total == e->bytes;
    rille_explain_free(&e);
    return agree;
}

/* Returns true if a move from layout `from` to layout `to` is possible and is a single move. */
static bool
is_pair(const struct rille_layout *from, const struct rille_layout *to)
{
    struct type t = type_of(DT_F32, 2, (int64_t[]){ROWS, COLUMNS});
    return box_bytes(&t, inner(from), inner(to)) < INT64_MAX;
}

static bool
pair_is_right(const struct rille_layout *from, const struct rille_layout *to)
{
    bool max = reduce_of(inner(from)) == RED_MAX, as_meant, read = npair % 2 && !layout_has_partial(inner(to));
    struct rille_tensor *x, *y;
    make_input(inner(from), &x);
    struct rille_graph *g = trace(x, from, to, read, &as_meant);
    must(rille_graph_run(g, 1, &x, &y), "run");
    bool stays = value_stays(y, max, read), agree = counts_agree(g, from, to);
    if (!stays || !agree || !as_meant)
        diag("%s -> %s: %s%s%s", rille_layout_text(s, from), rille_layout_text(s, to), stays ? "" : "another value ",
             agree ? "" : "other counts ", as_meant ? "" : "the sum has another layout than intended");
    rille_tensor_free(&y);
    rille_graph_free(&g);
    rille_tensor_free(&x);
    npair++;
    return stays && agree && as_meant;
}

/* ---- all pairs of layouts ---- */

static void
open_session(bool simulated, const char *cost)
{
    char bus[40];
    snprintf(bus, sizeof bus, "sim:%llu", (unsigned long long)seed++);
    struct rille_options o = {.devices = "cpu:18,async:18", .threads = 3, .bus = simulated ? bus : "zmq", .cost = cost};
    must(rille_open(&o, &s), "open");
}

struct route {
    const char *from, *to; /* device kinds of source and target */
    int first;             /* rank of the first device of the target placement */
    const char *text;
};

/* Tries this run's share of a random sample of the pairs of layouts: one of `share` pairs on average. */
static bool
pairs_are_right(const struct mesh *m, const struct mesh *n, const struct route *w, int share)
{
    const struct rille_layout *from[MAX_LAYOUT], *to[MAX_LAYOUT];
    int nfrom = list_layouts(m, place_of(m, w->from, 0), from), nto = list_layouts(n, place_of(n, w->to, w->first), to);
    bool right = true;
    for (int i = 0; i < nfrom; i++)
        for (int k = 0; k < nto; k++)
            if (is_pair(from[i], to[k]) && next_random(&seed) % (uint64_t)share == 0 && share_next())
                right = pair_is_right(from[i], to[k]) && right;
    return right;
}

static const char *
text_of(const struct mesh *m)
{
    static char text[2][16];
    static int at;
    char *out = text[at = !at];
    if (m->naxis == 1)
        snprintf(out, sizeof text[0], "[%d]", m->size[0]);
    else
        snprintf(out, sizeof text[0], "[%d, %d]", m->size[0], m->size[1]);
    return out;
}

static void
test_meshes(bool simulated, const char *cost, int share)
{
    static const struct route route[] = {{"cpu", "cpu", 0, "on the same ranks"},
                                         {"cpu", "cpu", 1, "to overlapping ranks"},
                                         {"cpu", "cpu", 9, "to other ranks"},
                                         {"cpu", "async", 9, "to async devices"},
                                         {"async", "cpu", 9, "from async devices"}};
    for (size_t m = 0; m < countof(meshes); m++)
        for (size_t w = 0; w < countof(route); w++) {
            open_session(simulated, cost);
            bool right = pairs_are_right(&meshes[m], &meshes[m], &route[w], share);
            ok(right, "%s, %s%s: the value is kept, and each rank reads the bytes of explain()", text_of(&meshes[m]),
               route[w].text, simulated ? "" : ", on threads");
            rille_close(&s);
        }
}

static void
test_other_meshes(const char *cost)
{
    for (size_t m = 0; m < countof(meshes); m++)
        for (size_t n = 0; n < countof(meshes); n++) {
            if (m == n) continue;
            open_session(true, cost);
            const struct route w = {"cpu", "cpu", (int)(seed % 8), NULL};
            bool right = pairs_are_right(&meshes[m], &meshes[n], &w, 16);
            ok(right, "%s to %s: samples", text_of(&meshes[m]), text_of(&meshes[n]));
            rille_close(&s);
        }
}

int
main(void)
{
    char dear[] = "/tmp/rille-cost-XXXXXX";
    int f = mkstemp(dear);
    static const char cost[] = "alpha_ns 1e9\nhop_ns 0\n";
    if (f < 0 || write(f, cost, sizeof cost - 1) < 0) return 1;
    close(f);
    seed = seed_of(1);
    test_meshes(true, NULL, 1);
    test_meshes(false, NULL, 8);
    test_other_meshes(NULL);
    is_int(nhop, 0, "on few ranks every move is one direct exchange");
    test_meshes(true, dear, 1);
    test_meshes(false, dear, 12);
    test_other_meshes(dear);
    ok(covered(nhop > 50), "with expensive messages, moves take several hops");
    diag("%d pairs, %d moves of several hops", npair, nhop);
    unlink(dear);
    return done();
}
