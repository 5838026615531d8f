/* dnnl.c - makes and runs oneDNN primitives (C API of versions 2 and 3). */
#include "kernels/cpu/base/dnnl.h"

#include "kernels/cpu/base/team.h"
#include "kernels/cpu/base/transpose16.h"
#include "runtime/base/stop.h"
#include "runtime/base/signals.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/simd.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The reordering of an argument whose layout does not suit the primitive. An operand is reordered into scratch
 * before a run, and a result from scratch after the run. */
struct turn {
    bool used;                /* false: the primitive uses the data in the caller's layout */
    dnnl_primitive_t reorder; /* primitive that reorders the argument; NULL: transpose16_run() reorders it */
    struct transpose16 turning;
    dnnl_memory_t plain;
    size_t at; /* offset of the reordered argument in scratch, bytes */
};

/* A secondary primitive, which adds to the result of the main primitive. It runs n times after each run of the main
 * primitive. */
struct more {
    struct prim *prim; /* the secondary primitive; NULL: none */
    int64_t n;
    /* In run j of the secondary primitive, the address of argument i is its address in the main primitive's run plus
     * first[i] + j * step[i] bytes. */
    int64_t first[PRIM_ARG], step[PRIM_ARG];
};

struct prim {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    int threads, narg; /* threads: number of threads; narg: number of arguments, scratch included */
    int64_t nrun;
    /* skip[r * nskip + i]: offset of the address of argument i < nskip in run r from its address in run 0, bytes.
     * NULL: the primitive runs once. */
    int64_t *skip;
    int nskip;
    int from[PRIM_ARG + 1];
    dnnl_exec_arg_t arg[PRIM_ARG + 1];
    struct turn turn[PRIM_ARG + 1];
    struct more more;
};

/* ---- the engine ---- */

static dnnl_engine_t engine;
static dnnl_status_t engine_status;
static bool engine_has_bf16;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

/* ---- setting the number of OpenMP's threads, which oneDNN uses ---- */

/* Makes oneDNN calls of this thread use n threads from now on (0 counts as 1). Costs nothing if n is unchanged. */
static void
set_threads(int n)
{
    /* Plans at most OMP_THREAD_LIMIT threads, because oneDNN's products are wrong if a team has fewer threads than
     * planned. */
    if (n > omp_get_thread_limit()) n = omp_get_thread_limit();
    if (n < 1) n = 1;
    if (omp_get_max_threads() != n) omp_set_num_threads(n);
}

void
prim_end_threads(void)
{
    omp_pause_resource_all(omp_pause_soft);
}

/* ---- describing operations to oneDNN: all code that differs between oneDNN 2 and 3 ---- */

#if DNNL_VERSION_MAJOR == 2

typedef const dnnl_memory_desc_t *native_layout;

static native_layout
native_new(const struct prim_layout *l)
{
    dnnl_memory_desc_t *d = must_alloc(sizeof *d);
    if (l->tag)
        dnnl_memory_desc_init_by_tag(d, l->ndim, l->size, l->dtype, l->tag);
    else
        dnnl_memory_desc_init_by_strides(d, l->ndim, l->size, l->dtype, l->stride);
    return d;
}

static void
native_free(native_layout d)
{
    free((void *)d);
}

/* An iterator over oneDNN's implementations of an operation. pd: descriptor of the current one. */
struct walk {
    union {
        dnnl_matmul_desc_t matmul;
        dnnl_convolution_desc_t conv;
        dnnl_pooling_v2_desc_t pool;
    } op;
    dnnl_primitive_desc_iterator_t it;
    dnnl_primitive_desc_t pd;
};

static dnnl_status_t
init_op(struct walk *w, const struct prim_op *op, native_layout src, native_layout weights, native_layout dst,
        dnnl_alg_kind_t mean)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    switch (op->kind) {
    case PRIM_MATMUL: return dnnl_matmul_desc_init(&w->op.matmul, src, weights, NULL, dst);
    case PRIM_CONV:
        return dnnl_dilated_convolution_forward_desc_init(&w->op.conv, dnnl_forward_training, direct, src, weights,
                                                          NULL, dst, op->stride, op->dilate, op->padding,
                                                          op->padding_end);
    case PRIM_CONV_DATA:
        return dnnl_dilated_convolution_backward_data_desc_init(&w->op.conv, direct, src, weights, dst, op->stride,
                                                                op->dilate, op->padding, op->padding_end);
    case PRIM_CONV_WEIGHTS:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            &w->op.conv, direct, src, weights, NULL, dst, op->stride, op->dilate, op->padding, op->padding_end);
    case PRIM_MEAN:
        return dnnl_pooling_v2_forward_desc_init(&w->op.pool, dnnl_forward_training, mean, src, dst, op->stride,
                                                 op->kernel, op->dilate, op->padding, op->padding_end);
    case PRIM_MEAN_DATA:
        return dnnl_pooling_v2_backward_desc_init(&w->op.pool, mean, src, dst, op->stride, op->kernel, op->dilate,
                                                  op->padding, op->padding_end);
    }
    return dnnl_unimplemented;
}

