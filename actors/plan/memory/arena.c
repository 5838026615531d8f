/* arena.c - chooses offsets of registers in device arenas, and adds the control edges that sharing of memory
 * requires.
 *
 * A live range is a result with its registers. Two live ranges may share bytes if one is no longer needed when the
 * other is written. If existing edges do not guarantee that order, a control edge is added. The list of tasks is a
 * valid execution order, so a live range lasts from its writer to its last reader in the list.
 *
 * In a program with micro-batches, results made per micro-batch are rewritten in each period. Tasks of one group
 * (credit.c) process one micro-batch at a time. So live ranges of a group that have one register share bytes like
 * live ranges in a run of one micro-batch. The last live range of a period must be read before the first live range of
 * the next period is written. An edge with one credit enforces this order: the writer of the first live range waits for
 * the readers of the last live range. Such an edge closes no cycle, because it makes a task wait only for tasks on
 * an earlier micro-batch. A stage that keeps results of several micro-batches has one slot ("room", stage_slot.h)
 * for each micro-batch. A slot is packed like a run of one micro-batch. Short-lived results may also have a register
 * in each slot, in gaps, if that takes fewer bytes. Credits ensure that a slot is reused only after its micro-batch
 * has left. All groups and slots are live at the same time. A result made once per batch may share bytes with
 * results that the first micro-batch has not written yet, or that the last micro-batch has read already.
 *
 * Devices with equal live ranges are packed once. */
#include "actors/plan/memory/arena.h"
#include "actors/plan/lower/order.h"
#include "actors/plan/lower/draft.h"
#include "actors/plan/lower/credit.h"
#include "actors/plan/memory/sizes.h"

#include "actors/plan/memory/pack.h"
#include "actors/plan/memory/stage_slot.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>
#include <string.h>

/* A reuse of memory: live range b gets bytes of live range a, in the same period (next_period false) or in the
 * next. */
struct pair {
    int32_t a, b;
    bool next_period;
};

struct live_range {
    int32_t task, out;
    int32_t last; /* the result's last reader in the list; without readers, its writer */
};

struct memory {
    struct lower *l;
    /* index of the live range of each result, -1: none; results of a task start at l->first_out[task] */
    int32_t *of;
    struct live_range *live_range;  /* live ranges, sorted by device, then by task */
    int32_t *first;                 /* by device: index of its first live range */
    int32_t *first_task, *task;     /* by device: tasks whose results it stores, in list order */
    int32_t *first_reader, *reader; /* by live range: readers, in list order */
    int32_t *next_writer;           /* by task: next task that fills the same register (shared_shard.c); -1: none */
    /* by task, in the device's task list. kernel[0]: position of the last kernel before the task; kernel[1]:
     * position of the first kernel after it. For a kernel, its own position */
    int32_t *kernel[2];
    /* met[t] is x if task x reads a result of task t, directly or through moves; meets: the task x for which this
     * was computed last; -1: none */
    int32_t *met, meets;
    bool *late; /* by task: true if it runs once per batch, after the last micro-batch */
    /* by task: true if the task runs once per batch, before tasks that run per micro-batch and depend on it */
    bool *wanted;
    bool *frugal; /* by stage: true if backward recomputes or fetches values */
    /* An item is the memory of one live range. item: items of the current device; packed: items of the device that
     * was packed last */
    struct item *item, *packed;
    /* nitem: length of `item`; npacked: length of `packed`; period: number of the device's tasks, which run once
     * per period (micro-batch) */
    int32_t nitem, npacked, period;
    struct room *room; /* by stage: its slots */
    struct stage_slots *rooms;
    int64_t bytes;
    struct pair *pair;
    int32_t npair, pair_capacity;
};

/* ---- live ranges ---- */

static bool
shares_arena(const struct out_port *o)
{
    return o->where.kind == IN_ARENA;
}

/* Returns the device whose memory stores the draft's results. */
static int32_t
holder(const struct draft *d)
{
    return d->nout && shares_arena(&d->out[0]) ? d->out[0].where.index : d->task.device;
}

