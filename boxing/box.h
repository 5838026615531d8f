/* box.h - boxing (redistribution): moves a tensor between layouts.
 *
 * box_plan() is a pure function from (type, from, to) to a list of steps; actors carry the steps out. Without
 * partial sources, every destination shard copies the missing elements from their holders. Each rank then receives
 * the elements of its destination shard that are not in its source shard, the least possible. With partial sources,
 * an owner reduces each element once and sends the sum to the other ranks. Owners are chosen evenly among the ranks
 * that hold an addend and need the sum. If p is the number of distinct addends and R is the set of ranks that need
 * the result, an element takes p + |R| - 2 transmissions, or one more if no rank of R holds an addend. This is the
 * least possible, too. A move from P to P leaves addends in place if possible (deal.h). Reductions combine addends
 * in the order of the source mesh.
 *
 * Covers every pair of layouts on equal, overlapping or disjoint placements: any meshes, uneven and empty shards, S
 * -> P, P(max). E_SBP rejects a move from one kind of P to another and names both kinds. A plan is read-only and is
 * allocated in the caller's arena; any thread. */
#ifndef RILLE_BOXING_BOX_H
#define RILLE_BOXING_BOX_H

#include "runtime/data/arena.h"
#include "runtime/data/hash.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/view.h"

enum box_verb {
    BOX_COPY,   /* destination slice = source slice */
    BOX_REDUCE, /* destination slice = sources combined in the listed order */
    BOX_FILL,   /* destination slice = identity of `reduce` (0 for a sum); addends on other ranks hold the value */
};

enum {
    BOX_PART = -1,     /* the source is a shard, not a stage */
    BOX_ELSEWHERE = -2 /* the source is the stage of a rank that is not in this plan */
};

/* Source of a step: a shard of the source tensor, or a stage, which is a buffer with the sums that a rank reduced. */
struct box_source {
    /* rank: device number of the source; pos: mesh position of a shard in `from`, or number of a stage */
    int32_t rank, pos;
    int32_t stage; /* index in stage[]; BOX_PART: a shard; BOX_ELSEWHERE: a stage outside this plan */
};

struct box_step {
    uint8_t verb, reduce;
    int32_t nsource;
    const struct box_source *source;
    const struct box *slice; /* slice that the step reads and fills, in indices of the whole tensor */
};

/* The steps by which one rank fills a stage or a destination shard. Each element of the stage or shard is filled
 * once. */
struct box_work {
    /* rank: device number; pos: number of the stage, or mesh position of the destination shard in `to` */
    int32_t rank, pos;
    int32_t nstep;
    /* index of the first stage or shard with equal steps, whose list this one shares; replicas have equal steps */
    int32_t same;
    const struct box_step *step;
};

/* A hierarchical reduction, in which no owner reads all addends. Consecutive addends form segments ("legs"). A
 * segment adds its addends to the running sum of the segments before and passes the sum to the next segment. Sums
 * are passed in chunks, so segments work at the same time. The result is the same left fold, but only one running
 * sum is sent between hosts instead of every addend. Moves to P have no hierarchical reduction. */
struct box_relay {
    int32_t nleg; /* number of segments, at least 2 */
    /* nleg + 1 entries: index of each segment's first addend; last entry: number of addends */
    const int32_t *first;
    int32_t nchunk;
    /* true: after the reduction, the complete sum is sent back through the segments. Requires that all holders of
     * addends need the sum (relay_may_go_back) */
    bool back;
};

/* A staging buffer in which one rank (the owner) reduces. A stage holds the slices of its steps one after the other,
 * dense and row-major. Its dtype is that of the destination (layout_dtype of `to`) or, if the sum is passed to
 * another segment, that of the source (box_stage_layout).
 *
 * Stage number = mesh position in `from` + mesh size * level. A stage reads only stages of lower levels. Without a
 * hierarchical reduction there is one level. With a hierarchical reduction, each segment has a level for each chunk.
 * If the sum is sent back, each segment except the last has a second level for each chunk. */