static dnnl_status_t
walk_open(struct walk *w, const struct prim_op *op, native_layout src, native_layout weights, native_layout dst,
          dnnl_alg_kind_t mean, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    dnnl_status_t status = init_op(w, op, src, weights, dst, mean);
    if (!status) status = dnnl_primitive_desc_iterator_create(&w->it, &w->op, attr, engine, hint);
    if (!status) w->pd = dnnl_primitive_desc_iterator_fetch(w->it);
    return status;
}

static bool
walk_next(struct walk *w)
{
    if (dnnl_primitive_desc_iterator_next(w->it) != dnnl_success) return false;
    dnnl_primitive_desc_destroy(w->pd);
    w->pd = dnnl_primitive_desc_iterator_fetch(w->it);
    return w->pd;
}

static void
walk_close(struct walk *w)
{
    if (w->it) dnnl_primitive_desc_iterator_destroy(w->it);
}

static dnnl_status_t
append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1);
}

#elif DNNL_VERSION_MAJOR == 3

typedef const_dnnl_memory_desc_t native_layout;

static native_layout
native_new(const struct prim_layout *l)
{
    dnnl_memory_desc_t d = NULL;
    if (l->tag)
        dnnl_memory_desc_create_with_tag(&d, l->ndim, l->size, l->dtype, l->tag);
    else
        dnnl_memory_desc_create_with_strides(&d, l->ndim, l->size, l->dtype, l->stride);
    return d;
}

static void
native_free(native_layout d)
{
    dnnl_memory_desc_destroy((dnnl_memory_desc_t)d);
}

/* An iterator over oneDNN's implementations of an operation. pd: descriptor of the current implementation; oneDNN
 * finds the next one from it. */
struct walk {
    dnnl_primitive_desc_t pd;
};

static dnnl_status_t
walk_open(struct walk *w, const struct prim_op *op, native_layout src, native_layout weights, native_layout dst,
          dnnl_alg_kind_t mean, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    switch (op->kind) {
    case PRIM_MATMUL: return dnnl_matmul_primitive_desc_create(&w->pd, engine, src, weights, NULL, dst, attr);
    case PRIM_CONV:
        return dnnl_convolution_forward_primitive_desc_create(&w->pd, engine, dnnl_forward_training, direct, src,
                                                              weights, NULL, dst, op->stride, op->dilate, op->padding,
                                                              op->padding_end, attr);
    case PRIM_CONV_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(&w->pd, engine, direct, src, weights, dst,
                                                                    op->stride, op->dilate, op->padding,
                                                                    op->padding_end, hint, attr);
    case PRIM_CONV_WEIGHTS:
        return dnnl_convolution_backward_weights_primitive_desc_create(&w->pd, engine, direct, src, weights, NULL, dst,
                                                                       op->stride, op->dilate, op->padding,
                                                                       op->padding_end, hint, attr);
    case PRIM_MEAN:
        return dnnl_pooling_forward_primitive_desc_create(&w->pd, engine, dnnl_forward_training, mean, src, dst,
                                                          op->stride, op->kernel, op->dilate, op->padding,
                                                          op->padding_end, attr);
    case PRIM_MEAN_DATA:
        return dnnl_pooling_backward_primitive_desc_create(&w->pd, engine, mean, src, dst, op->stride, op->kernel,
                                                           op->dilate, op->padding, op->padding_end, hint, attr);
    }
    return dnnl_unimplemented;
}

static bool
walk_next(struct walk *w)
{
    return dnnl_primitive_desc_next_impl(w->pd) == dnnl_success;
}

static void
walk_close(struct walk *w)
{
    UNUSED(w);
}

static dnnl_status_t
append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1, 0, dnnl_data_type_undef);
}

