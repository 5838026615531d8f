/* layout.h - layouts of tensors: a placement (devices in a mesh), and an SBP entry per mesh axis.
 *
 * An atlas interns both, so equal placements, and equal layouts, have the same pointer (and id). An atlas belongs to a
 * session and its thread; its objects are read-only, and any thread may read them while the session exists.
 *
 * A split of n over p shards is always balanced: the first n mod p shards have one extra element (shard_range). If
 * several mesh axes split one dimension, `order` is the order of splitting: each axis splits the ranges that the
 * preceding axis has made. A split with a unit u counts blocks of u elements instead of elements: S(0, unit 64)
 * splits 192 elements on 2 ranks into 128 and 64, and so never cuts an attention head of 64.
 *
 * Canonical form: S(-1) is replaced by its axis (when parsed with ndim); a unit of 1, or on a mesh axis of one
 * rank, is replaced by 0; `order` is the lexicographically least permutation in which the axes that split one dimension
 * have the same relative order. Layouts on meshes of different shape are never equal, even if every device holds the
 * same box; layout_same_boxes() compares the boxes. A layout does not know the size of a dimension, so callers that
 * know the size remove units that do not change the shards (layout_drop_units). */
#ifndef RILLE_RUNTIME_LAYOUT_H
#define RILLE_RUNTIME_LAYOUT_H

#include "runtime/tensor/type.h"

enum reduce { RED_NONE, RED_SUM, RED_MAX, RED_MIN, RED_PROD, NREDUCE };
const char *reduce_text(enum reduce r);

/* in order of preference: of two kinds with equal costs, the search prefers the earlier one */
enum sbp_kind { SBP_S, SBP_B, SBP_P };

struct sbp {
    uint8_t kind;   /* kind of the entry: a value of enum sbp_kind */
    uint8_t axis;   /* S: the tensor dimension that the entry splits */
    uint8_t reduce; /* P: RED_SUM, RED_MAX or RED_MIN */
    uint8_t zero;   /* always 0, so that memcmp() compares entries */
    int32_t unit;   /* S: number of adjacent elements that the split keeps together; 0: no unit, as 1 */
};

/* A placement: devices of one kind, arranged as a mesh. device.h describes the kinds; a placement stores only the
 * number. */
struct place {
    int32_t id;
    uint8_t kind; /* kind of the devices: DEV_CPU, ... */
    uint8_t naxis;
    int32_t nrank;
    int32_t axis[MAX_AXIS]; /* sizes of the mesh axes, major axis first */
    int32_t *rank;          /* device numbers in mesh order (row-major), not sorted */
    int32_t *by_rank;       /* mesh positions, sorted by device number, for place_find */
    bool dense;             /* true: rank[i] = rank[0] + i, so that place_find needs no search */
};

struct layout {
    int32_t id;
    const struct place *place;
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS]; /* mesh axes in the order in which they split dimensions */
};

/* A box of positions of the global tensor: lo <= i < hi in each dimension. */
struct box {
    int64_t lo[MAX_DIM], hi[MAX_DIM];
};

struct atlas; /* placements and layouts of a session, each stored once */

void place_print(const struct place *p, struct str *s); /* prints "cpu[[0, 1], [2, 3]]" */

/* Checks that every S names a dimension of this type, and that the unit of the S divides the dimension. E_SBP. */
int layout_fits(const struct layout *l, const struct type *t);

/* Print and parse layouts: "S(0)", "S(0, unit 64)", "(B, S(0))", "(S(0), S(0)) order (1, 0)". "B" alone stands for B on
 * every mesh axis. With ndim >= 0, parsing accepts S(-1), too. Errors quote the text. To parse entries one by one, call
 * sbp_parse for each, then layout_new. */
void sbp_print(struct sbp s, struct str *out);
void layout_print(const struct layout *l, struct str *out);
int sbp_parse(const char *text, int ndim, struct sbp *out);
int layout_parse(struct atlas *a, const struct place *p, const char *text, int ndim, const struct layout **out);

/* Returns the number of elements that a split of n elements with this unit keeps together: the unit, or 1 if the unit
 * is 0 or does not divide n. */
int64_t shard_unit(int64_t n, int32_t unit);
/* Returns the range of elements *lo <= k < *hi of shard i, if n elements are split into `parts` balanced shards of
 * blocks of shard_unit(n, unit) elements. The range is empty if there are more shards than blocks. */
void shard_range(int64_t n, int32_t unit, int64_t parts, int64_t i, int64_t *lo, int64_t *hi);
/* Sets to 0 each unit that does not change the shards of a tensor of type t: the mesh axes up to the unit's own axis,
 * in cutting order, divide the dimension into shards with equal numbers of units. sbp: entries of a layout on p. */
void layout_drop_units(const struct place *p, const struct type *t, const uint8_t *order, struct sbp *sbp);
/* Returns the box that mesh position `pos` holds of a tensor with global type t. P and B axes do not split. */
void layout_box(const struct layout *l, const struct type *t, int pos, struct box *out);
/* Returns the dtype in which a rank stores elements of dtype d: f32 for an addend of a sum of bf16 or f16,
 * otherwise d. Only the complete sum is rounded, by the boxing (redistribution) that completes the sum
 * (boxing/reduce.c). */
enum dtype layout_dtype(const struct layout *l, enum dtype d);
/* Returns the type of the shard at mesh position `pos`, with the dtype of layout_dtype(). */
struct type layout_shard(const struct layout *l, const struct type *t, int pos);
/* Returns the first mesh position with the same bytes as `pos`: the one with coordinate 0 on every B axis. Readers
 * and writers of a value use this position, to access each shard once. */
int layout_origin(const struct layout *l, int pos);
/* Returns true if `pos` holds an addend of a partial value, but not the first addend. In a leaf, the first addend
 * is the value, and the other addends are the identity of the reduction. */
bool layout_is_later_part(const struct layout *l, int pos);
bool layout_has_partial(const struct layout *l);
/* Returns the reduction of the partial axes of l; RED_NONE: no axis is partial. An axis with one rank is never
 * partial. */
enum reduce layout_partial(const struct layout *l);
/* Returns true if shards of several values of type t can be appended along dimension 0: all shards of a value have
 * equally many rows, and no axis is partial. */
bool layout_appends(const struct layout *l, const struct type *t);
/* Returns true if every device holds exactly the same bytes under both layouts, so that a conversion moves nothing.
 * The layouts are identical, or have the same devices and boxes and no P on an axis with more than one rank. */
bool layout_same_boxes(const struct layout *a, const struct layout *b, const struct type *t);
/* Returns a hash of the move of a value of type t between two layouts of this atlas. */
uint64_t layout_hash_move(const struct type *t, const struct layout *from, const struct layout *to);

int64_t box_numel(const struct box *b, int ndim);
/* returns true if the boxes have the same elements; all empty boxes are equal */
bool box_equal(const struct box *a, const struct box *b, int ndim);
/* returns the intersection in *out; false: the boxes are disjoint */
bool box_intersect(const struct box *a, const struct box *b, int ndim, struct box *out);

#endif
