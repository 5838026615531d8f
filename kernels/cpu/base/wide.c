/* wide.c - computes a call with 16-bit floats by the operator's variant for f32. */
#include "kernels/cpu/base/wide.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/team.h"
#include "runtime/data/arena.h"
#include "runtime/device/device.h"

#include <stdlib.h>

struct wide {
    const struct kernel_variant *variant; /* the operator's variant for f32 */
    void *state;
    struct call call; /* the call that the variant sees, with f32 in place of 16-bit floats */
    struct type in_type[OP_OPERAND], out_type[OP_OUT];
    struct view in[OP_OPERAND], out[OP_OUT];
    /* Offsets of the converted operands and results in scratch, after the variant's own scratch, bytes. */
    size_t in_at[OP_OPERAND], out_at[OP_OUT];
};

static bool
is_half(const struct type *t)
{
    return dtype_is_half((enum dtype)t->dtype) && !t->weak;
}

static void
widen_half_type(const struct type *from, struct type *type, const struct view *v, struct view *view)
{
    *type = *from;
    *view = *v;
    if (is_half(from)) type->dtype = view->dtype = DT_F32;
}

static struct kcall
wide_call(const struct kcall *k, struct wide *w)
{
    *w = (struct wide){.call = *k->call};
    for (int i = 0; i < k->call->nin; i++) widen_half_type(&k->call->in[i], &w->in_type[i], &k->in[i], &w->in[i]);
    for (int i = 0; i < k->call->nout; i++) widen_half_type(&k->call->out[i], &w->out_type[i], &k->out[i], &w->out[i]);
    struct kcall wide = *k;
    w->call.in = w->in_type;
    w->call.out = w->out_type;
    wide.call = &w->call;
    wide.in = w->in;
    wide.out = w->out;
    return wide;
}

static const struct kernel_variant *
variant_for(const struct kcall *wide)
{
    for (const struct kernel_variant *variant = wide->call->op->host.kernel; variant->name; variant++)
        if (variant->device == DEV_CPU && variant->run != wide_run && (!variant->accepts || variant->accepts(wide)))
            return variant;
    return NULL;
}

static bool
all_dense(const struct kcall *k)
{
    for (int i = 0; i < k->call->nin; i++)
        if (is_half(&k->call->in[i]) && !view_is_dense(&k->in[i])) return false;
    for (int i = 0; i < k->call->nout; i++)
        if (!view_is_dense(&k->out[i])) return false;
    return true;
}

bool
wide_accepts(const struct kcall *k)
{
    struct wide w;
    struct kcall wide = wide_call(k, &w);
    return k->call->nin <= OP_OPERAND && is_half(&k->call->in[0]) && all_dense(k) && variant_for(&wide);
}

static size_t
wide_bytes(const struct view *v)
{
    return align_64((size_t)view_numel(v) * sizeof(float));
}

int
wide_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct wide *w = must_alloc(sizeof *w);
    struct kcall wide = wide_call(k, w);
    size_t bytes = 0;
    w->variant = variant_for(&wide);
    int status = w->variant->prepare ? w->variant->prepare(&wide, &w->state, &bytes) : 0;
    if (status) {
        free(w);
        return status;
    }
    bytes = align_64(bytes);
    for (int i = 0; i < k->call->nin; i++) {
        w->in_at[i] = bytes;
        if (is_half(&k->call->in[i])) bytes += wide_bytes(&k->in[i]);
    }
    for (int i = 0; i < k->call->nout; i++) {
        w->out_at[i] = bytes;
        if (is_half(&k->call->out[i])) bytes += wide_bytes(&k->out[i]);
    }
    *state = w;
    *scratch_bytes = bytes;
    return 0;
}

/* A conversion between 16-bit floats and f32. store: true: from f32 to 16 bits; false: from 16 bits to f32. */
struct move {
    const struct view *half;
    float *wide;
    bool store;
};

static void
move_range(void *arg, int64_t lo, int64_t hi)
{
    const struct move *m = arg;
    enum dtype d = (enum dtype)m->half->dtype;
    char *half = (char *)m->half->data + lo * (int64_t)dtype_bytes(d);
    if (m->store)
        block_store(COMP_F32, d, m->wide + lo, hi - lo, half, 1);
    else
        block_load(COMP_F32, d, half, 1, hi - lo, m->wide + lo);
}

static void
move_half(const struct kcall *k, const struct view *half, void *wide, bool store)
{
    struct move m = {half, wide, store};
    team_run(k->threads, view_numel(half), 1 << 16, move_range, &m);
}

int
wide_run(const struct kcall *k, const void *state)
{
    const struct wide *w = state;
    struct view in[OP_OPERAND], out[OP_OUT];
    char *scratch = k->scratch;
    for (int i = 0; i < k->call->nin; i++) {
        bool half = is_half(&k->call->in[i]);
        in[i] = w->in[i];
        in[i].data = half ? scratch + w->in_at[i] : k->in[i].data;
        if (half) move_half(k, &k->in[i], in[i].data, false);
    }
    for (int i = 0; i < k->call->nout; i++) {
        out[i] = w->out[i];
        out[i].data = is_half(&k->call->out[i]) ? scratch + w->out_at[i] : k->out[i].data;
    }
    struct kcall wide = *k;
    wide.call = &w->call;
    wide.in = in;
    wide.out = out;
    TRY(w->variant->run(&wide, w->state));
    for (int i = 0; i < k->call->nout; i++)
        if (is_half(&k->call->out[i])) move_half(k, &k->out[i], out[i].data, true);
    return 0;
}

void
wide_drop(void *state)
{
    struct wide *w = state;
    if (!w) return;
    if (w->variant->drop && w->state) w->variant->drop(w->state);
    free(w);
}

/* Calls the callback `doubts` (a check for infinities and NaN) of another variant of the operator: the first
 * variant that has this callback. Returns false if no other variant has it. */
bool
wide_nonfinite(const struct kcall *k)
{
    const struct kernel_variant *variant = k->call->op->host.kernel;
    while (variant->name && (!variant->doubts || variant->doubts == wide_nonfinite)) variant++;
    return variant->name && variant->doubts(k);
}
