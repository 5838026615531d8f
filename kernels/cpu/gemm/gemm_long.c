/* gemm_long.c - computes products with a small result and a long k. Multiplies parts of k by single-threaded
 * products, and adds up their results in f64. */
#include "kernels/cpu/gemm/gemm_long.h"

#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/rows/fold.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/base/team.h"
#include "runtime/data/arena.h"
#include "runtime/base/stop.h"

#include <stdlib.h>
#include <string.h>

/* Products of parts of k. FIRST: the first part, which may be shorter; MORE: the other parts, of equal size. */
enum { FIRST, MORE, NPRODUCT };
/* Maximum number of entries of a result. oneDNN divides larger results among more than 32 threads without
 * splitting k. */
enum { SMALL = 1 << 16 };
/* GROUPS: maximum number of groups into which the parts of k are divided. SUMS: maximum number of entries in the
 * sums of all groups. */
enum { GROUPS = 64, SUMS = 1 << 20 };
struct of_long {
    int64_t first, part, nparts, ngroups;
    /* product_at: offset of the product in a worker's scratch, bytes. each: size of a worker's scratch, bytes. */
    size_t product_at, each;
    int threads;
    struct prim *product[]; /* NPRODUCT oneDNN products for each thread */
};

/* Returns true if this file computes the product. Excludes results with one row or column, which gemm_few.h
 * computes, because oneDNN would add their products one by one. */
static bool
is_of_these(const struct gemm *g)
{
    const struct matrix *c = &g->x[C];
    bool small = MIN(c->rows, c->cols) > 1 && c->rows <= SMALL / c->cols;
    return g->x[A].cols > GEMM_LONG && small && g->dtype[C] == DT_F32 && prim_multiplies(g->dtype[A]);
}

bool
gemm_long_accepts(const struct kcall *k)
{
    struct gemm g;
    return gemm_fits(k) && gemm_of(k, &g) && gemm_settle(&g) && is_of_these(&g);
}

/* Returns the offset in scratch, in bytes, at which the workers' scratch starts. */
static size_t
sums_bytes(const struct gemm *g, const struct of_long *l)
{
    return align_64(sizeof(double) * (size_t)(g->x[C].rows * g->x[C].cols * l->ngroups));
}

/* Makes a single-threaded primitive that multiplies k columns of a by k rows of b, with a dense result. */
static int
make_long_product(struct gemm g, int64_t k, struct prim **product, size_t *bytes)
{
    size_t scratch;
    void *made;
    g.x[A].cols = g.x[B].rows = k;
    g.x[C].row = g.x[C].cols;
    g.x[C].col = 1;
    TRY(gemm_one(&g, false, &made, &scratch));
    *product = made;
    *bytes = MAX(*bytes, scratch);
    return 0;
}

int
gemm_long_prepare(const struct kcall *call, void **state, size_t *scratch_bytes)
{
    enum { STEP = 64 };
    struct gemm g;
    gemm_of(call, &g);
    gemm_settle(&g);
    int64_t k = g.x[A].cols, entries = g.x[C].rows * g.x[C].cols, parts = (k + GEMM_PART - 1) / GEMM_PART;
    int64_t part = ((k + parts - 1) / parts + STEP - 1) / STEP * STEP, nparts = (k + part - 1) / part;
    int64_t ngroups = MIN(MIN(nparts, GROUPS), MAX(SUMS / entries, 1));
    int threads = (int)MIN(MAX(1, call->threads), ngroups);
    struct of_long *l = must_alloc(sizeof *l + sizeof *l->product * NPRODUCT * (size_t)threads);
    *l = (struct of_long){k - (nparts - 1) * part, part, nparts, ngroups, .threads = threads};
    size_t bytes = 0;
    int status = 0;
    for (int i = 0; i < threads * NPRODUCT && !status; i++)
        status = make_long_product(g, i % NPRODUCT == FIRST ? l->first : part, &l->product[i], &bytes);
    if (status) {
        gemm_long_drop(l);
        return status;
    }
    l->product_at = align_64(bytes);
    l->each = l->product_at + align_64(sizeof(float) * (size_t)entries);
    *scratch_bytes = sums_bytes(&g, l) + l->each * (size_t)threads;
    *state = l;
    return 0;
}

void
gemm_long_drop(void *state)
{
    struct of_long *l = state;
    for (int i = 0; l && i < l->threads * NPRODUCT; i++) prim_drop(l->product[i]);
    free(l);
}

/* ---- a run ---- */

struct long_run {
    const struct gemm *g;
    const struct of_long *l;
    char *data[NMATRIX], *scratch;
    double *sums; /* sums of the first group, then of the next, and so on */
    int64_t entries;
};

static void
run_long_groups(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct long_run *r = arg;
    const struct of_long *l = r->l;
    const struct matrix *a = &r->g->x[A], *b = &r->g->x[B];
    char *scratch = r->scratch + (size_t)share * l->each;
    float *product = (float *)(void *)(scratch + l->product_at);
    int64_t bytes = (int64_t)dtype_bytes(r->g->dtype[A]);
    for (int64_t u = lo; u < hi; u++) {
        double *sum = r->sums + u * r->entries;
        memset(sum, 0, sizeof *sum * (size_t)r->entries);
        for (int64_t i = l->nparts * u / l->ngroups; i < l->nparts * (u + 1) / l->ngroups && !stop_now(); i++) {
            int64_t from = i ? l->first + (i - 1) * l->part : 0;
            void *const at[NMATRIX] = {r->data[A] + from * a->col * bytes, r->data[B] + from * b->row * bytes, product};
            if (prim_at(l->product[share * NPRODUCT + (i ? MORE : FIRST)], at, scratch, "long")) return;
            fold_add(product, r->entries, sum);
        }
    }
}

static void
round_entries(void *arg, int64_t lo, int64_t hi)
{
    const struct long_run *r = arg;
    const struct matrix *c = &r->g->x[C];
    for (int64_t e = lo; e < hi; e++) {
        double sum = 0;
        for (int64_t u = 0; u < r->l->ngroups; u++) sum += r->sums[u * r->entries + e];
        ((float *)(void *)r->data[C])[e / c->cols * c->row + e % c->cols * c->col] = (float)sum;
    }
}

int
gemm_long_run(const struct kcall *k, const void *state)
{
    enum { GRAIN = 1024 };
    const struct of_long *l = state;
    struct gemm g;
    gemm_of(k, &g);
    gemm_settle(&g);
    struct long_run r = {.g = &g, .l = l, .sums = k->scratch, .entries = g.x[C].rows * g.x[C].cols};
    r.scratch = (char *)k->scratch + sums_bytes(&g, l);
    for (int64_t i = 0; i < batch_count(&g) && !stop_now(); i++) {
        int64_t skip[NMATRIX];
        batch_skip(&g, i, skip);
        r.data[A] = (char *)k->in[0].data + skip[A] * (int64_t)dtype_bytes(g.dtype[A]);
        r.data[B] = (char *)k->in[1].data + skip[B] * (int64_t)dtype_bytes(g.dtype[B]);
        r.data[C] = (char *)k->out[0].data + skip[C] * (int64_t)sizeof(float);
        team_shares(l->threads, l->ngroups, 1, run_long_groups, &r);
        team_run(l->threads, r.entries, GRAIN, round_entries, &r);
    }
    return 0;
}
