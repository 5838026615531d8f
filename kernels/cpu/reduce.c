/* reduce.c - reductions over any dimensions of a strided view.
 *
 * Dimensions that lie one behind the other and are all kept or all reduced are
 * one loop. The last loop is the row. Outside it, kept loops enclose reduced
 * ones, so that what is accumulated stays in cache: a row that is reduced folds
 * into one number, a row that is kept is added to a row of accumulators, a block
 * at a time. Lanes of a fold are fixed by position: the same bits every run.
 *
 * One Zen 5 core, bench/kernels: f32{64,256} to one sum 0.9 us, to rows 1.3 us;
 * 16M elements at 51 GB/s (memory), over the outer dimension at 30 GB/s. 64 lanes
 * hide the latency of an addition and of a maximum, which 16 do not (4x). */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/reduce.h"

#include "kernels/cpu/convert.h"
#include "runtime/simd.h"
#include "kernels/cpu/team.h"
#include "runtime/stop.h"
#include "runtime/error.h"
#include "runtime/str.h"
#include "sbp/rule.h"

#include <math.h>

enum { AXIS, KEEPDIM };
enum { BLOCK = 4096, LANES = 64, CHUNK = 1 << 16, MOST_CHUNKS = 1024 };
enum { GRAIN = 32768 }; /* elements that are worth a thread */

double
reduce_start_f(enum reduce r)
{
    static const double start[NREDUCE] = {[RED_MAX] = -INFINITY, [RED_MIN] = INFINITY, [RED_PROD] = 1};
    return start[r];
}

int64_t
reduce_start_i(enum reduce r, enum dtype d)
{
    static const int64_t least[NDTYPE] = {[DT_I32] = INT32_MIN, [DT_I64] = INT64_MIN};
    static const int64_t most[NDTYPE] = {
        [DT_BOOL] = 1, [DT_U8] = UINT8_MAX, [DT_I32] = INT32_MAX, [DT_I64] = INT64_MAX};
    return r == RED_MAX ? least[d] : r == RED_MIN ? most[d] : r == RED_PROD;
}

/* ---- which dimensions go ---- */

void
reduced_dims(const struct call *c, bool *gone)
{
    const struct attr *axis = &c->attr[AXIS];
    for (int d = 0; d < c->in[0].ndim; d++) gone[d] = axis->n == 0;
    for (int i = 0; i < axis->n; i++) gone[axis->list[i]] = true;
}

int
reduce_rule(const struct call *c, struct str *rule)
{
    return rule_reduce(c, c->attr[AXIS].list, c->attr[AXIS].n, c->attr[KEEPDIM].i, rule);
}

int
reduce_rule_unsplit(const struct call *c, struct str *rule)
{
    struct str open = {0};
    bool gone[MAX_DIM];
    reduced_dims(c, gone);
    TRY(reduce_rule(c, &open));
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, gone[d] ? "[%c]" : "%c", open.text[d]);
    str_add(rule, open.text + c->in[0].ndim);
    str_free(&open);
    return 0;
}

int
reduce_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (reduced_count(c) > 0) return 0;
    struct str operands = {0};
    call_print_operands(c, &operands);
    int status = fail(E_SHAPE, "%s: no elements to reduce: a dimension is empty; %s", c->op->name, str_text(&operands));
    str_free(&operands);
    return status;
}

int64_t
reduced_count(const struct call *c)
{
    bool gone[MAX_DIM];
    int64_t n = 1;
    reduced_dims(c, gone);
    for (int d = 0; d < c->in[0].ndim; d++) n *= gone[d] ? c->in[0].dim[d] : 1;
    return n;
}

bool
reduces_split(const struct call *c)
{
    const struct layout *l = c->layout ? c->layout[0] : NULL;
    bool gone[MAX_DIM];
    if (!l) return false;
    reduced_dims(c, gone);
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->place->axis[a] > 1 && gone[l->sbp[a].axis]) return true;
    return false;
}