/* Converts counts at first[d + 1] to start indices at first[d], for d <= n (prefix sum). */
static void
prefix_sums(int32_t *first, int32_t n)
{
    for (int32_t d = 0; d < n; d++) first[d + 1] += first[d];
}

static void
list_arena_live_ranges(struct memory *m)
{
    struct lower *l = m->l;
    struct arena *a = &l->pass;
    int32_t ndevice = l->plan->ndevice, nout = 0;
    l->first_out = ARENA_ARRAY(&l->tmp, int32_t, l->ndraft + 1);
    m->first = ARENA_ARRAY(a, int32_t, ndevice + 1);
    m->first_task = ARENA_ARRAY(a, int32_t, ndevice + 1);
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct draft *d = &l->draft[i];
        l->first_out[i] = nout;
        nout += d->nout;
        m->first_task[holder(d) + 1]++;
        for (int k = 0; k < d->nout; k++) m->first[holder(d) + 1] += shares_arena(&d->out[k]);
    }
    prefix_sums(m->first, ndevice);
    prefix_sums(m->first_task, ndevice);
    m->live_range = ARENA_ARRAY(a, struct live_range, m->first[ndevice] + 1);
    m->of = ARENA_ARRAY(a, int32_t, nout + 1);
    l->asked = ARENA_ARRAY(&l->tmp, int32_t, nout + 1);
    m->task = ARENA_ARRAY(a, int32_t, l->ndraft + 1);
    int32_t *next = arena_dup(a, m->first, sizeof *next * (size_t)(ndevice + 1));
    int32_t *next_task = arena_dup(a, m->first_task, sizeof *next * (size_t)(ndevice + 1));
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct draft *d = &l->draft[i];
        m->task[next_task[holder(d)]++] = i;
        for (int k = 0; k < d->nout; k++) {
            int32_t *of = &m->of[l->first_out[i] + k];
            *of = shares_arena(&d->out[k]) ? next[holder(d)]++ : -1;
            if (*of >= 0) m->live_range[*of] = (struct live_range){.task = i, .out = k, .last = i};
        }
    }
}

/* Returns the live range that an edge reads; -1: none, because the result is not stored in an arena. */
static int32_t
read_by(const struct memory *m, const struct edge *e)
{
    const struct where *w = &m->l->draft[e->task].out[e->out].where;
    const int32_t *first_out = m->l->first_out;
    return m->of[w->kind == IN_TASK ? first_out[w->index] : first_out[e->task] + e->out];
}

/* Lists the readers of each live range, each once. If several tasks fill one register, a reader has an edge from
 * each of these tasks. */
static void
next_reader(struct memory *m, int32_t *next, int32_t *reader)
{
    const struct lower *l = m->l;
    for (int32_t t = 0; t < m->first[l->plan->ndevice]; t++) m->live_range[t].last = m->live_range[t].task;
    for (int32_t i = 0; i < l->ndraft; i++)
        for (const struct edge *e = l->draft[i].in; e; e = e->next) {
            int32_t t = read_by(m, e);
            if (t < 0) continue;
            if (m->live_range[t].last == i) continue;
            m->live_range[t].last = i;
            int32_t at = next[t]++;
            if (reader) reader[at] = i;
        }
}

static void
arena_list_readers(struct memory *m)
{
    struct arena *a = &m->l->pass;
    int32_t n = m->first[m->l->plan->ndevice];
    m->first_reader = ARENA_ARRAY(a, int32_t, n + 2);
    next_reader(m, m->first_reader + 1, NULL);
    prefix_sums(m->first_reader, n);
    int32_t *next = arena_dup(a, m->first_reader, sizeof *next * (size_t)(n + 1));
    m->reader = ARENA_ARRAY(a, int32_t, m->first_reader[n] + 1);
    next_reader(m, next, m->reader);
}

