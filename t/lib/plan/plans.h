/* plans.h - makes random plans for tests, and runs a plan without a session.
 *
 * Random programs contain matrix products, element-wise operators, views, lookups, conversions between random
 * layouts, in-place updates and micro-batches. A compiled plan runs on a simulator, with buffers of exactly the
 * planned sizes. A hash of the result bytes identifies the outcome. */
#ifndef RILLE_T_PLANS_H
#define RILLE_T_PLANS_H

#include "actors/act/run/actors.h"
#include "actors/plan/compile.h"
#include "actors/session/build/build.h"
#include "actors/session/build/build_node.h"
#include "actors/session/core/session.h"
#include "actors/session/run/collect.h"
#include "kernels/op/base/table.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

enum { NDEV = 4, NTHREAD = 4, MOST_VALUES = 40 };

/* ---- random programs ---- */

struct maker {
    struct rille_session *s;
    uint64_t rng;
    int64_t n; /* every matrix is n x n */
    struct val *val[MOST_VALUES];
    int nval;
    struct val *update[4];
    int nupdate;
};

static int
pick(struct maker *m, int n)
{
    return (int)(next_random(&m->rng) % (uint64_t)n);
}

static int other_kind = DEV_CPU; /* kind of device that some random placements use instead of cpu */

static const struct place *
random_place(struct maker *m)
{
    static const int32_t mesh[][2] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {2, 2}};
    const int32_t *axis = mesh[pick(m, (int)countof(mesh))];
    int32_t rank[NDEV], n = axis[0] * axis[1], start = pick(m, NDEV);
    for (int32_t i = 0; i < n; i++) rank[i] = (start + i) % NDEV;
    const struct place *p;
    int kind = other_kind != DEV_CPU && pick(m, 2) ? other_kind : DEV_CPU;
    assert(place_new(m->s->atlas, kind, axis[1] > 1 ? 2 : 1, axis, rank, &p) == 0);
    return p;
}

static const struct layout *
random_layout(struct maker *m, const struct place *p, bool partial)
{
    struct sbp sbp[MAX_AXIS];
    const struct layout *l;
    for (int a = 0; a < p->naxis; a++) {
        int k = pick(m, partial ? 4 : 3);
        sbp[a] = k < 2 ? (struct sbp){.kind = SBP_S, .axis = (uint8_t)k}
                       : (struct sbp){.kind = k == 2 ? SBP_B : SBP_P, .reduce = k == 2 ? RED_NONE : RED_SUM};
        if (k < 2 && m->n % 2 == 0 && pick(m, 3) == 0) sbp[a].unit = 2;
    }
    assert(layout_new(m->s->atlas, p, sbp, NULL, &l) == 0);
    return l;
}

static struct val *
leaf(struct maker *m, const struct layout *l)
{
    struct type t = type_of(DT_F32, 2, (int64_t[]){m->n, m->n});
    return build_fresh(m->s, graph_leaf(m->s->graph, &t, l, store_new(l->place->nrank)));
}

/* Calls an operator with one attribute set; attribute NULL: defaults. */
static struct val *
call_with(struct maker *m, const char *name, int nin, struct val *const *in, const char *attribute, struct attr value)
{
    struct val *out[OP_OUT];
    const struct op *op = op_find(name);
    struct attr attr[OP_ATTR];
    op_attr_defaults(op, attr);
    value.set = true;
    if (attribute) attr[op_attr_find(op, attribute)] = value;
    return build_call(&m->s->context, op, nin, in, attr, NULL, out) ? NULL : out[0];
}

static struct val *
call(struct maker *m, const char *name, int nin, struct val *const *in)
{
    return call_with(m, name, nin, in, NULL, (struct attr){0});
}

/* Returns v converted to the placement of `other`; returns v itself if it has this placement. */
static struct val *
beside(struct maker *m, struct val *v, const struct val *other)
{
    struct val *out = v;
    if (v->layout->place == other->layout->place) return v;
    return build_to_global(&m->s->context, v, random_layout(m, other->layout->place, false), &out) ? NULL : out;
}

/* Looks up rows of a. The run checks the ids and may reject them. */
static struct val *
rows_of(struct maker *m, struct val *a)
{
    struct type t = type_of(DT_I64, 1, &m->n);
    const struct layout *l = layout_broadcast(m->s->atlas, a->layout->place);
    struct val *ids = build_fresh(m->s, graph_leaf(m->s->graph, &t, l, store_new(l->place->nrank)));
    return call(m, "embedding", 2, (struct val *[]){ids, a});
}