#else
#error "oneDNN: expected version 2 or 3; configure with -DRILLE_DNNL=FOLDER for another oneDNN"
#endif

/* ---- implementations ---- */

static const char *
implementation(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name;
}

static bool
is_named(const_dnnl_primitive_desc_t pd, const char *prefix)
{
    return !strncmp(implementation(pd), prefix, strlen(prefix));
}

/* Returns true if a product has a single row of a, or a single column of c, whose elements are not adjacent. */
static bool
has_wide_vector(const struct prim_layout *a, const struct prim_layout *c)
{
    int row = a->ndim - 2, col = a->ndim - 1;
    return (!a->tag && a->size[row] == 1 && a->stride[col] != 1) ||
           (!c->tag && c->size[col] == 1 && c->stride[row] != 1);
}

/* Returns true if every batch dimension has a larger stride than the rows and the columns of the matrices. */
static bool
batch_is_outside(const struct prim_layout *x)
{
    int row = x->ndim - 2, col = x->ndim - 1;
    int64_t extent = MAX((x->size[row] - 1) * x->stride[row], (x->size[col] - 1) * x->stride[col]);
    for (int d = 0; d < row; d++)
        if (x->size[d] > 1 && x->stride[d] <= extent) return false;
    return true;
}

/* Returns true for a product whose batch has several dimensions in an unusual order. */
static bool
has_odd_batch(const struct prim_op *op)
{
    if (op->kind != PRIM_MATMUL || op->src.ndim < 4) return false;
    return op->src.ndim > 4 || !batch_is_outside(&op->src) || !batch_is_outside(&op->weights) ||
           !batch_is_outside(&op->dst);
}

/* Returns true for an implementation that crashes or returns wrong results.
 *
 * With AMX, oneDNN 2.6's convolution jumps to a missing kernel if neither the number of channels nor the number of
 * pixels is a multiple of its block size. An example has windows of 1 x 1, 17 channels, bands of 4 rows of 6 pixels,
 * and stride 2 (t/products/conv).
 *
 * oneDNN 3.7's matrix product of small blocks reads a single row of a, and writes a single column of c, as if their
 * elements were adjacent (t/products/gemm). With two batch dimensions it often finds the wrong matrix if one
 * dimension lies inside the matrices or is broadcast, and with three even if all are outside. It can write beyond
 * the result (t/products/batch). */
static bool
is_broken(const_dnnl_primitive_desc_t pd, const struct prim_op *op)
{
    if (DNNL_VERSION_MAJOR == 2) return is_named(pd, "brgconv:avx512_core_amx");
    return is_named(pd, "brg_matmul:") && (has_wide_vector(&op->src, &op->dst) || has_odd_batch(op));
}

/* Makes the descriptor of the first implementation whose name begins with `prefix` and that is not broken. */
static dnnl_status_t
describe_first(const struct prim_op *op, const char *prefix, const_dnnl_primitive_attr_t attr,
               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    struct walk w = {0};
    native_layout src = native_new(&op->src), weights = native_new(&op->weights), dst = native_new(&op->dst);
    dnnl_alg_kind_t mean = op->count_padding ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
    dnnl_status_t status = walk_open(&w, op, src, weights, dst, mean, attr, hint);
    while (!status && (is_broken(w.pd, op) || !is_named(w.pd, prefix)))
        if (!walk_next(&w)) status = dnnl_unimplemented;
    walk_close(&w);
    native_free(src), native_free(weights), native_free(dst);
    if (status && w.pd) dnnl_primitive_desc_destroy(w.pd);
    if (!status) *out = w.pd;
    return status;
}

/* Returns true if oneDNN has products of bf16. It has them on processors with AVX-512, and reports an error on
 * others. */
static bool
find_bf16(void)
{
    const struct prim_layout a = {dnnl_bf16, 2, {16, 16}, .tag = dnnl_ab}, c = {dnnl_f32, 2, {16, 16}, .tag = dnnl_ab};
    dnnl_primitive_desc_t pd;
    if (describe_first(&(struct prim_op){.kind = PRIM_MATMUL, .src = a, .weights = a, .dst = c}, "", NULL, NULL, &pd))
        return false;
    dnnl_primitive_desc_destroy(pd);
    return true;
}

static void
engine_make(void)
{
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    engine_has_bf16 = engine_status == dnnl_success && find_bf16();
}

/* Returns 0 for success. For any other status, fails with E_KERNEL and a message that names `what`, the requested
 * operation. */
