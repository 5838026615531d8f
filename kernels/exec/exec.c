/* exec.c - chooses how one call is computed on one rank, once, and runs it many times.
 *
 * Five methods are tried in the order below. A library of the device that supports the call is preferred to all
 * five:
 *
 *   launch   a kernel compiled for the device (kernels/cuda), on devices that compile; else the host uses:
 *   variant  the operator's first variant for this device that accepts the call. If none does and the call mixes
 *            16-bit floats with f32 (shards of partial sums of halves are f32): a variant for f32 of all operands
 *   chain    the element-wise engine, for element-wise operators; a group of updates has a method per member
 *   window   a copy of what the operator's view() shows, for views that must be materialised
 *   ref      the reference, with operands and results converted to dense f64 and i64 around it
 *
 * An operand that a method needs dense, or in another dtype, is staged: it is copied to scratch before each run.
 * Staged results are copied out after the run. The layout of scratch is fixed here, so that a run allocates nothing. */
#include "kernels/exec/kernel.h"

#include "kernels/exec/compare.h"
#include "kernels/cpu/base/copies.h"
#include "kernels/cpu/eltwise/eltwise.h"
#include "kernels/cpu/rows/rows.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/product.h"
#include "kernels/exec/group.h"
#include "kernels/exec/epilogue.h"
#include "runtime/base/denormal.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/base/signals.h"
#include "runtime/base/str.h"
#include "runtime/device/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A copy of an operand or result in scratch. */
struct stage {
    bool used;
    size_t at; /* offset in scratch, bytes */
    struct view view;
};

struct exec {
    struct arena arena;
    const char *name;
    const struct call *call;
    struct kcall k;        /* the call that the method sees, with staged views */
    struct view *in, *out; /* the caller's views */
    struct view *seen_in, *seen_out;
    struct stage *stage_in, *stage_out;
    int nin, nout;
    size_t scratch_bytes; /* the method's own scratch is first, the stages follow */

    int (*settle)(int device);      /* waits for launched work; NULL: the device launches none */
    struct cuda_multiply *multiply; /* library product, if the addresses suit it; else another method */
    struct epilogue *led;           /* a chain with a producer: a product or a row kernel */
    struct group *group;            /* updates or casts of several variables */
    struct cuda_launch *launch;
    const struct kernel_variant *variant;
    void *state;
    size_t sum_at;           /* (k.adds) offset of the addend in scratch, bytes */
    struct cuda_launch *add; /* (k.adds) kernel that adds the addend, on devices that compile */
    struct elt *elt;
    bool window;
    int64_t skip;
    struct exec *check; /* reference to compare with; its data is in scratch */
    size_t check_at;
    struct exec_made made;
};

static bool check_ref, check_nan;

void
kernel_check(bool ref, bool nan)
{
    check_ref = ref;
    check_nan = nan;
}

unsigned
kernel_checks(void)
{
    return (check_ref ? BY_REFERENCE : 0) | (check_nan ? FOR_NAN : 0);
}

/* ---- staging ---- */