/* Assigns a register that several tasks fill to the first of these tasks, and links the tasks (next_writer). */
static void
list_task_writers(struct memory *m)
{
    const struct lower *l = m->l;
    m->next_writer = ARENA_ARRAY(&m->l->pass, int32_t, l->ndraft + 1);
    int32_t *last = ARENA_ARRAY(&m->l->pass, int32_t, l->ndraft + 1);
    for (int32_t i = 0; i < l->ndraft; i++) {
        m->next_writer[i] = -1;
        last[i] = i;
        const struct draft *d = &l->draft[i];
        if (!(d->task.kind->flags & KIND_WRITES) || d->nout == 0 || d->out[0].where.kind != IN_TASK) continue;
        int32_t alias_task = d->out[0].where.index;
        m->next_writer[last[alias_task]] = i;
        last[alias_task] = i;
    }
}

/* Marks tasks that wait for the last micro-batch: tasks that read a sum over micro-batches or need tokens of
 * several acts, and tasks that follow such a task. */
static void
arena_find_late(struct memory *m)
{
    const struct lower *l = m->l;
    m->late = ARENA_ARRAY(&m->l->pass, bool, l->ndraft + 1);
    for (int32_t c = 0; c < l->nchannel; c++) m->late[l->channel[c].task] = l->channel[c].late;
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct task *t = &l->draft[i].task;
        m->late[i] = m->late[i] || (t->kind->flags & KIND_COLLECTS && t->move.of->late);
        for (const struct edge *e = l->draft[i].in; e; e = e->next) {
            const struct out_port *o = &l->draft[e->task].out[e->out];
            m->late[i] = m->late[i] || m->late[e->task] || e->need > 1 || (!o->control && o->every > 1);
        }
    }
}

/* Marks tasks that run once and for which tasks of micro-batches wait. The result of a marked task must not get
 * bytes that micro-batches have to release. Otherwise, if credits are few, the first micro-batch would wait for the
 * last. */
static void
find_wanted(struct memory *m)
{
    struct lower *l = m->l;
    m->wanted = ARENA_ARRAY(&l->pass, bool, l->ndraft + 1);
    for (int32_t i = l->ndraft - 1; i >= 0; i--)
        for (const struct edge *e = l->draft[i].in; e; e = e->next)
            if (!m->late[e->task] && (m->wanted[i] || l->draft[i].task.nact > l->draft[e->task].task.nact))
                m->wanted[e->task] = true;
}

/* Marks stages that hold few values because backward recomputes or fetches them. */
static void
find_frugal(struct memory *m)
{
    const struct program *p = m->l->program;
    const struct stages *s = &m->l->outline->stages;
    m->frugal = ARENA_ARRAY(&m->l->pass, bool, s->n + 1);
    for (int32_t i = 0; i < p->nnode; i++)
        if (p->node[i].recompute || p->node[i].again) m->frugal[s->stage[i]] = true;
}

/* Finds the kernels before and after each task. If a device does not run moves on streams of their own, every task
 * counts as a kernel. */
static void
find_kernels(struct memory *m)
{
    struct lower *l = m->l;
    for (int back = 0; back <= 1; back++) m->kernel[back] = ARENA_ARRAY(&l->pass, int32_t, l->ndraft + 1);
    for (int32_t d = 0; d < l->plan->ndevice; d++) {
        int32_t first = m->first_task[d], n = m->first_task[d + 1] - first, before = 0, behind = n - 1;
        bool streams = device_kind(l->plan->device[d].kind)->flags & ROLES;
        for (int32_t i = 0; i < n; i++) {
            unsigned flags = l->draft[m->task[first + i]].task.kind->flags;
            if (!streams || (flags & KIND_WRITES && !(flags & KIND_MOVE))) before = i;
            m->kernel[0][first + i] = before;
        }
        for (int32_t i = n - 1; i >= 0; i--) {
            if (m->kernel[0][first + i] == i) behind = i;
            m->kernel[1][first + i] = behind;
        }
    }
    m->met = ARENA_ARRAY(&l->pass, int32_t, l->ndraft + 1);
    for (int32_t i = 0; i < l->ndraft; i++) m->met[i] = -1;
    m->meets = -1;
}

/* ---- items ---- */

/* Returns the index of a task among the device's tasks. */
static int32_t
arena_position(const struct memory *m, int32_t device, int32_t task)
{
    int32_t lo = m->first_task[device], hi = m->first_task[device + 1];
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (m->task[mid] <= task)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo - m->first_task[device] - 1;
}