/* Reshapes matrix a to one dimension and back. Some memory layouts require a copy for the reshape. */
static struct val *
reshaped(struct maker *m, struct val *a)
{
    struct attr flat = {.n = 1, .list = {m->n * m->n}}, square = {.n = 2, .list = {m->n, m->n}};
    struct val *v = call_with(m, "reshape", 1, &a, "shape", flat);
    return v ? call_with(m, "reshape", 1, &v, "shape", square) : NULL;
}

/* Transposes matrix a. For some sizes, first replaces a by a result of attention, because a plan may store the
 * dimensions of such a result in either order. */
static struct val *
transposed(struct maker *m, struct val *a)
{
    if (m->n % 3 == 0) a = call(m, "attention", 6, (struct val *[]){a, a, a, NULL, NULL, NULL});
    return a ? call_with(m, "transpose", 1, &a, "axis1", (struct attr){.i = 1}) : NULL;
}

static struct val *
random_value(struct maker *m)
{
    static const char *const two[] = {"add", "mul", "matmul", "sub"}, *const one[] = {"relu", "neg", "softmax"};
    struct val *a = m->val[pick(m, m->nval)], *b = m->val[pick(m, m->nval)], *out;
    switch (pick(m, 10)) {
    case 0:
    case 1: return build_to_global(&m->s->context, a, random_layout(m, random_place(m), true), &out) ? NULL : out;
    case 2: return call(m, one[pick(m, (int)countof(one))], 1, &a);
    case 3: return call(m, "mul", 2, (struct val *[]){a, build_number(m->s, false, 0.5, 0)});
    case 4: return transposed(m, a);
    case 5: return pick(m, 2) ? reshaped(m, a) : rows_of(m, a);
    default: break;
    }
    b = beside(m, b, a);
    return b ? call(m, two[pick(m, (int)countof(two))], 2, (struct val *[]){a, b}) : NULL;
}

/* Adds an in-place update, which writes w - lr * g over w. With momentum, the update also writes the momentum over
 * its old value. */
static void
add_update(struct maker *m)
{
    struct val *w = m->val[0], *g = beside(m, m->val[pick(m, m->nval)], w);
    if (!g || layout_has_partial(w->layout)) return;
    bool momentum = pick(m, 2);
    struct val *in[] = {w, momentum ? leaf(m, w->layout) : NULL, g, build_number(m->s, false, 0.1, 0)};
    struct val *out = call_with(m, "sgd", 4, in, "momentum", (struct attr){.f = momentum ? 0.5 : 0});
    if (!out) return;
    m->update[m->nupdate++] = out;
    if (momentum) m->update[m->nupdate++] = out->node->out[1];
}

/* Marks the values that differ between micro-batches. Some moves can sum over micro-batches; chooses at random
 * which of them do. */
static void
make_pieces(struct maker *m, struct program *g)
{
    g->pieces = 2 + pick(m, 3);
    g->lag = pick(m, 3);
    for (int32_t i = 0; i < g->nleaf; i++) g->leaf[i].piece = i > 0 && pick(m, 2);
    for (int32_t i = 0; i < g->nnode; i++) {
        struct prog_node *n = &g->node[i];
        for (int32_t k = 0; k < n->nin; k++) {
            struct ref r = n->in[k];
            bool leaf_piece = r.kind == REF_LEAF && g->leaf[r.index].piece;
            bool node_piece = r.kind == REF_NODE && g->node[r.index].piece && !g->node[r.index].accumulate;
            n->piece = n->piece || leaf_piece || node_piece;
        }
        n->accumulate = n->piece && n->op->flags & OP_MOVE && pick(m, 2);
        n->phase = (uint8_t)pick(m, 2);
    }
    for (int32_t k = 0; k < g->nroot; k++) {
        struct ref r = g->root[k].ref;
        g->root[k].join =
            r.kind == REF_NODE ? g->node[r.index].piece && !g->node[r.index].accumulate : g->leaf[r.index].piece;
        if (g->root[k].join) g->root[k].overwrites_leaf = -1;
    }
}

/* Compiles a plan of consecutive conversions: an n x n leaf to the first of `nto` layouts, that result to the
 * second, and so on. The program returns the results of all conversions. Returns NULL if a conversion is
 * impossible. */
static inline struct plan *
plan_moves_of(struct rille_session *s, int64_t n, const struct layout *from, int nto, const struct layout *const *to)
{
    struct maker m = {.s = s, .n = n};
    struct val *v = leaf(&m, from), *out[MOST_VALUES];
    struct plan *p = NULL;
    int made = 0;
    while (made < nto && !build_to_global(&s->context, v, to[made], &out[made])) v = out[made++];
    if (made == nto && !collect(s, nto, out, COLLECT_RUN)) {
        struct program *g = collection_program(s, &s->collection);
        g->threads = 2;
        if (plan_compile(g, s->atlas, &p)) p = NULL;
    }
    build_settle(s, 0);
    return p;
}

