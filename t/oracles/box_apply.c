/* box_apply.c - executes the plan of a move (struct box_plan) on host memory, one step after the other. */
#include "t/oracles/box_apply.h"
#include "runtime/tensor/atlas.h"
#include "boxing/reduce.h"
#include "boxing/plan.h"

#include <stdlib.h>
#include <string.h>

struct view
box_slice(const struct type *t, const struct layout *l, const struct box *part, void *data, const struct box *slice)
{
    struct view v = {.dtype = (uint8_t)layout_dtype(l, t->dtype), .ndim = t->ndim};
    int64_t stride = 1, at = 0;
    for (int d = t->ndim - 1; d >= 0; d--) {
        v.dim[d] = slice->hi[d] - slice->lo[d];
        v.stride[d] = stride;
        v.offset[d] = slice->lo[d];
        v.global[d] = t->dim[d];
        at += (slice->lo[d] - part->lo[d]) * stride;
        stride *= part->hi[d] - part->lo[d];
    }
    if (data) v.data = (char *)data + at * (int64_t)dtype_bytes(v.dtype);
    return v;
}

static struct view
box_stage_slice(const struct box_plan *p, int32_t stage, void *data, const struct box *slice)
{
    const struct box_stage *s = &p->stage[stage];
    int32_t k = box_stage_find(p, stage, slice);
    int64_t width = box_stage_width(p, s->work.pos);
    return box_slice(&p->type, box_stage_layout(p, s->work.pos), s->work.step[k].slice,
                     data ? (char *)data + s->offset[k] * width : NULL, slice);
}

static struct view
part_slice(const struct layout *l, const struct type *t, int pos, void *data, const struct box *slice)
{
    struct box part;
    layout_box(l, t, pos, &part);
    return box_slice(t, l, &part, data, slice);
}

static void
apply_step(const struct box_plan *p, const struct box_step *s, const struct view *to, void *const *src, void **stage)
{
    if (s->verb == BOX_FILL) {
        box_fill(s->reduce, to);
        return;
    }
    struct view *from = must_alloc(sizeof *from * (size_t)s->nsource);
    for (int32_t k = 0; k < s->nsource; k++) {
        int32_t at = s->source[k].stage, pos = s->source[k].pos;
        from[k] = at >= 0 ? box_stage_slice(p, at, stage[at], s->slice)
                          : part_slice(p->from, &p->type, pos, src[pos], s->slice);
    }
    box_reduce(s->reduce, to, s->nsource, from);
    free(from);
}

static void
apply_stage(const struct box_plan *p, int32_t i, void *const *src, void **stage)
{
    const struct box_work *w = &p->stage[i].work;
    stage[i] = must_alloc((size_t)(p->stage[i].numel * box_stage_width(p, w->pos)));
    for (int32_t k = 0; k < w->nstep; k++) {
        struct view to = box_stage_slice(p, i, stage[i], w->step[k].slice);
        apply_step(p, &w->step[k], &to, src, stage);
    }
}

static void
apply_part(const struct box_plan *p, const struct box_work *w, void *const *src, void **stage, void **dst)
{
    for (int32_t k = 0; k < w->nstep; k++) {
        struct view to = part_slice(p->to, &p->type, w->pos, dst[w->pos], w->step[k].slice);
        apply_step(p, &w->step[k], &to, src, stage);
    }
}

static void
apply_alias(const struct box_plan *p, void *const *src, void **dst)
{
    for (int pos = 0; pos < p->to->place->nrank; pos++) {
        int at = place_find(p->from->place, p->to->place->rank[pos]);
        struct type part = layout_shard(p->to, &p->type, pos);
        if (type_bytes(&part) > 0) memcpy(dst[pos], src[at], (size_t)type_bytes(&part));
    }
}

void
box_apply(const struct box_plan *p, void *const *src, void **dst)
{
    if (p->alias) {
        apply_alias(p, src, dst);
        return;
    }
    void **stage = must_alloc(sizeof *stage * (size_t)MAX(p->nstage, 1));
    for (int32_t i = 0; i < p->nstage; i++) apply_stage(p, i, src, stage);
    for (int32_t i = 0; i < p->npart; i++) apply_part(p, &p->part[i], src, stage, dst);
    for (int32_t i = 0; i < p->nstage; i++) free(stage[i]);
    free(stage);
}