/* Returns true if the task certainly precedes all micro-batches: it runs once, depends on no task of a micro-batch,
 * and tasks of micro-batches need it. With several partitions the last condition is left out, because a partition
 * does not know what other partitions need. */
static bool
comes_early(const struct memory *m, int32_t task)
{
    const struct draft *d = &m->l->draft[task];
    return !d->piece && !m->late[task] && (m->wanted[task] || m->l->plan->nmemory > 1);
}

/* Returns true if all readers of a live range precede all micro-batches. */
static bool
goes_early(const struct memory *m, const struct live_range *t)
{
    int32_t of = (int32_t)(t - m->live_range);
    for (int32_t i = m->first_reader[of]; i < m->first_reader[of + 1]; i++)
        if (!comes_early(m, m->reader[i])) return false;
    return true;
}

/* Sets it->waits and it->abroad: whether readers may run out of list order. These are weight gradients, which may
 * be delayed, and backward tasks of other stages. */
static void
note_users(const struct memory *m, const struct live_range *t, struct item *it)
{
    const struct draft *draft = m->l->draft;
    int32_t of = (int32_t)(t - m->live_range);
    it->waits = it->phase == PHASE_WEIGHT;
    for (int32_t i = m->first_reader[of]; i < m->first_reader[of + 1]; i++) {
        const struct task *reader = &draft[m->reader[i]].task;
        it->waits = it->waits || reader->phase == PHASE_WEIGHT;
        it->abroad = it->abroad || (reader->stage != it->stage && reader->phase != PHASE_FORWARD);
    }
    it->waits = it->waits && !m->l->outline->stages.joint[it->stage];
}

/* Marks the tasks whose results `task` reads directly, or through at most MOVE_TASKS consecutive moves on the same
 * device. Ignores control edges, because earlier memory sharing may have added them, and devices with equal tasks
 * should get equal arenas. */
static void
mark_waits(struct memory *m, int32_t task, int depth)
{
    const struct draft *draft = m->l->draft;
    for (const struct edge *e = draft[task].in; e; e = e->next) {
        const struct draft *from = &draft[e->task];
        if (from->out[e->out].control) continue;
        m->met[e->task] = m->meets;
        bool goes_on = from->task.kind->flags & KIND_MOVE && from->task.device == draft[m->meets].task.device;
        if (depth > 1 && goes_on) mark_waits(m, e->task, depth - 1);
    }
}

static bool
arena_waits_for(struct memory *m, int32_t task, int32_t other)
{
    /* number of consecutive tasks that one move may have: the first fills a stage buffer, the second a shard, the
     * third joins a shared shard */
    enum { MOVE_TASKS = 3 };
    if (m->meets != task) {
        m->meets = task;
        mark_waits(m, task, MOVE_TASKS);
    }
    return m->met[other] == task;
}

/* Returns the position of the kernel before a task of a move; behind true: of the kernel after it. If one of the
 * two depends on the other, returns the task's own position. */
static int32_t
kernel_beside(struct memory *m, int32_t device, int32_t task, int behind)
{
    int32_t first = m->first_task[device], at = arena_position(m, device, task), beside = m->kernel[behind][first + at];
    int32_t kernel = m->task[first + beside];
    if (beside == at || (behind ? arena_waits_for(m, kernel, task) : arena_waits_for(m, task, kernel))) return at;
    return beside;
}

/* Extends lifetimes on devices where moves run on streams of their own, so that a move can overlap with the kernel
 * beside it. The result of a move lives from the kernel before the move on, and the operand lives until the kernel
 * after the move. Otherwise both could have the same bytes, and the move would wait for the kernel. Example: panel
 * k + 1 of a product arrives in the bytes of panel k - 1 while panel k is multiplied. If the kernel and the move
 * depend on each other, they cannot overlap, and the lifetime is not extended. */