/* Makes and compiles a random program. Returns NULL if the program cannot be planned. */
static inline struct plan *
random_plan(struct rille_session *s, uint64_t *seed, bool pieces)
{
    struct maker m = {.s = s, .rng = next_random(seed)};
    /* some matrices are large, so that ranks share the work of a move */
    m.n = pick(&m, 40) ? 1 + pick(&m, 5) : 33 + pick(&m, 8);
    const struct place *home = random_place(&m);
    for (int i = 0; i < 3; i++) m.val[m.nval++] = leaf(&m, random_layout(&m, i ? random_place(&m) : home, i > 0));
    for (int i = 2 + pick(&m, 8); i > 0; i--) {
        struct val *v = random_value(&m);
        if (v) m.val[m.nval++] = v;
    }
    if (pick(&m, 2)) add_update(&m);
    struct val *root[MOST_VALUES];
    int nroot = 0;
    for (int i = 0; i < m.nupdate; i++) root[nroot++] = m.update[i];
    for (int i = pick(&m, 3); i >= 0; i--) root[nroot++] = m.val[m.nval - 1 - pick(&m, MAX(1, m.nval - 3))];
    struct val *sum = !pieces && pick(&m, 2) ? call(&m, "sum", 1, &m.val[m.nval - 1]) : NULL;
    if (sum) root[nroot++] = sum;
    struct plan *p = NULL;
    if (collect(s, nroot, root, COLLECT_RUN) == 0) {
        struct program *g = collection_program(s, &s->collection);
        g->threads = 1 + pick(&m, NTHREAD);
        /* Set from the number of nodes, not drawn. A further draw would change the programs of all seeds that
         * tests name. */
        g->shared_least = g->nnode % 4 > 0;
        if (pick(&m, 2)) g->cost = (struct box_cost){.alpha_ns = 1e9}; /* costs that favour hierarchical moves */
        if (pieces) make_pieces(&m, g);
        if (g->nroot == 0)
            program_free(&g);
        else if (plan_compile(g, s->atlas, &p))
            p = NULL;
    }
    build_settle(s, 0);
    return p;
}

/* ---- layouts of a matrix on four devices ---- */

/* Returns the layout of a matrix on a mesh with axes of these sizes. rank: devices of the mesh; NULL: devices 0, 1,
 * 2, 3. */
static inline const struct layout *
mesh_layout(struct rille_session *s, int kind, int naxis, const int32_t *axis, const int32_t *rank, const char *text)
{
    static const int32_t in_line[] = {0, 1, 2, 3};
    const struct place *p;
    const struct layout *l;
    assert(place_new(s->atlas, kind, naxis, axis, rank ? rank : in_line, &p) == 0);
    assert(layout_parse(s->atlas, p, text, 2, &l) == 0);
    return l;
}

/* Returns the layout on four devices in a row. */
static inline const struct layout *
row_layout(struct rille_session *s, int kind, const char *text)
{
    return mesh_layout(s, kind, 1, (int32_t[]){4}, NULL, text);
}

/* Lists the layouts of a matrix on four devices in a row, then on 2 x 2. npartial: number of kinds of P. */
enum { LAYOUTS_ON = 42 };
static inline int
layouts_on(struct rille_session *s, int kind, const int32_t *rank, int npartial, const struct layout **out)
{
    static const char *const text[] = {"S(0)", "S(1)", "B", "P", "P(max)", "P(min)"};
    static const int32_t row[] = {4}, grid[] = {2, 2};
    int n = 0, ntext = 3 + npartial;
    for (int i = 0; i < ntext; i++) out[n++] = mesh_layout(s, kind, 1, row, rank, text[i]);
    for (int i = 0; i < ntext * ntext; i++) {
        char both[24];
        int x = i / ntext, y = i % ntext;
        if (x >= 3 && y >= 3 && x != y) continue; /* no layout may have P entries with different reductions */
        snprintf(both, sizeof both, "(%s, %s)", text[x], text[y]);
        out[n++] = mesh_layout(s, kind, 2, grid, rank, both);
    }
    return n;
}

/* ---- running a plan without a session ---- */

/* A region of whole pages, from which a host's buffers are allocated. While parts.h runs another host's partition, it
 * makes the region inaccessible (mprotect), so that an access by that partition is a fault. */
struct ground {
    char *base;
    size_t used;
};
enum { GROUND_BYTES = 64 << 20 }; /* bytes of address space; untouched pages use no memory */

