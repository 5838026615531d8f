/* graph.c - the stored program and its reference counts.
 *
 * Dropping one value may free a long chain. So nothing here recurses: a node whose last output died is added to a
 * work list, and drain() releases nodes until the list is empty. */
#include "runtime/graph/graph.h"

#include "runtime/data/arena.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

struct file {
    struct file *next;
    char name[];
};

/* Nodes of up to SPARE_STEP * NSPARE bytes are kept for reuse after they die, by size class; a class spans
 * SPARE_STEP bytes. Larger nodes are freed. */
enum { SPARE_STEP = 64, NSPARE = 32 };

struct graph {
    struct node **work; /* nodes all of whose results were dropped; drain() releases these nodes */
    int nwork, capacity;
    bool draining;
    uint64_t mark, serial;
    /* ends of the list of computed nodes that still remember their operands, for explain */
    struct node *oldest, *newest;
    struct graph_count count;
    struct file *file;
    void *spare_val; /* freed values for reuse, linked through their first word */
    void *spare_node[NSPARE];
    void (*orphan)(struct rille_tensor *owner);
    void (*release)(struct rille_live *live);
    void (*release_own)(struct graph *g, struct own_gradient *own);
};

struct graph *
graph_new(void)
{
    return must_alloc(sizeof(struct graph));
}

/* ---- keeping freed records for reuse, in lists linked through their first word: the last freed is reused first,
 * because it is in cache ---- */

static void *
spare_take(void **list, size_t bytes)
{
    void *p = *list;
    if (!p) return must_alloc(bytes);
    *list = *(void **)p;
    return memset(p, 0, bytes);
}

static void
spare_put(void **list, void *p)
{
    *(void **)p = *list;
    *list = p;
}

static void
spare_free(void **list)
{
    while (*list) {
        void *p = *list;
        *list = *(void **)p;
        free(p);
    }
}

void
graph_free(struct graph **gp)
{
    struct graph *g = *gp;
    if (!g) return;
    while (g->file) {
        struct file *f = g->file;
        g->file = f->next;
        free(f);
    }
    spare_free(&g->spare_val);
    for (int i = 0; i < NSPARE; i++) spare_free(&g->spare_node[i]);
    free(g->work);
    free(g);
    *gp = NULL;
}

void
graph_on_orphan(struct graph *g, void (*orphan)(struct rille_tensor *owner))
{
    g->orphan = orphan;
}

void
graph_on_live(struct graph *g, void (*release)(struct rille_live *live))
{
    g->release = release;
}

void
graph_on_own_gradient(struct graph *g, void (*release)(struct graph *g, struct own_gradient *own))
{
    g->release_own = release;
}

uint64_t
graph_mark(struct graph *g)
{
    return ++g->mark;
}

uint64_t
graph_last_mark(const struct graph *g)
{
    return g->mark;
}

const char *
graph_file(struct graph *g, const char *name)
{
    for (struct file *f = g->file; f; f = f->next)
        if (!strcmp(f->name, name)) return f->name;
    size_t size = strlen(name) + 1;
    struct file *f = must_alloc(sizeof *f + size);
    memcpy(f->name, name, size);
    f->next = g->file;
    g->file = f;
    return f->name;
}

void
line_blame(const struct line *at, int status)
{
    bool named = at->inside && (status == E_KERNEL || status == E_VALUE);
    if (named) fail((enum err_code)status, "%s (in %s)", err_text(), at->inside);
    if (at->file) err_note("%s:%d", at->file, (int)at->line);
    err_in_module(at->module);
}

struct graph_count
graph_count(const struct graph *g)
{
    return g->count;
}

/* ---- counting the references to stores ---- */

struct store *
store_new(int n)
{
    struct store *s = must_alloc(sizeof *s + sizeof(s->part[0]) * (size_t)n);
    s->nref = 1;
    s->n = n;
    return s;
}

void
store_hold(struct store *s)
{
    s->nref++;
}

void
store_drop(struct store **sp)
{
    struct store *s = *sp;
    *sp = NULL;
    if (!s || --s->nref > 0) return;
    for (int i = 0; i < s->n; i++)
        if (s->part[i]) buffer_drop(&s->part[i]);
    free(s);
}

/* ---- counting the references to values ---- */

static struct val *
val_new(struct graph *g)
{
    struct val *v = spare_take(&g->spare_val, sizeof *v);
    v->input = NO_INPUT;
    g->count.vals++;
    return v;
}

static void
val_free(struct graph *g, struct val *v)
{
    assert(v->hold == 0 && v->remembered == 0);
    store_drop(&v->store);
    if (v->owner && g->orphan) g->orphan(v->owner);
    if (v->is_number && v->number.live && g->release) g->release(v->number.live);
    spare_put(&g->spare_val, v);
    g->count.vals--;
}

static void drain(struct graph *g);

static void
unkeep(struct val *v)
{
    assert(v->keep > 0);
    if (--v->keep == 0) store_drop(&v->store);
}

/* Puts a node on the work list. drain() releases the node later, if possible. */
static void
enqueue(struct graph *g, struct node *n)
{
    if (n->queued) return;
    GROW(g->work, g->nwork + 1, g->capacity);
    n->queued = 1;
    g->work[g->nwork++] = n;
}