/* For each dimension of the operand the stride in the result: 0 where it is reduced. */
static void
result_strides(const struct kcall *k, int64_t *stride)
{
    bool gone[MAX_DIM], keepdim = k->call->attr[KEEPDIM].i;
    reduced_dims(k->call, gone);
    for (int d = 0, o = 0; d < k->in[0].ndim; d++) {
        stride[d] = gone[d] ? 0 : k->out[0].stride[o];
        o += keepdim || !gone[d];
    }
}

int64_t
reduced_index(const struct kcall *k, int64_t i)
{
    const struct view *x = &k->in[0];
    int64_t stride[MAX_DIM], to = 0;
    result_strides(k, stride);
    for (int d = x->ndim - 1; d >= 0; i /= x->dim[d--]) to += i % x->dim[d] * stride[d];
    return to;
}

/* ---- the meaning ---- */

/* What combining element x into accumulator a gives. */
INLINE double
real_sum(double a, double x)
{
    return a + x;
}
INLINE double
real_prod(double a, double x)
{
    return a * x;
}
INLINE double
real_max(double a, double x)
{
    return x > a || x != x ? x : a;
}
INLINE double
real_min(double a, double x)
{
    return x < a || x != x ? x : a;
}
INLINE float
float_max(float a, float x)
{
    return x > a || x != x ? x : a;
}
INLINE float
float_min(float a, float x)
{
    return x < a || x != x ? x : a;
}
INLINE int64_t
int_sum(int64_t a, int64_t x)
{
    return (int64_t)((uint64_t)a + (uint64_t)x);
}
INLINE int64_t
int_prod(int64_t a, int64_t x)
{
    return (int64_t)((uint64_t)a * (uint64_t)x);
}
INLINE int64_t
int_max(int64_t a, int64_t x)
{
    return x > a ? x : a;
}
INLINE int64_t
int_min(int64_t a, int64_t x)
{
    return x < a ? x : a;
}

static double
combine_f(enum reduce r, double a, double x)
{
    if (r == RED_SUM) return real_sum(a, x);
    if (r == RED_PROD) return real_prod(a, x);
    return r == RED_MAX ? real_max(a, x) : real_min(a, x);
}

static int64_t
combine_i(enum reduce r, int64_t a, int64_t x)
{
    if (r == RED_SUM) return int_sum(a, x);
    if (r == RED_PROD) return int_prod(a, x);
    return r == RED_MAX ? int_max(a, x) : int_min(a, x);
}

int
reduce_ref(const struct kcall *k)
{
    enum reduce r = k->call->op->folds;
    const struct view *x = &k->in[0], *y = &k->out[0];
    int64_t n = view_numel(x), m = view_numel(y);
    for (int64_t i = 0; i < m; i++)
        if (y->dtype == DT_F64)
            ((double *)y->data)[i] = reduce_start_f(r);
        else
            ((int64_t *)y->data)[i] = reduce_start_i(r, k->call->out[0].dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t to = reduced_index(k, i);
        if (y->dtype == DT_F64) {
            double *a = (double *)y->data + to;
            *a = combine_f(r, *a, elem_get_f(x->dtype, x->data, i));
        } else {
            int64_t *a = (int64_t *)y->data + to;
            *a = combine_i(r, *a, elem_get_i(x->dtype, x->data, i));
        }
    }
    return 0;
}

/* ---- loops over a block ---- */

/* Memory is asked for so far ahead, in bytes. Of twice as much, what comes is put out by what comes behind it before it
 * is read, where neither is in a cache. */
enum { AHEAD = 4096, LINE = 64 };
#define BRING(x, n)                                                                                                    \
    for (size_t line = 0; line < (n) * sizeof *(x); line += LINE) __builtin_prefetch((const char *)(x) + AHEAD + line)

/* fold_NAME: one number from n elements and what came before (in *accumulator), in LANES lanes. */
#define FOLD(name, type, acc, combine, lane_type, lane_combine)                                                        \
    VECTOR static void fold_##name(const void *from, int64_t n, void *accumulator)                                     \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        acc *a = accumulator;                                                                                          \
        lane_type lane[LANES];                                                                                         \
        int64_t i = 0;                                                                                                 \
        if (n >= LANES) {                                                                                              \
            for (int l = 0; l < LANES; l++) lane[l] = x[l];                                                            \
            for (i = LANES; i + LANES <= n; i += LANES) {                                                              \
                BRING(x + i, LANES);                                                                                   \
                for (int l = 0; l < LANES; l++) lane[l] = lane_combine(lane[l], x[i + l]);                             \
            }                                                                                                          \
            _Pragma("GCC unroll 6") for (int half = LANES / 2; half > 0; half /= 2) /* in registers */                 \
                for (int l = 0; l < half; l++) lane[l] = lane_combine(lane[l], lane[l + half]);                        \
            *a = combine(*a, lane[0]);                                                                                 \
        }                                                                                                              \
        for (; i < n; i++) *a = combine(*a, x[i]);                                                                     \
    }