struct bench {
    struct run run;
    struct own {
        int kind;
        void *p;
        size_t bytes;
    } * own; /* buffers that are allocated one by one on the heap */
    int nown;
    struct ground *ground; /* region that buffers come from; NULL: one allocation per buffer */
};

/* Allocates bytes in the memory of a device kind, filled with `fill`. */
static void *
bytes_for(struct bench *b, int kind, int64_t bytes, int fill)
{
    const struct device_kind *k = device_kind(kind);
    void *p = NULL;
    if (bytes == 0) return NULL;
    if (b->ground && k->flags & HOST_READS) {
        p = b->ground->base + b->ground->used;
        b->ground->used += (size_t)where_stride(bytes);
        assert(b->ground->used <= GROUND_BYTES);
        return memset(p, fill, (size_t)bytes);
    }
    p = k->take(0, (size_t)bytes);
    assert(p && k->fill(p, fill, (size_t)bytes) == 0);
    b->own = realloc(b->own, sizeof(*b->own) * (size_t)(b->nown + 1));
    b->own[b->nown++] = (struct own){kind, p, (size_t)bytes};
    return p;
}

/* Returns the number of the addend that a mesh position holds: its coordinates on the axes with P, as one number.
 * Replicas have the same number. */
static uint64_t
addend_of(const struct layout *l, int pos)
{
    int32_t coord[MAX_AXIS];
    uint64_t addend = 0;
    place_coord(l->place, pos, coord);
    for (int a = 0; a < l->place->naxis; a++)
        addend = addend * NDEV + (l->sbp[a].kind == SBP_P ? (uint64_t)coord[a] : 0);
    return addend;
}

/* Fills a leaf with small numbers that depend on the leaf, the micro-batch, the addend and the element's global
 * position. Ids are 0. */
static void
fill_leaf(float *x, const struct plan *p, int32_t i)
{
    const struct plan_part *part = &p->leaf_part[i];
    const struct prog_leaf *f = &p->program->leaf[part->index];
    struct box b;
    layout_box(f->layout, &f->type, part->pos, &b);
    uint64_t addend = addend_of(f->layout, part->pos);
    for (uint64_t piece = 0; part->type.dtype == DT_F32 && piece < (f->piece ? (uint64_t)p->pieces : 1); piece++)
        for (int64_t r = b.lo[0]; r < b.hi[0]; r++)
            for (int64_t c = b.lo[1]; c < b.hi[1]; c++) {
                uint64_t at = (((uint64_t)part->index * 16 + addend) * 8 + piece) * 64 + (uint64_t)(r * 8 + c);
                *x++ = (float)(int64_t)(next_random(&at) % 17) / 4 - 2;
            }
}

static int
leaf_kind(const struct plan *p, int32_t i)
{
    return p->program->leaf[p->leaf_part[i].index].layout->place->kind;
}

static int
root_kind(const struct plan *p, int32_t i)
{
    return ref_layout(p->program, p->program->root[p->root_part[i].index].ref)->place->kind;
}

static void
open_leaf(struct bench *b, const struct plan *p, int32_t i)
{
    size_t bytes = (size_t)p->leaf_part[i].bytes;
    b->run.leaf[i] = bytes_for(b, leaf_kind(p, i), p->leaf_part[i].bytes, 0);
    if (!b->run.leaf[i]) return;
    void *x = calloc(1, bytes);
    fill_leaf(x, p, i);
    assert(device_kind(leaf_kind(p, i))->copy(b->run.leaf[i], x, bytes) == 0);
    free(x);
}

/* Makes the replicas of a leaf share one buffer. All devices of the plan must be in one memory space; then shard i
 * of the leaf is that of mesh position i. */
static void
share_leaf(struct bench *b, const struct plan *p, int32_t leaf)
{
    void **part = b->run.leaf + p->leaf_first[leaf];
    const struct layout *l = p->program->leaf[leaf].layout;
    for (int pos = 0; pos < l->place->nrank; pos++) part[pos] = part[layout_origin(l, pos)];
}

/* Allocates a device's arena. If the device cannot read host memory, its arena is followed by a copy of the run's
 * numbers (actors/act/run/address.c). */
static void
open_arena(struct bench *b, const struct plan *p, int32_t d)
{
    const struct device_kind *k = device_kind(p->device[d].kind);
    int64_t arena = p->device[d].arena_bytes, numbers = (int64_t)sizeof(uint64_t) * p->program->nnumber;
    if (k->flags & HOST_READS) {
        b->run.arena[d] = bytes_for(b, p->device[d].kind, arena, 0xff);
        return;
    }
    b->run.arena[d] = bytes_for(b, p->device[d].kind, where_stride(arena) + numbers, 0xff);
    if (numbers) assert(!k->copy((char *)b->run.arena[d] + where_stride(arena), b->run.number, (size_t)numbers));
}