static size_t
align_scratch(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Returns true if operand i may be staged: neither absent nor a number. */
static bool
is_tensor_operand(const struct exec *e, int i)
{
    return e->in[i].dtype != DT_NONE && !e->call->in[i].weak;
}

/* Returns a dense view of dtype d with v's sizes and global position. */
static struct view
dense_like(const struct view *v, enum dtype d)
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

static enum dtype
ref_dtype(enum dtype d)
{
    return dtype_is_float(d) ? DT_F64 : DT_I64;
}

/* Limit of the scratch size, bytes. A view of few bytes (stride 0) may show more elements than can be counted. */
static const size_t MOST = (size_t)1 << 62;

static void
need(struct exec *e, int64_t n, size_t width)
{
    bool fits = e->scratch_bytes < MOST && (size_t)n < (MOST - e->scratch_bytes - 64) / width;
    e->scratch_bytes = fits ? e->scratch_bytes + align_scratch((size_t)n * width) : MOST;
}

static void
stage(struct exec *e, struct stage *s, struct view *seen, const struct view *v, enum dtype d)
{
    *s = (struct stage){.used = true, .at = e->scratch_bytes, .view = dense_like(v, d)};
    *seen = s->view;
    need(e, view_numel(v), dtype_bytes(d));
}

static void
stage_for_ref(struct exec *e)
{
    for (int i = 0; i < e->nin; i++) {
        const struct view *v = &e->in[i];
        if (is_tensor_operand(e, i) && (v->dtype != ref_dtype(v->dtype) || !view_is_dense(v)))
            stage(e, &e->stage_in[i], &e->seen_in[i], v, ref_dtype(v->dtype));
    }
    for (int i = 0; i < e->nout; i++) {
        const struct view *v = &e->out[i];
        stage(e, &e->stage_out[i], &e->seen_out[i], v, ref_dtype(v->dtype));
    }
}

/* ---- choosing ---- */

/* Returns true if operand i must be made dense for this variant. */
static bool
variant_stages(const struct kernel_variant *variant, const struct exec *e, int i)
{
    const struct kcall k = {.call = e->call, .in = e->in, .out = e->out};
    if (!variant->dense_in || !is_tensor_operand(e, i) || e->stage_in[i].used || view_is_dense(&e->in[i])) return false;
    return !variant->takes || !variant->takes(&k, i);
}

static void
stage_dense(struct exec *e)
{
    for (int i = 0; i < e->nin; i++)
        if (variant_stages(e->variant, e, i)) stage(e, &e->stage_in[i], &e->seen_in[i], &e->in[i], e->in[i].dtype);
}

/* Returns true if the variant accepts the call as the variant would see it. */
static bool
variant_accepts(const struct kernel_variant *variant, const struct exec *e, struct view *seen)
{
    struct kcall k = e->k;
    for (int i = 0; i < e->nin; i++)
        seen[i] = variant_stages(variant, e, i) ? dense_like(&e->in[i], e->in[i].dtype) : e->seen_in[i];
    k.in = seen;
    return !variant->accepts || variant->accepts(&k);
}

static const struct kernel_variant *
choose_variant(struct exec *e, int device)
{
    struct view *seen = ARENA_ARRAY(&e->arena, struct view, e->nin);
    for (const struct kernel_variant *variant = e->call->op->kernel; variant && variant->name; variant++)
        if (variant->device == device && variant_accepts(variant, e, seen)) return variant;
    return NULL;
}

static int
take_variant(struct exec *e, const struct kernel_variant *variant)
{
    size_t bytes = 0;
    struct kcall seen = e->k;
    e->variant = variant;
    e->name = variant->name;
    if (variant->dense_in) stage_dense(e);
    if (variant->prepare) TRY(variant->prepare(&seen, &e->state, &bytes));
    /* The stages were laid out from 0: moves them behind the variant's own scratch. */
    for (int i = 0; i < e->nin; i++) e->stage_in[i].at += align_scratch(bytes);
    for (int i = 0; i < e->nout; i++) e->stage_out[i].at += align_scratch(bytes);
    need(e, (int64_t)bytes, 1);
    return 0;
}

static bool
has_dtype(const struct exec *e, bool (*is)(enum dtype d))
{
    for (int i = 0; i < e->nin; i++)
        if (is_tensor_operand(e, i) && is(e->in[i].dtype)) return true;
    for (int i = 0; i < e->nout; i++)
        if (is(e->out[i].dtype)) return true;
    return false;
}

static bool
is_f32(enum dtype d)
{
    return d == DT_F32;
}

/* Replaces every half (bf16, f16) of the call by f32, on stages. */
static void
widen_call(struct exec *e)
{
    struct call *c = call_copy(&e->arena, e->call);
    struct type *in = arena_dup(&e->arena, c->in, sizeof *in * (size_t)c->nin);
    for (int i = 0; i < e->nin; i++) {
        if (!is_tensor_operand(e, i) || !dtype_is_half(e->in[i].dtype)) continue;
        in[i].dtype = DT_F32;
        stage(e, &e->stage_in[i], &e->seen_in[i], &e->in[i], DT_F32);
    }
    for (int i = 0; i < e->nout; i++) {
        if (!dtype_is_half(e->out[i].dtype)) continue;
        c->out[i].dtype = DT_F32;
        stage(e, &e->stage_out[i], &e->seen_out[i], &e->out[i], DT_F32);
    }
    c->in = in;
    e->k.call = c;
}

static void
unwiden(struct exec *e)
{
    for (int i = 0; i < e->nin; i++) e->stage_in[i].used = false, e->seen_in[i] = e->in[i];
    for (int i = 0; i < e->nout; i++) e->stage_out[i].used = false, e->seen_out[i] = e->out[i];
    e->scratch_bytes = 0;
    e->k.call = e->call;
}

/* Chooses a variant for f32 for a call that mixes halves and f32. Returns NULL if there is none. */
static const struct kernel_variant *
choose_wide(struct exec *e, int device)
{
    if (!e->call->op->kernel || !has_dtype(e, dtype_is_half) || !has_dtype(e, is_f32)) return NULL;
    widen_call(e);
    const struct kernel_variant *variant = choose_variant(e, device);
    if (!variant) unwiden(e);
    return variant;
}

static int
take_chain(struct exec *e)
{
    struct fuse_step step = {.call = e->call};
    for (int i = 0; i < e->nin; i++) step.arg[i].index = i;
    TRY(elt_new(&e->arena, 1, &step, e->nin, e->in, 1, e->out, e->k.threads, e->k.unread, &e->elt));
    e->name = "eltwise";
    e->scratch_bytes = align_scratch(elt_scratch(e->elt));
    return 0;
}

/* Copies the operand first if strides cannot show the view, as of a reshape of a transpose. */
static int
take_window(struct exec *e)
{
    const struct op *op = e->call->op;
    e->window = true;
    e->name = "copy";
    e->seen_out[0] = e->out[0];
    if (!op->view(e->call, &e->in[0], &e->seen_out[0], &e->skip)) return 0;
    stage(e, &e->stage_in[0], &e->seen_in[0], &e->in[0], e->in[0].dtype);
    e->seen_out[0] = e->out[0];
    return op->view(e->call, &e->seen_in[0], &e->seen_out[0], &e->skip);
}

static int
take_ref(struct exec *e)
{
    e->name = "ref";
    if (e->call->op->flags & OP_VIEW) return take_window(e);
    if (!e->call->op->ref && !(e->call->op->flags & OP_ELTWISE))
        return fail(E_KERNEL, "%s has no kernel and no reference", e->call->op->name);
    stage_for_ref(e);
    return 0;
}

static int
choose_made(struct exec *e, int device)
{
    const struct op *op = e->call->op;
    if (device_kind(device)->flags & COMPILES) TRY(cuda_launch_call(&e->arena, &e->k, &e->launch));
    if (e->launch) {
        e->name = e->launch->source.engine;
        e->scratch_bytes = align_scratch(e->launch->scratch_bytes);
        return 0;
    }
    device = device_kind(device)->variants;
    const struct kernel_variant *variant = choose_variant(e, device);
    if (!variant && !(op->flags & OP_ELTWISE)) variant = choose_wide(e, device);
    if (variant) return take_variant(e, variant);
    if (device != DEV_CPU) return fail(E_KERNEL, "%s has no kernel for %s", op->name, device_kind_text(device));
    return op->flags & OP_ELTWISE ? take_chain(e) : take_ref(e);
}

/* Adds what the device offers beside the chosen method: a library product for the call or chain. */
static void
add_device(struct exec *e, int device)
{
    const struct exec_made *m = &e->made;
    e->settle = device_kind(device)->settle;
    e->multiply =
        cuda_multiply_new(&e->arena, device, epilogue_by(m->nstep, m->step), m->nstep, m->step, e->nin, e->in, e->out);
    if (e->multiply) e->name = e->multiply->name, e->scratch_bytes = MAX(e->scratch_bytes, e->multiply->scratch_bytes);
}

/* Keeps the steps of the exec; copies the calls. */
static void
remember_steps(struct exec *e, int nstep, const struct fuse_step *step)
{
    struct fuse_step *own = arena_dup(&e->arena, step, sizeof *step * (size_t)nstep);
    for (int i = 0; i < nstep; i++)
        if (own[i].call != e->call) own[i].call = call_copy(&e->arena, own[i].call);
    e->made.nstep = nstep;
    e->made.step = own;
}

static struct exec *
exec_of(const struct kcall *k)
{
    struct exec *e = must_alloc(sizeof *e);
    struct arena *a = &e->arena;
    assert(k->call->nin <= EXEC_IN && k->call->nout <= OP_OUT);
    e->call = call_copy(a, k->call);
    e->nin = k->call->nin;
    e->nout = k->call->nout;
    e->in = arena_dup(a, k->in, sizeof *k->in * (size_t)e->nin);
    e->out = arena_dup(a, k->out, sizeof *k->out * (size_t)e->nout);
    e->seen_in = arena_dup(a, k->in, sizeof *k->in * (size_t)e->nin);
    e->seen_out = arena_dup(a, k->out, sizeof *k->out * (size_t)e->nout);
    e->stage_in = ARENA_ARRAY(a, struct stage, e->nin);
    e->stage_out = ARENA_ARRAY(a, struct stage, e->nout);
    e->k = (struct kcall){.call = e->call, .in = e->seen_in, .out = e->seen_out};
    e->k.pieces = k->pieces;
    e->k.adds = e->made.adds = k->adds;
    e->k.unread = k->unread;
    e->k.threads = MAX(k->threads, 1);
    struct fuse_step whole = {.call = e->call};
    for (int i = 0; i < MIN(e->nin, OP_OPERAND); i++) whole.arg[i].index = i;
    remember_steps(e, 1, &whole);
    e->made.pieces = k->pieces;
    return e;
}

/* RILLE_CHECK=ref: adds the reference of the same call, whose results are behind all other scratch. In a chain with
 * a producer, only the producer is compared; t/kernels/fused.c compares chains with their separate calls. */
static int
add_check(struct exec *e)
{
    if (!check_ref || (!e->variant && !e->elt && !e->launch && !e->multiply)) return 0;
    struct kcall k = {.call = e->call, .in = e->in, .out = e->out, .pieces = e->k.pieces, .threads = 1};
    e->check = exec_of(&k);
    TRY(take_ref(e->check));
    e->check_at = e->scratch_bytes;
    need(e, (int64_t)e->check->scratch_bytes, 1);
    return 0;
}

/* Allots scratch for an addend, dense as the sum is, and makes the kernel that adds it. */
static int
add_sum(struct exec *e, int device)
{
    struct view pair[] = {e->out[0], dense_like(&e->out[0], e->out[0].dtype)};
    e->sum_at = e->scratch_bytes;
    need(e, view_numel(&e->out[0]), dtype_bytes(e->out[0].dtype));
    if (!(device_kind(device)->flags & COMPILES)) return 0;
    return cuda_launch_combine(&e->arena, RED_SUM, 2, pair, &pair[0], false, &e->add);
}

int
exec_new(const struct kcall *k, int device, struct exec **out)
{
    struct exec *e = exec_of(k);
    int status = choose_made(e, device);
    if (!status) add_device(e, device);
    if (!status) status = add_check(e);
    if (!status && k->adds) status = add_sum(e, device);
    if (!status && e->scratch_bytes >= MOST)
        status =
            fail(E_MEMORY, "%s: the operands converted for the kernel need more than 2^62 bytes", e->call->op->name);
    if (status) {
        exec_free(&e);
        return status;
    }
    *out = e;
    return 0;
}

static int
exec_take_steps(struct exec *e, int device, int threads)
{
    int nstep = e->made.nstep, lead = epilogue_by(nstep, e->made.step);
    e->name = "eltwise";
    if (group_is(nstep, e->made.step)) {
        TRY(group_new(&e->arena, nstep, e->made.step, e->in, e->out, device, threads, &e->group));
        e->scratch_bytes = e->group->scratch_bytes;
        e->name = group_variant(e->group);
        return 0;
    }
    if (device_kind(device)->flags & COMPILES && (lead < 0 || !check_ref))
        TRY(cuda_launch_chain(&e->arena, lead, nstep, e->made.step, e->nin, e->in, e->nout, e->out, &e->launch));
    if (e->launch) {
        e->name = e->launch->source.engine;
        e->scratch_bytes = align_scratch(e->launch->scratch_bytes);
        return 0;
    }
    if (lead >= 0) {
        TRY(epilogue_new(&e->arena, lead, nstep, e->made.step, e->in, e->out, device, threads, &e->led));
        e->scratch_bytes = e->led->scratch_bytes;
        e->name = exec_variant(e->led->exec);
        return 0;
    }
    TRY(elt_new(&e->arena, nstep, e->made.step, e->nin, e->in, e->nout, e->out, threads, false, &e->elt));
    e->scratch_bytes = align_scratch(elt_scratch(e->elt));
    return 0;
}

int
exec_fused(int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout, const struct view *out,
           int device, int threads, struct exec **made)
{
    if (!(device_kind(device)->flags & FUSES))
        return fail(E_KERNEL, "%s cannot compute chains of element-wise operators", device_kind_text(device));
    struct exec *e = must_alloc(sizeof *e);
    e->nin = nin;
    e->nout = nout;
    remember_steps(e, nstep, step);
    e->call = e->made.step[nstep - 1].call;
    e->in = arena_dup(&e->arena, in, sizeof *in * (size_t)nin);
    e->out = arena_dup(&e->arena, out, sizeof *out * (size_t)nout);
    int status = exec_take_steps(e, device, threads);
    if (!status) add_device(e, device);
    if (status)
        exec_free(&e);
    else
        *made = e;
    return status;
}

void
exec_free(struct exec **e)
{
    if (!*e) return;
    if ((*e)->variant && (*e)->variant->drop && (*e)->state) (*e)->variant->drop((*e)->state);
    exec_free(&(*e)->check);
    if ((*e)->led) exec_free(&(*e)->led->exec), exec_free(&(*e)->led->then);
    for (int i = 0; (*e)->group && i < (*e)->group->n; i++) exec_free(&(*e)->group->member[i].exec);
    arena_fini(&(*e)->arena);
    free(*e);
    *e = NULL;
}

const struct exec_made *
exec_made(const struct exec *e)
{
    return &e->made;
}

/* Counts STATE_BYTES for a variant's state: a oneDNN primitive, its descriptors and memory objects. */
size_t
exec_bytes(const struct exec *e)
{
    enum { STATE_BYTES = 8 << 10 };
    size_t bytes = sizeof *e + e->arena.used_bytes + (e->state ? STATE_BYTES : 0);
    if (e->check) bytes += exec_bytes(e->check);
    if (e->led) bytes += exec_bytes(e->led->exec) + exec_bytes(e->led->then);
    for (int i = 0; e->group && i < e->group->n; i++)
        if (e->group->member[i].exec) bytes += exec_bytes(e->group->member[i].exec);
    return bytes;
}

size_t
exec_scratch(const struct exec *e)
{
    return e->scratch_bytes;
}

const struct view *
exec_view(const struct exec *e, int i)
{
    if (i < e->nin) return &e->in[i];
    return i < e->nin + e->nout ? &e->out[i - e->nin] : NULL;
}

const char *
exec_variant(const struct exec *e)
{
    return e->name;
}

/* ---- running ---- */

/* The views of one run with their data, as the method sees them. Runs do not write the exec, so they may overlap. */
struct views {
    struct view in[EXEC_IN], out[OP_OUT];
};

/* Sets v to the dimensions of `like` and to other data. Copies only the dimensions in use, because every act copies the
 * views of all its calls. */
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

static void
bring_in(const struct exec *e, struct views *v, void *const *in, char *scratch)
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

static void
aim_out(const struct exec *e, struct views *v, void *const *out, char *scratch)
{
    for (int i = 0; i < e->nout; i++) {
        const struct stage *s = &e->stage_out[i];
        aim(&v->out[i], &e->seen_out[i], s->used ? scratch + s->at : out[i]);
    }
}

static void
bring_out(const struct exec *e, const struct views *v, void *const *out)
{
    for (int i = 0; i < e->nout; i++) {
        if (!e->stage_out[i].used) continue;
        struct view to = e->out[i];
        to.data = out[i];
        copies_run(&to, &v->out[i], e->k.threads);
    }
}

/* The arguments of one run besides its operands. */
struct run {
    char *scratch;
    uint64_t piece;
    struct finding *find;
    int device;
};

static struct kcall
exec_call(const struct exec *e, const struct views *v, const struct run *r)
{
    struct kcall k = e->k;
    k.in = v->in;
    k.out = v->out;
    k.scratch = r->scratch;
    k.piece = r->piece;
    k.find = r->find;
    return k;
}

static int
run_window(const struct exec *e, const struct views *v, void *out)
{
    struct view window = e->seen_out[0], dense = e->out[0];
    window.data = (char *)v->in[0].data + e->skip * (int64_t)dtype_bytes(window.dtype);
    dense.data = out;
    copies_run(&dense, &window, e->k.threads);
    return 0;
}

static int
run_ref(const struct kcall *k)
{
    return k->call->op->ref ? k->call->op->ref(k) : elt_ref(k);
}

/* Recomputes the original call with the reference, because the variant's results may differ from it. Allocates; this
 * case is rare. */
static int
run_doubted(const struct exec *e, void *const *in, void *const *out, const struct run *r)
{
    struct views v;
    for (int i = 0; i < e->nin; i++) v.in[i] = e->in[i], v.in[i].data = in[i];
    for (int i = 0; i < e->nout; i++) v.out[i] = e->out[i], v.out[i].data = out[i];
    struct kcall k = exec_call(e, &v, r);
    k.call = e->call;
    return ref_run(&k);
}

void
kernel_copy(const struct view *dst, const struct view *src, int threads)
{
    copies_run(dst, src, threads);
}

/* Waits for earlier launches before host code touches their data. */
static int
settle_device(const struct exec *e, const struct run *r)
{
    return e->settle ? e->settle(r->device) : 0;
}

static int
run_way(const struct exec *e, void *const *in, void *const *out, const struct run *r)
{
    if (e->multiply && cuda_multiply_fits(e->multiply, in, out))
        return cuda_multiply_run(e->multiply, r->device, in, out, r->scratch);
    if (e->launch) return cuda_launch_run(e->launch, r->device, in, out, r->scratch, r->piece, r->find);
    if (e->led) return epilogue_run(e->led, in, out, r->scratch, r->device, r->piece, r->find);
    if (e->group) return group_run(e->group, in, out, r->scratch, r->device, r->piece, r->find);
    TRY(settle_device(e, r));
    if (e->elt) {
        elt_run(e->elt, in, out, r->scratch);
        return 0;
    }
    struct views v;
    bring_in(e, &v, in, r->scratch);
    if (e->window) return run_window(e, &v, out[0]);
    aim_out(e, &v, out, r->scratch);
    struct kcall k = exec_call(e, &v, r);
    TRY(e->variant ? e->variant->run(&k, e->state) : run_ref(&k));
    if (e->variant && e->variant->doubts && e->variant->doubts(&k)) return run_doubted(e, in, out, r);
    bring_out(e, &v, out);
    return 0;
}

/* Computes a micro-batch after the first into scratch and adds it to the sum. Eight products {64,768} x {64,3072}
 * cost 61 ms of a step, the same as with a separate task for the addition; with oneDNN's accumulation they cost 66
 * to 74 ms. */
static int
run_added(const struct exec *e, void *const *in, void *const *out, const struct run *r)
{
    void *addend = r->scratch + e->sum_at;
    TRY(run_way(e, in, &addend, r));
    if (e->add) return cuda_launch_run(e->add, r->device, (void *[]){out[0], addend}, out, NULL, 0, NULL);
    TRY(settle_device(e, r));
    vec_add(view_numel(&e->out[0]), addend, out[0]);
    return 0;
}

/* Runs the reference first, because the kernel may write over its operands. The reference's results stay in scratch. */
static int
run_checked(const struct exec *e, void *const *in, void *const *out, const struct run *r)
{
    const struct exec *c = e->check;
    struct views v;
    bring_in(c, &v, in, r->scratch + e->check_at);
    aim_out(c, &v, out, r->scratch + e->check_at);
    struct kcall k = exec_call(c, &v, r);
    TRY(run_ref(&k));
    TRY(run_way(e, in, out, r));
    TRY(settle_device(e, r));
    for (int i = 0; i < e->nout && !(r->find && r->find->at); i++) {
        struct view got = e->out[i];
        got.data = out[i];
        TRY(compare(e->call->op->name, e->name, i, &got, &v.out[i]));
    }
    return 0;
}

/* RILLE_CHECK=nan: fails if a result has NaN. Checks dense results only; those of plans are dense. */
static int
look_for_nan(const struct exec *e, void *const *out)
{
    for (int i = 0; i < e->nout; i++) {
        const struct view *v = &e->out[i];
        if (!dtype_is_float(v->dtype) || !view_is_dense(v)) continue;
        int64_t n = view_numel(v);
        for (int64_t p = 0; p < n; p++)
            if (isnan(elem_get_f(v->dtype, out[i], p)))
                return fail(E_KERNEL, "%s: element %lld of result %d is NaN", e->call->op->name, (long long)p, i);
    }
    return 0;
}

static int
run_now(const struct exec *e, void *const *in, void *const *out, const struct run *r)
{
    uint64_t mode = denormals_flush();
    bool added = e->k.adds && r->piece > 0;
    int status = added ? run_added(e, in, out, r) : e->check ? run_checked(e, in, out, r) : run_way(e, in, out, r);
    denormals_restore(mode);
    TRY(status);
    if (!check_nan) return 0;
    TRY(settle_device(e, r));
    return look_for_nan(e, out);
}

/* Runs the work of exec_enqueue() when the stream reaches it. Translates the addresses to those the stream's work
 * uses. */
static int
run_late(const struct stream_work *w, const struct stream *s)
{
    const struct exec *e = w->of;
    void *at[EXEC_ADDRESSES], **in = at, **out = in + e->nin;
    for (int i = 0; i < e->nin; i++) in[i] = stream_reach(s, w->in[i]);
    for (int i = 0; i < e->nout; i++) out[i] = stream_reach(s, w->out[i]);
    struct run r = {stream_reach(s, w->scratch), w->piece, stream_reach(s, w->find), s->device};
    return run_now(e, in, out, &r);
}

int
exec_on(const struct exec *e, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
        struct finding *find)
{
    return run_now(e, in, out, &(struct run){scratch, piece, find, device});
}

/* Returns true if no part of the exec is computed by host code, whatever its addresses. */
static bool
launches(const struct exec *e, bool finds)
{
    bool led = e->led && launches(e->led->exec, finds) && launches(e->led->then, finds);
    bool group = e->group;
    for (int i = 0; group && i < e->group->n; i++)
        group = e->group->member[i].launch || launches(e->group->member[i].exec, finds);
    bool looks = check_ref || check_nan || (finds && e->launch && e->launch->finder) || (e->k.adds && !e->add);
    return (e->launch || led || group) && !looks;
}

int
exec_enqueue(const struct exec *e, void *const *in, void *const *out, void *scratch, struct stream *s, uint64_t piece,
             struct finding *find)
{
    if (!s) return exec_on(e, in, out, scratch, 0, piece, find);
    struct stream_work w = {
        .run = run_late, .of = e, .in = in, .out = out, .scratch = scratch, .piece = piece, .find = find};
    w.launches = launches(e, find);
    assert(e->nin + e->nout <= EXEC_ADDRESSES);
    return stream_enqueue(s, &w);
}

int
exec_say(const struct exec *e, const struct finding *f, uint64_t piece)
{
    if (!f->at) return 0;
    if (e->led) return exec_say(e->led->then, f, piece);
    struct kcall k = e->k;
    k.piece = piece;
    return e->call->op->say(&k, f);
}

int
exec_run(const struct exec *e, void *const *in, void *const *out, void *scratch, uint64_t piece)
{
    struct finding find = {0};
    int status = run_now(e, in, out, &(struct run){.scratch = scratch, .piece = piece, .find = &find});
    signals_pass();
    TRY(status);
    return exec_say(e, &find, piece);
}

/* ---- the reference alone ---- */

int
ref_run(const struct kcall *k)
{
    struct exec *e = exec_of(k);
    int status = take_ref(e);
    if (!status) {
        void **data = ARENA_ARRAY(&e->arena, void *, e->nin + e->nout);
        for (int i = 0; i < e->nin; i++) data[i] = k->in[i].data;
        for (int i = 0; i < e->nout; i++) data[e->nin + i] = k->out[i].data;
        char *scratch = must_alloc(e->scratch_bytes + 1);
        struct finding find = {0};
        status = run_now(e, data, data + e->nin, &(struct run){.scratch = scratch, .piece = k->piece, .find = &find});
        if (!status) status = exec_say(e, &find, k->piece);
        free(scratch);
    }
    exec_free(&e);
    return status;
}
