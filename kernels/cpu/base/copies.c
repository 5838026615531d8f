/* copies.c - copies and concatenates strided views; threads divide a view along one dimension. */
#include "kernels/cpu/base/copies.h"

#include "kernels/cpu/base/team.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <string.h>

struct copies {
    const struct view *dst, *src;
    int dim, nshare;
};

static void
narrow_view(struct view *v, int dim, int64_t lo, int64_t hi)
{
    v->data = (char *)v->data + lo * v->stride[dim] * (int64_t)dtype_bytes(v->dtype);
    v->dim[dim] = hi - lo;
}

static void
run_copy_shares(void *arg, int64_t lo, int64_t hi)
{
    const struct copies *c = arg;
    struct view dst = *c->dst, src = *c->src;
    int64_t n = dst.dim[c->dim];
    narrow_view(&dst, c->dim, n * lo / c->nshare, n * hi / c->nshare);
    narrow_view(&src, c->dim, n * lo / c->nshare, n * hi / c->nshare);
    view_copy(&dst, &src);
}

/* Returns the dimension along which nshare threads divide a copy: the largest one. Sizes of EACH * nshare or more
 * count as equal. Of dimensions with equal sizes, chooses the one with the largest stride in dst. */
static int
dim_to_share(const struct view *dst, int nshare)
{
    enum { EACH = 4 };
    int best = 0;
    int64_t most = 0;
    for (int d = 0; d < dst->ndim; d++) {
        int64_t n = MIN(dst->dim[d], EACH * (int64_t)nshare);
        if (n > most || (n == most && dst->stride[d] > dst->stride[best])) best = d, most = n;
    }
    return best;
}

void
copies_run(const struct view *dst, const struct view *src, int threads)
{
    enum { PLENTY = 1 << 15 }; /* minimum number of elements per thread */
    int nshare = (int)MIN((int64_t)threads, view_numel(dst) / PLENTY);
    if (nshare <= 1) {
        view_copy(dst, src);
        return;
    }
    struct copies c = {dst, src, dim_to_share(dst, nshare), nshare};
    c.nshare = (int)MIN((int64_t)nshare, dst->dim[c.dim]);
    team_run(c.nshare, c.nshare, 1, run_copy_shares, &c);
}

/* ---- concatenation ---- */

struct join {
    char *dst;
    int n;
    const struct view *src;
    const size_t *bytes; /* size of a contiguous run of each view, bytes */
    size_t all;
};

/* Copies n >= PIECE bytes in pieces of constant size. One memcpy() of n bytes would first choose among its methods,
 * and take 3 % longer for 3 KiB. */
enum { PIECE = 128 };
VECTOR static void
copy_long(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n - PIECE; i += PIECE) memcpy(to + i, from + i, PIECE);
    memcpy(to + n - PIECE, from + n - PIECE, PIECE);
}

static void
join_rows(void *arg, int64_t lo, int64_t hi)
{
    const struct join *j = arg;
    int64_t since = 0;
    for (int64_t r = lo; r < hi && !stop_after(&since, (int64_t)j->all); r++) {
        char *to = j->dst + (size_t)r * j->all;
        for (int i = 0; i < j->n; to += j->bytes[i++])
            copy_long(to, (const char *)j->src[i].data + (size_t)r * j->bytes[i], j->bytes[i]);
    }
}

/* Returns the number of contiguous bytes that dimensions axis, axis + 1, ... of a dense view span. */
static size_t
run_bytes(const struct view *v, int axis)
{
    size_t n = dtype_bytes(v->dtype);
    for (int d = axis; d < v->ndim; d++) n *= (size_t)v->dim[d];
    return n;
}

/* Copies all views into dst. If every view has long contiguous runs, writes dst from start to end; otherwise
 * copies one view after the other. For three f32{256, 768} side by side, on one Zen 4 (EPYC) core, writing from
 * start to end takes 52 us instead of 56. */
void
copies_join(const struct view *dst, int n, const struct view *src, int axis, int threads)
{
    /* Conditions for writing from start to end. SHORT, LONG: least and greatest length of a contiguous run,
     * bytes. MOST: maximum number of views. WORTH: minimum bytes per thread. */
    enum { SHORT = 512, LONG = 64 << 10, MOST = 16, WORTH = 128 << 10 };
    size_t bytes[MOST], all = run_bytes(dst, axis);
    bool runs = n <= MOST && view_is_dense(dst);
    for (int i = 0; runs && i < n; i++) {
        bytes[i] = run_bytes(&src[i], axis);
        runs = src[i].dtype == dst->dtype && view_is_dense(&src[i]) && bytes[i] >= SHORT && bytes[i] <= LONG;
    }
    if (runs) {
        struct join j = {dst->data, n, src, bytes, all};
        int64_t nrow = view_bytes(dst) / (int64_t)all;
        team_run(threads, nrow, 2 + WORTH / (int64_t)all, join_rows, &j);
        return;
    }
    struct view part = *dst;
    for (int i = 0; i < n; i++) {
        part.dim[axis] = src[i].dim[axis];
        copies_run(&part, &src[i], threads);
        part.data = (char *)part.data + part.dim[axis] * part.stride[axis] * (int64_t)dtype_bytes(part.dtype);
    }
}
