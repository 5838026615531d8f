/* view.h - how one rank's part of a tensor lies in memory, and which part of the global tensor it is.
 *
 * dim and stride are local, strides in elements (0 repeats an element: a broadcast or a number). offset and global say
 * where the part lies in the global tensor; kernels whose values depend on position (random, arange, one_hot, tril,
 * lookups in a split axis) read them. data may be NULL while a kernel prepares itself: strides and sizes are those of
 * every later run. A value; somebody else owns what data points to; any thread. */
#ifndef RILLE_RUNTIME_VIEW_H
#define RILLE_RUNTIME_VIEW_H

#include "runtime/tensor/type.h"

struct view {
    void *data;
    uint8_t dtype; /* DT_NONE: the operand is absent */
    uint8_t ndim;
    int64_t dim[MAX_DIM];
    int64_t stride[MAX_DIM];
    int64_t offset[MAX_DIM]; /* of local position 0 in the global tensor */
    int64_t global[MAX_DIM]; /* global sizes */
};

/* A dense row-major view of a local type; offset 0, global = dim. */
struct view view_dense(const struct type *t, void *data);
bool view_is_dense(const struct view *v); /* row-major without gaps (sizes 0 and 1 are free) */
int64_t view_numel(const struct view *v);
int64_t view_bytes(const struct view *v); /* of its elements */
bool view_same(const struct view *a,
               const struct view *b); /* do they lie alike, wherever and whatever part they are? */
/* Copies src to dst, same dims, any strides, converting dtypes when they differ. Runs of equal layout go by memcpy.
 * Leaves off half done when nobody wants the result (runtime/base/stop.h), and so does the next. */
void view_copy(const struct view *dst, const struct view *src);
/* A copy of one dtype as rows of bytes, which lie so far apart. False: it has more loops. */
struct view_rows {
    size_t nrow, row, to, from;
};
bool view_as_rows(const struct view *dst, const struct view *src, struct view_rows *rows);
void view_clear(const struct view *v); /* sets all bits of a dense one to 0 */

#endif
