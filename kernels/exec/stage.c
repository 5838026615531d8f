/* stage.c - stages operands and results: gives a method dense copies in scratch, if necessary in another dtype.
 *
 * An operand is copied before each run, and a result after each run. The layout of scratch is fixed when the exec is
 * made, so a run allocates nothing. */
#include "kernels/exec/stage.h"

#include "kernels/cpu/base/copies.h"

bool
stage_has_operand(const struct exec *e, int i)
{
    return e->in[i].dtype != DT_NONE && !e->call->in[i].weak;
}

struct view
stage_view(const struct view *v, enum dtype d)
{
    struct view dense = *v;
    int64_t stride = 1;
    dense.data = NULL;
    dense.dtype = (uint8_t)d;
    for (int i = v->ndim - 1; i >= 0; i--) {
        dense.stride[i] = stride;
        stride *= v->dim[i];
    }
    return dense;
}

enum dtype
stage_ref_dtype(enum dtype d)
{
    return dtype_is_float(d) ? DT_F64 : DT_I64;
}

/* Limits the size, because a view with strides of 0 may have more elements than an int64_t can count. */
void
stage_reserve(struct exec *e, int64_t n, size_t width)
{
    bool fits = e->scratch_bytes < STAGE_MOST && (size_t)n < (STAGE_MOST - e->scratch_bytes - 64) / width;
    e->scratch_bytes = fits ? e->scratch_bytes + align_64((size_t)n * width) : STAGE_MOST;
}

static void
stage(struct exec *e, struct stage *s, struct view *seen, const struct view *v, enum dtype d)
{
    *s = (struct stage){.used = true, .at = e->scratch_bytes, .view = stage_view(v, d)};
    *seen = s->view;
    stage_reserve(e, view_numel(v), dtype_bytes(d));
}

void
stage_operand(struct exec *e, int i, enum dtype d)
{
    stage(e, &e->stage_in[i], &e->seen_in[i], &e->in[i], d);
}

void
stage_result(struct exec *e, int i, enum dtype d)
{
    stage(e, &e->stage_out[i], &e->seen_out[i], &e->out[i], d);
}

void
stage_clear(struct exec *e)
{
    for (int i = 0; i < e->nin; i++) e->stage_in[i].used = false, e->seen_in[i] = e->in[i];
    for (int i = 0; i < e->nout; i++) e->stage_out[i].used = false, e->seen_out[i] = e->out[i];
    e->scratch_bytes = 0;
}

/* ---- copying operands and results in a run ---- */

/* Makes v a view of `data` with the dimensions of `like`. Copies only the dimensions in use, because every run
 * copies the views of all operands and results. */
static void
aim(struct view *v, const struct view *like, void *data)
{
    v->data = data;
    v->dtype = like->dtype;
    v->ndim = like->ndim;
    for (int d = 0; d < like->ndim; d++) {
        v->dim[d] = like->dim[d];
        v->stride[d] = like->stride[d];
        v->offset[d] = like->offset[d];
        v->global[d] = like->global[d];
    }
}

void
stage_in(const struct exec *e, struct stage_views *v, void *const *in, char *scratch)
{
    for (int i = 0; i < e->nin; i++) {
        const struct stage *s = &e->stage_in[i];
        aim(&v->in[i], &e->seen_in[i], s->used ? scratch + s->at : in[i]);
        if (!s->used) continue;
        struct view from = e->in[i];
        from.data = in[i];
        copies_run(&v->in[i], &from, e->k.threads);
    }
}

void
stage_aim_out(const struct exec *e, struct stage_views *v, void *const *out, char *scratch)
{
    for (int i = 0; i < e->nout; i++) {
        const struct stage *s = &e->stage_out[i];
        aim(&v->out[i], &e->seen_out[i], s->used ? scratch + s->at : out[i]);
    }
}

void
stage_out(const struct exec *e, const struct stage_views *v, void *const *out)
{
    for (int i = 0; i < e->nout; i++) {
        if (!e->stage_out[i].used) continue;
        struct view to = e->out[i];
        to.data = out[i];
        copies_run(&to, &v->out[i], e->k.threads);
    }
}

struct kcall
stage_call(const struct exec *e, const struct stage_views *v, const struct run_args *r)
{
    struct kcall k = e->k;
    k.in = v->in;
    k.out = v->out;
    k.scratch = r->scratch;
    k.piece = r->piece;
    k.find = r->find;
    return k;
}
