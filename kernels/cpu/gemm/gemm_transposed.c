/* gemm_transposed.c - multiplies few rows by a column-major matrix b, such as a layer's weights, as the product of
 * the transposes.
 *
 * For a column-major b, oneDNN repacks all of b in every call. The product of the transposes (of b and a) uses b
 * as stored. It needs the transposes of c and, if a is row-major, of a; this file computes them. They are smaller
 * than b if rows are few. Rows become columns, of which oneDNN computes sixteen at once. Time on one core, by this
 * file and by oneDNN directly, us:
 *
 *     m      n     k                     m    n    k
 *     8   1024  1024   271    316     64   256   256    51     56
 *     16   256   256    14     21     64  3072   768  1806   2267
 *     16  1024  1024   281    401     128 1024  1024  1603   1713
 *     32   256   256    25     33     192  768   768  1331   1439
 *     20   768   768   259    263     256 2304   768  5795   5397
 *     24   256   256    28     27     64   256    64    15     14 */
#include "kernels/cpu/gemm/gemm_transposed.h"

#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/base/transpose16.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"

#include <stdlib.h>

bool
gemm_transposed_pays(const struct gemm_transposed_sizes *t)
{
    /* LEAST, MOST: minimum and maximum number of rows. AT_ONCE: number of rows that oneDNN computes at once; a
     * larger number of rows must be a multiple of it. FAR: number of elements of a from which transposing costs
     * more than it saves. */
    enum { LEAST = 8, MOST = 192, AT_ONCE = 16, FAR = 700 * 1000 };
    if (t->m < LEAST || t->m > MOST || (t->m > AT_ONCE && t->m % AT_ONCE) || t->m * t->k >= FAR) return false;
    return 2 * t->n * t->k >= 3 * t->m * (t->k + t->n);
}

struct turned {
    struct gemm_transposed_sizes size;
    struct prim *prim;
    size_t a_at, c_at; /* offsets of the transposes of a and c in scratch, bytes */
    int threads;
};

/* Returns true if a is column-major. Its transpose then needs no copy. */
static bool
a_lies(const struct gemm_transposed_sizes *t)
{
    return t->a_col != 1;
}

static struct prim_layout
matrix_layout(int64_t rows, int64_t cols, int64_t row)
{
    return (struct prim_layout){dnnl_f32, 2, {rows, cols}, .stride = {row, 1}};
}

int
gemm_transposed_make(const struct gemm_transposed_sizes *t, int threads, void **state, size_t *scratch_bytes)
{
    const struct prim_op op = {.kind = PRIM_MATMUL,
                               .src = matrix_layout(t->n, t->k, t->b_col),
                               .weights = matrix_layout(t->k, t->m, a_lies(t) ? t->a_col : t->m),
                               .dst = matrix_layout(t->n, t->m, t->m)};
    const struct prim_arg arg[] = {
        {DNNL_ARG_SRC, 1, op.src}, {DNNL_ARG_WEIGHTS, 0, op.weights}, {DNNL_ARG_DST, PRIM_OUT, op.dst}};
    dnnl_primitive_desc_t pd;
    void *prim;
    TRY(prim_describe(&op, NULL, threads, &pd));
    TRY(prim_new(pd, 3, arg, threads, &prim, scratch_bytes));
    struct turned *made = must_alloc(sizeof *made);
    *made = (struct turned){.size = *t, .prim = prim, .threads = threads};
    made->a_at = (*scratch_bytes + 63) / 64 * 64;
    made->c_at = made->a_at + ((size_t)(a_lies(t) ? 0 : t->m * t->k) * sizeof(float) + 63) / 64 * 64;
    *scratch_bytes = made->c_at + (size_t)(t->m * t->n) * sizeof(float);
    *state = made;
    return 0;
}

int
gemm_transposed_run(const struct kcall *k, const void *state)
{
    const struct turned *t = state;
    const struct gemm_transposed_sizes *s = &t->size;
    float *turned = (float *)((char *)k->scratch + t->a_at), *c = (float *)((char *)k->scratch + t->c_at);
    void *a = a_lies(s) ? k->in[0].data : turned;
    if (!a_lies(s)) transpose16_matrix(s->m, s->k, k->in[0].data, s->a_row, turned, s->m, t->threads);
    TRY(prim_at(t->prim, (void *const[]){k->in[1].data, a, c}, k->scratch, k->call->op->name));
    transpose16_matrix(s->n, s->m, c, s->m, k->out[0].data, s->c_row, t->threads);
    return 0;
}

void
gemm_transposed_drop(void *state)
{
    struct turned *t = state;
    if (t) prim_drop(t->prim);
    free(t);
}
