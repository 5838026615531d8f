/* verify.c - proves that a plan is well-formed: indices are in range, counts are right, and both ends of an edge
 * agree.
 *
 * Plans come from Rille's own compiler, but every plan is proved. So a bug of the compiler becomes an error that
 * names a task and a field before anything runs, instead of wrong numbers. The time of all checks is linear in the
 * size of the plan. */
#include "actors/plan/verify/verify.h"
#include "actors/plan/outline/comm_ranks.h"
#include "actors/plan/verify/flow/verify_sync.h"
#include "actors/plan/verify/flow/verify_run.h"
#include "actors/plan/verify/verify_program.h"
#include "actors/plan/verify/verify_memory.h"
#include "actors/plan/verify/value/verify_kernel.h"
#include "actors/plan/verify/flow/verify_channel.h"

#include "runtime/device/device.h"
#include "runtime/base/device_kinds.h"
#include "runtime/base/error.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>

enum { ALIGN = 64, MOST_THREADS = 256, MOST_ARGS = 128, MOST_BEYOND = 4 };

/* ---- devices, leaves and roots ---- */

static int
compare_proof_devices(const void *a, const void *b)
{
    const struct plan_device *x = a, *y = b;
    return x->kind != y->kind ? x->kind - y->kind : x->rank - y->rank;
}

struct devices {
    struct plan_device *device;
    int32_t n, capacity;
};

static void
collect_place(struct devices *s, const struct place *p)
{
    GROW(s->device, s->n + p->nrank, s->capacity);
    for (int i = 0; i < p->nrank; i++) s->device[s->n++] = (struct plan_device){.kind = p->kind, .rank = p->rank[i]};
}

static void
sort_proof_devices(struct devices *s)
{
    int32_t n = 0;
    if (s->n) qsort(s->device, (size_t)s->n, sizeof(*s->device), compare_proof_devices);
    for (int32_t i = 0; i < s->n; i++)
        if (n == 0 || compare_proof_devices(&s->device[n - 1], &s->device[i])) s->device[n++] = s->device[i];
    s->n = n;
}

/* Lists the devices that the program names, sorted, without duplicates. */
static void
program_devices(const struct program *g, struct devices *s)
{
    const struct place *last = NULL;
    for (int32_t i = 0; i < g->nleaf; i++) {
        if (g->leaf[i].layout->place != last) collect_place(s, g->leaf[i].layout->place);
        last = g->leaf[i].layout->place;
    }
    for (int32_t i = 0; i < g->nnode; i++)
        for (int32_t k = 0; k < g->node[i].nout; k++) {
            if (g->node[i].layout[k]->place != last) collect_place(s, g->node[i].layout[k]->place);
            last = g->node[i].layout[k]->place;
        }
    sort_proof_devices(s);
}

/* Adds the cpu devices that send and receive the data of other devices. Host code cannot read the memory of those
 * other devices. */
static void
add_proof_hosts(const struct local_set *m, struct devices *s)
{
    int32_t own = s->n;
    GROW(s->device, 2 * own, s->capacity);
    for (int32_t i = 0; i < own; i++) {
        const struct plan_device *d = &s->device[i];
        int32_t host = device_kind(d->kind)->flags & HOST_READS ? -1 : local_set_host(m, d->kind, d->rank);
        if (host >= 0) s->device[s->n++] = (struct plan_device){.kind = DEV_CPU, .rank = host};
    }
    sort_proof_devices(s);
}

/* Checks that the plan's list of hosts is complete: it must have every host with devices of the program. Then
 * removes the devices of other hosts from the list s. */
static int
check_memories(struct proof *v, struct devices *s)
{
    const struct plan *p = v->plan;
    const struct local_set *m = &v->mines;
    int32_t n, own = 0, *memory = ARENA_ARRAY(&v->tmp, int32_t, s->n + 1);
    for (int32_t i = 0; i < s->n; i++) memory[i] = local_set_memory(m, s->device[i].kind, s->device[i].rank);
    for (int32_t i = 0; i < s->n; i++)
        if (memory[i] == local_set_own(m)) s->device[own++] = s->device[i];
    n = sorted_once(memory, s->n);
    s->n = own;
    bool same = p->memory == local_set_own(m) && p->nmemory == n;
    for (int32_t i = 0; same && i < n; i++) same = p->memories[i] == memory[i];
    return same ? 0 : fail(E_PLAN, "plan: the list of hosts does not match the hosts of the program's devices");
}

