/* copies.c - copies of strided views, a range of one dimension a thread. */
#include "kernels/cpu/copies.h"

#include "kernels/cpu/team.h"

struct copies {
    const struct view *dst, *src;
    int dim, nshare;
};

static void
narrow(struct view *v, int dim, int64_t lo, int64_t hi)
{
    v->data = (char *)v->data + lo * v->stride[dim] * (int64_t)dtype_bytes(v->dtype);
    v->dim[dim] = hi - lo;
}

static void
copy_shares(void *arg, int64_t lo, int64_t hi)
{
    const struct copies *c = arg;
    struct view dst = *c->dst, src = *c->src;
    int64_t n = dst.dim[c->dim];
    narrow(&dst, c->dim, n * lo / c->nshare, n * hi / c->nshare);
    narrow(&src, c->dim, n * lo / c->nshare, n * hi / c->nshare);
    view_copy(&dst, &src);
}

/* The one of which every thread has some entries, or the most; of those the outermost in dst. */
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
    enum { PLENTY = 1 << 15 }; /* elements that are worth a thread */
    int nshare = (int)MIN((int64_t)threads, view_numel(dst) / PLENTY);
    if (nshare <= 1) {
        view_copy(dst, src);
        return;
    }
    struct copies c = {dst, src, dim_to_share(dst, nshare), nshare};
    c.nshare = (int)MIN((int64_t)nshare, dst->dim[c.dim]);
    team_run(c.nshare, c.nshare, 1, copy_shares, &c);
}
