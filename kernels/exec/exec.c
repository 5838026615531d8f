/* exec.c - chooses once how one call or chain is computed on one rank, and runs it many times.
 *
 * The first method of the table below that accepts a call computes it. An exception is the matrix product of the
 * device's library: a run uses this product instead, if the library supports the call and the run's addresses suit
 * the library. */
#include "kernels/exec/stage.h"

#include "kernels/cpu/base/copies.h"
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/eltwise/chain.h"
#include "kernels/cpu/rows/rows.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/product.h"
#include "kernels/exec/compare.h"
#include "kernels/exec/method_epilogue.h"
#include "runtime/base/denormal.h"
#include "runtime/base/error.h"
#include "runtime/base/signals.h"
#include "runtime/device/device.h"
#include "runtime/device/stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct method *const methods[] = {
    &method_group,    /* updates or casts of several variables */
    &method_launch,   /* a kernel that is compiled for the device at run time */
    &method_variant,  /* the operator's first variant that accepts the call */
    &method_epilogue, /* a chain with a producer, which is a product or row kernel */
    &method_elt,      /* the host's element-wise engine */
    &method_window,   /* copies a view of the operand into the result */
    &method_scan,     /* runs the body of a scan once per position */
    &method_ref,      /* the reference, with conversions to f64 and i64 */
};

static bool check_ref;

void
kernel_check(bool ref)
{
    check_ref = ref;
}

bool
kernel_checks(void)
{
    return check_ref;
}

void
kernel_end_threads(void)
{
    team_release();
    prim_end_threads();
}

/* ---- choosing a method ---- */

bool
exec_by_host(int device)
{
    return device_kind(device)->variants == DEV_CPU;
}

int
exec_accept(struct exec *e, const struct method *m, const char *name, const void *own, size_t scratch_bytes)
{
    e->method = m;
    e->name = name;
    e->own = own;
    e->scratch_bytes = scratch_bytes;
    return 0;
}

/* Chooses the first method that accepts the exec. reference: considers only reference methods. */
static int
choose_method(struct exec *e, int device, bool reference)
{
    for (size_t i = 0; i < countof(methods) && !e->method; i++)
        if (methods[i]->reference || !reference) TRY(methods[i]->make(e, device));
    if (e->method) return 0;
    return fail(E_KERNEL, "%s has no kernel for %s", e->call->op->name, device_kind_text(device));
}

/* Prepares the device library's matrix product, if the library supports the call. Runs use this product instead of
 * the method if the addresses suit the library. */
static void
add_multiply(struct exec *e, int device)
{
    const struct exec_made *m = &e->made;
    e->multiply =
        cuda_multiply_new(&e->arena, device, epilogue_by(m->nstep, m->step), m->nstep, m->step, e->nin, e->in, e->out);
    if (e->multiply) e->name = e->multiply->name, e->scratch_bytes = MAX(e->scratch_bytes, e->multiply->scratch_bytes);
}

/* Copies the steps and their calls into the exec. */
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
    e->k.find_nan = k->find_nan;
    e->k.threads = MAX(k->threads, 1);
    struct fuse_step whole = {.call = e->call};
    for (int i = 0; i < MIN(e->nin, OP_OPERAND); i++) whole.arg[i].index = i;
    remember_steps(e, 1, &whole);
    e->made.pieces = k->pieces;
    return e;
}

/* If RILLE_CHECK=ref, adds an exec that computes the same call with the reference, and reserves scratch for the
 * reference after all other scratch. A chain is not compared. The chain's producer is compared, because it has its
 * own exec. t/kernels/fused.c compares chains with their separate calls. */
static int
add_check(struct exec *e)
{
    if (!check_ref || e->fused || (e->method->reference && !e->multiply)) return 0;
    struct view out[OP_OUT];
    for (int i = 0; i < e->nout; i++) out[i] = stage_view(&e->out[i], stage_ref_dtype(e->out[i].dtype));
    struct kcall k = {.call = e->call, .in = e->in, .out = out, .pieces = e->k.pieces, .threads = 1};
    e->check = exec_of(&k);
    TRY(choose_method(e->check, DEV_CPU, true));
    e->check_at = e->scratch_bytes;
    stage_reserve(e, (int64_t)e->check->scratch_bytes, 1);
    for (int i = 0; i < e->nout; i++) {
        e->check_out[i] = e->scratch_bytes;
        stage_reserve(e, view_numel(&out[i]), sizeof(double));
    }
    return 0;
}

