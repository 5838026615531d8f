/* box.h - moving a tensor from one layout to another.
 *
 * box_plan() is a pure function from (type, from, to) to a list of steps; it
 * decides, actors carry out. Without partial sources every destination part
 * takes what it lacks from whoever holds it: |dst| - |dst n src| bytes into each
 * rank, which is the least possible. With partials every element is reduced
 * once, at an owner (chosen among those who hold an addend and want the result,
 * evenly), and sent on from there: p + |R| - 2 transmissions of it, which is the
 * least possible too (p distinct addends, R the ranks that want it; one more
 * when nobody who holds it wants it). A P that stays P keeps addends where they
 * are if it can (deal.h). Reductions combine in the order of the source mesh.
 *
 * Covers every pair of layouts on the same, overlapping or disjoint placements:
 * any meshes, uneven and empty parts, S -> P, P(max). Moving one kind of P to
 * another is refused with E_SBP naming both. */
#ifndef RILLE_BOXING_BOX_H
#define RILLE_BOXING_BOX_H

#include "runtime/arena.h"
#include "runtime/layout.h"
#include "runtime/view.h"

enum box_verb {
    BOX_COPY,   /* dst slice = source's */
    BOX_REDUCE, /* dst slice = sources combined, in the order listed */
    BOX_FILL,   /* dst slice = the identity of `reduce` (other ranks hold the value of a P) */
};

/* Who is read: a part of the source tensor, or an owner's staging part. */
struct box_source {
    int32_t rank; /* device number */
    int32_t pos;  /* source part: mesh position in `from`; staging: index into stage[] */
    bool staged;
};

struct box_step {
    uint8_t verb, reduce;
    bool to_stage; /* writes stage[dst_index]; else the destination part at mesh position dst_index of `to` */
    int32_t dst;   /* device number of who does it (and receives) */
    int32_t dst_index;
    int32_t nsource;
    const struct box_source *source;
    struct box slice; /* in global positions */
};

/* A staging part: what one owner reduces. Its bytes are its slices one after the other. */
struct box_stage {
    int32_t rank;
    int64_t numel;
    int32_t nslice;
    const struct box *slice;     /* global positions, each dense row-major in the staging bytes */
    const int64_t *slice_offset; /* elements */
};

struct box_plan {
    struct type type;
    const struct layout *from, *to;
    bool alias; /* nothing moves and every part is in place: the same bytes under another layout */
    int nstage;
    struct box_stage *stage;
    int nstep;
    struct box_step *step; /* those that fill stages first, then by destination */
    int64_t bytes;         /* received over all ranks: what steps read of other ranks' memory */
    int64_t bound;         /* the proven least */
    int nrank;
    int32_t *rank;     /* every device in from or to, ascending */
    int64_t *received; /* bytes, by index of rank */
    const char *name;  /* "all-gather", "all-reduce", "slice", "exchange": for people */
};

/* In arena a. E_SBP: P to another kind of P. */
int box_plan(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
             struct box_plan **out);
/* One rank's part alone: the stage that it fills and its destination part, in time and memory of what it exchanges.
 * bytes and received are its own, bound is the whole move's. A staged source on another rank has pos -1: it is that
 * rank's stage. */
int box_plan_rank(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to, int rank,
                  struct box_plan **out);
/* What people call the move: "none", "slice" (nothing is sent), "all-gather", "reduce-scatter", "all-reduce",
 * "all-to-all", "broadcast", "permute", else "exchange". */
const char *box_name(const struct type *t, const struct layout *from, const struct layout *to);
/* box_plan's bytes without making the steps. INT64_MAX when the move is refused. No allocation. */
int64_t box_bytes(const struct type *t, const struct layout *from, const struct layout *to);
/* The verbs as text, one line a destination, equal ranks collapsed. */
void box_print(const struct box_plan *p, struct str *s);

/* Carries the plan out on plain memory: src[pos] and dst[pos] are dense parts. The definition of correct. */
void box_apply(const struct box_plan *p, void *const *src, void **dst);
/* What a BOX_COPY (n = 1) or BOX_REDUCE step does: dst = src[0] op src[1] op ..., each result rounded to the dtype; one
 * pass over memory. dst may be src[0]. BOX_FILL: the identity of r. */
void box_reduce(enum reduce r, const struct view *dst, int n, const struct view *src);
void box_fill(enum reduce r, const struct view *dst);
/* The view of a slice in a dense part of a tensor of global type t (part, slice: global positions), or in a stage of p.
 * data may be NULL. */
struct view box_slice(const struct type *t, const struct box *part, void *data, const struct box *slice);
struct view box_stage_slice(const struct box_plan *p, int32_t stage, void *data, const struct box *slice);
/* One step's inner loop, one source at a time: dst = combine(dst, src) or copy over a slice of two views of one shape;
 * any strides. */
void box_combine(enum reduce r, bool first, const struct view *dst, const struct view *src);

#endif
