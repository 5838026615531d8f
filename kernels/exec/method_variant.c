/* method_variant.c - computes a call with the first variant in the operator's record that accepts it.
 *
 * If no variant accepts a call that mixes 16-bit floats with f32 (partial sums of 16-bit floats are f32), all operands
 * are converted to f32 and the variants are tried again. */
#include "kernels/exec/stage.h"

#include "kernels/cpu/eltwise/chain.h"
#include "runtime/base/error.h"
#include "runtime/device/device.h"

struct variant {
    const struct kernel_variant *kernel;
    void *state;
};

/* Returns true if operand i must be copied to dense form for this variant. */
static bool
needs_dense(const struct kernel_variant *variant, const struct exec *e, int i)
{
    const struct kcall k = {.call = e->call, .in = e->in, .out = e->out};
    if (!variant->dense_in || !stage_has_operand(e, i) || e->stage_in[i].used || view_is_dense(&e->in[i])) return false;
    return !variant->takes || !variant->takes(&k, i);
}

/* Returns true if the variant accepts the call. Sets seen[] to the views that the variant would read. For an operand
 * that must be dense and is not, this is the view of a dense copy. */
static bool
variant_accepts(const struct kernel_variant *variant, const struct exec *e, struct view *seen)
{
    struct kcall k = e->k;
    for (int i = 0; i < e->nin; i++)
        seen[i] = needs_dense(variant, e, i) ? stage_view(&e->in[i], e->in[i].dtype) : e->seen_in[i];
    k.in = seen;
    return !variant->accepts || variant->accepts(&k);
}

static const struct kernel_variant *
choose_variant(struct exec *e, int kind)
{
    struct view *seen = ARENA_ARRAY(&e->arena, struct view, e->nin);
    for (const struct kernel_variant *variant = e->call->op->host.kernel; variant && variant->name; variant++)
        if (variant->device == kind && variant_accepts(variant, e, seen)) return variant;
    return NULL;
}

static bool
has_dtype(const struct exec *e, bool (*is)(enum dtype d))
{
    for (int i = 0; i < e->nin; i++)
        if (stage_has_operand(e, i) && is(e->in[i].dtype)) return true;
    for (int i = 0; i < e->nout; i++)
        if (is(e->out[i].dtype)) return true;
    return false;
}

static bool
is_f32(enum dtype d)
{
    return d == DT_F32;
}

/* Stages every 16-bit float operand and result of the call as f32. */
static void
widen_call(struct exec *e)
{
    struct call *c = call_copy(&e->arena, e->call);
    struct type *in = arena_dup(&e->arena, c->in, sizeof *in * (size_t)c->nin);
    for (int i = 0; i < e->nin; i++) {
        if (!stage_has_operand(e, i) || !dtype_is_half(e->in[i].dtype)) continue;
        in[i].dtype = DT_F32;
        stage_operand(e, i, DT_F32);
    }
    for (int i = 0; i < e->nout; i++) {
        if (!dtype_is_half(e->out[i].dtype)) continue;
        c->out[i].dtype = DT_F32;
        stage_result(e, i, DT_F32);
    }
    c->in = in;
    e->k.call = c;
}

/* Chooses an f32 variant for a call that mixes 16-bit floats and f32; NULL: none. Ignores element-wise calls,
 * because their engine can mix dtypes. */
static const struct kernel_variant *
choose_wide(struct exec *e, int kind)
{
    const struct op *op = e->call->op;
    if (!op->host.kernel || op->flags & OP_ELTWISE || !has_dtype(e, dtype_is_half) || !has_dtype(e, is_f32))
        return NULL;
    widen_call(e);
    const struct kernel_variant *variant = choose_variant(e, kind);
    if (variant) return variant;
    stage_clear(e);
    e->k.call = e->call;
    return NULL;
}

static int
make_variant(struct exec *e, int device)
{
    /* Bytes that a variant's state holds (estimated): a oneDNN primitive, its descriptors and memory objects. */
    enum { STATE_BYTES = 8 << 10 };
    int kind = device_kind(device)->variants;
    size_t bytes = 0;
    if (e->fused) return 0;
    struct variant *v = ARENA_NEW(&e->arena, struct variant);
    v->kernel = choose_variant(e, kind);
    if (!v->kernel) v->kernel = choose_wide(e, kind);
    if (!v->kernel) return 0;

    struct kcall seen = e->k;
    for (int i = 0; i < e->nin; i++)
        if (needs_dense(v->kernel, e, i)) stage_operand(e, i, e->in[i].dtype);
    if (v->kernel->prepare) TRY(v->kernel->prepare(&seen, &v->state, &bytes));
    if (v->state) e->more_bytes = STATE_BYTES;
    /* Moves the dense copies, which were laid out from offset 0 of scratch on, behind the variant's own scratch. */
    for (int i = 0; i < e->nin; i++) e->stage_in[i].at += align_64(bytes);
    for (int i = 0; i < e->nout; i++) e->stage_out[i].at += align_64(bytes);
    stage_reserve(e, (int64_t)bytes, 1);
    return exec_accept(e, &method_variant, v->kernel->name, v, e->scratch_bytes);
}

/* Recomputes the call with the reference, because the variant found that its results may be wrong. Allocates; this
 * case is rare. */
static int
recompute_by_ref(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    struct stage_views v;
    for (int i = 0; i < e->nin; i++) v.in[i] = e->in[i], v.in[i].data = in[i];
    for (int i = 0; i < e->nout; i++) v.out[i] = e->out[i], v.out[i].data = out[i];
    struct kcall k = stage_call(e, &v, r);
    k.call = e->call;
    return ref_run(&k);
}

static int
run_variant(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    const struct variant *v = e->own;
    struct stage_views views;
    stage_in(e, &views, in, r->scratch);
    stage_aim_out(e, &views, out, r->scratch);
    struct kcall k = stage_call(e, &views, r);
    TRY(v->kernel->run(&k, v->state));
    if (v->kernel->doubts && v->kernel->doubts(&k)) return recompute_by_ref(e, in, out, r);
    stage_out(e, &views, out);
    return 0;
}

static void
drop_variant(struct exec *e)
{
    const struct variant *v = e->own;
    if (v->kernel->drop && v->state) v->kernel->drop(v->state);
}

const struct method method_variant = {
    .make = make_variant,
    .run = run_variant,
    .drop = drop_variant,
    .waits = true,
};
