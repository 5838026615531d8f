/* dnnl.c - makes and runs oneDNN primitives (2.6, C API). */
#include "kernels/cpu/base/dnnl.h"

#include "kernels/cpu/base/team.h"
#include "kernels/cpu/base/transpose16.h"
#include "runtime/base/stop.h"
#include "runtime/base/signals.h"
#include "runtime/base/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/simd.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The reordering of an argument whose layout does not suit the primitive: an operand is reordered into scratch
 * before a run, a result from scratch after it. */
struct turn {
    bool used;                /* false: the primitive uses the caller's layout */
    dnnl_primitive_t reorder; /* primitive that reorders the argument; NULL: transpose16_run() reorders it */
    struct transpose16 turning;
    dnnl_memory_t plain;
    size_t at; /* offset of the reordered argument in scratch, bytes */
};

/* A primitive that runs after each run of another, and adds to its result. */
struct more {
    struct prim *prim; /* primitive that runs after the other; NULL: none */
    int64_t n;
    /* Distance of each argument's address from that of the other primitive, bytes: in the first run; added in each
     * further run. */
    int64_t first[PRIM_ARG], step[PRIM_ARG];
};

struct prim {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    int threads, narg; /* number of threads; number of arguments, scratch included */
    int64_t nrun;
    /* Nskip offsets of arguments per run, relative to the first run, bytes; NULL: there is only one run. */
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

/* Returns true if oneDNN multiplies bf16. oneDNN 2.6 does on processors with AVX-512, and reports an error on others.
 */
static bool
find_bf16(void)
{
    static const dnnl_dims_t size = {16, 16};
    dnnl_memory_desc_t a, c;
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_init_by_tag(&a, 2, size, dnnl_bf16, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&c, 2, size, dnnl_f32, dnnl_ab);
    if (dnnl_matmul_desc_init(&op, &a, &a, NULL, &c) != dnnl_success) return false;
    dnnl_status_t status = dnnl_primitive_desc_create(&pd, &op, NULL, engine, NULL);
    if (!status) dnnl_primitive_desc_destroy(pd);
    return status == dnnl_success;
}

static void
engine_make(void)
{
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    engine_has_bf16 = engine_status == dnnl_success && find_bf16();
}

int
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
prim_multiplies(enum dtype d)
{
    bool amx = dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx512_core_amx;
    return prim_dtype(d) != dnnl_data_type_undef && (d == DT_F32 || amx || machine_doubles_bf16());
}

/* ---- making ---- */

static const char *
implementation(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name;
}

/* Returns the first implementation whose name begins with `prefer`; if there is none, oneDNN's first choice. */
static dnnl_primitive_desc_t
walk_to(dnnl_primitive_desc_iterator_t it, const char *prefer)
{
    do {
        dnnl_primitive_desc_t pd = dnnl_primitive_desc_iterator_fetch(it);
        if (!pd || !strncmp(implementation(pd), prefer, strlen(prefer))) return pd;
        dnnl_primitive_desc_destroy(pd);
    } while (dnnl_primitive_desc_iterator_next(it) == dnnl_success);
    return NULL;
}

/* Returns true for an implementation that crashes: with AMX, oneDNN 2.6 jumps to a missing kernel if neither
 * channels nor pixels are a multiple of its block (windows of 1 x 1, 17 channels, bands of 4 rows of 6, stride 2).
 * t/kernels/conv covers the case. */
static bool
is_broken(const_dnnl_primitive_desc_t pd)
{
    static const char name[] = "brgconv:avx512_core_amx";
    return !strncmp(implementation(pd), name, sizeof name - 1);
}

/* Returns the first implementation that does not crash. */
static dnnl_primitive_desc_t
walk_past(dnnl_primitive_desc_iterator_t it)
{
    do {
        dnnl_primitive_desc_t pd = dnnl_primitive_desc_iterator_fetch(it);
        if (!pd || !is_broken(pd)) return pd;
        dnnl_primitive_desc_destroy(pd);
    } while (dnnl_primitive_desc_iterator_next(it) == dnnl_success);
    return NULL;
}

static void
add_to_result(dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t after;
    if (dnnl_post_ops_create(&after) != dnnl_success) return;
    dnnl_post_ops_append_sum(after, 1);
    dnnl_primitive_attr_set_post_ops(attr, after);
    dnnl_post_ops_destroy(after);
}

int
prim_describe(const_dnnl_op_desc_t op, int threads, const_dnnl_primitive_desc_t hint, const char *prefer, bool add,
              dnnl_primitive_desc_t *out)
{
    pthread_once(&engine_once, engine_make);
    TRY(prim_check(engine_status, "the engine"));
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_iterator_t it;
    TRY(prim_check(dnnl_primitive_attr_create(&attr), "attributes"));
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (add) add_to_result(attr);
    team_set(threads);
    *out = NULL;
    dnnl_status_t status = dnnl_success;
    if (prefer && dnnl_primitive_desc_iterator_create(&it, op, attr, engine, hint) == dnnl_success) {
        *out = walk_to(it, prefer);
        dnnl_primitive_desc_iterator_destroy(it);
    }
    if (!*out) status = dnnl_primitive_desc_create(out, op, attr, engine, hint);
    if (!status && is_broken(*out)) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
        status = dnnl_primitive_desc_iterator_create(&it, op, attr, engine, hint);
        if (!status) *out = walk_past(it), dnnl_primitive_desc_iterator_destroy(it);
        if (!status && !*out) status = dnnl_unimplemented;
    }
    dnnl_primitive_attr_destroy(attr);
    return prim_check(status, "a primitive descriptor");
}

