/* view.c - tests of copies between views: every pair of dtypes, every permutation of strides, broadcasts, slices. */
#include "runtime/tensor/view.h"
#include "t/lib/tap.h"

enum { ROOM = 512 };

static int64_t
offset_of(const struct view *v, const int64_t *at)
{
    int64_t o = 0;
    for (int d = 0; d < v->ndim; d++) o += at[d] * v->stride[d];
    return o;
}

static bool
next_position(const struct view *v, int64_t *at)
{
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (++at[d] < v->dim[d]) return true;
        at[d] = 0;
    }
    return false;
}

/* Returns true if two views have equal elements. */
static bool
copied(const struct view *dst, const struct view *src)
{
    int64_t at[MAX_DIM] = {0};
    if (view_numel(dst) == 0) return true;
    do {
        double got = elem_get_f(dst->dtype, dst->data, offset_of(dst, at));
        double want = elem_get_f(src->dtype, src->data, offset_of(src, at));
        if (got != want) return false;
    } while (next_position(dst, at));
    return true;
}

/* Returns the number of bytes that no longer have the fill value. */
static int
touched(const uint8_t *p, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += p[i] != 0xee;
    return count;
}

static const int permutations[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

/* Returns a view with sizes `dims`. order: the order in which the axes are stored; a gap follows each row. */
static struct view
permuted(enum dtype d, const int64_t *dim, const int *order, int gap, void *data)
{
    struct view v = {.data = data, .dtype = (uint8_t)d, .ndim = 3};
    int64_t stride = 1;
    for (int k = 2; k >= 0; k--) {
        v.dim[order[k]] = v.global[order[k]] = dim[order[k]];
        v.stride[order[k]] = stride;
        stride = stride * dim[order[k]] + (k == 2 ? gap : 0);
    }
    return v;
}

/* Tries all permutations of the source's and the destination's axes, with and without gaps. A copy made row by row
 * (view_as_rows) must equal one by view_copy. */
static void
test_permutations(void)
{
    static const int64_t shapes[][3] = {{2, 3, 4}, {1, 5, 2}, {3, 1, 1}, {0, 2, 2}, {1, 1, 1}, {1, 3, 4}};
    int cases = 0, wrong = 0, spilt = 0, rows = 0, other = 0, missing = 0;
    for (size_t s = 0; s < countof(shapes); s++)
        for (int p = 0; p < 6; p++)
            for (int q = 0; q < 6; q++)
                for (int gap = 0; gap < 4; gap++) {
                    float from[ROOM], to[ROOM], by_rows[ROOM];
                    struct view_rows r;
                    for (int i = 0; i < ROOM; i++) from[i] = (float)i;
                    memset(to, 0xee, sizeof to);
                    memset(by_rows, 0xee, sizeof by_rows);
                    struct view src = permuted(DT_F32, shapes[s], permutations[p], gap & 1, from);
                    struct view dst = permuted(DT_F32, shapes[s], permutations[q], gap >> 1, to);
                    view_copy(&dst, &src);
                    wrong += !copied(&dst, &src);
                    int n = 0;
                    for (int i = 0; i < ROOM; i++) n += touched((uint8_t *)&to[i], 4) > 0;
                    spilt += n != view_numel(&dst);
                    cases++;
                    bool can = view_as_rows(&dst, &src, &r);
                    missing += !can && p == 0 && q == 0 && shapes[s][2] > 1 && view_numel(&dst) > 0;
                    for (size_t i = 0; can && i < r.nrow; i++)
                        memcpy((char *)by_rows + i * r.to, (char *)from + i * r.from, r.row);
                    rows += can;
                    other += can && memcmp(by_rows, to, sizeof to) != 0;
                }
    diag("%d pairs of views", cases);
    is_int(wrong, 0, "a copy between any two permuted views with gaps copies every element");
    is_int(spilt, 0, "a copy between permuted views writes nothing else");
    ok(other == 0 && rows > 100, "%d copies by rows of bytes equal view_copy", rows);
    ok(missing == 0, "a window whose rows have several elements can always be copied by rows");
    struct view f32 = permuted(DT_F32, shapes[0], permutations[0], 0, NULL), f64 = f32;
    f64.dtype = DT_F64;
    ok(!view_as_rows(&f32, &f64, &(struct view_rows){0}), "a copy that converts cannot be done by rows");
}

/* Copies between views that are contiguous along different axes, which view_copy() does in blocks of cache lines.
 * Tries sizes around the block size, and every dtype. */
static void
test_crossed(void)
{
    static const int64_t shapes[][3] = {{3, 70, 35}, {16, 4, 16}, {33, 2, 65}, {129, 1, 7}, {5, 3, 4}};
    enum { MOST = 16384 };
    int wrong = 0, spilt = 0;
    char *from = malloc(MOST * sizeof(double)), *to = malloc(MOST * sizeof(double));
    for (size_t s = 0; s < countof(shapes); s++)
        for (int d = DT_NONE + 1; d < NDTYPE; d++)
            for (int p = 0; p < 36; p++) {
                int n = 0, bytes = (int)dtype_bytes((enum dtype)d);
                for (int i = 0; i < MOST; i++) elem_set_i((enum dtype)d, from, i, d == DT_BOOL ? i / 3 % 2 : i % 101);
                memset(to, 0xee, MOST * (size_t)bytes);
                struct view src = permuted((enum dtype)d, shapes[s], permutations[p / 6], p % 2, from);
                struct view dst = permuted((enum dtype)d, shapes[s], permutations[p % 6], p % 5 == 0, to);
                view_copy(&dst, &src);
                wrong += !copied(&dst, &src);
                for (int i = 0; i < MOST; i++) n += touched((uint8_t *)to + i * bytes, bytes) > 0;
                spilt += n != view_numel(&dst);
            }
    is_int(wrong, 0, "views that are contiguous along different axes are copied, whatever their sizes and dtype");
    is_int(spilt, 0, "a copy along crossed axes writes nothing else");
    free(from);
    free(to);
}

static void
test_dtypes(void)
{
    int wrong = 0;
    for (int a = DT_NONE + 1; a < NDTYPE; a++)
        for (int b = DT_NONE + 1; b < NDTYPE; b++) {
            uint64_t from[6], to[6];
            struct type t = type_of((enum dtype)a, 2, (int64_t[]){2, 3});
            struct view src = view_dense(&t, from), dst;
            for (int i = 0; i < 6; i++)
                elem_set_i((enum dtype)a, from, i, i % 2); /* values that every dtype can represent */
            t.dtype = (uint8_t)b;
            dst = view_dense(&t, to);
            view_copy(&dst, &src);
            wrong += !copied(&dst, &src);
        }
    is_int(wrong, 0, "values that both dtypes represent survive any conversion");

    int64_t big = INT64_MAX - 1;
    uint8_t low = 0;
    int32_t half = 0;
    struct type one = type_of(DT_I64, 0, NULL);
    struct view src = view_dense(&one, &big), dst = src;
    dst.dtype = DT_U8;
    dst.data = &low;
    view_copy(&dst, &src);
    is_int(low, 0xfe, "integers convert without passing through a float");

    double far = 1e10;
    src.dtype = DT_F64, src.data = &far;
    dst.dtype = DT_I32, dst.data = &half;
    view_copy(&dst, &src);
    is_int(half, INT32_MAX, "a float too large for an integer dtype becomes the largest integer");
}

static void
test_broadcast(void)
{
    float number = 7, row[3] = {1, 2, 3}, to[12];
    struct type t = type_of(DT_F32, 2, (int64_t[]){4, 3});
    struct view dst = view_dense(&t, to), src = dst;
    src.data = &number;
    src.stride[0] = src.stride[1] = 0;
    view_copy(&dst, &src);
    ok(copied(&dst, &src) && to[11] == 7, "stride 0 on every axis repeats a number");
    src.data = row;
    src.stride[1] = 1;
    view_copy(&dst, &src);
    ok(copied(&dst, &src) && to[10] == 2, "stride 0 on one axis repeats a row");
}

static void
test_dense(void)
{
    struct type t = type_of(DT_F32, 3, (int64_t[]){2, 1, 3});
    struct view v = view_dense(&t, NULL);
    ok(view_is_dense(&v), "a dense view is dense");
    v.stride[1] = 99;
    ok(view_is_dense(&v), "a view is dense whatever the stride of an axis of one element");
    v.stride[0] = 4;
    ok(!view_is_dense(&v), "a view with a gap between rows is not dense");
    v.dim[2] = 0;
    ok(view_is_dense(&v), "a view without elements is dense");
    t = type_of(DT_F32, 0, NULL);
    v = view_dense(&t, NULL);
    ok(view_is_dense(&v) && view_numel(&v) == 1, "a scalar is dense");
}

int
main(void)
{
    test_permutations();
    test_crossed();
    test_dtypes();
    test_broadcast();
    test_dense();
    return done();
}