static int
prim_check(dnnl_status_t status, const char *what)
{
    return status == dnnl_success ? 0 : fail(E_KERNEL, "oneDNN: %s failed with status %d", what, (int)status);
}

dnnl_data_type_t
prim_dtype(enum dtype d)
{
    pthread_once(&engine_once, engine_make);
    return d == DT_F32 ? dnnl_f32 : d == DT_BF16 && engine_has_bf16 ? dnnl_bf16 : dnnl_data_type_undef;
}

bool
prim_isa_has_amx(unsigned isa)
{
    return (isa & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
}

bool
prim_has_amx(void)
{
    return prim_isa_has_amx((unsigned)dnnl_get_effective_cpu_isa());
}

bool
prim_multiplies(enum dtype d)
{
    return prim_dtype(d) != dnnl_data_type_undef && (d == DT_F32 || prim_has_amx() || machine_doubles_bf16());
}

/* ---- making ---- */

static int
attr_new(bool add, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t after;
    TRY(prim_check(dnnl_primitive_attr_create(attr), "attributes"));
    dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (!add || dnnl_post_ops_create(&after) != dnnl_success) return 0;
    append_sum(after);
    dnnl_primitive_attr_set_post_ops(*attr, after);
    dnnl_post_ops_destroy(after);
    return 0;
}

/* Fails if a size does not fit into 32 bits: oneDNN would compute with its low bits, and may divide by 0. */
static int
refuse_large_sizes(const struct prim_layout *l)
{
    for (int d = 0; d < l->ndim; d++)
        if (l->size[d] > INT32_MAX)
            return fail(E_KERNEL, "oneDNN computes with sizes up to %d, and one is %lld; divide this dimension",
                        INT32_MAX, (long long)l->size[d]);
    return 0;
}

int
prim_describe(const struct prim_op *op, const struct prim_op *forward, int threads, dnnl_primitive_desc_t *out)
{
    pthread_once(&engine_once, engine_make);
    TRY(prim_check(engine_status, "the engine"));
    TRY(refuse_large_sizes(&op->src));
    TRY(refuse_large_sizes(&op->weights));
    TRY(refuse_large_sizes(&op->dst));
    dnnl_primitive_desc_t hint = NULL;
    dnnl_primitive_attr_t attr;
    if (forward) TRY(prim_describe(forward, NULL, threads, &hint));
    int status = attr_new(op->add, &attr);
    if (!status) {
        set_threads(threads);
        dnnl_status_t made = dnnl_unimplemented;
        if (op->prefer) made = describe_first(op, op->prefer, attr, hint, out);
        if (made) made = describe_first(op, "", attr, hint, out);
        dnnl_primitive_attr_destroy(attr);
        status = prim_check(made, "a primitive descriptor");
    }
    if (hint) dnnl_primitive_desc_destroy(hint);
    return status;
}

bool
prim_is_plain(const_dnnl_primitive_desc_t pd)
{
    return is_named(pd, "ref") || is_named(pd, "simple");
}

static int
add_arg(struct prim *p, int arg, int from, native_layout desc)
{
    dnnl_memory_t memory;
    TRY(prim_check(dnnl_memory_create(&memory, desc, engine, DNNL_MEMORY_NONE), "a memory object"));
    p->from[p->narg] = from;
    p->arg[p->narg++] = (dnnl_exec_arg_t){arg, memory};
    return 0;
}

static bool
is_result(int from)
{
    return from >= PRIM_OUT && from < PRIM_SCRATCH;
}

static int
add_reorder(struct turn *t, bool out, native_layout plain, native_layout wanted)
{
    dnnl_primitive_desc_t pd;
    dnnl_primitive_attr_t attr;
    TRY(prim_check(dnnl_memory_create(&t->plain, plain, engine, DNNL_MEMORY_NONE), "a memory object"));
    TRY(prim_check(dnnl_primitive_attr_create(&attr), "attributes"));
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&pd, out ? wanted : plain, engine, out ? plain : wanted, engine, attr);
    dnnl_primitive_attr_destroy(attr);
    TRY(prim_check(status, "a reorder"));
    status = dnnl_primitive_create(&t->reorder, pd);
    dnnl_primitive_desc_destroy(pd);
    return prim_check(status, "a reorder");
}

