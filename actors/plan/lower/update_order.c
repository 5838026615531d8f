/* update_order.c - orders updates after all reads of the old version, and after all checks of data.
 *
 * If input data is invalid, all variables must keep their values; a step that updates only some of the variables
 * would corrupt the model. So one gate follows all tasks that check data, and every update follows the gate. With
 * a gate the number of edges is linear in the number of tasks; edges from every check to every update would be
 * quadratic. If checks follow an update (a second step in one program), they have a second gate after the first
 * one. The gates of several hosts are joined (gates.h). */
#include "actors/plan/lower/update_order.h"
#include "actors/plan/outline/gates.h"
#include "actors/plan/lower/order.h"
#include "actors/plan/lower/draft.h"
#include "actors/plan/lower/send.h"

#include <string.h>

/* ---- the gate ---- */

static int32_t
gate_task(struct lower *l, const struct plan_device *at)
{
    int32_t id;
    struct draft *d = draft_new(l, &kind_gate, -1, at->kind, at->rank, 0, false, &id);
    d->task.name = "gate";
    d->task.phase = PHASE_BATCH;
    d->gate = true;
    return id;
}

/* Returns the index of this partition's host in the program's list of hosts. */
static int32_t
own_memory(const struct plan *p)
{
    int32_t i = 0;
    while (p->memories[i] != p->memory) i++;
    return i;
}

/* Adds a gate for each channel end in end[], through which this host exchanges reports and permissions with other
 * hosts (gates.h). The caller adds the gates that receive from hosts below this one in the tree. */
static void
join_gate(struct lower *l, const struct plan_device *at, const struct channel *end, int n)
{
    int32_t here = l->gate;
    for (int i = 0; i < n; i++) {
        int32_t id = gate_task(l, at);
        order_edge(l, end[i].name.hop == 0 || !end[i].sends ? here : l->gate, id);
        if (!end[i].sends) l->gate = id;
        channel_add(l, id, &end[i]);
    }
}

/* Adds a gate before the update `node`, if the program needs one there. The gate waits for all checks of data
 * since the previous gate. */
int
update_order_gate(struct lower *l, int32_t node)
{
    if (!l->is_gated) l->is_gated = gates_find(l->program, &l->tmp);
    if (!l->is_gated[node] || l->plan->ndevice == 0) return 0;
    struct channel end[GATE_ENDS];
    const struct plan_device *at = &l->plan->device[0];
    int32_t before[2], nbefore = 0, first = l->gated, stop = l->ndraft, last = l->gate;
    int n = gate_ends(node, l->plan->memories, l->plan->nmemory, own_memory(l->plan), l->program->pieces, end);
    l->gated = stop;
    for (int32_t i = first; i < stop; i++)
        if (l->draft[i].task.looks) at = &l->plan->device[l->draft[i].task.device];
    for (; nbefore < n && end[nbefore].name.hop == 0 && !end[nbefore].sends; nbefore++) {
        before[nbefore] = gate_task(l, at);
        channel_add(l, before[nbefore], &end[nbefore]);
    }
    l->gate = gate_task(l, at);
    if (last >= 0) order_edge(l, last, l->gate);
    for (int32_t i = first; i < stop; i++)
        if (l->draft[i].task.looks) order_edge(l, i, l->gate);
    for (int32_t i = 0; i < nbefore; i++) order_edge(l, before[i], l->gate);
    join_gate(l, at, end + nbefore, n - nbefore);
    return 0;
}

/* ---- finding the readers of overwritten leaves ---- */

/* The tasks that write root parts, and the tasks that read leaf parts, where updates may overwrite the leaf parts. */
struct guard {
    struct lower *l;
    int32_t *writer; /* by root shard: the task that writes it; -1: none */
    bool *wanted;    /* by leaf part: true if it may be overwritten */
    /* by leaf part: the tasks that read leaf part p are reader[first[p]] to reader[first[p + 1] - 1], in ascending
     * order */
    int32_t *first, *reader;
};

static void
find_writers(struct guard *g)
{
    const struct lower *l = g->l;
    for (int32_t r = 0; r < l->plan->nroot_part; r++) g->writer[r] = -1;
    for (int32_t i = 0; i < l->ndraft; i++)
        for (int k = 0; k < l->draft[i].nout; k++)
            if (l->draft[i].out[k].where.kind == IN_ROOT) g->writer[l->draft[i].out[k].where.index] = i;
}

static void
mark_wanted(struct guard *g)
{
    const struct plan *p = g->l->plan;
    for (int32_t k = 0; k < p->program->nroot; k++) {
        int32_t over = p->program->root[k].overwrites_leaf;
        if (over < 0 || !p->overwrites[k]) continue;
        int32_t n = local_positions_of(&g->l->mines, p->program->leaf[over].layout->place)->n;
        memset(g->wanted + p->leaf_first[over], true, (size_t)n);
    }
}

/* Visits the tasks that read leaf parts. reader NULL: counts them by leaf part in next[]; else stores each at
 * reader[next[part]++]. */
static void
each_read(struct guard *g, int32_t *next, int32_t *reader)
{
    const struct lower *l = g->l;
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct task *t = &l->draft[i].task;
        for (int32_t a = 0; a < t->narg; a++) {
            if (t->arg[a].kind != ARG_LEAF || !g->wanted[t->arg[a].index]) continue;
            int32_t at = next[t->arg[a].index]++;
            if (reader) reader[at] = i;
        }
    }
}