/* Decrements `hold`. Frees a value without a node (a leaf) if `hold` and `remembered` are 0. A result is freed
 * together with its node. */
static void
unhold(struct graph *g, struct val *v)
{
    assert(v->hold > 0);
    if (--v->hold > 0) return;
    struct node *n = v->node;
    if (!n) {
        if (v->remembered == 0) val_free(g, v);
        return;
    }
    if (--n->nlive == 0) enqueue(g, n);
}

static void
val_hold_node(struct val *v)
{
    if (v->hold++ == 0 && v->node) v->node->nlive++;
}

void
val_hold(struct val *v)
{
    val_hold_node(v);
    v->keep++;
}

void
val_drop(struct graph *g, struct val **vp)
{
    struct val *v = *vp;
    *vp = NULL;
    if (!v) return;
    unkeep(v);
    unhold(g, v);
    drain(g);
}

void
val_keep(struct val *v)
{
    v->keep++;
}

void
val_unkeep(struct graph *g, struct val *v)
{
    UNUSED(g);
    unkeep(v);
}

struct val *
graph_leaf(struct graph *g, const struct type *t, const struct layout *l, struct store *store)
{
    struct val *v = val_new(g);
    v->type = *t;
    v->layout = l;
    v->store = store;
    return v;
}

struct val *
graph_number(struct graph *g, struct number n)
{
    struct val *v = val_new(g);
    v->is_number = 1;
    v->number = n;
    v->type.dtype = n.is_int ? DT_I64 : DT_F64;
    v->type.weak = 1;
    return v;
}

/* ---- adding and releasing nodes ---- */

/* Returns the size of the memory block for a node, its attributes, operands and requested layouts. */
static size_t
node_bytes(int nin, int nattr)
{
    size_t bytes = sizeof(struct node) + (size_t)nin * (sizeof(struct val *) + sizeof(struct layout *)) +
                   (size_t)nattr * sizeof(struct attr);
    return (bytes + SPARE_STEP - 1) / SPARE_STEP * SPARE_STEP;
}

static struct node *
node_new(struct graph *g, int nin, int nattr)
{
    size_t bytes = node_bytes(nin, nattr), class = bytes / SPARE_STEP;
    return class < NSPARE ? spare_take(&g->spare_node[class], bytes) : must_alloc(bytes);
}

static void
node_free(struct graph *g, struct node *n)
{
    free(n->strategy);
    n->strategy = NULL;
    size_t class = node_bytes(n->nin, op_nattr(n->op)) / SPARE_STEP;
    if (class < NSPARE)
        spare_put(&g->spare_node[class], n);
    else
        free(n);
}

struct node *
graph_add(struct graph *g, const struct op *op, int nin, struct val *const *in, const struct layout *const *want,
          const struct attr *attr, int nout, const struct type *out_type, const struct layout *const *out_layout,
          struct line line)
{
    assert(nout >= 1 && nout <= OP_OUT);
    int nattr = op_nattr(op);
    struct node *n = node_new(g, nin, nattr);
    n->op = op;
    n->nin = (uint16_t)nin;
    n->nout = (uint8_t)nout;
    n->attr = nattr ? (struct attr *)(n + 1) : NULL;
    n->in = (struct val **)(void *)((char *)(n + 1) + (size_t)nattr * sizeof(*attr));
    n->want = (const struct layout **)(void *)(n->in + nin);
    if (nattr) memcpy(n->attr, attr, sizeof(*attr) * (size_t)nattr);
    for (int i = 0; i < nin; i++) {
        n->in[i] = in[i];
        n->want[i] = want ? want[i] : NULL;
        if (in[i]) val_hold(in[i]);
    }
    for (int k = 0; k < nout; k++) {
        struct val *v = val_new(g);
        v->node = n;
        v->out = (uint8_t)k;
        v->type = out_type[k];
        v->layout = out_layout[k];
        n->out[k] = v;
    }
    n->line = line;
    n->serial = ++g->serial;
    g->count.nodes++;
    return n;
}

bool
node_saves_in(const struct node *n, int i)
{
    /* recomputing a node of a recomputation region reads every operand */
    if (n->region) return true;
    const char *s = n->op->grad.saves;
    return s && (*s == '*' || strchr(s, '0' + i));
}

bool
node_saves_out(const struct node *n, int k)
{
    const char *s = n->op->grad.saves;
    return s && (*s == '*' || strchr(s, 'a' + k));
}

static void
remembered_unlink(struct graph *g, struct node *n)
{
    if (n->older)
        n->older->newer = n->newer;
    else
        g->oldest = n->newer;
    if (n->newer)
        n->newer->older = n->older;
    else
        g->newest = n->older;
    n->older = n->newer = NULL;
    g->count.remembered--;
}

static void
remembered_link(struct graph *g, struct node *n)
{
    n->older = g->newest;
    if (g->newest)
        g->newest->newer = n;
    else
        g->oldest = n;
    g->newest = n;
    g->count.remembered++;
}

