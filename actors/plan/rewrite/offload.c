/* offload.c - offloads values and fetches them back; gathers variables again for backward.
 *
 * Up to `depth` fetches are in flight at a time. For this purpose, a fetch is inserted ahead of its use, before the
 * first reader of the value that was fetched `depth` fetches earlier. A store is inserted after the next few
 * offloaded values have been made. So transfers overlap with computing, even if tasks wait for one another because
 * their registers share bytes. */
#include "actors/plan/rewrite/offload.h"

#include "actors/plan/rewrite/rewrite.h"
#include "actors/plan/outline/stage.h"
#include "kernels/op/base/table.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/tensor/atlas.h"

#include <stdlib.h>
#include <string.h>

/* An offloaded value: its node, the indices in `list` of its store and its fetch, and its first reader in
 * backward. */
struct absent {
    int32_t node, store, fetch, reader;
};

struct bringer {
    struct program *p;
    struct atlas *at;
    const struct place *storage;
    bool *data; /* by node: true if its result depends on arguments or random values, not on variables alone */
    struct insertion *list;
    int32_t n, capacity;
    struct absent *absent;
    int32_t nabsent, absent_capacity;
    /* replacement of each result in backward, [node * OP_OUT + out]: index of the node that fetches or gathers it
     * again; -1: none so far */
    int32_t *again;
    /* depth: largest number of fetches in flight; nahead: number of fetches so far; ahead: first readers of the
     * last `depth` fetched values (ring buffer) */
    int32_t depth, nahead, *ahead;
};

/* Marks the nodes that depend on arguments or on random values. */
static void
find_data(struct bringer *b, const bool *variable)
{
    struct program *p = b->p;
    b->data = must_alloc(sizeof *b->data * (size_t)(p->nnode + 1));
    for (int32_t i = 0; i < p->nnode; i++) {
        b->data[i] = p->node[i].op->flags & (OP_RANDOM | OP_SOURCE);
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind == REF_LEAF) b->data[i] = b->data[i] || !variable[r.index];
            if (r.kind == REF_NODE) b->data[i] = b->data[i] || b->data[r.index];
        }
    }
}

static void
bringer_init(struct bringer *b, struct program *p, const bool *variable, int32_t depth)
{
    *b = (struct bringer){.p = p, .depth = MAX(1, depth)};
    b->ahead = must_alloc(sizeof *b->ahead * (size_t)b->depth);
    find_data(b, variable);
    b->again = must_alloc(sizeof *b->again * (size_t)(p->nnode * OP_OUT + 1));
    for (int32_t i = 0; i < p->nnode * OP_OUT; i++) b->again[i] = -1;
}

static void
bringer_end(struct bringer *b)
{
    rewrite_insert(b->p, b->list, b->n);
    free(b->list);
    free(b->absent);
    free(b->ahead);
    free(b->data);
    free(b->again);
}

/* ---- nodes ---- */

static struct ref
add_insertion(struct bringer *b, const struct prog_node *n, int32_t before)
{
    GROW(b->list, b->n + 1, b->capacity);
    b->list[b->n] = (struct insertion){*n, before};
    return (struct ref){.kind = REF_NODE, .index = b->p->nnode + b->n++};
}

/* Returns the node before which a fetch for reader i is inserted: the first reader of the value that was fetched
 * `depth` fetches earlier; with fewer fetches so far, the first reader of the first fetched value. The fetch must
 * come after node `source`, which makes the value. */
static struct prog_node
make_move_node(struct bringer *b, int32_t i, struct ref r, const struct type *t, const struct layout *to)
{
    struct arena *a = &b->p->arena;
    struct prog_node n = b->p->node[i];
    n.op = op_find("to_global");
    n.name = n.op->name;
    n.attr = NULL;
    n.strategy = NULL;
    n.nin = n.nout = 1;
    n.in = arena_dup(a, &r, sizeof r);
    n.want = n.layout = arena_dup(a, &to, sizeof to);
    n.type = arena_dup(a, t, sizeof *t);
    n.accumulate = n.append = false;
    n.recompute = 0;
    n.asked = true;
    n.again = i + 1;
    return n;
}

