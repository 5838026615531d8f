/* compile.c - compiles a program to a plan, in these steps:
 *
 *   outline, devices and threads -> tasks and moves (lower.c) -> shards that outlive the run
 *   -> order of updates, registers, memory (credit.c) -> flat, read-only plan -> proof
 *
 * The order of the program's nodes is a valid sequential order of execution. Edges point forward in this order, so
 * a cycle of a plan can only arise from registers. */
#include "actors/plan/compile.h"
#include "actors/plan/memory/act_offset.h"
#include "actors/plan/memory/arena.h"
#include "actors/plan/model/device_list.h"
#include "actors/plan/lower/update_order.h"
#include "actors/plan/lower/order.h"
#include "actors/plan/lower/credit.h"
#include "actors/plan/lower/send.h"
#include "actors/plan/model/sync.h"
#include "actors/plan/verify/verify.h"

#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>
#include <string.h>

/* Sets the thread of a device: the thread that the cluster map assigns to it; without a map, thread number `turn`. */
static int
plan_thread(const struct local_set *m, struct plan_device *d, int turn)
{
    d->thread = turn;
    if (!m->map || d->kind == DEV_META) return 0;
    const struct plan_range *h = local_set_range(m, d->kind, d->rank);
    if (!h) return fail(E_PLACE, "no worker of the cluster has device %s:%d", device_kind_text(d->kind), (int)d->rank);
    d->thread = h->slot + (d->rank - h->first) % h->nslot;
    return 0;
}

/* Lists the hosts of all devices, without duplicates. */
static void
list_memories(struct plan *p, const struct local_set *m, const struct devices *s)
{
    p->memories = ARENA_ARRAY(&p->arena, int32_t, s->n + 1);
    for (int i = 0; i < s->n; i++) p->memories[i] = local_set_memory(m, s->device[i].kind, s->device[i].rank);
    p->nmemory = sorted_once(p->memories, s->n);
}

static int
compare_plan_devices(const void *a, const void *b)
{
    const struct plan_device *x = a, *y = b;
    return x->kind != y->kind ? x->kind - y->kind : x->rank - y->rank;
}

/* Adds the cpu devices that send and receive the data of other devices. Host code cannot read the memory of those
 * other devices. */
static int
add_plan_hosts(struct plan *p, const struct local_set *m)
{
    int32_t own = p->ndevice, n = 0;
    for (int32_t i = 0; i < own; i++) {
        const struct plan_device *of = &p->device[i];
        if (p->nmemory == 1 || device_kind(of->kind)->flags & HOST_READS) continue;
        struct plan_device d = {.kind = DEV_CPU, .rank = local_set_host(m, of->kind, of->rank)};
        if (d.rank < 0) continue;
        TRY(plan_thread(m, &d, 0));
        p->device[p->ndevice++] = d;
    }
    if (p->ndevice == own) return 0;
    qsort(p->device, (size_t)p->ndevice, sizeof *p->device, compare_plan_devices);
    for (int32_t i = 0; i < p->ndevice; i++)
        if (n == 0 || compare_plan_devices(&p->device[n - 1], &p->device[i])) p->device[n++] = p->device[i];
    p->ndevice = n;
    return 0;
}

/* Lists the program's devices on the host of this plan partition. */
static int
own_plan_devices(struct plan *p, const struct local_set *m, const struct devices *s)
{
    const struct program *g = p->program;
    p->memory = local_set_own(m);
    p->nthread = g->map ? g->map->nslot : p->nshare;
    p->device = ARENA_ARRAY(&p->arena, struct plan_device, 2 * s->n);
    for (int i = 0; i < s->n; i++) {
        struct plan_device d = {.kind = (uint8_t)s->device[i].kind, .rank = s->device[i].rank};
        TRY(plan_thread(m, &d, i % p->nthread));
        if (d.kind == DEV_META && !g->dry_run)
            return fail(E_PLACE, "a tensor on meta devices has a layout but no values, so it cannot be read");
        if (local_set_memory(m, d.kind, d.rank) == p->memory) p->device[p->ndevice++] = d;
    }
    return 0;
}

static int
plan_devices(struct plan *p, const struct local_set *m)
{
    struct devices s;
    devices_of(p->program, &s);
    int status = own_plan_devices(p, m, &s);
    if (!status) list_memories(p, m, &s);
    if (!status) status = add_plan_hosts(p, m);
    devices_free(&s);
    return status;
}

/* ---- values that exist before and after the run ---- */

static void
fill_partition(struct lower *lower, const struct layout *l, const struct type *t, int32_t index, bool piece,
               struct plan_part *part)
{
    const struct plan *p = lower->plan;
    const struct local_positions *mine = local_positions_of(&lower->mines, l->place);
    for (int32_t k = 0; k < mine->n; k++) {
        struct type local = layout_shard(l, t, mine->pos[k]);
        part[k] = (struct plan_part){
            .index = index, .pos = mine->pos[k], .type = local, .bytes = type_bytes(&local) * (piece ? p->pieces : 1)};
    }
}