static int
check_device(const struct plan *p, int32_t i, const struct plan_device *want)
{
    const struct plan_device *d = &p->device[i];
    if (compare_proof_devices(d, want))
        return fail(E_PLAN, "plan: device %d must be %s:%d, as in the sorted list of the program's devices", (int)i,
                    device_kind_text(want->kind), (int)want->rank);
    if (d->thread >= p->nthread)
        return fail(E_PLAN, "plan: device %d: thread %d does not exist; the plan has %d threads", (int)i, d->thread,
                    (int)p->nthread);
    bool inside = d->scratch >= 0 && d->scratch_bytes >= 0 && d->arena_bytes >= d->scratch;
    if (!inside || d->scratch % ALIGN || d->arena_bytes - d->scratch != d->scratch_bytes)
        return fail(
            E_PLAN,
            "plan: device %d: scratch at offset %lld, of %lld bytes, must end at the end of the arena, %lld bytes",
            (int)i, (long long)d->scratch, (long long)d->scratch_bytes, (long long)d->arena_bytes);
    return 0;
}

static int
check_devices(struct proof *v)
{
    const struct plan *p = v->plan;
    struct devices s = {0};
    int status = 0, most = 0;
    program_devices(p->program, &s);
    status = check_memories(v, &s);
    if (!status && p->nmemory > 1) add_proof_hosts(&v->mines, &s);
    if (!status && p->ndevice != s.n)
        status = fail(E_PLAN, "plan: found %d devices, expected the program's %d", (int)p->ndevice, (int)s.n);
    for (int32_t i = 0; !status && i < s.n; i++) {
        status = check_device(p, i, &s.device[i]);
        most = MAX(most, p->device[i].thread);
    }
    free(s.device);
    const struct plan_map *map = p->program->map;
    if (!status && ((map ? p->nthread != map->nslot : p->nthread != most + 1) || p->nthread > MOST_THREADS))
        status = fail(E_PLAN, "plan: found %d threads, expected the %d of its devices", (int)p->nthread, most + 1);
    return status;
}

static int
check_part(const struct plan_part *part, const char *what, int32_t index, int pos, const struct layout *l,
           const struct type *t, int64_t pieces)
{
    struct type local = layout_shard(l, t, pos);
    if (part->index == index && part->pos == pos && type_equal(&part->type, &local) &&
        part->bytes == type_bytes(&local) * pieces)
        return 0;
    return fail(E_PLAN, "plan: shard %d of %s %d does not match the program (%lld bytes, must be %lld)", pos, what,
                (int)index, (long long)part->bytes, (long long)(type_bytes(&local) * pieces));
}

static int
check_plan_leaves(const struct plan *p, struct local_set *m)
{
    const struct program *g = p->program;
    int32_t n = 0;
    for (int32_t i = 0; i < g->nleaf; i++) n += local_positions_of(m, g->leaf[i].layout->place)->n;
    if (p->nleaf_part != n)
        return fail(E_PLAN, "plan: found %d leaf shards, expected the program's %d", (int)p->nleaf_part, (int)n);
    n = 0;
    for (int32_t i = 0; i < g->nleaf; i++) {
        const struct prog_leaf *f = &g->leaf[i];
        const struct local_positions *mine = local_positions_of(m, f->layout->place);
        if (p->leaf_first[i] != n)
            return fail(E_PLAN, "plan: leaf %d cannot begin at shard %d of the list", (int)i, (int)p->leaf_first[i]);
        for (int32_t k = 0; k < mine->n; k++)
            TRY(check_part(&p->leaf_part[n + k], "leaf", i, mine->pos[k], f->layout, &f->type,
                           f->piece ? p->pieces : 1));
        n += mine->n;
    }
    return 0;
}