/* Returns the node before which to insert a fetch for reader i: the first reader of the value that was fetched
 * `depth` fetches earlier. With fewer fetches so far, that is the first reader of the first fetched value. The
 * fetch must come after node `source`, which makes the value. */
static int32_t
position_ahead(struct bringer *b, int32_t i, int32_t source)
{
    int32_t n = b->nahead++, slot = n % b->depth, of = n < b->depth ? 0 : slot;
    int32_t at = n == 0 ? i : MIN(i, MAX(b->ahead[of], source + 1));
    b->ahead[slot] = i;
    return at;
}

/* Returns the value that backward reads in place of r. If r is a view of an offloaded value, inserts the same view
 * of the replacement, before node i. */
static struct ref
offload_standing_for(struct bringer *b, struct ref r, int32_t i)
{
    int32_t *again = &b->again[r.index * OP_OUT + r.out];
    if (*again < 0) { /* r is a view of a value that has been replaced */
        struct ref whole = offload_standing_for(b, b->p->node[r.index].in[0], i);
        struct prog_node n = b->p->node[r.index];
        n.in = arena_dup(&b->p->arena, &whole, sizeof whole);
        n.phase = PHASE_BACKWARD;
        n.again = r.index + 1;
        *again = add_insertion(b, &n, i).index;
    }
    return (struct ref){.kind = REF_NODE, .index = *again};
}

/* Returns the value of which r is a view; REF_NONE if r is already a replacement. */
static struct ref
offload_source(const struct bringer *b, struct ref r)
{
    const struct program *p = b->p;
    while (r.kind == REF_NODE && r.index < p->nnode && p->node[r.index].op->flags & OP_VIEW) r = p->node[r.index].in[0];
    return r.kind == REF_NODE && r.index < p->nnode ? r : (struct ref){0};
}

static bool
is_backward(const struct program *p, int32_t i)
{
    return p->node[i].phase == PHASE_BACKWARD && (p->pieces == 1 || p->node[i].piece);
}

/* ---- offloaded activations ---- */

static bool
is_offloaded(const struct bringer *b, struct ref r)
{
    const struct program *p = b->p;
    if (r.kind != REF_NODE) return false;
    const struct prog_node *n = &p->node[r.index];
    return b->data[r.index] && n->phase == PHASE_FORWARD && !n->accumulate && (p->pieces == 1 || n->piece) &&
           n->type[r.out].ndim > 0 && type_numel(&n->type[r.out]) > 0 && !layout_has_partial(n->layout[r.out]);
}

/* Sets *out to the value's layout on the offload placement. The layout uses consecutive devices, the first of which
 * has the number of the value's first rank, so that different stages use different devices. */
static int
storage_layout(struct bringer *b, const struct layout *l, const struct layout **out)
{
    const struct place *own = l->place, *storage = b->storage, *place;
    int32_t *rank = ARENA_ARRAY(&b->p->arena, int32_t, own->nrank);
    struct str text = {0};
    int status = 0;
    for (int32_t i = 0; i < own->nrank; i++) rank[i] = storage->rank[(own->rank[0] + i) % storage->nrank];
    bool few = own->nrank > storage->nrank, empty = storage->kind == DEV_META && own->kind != DEV_META;
    if (!few) status = place_new(b->at, storage->kind, own->naxis, own->axis, rank, &place);
    if (!status && (few || empty || stages_meet(place, own))) {
        place_print(own, &text);
        str_add(&text, few     ? " need as many devices to offload to, found only "
                       : empty ? " need devices with memory to offload to, found "
                               : " need other devices to offload to, found their own, ");
        place_print(storage, &text);
        status = fail(E_ARG, "graph: offload: values on %s", str_text(&text));
        str_free(&text);
    }
    return status ? status : layout_new(b->at, place, l->sbp, l->order, out);
}

/* Offloads the forward value r, whose first reader in backward is node i. Inserts a store after the node that
 * makes r, and a fetch for node i. */
