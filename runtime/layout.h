/* layout.h - where a tensor lies: a placement (devices in a mesh) and an SBP entry per mesh axis.
 *
 * An atlas interns both, so that equal means the same pointer (and id). An atlas belongs to a session and its thread;
 * what it gives is read-only, and any thread may read it while the session lives.
 *
 * The split of n over p parts is balanced, everywhere: the first n mod p parts have one element more (shard_range).
 * Several mesh axes that cut one dimension cut it in `order`, each the range that the one before it left.
 *
 * Canonical form: S(-1) becomes the axis it means (when parsed with ndim); `order` is the least permutation that keeps
 * the relative order of the axes that cut one dimension. Layouts of one geometry on meshes of different shape are
 * different values; layout_same_boxes() tells whether nothing would move. */
#ifndef RILLE_RUNTIME_LAYOUT_H
#define RILLE_RUNTIME_LAYOUT_H

#include "runtime/type.h"

enum reduce { RED_NONE, RED_SUM, RED_MAX, RED_MIN, RED_PROD, NREDUCE };
const char *reduce_text(enum reduce r);

enum sbp_kind { SBP_S, SBP_B, SBP_P }; /* in the order of preference among equals */

struct sbp {
    uint8_t kind;   /* enum sbp_kind */
    uint8_t axis;   /* S: the tensor dimension it cuts */
    uint8_t reduce; /* P: RED_SUM, RED_MAX, RED_MIN */
};

/* Device kinds have a row each in device.h; a place only keeps the number. */
struct place {
    int32_t id;
    uint8_t kind; /* of device: DEV_CPU, ... */
    uint8_t naxis;
    int32_t nrank;
    int32_t axis[MAX_AXIS]; /* sizes, major first */
    int32_t *rank;          /* device numbers in mesh order (row-major), not sorted */
    int32_t *by_rank;       /* mesh positions by ascending device number; place_find's */
    bool dense;             /* rank[i] = rank[0] + i: finding a rank is a subtraction */
};

struct layout {
    int32_t id;
    const struct place *place;
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS]; /* mesh axes in the order in which they cut */
};

/* A box of positions of the global tensor: lo <= i < hi in each dimension. */
struct box {
    int64_t lo[MAX_DIM], hi[MAX_DIM];
};

struct atlas; /* the interned placements and layouts of a session */
struct atlas *atlas_new(void);
void atlas_free(struct atlas **a);

/* naxis sizes and their product of ranks. E_PLACE: no ranks, a rank negative or repeated, too many axes.
 * Whether the ranks exist is the session's business (device.h). */
int place_new(struct atlas *a, int kind, int naxis, const int32_t *axis, const int32_t *rank, const struct place **out);
/* The mesh position of a device number, -1 if it is not in the placement. */
int place_find(const struct place *p, int rank);
/* The coordinates of a mesh position, one for each axis. */
void place_coord(const struct place *p, int pos, int32_t *coord);
void place_print(const struct place *p, struct str *s); /* cpu[[0, 1], [2, 3]] */

/* order NULL: mesh order. E_SBP when order is no permutation or two kinds of P meet. Does not know the tensor:
 * see layout_fits. */
int layout_new(struct atlas *a, const struct place *p, const struct sbp *sbp, const uint8_t *order,
               const struct layout **out);
const struct layout *layout_broadcast(struct atlas *a, const struct place *p); /* all B */

/* Did this atlas make it? */
bool atlas_has_place(const struct atlas *a, const struct place *p);
bool atlas_has_layout(const struct atlas *a, const struct layout *l);

/* E_SBP when an S names a dimension that a tensor of this type lacks. */
int layout_fits(const struct layout *l, const struct type *t);

/* Text: "S(0)", "(B, S(0))", "(S(0), S(0)) order (1, 0)". Parsing accepts all of these and, with ndim >= 0, S(-1);
 * errors quote the text. For entries given one by one: sbp_parse for each, then layout_new. */
void sbp_print(struct sbp s, struct str *out);
void layout_print(const struct layout *l, struct str *out);
int sbp_parse(const char *text, int ndim, struct sbp *out);
int layout_parse(struct atlas *a, const struct place *p, const char *text, int ndim, const struct layout **out);

/* Part i of parts of n: *lo <= k < *hi. Balanced; empty when there are more parts than elements. */
void shard_range(int64_t n, int64_t parts, int64_t i, int64_t *lo, int64_t *hi);
/* What mesh position pos holds of a tensor of global type t. P and B axes do not cut. */
void layout_box(const struct layout *l, const struct type *t, int pos, struct box *out);
/* What a rank holds an element of dtype d in: f32 for a part of a sum of halves, which is not whole yet; else d itself.
 * The move that makes the sum whole rounds it (boxing/apply.c). */
enum dtype layout_dtype(const struct layout *l, enum dtype d);
/* The local type at pos, of layout_dtype. */
struct type layout_shard(const struct layout *l, const struct type *t, int pos);
/* The first mesh position with the bytes that pos has: 0 on every B axis. Readers and writers of a value take it there,
 * once. */
int layout_origin(const struct layout *l, int pos);
/* Does pos hold a part of a sum that is not the first? A leaf's value stands in the first, the others are the identity.
 */
bool layout_is_later_part(const struct layout *l, int pos);
bool layout_has_partial(const struct layout *l);
/* The kind of partial in l, RED_NONE if there is none: an axis of one rank holds the whole, whatever its name. */
enum reduce layout_partial(const struct layout *l);
/* True when every device holds under b exactly what it holds under a (same device set, same boxes, no P on axes
 * longer than one in either unless the layouts are equal): moving is a change of name. */
bool layout_same_boxes(const struct layout *a, const struct layout *b, const struct type *t);
/* A hash of the move of a value of type t, in this atlas. */
uint64_t layout_hash_move(const struct type *t, const struct layout *from, const struct layout *to);

int64_t box_numel(const struct box *b, int ndim);
bool box_intersect(const struct box *a, const struct box *b, int ndim, struct box *out); /* false: empty */

#endif