/* join_NAME: n elements each into its accumulator. */
#define JOIN(name, type, acc, combine)                                                                                 \
    VECTOR static void join_##name(const void *from, int64_t n, void *accumulator)                                     \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        acc *a = accumulator;                                                                                          \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES) {                                                                           \
            BRING(x + i, LANES);                                                                                       \
            for (int l = 0; l < LANES; l++) a[i + l] = combine(a[i + l], x[i + l]);                                    \
        }                                                                                                              \
        for (; i < n; i++) a[i] = combine(a[i], x[i]);                                                                 \
    }
#define BOTH(name, type, acc, combine, lane_type, lane_combine)                                                        \
    FOLD(name, type, acc, combine, lane_type, lane_combine)                                                            \
    JOIN(name, type, acc, combine)

/* How the lanes of a fold lie in a block: as many streams, each `apart` from the one before, all of which go on by
 * `step` in a turn. Of a long block they are far from each other, since several come from memory faster than one: a
 * core of a Xeon (Sapphire Rapids) sums up 64 M in 16 ms for 20. */
enum { STREAMS = 4, SHARE = LANES / STREAMS, FAR_APART = 16384 };
struct streams {
    int64_t turns, apart, step;
};
INLINE struct streams
streams_of(int64_t n)
{
    int64_t turns = n / LANES;
    return n < FAR_APART ? (struct streams){turns, SHARE, LANES} : (struct streams){turns, turns * SHARE, SHARE};
}

/* fold_f32_sum as FOLD would have it, but that eight floats become doubles as they are loaded: gcc loads sixteen and
 * takes them apart, which takes a tenth longer. */
typedef double wide_eight __attribute__((vector_size(64)));
#define WIDE_AT(x) ((wide_eight){(x)[0], (x)[1], (x)[2], (x)[3], (x)[4], (x)[5], (x)[6], (x)[7]})
VECTOR static void
fold_f32_sum(const void *from, int64_t n, void *accumulator)
{
    const float *x = from;
    double *a = accumulator;
    struct streams s = streams_of(n);
    if (s.turns > 0) {
        wide_eight v[STREAMS], w[STREAMS];
        for (int k = 0; k < STREAMS; k++) v[k] = WIDE_AT(x + k * s.apart), w[k] = WIDE_AT(x + k * s.apart + 8);
        for (int64_t t = 1; t < s.turns; t++)
            for (int k = 0; k < STREAMS; k++) {
                const float *at = x + k * s.apart + t * s.step;
                BRING(at, SHARE);
                v[k] += WIDE_AT(at);
                w[k] += WIDE_AT(at + 8);
            }
        wide_eight all = ((v[0] + v[2]) + (v[1] + v[3])) + ((w[0] + w[2]) + (w[1] + w[3]));
        *a += ((all[0] + all[4]) + (all[2] + all[6])) + ((all[1] + all[5]) + (all[3] + all[7]));
    }
    for (int64_t i = s.turns * LANES; i < n; i++) *a += x[i];
}

JOIN(f32_sum, float, double, real_sum)

/* The same of ROWS rows, one after the other, `apart`: accumulators stay in registers on the way down. What is asked
 * for is the rows behind. */
