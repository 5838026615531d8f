/* attention_rows.c - attention of f64 and its gradient, one query at a time.
 *
 * The scores of a query are a row of numbers, one per key. Only the keys that the query sees are read. In the
 * forward pass, threads divide the queries. In the backward pass, threads divide the heads, so that each sum is
 * added up in a fixed order. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/attention/attention_rows.h"
#include "kernels/cpu/attention/attention.h"

#include "kernels/cpu/base/team.h"
#include "kernels/cpu/math/vmath_f64.h"
#include "runtime/data/arena.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <stdlib.h>
#include <string.h>

struct attention_rows {
    bool backward;
    int64_t part; /* size of one thread's scratch: weights and slopes of a query, bytes */
};

struct row_job {
    const struct kcall *k;
    struct view scores;
    int64_t part, nquery, nkey, size, width;
};

/* One query; its scores are row r of all scores. weight: softmax weight of each key; slope: derivative of each key's
 * score with respect to the score before the softcap. */
struct row_query {
    int64_t r, head, first, end;
    double *weight, *slope, sink_weight;
};

bool
attention_rows_accepts(const struct kcall *k)
{
    for (int i = 0; i < k->call->nout; i++)
        if (!view_is_dense(&k->out[i])) return false;
    for (int i = ATT_Q; i <= ATT_V; i++)
        if (k->in[i].dtype != DT_F64 || view_numel(&k->in[i]) == 0) return false;
    return true;
}

static int
prepare_rows(const struct kcall *k, bool backward, void **state, size_t *scratch_bytes)
{
    struct view s = attention_scores(k);
    struct attention_rows *a = must_alloc(sizeof *a);
    *a = (struct attention_rows){backward, (s.dim[s.ndim - 1] * 2 * (int64_t)sizeof(double) + 63) / 64 * 64};
    *scratch_bytes = (size_t)(a->part * MAX(k->threads, 1));
    *state = a;
    return 0;
}

int
attention_rows_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return prepare_rows(k, false, state, scratch_bytes);
}

int
attention_rows_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return prepare_rows(k, true, state, scratch_bytes);
}

void
attention_rows_drop(void *state)
{
    free(state);
}

/* ---- vectors ---- */

static VECTOR double
dot_f64(int64_t n, const double *x, const double *y)
{
    enum { LANES = 8 };
    double sum[LANES] = {0}, all = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) sum[j] += x[i + j] * y[i + j];
    for (; i < n; i++) all += x[i] * y[i];
    for (int j = 0; j < LANES; j++) all += sum[j];
    return all;
}

/* Adds factor * x to y. */
static VECTOR void
add_row_f64(int64_t n, double factor, const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++) y[i] += factor * x[i];
}

/* ---- one query ---- */

/* Returns the matrix of a head in an operand or result. */
static double *
head_of(const struct row_job *job, const struct view *v, int64_t head)
{
    return (double *)v->data + attention_head(v, &job->scores, head);
}

static const double *
query_row(const struct row_job *job, const struct row_query *q)
{
    return head_of(job, &job->k->in[ATT_Q], q->head) + q->r % job->nquery * job->size;
}

/* Computes the scores of the keys that the query sees, and their derivatives. Returns the maximum of the scores and
 * the sink. */
static double
row_scores(const struct row_job *job, const struct keys *l, double sink, struct row_query *q)
{
    const struct kcall *k = job->k;
    const double *row = query_row(job, q), *key = head_of(job, &k->in[ATT_K], q->head);
    double scale = k->call->attr[ATT_SCALE].f, cap = k->call->attr[ATT_SOFTCAP].f, max = sink;
    for (int64_t j = q->first; j < q->end; j++) {
        double s = scale * dot_f64(job->size, row, key + j * job->size), t = cap > 0 ? tanh(s / cap) : 0;
        q->slope[j] = 1 - t * t;
        q->weight[j] = (cap > 0 ? cap * t : s) + keys_add(l, j);
        max = fmax(max, q->weight[j]);
    }
    return attention_base(max);
}

