/* memory.c - checks that the graph keeps exactly those values and nodes that its definition requires.
 *
 * runtime/graph/graph.h defines three counts per value: holders, readers of the value's bytes, and nodes that
 * remember the value. After every step of a random history, this test computes the counts again, from a model of the
 * reads between nodes and values. The graph's incrementally updated counts must agree. Unneeded values and nodes
 * must be freed; the graph's own counts and a sanitizer check this. */
#include "runtime/graph/graph.h"

#include "runtime/data/arena.h"
#include "t/lib/tap.h"

enum { VALS = 4000, NODES = 2000, IN = 3 };

struct model_val {
    struct val *v;
    int handles, node, out, hold, keep, remembered;
    bool alive, stored;
};
struct model_node {
    struct node *n;
    const struct op *op;
    int nin, in[IN], nout, out[2];
    enum node_holding holding;
    bool alive, done, spent;
};
struct model {
    struct graph *g;
    uint64_t random;
    struct model_val val[VALS];
    struct model_node node[NODES];
    int nval, nnode;
    const char *wrong;
};

/* Operators of four kinds, whose gradients read nothing, the operands, the results, or operands and results. */
static const struct op ops[] = {{.name = "a"},
                                {.name = "b", .grad.saves = "0"},
                                {.name = "c", .grad.saves = "1a"},
                                {.name = "d", .grad.saves = "b", .nout = 2},
                                {.name = "e", .grad.saves = "02ab", .nout = 2}};

static int
below(struct model *m, int n)
{
    return (int)(next_random(&m->random) % (uint64_t)n);
}

/* ---- computing the three counts by their definition ---- */

static bool
saves(const struct model_node *n, char what)
{
    return n->op->grad.saves && strchr(n->op->grad.saves, what);
}

static void
count(struct model *m)
{
    for (int i = 0; i < m->nval; i++) {
        struct model_val *v = &m->val[i];
        v->hold = v->keep = v->handles;
        v->remembered = 0;
    }
    for (int i = 0; i < m->nnode; i++) {
        const struct model_node *n = &m->node[i];
        if (!n->alive) continue;
        for (int k = 0; k < n->nin; k++) {
            struct model_val *v = &m->val[n->in[k]];
            v->hold += n->holding <= HOLD_SAVED;
            v->keep += n->holding == HOLD_ALL || (n->holding == HOLD_SAVED && saves(n, (char)('0' + k)));
            v->remembered += n->holding == HOLD_REMEMBERED;
        }
        for (int k = 0; k < n->nout; k++)
            m->val[n->out[k]].keep += n->holding == HOLD_SAVED && saves(n, (char)('a' + k));
    }
    for (int i = 0; i < m->nval; i++)
        if (m->val[i].keep == 0) m->val[i].stored = false;
}

/* Applies each rule of the definition once. A node without held results keeps only its references to operands. A
 * node is freed if no node remembers its results. Returns true if anything changed. */
static bool
let_go(struct model *m)
{
    bool changed = false;
    count(m);
    for (int i = 0; i < m->nnode && !changed; i++) {
        struct model_node *n = &m->node[i];
        int held = 0, remembered = 0;
        if (!n->alive) continue;
        for (int k = 0; k < n->nout; k++) {
            held += m->val[n->out[k]].hold;
            remembered += m->val[n->out[k]].remembered;
        }
        if (held) continue;
        changed = remembered == 0 || n->holding < HOLD_REMEMBERED;
        n->holding = MAX(n->holding, HOLD_REMEMBERED);
        if (remembered) continue;
        n->alive = false;
        for (int k = 0; k < n->nout; k++) m->val[n->out[k]].alive = false;
    }
    for (int i = 0; i < m->nval; i++) {
        struct model_val *v = &m->val[i];
        if (v->node < 0 && v->hold == 0 && v->remembered == 0) v->alive = false;
    }
    return changed;
}

static void
expect(struct model *m)
{
    struct graph_count c = graph_count(m->g);
    int vals = 0, nodes = 0, remembered = 0;
    while (let_go(m)) continue;
    for (int i = 0; i < m->nval && !m->wrong; i++) {
        const struct model_val *v = &m->val[i];
        if (!v->alive) continue;
        vals++;
        if (v->v->hold != v->hold) m->wrong = "hold";
        if (v->v->keep != v->keep) m->wrong = "keep";
        if (v->v->remembered != v->remembered) m->wrong = "past";
        if ((v->v->store != NULL) != v->stored) m->wrong = "store";
    }
    for (int i = 0; i < m->nnode; i++) {
        nodes += m->node[i].alive;
        remembered += m->node[i].alive && m->node[i].holding == HOLD_REMEMBERED;
    }
    if (!m->wrong && c.vals != vals) m->wrong = "the count of values";
    if (!m->wrong && c.nodes != nodes) m->wrong = "the count of nodes";
    if (!m->wrong && c.remembered != remembered) m->wrong = "the count of remembered nodes";
}

