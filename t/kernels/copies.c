/* copies.c - compares copies on several threads with copies on one thread. The test tries every order of dimensions,
 * reversed and repeated dimensions, and dtype conversions. Copies must not write outside the destination. */
#include "kernels/cpu/base/copies.h"
#include "t/lib/tap.h"

enum { MOST = 140000, MARGIN = 64 };

static const int order[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

/* Returns a view whose dimensions are stored in the order `o`, with a gap of `gap` elements after each dimension.
 * back: dimension in reverse order; repeats: dimension with stride 0; -1: none. */
static struct view
view_in(char *memory, enum dtype d, const int64_t *dim, const int *o, int64_t gap, int back, int repeats)
{
    struct view v = {.dtype = (uint8_t)d, .ndim = 3};
    int64_t step = 1 + gap, at = MARGIN;
    for (int i = 2; i >= 0; i--) {
        v.dim[o[i]] = v.global[o[i]] = dim[o[i]];
        v.stride[o[i]] = o[i] == repeats ? 0 : step;
        if (o[i] == back) at += (dim[o[i]] - 1) * v.stride[o[i]], v.stride[o[i]] = -v.stride[o[i]];
        if (o[i] != repeats) step = step * dim[o[i]] + gap;
    }
    v.data = memory + at * (int64_t)dtype_bytes(d);
    return v;
}

static void
test_shape(const int64_t *dim, enum dtype to, enum dtype from, int threads)
{
    size_t bytes = 2 * MOST * sizeof(float);
    char *src = calloc(1, bytes), *one = calloc(1, bytes), *many = calloc(1, bytes);
    int bad = 0, n = 0;
    for (int64_t i = 0; i < 2 * MOST; i++) elem_set_f(from, src, i, (double)(i % 1013));
    for (size_t a = 0; a < countof(order); a++)
        for (size_t b = 0; b < countof(order); b++)
            for (int kind = -1; kind < 6; kind++, n++) {
                struct view x = view_in(src, from, dim, order[a], kind == 5, kind < 3 ? kind : -1, kind == 3 ? 1 : -1);
                struct view y = view_in(one, to, dim, order[b], kind == 4, -1, -1), z = y;
                z.data = many + ((char *)y.data - one);
                memset(one, 0x5a, bytes);
                memset(many, 0x5a, bytes);
                view_copy(&y, &x);
                copies_run(&z, &x, threads);
                bad += !!memcmp(one, many, bytes);
            }
    ok(bad == 0, "%s to %s of {%lld, %lld, %lld} by %d threads: %d copies equal those of one thread", dtype_text(from),
       dtype_text(to), (long long)dim[0], (long long)dim[1], (long long)dim[2], threads, n);
    free(src);
    free(one);
    free(many);
}

int
main(void)
{
    static const int64_t dim[][3] = {{3, 170, 131}, {1, 2, 33000}, {33001, 1, 2}, {2, 33000, 1},
                                     {33, 40, 50},  {5, 6, 7},     {1, 1, 66000}};
    static const enum dtype pair[][2] = {{DT_F32, DT_F32}, {DT_BF16, DT_F32}, {DT_U8, DT_U8}};
    for (size_t s = 0; s < countof(dim); s++)
        for (size_t p = 0; p < countof(pair); p++)
            for (int threads = 1; threads <= 5; threads += 1 + threads / 2)
                if (share_next()) test_shape(dim[s], pair[p][0], pair[p][1], threads);
    return done();
}