/* Returns true if `wanted` is oneDNN's layout with sixteen channels innermost. */
static bool
is_blocked16(native_layout wanted, const struct prim_layout *plain)
{
    struct prim_layout blocked = *plain;
    blocked.tag = dnnl_aBcd16b;
    native_layout sixteens = native_new(&blocked);
    bool same = dnnl_memory_desc_equal(wanted, sixteens);
    native_free(sixteens);
    return same;
}

/* Adds a reordering of argument i from the caller's layout to `wanted`. plain: oneDNN's description of the caller's
 * layout. */
static int
add_turn(struct prim *p, int i, const struct prim_layout *layout, native_layout plain, native_layout wanted,
         size_t *scratch_bytes)
{
    struct turn *t = &p->turn[i];
    t->used = true;
    t->at = align_64(*scratch_bytes);
    *scratch_bytes = t->at + dnnl_memory_desc_get_size(wanted);
    bool turning = transpose16_of(layout, &t->turning) && is_blocked16(wanted, layout);
    return turning ? 0 : add_reorder(t, is_result(p->from[i]), plain, wanted);
}

/* Adds an argument in the layout that the primitive needs, and a reordering if the caller's layout differs. */
static int
place_arg(struct prim *p, const_dnnl_primitive_desc_t pd, const struct prim_arg *arg, size_t *scratch_bytes)
{
    native_layout plain = native_new(&arg->layout),
                  wanted = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg->arg);
    bool same = !wanted || dnnl_memory_desc_equal(wanted, plain);
    int i = p->narg, status = add_arg(p, arg->arg, arg->from, same ? plain : wanted);
    if (!status && !same) status = add_turn(p, i, &arg->layout, plain, wanted, scratch_bytes);
    native_free(plain);
    return status;
}

static int
prim_fill(struct prim *p, const_dnnl_primitive_desc_t pd, int narg, const struct prim_arg *arg, size_t *scratch_bytes)
{
    TRY(prim_check(dnnl_primitive_create(&p->primitive, pd), "a primitive"));
    TRY(prim_check(dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags), "a stream"));
    native_layout scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t own = dnnl_memory_desc_get_size(scratch);
    *scratch_bytes = own;
    for (int i = 0; i < narg; i++) TRY(place_arg(p, pd, &arg[i], scratch_bytes));
    return own ? add_arg(p, DNNL_ARG_SCRATCHPAD, PRIM_SCRATCH, scratch) : 0;
}

int
prim_new(dnnl_primitive_desc_t pd, int narg, const struct prim_arg *arg, int threads, void **state,
         size_t *scratch_bytes)
{
    assert(narg <= PRIM_ARG);
    struct prim *p = must_alloc(sizeof *p);
    p->threads = threads;
    p->nrun = 1;
    int status = prim_fill(p, pd, narg, arg, scratch_bytes);
    dnnl_primitive_desc_destroy(pd);
    if (status) {
        prim_drop(p);
        return status;
    }
    *state = p;
    return 0;
}

void
prim_repeat(struct prim *p, int64_t n, int64_t *skip, int nskip)
{
    p->nrun = n;
    p->skip = skip;
    p->nskip = nskip;
}

void
prim_add(struct prim *p, struct prim *more, int64_t n, int narg, const int64_t *first, const int64_t *step)
{
    p->more = (struct more){.prim = more, .n = n};
    memcpy(p->more.first, first, (size_t)narg * sizeof *first);
    memcpy(p->more.step, step, (size_t)narg * sizeof *step);
}

int64_t
image_bytes(const struct view *v)
{
    return view_numel(v) / v->dim[0] * (int64_t)dtype_bytes(v->dtype);
}

void
prim_repeat_images(struct prim *p, int64_t at_once, int n, const struct view *const *v)
{
    int64_t images = v[0]->dim[0], parts = (images + at_once - 1) / at_once;
    if (parts < 2) return;
    int64_t *skip = must_alloc((size_t)(n * parts) * sizeof *skip);
    for (int64_t r = 0; r < parts; r++)
        for (int i = 0; i < n; i++) skip[n * r + i] = v[i] ? MIN(r * at_once, images - at_once) * image_bytes(v[i]) : 0;
    prim_repeat(p, parts, skip, n);
}

/* ---- running ---- */

static void *
kcall_bytes(const struct kcall *k, int from)
{
    if (from == PRIM_SCRATCH) return k->scratch;
    return from >= PRIM_OUT ? k->out[from - PRIM_OUT].data : k->in[from].data;
}

