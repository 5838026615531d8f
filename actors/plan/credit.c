/* credit.c - how many registers, in which memory, and the order that sharing it needs.
 *
 * Registers are the credits, and credits are the schedule. In a program of m
 * pieces over p stages (placements), a register that forward fills and backward
 * reads exists A_s = L (p - 1 - s) + 1 times on stage s: that many pieces may be
 * between forward and backward there. L = 1 is 1F1B; A = m is GPipe. With the
 * dispatch order forward, backward, weights no schedule is needed.
 * (Derived in Qi et al. 2023 for its tables; the rule for credits is ours.)
 *
 * Without pieces every register is filled once a run, so blocks are shared: a
 * register may take the place of others whose readers are all done before it
 * is written. Where the program does not say so already, a control edge does. */
#include "actors/plan/lower.h"

#include "actors/plan/pack.h"
#include "runtime/device.h"
#include "runtime/error.h"

#include <string.h>

enum { REACH_TASKS = 8192, ALIGN = 64 };

/* Bit a of row b: a happens before b. Producers come before consumers in the list, so one pass does. */
void
credit_reach(struct lower *l)
{
    if (l->ndraft > REACH_TASKS) return;
    l->words = (l->ndraft + 63) / 64;
    l->reach = ARENA_ARRAY(&l->tmp, uint64_t, (size_t)l->ndraft * (size_t)l->words);
    for (int32_t b = 0; b < l->ndraft; b++) {
        uint64_t *row = l->reach + (size_t)b * (size_t)l->words;
        for (const struct edge *e = l->draft[b].in; e; e = e->next) {
            const uint64_t *before = l->reach + (size_t)e->task * (size_t)l->words;
            for (int32_t i = 0; i < l->words; i++) row[i] |= before[i];
            row[e->task / 64] |= 1ull << (e->task % 64);
        }
    }
}

/* ---- updates of variables ---- */

static bool
reads_leaf(const struct draft *d, int32_t part)
{
    for (int32_t i = 0; i < d->task.narg; i++)
        if (d->task.arg[i].kind == ARG_LEAF && d->task.arg[i].index == part) return true;
    return false;
}

/* The task that writes root part `part`, -1. */
static int32_t
writer_of(const struct lower *l, int32_t part)
{
    for (int32_t i = 0; i < l->ndraft; i++)
        for (int k = 0; k < l->draft[i].nout; k++)
            if (l->draft[i].out[k].where.kind == IN_ROOT && l->draft[i].out[k].where.index == part) return i;
    return -1;
}

/* Writing root k over its leaf: every other reader of the leaf's part must be done. False when one comes later. */
static bool
guard_part(struct lower *l, int32_t root_part, int32_t leaf_part, bool dry)
{
    int32_t w = writer_of(l, root_part);
    if (w < 0) return false;
    for (int32_t i = 0; i < l->ndraft; i++) {
        if (i == w || !reads_leaf(&l->draft[i], leaf_part)) continue;
        if (i > w) return false;
        if (!dry) lower_order(l, i, w);
    }
    return true;
}

static void
guard_root(struct lower *l, int32_t k)
{
    struct plan *p = l->plan;
    const struct prog_root *r = &l->program->root[k];
    if (r->over < 0 || !p->over[k]) {
        p->over[k] = false;
        return;
    }
    int n = ref_layout(l->program, r->ref)->place->nrank;
    for (int pass = 0; pass < 2; pass++)
        for (int pos = 0; pos < n; pos++)
            if (!guard_part(l, p->root_first[k] + pos, p->leaf_first[r->over] + pos, pass == 0)) {
                p->over[k] = false;
                return;
            }
    for (int pos = 0; pos < n; pos++) l->draft[writer_of(l, p->root_first[k] + pos)].task.updates = true;
}

/* Bad input must not leave half an update: whoever checks data is done before anybody updates. */
void
credit_updates(struct lower *l)
{
    for (int32_t k = 0; k < l->program->nroot; k++) guard_root(l, k);
    for (int32_t u = 0; u < l->ndraft; u++) {
        if (!l->draft[u].task.updates) continue;
        for (int32_t c = 0; c < u; c++)
            if (l->draft[c].checks) lower_order(l, c, u);
    }
}

/* ---- registers ---- */

