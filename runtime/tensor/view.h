/* view.h - one rank's shard of a tensor in memory, and its place in the global tensor.
 *
 * dim and stride are local; strides are in elements (0 repeats an element: a broadcast or a number). offset and
 * global locate the shard in the global tensor, for kernels whose values depend on position (random, arange,
 * one_hot, tril, lookups in a split axis). data may be NULL while a kernel is prepared: strides and sizes are those
 * of every later run. A value; it does not own data; any thread. */
#ifndef RILLE_RUNTIME_VIEW_H
#define RILLE_RUNTIME_VIEW_H

#include "runtime/tensor/type.h"

struct view {
    void *data;
    uint8_t dtype; /* DT_NONE: the operand is absent */
    uint8_t ndim;
    int64_t dim[MAX_DIM];
    int64_t stride[MAX_DIM];
    int64_t offset[MAX_DIM]; /* position of local element 0 in the global tensor */
    int64_t global[MAX_DIM]; /* global sizes */
};

/* Returns a dense row-major view of a local type, with offset 0 and global = dim. */
struct view view_dense(const struct type *t, void *data);
bool view_is_dense(const struct view *v); /* row-major without gaps (sizes 0 and 1 are free) */
int64_t view_numel(const struct view *v);
int64_t view_bytes(const struct view *v); /* bytes of all elements together */
bool view_same(const struct view *a,
               const struct view *b); /* equal dtype, sizes and strides; data and offset may differ */
/* Copies src to dst: equal dims, any strides, with conversion if the dtypes differ. Stops early if the result is not
 * wanted any more (runtime/base/stop.h); the next call then does the same. */
void view_copy(const struct view *dst, const struct view *src);
/* Describes a copy within one dtype as rows of bytes at a constant distance. Returns false if the copy has more
 * loops. */
struct view_rows {
    size_t nrow, row, to, from;
};
bool view_as_rows(const struct view *dst, const struct view *src, struct view_rows *rows);
void view_clear(const struct view *v); /* sets all bits of a dense view to 0 */

#endif
