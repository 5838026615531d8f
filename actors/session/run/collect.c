/* collect.c - makes the program (a list of operator calls in order) that computes requested values.
 *
 * A walk over the graph visits values that are not computed yet. A computed value is a leaf of the program. Numbers
 * are bound when the program starts. The key of the plan cache is written directly from the walk, so a known program
 * costs no more than the walk; only a new one is copied out of the graph. */
#include "actors/session/run/collect.h"
#include "actors/session/core/session.h"
#include "actors/session/run/early_updates.h"

#include "actors/cluster/controller/memories.h"
#include "runtime/data/hash.h"
#include "sbp/strategy.h"

#include <stdlib.h>
#include <string.h>

/* Least size in bytes from which replicas of a variable on one host share a buffer. Each device then writes only a
 * slice of an update, which saves 10 us or more. For smaller variables, the messages that order the writes cost
 * more. */
enum { SHARED_LEAST = 64 << 10 };

struct frame {
    struct node *node;
    int32_t next;
};

/* Returns true if the bytes of the store are invalid: the run that wrote the store returned with open work
 * (open_run.h), and this work failed later. */
static bool
store_failed(const struct store *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->part[i] && buffer_failed(s->part[i])) return true;
    return false;
}

int
val_readable(const struct val *v)
{
    const char *name = v->owner ? v->owner->name : NULL;
    bool failed = v->store && store_failed(v->store);
    if (failed && !v->owner) return fail(E_STATE, "the run that computes the value failed; compute it again");
    if (!v->half_written && !failed) return 0;
    return fail(E_STATE, "%s%s was only partly written when a run failed; set it again before reading it",
                name ? "variable " : "the variable", name ? name : "");
}

static int
unknown(const struct val *v)
{
    if (v->layout && v->layout->place->kind == DEV_META)
        return fail(E_PLACE, "a tensor on meta devices has a layout but no values, so it cannot be read");
    if (v->input == STAND_IN)
        return fail(E_STATE,
                    "a value inside the function of rille.scan stands for the values of all positions and cannot "
                    "be read; return it from the function");
    if (v->input != NO_INPUT)
        return fail(E_STATE, "the value was computed inside a graph from its arguments and exists only while the "
                             "compiled step runs; return it from the function");
    return fail(E_STATE,
                "the value was freed: backward has used it, or more than %d operators were recorded after it; read it "
                "before that, or compute it again",
                NREMEMBERED);
}

/* Adds the value to the leaves or to the numbers, unless it was added before. */
static void
enter_leaf(struct collection *c, struct val *v)
{
    struct val ***list = v->is_number ? &c->number : &c->leaf;
    int32_t *n = v->is_number ? &c->nnumber : &c->nleaf,
            *capacity = v->is_number ? &c->number_capacity : &c->leaf_capacity;
    GROW(*list, *n + 1, *capacity);
    v->index = *n;
    (*list)[(*n)++] = v;
}

/* Returns true if the walk does not continue to the operands of v. COLLECT_RUN: v is computed. COLLECT_TRACE: v was
 * made outside this trace. COLLECT_EXPLAIN: v is a variable or the result of a discarded node. */
static bool
is_walk_end(const struct val *v, enum collect_mode mode)
{
    if (v->is_number || (v->input >= 0 && mode != COLLECT_RUN)) return true;
    switch (mode) {
    case COLLECT_TRACE: return !v->node || !v->node->traced;
    case COLLECT_EXPLAIN: return !v->node || v->owner || v->node->state == NODE_FORGOTTEN;
    default: return v->store != NULL;
    }
}

static int
visit_val(struct rille_session *s, struct collection *c, struct val *v, uint64_t mark, enum collect_mode mode)
{
    if (v->mark == mark && (is_walk_end(v, mode) || v->node->mark == mark)) return 0;
    if (mode != COLLECT_EXPLAIN) TRY(val_readable(v));
    if (is_walk_end(v, mode)) {
        v->mark = mark;
        enter_leaf(c, v);
        return 0;
    }
    bool known = v->node && v->input != STAND_IN;
    if (!v->node || (mode != COLLECT_EXPLAIN && !(known && node_revive(s->graph, v->node)))) return unknown(v);
    v->mark = mark;
    if (v->node->mark == mark) return 0;
    v->node->mark = mark;
    return -1; /* -1: the operands of the node must be visited first */
}

