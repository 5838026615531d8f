/* early_updates.c - moves each update of a program to its earliest position.
 *
 * An update overwrites its variable, so all readers of the old values come first. So do all nodes that check data,
 * because invalid data must leave every variable as it was. A gradient is read right after it was computed, when it is
 * still in cache, and its memory is free for the next gradient. GPT-2 124M, 4 x 64, on two threads of a Xeon: 16 ms
 * less of 747, and 0.14 GB less of 2.06. */
#include "actors/session/run/early_updates.h"
#include "actors/session/core/session.h"

#include "runtime/data/arena.h"

#include <stdlib.h>
#include <string.h>

struct early_updates {
    struct collection *c;
    struct node **order; /* the nodes that have a position, in their new order */
    int32_t n;           /* length of order[] */
    int32_t nchecking;   /* number of nodes that check data and have no position yet */
    int32_t *nread;      /* by leaf: number of operands of nodes without a position that are this leaf */
    int32_t *waiting;    /* by leaf: old index of an update that waits for readers of this leaf; -1: none */
};

/* Returns the leaf that operand k is; -1: it is a number, absent, or a result of the program. */
static int32_t
operand_leaf(const struct node *n, int k)
{
    const struct val *v = n->in[k];
    return v && !v->is_number ? v->index : -1;
}

/* Returns a leaf that the update replaces and that other nodes without a position read; -1: none. */
static int32_t
leaf_read_later(const struct early_updates *u, const struct node *update)
{
    for (int k = 0; k < update->op->ninplace; k++) {
        int32_t leaf = operand_leaf(update, k), own = 0;
        for (int i = 0; i < update->nin; i++) own += operand_leaf(update, i) == leaf;
        if (leaf >= 0 && u->nread[leaf] > own) return leaf;
    }
    return -1;
}

/* Returns true if the node reads a result of a node that has no position. */
static bool
reads_unplaced(const struct node *n)
{
    for (int k = 0; k < n->nin; k++) {
        const struct val *v = n->in[k];
        if (v && !v->is_number && v->index < 0 && v->node->index < 0) return true;
    }
    return false;
}

static bool
is_update_ready(const struct early_updates *u, const struct node *n)
{
    return u->nchecking == 0 && leaf_read_later(u, n) < 0;
}

static void append_with_waiting(struct early_updates *u, struct node *n);

/* Appends the update that waits for readers of the leaf to order[], if the update is ready. */
static void
append_waiting(struct early_updates *u, int32_t leaf)
{
    struct node *update = u->waiting[leaf] < 0 ? NULL : u->c->node[u->waiting[leaf]];
    if (!update || !is_update_ready(u, update)) return;
    u->waiting[leaf] = -1;
    append_with_waiting(u, update);
}

/* Appends the node to order[], and each waiting update that is then ready. */
static void
append_with_waiting(struct early_updates *u, struct node *n)
{
    n->index = u->n;
    u->order[u->n++] = n;
    bool last_check = n->op->host.say && --u->nchecking == 0;
    for (int k = 0; k < n->nin; k++) {
        int32_t leaf = operand_leaf(n, k);
        if (leaf < 0) continue;
        u->nread[leaf]--;
        append_waiting(u, leaf);
    }
    for (int32_t i = 0; last_check && i < u->c->nleaf; i++) append_waiting(u, i);
}

/* Appends update i, whose operands have positions, to order[], or makes the update wait for readers of a leaf. */
static void
append_update(struct early_updates *u, int32_t i)
{
    struct node *n = u->c->node[i];
    int32_t leaf = leaf_read_later(u, n);
    if (is_update_ready(u, n)) {
        append_with_waiting(u, n);
        return;
    }
    for (int k = 0; k < n->op->ninplace && leaf < 0; k++) leaf = operand_leaf(n, k);
    if (leaf >= 0 && u->waiting[leaf] < 0) u->waiting[leaf] = i;
}

static void
count_leaf_reads(struct early_updates *u)
{
    for (int32_t i = 0; i < u->c->nnode; i++) {
        struct node *n = u->c->node[i];
        n->index = -1;
        u->nchecking += n->op->host.say != NULL;
        for (int k = 0; k < n->nin; k++)
            if (operand_leaf(n, k) >= 0) u->nread[operand_leaf(n, k)]++;
    }
}

static bool
has_update(const struct collection *c)
{
    for (int32_t i = 0; i < c->nnode; i++)
        if (c->node[i]->op->flags & OP_UPDATE) return true;
    return false;
}

void
updates_early(struct collection *c, bool last)
{
    if (!has_update(c)) return;
    struct early_updates u = {.c = c, .nchecking = last}; /* last: the count never becomes 0 */
    u.order = must_alloc(sizeof *u.order * (size_t)c->nnode);
    u.nread = must_alloc(sizeof *u.nread * (size_t)(2 * c->nleaf + 1));
    u.waiting = u.nread + c->nleaf;
    for (int32_t i = 0; i < c->nleaf; i++) u.waiting[i] = -1;
    count_leaf_reads(&u);
    for (int32_t i = 0; i < c->nnode; i++) {
        if (reads_unplaced(c->node[i])) continue;
        if (c->node[i]->op->flags & OP_UPDATE)
            append_update(&u, i);
        else
            append_with_waiting(&u, c->node[i]);
    }
    /* The other nodes keep their order: updates that wait for each other, and nodes that depend on such updates. */
    for (int32_t i = 0; i < c->nleaf; i++) u.waiting[i] = -1;
    for (int32_t i = 0; i < c->nnode; i++)
        if (c->node[i]->index < 0) append_with_waiting(&u, c->node[i]);
    memcpy(c->node, u.order, sizeof *u.order * (size_t)c->nnode);
    free(u.order);
    free(u.nread);
}