static int
check_proof_roots(struct proof *v)
{
    const struct plan *p = v->plan;
    const struct program *g = p->program;
    struct local_set *m = &v->mines;
    int32_t n = 0;
    for (int32_t k = 0; k < g->nroot; k++) n += local_positions_of(m, ref_layout(g, g->root[k].ref)->place)->n;
    if (p->nroot_part != n)
        return fail(E_PLAN, "plan: found %d root shards, expected the program's %d", (int)p->nroot_part, (int)n);
    n = 0;
    for (int32_t k = 0; k < g->nroot; k++) {
        const struct prog_root *r = &g->root[k];
        const struct layout *l = ref_layout(g, r->ref);
        const struct local_positions *mine = local_positions_of(m, l->place);
        struct type t = ref_type(g, r->ref);
        if (p->root_first[k] != n)
            return fail(E_PLAN, "plan: root %d cannot begin at shard %d of the list", (int)k, (int)p->root_first[k]);
        if (p->overwrites[k] && r->overwrites_leaf < 0)
            return fail(E_PLAN, "plan: root %d is marked as overwriting a leaf, but has no leaf to overwrite", (int)k);
        if (p->shared[k] != (r->ref.kind == REF_NODE && v->shares[r->ref.index]))
            return fail(E_PLAN,
                        "plan: replicas of root %d share a buffer in the plan but not in the program, or the reverse",
                        (int)k);
        for (int32_t own = 0; own < mine->n; own++)
            TRY(check_part(&p->root_part[n + own], "root", k, mine->pos[own], l, &t, r->join ? p->pieces : 1));
        n += mine->n;
    }
    return 0;
}

/* ---- fields of single tasks ---- */

static bool
is_kind(const struct task_kind *k)
{
    static const struct task_kind *const all[] = {
#define KIND(name) &kind_##name,
#include "actors/plan/model/kinds.def"
#undef KIND
    };
    for (size_t i = 0; i < countof(all); i++)
        if (all[i] == k) return true;
    return false;
}

/* Returns true if the plan's list of moves contains the task's move. Skips the search if the previous task belongs
 * to the same move, because that task has been checked. */
static bool
is_move(const struct plan *p, int32_t i)
{
    const struct plan_move *of = p->task[i].move.of;
    bool known = i > 0 && p->task[i - 1].kind->flags & (KIND_COLLECTS | KIND_P2P) && p->task[i - 1].move.of == of;
    for (int32_t k = 0; k < p->nmove && !known; k++) known = p->move[k] == of;
    return known;
}

/* Checks those fields of a point-to-point link's end that other checks assume to be valid. verify_send.c proves that
 * the link connects the right devices. */
static int
check_end(const struct proof *v, int32_t i)
{
    const struct plan *p = v->plan;
    const struct task *t = &p->task[i];
    const struct move_comm_rank *own = t->move.member;
    if (!own || !own->in || own->in->n != 2 || !own->in->edge || own->comm_rank != !(t->kind->flags & KIND_SENDS))
        return proof_fail(v, i, "must be one end of a point-to-point link");
    if (t->channel < 0 || !p->channel[t->channel].direct)
        return proof_fail(v, i, "must have a channel that a library carries");
    if (!proof_fits(own->npack, sizeof *own->pack, &p->arena) || own->nunpack)
        return proof_fail(v, i, "must not have %d slices to pack and %d to unpack", (int)own->npack, (int)own->nunpack);
    return is_move(p, i) ? 0 : proof_fail(v, i, "belongs to a move that is not in the plan");
}

/* Checks that the partners of a collective's task exist in this partition, in order. verify_run.c and
 * verify_collective.c prove that the partners act together. */
static int
check_partners(const struct proof *v, int32_t i)
{
    const struct plan *p = v->plan;
    const struct task *t = &p->task[i];
    const struct plan_move *of = t->move.of;
    if (!is_move(p, i)) return proof_fail(v, i, "belongs to a move that is not in the plan");
    const struct place *place = of->to->place;
    int32_t n = place->nrank, first;
    if (!of->by || !t->move.member || !t->move.member->in || t->pos < 0 || t->pos >= n || of->by->size < 2 ||
        of->by->size > n)
        return proof_fail(v, i, "must have a rank in a collective");
    collective_comm_rank(of->by, place, t->pos, &first);
    for (int32_t k = 0, before = -1; k < of->by->size; k++) {
        int32_t at = comm_ranks_partner(p, i, k), pos = collective_pos(of->by, place, first, k);
        bool here = pos >= 0 && pos < n && local_set_memory(&v->mines, place->kind, place->rank[pos]) == p->memory;
        if (here ? at <= before : at >= 0)
            return proof_fail(v, i, "its partner at rank %d of the collective is missing or out of order", (int)k);
        if (here) before = at;
    }
    return 0;
}