static void
note_program_reader(struct lower *l, struct ref r, int32_t by)
{
    if (r.kind != REF_NODE) return;
    int32_t *reader = &l->reader[r.index * OP_OUT + r.out];
    if (by >= 0) l->read[r.index] = true;
    if (by >= 0 && l->program->node[by].op->flags & OP_ANY_ORDER) return;
    *reader = by >= 0 && *reader == NOBODY ? by : SEVERAL;
}

static void
note_readers(struct lower *l)
{
    const struct program *g = l->program;
    l->read = ARENA_ARRAY(&l->tmp, bool, g->nnode + 1);
    l->reader = ARENA_ARRAY(&l->tmp, int32_t, g->nnode * OP_OUT + 1);
    for (int32_t i = 0; i < g->nnode * OP_OUT; i++) l->reader[i] = NOBODY;
    for (int32_t i = 0; i < g->nnode; i++)
        for (int32_t k = 0; k < g->node[i].nin; k++) note_program_reader(l, g->node[i].in[k], i);
    for (int32_t k = 0; k < g->nroot; k++) note_program_reader(l, g->root[k].ref, SEVERAL);
}

/* Returns true if a run may fail because of the node's operands: the node checks data, or the run finds NaN. NaN in an
 * update, or in a move of its result, is not counted: its gradients were finite. */
static bool
node_may_fail(const struct lower *l, int32_t i)
{
    const struct program *g = l->program;
    return l->checks[i] || (g->find_nan && !(g->node[i].op->flags & (OP_UPDATE | OP_MOVE)));
}

/* Returns the last node that may fail because of its operands; -1: none. */
static int32_t
last_check(const struct lower *l)
{
    int32_t i = l->program->nnode - 1;
    while (i >= 0 && !node_may_fail(l, i)) i--;
    return i;
}

/* Returns true if root k may overwrite the variable that it updates. If a node behind the update may fail, the root
 * gets new buffers, so that the variable keeps its old value after a failure. Example: two models in one step, where
 * the update of the first one precedes the loss of the second one. last: the last node that may fail. */
static bool
may_overwrite(const struct program *g, int32_t k, int32_t last)
{
    struct ref r = g->root[k].ref;
    bool appends = r.kind == REF_NODE && g->node[r.index].op && g->node[r.index].op->flags & OP_APPENDS;
    return g->root[k].overwrites_leaf >= 0 && (r.index > last || appends);
}

static void
plan_parts(struct lower *l)
{
    struct plan *p = l->plan;
    const struct program *g = p->program;
    p->leaf_first = ARENA_ARRAY(&p->arena, int32_t, g->nleaf + 1);
    p->root_first = ARENA_ARRAY(&p->arena, int32_t, g->nroot + 1);
    p->overwrites = ARENA_ARRAY(&p->arena, bool, g->nroot + 1);
    p->shared = ARENA_ARRAY(&p->arena, bool, g->nroot + 1);
    l->shares = shared_update_nodes(g, &l->tmp);
    l->checks = program_checks(g, &l->tmp);
    note_readers(l);
    int32_t last = last_check(l);
    for (int32_t i = 0; i < g->nleaf; i++) {
        p->leaf_first[i] = p->nleaf_part;
        p->nleaf_part += local_positions_of(&l->mines, g->leaf[i].layout->place)->n;
    }
    for (int32_t k = 0; k < g->nroot; k++) {
        p->root_first[k] = p->nroot_part;
        p->overwrites[k] = may_overwrite(g, k, last);
        p->shared[k] = g->root[k].ref.kind == REF_NODE && l->shares[g->root[k].ref.index];
        p->nroot_part += local_positions_of(&l->mines, ref_layout(g, g->root[k].ref)->place)->n;
    }
    p->leaf_part = ARENA_ARRAY(&p->arena, struct plan_part, p->nleaf_part);
    p->root_part = ARENA_ARRAY(&p->arena, struct plan_part, p->nroot_part);
    for (int32_t i = 0; i < g->nleaf; i++)
        fill_partition(l, g->leaf[i].layout, &g->leaf[i].type, i, g->leaf[i].piece, p->leaf_part + p->leaf_first[i]);
    for (int32_t k = 0; k < g->nroot; k++) {
        struct type t = ref_type(g, g->root[k].ref);
        fill_partition(l, ref_layout(g, g->root[k].ref), &t, k, g->root[k].join, p->root_part + p->root_first[k]);
    }
}

/* ---- converting drafts to the flat plan ---- */