/* Reserves scratch for the result of one micro-batch, if the results of micro-batches are added. On devices that
 * compile kernels, also makes the kernel that adds this result to the sum. */
static int
add_sum(struct exec *e, int device)
{
    if (!e->k.adds) return 0;
    struct view pair[] = {e->out[0], stage_view(&e->out[0], e->out[0].dtype)};
    e->sum_at = e->scratch_bytes;
    stage_reserve(e, view_numel(&e->out[0]), dtype_bytes(e->out[0].dtype));
    if (!(device_kind(device)->flags & COMPILES)) return 0;
    return cuda_launch_combine(&e->arena, RED_SUM, 2, pair, &pair[0], false, &e->add);
}

static int
exec_prepare(struct exec *e, int device)
{
    TRY(choose_method(e, device, false));
    e->settle = device_kind(device)->settle;
    add_multiply(e, device);
    TRY(add_check(e));
    TRY(add_sum(e, device));
    if (e->scratch_bytes < STAGE_MOST) return 0;
    return fail(E_MEMORY, "%s: the operands converted for the kernel need more than 2^62 bytes", e->call->op->name);
}

/* Prepares e and stores it in *out; frees e if that fails. */
static int
exec_finish(struct exec *e, int device, struct exec **out)
{
    int status = exec_prepare(e, device);
    if (status)
        exec_free(&e);
    else
        *out = e;
    return status;
}

int
exec_new(const struct kcall *k, int device, struct exec **out)
{
    return exec_finish(exec_of(k), device, out);
}

int
exec_fused(int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout, const struct view *out,
           int device, int threads, struct exec **made)
{
    if (!(device_kind(device)->flags & FUSES))
        return fail(E_KERNEL, "%s cannot compute chains of element-wise operators", device_kind_text(device));
    struct exec *e = must_alloc(sizeof *e);
    e->fused = true;
    e->nin = nin;
    e->nout = nout;
    e->k.threads = threads;
    remember_steps(e, nstep, step);
    e->call = e->made.step[nstep - 1].call;
    e->in = arena_dup(&e->arena, in, sizeof *in * (size_t)nin);
    e->out = arena_dup(&e->arena, out, sizeof *out * (size_t)nout);
    return exec_finish(e, device, made);
}

void
exec_free(struct exec **e)
{
    if (!*e) return;
    if ((*e)->method && (*e)->method->drop) (*e)->method->drop(*e);
    exec_free(&(*e)->check);
    for (int i = 0; i < (*e)->npart; i++) exec_free(&(*e)->part[i]);
    arena_fini(&(*e)->arena);
    free(*e);
    *e = NULL;
}

const struct exec_made *
exec_made(const struct exec *e)
{
    return &e->made;
}

