/* view.h - describes one rank's shard of a tensor in memory, and its place in the global tensor.
 *
 * dim and stride are those of the shard; strides are in elements (0 repeats an element: a broadcast or a number).
 * offset and global locate the shard in the global tensor, for kernels whose values depend on position (random,
 * arange, one_hot, tril, lookups in a split axis). While a kernel is prepared, data may be NULL; strides and sizes
 * are already those of all runs to come. A plain value that does not own its data; any thread. */
#ifndef RILLE_RUNTIME_VIEW_H
#define RILLE_RUNTIME_VIEW_H

#include "runtime/tensor/type.h"

struct view {
    void *data;
    uint8_t dtype; /* DT_NONE: the operand is absent */
    uint8_t ndim;
    int64_t dim[MAX_DIM];
    int64_t stride[MAX_DIM];
    int64_t offset[MAX_DIM]; /* index in the global tensor of the shard's first element */
    int64_t global[MAX_DIM]; /* sizes of the global tensor */
};

/* Returns a dense row-major view for a local type, with offset 0 and global = dim. */
struct view view_dense(const struct type *t, void *data);
/* returns true if the view is row-major without gaps; strides of dimensions of size 0 and 1 may be anything */
bool view_is_dense(const struct view *v);
int64_t view_numel(const struct view *v);
int64_t view_bytes(const struct view *v); /* returns the total bytes of the elements */
bool view_same(const struct view *a,
               const struct view *b); /* compares dtype, sizes and strides; ignores data and offset */
/* Copies src to dst. The views have equal sizes and any strides; converts if the dtypes differ. If the calling
 * thread's work is cancelled (runtime/base/stop.h), the copy stops early. */
void view_copy(const struct view *dst, const struct view *src);
/* A copy between views of one dtype, as rows of contiguous bytes at constant distances. view_as_rows() returns
 * false if the copy cannot be expressed in this way. */
struct view_rows {
    size_t nrow, row, to, from;
};
bool view_as_rows(const struct view *dst, const struct view *src, struct view_rows *rows);
void view_clear(const struct view *v); /* sets all bits of a dense view to 0 */

#endif
