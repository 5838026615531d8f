/* live.h - computes a lower bound of the size of a device's arena: the most bytes of registers that can be live at
 * once.
 *
 * The events of a run are the begin and the end of each act. Edges of the plan and the number of credits order the
 * events. A moment of the run is a set of events that contains all predecessors of its members. A register is live
 * from the begin of the act that writes it until the end of the last act that reads it. The weight of a moment is
 * the bytes of registers that have become live, less the bytes of registers that are no longer live. The plan cannot
 * run in a smaller arena than the heaviest moment.
 *
 * The heaviest moment is a maximum-weight closure, found by a minimum cut (Picard 1976) with Dinic's algorithm
 * (1970). If a register has several readers, only one is modelled: the reader of the last phase, and among several
 * in this phase the last in the list. Functions keep no state and may run on any thread. */
#ifndef RILLE_T_LIVE_H
#define RILLE_T_LIVE_H

#include "actors/plan/model/plan.h"
#include "actors/plan/outline/stage.h"
#include "runtime/data/arena.h"

/* Arc of the flow network; room: residual capacity, bytes. */
struct live_arc {
    int32_t to, next; /* to: node at the end; next: next arc from the same node, -1: none */
    int64_t room;
};
struct live {
    const struct plan *plan;
    struct stages stages;
    struct arena arena;
    int32_t *first; /* by task: number of its first act */
    int32_t n, source, sink;
    int64_t *bytes;       /* by event: bytes that become live at the event, less bytes that are no longer live */
    struct live_arc *arc; /* each arc precedes its reverse arc */
    int32_t narc, capacity;
    /* by node: out: first arc; at: next arc to try; level: distance from the source. queue: nodes that the search
     * has still to visit */
    int32_t *out, *at, *level, *queue;
};

/* ---- order of the events of a run ---- */

static int32_t
live_begin(const struct live *l, int32_t task, int64_t act)
{
    return 2 * (l->first[task] + (int32_t)act);
}

static int32_t
live_end(const struct live *l, int32_t task, int64_t act)
{
    return live_begin(l, task, act) + 1;
}

static void
live_join(struct live *l, int32_t from, int32_t to, int64_t room)
{
    ARENA_GROW(&l->arena, l->arc, l->narc + 2, l->capacity);
    l->arc[l->narc] = (struct live_arc){to, l->out[from], room};
    l->out[from] = l->narc++;
    l->arc[l->narc] = (struct live_arc){from, l->out[to], 0};
    l->out[to] = l->narc++;
}

static void
live_after(struct live *l, int32_t event, int32_t before)
{
    live_join(l, event, before, INT64_MAX / 2);
}

/* Returns the number of registers that the readers of a result need (credit.c). The plan may give the result more
 * registers, if packing leaves memory for them. */
static int32_t
live_credits(const struct live *l, const struct task *from, const struct out_port *o)
{
    const struct plan *p = l->plan;
    int32_t n = 1;
    if (o->where.kind != IN_ARENA) return o->nreg;
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) {
            const struct task *to = &p->task[o->fan[f].reader[r].task];
            struct moment a = {from->stage, from->phase}, b = {to->stage, to->phase};
            bool crosses = from->device != to->device && from->stage != to->stage;
            n = MAX(n, MAX(stages_credits(p->program, &l->stages, a, b), crosses ? 2 : 1));
        }
    return MIN(n, o->nreg);
}

/* Adds the order that registers require: an act writes a register after all readers of the register's previous value
 * have ended. */
static void
live_registers(struct live *l, int32_t task, const struct out_port *o)
{
    const struct task *t = &l->plan->task[task];
    int32_t nreg = live_credits(l, t, o);
    if (o->control || o->once) return;
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) {
            const struct reader *to = &o->fan[f].reader[r];
            int64_t hold = l->plan->task[to->task].in[to->port].hold;
            for (int64_t i = nreg; i * o->every < t->nact; i++)
                live_after(l, live_begin(l, task, i * o->every), live_end(l, to->task, (i - nreg + 1) * hold - 1));
        }
}

static void
live_order(struct live *l, int32_t task)
{
    const struct task *t = &l->plan->task[task];
    for (int64_t n = 0; n < t->nact; n++) {
        live_after(l, live_end(l, task, n), live_begin(l, task, n));
        if (n) live_after(l, live_begin(l, task, n), live_end(l, task, n - 1));
        for (int32_t k = 0; k < t->nin; k++) {
            const struct in_port *in = &t->in[k];
            const struct out_port *o = &l->plan->task[in->task].out[in->out];
            int64_t token = in->need * (n / in->hold + 1), every = o->control ? 1 : o->every;
            live_after(l, live_begin(l, task, n), live_end(l, in->task, token * every - 1));
        }
    }
    for (int32_t k = 0; k < t->nout; k++) live_registers(l, task, &t->out[k]);
}

/* ---- bytes that events add and remove ---- */

/* Returns the last reader among `last` and the readers of a result: the reader of the last phase, and in it the
 * reader with the greatest task number. */
static struct reader
live_last(const struct plan *p, const struct out_port *o, struct reader last)
{
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) {
            struct reader to = o->fan[f].reader[r];
            int phase = last.task < 0 ? -1 : p->task[last.task].phase;
            if (p->task[to.task].phase > phase || (p->task[to.task].phase == phase && to.task > last.task)) last = to;
        }
    return last;
}