static int
execute_primitive(const struct prim *p, dnnl_primitive_t primitive, int narg, const dnnl_exec_arg_t *arg,
                  const char *what)
{
    if (p->threads > 1) team_rest();
    signals_hold();
    dnnl_status_t status = dnnl_primitive_execute(primitive, p->stream, narg, arg);
    signals_pass_in_time();
    return prim_check(status, what);
}

/* Reorders argument i: an operand from `at` into scratch, a result from scratch to `at`. */
static int
bring(const struct prim *p, int i, void *at, void *scratch, const char *what)
{
    const struct turn *t = &p->turn[i];
    bool out = is_result(p->from[i]);
    if (!t->reorder) {
        transpose16_run(&t->turning, at, (float *)((char *)scratch + t->at), out, p->threads);
        return 0;
    }
    dnnl_memory_t wanted = p->arg[i].memory, plain = t->plain;
    const dnnl_exec_arg_t arg[] = {{DNNL_ARG_FROM, out ? wanted : plain}, {DNNL_ARG_TO, out ? plain : wanted}};
    return execute_primitive(p, p->turn[i].reorder, 2, arg, what);
}

/* Executes p once. at: address of each argument. before: addresses of the arguments in the previous run; NULL: no
 * previous run. Does not reorder an operand again if its address is the same as in the previous run. */
static int
run_at(const struct prim *p, void *const *at, void *const *before, void *scratch, const char *what)
{
    for (int i = 0; i < p->narg; i++) {
        const struct turn *t = &p->turn[i];
        if (t->reorder) dnnl_memory_set_data_handle(t->plain, at[i]);
        dnnl_memory_set_data_handle(p->arg[i].memory, t->used ? (char *)scratch + t->at : at[i]);
    }
    for (int i = 0; i < p->narg; i++)
        if (p->turn[i].used && !is_result(p->from[i]) && (!before || before[i] != at[i]))
            TRY(bring(p, i, at[i], scratch, what));
    TRY(execute_primitive(p, p->primitive, p->narg, p->arg, what));
    for (int i = 0; i < p->narg; i++)
        if (p->turn[i].used && is_result(p->from[i])) TRY(bring(p, i, at[i], scratch, what));
    return 0;
}

/* Executes the runs of the secondary primitive, which add to the main primitive's result. */
static int
run_more(const struct more *m, void *const *now, void *scratch, const char *what)
{
    void *at[PRIM_ARG + 1];
    for (int64_t j = 0; m->prim && j < m->n; j++) {
        TRY(stop_check());
        for (int i = 0; i < m->prim->narg; i++)
            at[i] = m->prim->from[i] == PRIM_SCRATCH ? scratch : (char *)now[i] + m->first[i] + j * m->step[i];
        TRY(run_at(m->prim, at, NULL, scratch, what));
    }
    return 0;
}

int
prim_run(const struct kcall *k, const void *state)
{
    const struct prim *p = state;
    void *at[2][PRIM_ARG + 1];
    set_threads(p->threads);
    for (int64_t r = 0; r < p->nrun; r++) {
        void **now = at[r % 2];
        if (r) TRY(stop_check());
        for (int i = 0; i < p->narg; i++)
            now[i] = (char *)kcall_bytes(k, p->from[i]) + (i < p->nskip ? p->skip[r * p->nskip + i] : 0);
        TRY(run_at(p, now, r ? at[(r + 1) % 2] : NULL, k->scratch, k->call->op->name));
        TRY(run_more(&p->more, now, k->scratch, k->call->op->name));
    }
    return 0;
}

int
prim_at(const struct prim *p, void *const *given, void *scratch, const char *what)
{
    void *at[PRIM_ARG + 1];
    set_threads(p->threads);
    for (int i = 0; i < p->narg; i++) at[i] = p->from[i] == PRIM_SCRATCH ? scratch : given[i];
    return run_at(p, at, NULL, scratch, what);
}

void
prim_drop(void *state)
{
    struct prim *p = state;
    if (!p) return;
    for (int i = 0; i < p->narg; i++) {
        dnnl_memory_destroy(p->arg[i].memory);
        if (p->turn[i].plain) dnnl_memory_destroy(p->turn[i].plain);
        if (p->turn[i].reorder) dnnl_primitive_destroy(p->turn[i].reorder);
    }
    if (p->stream) dnnl_stream_destroy(p->stream);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    free(p->skip);
    prim_drop(p->more.prim);
    free(p);
}