/* Walks the graph depth first, so that operands come before their readers. Uses an explicit stack, because programs
 * may be deep. */
static int
walk_graph(struct rille_session *s, struct collection *c, struct val *root, uint64_t mark, enum collect_mode mode)
{
    int32_t depth = 0;
    int status = visit_val(s, c, root, mark, mode);
    if (status >= 0) return status;
    GROW(c->stack, depth + 1, c->stack_capacity);
    c->stack[depth++] = (struct frame){root->node, 0};
    while (depth > 0) {
        struct frame *f = &c->stack[depth - 1];
        if (f->next == f->node->nin) {
            GROW(c->node, c->nnode + 1, c->node_capacity);
            /* another node may read a result of this node that an earlier run computed, and which is a leaf of
             * this run; such a result keeps its index in the list of leaves */
            for (int k = 0; k < f->node->nout; k++)
                if (f->node->out[k]->mark != mark || !is_walk_end(f->node->out[k], mode)) f->node->out[k]->index = -1;
            f->node->index = c->nnode;
            c->node[c->nnode++] = f->node;
            depth--;
            continue;
        }
        struct val *v = f->node->in[f->next++];
        if (!v) continue;
        status = visit_val(s, c, v, mark, mode);
        if (status > 0) return status;
        if (status == 0) continue;
        GROW(c->stack, depth + 1, c->stack_capacity);
        c->stack[depth++] = (struct frame){v->node, 0};
    }
    return 0;
}

static void
add_root(struct collection *c, struct val *v)
{
    GROW(c->root, c->nroot + 1, c->root_capacity);
    c->root[c->nroot++] = v;
}

/* ---- ordering the nodes ---- */

static bool
any_recomputed(const struct collection *c)
{
    for (int32_t i = 0; i < c->nnode; i++)
        if (c->node[i]->recomputes) return true;
    return false;
}

static int
by_serial(const void *a, const void *b)
{
    const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;
    return (x->serial > y->serial) - (x->serial < y->serial);
}

/* Sorts nodes by creation if the walk contains recomputation. In the order of the walk, the gradient of a weight
 * would be computed only right before the weight's update, and the gradient's operands would stay in memory until
 * then. */
static void
as_made(struct collection *c)
{
    if (!any_recomputed(c)) return;
    qsort(c->node, (size_t)c->nnode, sizeof *c->node, by_serial);
    for (int32_t i = 0; i < c->nnode; i++) c->node[i]->index = i;
}

/* Returns true if a node of this walk computes the value x. */
static bool
is_made(const struct val *x)
{
    return x && !x->is_number && x->index < 0;
}

/* Returns true if n is a reduction of a value of this walk, and its result has at most 1/LITTLE of the value's
 * elements. */
static bool
folds_to_little(const struct node *n)
{
    enum { LITTLE = 16 }; /* least ratio of operand size to result size */
    const struct val *x = n->op->host.folds != RED_NONE && n->nin == 1 ? n->in[0] : NULL;
    return is_made(x) && type_numel(&n->out[0]->type) <= type_numel(&x->type) / LITTLE;
}

/* Appends node i to `order`, then recursively the reductions that are moved behind node i. hosted[i]: first
 * reduction behind node i; next[j]: reduction that follows j behind the same node; -1: none. */
static void
emit_node(struct collection *c, int32_t i, const int32_t *hosted, const int32_t *next, struct node **order, int32_t *n)
{
    order[(*n)++] = c->node[i];
    for (int32_t j = hosted[i]; j >= 0; j = next[j]) emit_node(c, j, hosted, next, order, n);
}

/* Moves each reduction with a small result, such as a bias gradient, forward: directly behind the node of its
 * operand, and behind element-wise nodes that follow this node. In the order of the walk, the reduction would come
 * late, when its operand has left the caches. Its early result costs little memory. */