static void
order_find_readers(struct guard *g)
{
    struct arena *a = &g->l->pass;
    int32_t n = g->l->plan->nleaf_part;
    g->first = ARENA_ARRAY(a, int32_t, n + 2);
    each_read(g, g->first + 1, NULL);
    for (int32_t p = 0; p < n; p++) g->first[p + 1] += g->first[p];
    int32_t *next = arena_dup(a, g->first, sizeof *next * (size_t)(n + 1));
    g->reader = ARENA_ARRAY(a, int32_t, g->first[n] + 1);
    each_read(g, next, g->reader);
}

/* Returns true if the task belongs to a move that was inserted for `node`, and so runs after the gate before that
 * node. If an earlier reader needs the same move, the move was inserted for that reader. */
static bool
moved_for(const struct task *t, int32_t node)
{
    return t->kind->flags & KIND_MOVE && t->move.of && t->move.of->step == node;
}

/* Returns the number of readers of a leaf part, without the tasks of the same node as task w. Those are last in the
 * list of readers, and update other slices of the same shard. */
static int32_t
others(const struct guard *g, int32_t leaf_part, int32_t w)
{
    const int32_t *reader = g->reader + g->first[leaf_part];
    int32_t n = g->first[leaf_part + 1] - g->first[leaf_part];
    const struct task *t = &g->l->draft[w].task;
    while (n > 0 && t->kind->flags & KIND_NODE && g->l->draft[reader[n - 1]].task.kind == t->kind &&
           g->l->draft[reader[n - 1]].task.node == t->node)
        n--;
    return n;
}

/* Returns true if the writer of the root part reads no other slice of the leaf part than the one that it writes.
 * The writer is one of several tasks that update slices of a buffer shared by replicas. */
static bool
reads_own(const struct guard *g, int32_t root_part, int32_t leaf_part)
{
    const struct draft *d = &g->l->draft[g->writer[root_part]];
    int32_t k = 0;
    while (d->out[k].where.kind != IN_ROOT || d->out[k].where.index != root_part) k++;
    return shared_update_reads_own(&d->task, &d->out[k], k, leaf_part);
}

/* Returns true if a root part may overwrite a leaf part, because no task after the writer reads the leaf part.
 * moved: node whose move makes the root; -1: an update makes the root. If a move makes the root, the writer must
 * belong to the move of this node, not to one for an earlier reader. */
static bool
may_replace(const struct guard *g, int32_t root_part, int32_t leaf_part, int32_t moved)
{
    int32_t w = g->writer[root_part];
    if (w < 0 || (moved >= 0 && !moved_for(&g->l->draft[w].task, moved))) return false;
    int32_t n = others(g, leaf_part, w);
    return n == 0 || g->reader[g->first[leaf_part] + n - 1] < w;
}

static void
wait_for_readers(struct guard *g, int32_t root_part, int32_t leaf_part)
{
    int32_t w = g->writer[root_part];
    order_all(g->l, g->reader + g->first[leaf_part], others(g, leaf_part, w), w);
}

/* Returns true if local parts a and b of root k hold the same block. They then share one buffer, if replicas of the
 * root do. */
static bool
lie_together_in_part(const struct plan *p, int32_t k, int32_t a, int32_t b)
{
    const struct layout *l = ref_layout(p->program, p->program->root[k].ref);
    const struct plan_part *part = p->root_part + p->root_first[k];
    return a == b || layout_origin(l, part[a].pos) == layout_origin(l, part[b].pos);
}

static void
guard_root(struct guard *g, int32_t k)
{
    struct lower *l = g->l;
    struct plan *p = l->plan;
    const struct prog_root *r = &l->program->root[k];
    p->overwrites[k] = p->overwrites[k] && r->overwrites_leaf >= 0;
    int32_t moved = r->ref.kind == REF_NODE && l->program->node[r->ref.index].op->flags & OP_MOVE ? r->ref.index : -1;
    int32_t n = p->overwrites[k] ? local_positions_of(&l->mines, ref_layout(l->program, r->ref)->place)->n : 0;
    int32_t root = p->root_first[k], leaf = n ? p->leaf_first[r->overwrites_leaf] : 0;
    int32_t span = p->shared[k] ? n : 1;
    for (int32_t own = 0; own < n; own++)
        for (int32_t i = 0; i < span && p->overwrites[k]; i++)
            if (lie_together_in_part(p, k, own, (own + i) % n))
                p->overwrites[k] = may_replace(g, root + own, leaf + (own + i) % n, moved);
    for (int32_t own = 0; own < n && p->overwrites[k] && p->shared[k]; own++)
        p->overwrites[k] = reads_own(g, root + own, leaf + own);
    for (int32_t own = 0; own < n && p->overwrites[k]; own++) {
        for (int32_t i = 0; i < span; i++)
            if (lie_together_in_part(p, k, own, (own + i) % n)) wait_for_readers(g, root + own, leaf + (own + i) % n);
        l->draft[g->writer[root + own]].task.updates = true;
    }
}

/* Makes every update wait for the last gate that precedes it in the list. */
static void
follow_gates(struct lower *l)
{
    int32_t gate = -1;
    for (int32_t i = 0; i < l->ndraft; i++) {
        if (l->draft[i].gate) gate = i;
        if (gate >= 0 && l->draft[i].task.updates) order_after(l, gate, i);
    }
}

void
update_order_updates(struct lower *l)
{
    struct guard g = {.l = l};
    g.writer = ARENA_ARRAY(&l->pass, int32_t, l->plan->nroot_part + 1);
    g.wanted = ARENA_ARRAY(&l->pass, bool, l->plan->nleaf_part + 1);
    find_writers(&g);
    mark_wanted(&g);
    order_find_readers(&g);
    for (int32_t k = 0; k < l->program->nroot; k++) guard_root(&g, k);
    follow_gates(l);
}