static int
check_kind(const struct proof *v, int32_t i)
{
    const struct plan *p = v->plan;
    const struct task *t = &p->task[i];
    if (!is_kind(t->kind)) return fail(E_PLAN, "plan: task %d has an unknown kind", (int)i);
    if (t->device < 0 || t->device >= p->ndevice)
        return fail(E_PLAN, "plan: task %d runs on device %d, which does not exist", (int)i, t->device);
    TRY(proof_same(v, i, "thread", t->thread, p->device[t->device].thread));
    unsigned has = t->kind->flags;
    bool single = !(has & (KIND_MOVE | KIND_NODE | KIND_ORDER));
    if (!t->exec == !!(has & KIND_EXEC) || !t->source == single || (has & KIND_MOVE && !t->move.of))
        return proof_fail(v, i, "kind %s: the kernel, source view or move is missing, or one too many is present",
                          t->kind->name);
    if (t->node < (has & KIND_NODE ? 0 : -1) || t->node >= p->program->nnode)
        return proof_fail(v, i, "node %d does not exist", (int)t->node);
    if (t->channel < -1 || t->channel >= p->nchannel || (t->channel >= 0 && p->channel[t->channel].task != i) ||
        (t->channel >= 0 && !(has & KIND_FAR)))
        return proof_fail(v, i, "channel %d does not exist or does not belong to the task", (int)t->channel);
    if (t->phase > PHASE_BATCH) return proof_fail(v, i, "phase %d does not exist", t->phase);
    if (has & KIND_P2P) return check_end(v, i);
    if (t->channel >= 0 && p->channel[t->channel].direct)
        return proof_fail(v, i, "has a channel that a library carries, but is not an end of a point-to-point link");
    return has & KIND_COLLECTS ? check_partners(v, i) : 0;
}

static int
check_counts(const struct proof *v, int32_t i)
{
    const struct plan *p = v->plan;
    const struct task *t = &p->task[i];
    bool node = t->kind->flags & KIND_NODE;
    int32_t nresult = t->kind->flags & (KIND_ORDER | KIND_SENDS) ? 0 : 1;
    if (node) nresult = t->chain ? t->chain->nout : p->program->node[t->node].nout;
    if (t->kind->flags & KIND_COLLECTS) nresult = comm_rank_nresult(t->move.member);
    if (t->kind->flags & KIND_P2P && t->kind->flags & KIND_SENDS) nresult = t->move.member->npack > 0;
    TRY(proof_same(v, i, "number of results", t->nresult, nresult));
    if (t->nout < nresult || t->nout > nresult + MOST_BEYOND)
        return proof_fail(v, i, "the number of outputs must be from %d to %d, found %d", (int)nresult,
                          (int)nresult + MOST_BEYOND, (int)t->nout);
    if (t->nact != 1 && t->nact != p->pieces)
        return proof_fail(v, i, "the number of acts must be 1 or %d, the number of micro-batches, found %d",
                          (int)p->pieces, (int)t->nact);
    if (!proof_fits(t->nin, sizeof(struct in_port), &p->arena))
        return proof_fail(v, i,
                          "the number of in-ports must be at least 0 and fit into the memory of the plan, found %d",
                          (int)t->nin);
    if (!proof_fits(t->narg, sizeof(struct arg), &p->arena))
        return proof_fail(v, i,
                          "the number of arguments must be at least 0 and fit into the memory of the plan, found %d",
                          (int)t->narg);
    if (node && t->narg > MOST_ARGS)
        return proof_fail(v, i, "the number of arguments must be at most %d, found %d", MOST_ARGS, (int)t->narg);
    if (task_hop(t) && !proof_fits(t->move.nstep, sizeof(struct box_move), &p->arena))
        return proof_fail(v, i, "the number of steps must be at least 0 and fit into the memory of the plan, found %d",
                          (int)t->move.nstep);
    return 0;
}

/* ---- ports, fans and readers ---- */