static void
row_weights(const struct row_job *job, struct row_query *q)
{
    struct keys l = keys_of(job->k, &job->scores, ATT_MASK, q->r);
    q->head = q->r / job->nquery, q->first = MIN(l.first, job->nkey), q->end = MAX(l.end, q->first);
    double sink = sink_of(job->k, &job->scores, ATT_MASK, q->r), max = row_scores(job, &l, sink, q);
    double *weight = q->weight + q->first, sum = exp(sink - max);
    int64_t n = q->end - q->first;
    for (int64_t j = 0; j < n; j++) weight[j] -= max;
    vec_exp_f64(n, weight, weight);
    q->sink_weight = sum;
    for (int64_t j = 0; j < n; j++) sum += weight[j];
    for (int64_t j = 0; j < n; j++) weight[j] *= attention_inverse(sum);
    q->sink_weight *= attention_inverse(sum);
}

static void
row_forward(const struct row_job *job, struct row_query *q)
{
    row_weights(job, q);
    const double *v = head_of(job, &job->k->in[ATT_V], q->head);
    double *out = (double *)job->k->out[0].data + q->r * job->width;
    memset(out, 0, (size_t)job->width * sizeof *out);
    for (int64_t j = q->first; j < q->end; j++) add_row_f64(job->width, q->weight[j], v + j * job->width, out);
}

/* Sets the query's row of dq, and adds the query's contribution to dk and dv of its head. */
static void
row_backward(const struct row_job *job, struct row_query *q)
{
    const struct kcall *k = job->k;
    row_weights(job, q);
    int64_t size = job->size, width = job->width, in_head = q->r % job->nquery;
    const double *row = query_row(job, q), *key = head_of(job, &k->in[ATT_K], q->head);
    const double *v = head_of(job, &k->in[ATT_V], q->head);
    const double *g = head_of(job, &k->in[ATT_OUT_GRAD], q->head) + in_head * width;
    double mean = dot_f64(width, g, head_of(job, &k->in[ATT_OUT], q->head) + in_head * width);
    double *dq = (double *)k->out[0].data + q->r * size, *dk = (double *)k->out[1].data + q->head * job->nkey * size;
    double *dv = (double *)k->out[2].data + q->head * job->nkey * width, scale = k->call->attr[ATT_SCALE].f;
    memset(dq, 0, (size_t)size * sizeof *dq);
    if (view_numel(&k->out[3]) > 0) ((double *)k->out[3].data)[q->r] = -q->sink_weight * mean;
    for (int64_t j = q->first; j < q->end; j++) {
        double p = q->weight[j], e = scale * p * q->slope[j] * (dot_f64(width, g, v + j * width) - mean);
        add_row_f64(width, p, g, dv + j * width);
        add_row_f64(size, e, key + j * size, dq);
        add_row_f64(size, e, row, dk + j * size);
    }
}

/* ---- threads ---- */

static struct row_query
query_in(const struct row_job *job, int64_t share)
{
    double *room = (double *)((char *)job->k->scratch + share * job->part);
    return (struct row_query){.weight = room, .slope = room + job->nkey};
}

static void
rows_forward(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct row_job *job = arg;
    struct row_query q = query_in(job, share);
    for (q.r = lo; q.r < hi; q.r++) row_forward(job, &q);
}

static void
rows_backward(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct row_job *job = arg;
    struct row_query q = query_in(job, share);
    for (int64_t head = lo; head < hi; head++) {
        double *dk = (double *)job->k->out[1].data + head * job->nkey * job->size;
        double *dv = (double *)job->k->out[2].data + head * job->nkey * job->width;
        memset(dk, 0, (size_t)(job->nkey * job->size) * sizeof *dk);
        memset(dv, 0, (size_t)(job->nkey * job->width) * sizeof *dv);
        for (q.r = head * job->nquery; q.r < (head + 1) * job->nquery && !stop_now(); q.r++) row_backward(job, &q);
    }
}

int
attention_rows_run(const struct kcall *k, const void *state)
{
    const struct attention_rows *a = state;
    struct row_job job = {.k = k, .scores = attention_scores(k), .part = a->part};
    int last = job.scores.ndim - 1;
    job.nquery = job.scores.dim[last - 1], job.nkey = job.scores.dim[last];
    job.size = k->in[ATT_Q].dim[last], job.width = k->in[ATT_V].dim[last];
    int64_t heads = 1;
    for (int d = 0; d < last - 1; d++) heads *= job.scores.dim[d];
    team_shares(k->threads, a->backward ? heads : heads * job.nquery, 1, a->backward ? rows_backward : rows_forward,
                &job);
    return 0;
}