enum { ROWS = 4 };
VECTOR static void
join_f32_sum_rows(const void *from, int64_t apart, int64_t n, void *accumulator)
{
    const float *x = from;
    double *a = accumulator;
    int64_t i = 0;
    for (; i + LANES / 2 <= n; i += LANES / 2) {
        wide_eight v[4];
        for (int k = 0; k < 4; k++) v[k] = *(wide_eight *)(a + i + 8 * k);
        for (int r = 0; r < ROWS; r++) {
            const float *at = x + r * apart + i;
            __builtin_prefetch(at + ROWS * apart);
            __builtin_prefetch(at + ROWS * apart + 16);
            for (int k = 0; k < 4; k++) v[k] += WIDE_AT(at + 8 * k);
        }
        for (int k = 0; k < 4; k++) *(wide_eight *)(a + i + 8 * k) = v[k];
    }
    for (; i < n; i++)
        for (int r = 0; r < ROWS; r++) a[i] += x[r * apart + i];
}

BOTH(f32_prod, float, double, real_prod, double, real_prod)
BOTH(f32_max, float, double, real_max, float, float_max)
BOTH(f32_min, float, double, real_min, float, float_min)
BOTH(f64_sum, double, double, real_sum, double, real_sum)
BOTH(f64_prod, double, double, real_prod, double, real_prod)
BOTH(f64_max, double, double, real_max, double, real_max)
BOTH(f64_min, double, double, real_min, double, real_min)
BOTH(i64_sum, int64_t, int64_t, int_sum, int64_t, int_sum)
BOTH(i64_prod, int64_t, int64_t, int_prod, int64_t, int_prod)
BOTH(i64_max, int64_t, int64_t, int_max, int64_t, int_max)
BOTH(i64_min, int64_t, int64_t, int_min, int64_t, int_min)

struct loops_of {
    void (*fold)(const void *x, int64_t n, void *a);
    void (*join)(const void *x, int64_t n, void *a);
    void (*join_rows)(const void *x, int64_t apart, int64_t n,
                      void *a); /* of ROWS rows that lie ready; NULL: there is none */
};
static const struct loops_of loops_of[NCOMPUTE][NREDUCE] = {
    [COMP_F32] = {[RED_SUM] = {fold_f32_sum, join_f32_sum, join_f32_sum_rows},
                  [RED_PROD] = {fold_f32_prod, join_f32_prod},
                  [RED_MAX] = {fold_f32_max, join_f32_max},
                  [RED_MIN] = {fold_f32_min, join_f32_min}},
    [COMP_F64] = {[RED_SUM] = {fold_f64_sum, join_f64_sum},
                  [RED_PROD] = {fold_f64_prod, join_f64_prod},
                  [RED_MAX] = {fold_f64_max, join_f64_max},
                  [RED_MIN] = {fold_f64_min, join_f64_min}},
    [COMP_I64] = {[RED_SUM] = {fold_i64_sum, join_i64_sum},
                  [RED_PROD] = {fold_i64_prod, join_i64_prod},
                  [RED_MAX] = {fold_i64_max, join_i64_max},
                  [RED_MIN] = {fold_i64_min, join_i64_min}},
};

/* ---- the walk ---- */

struct loop {
    int64_t size, in, out; /* strides; out is 0 where it is reduced */
};
struct reduction {
    const char *x;
    char *y;
    enum dtype in, out;
    enum compute type;
    size_t in_bytes, out_bytes;
    struct loops_of f;
    enum reduce reduce;
    struct loop kept[MAX_DIM], gone[MAX_DIM], row;
    int nkept, ngone;
    bool row_gone;
    int64_t piece; /* of a kept row: at most BLOCK */
};

/* The loops of the call, merged, the last one apart. */
static void
plan(struct reduction *p, const struct kcall *k)
{
    const struct view *x = &k->in[0];
    int64_t out[MAX_DIM];
    bool gone[MAX_DIM], was_gone = true;
    struct loop all[MAX_DIM + 1];
    bool all_gone[MAX_DIM + 1];
    int n = 0;
    result_strides(k, out);
    reduced_dims(k->call, gone);
    for (int d = 0; d < x->ndim; d++) {
        if (x->dim[d] == 1) continue;
        struct loop next = {x->dim[d], x->stride[d], out[d]};
        struct loop *last = n ? &all[n - 1] : NULL;
        if (last && was_gone == gone[d] && last->in == next.in * next.size && last->out == next.out * next.size)
            *last = (struct loop){last->size * next.size, next.in, next.out};
        else
            all_gone[n] = gone[d], all[n++] = next;
        was_gone = gone[d];
    }
    if (n == 0) all_gone[n] = true, all[n++] = (struct loop){1, 1, 0};
    p->row = all[n - 1];
    p->row_gone = all_gone[n - 1];
    for (int i = 0; i < n - 1; i++)
        if (all_gone[i])
            p->gone[p->ngone++] = all[i];
        else
            p->kept[p->nkept++] = all[i];
}

