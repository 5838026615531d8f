/* verify_shared_shard.c - proves that a shard filled by several ranks is complete: every slice is filled once, with
 * the value that the move requires.
 *
 * A shared move is a move in which the ranks of one host fill equal shards together. The tasks of a shared move are
 * adjacent in the list. For each group of equal shards there are first FILL tasks, then one JOIN task per shard. */
#include "actors/plan/verify/value/verify_shared_shard.h"
#include "actors/plan/verify/value/verify_move.h"
#include "actors/plan/verify/value/verify_part.h"

#include "runtime/base/error.h"

#include <stdlib.h>

static bool
is_box_within(const struct box *in, const struct box *out, int ndim)
{
    for (int d = 0; d < ndim; d++)
        if (in->lo[d] < out->lo[d] || in->hi[d] > out->hi[d] || in->lo[d] >= in->hi[d]) return false;
    return true;
}

/* Returns true if a step of the box plan computes the slice of m from the same sources and with the same verb as m.
 * The step must read source shards only, and no stage buffers. */
static bool
says_so(const struct box_step *s, const struct box_move *m, int ndim)
{
    for (int32_t k = 0; k < s->nsource; k++)
        if (s->source[k].stage != BOX_PART) return false;
    return s->verb == m->verb && s->reduce == m->reduce && s->nsource == m->nfrom &&
           is_box_within(m->slice, s->slice, ndim);
}

/* Returns the step of the box plan that computes the slice of m; NULL: none. Looks at the steps that fill the task's
 * shard, and at the steps that fill the stage buffer on the task's device. */
static const struct box_step *
step_for(const struct values *s, int32_t task, const struct box_move *m)
{
    const struct plan *p = s->v->plan;
    const struct box_plan *b = s->cross->own;
    int32_t rank = p->device[p->task[task].device].rank, stage = 0;
    while (stage < b->nstage && b->stage[stage].work.rank != rank) stage++;
    const struct box_work *work[2] = {stage < b->nstage ? &b->stage[stage].work : NULL, &b->part[p->task[task].pos]};
    for (int f = 0; f < 2; f++)
        for (int32_t i = 0; work[f] && i < work[f]->nstep; i++)
            if (says_so(&work[f]->step[i], m, b->type.ndim)) return &work[f]->step[i];
    return NULL;
}

static int
check_source(struct values *s, int32_t task, const struct box_move *m, const struct box_source *from,
             const struct box_from *f)
{
    const struct task *t = &s->v->plan->task[task];
    struct view view;
    int64_t skip;
    if (f->arg < 0 || f->arg >= t->narg)
        return proof_fail(s->v, task, "a move reads argument %d; the task has %d arguments", (int)f->arg, (int)t->narg);
    TRY(value_source(s, task, f, from->pos, m->slice, &view, &skip));
    return value_takes(s, task, f, &view, skip);
}

static int
check_slice(struct values *s, int32_t task, const struct box_move *m, int64_t *received)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct box_plan *b = s->cross->own;
    int64_t skip;
    struct box whole;
    layout_box(b->to, &b->type, t->pos, &whole);
    const struct box_step *step = m->slice ? step_for(s, task, m) : NULL;
    if (!step || !is_box_within(m->slice, &whole, b->type.ndim))
        return proof_fail(s->v, task, "fills a slice that no step of its move computes");
    struct view part = value_part(b->to, &b->type, t->pos);
    struct view view = value_window(&part, part.offset, m->slice, &skip);
    TRY(value_fills(s, task, m, &view, skip));
    for (int32_t i = 0; i < m->nfrom; i++) {
        TRY(check_source(s, task, m, &step->source[i], &m->from[i]));
        if (step->source[i].rank != p->device[t->device].rank)
            *received += box_numel(m->slice, b->type.ndim) * box_width_from(b);
    }
    return 0;
}

static int64_t
local_bytes(const struct plan_move *b, int32_t pos)
{
    struct type t = layout_shard(b->to, &b->type, pos);
    return type_bytes(&t);
}

/* Proves facts that are the same for all tasks of a shared move. */
static int
check_shared(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct plan_move *b = t->move.of;
    if (task == 0 || task_hop(&p->task[task - 1]) != b) TRY(value_begin_move(s, task));
    if (!redistribute_is_all(s->cross)) return proof_fail(s->v, task, "shares a shard with ranks on other hosts");
    if (t->pos < 0 || t->pos >= b->to->place->nrank)
        return proof_fail(s->v, task, "mesh position %d does not exist", (int)t->pos);
    if (s->box_ref.kind == REF_NODE) TRY(proof_same(s->v, task, "node", t->node, s->box_ref.index));
    TRY(value_rate(s, task, false, 1));
    return proof_same(s->v, task, "size of a result", t->out[0].bytes, local_bytes(b, t->pos));
}

int
value_fill(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    int64_t received = 0;
    TRY(check_shared(s, task));
    for (int32_t i = 0; i < t->move.nstep; i++) TRY(check_slice(s, task, &t->move.step[i], &received));
    TRY(proof_same(s->v, task, "size of the received data", t->move.received, received));
    int32_t alias_task = t->out[0].where.kind == IN_TASK ? t->out[0].where.index : task;
    if (s->filled != alias_task) s->nfill = 0;
    s->filled = alias_task;
    s->nfill++;
    *value_result(s, task, 0) = (struct content){.layout = NULL, .pos = -1, .box = t->move.of};
    return 0;
}