/* Returns a copy of a root shard's bytes. The caller frees the copy. */
static inline unsigned char *
bench_root(const struct bench *b, int32_t i)
{
    const struct plan *p = b->run.plan;
    size_t bytes = (size_t)p->root_part[i].bytes;
    unsigned char *x = malloc(bytes + 1);
    if (bytes) assert(device_kind(root_kind(p, i))->copy(x, b->run.root[i], bytes) == 0);
    return x;
}

/* Allocates all buffers of a plan. If a root may overwrite its leaf, both share the leaf's buffer. */
static inline void
bench_open_in(struct bench *b, struct plan *p, struct ground *ground)
{
    *b = (struct bench){.run = {.plan = p, .actors = actors_new(p), .poison = true}, .ground = ground};
    b->run.leaf = calloc((size_t)p->nleaf_part + 1, sizeof(void *));
    b->run.root = calloc((size_t)p->nroot_part + 1, sizeof(void *));
    b->run.arena = calloc((size_t)p->ndevice + 1, sizeof(void *));
    b->run.number = calloc((size_t)p->program->nnumber + 1, sizeof(uint64_t));
    b->run.line = calloc((size_t)p->program->nnode + 1, sizeof(struct line));
    for (int32_t i = 0; i < p->nleaf_part; i++) open_leaf(b, p, i);
    for (int32_t k = 0; k < p->program->nroot; k++)
        if (p->shared[k]) share_leaf(b, p, p->program->root[k].overwrites_leaf);
    for (int32_t i = 0; i < p->nroot_part; i++) {
        const struct plan_part *part = &p->root_part[i];
        const struct prog_root *r = &p->program->root[part->index];
        int32_t first = p->root_first[part->index];
        int origin = p->shared[part->index] ? layout_origin(ref_layout(p->program, r->ref), part->pos) : part->pos;
        b->run.root[i] = p->overwrites[part->index] ? b->run.leaf[p->leaf_first[r->overwrites_leaf] + i - first]
                         : origin < part->pos       ? b->run.root[first + origin]
                                                    : bytes_for(b, root_kind(p, i), part->bytes, 0x55);
    }
    for (int32_t i = 0; i < p->program->nnumber; i++) {
        double f = 0.25 * (i + 1);
        memcpy(&b->run.number[i], &f, sizeof f);
    }
    for (int32_t d = 0; d < p->ndevice; d++) open_arena(b, p, d);
}

static inline void
bench_open(struct bench *b, struct plan *p)
{
    bench_open_in(b, p, NULL);
}

static void
bench_close(struct bench *b)
{
    for (int i = 0; i < b->nown; i++) device_kind(b->own[i].kind)->give(0, b->own[i].p, b->own[i].bytes);
    free(b->own);
    free(b->run.leaf);
    free(b->run.root);
    free(b->run.arena);
    free(b->run.number);
    free(b->run.line);
    actors_free(&b->run.actors);
}

/* Replaces -0 by 0, because a copy keeps the sign of a zero, and a sum over ranks does not. */
static inline void
drop_sign_of_zero(unsigned char *x, const struct plan_part *part)
{
    for (int64_t k = 0; part->type.dtype == DT_F32 && k + 4 <= part->bytes; k += 4)
        if (x[k + 3] == 0x80 && !x[k + 2] && !x[k + 1] && !x[k]) x[k + 3] = 0;
}

/* Runs a plan on the simulator. Returns a hash of the bytes of all roots; 0: the run failed. */
static inline uint64_t
outcome(struct engine *e, struct plan *p)
{
    struct bench b;
    uint64_t hash = 0x9e3779b97f4a7c15ull;
    bench_open(&b, p);
    int status = engine_run(e, &b.run);
    for (int32_t i = 0; i < p->nroot_part; i++) {
        unsigned char *x = bench_root(&b, i);
        drop_sign_of_zero(x, &p->root_part[i]);
        for (int64_t k = 0; k < p->root_part[i].bytes; k++) hash = (hash ^ x[k]) * 0x100000001b3ull;
        free(x);
    }
    bench_close(&b);
    if (status) diag("run: %s", err_text());
    return status ? 0 : hash;
}

static inline struct engine *
simulator(uint64_t seed)
{
    struct engine *e;
    struct engine_options o = {.threads = NTHREAD, .bus = &bus_sim, .seed = seed};
    return engine_new(&o, &e) ? NULL : e;
}

#endif