/* Counts through loops: adds to *in and *out, false after the last position. */
static bool
advance(const struct loop *loop, int n, int64_t *at, int64_t *in, int64_t *out)
{
    for (int i = n - 1; i >= 0; i--) {
        *in += loop[i].in;
        *out += loop[i].out;
        if (++at[i] < loop[i].size) return true;
        *in -= loop[i].in * loop[i].size;
        *out -= loop[i].out * loop[i].size;
        at[i] = 0;
    }
    return false;
}

/* What is accumulated in. */
static enum compute
wide(enum compute type)
{
    return type == COMP_I64 ? COMP_I64 : COMP_F64;
}

static void
start(const struct reduction *p, int64_t n, void *accumulator)
{
    for (int64_t i = 0; i < n; i++)
        if (p->type == COMP_I64)
            ((int64_t *)accumulator)[i] = reduce_start_i(p->reduce, p->out);
        else
            ((double *)accumulator)[i] = reduce_start_f(p->reduce);
}

/* Is a block read where it lies? */
static bool
lies_ready(const struct reduction *p)
{
    return p->row.in == 1 && p->in == compute_dtype(p->type);
}

/* n elements at offset `in`, as a block: of at most BLOCK, where it does not lie ready. */
static const void *
block_at(const struct reduction *p, int64_t in, int64_t n, void *buffer)
{
    const char *x = p->x + in * (int64_t)p->in_bytes;
    if (lies_ready(p)) return x;
    block_load(p->type, p->in, x, p->row.in, n, buffer);
    return buffer;
}

/* Rows of n elements, the first of them at offset `in`, as many as one call takes of those that are left; how many. */
static int64_t
join_some(const struct reduction *p, int64_t left, int64_t in, int64_t n, void *buffer, void *accumulator)
{
    const void *x = block_at(p, in, n, buffer);
    bool many = p->f.join_rows && x != buffer && left >= ROWS;
    if (many)
        p->f.join_rows(x, p->gone[p->ngone - 1].in, n, accumulator);
    else
        p->f.join(x, n, accumulator);
    return many ? ROWS : 1;
}

/* The rows of one kept position, `in` its offset in the operand: from `first` on, n of a kept row, all of a reduced
 * one. */
static void
accumulate(const struct reduction *p, int64_t in, int64_t first, int64_t n, void *accumulator)
{
    _Alignas(64) double buffer[BLOCK];
    int64_t at[MAX_DIM] = {0}, out = 0, since = 0, block = lies_ready(p) ? CHUNK : BLOCK;
    bool several = !p->row_gone && p->ngone > 0; /* rows of the innermost loop that goes */
    int64_t rows = several ? p->gone[p->ngone - 1].size : 1, step = several ? p->gone[p->ngone - 1].in : 0;
    do {
        for (int64_t i = 0, m; i < rows && !p->row_gone; i += m) {
            m = join_some(p, rows - i, in + first * p->row.in + i * step, n, buffer, accumulator);
            if (stop_after(&since, m * n * 8)) return;
        }
        if (!p->row_gone) continue;
        for (int64_t i = 0; i < p->row.size; i += block) {
            if (stop_after(&since, block * 8)) return;
            int64_t m = MIN(p->row.size - i, block);
            p->f.fold(block_at(p, in + i * p->row.in, m, buffer), m, accumulator);
        }
    } while (advance(p->gone, p->ngone - several, at, &in, &out));
}

/* Where kept position i is, in the operand and in the result. */
static void
kept_at(const struct reduction *p, int64_t i, int64_t *at, int64_t *in, int64_t *out)
{
    *in = *out = 0;
    for (int k = p->nkept - 1; k >= 0; i /= p->kept[k--].size) {
        at[k] = i % p->kept[k].size;
        *in += at[k] * p->kept[k].in;
        *out += at[k] * p->kept[k].out;
    }
}

