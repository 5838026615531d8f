/* compile.c - from a program to a plan.
 *
 *   devices and threads -> tasks and moves (lower.c) -> what outlives the run
 *   -> order of updates, registers, memory (credit.c) -> flat, read-only plan -> proof
 *
 * The order of the program's nodes is an order in which everything could run
 * one after the other; all edges point forward in it, so plans have no cycles
 * but those of registers. */
#include "actors/plan/lower.h"

#include "runtime/device.h"
#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

struct type
ref_type(const struct program *p, struct ref r)
{
    switch (r.kind) {
    case REF_NODE: return p->node[r.index].type[r.out];
    case REF_LEAF: return p->leaf[r.index].type;
    case REF_NUMBER: return *p->number[r.index];
    default: return (struct type){0};
    }
}

const struct layout *
ref_layout(const struct program *p, struct ref r)
{
    switch (r.kind) {
    case REF_NODE: return p->node[r.index].layout[r.out];
    case REF_LEAF: return p->leaf[r.index].layout;
    default: return NULL;
    }
}

/* ---- devices ---- */

static int
by_device(const void *a, const void *b)
{
    const struct plan_device *x = a, *y = b;
    return x->kind != y->kind ? x->kind - y->kind : x->rank - y->rank;
}

struct devices {
    struct plan_device *device;
    int n, room;
};

static void
add_place(struct devices *s, const struct place *p)
{
    for (int i = 0; i < p->nrank; i++) {
        bool known = false;
        for (int k = 0; k < s->n && !known; k++)
            known = s->device[k].kind == p->kind && s->device[k].rank == p->rank[i];
        if (known) continue;
        if (s->n == s->room) {
            s->room = s->room ? 2 * s->room : 16;
            s->device = must_realloc(s->device, sizeof(*s->device) * (size_t)s->room);
        }
        s->device[s->n++] = (struct plan_device){.kind = p->kind, .rank = p->rank[i]};
    }
}

static int
plan_devices(struct plan *p)
{
    const struct program *g = p->program;
    struct devices s = {0};
    const struct place *last = NULL;
    for (int32_t i = 0; i < g->nleaf; i++) add_place(&s, g->leaf[i].layout->place);
    for (int32_t i = 0; i < g->nnode; i++)
        for (int32_t k = 0; k < g->node[i].nout; k++) {
            if (g->node[i].layout[k]->place == last) continue;
            last = g->node[i].layout[k]->place;
            add_place(&s, last);
        }
    if (s.n) qsort(s.device, (size_t)s.n, sizeof(*s.device), by_device);
    p->ndevice = s.n;
    p->device = arena_dup(&p->arena, s.device, sizeof(*s.device) * (size_t)s.n);
    free(s.device);
    p->nthread = MAX(1, MIN(p->ndevice, g->threads));
    for (int i = 0; i < p->ndevice; i++) {
        p->device[i].thread = (uint8_t)(i % p->nthread);
        if (p->device[i].kind == DEV_META && !g->shown)
            return fail(E_PLACE, "a tensor on meta devices has a layout and no values: it cannot be read");
    }
    return 0;
}

/* ---- what exists before the run and after it ---- */

static void
parts_of(struct plan *p, const struct layout *l, const struct type *t, int32_t index, bool piece,
         struct plan_part *part)
{
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct type local = layout_shard(l, t, pos);
        part[pos] = (struct plan_part){
            .index = index, .pos = pos, .type = local, .bytes = type_bytes(&local) * (piece ? p->pieces : 1)};
    }
}

static void
plan_parts(struct plan *p)
{
    const struct program *g = p->program;
    p->leaf_first = ARENA_ARRAY(&p->arena, int32_t, g->nleaf + 1);
    p->root_first = ARENA_ARRAY(&p->arena, int32_t, g->nroot + 1);
    p->over = ARENA_ARRAY(&p->arena, bool, g->nroot + 1);
    for (int32_t i = 0; i < g->nleaf; i++) {
        p->leaf_first[i] = p->nleaf_part;
        p->nleaf_part += g->leaf[i].layout->place->nrank;
    }
    for (int32_t k = 0; k < g->nroot; k++) {
        p->root_first[k] = p->nroot_part;
        p->over[k] = g->root[k].over >= 0;
        p->nroot_part += ref_layout(g, g->root[k].ref)->place->nrank;
    }
    p->leaf_part = ARENA_ARRAY(&p->arena, struct plan_part, p->nleaf_part);
    p->root_part = ARENA_ARRAY(&p->arena, struct plan_part, p->nroot_part);
    for (int32_t i = 0; i < g->nleaf; i++)
        parts_of(p, g->leaf[i].layout, &g->leaf[i].type, i, g->leaf[i].piece, p->leaf_part + p->leaf_first[i]);
    for (int32_t k = 0; k < g->nroot; k++) {
        struct type t = ref_type(g, g->root[k].ref);
        parts_of(p, ref_layout(g, g->root[k].ref), &t, k, g->root[k].join, p->root_part + p->root_first[k]);
    }
}