static void
folds_early(struct collection *c)
{
    int32_t n = 0, first = 0;
    while (first < c->nnode && !folds_to_little(c->node[first])) first++;
    if (first == c->nnode) return;
    int32_t *hosted = must_alloc(sizeof *hosted * 2 * (size_t)c->nnode), *next = hosted + c->nnode;
    struct node **order = must_alloc(sizeof *order * (size_t)c->nnode);
    bool *moves = must_alloc((size_t)c->nnode);
    for (int32_t i = 0; i < c->nnode; i++) hosted[i] = -1, moves[i] = folds_to_little(c->node[i]);
    for (int32_t i = c->nnode; i-- > 0;) {
        if (!moves[i]) continue;
        int32_t host = c->node[i]->in[0]->node->index;
        while (c->node[host + 1]->op->flags & OP_ELTWISE) host++;
        next[i] = hosted[host];
        hosted[host] = i;
    }
    for (int32_t i = 0; i < c->nnode; i++)
        if (!moves[i]) emit_node(c, i, hosted, next, order, &n);
    for (int32_t i = 0; i < n; i++) c->node[i] = order[i], order[i]->index = i;
    free(hosted);
    free(order);
    free(moves);
}

/* last: last reader of a value; before: the reader before the last; -1: none. kept: the value is needed after the
 * walk. */
struct readers {
    int32_t last, before;
    bool kept;
};

/* Returns an array of each value's readers, indexed by node * OP_OUT + output. The caller frees the array. */
static struct readers *
collect_readers(const struct collection *c)
{
    struct readers *list = must_alloc(sizeof *list * (size_t)(c->nnode * OP_OUT + 1));
    for (int32_t i = 0; i < c->nnode * OP_OUT; i++) list[i] = (struct readers){-1, -1, false};
    for (int32_t j = 0; j < c->nnode; j++)
        for (int k = 0; k < c->node[j]->nin; k++) {
            const struct val *x = c->node[j]->in[k];
            if (!is_made(x)) continue;
            struct readers *r = &list[x->node->index * OP_OUT + x->out];
            *r = (struct readers){j, r->last, false};
        }
    for (int32_t k = 0; k < c->nroot; k++)
        if (is_made(c->root[k])) list[c->root[k]->node->index * OP_OUT + c->root[k]->out].kept = true;
    return list;
}

/* Returns the node that can share one pass over a common operand with node i (eltwise.beside), if these two are
 * the operand's last readers; -1: none. Returns -1 on devices that compile kernels: their libraries recognise a
 * derivative by the node right before it, so a derivative must not be moved. */
static int32_t
node_beside(const struct collection *c, const struct readers *readers, int32_t i)
{
    const struct node *n = c->node[i];
    const struct val *x = n->op->eltwise.beside ? n->in[0] : NULL;
    if (!is_made(x) || device_kind(x->layout->place->kind)->flags & COMPILES) return -1;
    const struct readers *r = &readers[x->node->index * OP_OUT + x->out];
    if (r->kept || r->before != i) return -1;
    const struct node *other = c->node[r->last];
    return other->op == n->op->eltwise.beside && op_attr_same(n->op, n->attr, other->attr) ? r->last : -1;
}

/* Moves each node that node_beside() finds right before its partner, and into the phase of the earlier of the two
 * nodes. Then the common operand dies earlier, and its memory can be reused. */
static void
besides_early(struct collection *c)
{
    int32_t n = 0, first = 0;
    while (first < c->nnode && !c->node[first]->op->eltwise.beside) first++;
    if (first == c->nnode) return;
    struct readers *readers = collect_readers(c);
    struct node **order = must_alloc(sizeof *order * (size_t)c->nnode);
    bool *moves = must_alloc((size_t)c->nnode);
    for (int32_t i = 0; i < c->nnode; i++) {
        if (moves[i]) continue;
        int32_t at = node_beside(c, readers, i);
        if (at >= 0) {
            moves[at] = true;
            c->node[at]->phase = MIN(c->node[at]->phase, c->node[i]->phase);
            order[n++] = c->node[at];
        }
        order[n++] = c->node[i];
    }
    for (int32_t i = 0; i < n; i++) c->node[i] = order[i], order[i]->index = i;
    free(readers);
    free(order);
    free(moves);
}