static void
unremember(struct graph *g, struct val *v)
{
    assert(v->remembered > 0);
    if (--v->remembered > 0 || v->hold > 0) return;
    if (v->node)
        enqueue(g, v->node);
    else
        val_free(g, v);
}

/* Releases the node's own_gradient, the user's gradient function and hooks. Nodes that lose their last handle
 * meanwhile stay on the work list. */
static void
release_own(struct graph *g, struct node *n)
{
    struct own_gradient *own = n->own;
    if (!own) return;
    bool was = g->draining;
    n->own = NULL;
    g->draining = true;
    g->release_own(g, own);
    g->draining = was;
}

/* Moves n to a later holding state (enum node_holding), in which n needs fewer operands. Drops the references to
 * the operands that n no longer needs. */
static void
hold_less(struct graph *g, struct node *n, enum node_holding next)
{
    enum node_holding was = n->holding;
    if (was == next) return;
    assert(next > was);
    n->holding = (uint8_t)next;
    if (was == HOLD_REMEMBERED) remembered_unlink(g, n);
    if (next == HOLD_REMEMBERED) remembered_link(g, n);
    if (was == HOLD_SAVED)
        for (int k = 0; k < n->nout; k++)
            if (node_saves_out(n, k)) unkeep(n->out[k]);
    if (next == HOLD_SAVED)
        for (int k = 0; k < n->nout; k++)
            if (node_saves_out(n, k)) n->out[k]->keep++;
    for (int i = 0; i < n->nin; i++) {
        struct val *v = n->in[i];
        if (!v) continue;
        bool kept = was == HOLD_ALL || (was == HOLD_SAVED && node_saves_in(n, i));
        bool keeps = next == HOLD_SAVED && node_saves_in(n, i);
        if (next == HOLD_REMEMBERED) v->remembered++;
        if (kept && !keeps) unkeep(v);
        if (was <= HOLD_SAVED && next > HOLD_SAVED) unhold(g, v);
        if (was == HOLD_REMEMBERED) {
            n->in[i] = NULL;
            unremember(g, v);
        } else if (next == HOLD_NONE) {
            n->in[i] = NULL;
        }
    }
    if (next == HOLD_NONE) n->state = NODE_FORGOTTEN;
    if (next > HOLD_SAVED) release_own(g, n);
}

static bool
any_remembered(const struct node *n)
{
    for (int k = 0; k < n->nout; k++)
        if (n->out[k]->remembered > 0) return true;
    return false;
}

/* Frees a node none of whose results is held or remembered. */
static void
node_drop(struct graph *g, struct node *n)
{
    hold_less(g, n, HOLD_NONE);
    for (int k = 0; k < n->nout; k++) {
        n->out[k]->node = NULL;
        val_free(g, n->out[k]);
    }
    g->count.nodes--;
    node_free(g, n);
}

static void
drain(struct graph *g)
{
    if (g->draining) return;
    g->draining = true;
    while (g->nwork > 0 || g->count.remembered > NREMEMBERED) {
        if (g->nwork == 0) {
            hold_less(g, g->oldest, HOLD_NONE);
            continue;
        }
        struct node *n = g->work[--g->nwork];
        n->queued = 0;
        if (n->nlive > 0) continue;
        if (!any_remembered(n))
            node_drop(g, n);
        else if (n->holding < HOLD_REMEMBERED)
            hold_less(g, n, HOLD_REMEMBERED);
    }
    g->draining = false;
}

bool
node_has_gradient(const struct node *n)
{
    for (int k = 0; !n->spent && k < n->nout; k++)
        if (n->out[k]->needs_grad && !val_is_variable(n->out[k])) return true;
    return false;
}

void
node_done(struct graph *g, struct node *n)
{
    n->state = NODE_DONE;
    if (n->holding == HOLD_ALL) hold_less(g, n, n->nlive > 0 && node_has_gradient(n) ? HOLD_SAVED : HOLD_REMEMBERED);
    for (int k = 0; k < n->nout; k++)
        if (n->out[k]->keep == 0) store_drop(&n->out[k]->store);
    drain(g);
}

void
node_spend(struct graph *g, struct node *n)
{
    n->spent = 1;
    release_own(g, n);
    if (n->state == NODE_DONE && n->holding == HOLD_SAVED) hold_less(g, n, HOLD_REMEMBERED);
    drain(g);
}

bool
node_revive(struct graph *g, struct node *n)
{
    if (n->state == NODE_NEW) return true;
    if (n->state == NODE_FORGOTTEN) return false;
    if (n->holding == HOLD_SAVED) {
        for (int k = 0; k < n->nout; k++)
            if (node_saves_out(n, k)) unkeep(n->out[k]);
        for (int i = 0; i < n->nin; i++)
            if (n->in[i] && !node_saves_in(n, i)) n->in[i]->keep++;
    } else {
        remembered_unlink(g, n);
        for (int i = 0; i < n->nin; i++) {
            if (!n->in[i]) continue;
            n->in[i]->remembered--;
            val_hold(n->in[i]);
        }
    }
    n->holding = HOLD_ALL;
    n->state = NODE_NEW;
    return true;
}