struct box_stage {
    struct box_work work;
    int64_t numel;
    const int64_t *offset; /* offset of each slice in the stage, in elements */
};

struct box_plan {
    struct type type;
    const struct layout *from, *to;
    const struct box_relay *relay; /* hierarchical reduction of the move; NULL: none, so owners read all addends */
    bool alias;                    /* true: the move sends nothing, because source and destination shards are equal */
    int32_t nstage, npart;
    struct box_stage *stage; /* stages by number, filled before the destination shards */
    struct box_work *part;   /* steps that fill the destination shard of each position; empty if `alias` is true */
    int64_t bytes;           /* bytes that steps read from other ranks, sum over all ranks */
    int64_t bound;           /* proven minimum of `bytes`; -1: the plan is for some ranks only */
    int32_t nrank;
    int32_t *rank;     /* device numbers of `from` and `to` (only those in the plan's set), ascending */
    int64_t *received; /* bytes that each rank receives, by index in `rank` */
    const char *name;  /* result of box_name; NULL: the plan is for some ranks only */
};

/* A subset of the ranks: mesh positions in both placements, ascending. */
struct box_ranks {
    int32_t nfrom, nto;
    const int32_t *from, *to;
};

/* A read of a slice of another rank's shard or stage, by a step of one rank. */
struct box_read {
    bool from_stage, to_stage;
    /* from: what is read; to: what is filled. If from_stage (to_stage) is true, the number of a stage. Otherwise the
     * position of a shard, in the source mesh (from) or in the destination mesh (to) */
    int32_t from, to;
    const struct box *slice;
};

/* box_width_from returns the number of bytes per element in a source shard; box_width_to, in a destination shard. */
static inline int64_t
box_width_from(const struct box_plan *p)
{
    return (int64_t)dtype_bytes(layout_dtype(p->from, (enum dtype)p->type.dtype));
}
static inline int64_t
box_width_to(const struct box_plan *p)
{
    return (int64_t)dtype_bytes(layout_dtype(p->to, (enum dtype)p->type.dtype));
}
/* box_stage_level returns the level of the stage with this number; box_stage_pos, its position in the source mesh.
 * box_stage_layout returns the layout (`from` or `to`) that determines the stage's dtype. */
static inline int32_t
box_stage_level(const struct box_plan *p, int32_t number)
{
    return number / p->from->place->nrank;
}
static inline int32_t
box_stage_pos(const struct box_plan *p, int32_t number)
{
    return number % p->from->place->nrank;
}
static inline const struct layout *
box_stage_layout(const struct box_plan *p, int32_t number)
{
    const struct box_relay *r = p->relay;
    return r && box_stage_level(p, number) < (r->nleg - 1) * r->nchunk ? p->from : p->to;
}
static inline enum dtype
box_stage_dtype(const struct box_plan *p, int32_t number)
{
    return layout_dtype(box_stage_layout(p, number), (enum dtype)p->type.dtype);
}
static inline int64_t
box_stage_width(const struct box_plan *p, int32_t number)
{
    return (int64_t)dtype_bytes(box_stage_dtype(p, number));
}
static inline int32_t
box_nlevel(const struct box_plan *p)
{
    const struct box_relay *r = p->relay;
    return r ? (r->nleg + (r->back ? r->nleg - 1 : 0)) * r->nchunk : 1;
}
/* box_source_width returns the number of bytes per element in a source; box_source_bytes returns the number of bytes
 * that a step reads from source k. */
static inline int64_t
box_source_width(const struct box_plan *p, const struct box_source *s)
{
    return s->stage == BOX_PART ? box_width_from(p) : box_stage_width(p, s->pos);
}
static inline int64_t
box_source_bytes(const struct box_plan *p, const struct box_step *s, int32_t k)
{
    return box_numel(s->slice, p->type.ndim) * box_source_width(p, &s->source[k]);
}
/* Returns the mesh position of a source. */
static inline int32_t
box_source_pos(const struct box_plan *p, const struct box_source *s)
{
    return s->stage == BOX_PART ? s->pos : box_stage_pos(p, s->pos);
}

#endif