/* Adds values as roots, so that this run stores them: current values of variables, and results with keep_next.
 * keep_next marks a result that an earlier run computed but did not store, although a handle or a later node needs
 * it. */
static void
collect_variables(struct collection *c)
{
    for (int32_t i = 0; i < c->nnode; i++)
        for (int k = 0; k < c->node[i]->nout; k++) {
            struct val *v = c->node[i]->out[k];
            bool present = v->owner && tensor_is_present(v->owner, v);
            if ((present || v->keep_next) && !v->store) add_root(c, v);
        }
}

/* Adds as roots the values that gradients will read, because those values must outlive the run. */
static void
add_saved(struct collection *c, uint64_t mark)
{
    int32_t n = c->nnode;
    for (int32_t i = 0; i < n; i++) {
        struct node *node = c->node[i];
        if (!node_has_gradient(node)) continue;
        for (int k = 0; k < node->nin; k++) {
            struct val *v = node->in[k];
            if (v && !v->is_number && !v->store && v->node && v->node->mark == mark && node_saves_in(node, k))
                add_root(c, v);
        }
        for (int k = 0; k < node->nout; k++)
            if (node_saves_out(node, k) && !node->out[k]->store) add_root(c, node->out[k]);
    }
}

static void
unique_roots(struct collection *c, struct rille_session *s)
{
    uint64_t mark = graph_mark(s->graph);
    int32_t n = 0;
    for (int32_t i = 0; i < c->nroot; i++) {
        struct val *v = c->root[i];
        if (v->mark == mark) continue;
        v->mark = mark;
        c->root[n++] = v;
    }
    c->nroot = n;
    c->root_mark = mark;
}

/* Returns true if the run, or the compiled step that is being made, finds values that are not finite. */
static bool
finds_nan(const struct rille_session *s)
{
    return s->runs.find_nan || (s->trace.now && s->trace.find_nan);
}

/* Returns true if all nodes are on the same single device. */
static bool
is_on_one_device(const struct collection *c)
{
    const struct place *home = c->nnode ? c->node[0]->out[0]->layout->place : NULL;
    for (int32_t i = 0; i < c->nnode; i++)
        for (int k = 0; k < c->node[i]->nout; k++)
            if (c->node[i]->out[k]->layout->place != home) return false;
    return home && home->nrank == 1;
}

/* Returns true for a compiled step whose updates may begin before its last gradient. In all other runs, updates come
 * last. A run that finds NaN, or loses a worker, fails late, and then fewer variables are half written. On several
 * devices, early updates keep more addends of gradients in memory. Micro-batches delay all updates anyway. */
static bool
may_update_early(const struct rille_session *s, const struct collection *c)
{
    return s->trace.now && s->trace.pieces == 1 && !s->cluster && !finds_nan(s) && is_on_one_device(c);
}

int
collect(struct rille_session *s, int n, struct val *const *root, enum collect_mode mode)
{
    struct collection *c = &s->collection;
    c->nnode = c->nleaf = c->nnumber = c->nroot = 0;
    uint64_t mark = graph_mark(s->graph);
    for (int i = 0; i < n; i++) {
        if (mode == COLLECT_RUN && root[i]->store) continue;
        TRY(walk_graph(s, c, root[i], mark, mode));
        add_root(c, root[i]);
    }
    as_made(c);
    updates_early(c, !may_update_early(s, c));
    folds_early(c);
    besides_early(c);
    if (mode == COLLECT_RUN) collect_variables(c);
    if (mode == COLLECT_RUN) add_saved(c, mark);
    unique_roots(c, s);
    return 0;
}

/* ---- writing the key of the plan cache ---- */

static struct ref
ref_of(const struct val *v)
{
    if (!v) return (struct ref){0};
    if (v->is_number) return (struct ref){.kind = REF_NUMBER, .index = v->index};
    if (v->index >= 0) return (struct ref){.kind = REF_LEAF, .index = v->index};
    return (struct ref){.kind = REF_NODE, .index = v->node->index, .out = v->out};
}

