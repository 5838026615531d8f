/* view.c - views of memory, and copying between any two of one shape. */
#include "runtime/view.h"

#include <string.h>

struct view
view_dense(const struct type *t, void *data)
{
    struct view v = {.data = data, .dtype = t->dtype, .ndim = t->ndim};
    type_strides(t, v.stride);
    for (int d = 0; d < t->ndim; d++) v.dim[d] = v.whole[d] = t->dim[d];
    return v;
}

int64_t
view_numel(const struct view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->ndim; d++) n *= v->dim[d];
    return n;
}

bool
view_is_dense(const struct view *v)
{
    if (view_numel(v) == 0) return true;
    int64_t stride = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->dim[d] == 1) continue;
        if (v->stride[d] != stride) return false;
        stride *= v->dim[d];
    }
    return true;
}

/* A copy as nested loops: dimensions of size one are gone, and neighbours that are one run in both views are merged. */
struct loops {
    int n;
    int64_t size[MAX_DIM], to[MAX_DIM], from[MAX_DIM]; /* strides in elements, outermost first */
};

static struct loops
loops_make(const struct view *dst, const struct view *src)
{
    struct loops l = {0};
    for (int d = 0; d < dst->ndim; d++) {
        int64_t size = dst->dim[d], to = dst->stride[d], from = src->stride[d];
        if (size == 1) continue;
        int k = l.n - 1;
        if (k >= 0 && l.to[k] == to * size && l.from[k] == from * size) {
            l.size[k] *= size;
            l.to[k] = to;
            l.from[k] = from;
        } else {
            l.size[l.n] = size;
            l.to[l.n] = to;
            l.from[l.n++] = from;
        }
    }
    if (l.n == 0) {
        l.size[0] = l.to[0] = l.from[0] = 1;
        l.n = 1;
    }
    return l;
}

#define COPY_STRIDED(type)                                                                                             \
    do {                                                                                                               \
        type *d = to;                                                                                                  \
        const type *s = from;                                                                                          \
        for (int64_t i = 0; i < n; i++) d[i * to_stride] = s[i * from_stride];                                         \
    } while (0)

/* n elements of one width. */
static void
copy_run(size_t width, void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t n)
{
    if (to_stride == 1 && from_stride == 1) {
        memcpy(to, from, (size_t)n * width);
        return;
    }
    switch (width) {
    case 1: COPY_STRIDED(uint8_t); break;
    case 2: COPY_STRIDED(uint16_t); break;
    case 4: COPY_STRIDED(uint32_t); break;
    case 8: COPY_STRIDED(uint64_t); break;
    default: assert(!"a dtype of 1, 2, 4 or 8 bytes");
    }
}

/* n elements of two dtypes. Integers go by int64, so that none is rounded; u8 and i32 take its low bits, as a C cast
 * does. */
static void
convert_run(enum dtype d, void *to, int64_t to_stride, enum dtype s, const void *from, int64_t from_stride, int64_t n)
{
    bool by_int = !dtype_is_float(s);
    for (int64_t i = 0; i < n; i++) {
        if (by_int)
            elem_set_i(d, to, i * to_stride, elem_get_i(s, from, i * from_stride));
        else
            elem_set_f(d, to, i * to_stride, elem_get_f(s, from, i * from_stride));
    }
}

/* Advances the outer loops' counters; false after the last. */
static bool
loops_next(const struct loops *l, int64_t *at, int64_t *to, int64_t *from)
{
    for (int k = l->n - 2; k >= 0; k--) {
        *to += l->to[k];
        *from += l->from[k];
        if (++at[k] < l->size[k]) return true;
        *to -= l->to[k] * l->size[k];
        *from -= l->from[k] * l->size[k];
        at[k] = 0;
    }
    return false;
}

void
view_copy(const struct view *dst, const struct view *src)
{
    assert(dst->ndim == src->ndim);
    for (int d = 0; d < dst->ndim; d++) assert(dst->dim[d] == src->dim[d]);
    if (view_numel(dst) == 0) return;

    struct loops l = loops_make(dst, src);
    size_t to_bytes = dtype_bytes(dst->dtype), from_bytes = dtype_bytes(src->dtype);
    int64_t at[MAX_DIM] = {0}, to = 0, from = 0, n = l.size[l.n - 1];
    do {
        char *d = (char *)dst->data + to * (int64_t)to_bytes;
        const char *s = (const char *)src->data + from * (int64_t)from_bytes;
        if (dst->dtype == src->dtype)
            copy_run(to_bytes, d, l.to[l.n - 1], s, l.from[l.n - 1], n);
        else
            convert_run(dst->dtype, d, l.to[l.n - 1], src->dtype, s, l.from[l.n - 1], n);
    } while (loops_next(&l, at, &to, &from));
}