/* Returns true if the task fills slices of a destination shard of the move. */
static bool
fills_shard(const struct task *t, const struct plan_move *b)
{
    return task_hop(t) == b && t->kind->flags & KIND_ALIAS && t->kind->flags & KIND_WRITES;
}

static int
compare_slice_begin(const void *a, const void *b)
{
    const struct box *x = *(const struct box *const *)a, *y = *(const struct box *const *)b;
    for (int d = 0; d < MAX_DIM; d++)
        if (x->lo[d] != y->lo[d]) return x->lo[d] < y->lo[d] ? -1 : 1;
    return 0;
}

/* Returns true if any two slices overlap. The slices are sorted by their start, so that only slices close together
 * in the order can overlap. */
static bool
any_meet(const struct box **slice, int32_t n, int ndim)
{
    int cut = 0;
    struct box both;
    qsort(slice, (size_t)n, sizeof *slice, compare_slice_begin);
    while (cut + 1 < ndim && slice[0]->lo[cut] == slice[n - 1]->lo[cut]) cut++;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = i + 1; k < n && (ndim == 0 || slice[k]->lo[cut] < slice[i]->hi[cut]); k++)
            if (box_intersect(slice[i], slice[k], ndim, &both)) return true;
    return false;
}

/* Proves that the joined slices together cover the task's shard exactly once. */
static int
check_cover(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct plan_move *b = t->move.of;
    int64_t sum = 0;
    int32_t n = 0;
    struct box mine;
    layout_box(b->to, &b->type, t->pos, &mine);
    for (int32_t i = 0; i < t->nin; i++) {
        const struct task *f = &p->task[t->in[i].task];
        n += fills_shard(f, b) ? f->move.nstep : 0;
    }
    const struct box **slice = ARENA_ARRAY(&s->v->tmp, const struct box *, n + 1);
    n = 0;
    for (int32_t i = 0; i < t->nin; i++) {
        const struct task *f = &p->task[t->in[i].task];
        if (f->out[t->in[i].out].control) continue;
        for (int32_t k = 0; k < f->move.nstep; k++) {
            const struct box *of = f->move.step[k].slice;
            if (!is_box_within(of, &mine, b->type.ndim))
                return proof_fail(s->v, task, "joins a slice outside of its shard");
            sum += box_numel(of, b->type.ndim);
            slice[n++] = of;
        }
    }
    if (sum != box_numel(&mine, b->type.ndim))
        return proof_fail(s->v, task, "joins %lld elements, must join %lld", (long long)sum,
                          (long long)box_numel(&mine, b->type.ndim));
    return any_meet(slice, n, b->type.ndim) ? proof_fail(s->v, task, "two slices of the shard overlap") : 0;
}

/* Proves that the inputs of a JOIN task are the tasks that fill its shard, each exactly once. *n: number of these
 * tasks; *own: number of elements filled by the JOIN's device. */
static int
check_fills(struct values *s, int32_t task, int32_t *n, int64_t *own)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    int32_t last = -1;
    *n = 0;
    *own = 0;
    for (int32_t i = 0; i < t->nin; i++) {
        int32_t fill = t->in[i].task;
        const struct task *f = &p->task[fill];
        if (f->out[t->in[i].out].control) continue;
        if (!fills_shard(f, t->move.of) || t->in[i].out ||
            (f->out[0].where.kind == IN_TASK ? f->out[0].where.index : fill) != t->out[0].where.index)
            return proof_fail(s->v, task, "joins a task that does not fill its shard");
        if (fill <= last) return proof_fail(s->v, task, "joins a slice twice, or out of order");
        last = fill;
        ++*n;
        for (int32_t k = 0; k < f->move.nstep && f->device == t->device; k++)
            *own += box_numel(f->move.step[k].slice, t->move.of->type.ndim);
    }
    return 0;
}

int
value_join(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct plan_move *b = t->move.of;
    int64_t own;
    int32_t n;
    TRY(check_shared(s, task));
    TRY(value_at(s, task, b->to));
    if (t->out[0].where.kind != IN_TASK) return proof_fail(s->v, task, "must join a shared shard");
    TRY(check_fills(s, task, &n, &own));
    /* All JOIN tasks of a shared shard wait for the same tasks: every FILL task of the shard. */
    TRY(proof_same(s->v, task, "first task of the shard that it joins", t->out[0].where.index, s->filled));
    TRY(proof_same(s->v, task, "number of tasks that fill its shard", n, s->nfill));
    if (s->joined != s->filled) TRY(check_cover(s, task));
    s->joined = s->filled;
    TRY(proof_same(s->v, task, "size of the received data", t->move.received,
                   local_bytes(b, t->pos) - own * box_width_to(s->cross->own)));
    *value_result(s, task, 0) = (struct content){.ref = s->box_ref, .layout = b->to, .pos = t->pos, .box = b};
    return 0;
}