/* Returns the last reader of a register, including readers of other results that are stored in the register. */
static struct reader
live_user(const struct plan *p, int32_t task, const struct out_port *o)
{
    struct reader last = live_last(p, o, (struct reader){-1, 0});
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) {
            const struct task *t = &p->task[o->fan[f].reader[r].task];
            for (int32_t k = 0; k < t->nresult; k++)
                if (t->out[k].where.kind == IN_TASK && t->out[k].where.index == task)
                    last = live_last(p, &t->out[k], last);
        }
    return last;
}

static void
live_weigh(struct live *l, int32_t task, const struct out_port *o)
{
    const struct task *t = &l->plan->task[task];
    struct reader last = live_user(l->plan, task, o);
    int64_t hold = last.task < 0 ? o->every : l->plan->task[last.task].in[last.port].hold;
    for (int64_t i = 0; i < t->nact / o->every; i++) {
        l->bytes[live_begin(l, task, i * o->every)] += where_stride(o->bytes);
        l->bytes[live_end(l, last.task < 0 ? task : last.task, (i + 1) * hold - 1)] -= where_stride(o->bytes);
    }
}

/* ---- computing the minimum cut ---- */

/* Computes each node's distance from the source. Returns false if no path leads to the sink. */
static bool
live_levels(struct live *l)
{
    int32_t n = 0;
    for (int32_t v = 0; v < l->n; v++) {
        l->level[v] = -1;
        l->at[v] = l->out[v];
    }
    l->level[l->source] = 0;
    l->queue[n++] = l->source;
    for (int32_t k = 0; k < n && l->level[l->sink] < 0; k++)
        for (int32_t v = l->queue[k], e = l->out[v]; e >= 0; e = l->arc[e].next) {
            int32_t to = l->arc[e].to;
            if (l->arc[e].room == 0 || l->level[to] >= 0) continue;
            l->level[to] = l->level[v] + 1;
            l->queue[n++] = to;
        }
    return l->level[l->sink] >= 0;
}

/* Sends as much flow as fits along a shortest path to the sink, and returns the amount; 0 if no path is left. */
static int64_t
live_send(struct live *l)
{
    int32_t n = 0;
    int64_t bytes = INT64_MAX;
    for (int32_t v = l->source; v != l->sink;) {
        int32_t *e = &l->at[v];
        while (*e >= 0 && (l->arc[*e].room == 0 || l->level[l->arc[*e].to] != l->level[v] + 1)) *e = l->arc[*e].next;
        if (*e < 0 && n == 0) return 0;
        if (*e < 0) l->level[v] = -1;
        if (*e >= 0) l->queue[n++] = *e;
        v = *e < 0 ? l->arc[l->queue[--n] ^ 1].to : l->arc[*e].to;
    }
    for (int32_t k = 0; k < n; k++) bytes = MIN(bytes, l->arc[l->queue[k]].room);
    for (int32_t k = 0; k < n; k++) {
        l->arc[l->queue[k]].room -= bytes;
        l->arc[l->queue[k] ^ 1].room += bytes;
    }
    return bytes;
}

/* Returns the weight of the heaviest closure: the sum of positive weights less the maximum flow. */
static int64_t
live_heaviest(struct live *l)
{
    int64_t most = 0, sent;
    for (int32_t v = 0; v < l->source; v++) {
        if (l->bytes[v] > 0) live_join(l, l->source, v, l->bytes[v]);
        if (l->bytes[v] < 0) live_join(l, v, l->sink, -l->bytes[v]);
        most += MAX(l->bytes[v], 0);
    }
    while (live_levels(l))
        while ((sent = live_send(l)) > 0) most -= sent;
    return most;
}

/* Allocates the arrays of l for l->n nodes, without arcs. */
static void
live_lists(struct live *l)
{
    l->bytes = ARENA_ARRAY(&l->arena, int64_t, l->n);
    l->out = ARENA_ARRAY(&l->arena, int32_t, l->n);
    l->at = ARENA_ARRAY(&l->arena, int32_t, l->n);
    l->level = ARENA_ARRAY(&l->arena, int32_t, l->n);
    l->queue = ARENA_ARRAY(&l->arena, int32_t, l->n);
    for (int32_t v = 0; v < l->n; v++) l->out[v] = -1;
}

static void
live_nodes(struct live *l)
{
    const struct plan *p = l->plan;
    l->first = ARENA_ARRAY(&l->arena, int32_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) l->first[i + 1] = l->first[i] + p->task[i].nact;
    l->source = 2 * l->first[p->ntask];
    l->sink = l->source + 1;
    l->n = l->sink + 1;
    live_lists(l);
}

/* Returns the most bytes of a device's registers that can be live at once; -1 if the program has no stages. */
static int64_t
live_most(const struct plan *p, int32_t device)
{
    struct live l = {.plan = p};
    if (stages_find(&l.stages, p->program, &l.arena)) return -1;
    live_nodes(&l);
    for (int32_t i = 0; i < p->ntask; i++) {
        live_order(&l, i);
        for (int32_t k = 0; k < p->task[i].nout; k++) {
            const struct out_port *o = &p->task[i].out[k];
            if (o->where.kind == IN_ARENA && o->where.index == device) live_weigh(&l, i, o);
        }
    }
    int64_t most = live_heaviest(&l);
    arena_fini(&l.arena);
    return most;
}

#endif