/* Appends bytes of constant size to the key, inline; str_addn() appends bytes of other sizes. */
static inline void
put_key_bytes(struct str *k, const void *p, size_t n)
{
    if (k->capacity - k->len <= n) str_reserve(k, n);
    memcpy(k->text + k->len, p, n);
    k->len += n;
}

static void
put_program_type(struct str *k, const struct type *t, const struct layout *l)
{
    int32_t head[2] = {t->dtype | t->ndim << 8 | t->weak << 16, l ? l->id : -1};
    put_key_bytes(k, head, sizeof head);
    str_addn(k, t->dim, sizeof(t->dim[0]) * t->ndim);
}

/* Packs a reference to a value into one number for the key. A struct cannot be part of the key, because its
 * padding bytes are undefined. */
static int32_t
packed_ref(const struct val *v)
{
    struct ref r = ref_of(v);
    return r.index << 8 | r.kind << 4 | r.out;
}

static void
put_node(struct str *k, const struct node *n)
{
    uint32_t head[2] = {(uint32_t)n->nin | (uint32_t)n->nout << 16, (uint32_t)n->phase | (uint32_t)n->per_piece << 8 |
                                                                        (uint32_t)n->accumulate << 16 |
                                                                        (uint32_t)(n->recomputes > 0) << 24};
    put_key_bytes(k, &n->op, sizeof n->op);
    put_key_bytes(k, head, sizeof head);
    for (int i = 0; i < n->nin; i++) {
        int32_t operand[2] = {packed_ref(n->in[i]), n->want[i] ? n->want[i]->id : -1};
        put_key_bytes(k, operand, sizeof operand);
    }
    for (int i = 0, nattr = op_nattr(n->op); i < nattr; i++) {
        const struct attr *a = &n->attr[i];
        int64_t value[2] = {a->i, a->n | (int64_t)a->set << 32};
        put_key_bytes(k, value, sizeof value);
        put_key_bytes(k, &a->f, sizeof a->f);
        str_addn(k, a->list, sizeof(a->list[0]) * (size_t)a->n);
    }
    for (int o = 0; o < n->nout; o++) put_program_type(k, &n->out[o]->type, n->out[o]->layout);
}

/* Returns the leaf that root v (the result of an in-place operator) may overwrite; -1: none. An operator that may
 * reject its data never overwrites, because the old version must survive an error. */
static int32_t
overwritten_leaf(const struct val *v)
{
    const struct node *n = v->node;
    if (!n || !(n->op->flags & OP_INPLACE) || v->out >= n->op->ninplace || n->op->host.allows) return -1;
    const struct val *old = n->in[v->out];
    if (!old || old->is_number || ref_of(old).kind != REF_LEAF) return -1;
    if (old->layout != v->layout || n->want[v->out] != v->layout || !type_equal(&old->type, &v->type)) return -1;
    return old->index;
}

void
collection_key(struct rille_session *s, struct collection *c)
{
    str_clear(&c->key);
    int32_t head[5] = {c->nnode, c->nleaf, c->nnumber, s->devices.threads, s->runs.find_nan};
    put_key_bytes(&c->key, head, sizeof head);
    for (int32_t i = 0; i < c->nleaf; i++) put_program_type(&c->key, &c->leaf[i]->type, c->leaf[i]->layout);
    for (int32_t i = 0; i < c->nnumber; i++) put_key_bytes(&c->key, &c->number[i]->type.dtype, 1);
    for (int32_t i = 0; i < c->nnode; i++) put_node(&c->key, c->node[i]);
    for (int32_t i = 0; i < c->nroot; i++) {
        int32_t root = packed_ref(c->root[i]);
        put_key_bytes(&c->key, &root, sizeof root);
    }
}

/* ---- making the program ---- */