/* The in-ports and out-ports of all tasks, in two arrays. Each task points to its own range of them. */
struct ports {
    struct in_port *in;
    struct out_port *out;
    int32_t nin, nout;
    int32_t *first_out; /* by task: index of its first out-port */
};

static void
flatten_ports(struct lower *l, struct ports *all)
{
    struct plan *p = l->plan;
    int32_t nin = 0, nout = 0;
    for (int32_t i = 0; i < l->ndraft; i++) {
        nin += l->draft[i].nin;
        nout += l->draft[i].nout;
    }
    *all = (struct ports){.in = ARENA_ARRAY(&p->arena, struct in_port, nin),
                          .out = ARENA_ARRAY(&p->arena, struct out_port, nout),
                          .nin = nin,
                          .nout = nout,
                          .first_out = ARENA_ARRAY(&l->tmp, int32_t, l->ndraft + 1)};
    nin = nout = 0;
    for (int32_t i = 0; i < l->ndraft; i++) {
        struct draft *d = &l->draft[i];
        struct task *t = &p->task[i];
        *t = d->task;
        t->nin = d->nin;
        t->in = all->in + nin;
        t->nout = d->nout;
        t->out = all->out + nout;
        all->first_out[i] = nout;
        nin += d->nin;
        nout += d->nout;
        for (int k = 0; k < d->nout; k++) {
            t->out[k] = d->out[k];
            t->out[k].once = t->out[k].control || t->nact / t->out[k].every <= t->out[k].nreg;
        }
        int32_t n = 0;
        for (const struct edge *e = d->in; e; e = e->next)
            t->in[n++] = (struct in_port){.task = e->task, .out = e->out, .hold = e->hold, .need = e->need};
    }
}

/* Sets the turn (priority class) of each task, and the place of its stage in a round, by the program's priority
 * rule. */
static void
flatten_turns(struct lower *l)
{
    const struct stages *s = &l->outline->stages;
    struct plan *p = l->plan;
    bool *begun = ARENA_ARRAY(&l->tmp, bool, p->ndevice * s->n * (PHASE_BATCH + 1));
    stages_round(l->program, s, &p->group, &p->round);
    for (int32_t i = 0; i < p->ntask; i++) {
        struct task *t = &p->task[i];
        struct moment at = {t->stage, t->phase};
        bool *was = &begun[task_moment(t, s->n)];
        struct stage_turn turn = stages_turn(l->program, s, at, task_goes_on(t, s->joint[t->stage], was));
        t->turn = turn.first;
        t->lead = turn.lead;
    }
}

/* Lists the readers of each out-port in task order. The readers of port o are reader[first[o]] to reader[first[o +
 * 1] - 1]. */
static struct reader *
list_task_readers(struct lower *l, const struct ports *all, int32_t **first_reader)
{
    struct plan *p = l->plan;
    int32_t *first = *first_reader = ARENA_ARRAY(&l->tmp, int32_t, all->nout + 2);
    struct reader *reader = ARENA_ARRAY(&l->tmp, struct reader, all->nin + 1);
    for (int32_t i = 0; i < all->nin; i++) first[all->first_out[all->in[i].task] + all->in[i].out + 2]++;
    for (int32_t o = 2; o <= all->nout + 1; o++) first[o] += first[o - 1];
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            const struct in_port *in = &p->task[i].in[k];
            reader[first[all->first_out[in->task] + in->out + 1]++] = (struct reader){i, k};
        }
    return reader;
}

/* Groups the readers of an out-port into one fan (multicast list) per thread. A fan lists first the readers that
 * are notified when the producer has enqueued its work, then those that are notified when the work is done. of:
 * work array by thread, 1 + index of the thread's fan; all 0 before and after the call. */
static void
make_fans(struct plan *p, struct out_port *o, const struct reader *reader, int32_t n, int32_t *of,
          struct reader *sorted, struct fan *fan)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t thread = p->task[reader[i].task].thread;
        if (!of[thread]) {
            fan[o->nfan] = (struct fan){.thread = thread};
            of[thread] = ++o->nfan;
        }
        fan[of[thread] - 1].nreader++;
    }
    o->fan = fan;
    for (int32_t f = 0; f < o->nfan; f++) {
        fan[f].reader = sorted;
        sorted += fan[f].nreader;
        fan[f].nreader = 0;
    }
    for (int early = 1; early >= 0; early--)
        for (int32_t i = 0; i < n; i++) {
            struct task *t = &p->task[reader[i].task];
            struct in_port *in = &t->in[reader[i].port];
            if ((in->token != SYNC_HOST) != early) continue;
            int32_t f = in->fan = of[t->thread] - 1;
            ((struct reader *)fan[f].reader)[fan[f].nreader++] = reader[i];
            fan[f].nissued += early;
        }
    for (int32_t f = 0; f < o->nfan; f++) of[fan[f].thread] = 0;
}