static void
leave_room_for_moves(struct memory *m, int32_t device, const struct live_range *t, struct item *it)
{
    const struct draft *draft = m->l->draft;
    int32_t of = (int32_t)(t - m->live_range);
    if (draft[t->task].task.kind->flags & KIND_MOVE) it->first = MIN(it->first, kernel_beside(m, device, t->task, 0));
    for (int32_t i = m->first_reader[of]; i < m->first_reader[of + 1]; i++)
        if (draft[m->reader[i]].task.kind->flags & KIND_MOVE)
            it->last = MAX(it->last, kernel_beside(m, device, m->reader[i], 1));
}

/* Returns the position in the task list from which on the bytes of a live range must be free. A receive by a
 * library needs its bytes from the first task of its hop on, because data may arrive from then on
 * (verify_channel.c). */
static int32_t
first_position(const struct memory *m, int32_t device, const struct live_range *t)
{
    const struct draft *draft = m->l->draft;
    int32_t hop = t->task;
    const struct task *own = &draft[t->task].task;
    if ((own->kind->flags & (KIND_P2P | KIND_SENDS)) != KIND_P2P) return arena_position(m, device, t->task);
    while (hop > 0 && draft[hop - 1].task.kind->flags & KIND_MOVE && draft[hop - 1].task.move.of == own->move.of) hop--;
    return MAX(0, arena_position(m, device, hop));
}

/* Returns the item of a live range, with its lifetime. A run is modelled by its first micro-batch and, a period
 * later, its last micro-batch. A result made per micro-batch lives from the first into the last. A result made once
 * lives in the first or in the last micro-batch, or from the first into the last. Weight gradients may be delayed
 * to the end of their micro-batch, so the bytes that they read stay reserved until then. In a stage that recomputes
 * or fetches values, weight gradients run directly after backward. */
static struct item
item_of(struct memory *m, int32_t device, const struct live_range *t)
{
    const struct draft *d = &m->l->draft[t->task];
    const struct out_port *o = &d->out[t->out];
    int32_t period = m->first_task[device + 1] - m->first_task[device];
    struct item it = {.bytes = where_stride(o->bytes),
                      .first = first_position(m, device, t),
                      .last = arena_position(m, device, t->last),
                      .asked = o->nreg,
                      .nreg = o->nreg,
                      .stage = d->task.stage,
                      .phase = d->task.phase,
                      .fixed = !(d->task.kind->flags & KIND_NODE)};
    it.stride = it.bytes;
    if (m->l->program->pieces == 1) {
        leave_room_for_moves(m, device, t, &it);
        return it;
    }
    bool early = comes_early(m, t->task);
    it.again = !draft_once(d);
    note_users(m, t, &it);
    if (it.again && it.nreg == 1) it.group = 1 + credit_group(m->l, d);
    if (it.group && it.waits && !m->frugal[it.stage]) it.last = period - 1;
    if (!d->piece && !early) it.first += period;
    if (!early || !goes_early(m, t)) it.last += period;
    return it;
}

/* Extends the life of early items into the last period if necessary. An early item lives in the first period only;
 * a late item is written in the last. If an early item is still live at the position at which a late item is
 * written, its life must not end in the first period. */
static void
hold_early(struct memory *m)
{
    int32_t period = m->period;
    int32_t late = INT32_MAX;
    for (int32_t i = 0; i < m->nitem; i++)
        if (m->item[i].first >= period) late = MIN(late, m->item[i].first - period);
    for (int32_t i = 0; i < m->nitem; i++)
        if (m->item[i].last < period && m->item[i].last >= late) m->item[i].last += period;
}

/* ---- packing the arena of one device ---- */

static int64_t
pack_device_items(struct memory *m)
{
    int32_t nstage = m->l->outline->stages.n, n = 0;
    struct pack_items p = {ARENA_ARRAY(&m->l->pass, struct pack_item, m->nitem + nstage + 1), 0, m->period, true};
    stage_slots_begin(m->rooms, m->item, m->nitem, m->period);
    for (int32_t s = 0; s < nstage; s++) {
        if (m->l->program->pieces > 1) stage_slots_find(m->rooms, s, &m->room[s]);
        const struct room *r = &m->room[s];
        if (r->nreg) p.item[p.n++] = (struct pack_item){r->nreg * r->bytes, r->first, r->last, 0, 0};
    }
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[i];
        if (!it->in_room) p.item[p.n++] = (struct pack_item){it->bytes * it->nreg, it->first, it->last, it->group, 0};
    }
    int64_t bytes = pack_offsets(&p, ARENA_ALIGN);
    for (int32_t s = 0; s < nstage; s++)
        if (m->room[s].nreg) m->room[s].offset = p.item[n++].offset;
    for (int32_t i = 0; i < m->nitem; i++) {
        struct item *it = &m->item[i];
        it->offset = it->in_room ? it->offset + m->room[it->stage].offset : p.item[n++].offset;
    }
    return bytes;
}

