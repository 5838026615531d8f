/* attention.c - writes the kernel texts of attention and its gradient for 16-bit floats, around the templates of
 * attention.cuh.
 *
 * Rows may start at any address; the elements of a row are contiguous. A batch dimension in which an operand is
 * repeated has stride 0. Other calls are kernels along lines (line.c): those of other dtypes, with rows longer
 * than SIZE, with strided rows, or with a window, softcap, sinks or spans. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/making.h"

#include "kernels/op/attention.h"
#include "runtime/base/error.h"

#include <string.h>

/* SIZE: maximum number of elements of a row; WARP: threads of a warp; ROWS: rows of a warp */
enum { SIZE = 128, WARP = 32, ROWS = 16 };

static int
batch_dims(const struct kcall *k)
{
    return k->in[ATT_Q].ndim - 2;
}

static bool
is_gradient(const struct kcall *k)
{
    return k->call->op->gpu.attends[1];
}

static bool
has_rows(const struct view *v, enum dtype d)
{
    int last = v->ndim - 1;
    if (view_numel(v) == 0) return true; /* the result is not used */
    return v->dtype == (int)d && v->ndim >= 2 && v->dim[last] <= SIZE && (v->dim[last] == 1 || v->stride[last] == 1) &&
           v->dim[last - 1] < 1 << 30;
}

bool
making_attends(const struct kcall *k)
{
    if (!k->call->op->gpu.attends[0]) return false;
    enum dtype d = (enum dtype)k->in[ATT_Q].dtype;
    bool can = (d == DT_BF16 || d == DT_F16) && !attention_has_options(k->call, ATT_MASK);
    for (int i = 0; i < k->call->nin && can; i++)
        can = (i >= ATT_MASK && i <= ATT_SPANS) || (view_numel(&k->in[i]) > 0 && has_rows(&k->in[i], d));
    for (int i = 0; i < k->call->nout && can; i++) can = has_rows(&k->out[i], d);
    return can;
}

/* Returns true if the length of a row, and the distance of each row from the first, are multiples of 16 bytes. */
static bool
is_whole_view(const struct view *v)
{
    enum { UNIT = 8 };
    bool whole = v->dim[v->ndim - 1] % UNIT == 0;
    for (int d = 0; d < v->ndim - 1; d++) whole &= v->dim[d] == 1 || v->stride[d] % UNIT == 0;
    return whole;
}

static void
add_strides(struct making *m, const struct view *v, int from, int ndim)
{
    for (int d = 0; d < ndim; d++) {
        int own = d - from;
        making_word(m, own < 0 || v->dim[own] == 1 ? 0 : (uint64_t)v->stride[own]);
    }
    if (ndim == 0) making_word(m, 0);
}

/* Writes the declarations of a member `name` and of a method that returns the matrix of a head of operand or result
 * `index`. */
static void
add_attention_matrix(struct making *m, const char *name, int index, const struct view *v, int batch)
{
    str_addf(&m->member, "    struct { void *data; int64_t count, size, row, whole, batch[%d]; } %s;\n", MAX(batch, 1),
             name);
    making_fill(m, FILL_ADDRESS, index, 0);
    making_words(m, 4, (int64_t[]){v->dim[batch], v->dim[batch + 1], v->stride[batch], is_whole_view(v)});
    add_strides(m, v, 0, batch);
    str_addf(&m->head, "    METHOD rows<half> %s(int64_t head) const { return matrix_of(a.%s, head); }\n", name, name);
}

static void
add_result(struct making *m, const char *name, const struct kcall *k, int i)
{
    const struct view *v = &k->out[i];
    bool wanted = view_numel(v) > 0;
    if (wanted)
        add_attention_matrix(m, name, k->call->nin + i, v, batch_dims(k));
    else
        str_addf(&m->head, "    METHOD rows<half> %s(int64_t) const { return rows<half>(); }\n", name);
    str_addf(&m->head, "    METHOD bool wants_%s() const { return %d; }\n", name, wanted);
}

static bool
is_masked(const struct kcall *k)
{
    return k->call->nin > ATT_MASK && k->in[ATT_MASK].dtype != DT_NONE;
}

/* Writes the declaration of the mask, whose last two dimensions are those of the scores. */
static void
add_attention_mask(struct making *m, const struct kcall *k)
{
    const struct view *v = &k->in[ATT_MASK];
    int batch = batch_dims(k), from = batch + 2 - v->ndim;
    if (!is_masked(k)) {
        str_add(&m->head, "    METHOD float mask(int64_t, int, int) const { return 0; }\n");
        return;
    }
    str_addf(&m->member, "    struct { void *data; int64_t stride[2], batch[%d]; } mask;\n", MAX(batch, 1));
    making_fill(m, FILL_ADDRESS, ATT_MASK, 0);
    for (int d = batch; d < batch + 2; d++)
        making_word(m, d < from || v->dim[d - from] == 1 ? 0 : (uint64_t)v->stride[d - from]);
    add_strides(m, v, from, batch);
    enum compute type = compute_of((enum dtype)v->dtype);
    str_addf(&m->head, "    MASK_OF(%s, %s)\n", making_compute(type), making_memory((enum dtype)v->dtype));
}