/* Stages are the placements in the order in which forward reaches them. */
static int
count_stages(struct lower *l, int32_t *stage_of_place, int room)
{
    int n = 0;
    for (int i = 0; i < room; i++) stage_of_place[i] = -1;
    for (int32_t i = 0; i < l->program->nnode; i++) {
        const struct prog_node *node = &l->program->node[i];
        int id = node->layout[0]->place->id;
        if (!node->piece || node->phase != PHASE_FORWARD || id >= room || stage_of_place[id] >= 0) continue;
        stage_of_place[id] = n++;
    }
    return n;
}

/* How many registers result o of task i needs, given who reads it. */
static int32_t
credits_of(const struct lower *l, int32_t i, int o, int nstage)
{
    const struct draft *d = &l->draft[i];
    int32_t m = l->program->pieces, lag = l->program->lag, n = 1;
    for (int32_t r = i + 1; r < l->ndraft; r++) {
        const struct draft *to = &l->draft[r];
        for (const struct edge *e = to->in; e; e = e->next) {
            if (e->task != i || e->out != o) continue;
            if (d->task.phase == PHASE_FORWARD && to->task.phase != PHASE_FORWARD)
                n = MAX(n, lag ? lag * (nstage - 1 - d->stage) + 1 : m);
            else if (to->task.device != d->task.device)
                n = MAX(n, 2);
        }
    }
    return MIN(n, m);
}

static const struct place *
place_of(const struct lower *l, const struct draft *d)
{
    const struct box_plan *b = task_box(&d->task);
    if (b) return b->to->place;
    return d->task.node >= 0 ? l->program->node[d->task.node].layout[0]->place : NULL;
}

void
credit_registers(struct lower *l)
{
    if (l->program->pieces == 1) return;
    enum { ROOM = 1024 };
    int32_t *stage = ARENA_ARRAY(&l->tmp, int32_t, ROOM);
    int nstage = MAX(1, count_stages(l, stage, ROOM));
    for (int32_t i = 0; i < l->ndraft; i++) {
        struct draft *d = &l->draft[i];
        const struct place *p = place_of(l, d);
        d->stage = p && p->id < ROOM && stage[p->id] >= 0 ? stage[p->id] : 0;
        for (int k = 0; k < d->nout; k++) {
            struct out_port *o = &d->out[k];
            if (o->where.kind == NOWHERE || o->where.kind == IN_ROOT || draft_once(d)) continue;
            o->nreg = credits_of(l, i, k, nstage);
        }
    }
}

/* ---- memory ---- */

/* A register block: when it is first written, who reads it last. A block that several tasks fill (share.c) belongs to
 * the first of them. */
struct tenant {
    int32_t task, out, last;
};

static int64_t
block_bytes(const struct out_port *o)
{
    return o->where.stride * o->nreg;
}

static int
tenants_of(const struct lower *l, int device, struct tenant *t)
{
    int n = 0;
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct draft *d = &l->draft[i];
        if (d->task.device != device) continue;
        for (int k = 0; k < d->nout; k++)
            if (d->out[k].where.kind == IN_ARENA) t[n++] = (struct tenant){i, k, i};
    }
    return n;
}

/* Does this edge read the tenant's block? */
static bool
reads_block(const struct lower *l, const struct edge *e, const struct tenant *t)
{
    const struct where *w = &l->draft[e->task].out[e->out].where;
    return w->kind == IN_TASK ? w->index == t->task && t->out == 0 : e->task == t->task && e->out == t->out;
}

static bool
reads_tenant(const struct lower *l, int32_t task, const struct tenant *t)
{
    for (const struct edge *e = l->draft[task].in; e; e = e->next)
        if (reads_block(l, e, t)) return true;
    return false;
}

/* The last reader of each tenant, in list order. tenant[]: by task and result, 1 + its index in t. */
static void
last_readers(const struct lower *l, struct tenant *t, int n, int32_t *index)
{
    memset(index, 0, sizeof *index * (size_t)l->ndraft * (OP_OUT + 1));
    for (int i = 0; i < n; i++) index[t[i].task * (OP_OUT + 1) + t[i].out] = i + 1;
    for (int32_t r = 0; r < l->ndraft; r++)
        for (const struct edge *e = l->draft[r].in; e; e = e->next) {
            const struct where *w = &l->draft[e->task].out[e->out].where;
            int32_t at = w->kind == IN_TASK ? index[w->index * (OP_OUT + 1)] : index[e->task * (OP_OUT + 1) + e->out];
            if (at) t[at - 1].last = MAX(t[at - 1].last, r);
        }
}

static bool
lies_in(const struct out_port *o, int32_t task)
{
    return o->where.kind == IN_TASK && o->where.index == task;
}