/* ---- from drafts to the flat plan ---- */

static int32_t
fan_for(struct out_port *o, int thread)
{
    for (int32_t f = 0; f < o->nfan; f++)
        if (o->fan[f].thread == thread) return f;
    return -1;
}

static void
flatten_ports(struct lower *l)
{
    struct plan *p = l->plan;
    for (int32_t i = 0; i < l->ndraft; i++) {
        struct draft *d = &l->draft[i];
        struct task *t = &p->task[i];
        *t = d->task;
        t->nin = d->nin;
        t->in = ARENA_ARRAY(&p->arena, struct in_port, d->nin);
        t->nout = d->nout;
        t->out = arena_dup(&p->arena, d->out, sizeof(*d->out) * (size_t)d->nout);
        for (int k = 0; k < d->nout; k++) {
            t->out[k].fan = ARENA_ARRAY(&p->arena, struct fan, p->nthread);
            t->out[k].once = t->out[k].control || t->nact / t->out[k].every <= t->out[k].nreg;
        }
        int32_t n = 0;
        for (const struct edge *e = d->in; e; e = e->next)
            t->in[n++] = (struct in_port){.task = e->task, .out = e->out, .hold = e->hold, .need = e->need};
    }
}

static void
count_readers(struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            struct in_port *in = &p->task[i].in[k];
            struct out_port *o = &p->task[in->task].out[in->out];
            int32_t f = fan_for(o, p->task[i].thread);
            if (f < 0) {
                f = o->nfan++;
                o->fan[f].thread = p->task[i].thread;
            }
            in->fan = f;
            o->fan[f].nreader++;
        }
}

static void
list_readers(struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; k++)
            for (int32_t f = 0; f < p->task[i].out[k].nfan; f++) {
                struct fan *fan = &p->task[i].out[k].fan[f];
                fan->reader = ARENA_ARRAY(&p->arena, struct reader, fan->nreader);
                fan->nreader = 0;
            }
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            const struct in_port *in = &p->task[i].in[k];
            struct fan *fan = &p->task[in->task].out[in->out].fan[in->fan];
            ((struct reader *)fan->reader)[fan->nreader++] = (struct reader){i, k};
        }
}

static void
list_locals(struct plan *p)
{
    p->nlocal = ARENA_ARRAY(&p->arena, int32_t, p->nthread);
    p->local = ARENA_ARRAY(&p->arena, int32_t *, p->nthread);
    p->nact = ARENA_ARRAY(&p->arena, int64_t, p->nthread);
    for (int32_t i = 0; i < p->ntask; i++) {
        p->nlocal[p->task[i].thread]++;
        p->nact[p->task[i].thread] += p->task[i].nact;
    }
    for (int t = 0; t < p->nthread; t++) {
        p->local[t] = ARENA_ARRAY(&p->arena, int32_t, p->nlocal[t]);
        p->nlocal[t] = 0;
    }
    for (int32_t i = 0; i < p->ntask; i++) {
        int t = p->task[i].thread;
        p->local[t][p->nlocal[t]++] = i;
    }
}

static void
flatten(struct lower *l)
{
    struct plan *p = l->plan;
    p->ntask = l->ndraft;
    p->task = ARENA_ARRAY(&p->arena, struct task, p->ntask);
    flatten_ports(l);
    count_readers(p);
    list_readers(p);
    list_locals(p);
    p->nbox = l->nbox;
    p->box = arena_dup(&p->arena, l->box, sizeof(*l->box) * (size_t)l->nbox);
}

static int
lower_all(struct lower *l)
{
    TRY(lower_nodes(l));
    TRY(lower_roots(l));
    credit_reach(l);
    credit_updates(l);
    credit_registers(l);
    TRY(credit_memory(l));
    return 0;
}

int
plan_compile(struct program *g, struct atlas *at, struct plan **out)
{
    struct plan *p = must_alloc(sizeof *p);
    p->program = g;
    p->pieces = g->pieces;
    struct lower l = {.program = g, .atlas = at, .plan = p};
    int status = plan_devices(p);
    if (!status) {
        plan_parts(p);
        status = lower_all(&l);
        flatten(&l);
    }
    arena_fini(&l.tmp);
    if (!status) status = plan_verify(p);
    if (status) plan_free(&p);
    *out = p;
    return status;
}

void
program_free(struct program **gp)
{
    struct program *g = *gp;
    if (!g) return;
    arena_fini(&g->arena);
    free(g);
    *gp = NULL;
}

void
plan_free(struct plan **pp)
{
    struct plan *p = *pp;
    if (!p) return;
    for (int32_t i = 0; i < p->ntask; i++) exec_free(&p->task[i].exec);
    program_free(&p->program);
    arena_fini(&p->arena);
    free(p);
    *pp = NULL;
}