size_t
exec_bytes(const struct exec *e)
{
    size_t bytes = sizeof *e + e->arena.used_bytes + e->more_bytes;
    if (e->check) bytes += exec_bytes(e->check);
    for (int i = 0; i < e->npart; i++)
        if (e->part[i]) bytes += exec_bytes(e->part[i]);
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

/* ---- running an exec ---- */

void
kernel_copy(const struct view *dst, const struct view *src, int threads)
{
    copies_run(dst, src, threads);
}

/* Waits for earlier launches before host code accesses their data. */
static int
settle_device(const struct exec *e, const struct run_args *r)
{
    return e->settle ? e->settle(r->device) : 0;
}

static int
run_method(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    if (e->multiply && cuda_multiply_fits(e->multiply, in, out))
        return cuda_multiply_run(e->multiply, r->device, in, out, r->scratch);
    if (e->method->waits) TRY(settle_device(e, r));
    return e->method->run(e, in, out, r);
}

/* Runs a micro-batch other than the first: computes its result into scratch, then adds the result to the sum. Eight
 * products {64,768} x {64,3072}, ms of a step:
 *
 *     addition here                61
 *     a separate task adds         61
 *     oneDNN accumulates     66 to 74 */
static int
run_added(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    void *addend = r->scratch + e->sum_at;
    TRY(run_method(e, in, &addend, r));
    if (e->add) return cuda_launch_run(e->add, r->device, (void *[]){out[0], addend}, out, NULL, 0, NULL);
    TRY(settle_device(e, r));
    vec_add(view_numel(&e->out[0]), addend, out[0]);
    return 0;
}

/* Runs the reference before the kernel, because the kernel may overwrite its operands. The reference's results stay
 * in scratch for the comparison. */
static int
run_checked(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    struct run_args own = *r;
    void *want[OP_OUT];
    own.scratch = r->scratch + e->check_at;
    for (int i = 0; i < e->nout; i++) want[i] = r->scratch + e->check_out[i];
    TRY(settle_device(e, r));
    TRY(run_method(e->check, in, want, &own));
    TRY(run_method(e, in, out, r));
    TRY(settle_device(e, r));
    for (int i = 0; i < e->nout && !(r->find && r->find->at); i++) {
        struct view got = e->out[i], reference = e->check->out[i];
        got.data = out[i];
        reference.data = want[i];
        TRY(compare(e->call->op->name, e->name, i, &got, &reference));
    }
    return 0;
}

/* Returns the offset, in elements, of the element with row-major index p. */
static int64_t
element_place(const struct view *v, int64_t p)
{
    int64_t at = 0;
    for (int d = v->ndim - 1; d >= 0; p /= v->dim[d--]) at += p % v->dim[d] * v->stride[d];
    return at;
}

/* Returns the index of the first NaN of a view or, if `infinite` is set, of its first infinity; -1: none, or no floats.
 */
static int64_t
find_element(const struct view *v, const void *data, bool infinite)
{
    if (!data || !dtype_is_float(v->dtype)) return -1;
    int64_t n = view_numel(v);
    bool dense = view_is_dense(v);
    for (int64_t p = 0; p < n; p++) {
        double x = elem_get_f(v->dtype, data, dense ? p : element_place(v, p));
        if (infinite ? isinf(x) : isnan(x)) return p;
    }
    return -1;
}

static bool
has_infinite_attribute(const struct call *c)
{
    for (int i = 0; i < op_nattr(c->op); i++)
        if (c->op->attr[i].kind == ATTR_FLOAT && isinf(c->attr[i].f)) return true;
    return false;
}

/* Fails if a result has a NaN. Also fails if a result has an infinity, although neither an operand nor an attribute
 * (such as a mask value of -inf) is infinite. */
static int
find_nan(const struct exec *e, void *const *in, void *const *out)
{
    bool given = has_infinite_attribute(e->call);
    int nan_in = -1;
    for (int i = 0; i < e->nin; i++) {
        given = given || find_element(&e->in[i], in[i], true) >= 0;
        if (nan_in < 0 && find_element(&e->in[i], in[i], false) >= 0) nan_in = i;
    }
    for (int i = 0; i < e->nout; i++) {
        int64_t nan = find_element(&e->out[i], out[i], false);
        int64_t at = nan < 0 && !given ? find_element(&e->out[i], out[i], true) : nan;
        if (at < 0) continue;
        double value = elem_get_f(e->out[i].dtype, out[i], at);
        const char *text = nan >= 0 ? "NaN" : value < 0 ? "-inf" : "inf";
        char which[24] = "";
        if (e->nout > 1) snprintf(which, sizeof which, " of result %d", i);
        return nan >= 0 && nan_in >= 0 ? fail(E_KERNEL, "%s: element %lld%s is NaN, because operand %d has NaN",
                                              e->call->op->name, (long long)at, which, nan_in)
                                       : fail(E_KERNEL, "%s: element %lld%s is %s, though the operands are finite",
                                              e->call->op->name, (long long)at, which, text);
    }
    return 0;
}

static int
run_now(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    uint64_t mode = denormals_flush();
    bool added = e->k.adds && r->piece > 0;
    int status = added ? run_added(e, in, out, r) : e->check ? run_checked(e, in, out, r) : run_method(e, in, out, r);
    denormals_restore(mode);
    TRY(status);
    if (!e->k.find_nan) return 0;
    TRY(settle_device(e, r));
    return find_nan(e, in, out);
}

/* Runs an exec that exec_enqueue() has put on a stream, when the stream executes this work. Translates the addresses
 * of operands and results to those that the stream's device uses. */
static int
run_late(const struct stream_work *w, const struct stream *s)
{
    const struct exec *e = w->of;
    void *at[EXEC_ADDRESSES], **in = at, **out = in + e->nin;
    for (int i = 0; i < e->nin; i++) in[i] = stream_reach(s, w->in[i]);
    for (int i = 0; i < e->nout; i++) out[i] = stream_reach(s, w->out[i]);
    struct run_args r = {stream_reach(s, w->scratch), w->piece, stream_reach(s, w->find), s->device};
    return run_now(e, in, out, &r);
}

int
exec_on(const struct exec *e, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
        struct finding *find)
{
    return run_now(e, in, out, &(struct run_args){scratch, piece, find, device});
}

/* Returns true if the device computes the whole exec, without host code, whatever the addresses of operands and
 * results. finds: the run also checks the operands' data. */
static bool
launches_whole(const struct exec *e, bool finds)
{
    bool looks = check_ref || e->k.find_nan || (e->k.adds && !e->add);
    return !looks && e->method->launches && e->method->launches(e, finds);
}

bool
exec_parts_launch(const struct exec *e, bool finds)
{
    for (int i = 0; i < e->npart; i++)
        if (e->part[i] && !launches_whole(e->part[i], finds)) return false;
    return true;
}

int
exec_enqueue(const struct exec *e, void *const *in, void *const *out, void *scratch, struct stream *s, uint64_t piece,
             struct finding *find)
{
    if (!s) return exec_on(e, in, out, scratch, 0, piece, find);
    struct stream_work w = {
        .run = run_late, .of = e, .in = in, .out = out, .scratch = scratch, .piece = piece, .find = find};
    w.launches = launches_whole(e, find);
    assert(e->nin + e->nout <= EXEC_ADDRESSES);
    return stream_enqueue(s, &w);
}

int
exec_say(const struct exec *e, const struct finding *f, uint64_t piece)
{
    if (!f->at) return 0;
    /* The last part makes the message; in a chain the last part is the epilogue. */
    if (e->npart) return exec_say(e->part[e->npart - 1], f, piece);
    struct kcall k = e->k;
    k.piece = piece;
    return e->call->op->host.say(&k, f);
}

int
exec_run(const struct exec *e, void *const *in, void *const *out, void *scratch, uint64_t piece)
{
    struct finding find = {0};
    int status = run_now(e, in, out, &(struct run_args){.scratch = scratch, .piece = piece, .find = &find});
    signals_pass();
    TRY(status);
    return exec_say(e, &find, piece);
}

/* ---- running the reference without a kernel ---- */

int
ref_run(const struct kcall *k)
{
    struct exec *e = exec_of(k);
    int status = choose_method(e, DEV_CPU, true);
    if (!status) {
        void **data = ARENA_ARRAY(&e->arena, void *, e->nin + e->nout);
        for (int i = 0; i < e->nin; i++) data[i] = k->in[i].data;
        for (int i = 0; i < e->nout; i++) data[e->nin + i] = k->out[i].data;
        char *scratch = must_alloc(e->scratch_bytes + 1);
        struct finding find = {0};
        status =
            run_now(e, data, data + e->nin, &(struct run_args){.scratch = scratch, .piece = k->piece, .find = &find});
        if (!status) status = exec_say(e, &find, k->piece);
        free(scratch);
    }
    exec_free(&e);
    return status;
}