static int
offload_activation(struct bringer *b, struct ref r, int32_t i)
{
    const struct prog_node *n = &b->p->node[r.index];
    const struct layout *storage, *own = n->layout[r.out];
    TRY(storage_layout(b, own, &storage));
    struct prog_node store = make_move_node(b, r.index, r, &n->type[r.out], storage);
    struct ref there = add_insertion(b, &store, r.index + 1);
    struct prog_node fetch = make_move_node(b, r.index, there, &n->type[r.out], own);
    fetch.phase = PHASE_BACKWARD;
    struct ref back = add_insertion(b, &fetch, position_ahead(b, i, r.index));
    GROW(b->absent, b->nabsent + 1, b->absent_capacity);
    b->absent[b->nabsent++] = (struct absent){r.index, there.index - b->p->nnode, back.index - b->p->nnode, i};
    b->again[r.index * OP_OUT + r.out] = back.index;
    return 0;
}

static int
by_node(const void *x, const void *y)
{
    const struct absent *a = x, *b = y;
    return a->node != b->node ? (a->node > b->node) - (a->node < b->node)
                              : (a->store > b->store) - (a->store < b->store);
}

/* The store of an offloaded value is inserted after this number of further offloaded values have been made. The
 * number is more than 1, because a layer that is one task makes two values at once. */
enum { UNDER_WAY = 3 };

static void
let_stores_overlap(struct bringer *b)
{
    struct absent *a = b->absent;
    if (b->nabsent) qsort(a, (size_t)b->nabsent, sizeof *a, by_node);
    for (int32_t k = 0; k + UNDER_WAY < b->nabsent; k++) {
        int32_t *store = &b->list[a[k].store].before, *fetch = &b->list[a[k].fetch].before;
        *store = MIN(a[k + UNDER_WAY].node + 1, a[k].reader);
        *fetch = MAX(*store, *fetch);
    }
}

static int
offload_activations(struct bringer *b)
{
    struct program *p = b->p;
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin && is_backward(p, i); k++) {
            struct ref whole = offload_source(b, p->node[i].in[k]);
            if (!is_offloaded(b, whole)) continue;
            if (b->again[whole.index * OP_OUT + whole.out] < 0) TRY(offload_activation(b, whole, i));
            rewrite_operand(p, i, k, offload_standing_for(b, p->node[i].in[k], i));
        }
    let_stores_overlap(b);
    return 0;
}

/* ---- offloaded state ---- */

/* Offloads state k (a moment, for instance) of the optimiser's update i. The update is computed in the parameter's
 * layout: a fetch converts the state to that layout, and a store moves the new version back. */
static int
offload_state(struct bringer *b, int32_t i, int32_t k, int32_t leaf)
{
    struct program *p = b->p;
    const struct layout *own = p->node[i].want[k];
    TRY(storage_layout(b, own, &p->leaf[leaf].layout));
    struct prog_node fetch =
        make_move_node(b, i, (struct ref){.kind = REF_LEAF, .index = leaf}, &p->leaf[leaf].type, own);
    /* 1 + the index of the fetch itself, because no other node determines its stage */
    fetch.again = p->nnode + b->n + 1;
    rewrite_operand(p, i, k, add_insertion(b, &fetch, position_ahead(b, i, -1)));
    return 0;
}

static void
offload_version(struct bringer *b, struct prog_root *root, int32_t leaf)
{
    struct program *p = b->p;
    struct ref r = program_source(p, root->ref);
    struct prog_node store = make_move_node(b, r.index, r, &p->leaf[leaf].type, p->leaf[leaf].layout);
    root->ref = add_insertion(b, &store, r.index + 1);
    root->overwrites_leaf = -1;
}

static int
offload_states(struct bringer *b, const int32_t *root_leaf)
{
    struct program *p = b->p;
    bool *storage = ARENA_ARRAY(&p->arena, bool, p->nleaf + 1);
    b->nahead = 0;
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 1; k < p->node[i].nin && p->node[i].op->flags & OP_UPDATE; k++) {
            int32_t leaf = rewrite_updated(p, p->node[i].in[k], root_leaf);
            if (leaf < 0 || p->leaf[leaf].type.ndim == 0 || storage[leaf]) continue;
            TRY(offload_state(b, i, k, leaf));
            storage[leaf] = true;
        }
    for (int32_t k = 0; k < p->nroot; k++)
        if (root_leaf[k] >= 0 && storage[root_leaf[k]]) offload_version(b, &p->root[k], root_leaf[k]);
    return 0;
}