/* ---- steps of a random history ---- */

static int
add_val(struct model *m, struct val *v, int node, int out)
{
    m->val[m->nval] = (struct model_val){.v = v, .node = node, .out = out, .alive = true, .handles = 1};
    val_hold(v);
    return m->nval++;
}

static void
new_leaf(struct model *m)
{
    struct type t = {.dtype = DT_F32};
    int i = add_val(m, graph_leaf(m->g, &t, NULL, store_new(0)), -1, 0);
    m->val[i].stored = true;
    m->val[i].v->needs_grad = (uint8_t)below(m, 2);
}

/* Returns a random value with a handle; -1 if none was found. */
static int
some_handle(struct model *m)
{
    for (int tries = 0; tries < 20 && m->nval; tries++) {
        int i = m->nval - 1 - below(m, MIN(m->nval, 40));
        if (m->val[i].alive && m->val[i].handles) return i;
    }
    return -1;
}

static void
drop(struct model *m, int i)
{
    struct val *v = m->val[i].v;
    m->val[i].handles--;
    val_drop(m->g, &v);
}

static void
new_node(struct model *m)
{
    static const struct layout *const layout[2];
    const struct op *op = &ops[below(m, countof(ops))];
    int i = m->nnode, nout = op->nout ? op->nout : 1;
    struct model_node *n = &m->node[i];
    struct type type[2] = {{.dtype = DT_F32}, {.dtype = DT_F32}};
    struct val *in[IN];
    *n = (struct model_node){.op = op, .nin = 1 + below(m, IN), .nout = nout, .alive = true};
    bool grad = false;
    for (int k = 0; k < n->nin; k++) {
        n->in[k] = some_handle(m);
        if (n->in[k] < 0) return;
        in[k] = m->val[n->in[k]].v;
        grad = grad || in[k]->needs_grad;
    }
    n->n = graph_add(m->g, op, n->nin, in, NULL, NULL, nout, type, layout, (struct line){0});
    m->nnode++;
    for (int k = 0; k < nout; k++) {
        n->n->out[k]->needs_grad = grad;
        n->out[k] = add_val(m, n->n->out[k], i, k);
    }
    if (nout == 2 && below(m, 2)) drop(m, n->out[below(m, 2)]);
}

static int
some_node(struct model *m, bool done)
{
    for (int tries = 0; tries < 20 && m->nnode; tries++) {
        int i = m->nnode - 1 - below(m, MIN(m->nnode, 30));
        if (m->node[i].alive && m->node[i].done == done) return i;
    }
    return -1;
}

/* Simulates the computation of a random node: allocates the results that are needed, then marks the node as done. */
static void
compute(struct model *m)
{
    int i = some_node(m, false);
    if (i < 0) return;
    struct model_node *n = &m->node[i];
    int held = 0;
    bool grad = false;
    count(m);
    for (int k = 0; k < n->nout; k++) {
        struct model_val *v = &m->val[n->out[k]];
        bool saved = node_has_gradient(n->n) && node_saves_out(n->n, k);
        held += v->hold > 0;
        grad = grad || v->v->needs_grad;
        if (v->v->store || (v->keep == 0 && !saved)) continue;
        v->v->store = store_new(0);
        v->stored = true;
    }
    node_done(m->g, n->n);
    n->done = true;
    if (n->holding == HOLD_ALL) n->holding = held && grad && !n->spent ? HOLD_SAVED : HOLD_REMEMBERED;
}

static void
spend(struct model *m)
{
    int i = some_node(m, below(m, 2));
    if (i < 0) return;
    struct model_node *n = &m->node[i];
    n->spent = true;
    node_spend(m->g, n->n);
    if (n->done && n->holding == HOLD_SAVED) n->holding = HOLD_REMEMBERED;
}

/* Marks a computed node for another computation, because the bytes of its results were freed and a result is
 * needed again. */
static void
revive(struct model *m)
{
    int i = some_node(m, true);
    if (i < 0) return;
    struct model_node *n = &m->node[i];
    bool wanted = false;
    for (int k = 0; k < n->nout; k++) wanted = wanted || m->val[n->out[k]].hold > 0;
    if (!wanted) return;
    if (!node_revive(m->g, n->n)) m->wrong = "a node that remembers its operands";
    n->done = false;
    n->holding = HOLD_ALL;
}

static void
step(struct model *m)
{
    int i = some_handle(m);
    switch (below(m, 10)) {
    case 0: new_leaf(m); break;
    case 1:
    case 2: new_node(m); break;
    case 3:
    case 4:
    case 5:
        if (i >= 0) drop(m, i);
        break;
    case 6:
        if (i < 0) break;
        m->val[i].handles++;
        val_hold(m->val[i].v);
        break;
    case 7:
    case 8: compute(m); break;
    default:
        if (below(m, 2))
            spend(m);
        else
            revive(m);
    }
}