/* Checks a result that has no register of its own, because several tasks fill slices of one shard. Such a result is
 * stored in the register of the first task that fills the shard, and both must have the same size. A plan with
 * micro-batches must have no such results. */
static int
check_alias(const struct proof *v, int32_t i, int32_t k)
{
    const struct plan *p = v->plan;
    const struct out_port *o = &p->task[i].out[k];
    int32_t index = o->where.index;
    if (index < 0 || index >= i || p->pieces > 1)
        return proof_fail(v, i, "its result must not be stored in the register of task %d", (int)index);
    const struct task *h = &p->task[index];
    bool first = h->kind->flags & KIND_WRITES && h->out[0].where.kind == IN_ARENA && h->out[0].shared;
    if (!first || h->out[0].bytes != o->bytes || !(p->task[i].kind->flags & KIND_ALIAS) || o->shared ||
        o->where.offset || o->where.stride)
        return proof_fail(v, i, "its result does not fit the register of result 0 of task %d", (int)index);
    return 0;
}

/* Checks the location of a result in a root's buffer (root_part). The registers must be contiguous. They must
 * begin at the start of the buffer or, if replicas share the buffer, at the slice that this rank writes. */
static int
check_in_root(const struct proof *v, int32_t i, const struct out_port *o)
{
    const struct plan *p = v->plan;
    if (o->where.index < 0 || o->where.index >= p->nroot_part)
        return proof_fail(v, i, "root shard %d does not exist", (int)o->where.index);
    const struct plan_part *part = &p->root_part[o->where.index];
    struct ref r = p->program->root[part->index].ref;
    struct type t = ref_type(p->program, r);
    int64_t offset = p->shared[part->index] ? shared_update_offset(ref_layout(p->program, r), &t, part->pos) : 0;
    TRY(proof_same(v, i, "offset in the root's buffer", o->where.offset, offset));
    return proof_same(v, i, "distance of registers in the root's buffer", o->where.stride, o->bytes);
}

/* Checks that every act has an offset, if the result has per-act offsets. Acts share an offset only if their numbers
 * differ by a multiple of nact_offset. */
static int
check_berths(const struct proof *v, int32_t i, int32_t k)
{
    const struct plan *p = v->plan;
    const struct out_port *o = &p->task[i].out[k];
    const struct where *w = &o->where;
    int64_t scratch = p->device[w->index].scratch;
    bool again = o->every == 1 && p->task[i].nact > 1 && p->task[i].nact == p->pieces;
    if (!again || o->shared || w->nact_offset > p->pieces || w->nact_offset != p->device[w->index].nact_offset ||
        !w->berth || !proof_fits(w->nact_offset, sizeof *w->berth, &p->arena))
        return proof_fail(v, i, "result %d must not have %d per-act offsets", (int)k, (int)w->nact_offset);
    for (int32_t b = 0; b < w->nact_offset; b++)
        if (w->berth[b] < 0 || w->berth[b] % ALIGN || w->berth[b] > scratch || o->bytes > scratch - w->berth[b])
            return proof_fail(
                v, i,
                "result %d: per-act offset %d, with %lld bytes at %lld, is outside of the %lld bytes for registers",
                (int)k, (int)b, (long long)o->bytes, (long long)w->berth[b], (long long)scratch);
    TRY(proof_same(v, i, "offset of a result with per-act offsets", w->offset, w->berth[0]));
    return proof_same(v, i, "stride of a result with per-act offsets", w->stride, where_stride(o->bytes));
}

static int
check_in_arena(const struct proof *v, int32_t i, int32_t k)
{
    const struct task *t = &v->plan->task[i];
    const struct out_port *o = &t->out[k];
    const struct where *w = &o->where;
    int64_t all, each = o->bytes + (ALIGN - 1);
    const struct prog_node *brings = task_fetches(v->plan, t);
    bool carried = (t->kind->flags & KIND_CARRIES || brings) && w->index >= 0 && w->index < v->plan->ndevice;
    if (!carried) TRY(proof_same(v, i, "device that stores the result", w->index, t->device));
    const struct plan_device *d = &v->plan->device[w->index];
    if (w->nact_offset) return check_berths(v, i, k);
    if (w->offset < 0 || w->offset % ALIGN || w->offset > d->scratch || each > d->scratch + (ALIGN - 1) ||
        w->stride < (each & ~(int64_t)(ALIGN - 1)) || w->stride % ALIGN ||
        __builtin_mul_overflow(w->stride, (int64_t)o->nreg - 1, &all) || all > d->scratch - w->offset ||
        (each & ~(int64_t)(ALIGN - 1)) > d->scratch - w->offset - all)
        return proof_fail(v, i,
                          "result %d: %d registers of %lld bytes at %lld are outside of the %lld bytes for registers",
                          (int)k, (int)o->nreg, (long long)o->bytes, (long long)w->offset, (long long)d->scratch);
    return 0;
}