bool
prim_is_plain(const_dnnl_primitive_desc_t pd)
{
    return !strncmp(implementation(pd), "ref", 3) || !strncmp(implementation(pd), "simple", 6);
}

static int
add_arg(struct prim *p, int arg, int from, const dnnl_memory_desc_t *desc)
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
add_reorder(struct turn *t, bool out, const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *wanted)
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

/* Adds a reordering of argument i from the caller's layout `plain` to `wanted`. */
static int
add_turn(struct prim *p, int i, const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *wanted,
         size_t *scratch_bytes)
{
    struct turn *t = &p->turn[i];
    t->used = true;
    t->at = align_64(*scratch_bytes);
    *scratch_bytes = t->at + dnnl_memory_desc_get_size(wanted);
    return transpose16_of(plain, wanted, &t->turning) ? 0 : add_reorder(t, is_result(p->from[i]), plain, wanted);
}

static int
prim_fill(struct prim *p, const_dnnl_primitive_desc_t pd, int narg, const struct prim_arg *arg, size_t *scratch_bytes)
{
    TRY(prim_check(dnnl_primitive_create(&p->primitive, pd), "a primitive"));
    TRY(prim_check(dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags), "a stream"));
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t own = dnnl_memory_desc_get_size(scratch);
    *scratch_bytes = own;
    for (int i = 0; i < narg; i++) {
        const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg[i].arg);
        bool as_it_lies = !wanted || dnnl_memory_desc_equal(wanted, &arg[i].desc);
        TRY(add_arg(p, arg[i].arg, arg[i].from, as_it_lies ? &arg[i].desc : wanted));
        if (!as_it_lies) TRY(add_turn(p, i, &arg[i].desc, wanted, scratch_bytes));
    }
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
    signals_hold();
    dnnl_status_t status = dnnl_primitive_execute(primitive, p->stream, narg, arg);
    signals_pass_in_time();
    return prim_check(status, what);
}

/* Reorders an operand i from `at` into scratch, or a result i from scratch to `at`. */
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

/* Executes p once. before: argument addresses of the previous run, whose reordered arguments are still in scratch;
 * NULL: no previous run. */
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

/* Executes the primitives that add to the run's result. */
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
    team_set(p->threads);
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
    team_set(p->threads);
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