int
offload_values(struct program *p, struct atlas *at, const struct place *storage, const bool *variable,
               const int32_t *root_leaf, int32_t depth)
{
    struct bringer b;
    bringer_init(&b, p, variable, depth);
    b.at = at;
    b.storage = storage;
    int status = offload_activations(&b);
    if (!status) status = offload_states(&b, root_leaf);
    bringer_end(&b);
    return status;
}

/* ---- gathering variables again for backward ---- */

/* Returns true if node i is a gather that the user wrote in forward. A gather is a move of a value that depends
 * on variables alone, and makes a split axis replicated. */
static bool
is_gather(const struct bringer *b, int32_t i)
{
    const struct prog_node *n = &b->p->node[i];
    if (!(n->op->flags & OP_MOVE) || n->phase != PHASE_FORWARD || n->accumulate || b->data[i] || !n->asked)
        return false;
    const struct layout *from = ref_layout(b->p, n->in[0]), *to = n->layout[0];
    bool any = false;
    for (int a = 0; a < to->place->naxis && from->place == to->place; a++)
        any = any || (from->sbp[a].kind == SBP_S && to->sbp[a].kind == SBP_B);
    return any;
}

/* Flags of a value. READ_FORWARD: a forward node reads the value or a view of it. READ_ONCE: a root reads the
 * value, or a node that runs once in a program with micro-batches. */
enum { READ_FORWARD = 1, READ_ONCE = 2 };

static uint8_t *
count_program_readers(const struct program *p, struct arena *a)
{
    uint8_t *read = ARENA_ARRAY(a, uint8_t, p->nnode + 1);
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin && !(p->node[i].op->flags & OP_VIEW); k++) {
            struct ref whole = program_whole(p, p->node[i].in[k]);
            if (whole.kind != REF_NODE) continue;
            if (p->node[i].phase == PHASE_FORWARD) read[whole.index] |= READ_FORWARD;
            if (p->pieces > 1 && !p->node[i].piece) read[whole.index] |= READ_ONCE;
        }
    for (int32_t k = 0; k < p->nroot; k++) {
        struct ref whole = program_whole(p, p->root[k].ref);
        if (whole.kind == REF_NODE) read[whole.index] |= READ_ONCE;
    }
    return read;
}

/* Sets `again` on gathers whose results only forward reads. Such gathers, and views of their results, run once
 * per micro-batch. */
static void
mark_gathers(struct bringer *b)
{
    struct program *p = b->p;
    struct arena tmp = {0};
    uint8_t *read = count_program_readers(p, &tmp);
    for (int32_t i = 0; i < p->nnode; i++) {
        if (is_gather(b, i) && read[i] == READ_FORWARD) p->node[i].again = i + 1;
        struct ref whole = program_whole(p, (struct ref){.kind = REF_NODE, .index = i});
        if (whole.kind == REF_NODE && p->node[whole.index].again && p->pieces > 1) p->node[i].piece = true;
    }
    arena_fini(&tmp);
}

static void
insert_gather(struct bringer *b, struct ref r, int32_t i)
{
    const struct prog_node *n = &b->p->node[r.index];
    struct prog_node fetch = make_move_node(b, r.index, n->in[0], &n->type[0], n->layout[0]);
    fetch.phase = PHASE_BACKWARD;
    b->again[r.index * OP_OUT] = add_insertion(b, &fetch, position_ahead(b, i, r.index)).index;
}

void
offload_gather_again(struct program *p, const bool *again, int32_t depth)
{
    struct bringer b;
    bringer_init(&b, p, again, depth);
    mark_gathers(&b);
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin && is_backward(p, i); k++) {
            struct ref whole = offload_source(&b, p->node[i].in[k]);
            if (whole.kind != REF_NODE || !p->node[whole.index].again) continue;
            if (b.again[whole.index * OP_OUT] < 0) insert_gather(&b, whole, i);
            rewrite_operand(p, i, k, offload_standing_for(&b, p->node[i].in[k], i));
        }
    bringer_end(&b);
}