/* Checks a control or credit output, that is, an out-port listed after the task's results: its size must be 0. A
 * task may have one control output, which orders other tasks; the other outputs carry credits. */
static int
check_beyond(const struct proof *v, int32_t i, int32_t k)
{
    const struct task *t = &v->plan->task[i];
    const struct out_port *o = &t->out[k];
    for (int32_t j = t->nresult; j < k; j++)
        if (t->out[j].control && o->control)
            return proof_fail(v, i, "output %d is a second control output; only one is allowed", (int)k);
    TRY(proof_same(v, i, "location of a control or credit output", o->where.kind, NOWHERE));
    TRY(proof_same(v, i, "number of per-act offsets of a control or credit output", o->where.nact_offset, 0));
    TRY(proof_same(v, i, "number of acts per message of a control or credit output", o->every, 1));
    return proof_same(v, i, "size of a control or credit output", o->bytes, 0);
}

static int
check_out(const struct proof *v, int32_t i, int32_t k)
{
    const struct plan *p = v->plan;
    const struct task *t = &p->task[i];
    const struct out_port *o = &t->out[k];
    if (k < t->nresult) TRY(proof_same(v, i, "control flag of a result", o->control, false));
    if (k >= t->nresult) TRY(check_beyond(v, i, k));
    if (o->every < 1 || t->nact % o->every)
        return proof_fail(v, i, "the acts per result of an output must divide the %d acts of a run, found %d",
                          (int)t->nact, (int)o->every);
    int32_t most =
        o->control ? 1 : t->nact / o->every; /* a control output has one token per act, for which its readers wait */
    if (o->nreg < 1 || o->nreg > most)
        return proof_fail(v, i, "the number of registers must be from 1 to %d, found %d", (int)most, (int)o->nreg);
    TRY(proof_same(v, i, "flag \"fills each register once per run\"", o->once,
                   o->control || t->nact / o->every <= o->nreg));
    if (o->nfan < 0 || o->nfan > p->nthread)
        return proof_fail(v, i, "the number of fans must be from 0 to %d, found %d", (int)p->nthread, (int)o->nfan);
    if (k >= t->nresult) return 0;
    if (o->bytes < 0 || o->bytes > INT64_MAX - ALIGN)
        return proof_fail(v, i, "the size of a register must be from 0 to %lld bytes, found %lld",
                          (long long)(INT64_MAX - ALIGN), (long long)o->bytes);
    if (o->where.kind != IN_ARENA)
        TRY(proof_same(v, i, "number of per-act offsets of a result outside of an arena", o->where.nact_offset, 0));
    switch (o->where.kind) {
    case IN_ARENA: return check_in_arena(v, i, k);
    case IN_ROOT: return check_in_root(v, i, o);
    case IN_TASK: return check_alias(v, i, k);
    default: return proof_fail(v, i, "result %d has no location", (int)k);
    }
}

/* Copies those facts about the two ends of each edge that later proofs need. */
static void
list_ends(struct proof *v)
{
    const struct plan *p = v->plan;
    int64_t nin = v->first_in[p->ntask], nout = v->first_out[p->ntask], in = 0;
    struct arena *a = &v->tmp;
    v->thread = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    v->nact = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    v->inlet = ARENA_ARRAY(a, struct inlet, nin + 1);
    v->from = ARENA_ARRAY(a, int32_t, nin + 1);
    v->nreg = ARENA_ARRAY(a, int32_t, nout + 1);
    v->made = ARENA_ARRAY(a, int32_t, nout + 1);
    v->first_reader = ARENA_ARRAY(a, int64_t, nout + 1);
    v->reader = ARENA_ARRAY(a, struct reader, nin + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        v->thread[i] = t->thread;
        v->nact[i] = t->nact;
        for (int32_t k = 0; k < t->nin; k++, in++) {
            v->inlet[in] = (struct inlet){t->in[k].task, t->in[k].out, t->in[k].fan, t->in[k].token};
            v->from[in] = t->in[k].task;
        }
    }
}