/* ---- finding which live ranges reuse bytes of others ---- */

static void
add_lifetime_pair(struct memory *m, int32_t a, int32_t b, bool next_period)
{
    GROW(m->pair, m->npair + 1, m->pair_capacity);
    m->pair[m->npair++] = (struct pair){a, b, next_period};
}

/* An item, and the first position of its life, by which items are sorted. */
struct written {
    int32_t first, item;
};
static int
compare_arena_times(const void *a, const void *b)
{
    const struct written *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : x->item - y->item;
}

/* State of a sweep over time. The arena is divided into sections at all offsets where items begin or end. An item
 * that begins in a section must wait for the section's previous owner. */
struct sweep {
    int64_t *cut;
    int32_t ncut;
    int32_t *owner; /* by section: its latest owner so far; -1: none */
    /* by section: first and last owner among the items that are written per micro-batch, within a period; -1: none */
    int32_t *opened, *closed;
};

static int32_t *
nobody(struct memory *m, int32_t n)
{
    int32_t *list = ARENA_ARRAY(&m->l->pass, int32_t, n + 1);
    for (int32_t i = 0; i < n; i++) list[i] = -1;
    return list;
}

static void
cut_arena(struct memory *m, struct sweep *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->nitem; i++) n += 2 * m->item[i].nreg;
    s->cut = ARENA_ARRAY(&m->l->pass, int64_t, n + 1);
    n = 0;
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[i];
        for (int32_t r = 0; r < it->nreg && it->bytes > 0; r++) {
            s->cut[n++] = it->offset + r * it->stride;
            s->cut[n++] = it->offset + r * it->stride + it->bytes;
        }
    }
    s->ncut = sorted_once64(s->cut, n);
    s->owner = nobody(m, s->ncut);
    s->opened = nobody(m, s->ncut);
    s->closed = nobody(m, s->ncut);
}

/* Makes register r of item b the owner of its sections, and adds pairs with the previous owners. Items in stage
 * slots follow each other in the same way in every slot, so pairs of such items are added for r = 0 only. */
static void
take_cuts(struct memory *m, struct sweep *s, int32_t b, int32_t r)
{
    const struct item *it = &m->item[b];
    int64_t at = it->offset + r * it->stride;
    int32_t last = -1, c = sorted_last64(s->cut, s->ncut, at);
    for (; s->cut[c] < at + it->bytes; c++) {
        int32_t a = s->owner[c];
        bool known = r > 0 && a >= 0 && it->in_room && m->item[a].in_room;
        if (a >= 0 && a != last && !known) add_lifetime_pair(m, a, b, false);
        last = a;
        s->owner[c] = b;
        if (!it->again) continue;
        s->closed[c] = b;
        if (s->opened[c] < 0) s->opened[c] = b;
    }
}

/* Adds the pairs between two periods: in each section, the first owner of the next period reuses bytes of the last
 * owner of this period. */
static void
close_periods(struct memory *m, const struct sweep *s)
{
    int32_t a = -1, b = -1;
    for (int32_t c = 0; c < s->ncut; c++) {
        bool same = s->closed[c] == a && s->opened[c] == b;
        a = s->closed[c];
        b = s->opened[c];
        if (a != b && !same) add_lifetime_pair(m, a, b, true);
    }
}