static void
copy_graph_node(struct arena *a, const struct node *n, struct prog_node *p)
{
    struct ref *in = ARENA_ARRAY(a, struct ref, n->nin);
    struct type *type = ARENA_ARRAY(a, struct type, n->nout);
    const struct layout **layout = ARENA_ARRAY(a, const struct layout *, n->nout);
    for (int i = 0; i < n->nin; i++) in[i] = ref_of(n->in[i]);
    for (int k = 0; k < n->nout; k++) {
        type[k] = n->out[k]->type;
        layout[k] = n->out[k]->layout;
    }
    *p = (struct prog_node){.op = n->op,
                            .nin = n->nin,
                            .nout = n->nout,
                            .in = in,
                            .want = arena_dup(a, n->want, sizeof(*n->want) * (size_t)n->nin),
                            .type = type,
                            .layout = layout,
                            .line = n->line,
                            .name = n->name,
                            .phase = n->phase,
                            .piece = n->per_piece || n->accumulate,
                            .accumulate = n->accumulate,
                            .asked = n->asked};
    if (n->attr) p->attr = arena_dup(a, n->attr, sizeof(*n->attr) * (size_t)op_nattr(n->op));
    if (n->strategy) p->strategy = arena_dup(a, n->strategy, sizeof *n->strategy);
    if (p->line.file) p->line.file = arena_strdup(a, p->line.file);
}

/* Returns the value that r moves or recomputes: follows moves and recomputed nodes back to their originals. */
static struct ref
made_first(const struct program *p, struct ref r)
{
    while (r.kind == REF_NODE) {
        const struct prog_node *n = &p->node[r.index];
        if (n->op->flags & OP_MOVE && !n->accumulate)
            r = n->in[0];
        else if (n->recompute && n->recompute != r.index + 1)
            r.index = n->recompute - 1;
        else
            break;
    }
    return r;
}

/* Returns true if nodes i and `of` read the same values, apart from moves and recomputation. A value that one node
 * reads as a leaf from an earlier run, and the other as a result of this program, counts as different. */
static bool
reads_alike(const struct program *p, int32_t i, int32_t of)
{
    const struct prog_node *n = &p->node[i], *o = &p->node[of];
    bool alike = n->nin == o->nin;
    for (int k = 0; alike && k < n->nin; k++) alike = ref_equal(made_first(p, n->in[k]), made_first(p, o->in[k]));
    return alike;
}

/* Sets prog_node.recompute: the node that each node recomputes; the node itself if the original is not in the
 * program or reads other operands. */
static void
link_recomputed(const struct collection *c, struct program *p)
{
    struct arena tmp = {0};
    struct hash_table nodes = {.arena = &tmp};
    bool any = false;
    for (int32_t i = 0; i < c->nnode; i++) any = any || c->node[i]->recomputes;
    for (int32_t i = 0; i < c->nnode && any; i++) hash_add(&nodes, hash_number(0, c->node[i]->serial), hash_index(i));
    for (int32_t i = 0; i < c->nnode; i++) {
        uint64_t serial = c->node[i]->recomputes;
        uint32_t at = 0;
        if (serial == 0) continue;
        p->node[i].recompute = i + 1;
        for (const void *found; (found = hash_next(&nodes, hash_number(0, serial), &at));)
            if (c->node[hash_index_of(found)]->serial == serial && reads_alike(p, i, hash_index_of(found)))
                p->node[i].recompute = hash_index_of(found) + 1;
    }
    arena_fini(&tmp);
}

/* Counts how many nodes of the walk read each value. Index: node * OP_OUT + output, then leaves. */
int32_t *
collection_uses(struct collection *c)
{
    int32_t n = c->nnode * OP_OUT + c->nleaf;
    GROW(c->use, 2 * n, c->use_capacity);
    memset(c->use, 0, sizeof(*c->use) * (size_t)n);
    for (int32_t i = 0; i < c->nnode; i++)
        for (int k = 0; k < c->node[i]->nin; k++) {
            const struct val *v = c->node[i]->in[k];
            if (v && !v->is_number) c->use[collection_slot(c, v)]++;
        }
    memcpy(c->use + n, c->use, sizeof(*c->use) * (size_t)n); /* a copy of the counts that never changes */
    return c->use;
}

/* Returns true if the run drops the result although readers outside the walk need it: the result has more readers
 * than `uses`, the number of readers in the walk. */