/* Checks that the readers in a fan are in-ports that refer to this fan. seen: marks the in-ports found so far,
 * because an in-port must occur only once. *n: number of readers so far. */
static int
check_fan_seen(const struct proof *v, int32_t i, int32_t k, int32_t f, bool *seen, int64_t *n)
{
    const struct plan *p = v->plan;
    const struct out_port *o = &p->task[i].out[k];
    const struct fan *fan = &o->fan[f];
    if (fan->thread < 0 || fan->thread >= p->nthread)
        return proof_fail(v, i, "an output has readers on thread %d, which does not exist", (int)fan->thread);
    for (int32_t g = 0; g < f; g++)
        if (o->fan[g].thread == fan->thread)
            return proof_fail(v, i, "an output has two lists of readers on thread %d; expected one list per thread",
                              (int)fan->thread);
    if (fan->nreader < 1 || !proof_fits(fan->nreader, sizeof(struct reader), &p->arena))
        return proof_fail(v, i,
                          "the list of an output's readers on a thread must have at least 1 entry and fit into the "
                          "memory of the plan, found %d",
                          (int)fan->nreader);
    for (int32_t r = 0; r < fan->nreader; r++) {
        const struct reader *to = &fan->reader[r];
        if (to->task <= i || to->task >= p->ntask || to->port < 0 ||
            to->port >= v->first_in[to->task + 1] - v->first_in[to->task])
            return proof_fail(v, i, "in-port %d of task %d cannot be a reader", (int)to->port, (int)to->task);
        TRY(proof_same(v, i, "thread of a reader", v->thread[to->task], fan->thread));
        bool *mark = &seen[v->first_in[to->task] + to->port];
        const struct inlet *in = &v->inlet[v->first_in[to->task] + to->port];
        if (*mark || in->task != i || in->out != k || in->fan != f)
            return proof_fail(v, i, "in-port %d of task %d is listed as a reader, but does not read result %d",
                              (int)to->port, (int)to->task, (int)k);
        *mark = true;
        v->reader[(*n)++] = *to;
    }
    return 0;
}

static int
check_edges(struct proof *v)
{
    const struct plan *p = v->plan;
    int64_t out = 0, n = 0;
    bool *seen = ARENA_ARRAY(&v->tmp, bool, v->first_in[p->ntask] + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; k++) {
            const struct out_port *o = &p->task[i].out[k];
            TRY(check_out(v, i, k));
            v->nreg[out] = o->control ? 0 : o->nreg;
            v->made[out] = o->control ? v->nact[i] : v->nact[i] / o->every;
            for (int32_t f = 0; f < o->nfan; f++) TRY(check_fan_seen(v, i, k, f, seen, &n));
            v->first_reader[++out] = n;
        }
    for (int32_t i = 0; i < p->ntask; i++)
        for (int64_t k = v->first_in[i]; k < v->first_in[i + 1]; k++)
            if (!seen[k])
                return proof_fail(v, i, "in-port %d is not among the readers of any output", (int)(k - v->first_in[i]));
    return 0;
}

/* Checks that the producer of an edge publishes as many tokens per run as the reader uses. */
static int
check_rate(const struct proof *v, int32_t i, int32_t k)
{
    const struct task *t = &v->plan->task[i];
    const struct in_port *in = &t->in[k];
    int64_t o = v->first_out[in->task] + in->out;
    if (in->hold < 1 || t->nact % in->hold)
        return proof_fail(v, i, "in-port %d: a register cannot be held for %d acts", (int)k, (int)in->hold);
    if (in->need < 1 || (v->nreg[o] && in->need > 1))
        return proof_fail(v, i, "in-port %d: an act cannot need %d tokens", (int)k, (int)in->need);
    int64_t made = v->made[o], taken = (int64_t)(t->nact / in->hold) * in->need;
    if (made != taken)
        return proof_fail(v, i, "in-port %d takes %lld tokens per run from task %d, which makes %lld", (int)k,
                          (long long)taken, (int)in->task, (long long)made);
    return 0;
}