/* ---- random histories ---- */

static bool
history(uint64_t seed)
{
    static struct model m;
    m = (struct model){.g = graph_new(), .random = seed};
    for (int i = 0; i < 1500 && !m.wrong && m.nval < VALS - 4 && m.nnode < NODES - 1; i++) {
        step(&m);
        expect(&m);
    }
    for (int i = 0; i < m.nval && !m.wrong; i++) {
        while (m.val[i].handles) drop(&m, i);
        if (i % 50 == 0) expect(&m);
    }
    struct graph_count c = graph_count(m.g);
    if (!m.wrong && (c.vals || c.nodes || c.remembered))
        m.wrong = "values or nodes remain after all handles are dropped";
    if (m.wrong) diag("SEED=%llu: %s", (unsigned long long)seed, m.wrong);
    if (!m.wrong) graph_free(&m.g);
    return !m.wrong;
}

static struct val *
computed(struct graph *g, struct val *x, int nout)
{
    static const struct layout *const layout[2];
    struct type type[2] = {{.dtype = DT_F32}, {.dtype = DT_F32}};
    struct node *n =
        graph_add(g, nout == 2 ? &ops[3] : &ops[0], 1, &x, NULL, NULL, nout, type, layout, (struct line){0});
    struct val *v = n->out[0];
    val_hold(v);
    v->store = store_new(0);
    node_done(g, n);
    return v;
}

/* Returns the last of a chain of n values, each computed from the previous one. Frees the handles of the other values.
 */
static struct val *
chain(struct graph *g, int n, bool compute_each)
{
    static const struct layout *const layout[1];
    struct type t = {.dtype = DT_F32};
    struct val *v = graph_leaf(g, &t, NULL, store_new(0));
    val_hold(v);
    for (int i = 0; i < n; i++) {
        struct val *before = v;
        if (compute_each) {
            v = computed(g, before, 1 + i % 2);
        } else {
            v = graph_add(g, &ops[0], 1, &before, NULL, NULL, 1, &t, layout, (struct line){0})->out[0];
            val_hold(v);
        }
        val_drop(g, &before);
    }
    return v;
}

static void
long_chains(void)
{
    struct graph *g = graph_new();
    struct val *v = chain(g, NREMEMBERED + 5000, true);
    struct graph_count c = graph_count(g);
    is_int(c.remembered, NREMEMBERED, "the last 10,000 of 15,000 computed operators are remembered");
    ok(c.nodes <= NREMEMBERED + 1, "no other computed operators are stored");
    ok(node_revive(g, v->node), "the last operator can be computed again");
    val_drop(g, &v);
    c = graph_count(g);
    ok(c.vals == 0 && c.nodes == 0 && c.remembered == 0, "all operators are freed with the last handle");

    v = chain(g, 200000, false);
    is_int(graph_count(g).nodes, 200000, "200,000 pending operators are stored");
    val_drop(g, &v);
    is_int(graph_count(g).vals, 0, "all pending operators are freed with the last handle, without recursion");
    graph_free(&g);
}

/* number of freed versions of variables, each of which the graph has reported to the variable's owner */
static int norphan;

static void
orphan(struct rille_tensor *owner)
{
    (void)owner;
    norphan++;
}

/* Checks the versions of a variable. A version must not keep the previous version alive, because differentiation
 * stops at a version. */
static void
versions(void)
{
    static const struct layout *const layout[1];
    struct graph *g = graph_new();
    struct type t = {.dtype = DT_F32};
    int owner;
    struct val *v = graph_leaf(g, &t, NULL, store_new(0));
    graph_on_orphan(g, orphan);
    val_hold(v);
    for (int i = 0; i < NREMEMBERED + 2000; i++) {
        struct node *n = graph_add(g, &ops[1], 1, &v, NULL, NULL, 1, &t, layout, (struct line){0});
        struct val *before = v;
        v = n->out[0];
        v->owner = (struct rille_tensor *)(void *)&owner;
        v->needs_grad = 1;
        val_hold(v);
        v->store = store_new(0);
        node_done(g, n);
        val_drop(g, &before);
    }
    ok(graph_count(g).vals <= NREMEMBERED + 2, "only the last of 12,000 versions is held");
    ok(norphan > 1000, "freed versions are reported to their owner");
    val_drop(g, &v);
    is_int(norphan, NREMEMBERED + 2000, "each freed version is reported once");
    is_int(graph_count(g).vals, 0, "no value remains");
    graph_free(&g);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 2000 : 60, failed = 0;
    for (int i = 0; i < n; i++) failed += !history(seed + (uint64_t)i);
    ok(failed == 0, "in %d histories every count equals its definition", n);
    long_chains();
    versions();
    return done();
}