static void
flatten_fans(struct lower *l, const struct ports *all)
{
    struct plan *p = l->plan;
    int32_t *first, *of = ARENA_ARRAY(&l->tmp, int32_t, p->nthread), nfan = 0;
    struct reader *reader = list_task_readers(l, all, &first);
    for (int32_t o = 0; o < all->nout; o++) nfan += MIN(first[o + 1] - first[o], p->nthread);
    struct reader *sorted = ARENA_ARRAY(&p->arena, struct reader, all->nin);
    struct fan *fan = ARENA_ARRAY(&p->arena, struct fan, nfan);
    for (int32_t o = 0; o < all->nout; o++) {
        make_fans(p, &all->out[o], reader + first[o], first[o + 1] - first[o], of, sorted + first[o], fan);
        fan += all->out[o].nfan;
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
flatten_drafts(struct lower *l)
{
    struct plan *p = l->plan;
    p->ntask = l->ndraft;
    p->task = ARENA_ARRAY(&p->arena, struct task, p->ntask);
    struct ports all;
    flatten_ports(l, &all);
    flatten_turns(l);
    free(l->draft); /* the drafts' contents have been copied to the tasks */
    l->draft = NULL;
    sync_choose(p);
    flatten_fans(l, &all);
    list_locals(p);
    p->nmove = l->nmove;
    p->move = arena_dup(&p->arena, l->move, sizeof(*l->move) * (size_t)l->nmove);
    channel_list(l);
}

static int
lower_all(struct lower *l)
{
    TRY(lower_nodes(l));
    TRY(lower_roots(l));
    order_begin(l);
    update_order_updates(l);
    credit_registers(l);
    credit_pools(l);
    TRY(arena_registers(l));
    arena_fini(&l->pass);
    return 0;
}

int
plan_compile(struct program *g, struct atlas *at, struct plan **out)
{
    struct plan *p = must_alloc(sizeof *p);
    p->program = g;
    p->pieces = g->pieces;
    struct lower l = {.program = g, .atlas = at, .plan = p, .gate = -1, .at = -1};
    local_set_init(&l.mines, g->map, &l.tmp);
    l.crosses = (struct redistributions){.arena = &l.tmp, .mines = &l.mines, .cost = &g->cost};
    int status = outline_new(g, at, &l.outline);
    if (!status) {
        p->nshare = l.outline->nshare;
        memcpy(p->digest, l.outline->digest, sizeof p->digest);
        status = plan_devices(p, &l.mines);
    }
    if (!status) {
        plan_parts(&l);
        status = lower_all(&l);
        if (!status) {
            flatten_drafts(&l);
            act_offset_registers(p, l.first_out, l.asked);
        }
    }
    free(l.draft);
    free(l.channel);
    outline_free(&l.outline);
    arena_fini(&l.pass);
    arena_fini(&l.tmp);
    if (!status && (status = plan_verify(p)) != 0)
        err_note("internal error: the planner made an invalid plan; please report it");
    if (status) plan_free(&p);
    *out = p;
    return status;
}

/* Computes the largest scratch size of any kernel, bytes. To save time, lowers only one rank per placement. */
int
plan_scratch(struct program *g, int64_t *bytes)
{
    struct plan *p = must_alloc(sizeof *p);
    struct lower l = {.program = g, .plan = p, .gate = -1, .at = -1};
    p->program = g;
    p->pieces = g->pieces;
    *bytes = 0;
    local_set_init(&l.mines, NULL, &l.tmp);
    l.mines.first = true;
    int status = outline_new(g, NULL, &l.outline);
    if (!status) p->nshare = l.outline->nshare;
    if (!status) status = plan_devices(p, &l.mines);
    if (!status) {
        plan_parts(&l);
        status = lower_nodes(&l);
    }
    for (int32_t i = 0; i < l.ndraft; i++)
        if (l.draft[i].task.exec) *bytes = MAX(*bytes, (int64_t)exec_scratch(l.draft[i].task.exec));
    free(l.draft);
    free(l.channel);
    outline_free(&l.outline);
    arena_fini(&l.pass);
    arena_fini(&l.tmp);
    p->program = NULL; /* the caller keeps the program */
    plan_free(&p);
    return status;
}

size_t
plan_bytes(const struct plan *p)
{
    size_t bytes = sizeof *p + p->arena.used_bytes + p->program->arena.used_bytes;
    for (int32_t i = 0; i < p->nexec; i++) bytes += exec_bytes(p->exec[i]);
    return bytes;
}

void
plan_free(struct plan **pp)
{
    struct plan *p = *pp;
    if (!p) return;
    for (int32_t i = 0; i < p->nexec; i++) exec_free(&p->exec[i]);
    free(p->exec);
    program_free(&p->program);
    arena_fini(&p->arena);
    free(p);
    *pp = NULL;
}