static void
find_pairs(struct memory *m)
{
    struct sweep s = {0};
    struct written *w = ARENA_ARRAY(&m->l->pass, struct written, m->nitem + 1);
    m->npair = 0;
    cut_arena(m, &s);
    for (int32_t i = 0; i < m->nitem; i++) w[i] = (struct written){m->item[i].first, i};
    qsort(w, (size_t)m->nitem, sizeof *w, compare_arena_times);
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[w[i].item];
        for (int32_t r = 0; r < it->nreg && it->bytes > 0; r++) take_cuts(m, &s, w[i].item, r);
    }
    close_periods(m, &s);
}

/* ---- order ---- */

/* Adds the order that a reuse of bytes requires: the tasks that write b run after the tasks that read a.
 * next_period: the writer of b is kept behind by a credit edge. */
static void
order_pair(const struct memory *m, const struct live_range *a, const struct live_range *b, bool next_period)
{
    const int32_t *reader = m->reader + m->first_reader[a - m->live_range], alone = a->task;
    int32_t n = m->first_reader[a - m->live_range + 1] - m->first_reader[a - m->live_range];
    if (n == 0) reader = &alone, n = 1;
    for (int32_t i = 0; next_period && i < n; i++)
        order_credit(m->l, b->task, reader[i], m->l->draft[b->task].out[b->out].nreg);
    for (int32_t w = b->task; !next_period && w >= 0; w = m->next_writer[w]) order_all(m->l, reader, n, w);
}

/* ---- all devices ---- */

/* Returns true if the current device has the same items as the device that was packed last. */
static bool
is_alike(const struct memory *m)
{
    if (m->nitem != m->npacked) return false;
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *a = &m->item[i], *b = &m->packed[i];
        if (a->bytes != b->bytes || a->first != b->first || a->last != b->last || a->asked != b->asked ||
            a->stage != b->stage || a->phase != b->phase || a->again != b->again || a->fixed != b->fixed ||
            a->waits != b->waits || a->abroad != b->abroad)
            return false;
    }
    return true;
}

static void
pack_arena_device(struct memory *m, int32_t device)
{
    const struct live_range *t = &m->live_range[m->first[device]];
    m->period = m->first_task[device + 1] - m->first_task[device];
    m->nitem = m->first[device + 1] - m->first[device];
    for (int32_t i = 0; i < m->nitem; i++) m->item[i] = item_of(m, device, &t[i]);
    hold_early(m);
    if (!is_alike(m)) {
        m->bytes = pack_device_items(m);
        find_pairs(m);
        struct item *was = m->packed;
        m->packed = m->item;
        m->npacked = m->nitem;
        m->item = was;
    }
    for (int32_t i = 0; i < m->nitem; i++) {
        struct out_port *o = &m->l->draft[t[i].task].out[t[i].out];
        m->l->asked[m->l->first_out[t[i].task] + t[i].out] = m->packed[i].asked;
        o->nreg = m->packed[i].nreg;
        o->where.offset = m->packed[i].offset;
        o->where.stride = m->packed[i].stride;
    }
    for (int32_t i = 0; i < m->npair; i++) order_pair(m, &t[m->pair[i].a], &t[m->pair[i].b], m->pair[i].next_period);
    m->l->plan->device[device].arena_bytes = m->bytes;
}

int
arena_registers(struct lower *l)
{
    struct memory m = {.l = l};
    TRY(sizes_check(l));
    list_arena_live_ranges(&m);
    arena_list_readers(&m);
    list_task_writers(&m);
    find_kernels(&m);
    arena_find_late(&m);
    find_wanted(&m);
    find_frugal(&m);
    int32_t most = 0;
    for (int32_t d = 0; d < l->plan->ndevice; d++) most = MAX(most, m.first[d + 1] - m.first[d]);
    m.room = ARENA_ARRAY(&l->pass, struct room, l->outline->stages.n + 1);
    m.item = ARENA_ARRAY(&l->pass, struct item, most + 1);
    m.rooms = stage_slots_new(l->outline, most, &l->pass);
    m.packed = ARENA_ARRAY(&l->pass, struct item, most + 1);
    for (int32_t d = 0; d < l->plan->ndevice; d++) pack_arena_device(&m, d);
    free(m.pair);
    sizes_scratch(l);
    return 0;
}