/* Results lo..hi, counted in pieces of the rows of kept positions. */
static void
reduce_range(void *arg, int64_t lo, int64_t hi)
{
    const struct reduction *p = arg;
    _Alignas(64) double accumulator[BLOCK];
    int64_t at[MAX_DIM] = {0}, in, out, width = p->row_gone ? 1 : p->row.size,
            pieces = (width + p->piece - 1) / p->piece;
    kept_at(p, lo / pieces, at, &in, &out);
    for (int64_t i = lo; i < hi; i++) {
        int64_t j = i % pieces * p->piece, n = MIN(width - j, p->piece);
        start(p, n, accumulator);
        accumulate(p, in, j, n, accumulator);
        block_store(wide(p->type), p->out, accumulator, n, p->y + (out + j * p->row.out) * (int64_t)p->out_bytes,
                    p->row_gone ? 1 : p->row.out);
        if (j + n == width) advance(p->kept, p->nkept, at, &in, &out);
    }
}

/* Each result by one thread, so that the bits do not depend on their number. */
static void
reduce_each(struct reduction *p, int threads, int64_t numel)
{
    int64_t width = p->row_gone ? 1 : p->row.size, kept = 1;
    for (int k = 0; k < p->nkept; k++) kept *= p->kept[k].size;
    p->piece = BLOCK;
    if (kept < threads) p->piece = MIN(MAX((width / threads + 63) / 64 * 64, 64), BLOCK);
    int64_t units = kept * ((width + p->piece - 1) / p->piece);
    team_run(threads, units, 1 + GRAIN * units / numel, reduce_range, p);
}

/* ---- one result of many elements: chunks, whose sizes do not depend on the threads ---- */

struct chunks {
    const struct reduction *p;
    int64_t size;
    double *of; /* int64_t of integers */
};

static void
chunk_range(void *arg, int64_t lo, int64_t hi)
{
    const struct chunks *c = arg;
    struct reduction part = *c->p;
    for (int64_t i = lo; i < hi; i++) {
        part.row.size = MIN(c->size, c->p->row.size - i * c->size);
        start(&part, 1, &c->of[i]);
        accumulate(&part, i * c->size * part.row.in, 0, 1, &c->of[i]);
    }
}

static void
reduce_one(const struct reduction *p, int threads)
{
    double of[MOST_CHUNKS], result;
    int64_t size = MAX(CHUNK, (p->row.size + MOST_CHUNKS - 1) / MOST_CHUNKS);
    int64_t n = (p->row.size + size - 1) / size;
    team_run(threads, n, 1, chunk_range, &(struct chunks){p, size, of});
    start(p, 1, &result);
    loops_of[wide(p->type)][p->reduce].fold(of, n, &result);
    block_store(wide(p->type), p->out, &result, 1, p->y, 1);
}

/* An operand without elements: every result is the identity. */
static void
fill(const struct reduction *p, const struct view *y)
{
    int64_t n = view_numel(y);
    double one;
    start(p, 1, &one);
    for (int64_t i = 0; i < n; i++)
        block_store(wide(p->type), p->out, &one, 1, (char *)y->data + i * (int64_t)p->out_bytes, 1);
}

bool
reduce_accepts(const struct kcall *k)
{
    return view_is_dense(&k->out[0]);
}

int
reduce_run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    enum reduce r = k->call->op->folds;
    const struct view *x = &k->in[0], *y = &k->out[0];
    struct reduction p = {.x = x->data, .y = y->data, .in = x->dtype, .out = y->dtype, .reduce = r};
    p.in_bytes = dtype_bytes(p.in);
    p.out_bytes = dtype_bytes(p.out);
    p.type = compute_of(p.in);
    p.f = loops_of[p.type][r];
    if (view_numel(x) == 0) {
        fill(&p, y);
        return 0;
    }
    plan(&p, k);
    if (p.nkept == 0 && p.ngone == 0 && p.row_gone && p.row.size >= 2 * CHUNK)
        reduce_one(&p, k->threads);
    else
        reduce_each(&p, k->threads, view_numel(x));
    return 0;
}