static bool
is_value_wanted(const struct collection *c, const struct val *v, int32_t uses)
{
    return !v->store && v->mark != c->root_mark && v->keep > uses;
}

/* Sets keep_next of each result of node i that a node outside this run reads directly. Reads by nodes of this run do
 * not count, even if the node is unfinished. */
static void
keep_next_time(const struct collection *c, int32_t i)
{
    const int32_t *all = c->use + c->nnode * OP_OUT + c->nleaf;
    for (int k = 0; k < c->node[i]->nout; k++) {
        struct val *v = c->node[i]->out[k];
        if (is_value_wanted(c, v, all[i * OP_OUT + k])) v->keep_next = 1;
    }
}

static bool
still_wanted(const struct collection *c, int32_t i)
{
    const struct node *n = c->node[i];
    for (int k = 0; k < n->nout; k++)
        if (is_value_wanted(c, n->out[k], c->use[i * OP_OUT + k])) return true;
    return false;
}

/* Finds unfinished nodes: a later run must compute such a node again, with its operands, because this run drops a
 * result that is still needed. Subtracts from `use` the reads by unfinished nodes and by gradients, so that the
 * values they read are not overwritten. */
void
collection_unfinished(struct collection *c)
{
    GROW(c->unfinished, c->nnode, c->unfinished_capacity);
    for (int32_t i = c->nnode - 1; i >= 0; i--) {
        struct node *n = c->node[i];
        c->unfinished[i] = still_wanted(c, i);
        if (c->unfinished[i]) keep_next_time(c, i);
        bool saves = node_has_gradient(n);
        for (int k = 0; k < n->nin; k++) {
            const struct val *v = n->in[k];
            if (!v || v->is_number) continue;
            if (c->unfinished[i] || (saves && node_saves_in(n, k))) c->use[collection_slot(c, v)]--;
        }
    }
}

int32_t
collection_slot(const struct collection *c, const struct val *v)
{
    struct ref r = ref_of(v);
    return r.kind == REF_NODE ? r.index * OP_OUT + r.out : c->nnode * OP_OUT + r.index;
}

void
collection_free(struct collection *c)
{
    free(c->node);
    free(c->leaf);
    free(c->number);
    free(c->root);
    free(c->stack);
    free(c->use);
    free(c->unfinished);
    str_free(&c->key);
    *c = (struct collection){0};
}

struct program *
collection_program(struct rille_session *s, struct collection *c)
{
    struct program *p = must_alloc(sizeof *p);
    struct arena *a = &p->arena;
    p->pieces = p->cut = 1;
    p->threads = s->devices.threads;
    p->find_nan = finds_nan(s);
    p->map = s->cluster ? cluster_map(s->cluster, cluster_home(s->cluster)) : NULL;
    p->cost = s->devices.cost;
    p->shared_least = s->cluster ? 0 : SHARED_LEAST;
    p->nleaf = c->nleaf;
    p->nnumber = c->nnumber;
    p->nnode = c->nnode;
    p->nroot = c->nroot;
    p->leaf = ARENA_ARRAY(a, struct prog_leaf, c->nleaf + 1);
    p->number = ARENA_ARRAY(a, const struct type *, c->nnumber + 1);
    p->node = ARENA_ARRAY(a, struct prog_node, c->nnode + 1);
    p->root = ARENA_ARRAY(a, struct prog_root, c->nroot + 1);
    for (int32_t i = 0; i < c->nleaf; i++)
        p->leaf[i] = (struct prog_leaf){.type = c->leaf[i]->type, .layout = c->leaf[i]->layout};
    for (int32_t i = 0; i < c->nnumber; i++) p->number[i] = arena_dup(a, &c->number[i]->type, sizeof(struct type));
    for (int32_t i = 0; i < c->nnode; i++) copy_graph_node(a, c->node[i], &p->node[i]);
    link_recomputed(c, p);
    for (int32_t i = 0; i < c->nroot; i++)
        p->root[i] = (struct prog_root){.ref = ref_of(c->root[i]), .overwrites_leaf = overwritten_leaf(c->root[i])};
    program_widen(p);
    return p;
}