/* After task a, everybody who writes b's block. */
static void
order_writers(struct lower *l, int32_t a, const struct tenant *b)
{
    if (a != b->task) lower_order(l, a, b->task);
    if (!l->draft[b->task].out[b->out].shared) return;
    for (int32_t i = b->task + 1; i <= b->last; i++)
        if (l->draft[i].task.kind->flags & KIND_WRITES && lies_in(&l->draft[i].out[0], b->task)) lower_order(l, a, i);
}

/* b is written where a lay: after all of a's readers. */
static void
order_tenants(struct lower *l, const struct tenant *a, const struct tenant *b)
{
    bool read = false;
    for (int32_t r = a->task + 1; r <= a->last; r++) {
        if (!reads_tenant(l, r, a)) continue;
        order_writers(l, r, b);
        read = true;
    }
    if (!read) order_writers(l, a->task, b);
}

static bool
overlap(const struct pack_item *a, const struct pack_item *b)
{
    return a->bytes > 0 && b->bytes > 0 && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Offsets for one device; where a block has a new tenant, the order that this needs. */
static int64_t
pack_device(struct lower *l, int device, struct tenant *t, struct pack_item *item, int32_t *index, bool share)
{
    int n = tenants_of(l, device, t);
    if (share) last_readers(l, t, n, index);
    for (int i = 0; i < n; i++)
        item[i] = (struct pack_item){.bytes = block_bytes(&l->draft[t[i].task].out[t[i].out]),
                                     .first = share ? t[i].task : 0,
                                     .last = share ? t[i].last : l->ndraft};
    int64_t bytes = pack_offsets(item, n, ALIGN);
    for (int i = 0; i < n; i++) l->draft[t[i].task].out[t[i].out].where.offset = item[i].offset;
    if (!share) return bytes;
    for (int b = 0; b < n; b++)
        for (int a = 0; a < b; a++)
            if (t[a].last < t[b].task && overlap(&item[a], &item[b])) order_tenants(l, &t[a], &t[b]);
    return bytes;
}

static int
too_large(const struct plan_device *d)
{
    return fail(E_MEMORY, "%s:%d: what this run needs at a time is larger than 2^63 bytes", device_kind_text(d->kind),
                (int)d->rank);
}

/* Sums of sizes are counted only when they can be. */
static int
check_sizes(struct lower *l)
{
    const int64_t most = INT64_MAX - (1 << 20);
    struct plan *p = l->plan;
    int64_t *left = ARENA_ARRAY(&l->tmp, int64_t, p->ndevice);
    for (int d = 0; d < p->ndevice; d++) left[d] = most;
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct draft *draft = &l->draft[i];
        int d = draft->task.device;
        for (int k = 0; k < draft->nout; k++) {
            const struct out_port *o = &draft->out[k];
            if (o->where.kind != IN_ARENA) continue;
            int64_t bytes = o->bytes, nreg = MAX(o->nreg, 1);
            if (bytes > left[d] / nreg - ALIGN) return too_large(&p->device[d]);
            left[d] -= nreg * (bytes + ALIGN);
        }
    }
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct task *t = &l->draft[i].task;
        if (t->exec && (int64_t)exec_scratch(t->exec) > left[t->device]) return too_large(&p->device[t->device]);
    }
    return 0;
}

int
credit_memory(struct lower *l)
{
    TRY(check_sizes(l));
    struct plan *p = l->plan;
    bool share = l->program->pieces == 1 && l->reach;
    size_t most = (size_t)l->ndraft * OP_OUT;
    struct tenant *t = ARENA_ARRAY(&l->tmp, struct tenant, most);
    struct pack_item *item = ARENA_ARRAY(&l->tmp, struct pack_item, most);
    int32_t *index = ARENA_ARRAY(&l->tmp, int32_t, (size_t)l->ndraft * (OP_OUT + 1));
    for (int d = 0; d < p->ndevice; d++) p->device[d].arena_bytes = pack_device(l, d, t, item, index, share);
    for (int32_t i = 0; i < l->ndraft; i++) {
        struct task *task = &l->draft[i].task;
        if (!task->exec) continue;
        struct plan_device *d = &p->device[task->device];
        d->scratch_bytes = MAX(d->scratch_bytes, (int64_t)exec_scratch(task->exec));
    }
    for (int d = 0; d < p->ndevice; d++) {
        struct plan_device *dev = &p->device[d];
        dev->scratch = (dev->arena_bytes + ALIGN - 1) & ~(int64_t)(ALIGN - 1);
        dev->arena_bytes = dev->scratch + dev->scratch_bytes;
    }
    return 0;
}
