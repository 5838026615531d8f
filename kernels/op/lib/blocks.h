/* blocks.h - code shared by the operators whose operand w is in blocks of a quantised type. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_BLOCKS_H
#define RILLE_KERNELS_OP_BLOCKS_H

#include "kernels/cpu/layers/blocks.h"
#include "kernels/op/base/op_impl.h"

/* The attribute `kind`, which must be the first. */
#define BLOCK_KIND_ATTR                                                                                                \
    {                                                                                                                  \
        "kind", ATTR_TEXT, .text = BLOCK_KINDS, .doc = "quantised type of w"                                           \
    }

/* Decodes block b of w for a reference kernel; value has room for 256 elements. */
static inline void
ref_block(const struct coding *c, const struct view *w, int64_t b, float *value)
{
    uint8_t bytes[512];
    for (int i = 0; i < c->bytes; i++) bytes[i] = (uint8_t)i64_of(w)[b * c->bytes + i];
    c->block(bytes, value);
}

/* Checks that w has `ndim` dimensions, and that its last dimension is a block of the call's type. */
static inline int
blocks_check(const struct call *c, const struct type *w, int ndim)
{
    const struct coding *k = blocks_coding(c);
    if (w->ndim != ndim || w->dtype != DT_U8)
        return call_fail(E_DTYPE, c, "w must be u8 with %d dimensions, found %s with %d", ndim, dtype_text(w->dtype),
                         w->ndim);
    if (w->dim[ndim - 1] != k->bytes)
        return call_fail(E_SHAPE, c, "a block of %s must have %d bytes, found %lld", k->name, k->bytes,
                         (long long)w->dim[ndim - 1]);
    return 0;
}

/* Checks that dimension d of x has the elements of w's blocks. */
static inline int
blocks_check_depth(const struct call *c, const struct type *x, int d, const struct type *w)
{
    int64_t stored = w->dim[w->ndim - 2] * blocks_coding(c)->elements;
    if (x->dim[d] == stored) return 0;
    return call_fail(E_SHAPE, c, "the last dimension of x must be %lld, the elements of a row of w, found %lld",
                     (long long)stored, (long long)x->dim[d]);
}

#endif