static int64_t
head_count(const struct kcall *k, const struct view *scores)
{
    int64_t n = 1;
    for (int d = 0; d < batch_dims(k); d++) n *= scores->dim[d];
    return n;
}

/* Sets the number of threads per block and the number of resident blocks per multiprocessor. A block has four
 * warps. With several resident blocks, one block computes while another waits for its exponentials. */
static void
set_block(const struct kcall *k, const char *pass, struct cuda_parts *parts)
{
    int last = batch_dims(k) + 1;
    bool few = MAX(k->in[ATT_Q].dim[last], k->in[ATT_V].dim[last]) <= SIZE / 2;
    bool keys = is_gradient(k) && !strcmp(pass, k->call->op->gpu.attends[1]);
    parts->threads = 4 * WARP;
    parts->crowd = keys || !few ? 2 : is_gradient(k) ? 3 : 4;
}

/* Writes the declarations of the operands and results that only a gradient's pass has. */
static void
add_gradient_statements(struct making *m, const struct kcall *k, const char *pass)
{
    int batch = batch_dims(k);
    add_attention_matrix(m, "g", ATT_OUT_GRAD, &k->in[ATT_OUT_GRAD], batch);
    if (!strcmp(pass, k->call->op->gpu.attends[0])) add_attention_matrix(m, "out", ATT_OUT, &k->in[ATT_OUT], batch);
    add_result(m, "dq", k, 0);
    add_result(m, "dk", k, 1);
    add_result(m, "dv", k, 2);
    str_add(&m->member, "    void *scratch;\n");
    making_fill(m, FILL_SCRATCH, 0, 0);
    str_add(&m->head, "    ROW_SUMS_OF\n");
}

/* Writes the kernel of one pass, with one block per group of rows of a head. count: number of rows of a head; pass:
 * name of the template. */
static int
make_attention_pass(struct arena *a, const struct kcall *k, const char *pass, int64_t count, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    struct view scores = attention_scores(k);
    int batch = batch_dims(k);
    double scale = k->call->attr[ATT_SCALE].f;
    const struct view *q = &k->in[ATT_Q], *v = &k->in[ATT_V];
    making_what(&m, pass);
    set_block(k, pass, &s->parts);
    int64_t own = s->parts.threads / WARP * ROWS, heads = head_count(k, &scores);
    int64_t jobs = heads * ((count + own - 1) / own);
    str_addf(&m.member, "    int64_t jobs, heads, queries, keys, place, batch[%d];\n", MAX(batch, 1));
    making_words(&m, 5, (int64_t[]){jobs, heads, scores.dim[batch], scores.dim[batch + 1], q->offset[batch]});
    making_words(&m, batch, scores.dim);
    if (batch == 0) making_word(&m, 1);
    making_fragments(&m);
    str_add(&m.head, cuda_attention_text);
    str_addf(&m.head,
             "struct attending {\n    const args &a;\n    typedef %s half;\n"
             "    enum { SIZE = %d, WIDTH = %d, CAUSAL = %d, MASKED = %d, LATE = %d, LOOPS = %d };\n"
             "    ATTENTION_OF(%.17g)\n",
             making_memory((enum dtype)q->dtype), (int)((q->dim[batch + 1] + 15) / 16 * 16),
             (int)((v->dim[batch + 1] + 15) / 16 * 16), (int)k->call->attr[ATT_CAUSAL].i, is_masked(k),
             !is_masked(k) && scale > 0, MAX(batch, 1), scale);
    add_attention_matrix(&m, "q", ATT_Q, q, batch);
    add_attention_matrix(&m, "k", ATT_K, &k->in[ATT_K], batch);
    add_attention_matrix(&m, "v", ATT_V, v, batch);
    add_attention_mask(&m, k);
    if (is_gradient(k)) {
        add_gradient_statements(&m, k, pass);
        s->scratch_bytes = (size_t)(2 * heads * scores.dim[batch]) * sizeof(float);
    } else {
        add_result(&m, "y", k, 0);
    }
    str_addf(&m.head, "};\n");
    str_addf(&m.body, "    EACH_ATTENTION(%s)\n", pass);
    return making_finish(&m, "attention", jobs * s->parts.threads);
}

int
making_attention(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    int64_t queries = k->in[ATT_Q].dim[batch_dims(k)], keys = k->in[ATT_K].dim[batch_dims(k)];
    const char *const *pass = k->call->op->gpu.attends;
    TRY(make_attention_pass(a, k, pass[0], queries, s));
    if (!is_gradient(k)) return 0;
    if (view_numel(&k->out[1]) == 0 && view_numel(&k->out[2]) == 0) return 0;
    s->then = ARENA_NEW(a, struct cuda_source);
    return make_attention_pass(a, k, pass[1], keys, s->then);
}
