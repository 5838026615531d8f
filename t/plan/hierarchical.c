/* hierarchical.c - tests the estimated bytes of a sum between hosts. The estimate must equal the bytes of the
 * plan's channels, and the chosen method must never send more bytes than the other method.
 *
 * The test plans every pair of layouts with a sum, on meshes over 2 and over 4 hosts, by both methods. In the first
 * method, owners read all addends. In the second, running sums pass from host to host. */
#include "actors/plan/compile.h"
#include "actors/plan/outline/hierarchical.h"
#include "t/lib/plan/parts.h"

/* SIZE: rows and columns of the square matrix. 768 = 16 * 6 * 8, so the matrix divides into 16 chunks, each of 6
 * equal parts of 8 elements. */
enum { DEVICES = 8, MOST_LAYOUTS = 80, SIZE = 768 };
static const struct cut cut[] = {{2, {4, 4}}, {2, {2, 6}}, {4, {2, 2, 2, 2}}, {4, {1, 3, 3, 1}}};

/* ---- layouts ---- */

static const struct layout *layout[MOST_LAYOUTS];
static int nlayout;

static void
add_layouts(struct rille_session *s, int naxis, const int32_t *axis)
{
    static const struct sbp entry[] = {
        {.kind = SBP_S}, {.kind = SBP_S, .axis = 1}, {.kind = SBP_B}, {.kind = SBP_P, .reduce = RED_SUM}};
    int32_t rank[DEVICES];
    const struct place *p;
    for (int i = 0; i < DEVICES; i++) rank[i] = i;
    assert(place_new(s->atlas, DEV_CPU, naxis, axis, rank, &p) == 0);
    for (int k = 0; k < 1 << 2 * naxis; k++) {
        struct sbp sbp[MAX_AXIS];
        for (int a = 0; a < naxis; a++) sbp[a] = entry[k >> 2 * a & 3];
        assert(nlayout < MOST_LAYOUTS && layout_new(s->atlas, p, sbp, NULL, &layout[nlayout]) == 0);
        nlayout++;
    }
}

/* ---- bytes that plans send ---- */

/* Returns the larger of two numbers for the busiest host: bytes sent, and bytes received. */
static int64_t
count(const struct parts *x)
{
    int64_t most = 0;
    for (int m = 0; m < x->n; m++) {
        int64_t way[2] = {0, 0};
        for (int32_t c = 0; c < x->plan[m]->nchannel; c++)
            way[x->plan[m]->channel[c].sends] += x->plan[m]->channel[c].bytes;
        most = MAX(most, MAX(way[0], way[1]));
    }
    return most;
}

/* Returns the bytes that the plan in partitions sends; -1: the program cannot be planned. */
static int64_t
sent(struct rille_session *s, const struct str *bytes, const struct cut *c, double ns_per_byte)
{
    struct parts x = {0};
    parts_map(&x, c);
    wire_ns_per_byte = ns_per_byte;
    int64_t n = parts_compile(&x, bytes, s->atlas) ? -1 : count(&x);
    if (n < 0) diag("%s", err_text());
    wire_ns_per_byte = 0;
    parts_close(&x);
    return n;
}

/* ---- pairs of layouts ---- */

static struct {
    int pairs, handed, wrong, worse;
} n;

static void
complain(const struct plan_move *m, const struct cut *c, const struct hierarchical *legs, int64_t owners, int64_t best)
{
    struct str text = {0};
    layout_print(m->from, &text);
    str_add(&text, " -> ");
    layout_print(m->to, &text);
    diag("%s over %d hosts: by owners %.0f bytes, counted %lld; %s %.0f, counted %lld", str_text(&text), c->nmemory,
         legs->owners.bytes, (long long)owners, legs->relay ? "handed on" : "not handed on", legs->handed.bytes,
         (long long)best);
    str_free(&text);
}

static void
try_cut(struct rille_session *s, const struct plan *p, const struct str *bytes, const struct cut *c)
{
    const struct plan_move *move = p->move[0];
    const struct box_cost cost = {.wire_ns_per_byte = 1};
    struct type t = ref_type(p->program, move->value);
    struct parts x = {0};
    struct arena a = {0};
    struct local_set local_set;
    struct hierarchical legs;
    parts_map(&x, c);
    local_set_init(&local_set, &x.map[0], &a);
    bool priced = hierarchical_of(&a, &local_set, &cost, &t, move->from, move->to, &legs);
    arena_fini(&a);
    if (!priced) return;
    int64_t owners = sent(s, bytes, c, 0), best = sent(s, bytes, c, cost.wire_ns_per_byte);
    double want = legs.relay ? legs.handed.bytes : legs.owners.bytes;
    bool right = fabs((double)owners - legs.owners.bytes) < 1 && fabs((double)best - want) < 1;
    n.pairs++;
    n.handed += legs.relay != NULL;
    n.worse += best > owners;
    n.wrong += !right;
    if (!right || best > owners) complain(move, c, &legs, owners, best);
}

static void
try_pair(struct rille_session *s, const struct layout *from, const struct layout *to)
{
    struct str bytes = {0};
    struct plan *p = plan_moves_of(s, SIZE, from, 1, &to);
    if (p && p->nmove == 1) {
        program_write(p->program, &bytes);
        for (size_t i = 0; i < countof(cut); i++) try_cut(s, p, &bytes, &cut[i]);
    }
    str_free(&bytes);
    plan_free(&p);
}

int
main(void)
{
    struct rille_session *s;
    struct rille_options o = {.devices = "cpu:8"};
    if (rille_open(&o, &s)) return 1;
    s->devices.cost.alpha_ns = 0; /* no latency, so that direct moves are chosen, not moves of several hops */
    add_layouts(s, 1, (int32_t[]){8});
    add_layouts(s, 2, (int32_t[]){4, 2});
    add_layouts(s, 2, (int32_t[]){2, 4});
    for (int i = 0; i < nlayout; i++)
        for (int k = 0; k < nlayout; k++)
            if (layout_has_partial(layout[i]) && !layout_has_partial(layout[k])) try_pair(s, layout[i], layout[k]);
    ok(n.pairs > 900 && n.handed > 300, "%d sums between hosts, %d of them handed on", n.pairs, n.handed);
    is_int(n.wrong, 0, "plans send the estimated bytes");
    is_int(n.worse, 0, "sums are handed on only if that sends no more");
    rille_close(&s);
    return done();
}