/* ---- task lists of threads ---- */

static int
check_locals(const struct proof *v)
{
    const struct plan *p = v->plan;
    int64_t all = 0;
    for (int32_t t = 0; t < p->nthread; t++) {
        if (p->nlocal[t] < 0 || p->nlocal[t] > p->ntask)
            return fail(E_PLAN, "plan: thread %d cannot have %d tasks", (int)t, (int)p->nlocal[t]);
        all += p->nlocal[t];
    }
    if (all != p->ntask)
        return fail(E_PLAN, "plan: found %d tasks, but %lld in the lists of threads", (int)p->ntask, (long long)all);
    for (int32_t t = 0; t < p->nthread; t++) {
        int64_t nact = 0;
        int32_t last = -1;
        for (int32_t i = 0; i < p->nlocal[t]; i++) {
            int32_t task = p->local[t][i];
            if (task <= last || task >= p->ntask || p->task[task].thread != t)
                return fail(E_PLAN, "plan: thread %d must not list task %d here", (int)t, (int)task);
            nact += p->task[task].nact;
            last = task;
        }
        if (nact != p->nact[t])
            return fail(E_PLAN, "plan: thread %d has %lld acts, but its tasks have %lld", (int)t, (long long)p->nact[t],
                        (long long)nact);
    }
    return 0;
}

/* ---- the complete proof ---- */

static int
check_frame(struct proof *v)
{
    const struct plan *p = v->plan;
    const struct program *g = p->program;
    if (p->pieces != g->pieces)
        return fail(E_PLAN, "plan: found %d micro-batches, expected the program's %d", (int)p->pieces, (int)g->pieces);
    TRY(check_devices(v));
    TRY(check_plan_leaves(p, &v->mines));
    v->shares = shared_update_nodes(g, &v->tmp);
    v->checks = program_checks(g, &v->tmp);
    TRY(check_proof_roots(v));
    if (!proof_fits(p->ntask, sizeof(struct task), &p->arena))
        return fail(E_PLAN,
                    "plan: the number of tasks must be at least 0 and fit into the memory of the plan, found %d",
                    (int)p->ntask);
    if (!proof_fits(p->nmove, sizeof(struct plan_move *), &p->arena))
        return fail(E_PLAN,
                    "plan: the number of moves must be at least 0 and fit into the memory of the plan, found %d",
                    (int)p->nmove);
    return 0;
}

static int
check_tasks(struct proof *v)
{
    const struct plan *p = v->plan;
    int32_t ntask = 0;
    for (int32_t t = 0; t < p->nthread; t++) ntask += p->nlocal[t];
    if (ntask != p->ntask)
        return fail(E_PLAN, "plan: found %d tasks, but %d in the lists of threads", (int)p->ntask, (int)ntask);
    v->first_in = ARENA_ARRAY(&v->tmp, int64_t, p->ntask + 1);
    v->first_out = ARENA_ARRAY(&v->tmp, int64_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        TRY(check_kind(v, i));
        TRY(check_counts(v, i));
        v->first_in[i + 1] = v->first_in[i] + p->task[i].nin;
        v->first_out[i + 1] = v->first_out[i] + p->task[i].nout;
    }
    if (!proof_fits(v->first_in[p->ntask], sizeof(struct in_port), &p->arena))
        return fail(E_PLAN, "plan: too many ports");
    TRY(check_locals(v));
    list_ends(v);
    TRY(check_edges(v));
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) TRY(check_rate(v, i, k));
    return 0;
}

static int
prove(struct proof *v)
{
    TRY(prove_program(v));
    TRY(check_frame(v));
    TRY(check_tasks(v));
    TRY(prove_syncs(v));
    TRY(prove_run(v));
    TRY(prove_channels(v));
    TRY(prove_values(v));
    TRY(prove_credits(v));
    return prove_memory(v);
}

int
plan_verify(const struct plan *p)
{
    struct proof v = {.plan = p};
    local_set_init(&v.mines, p->program->map, &v.tmp);
    int status = prove(&v);
    arena_fini(&v.tmp);
    return status;
}
