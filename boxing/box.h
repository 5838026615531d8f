/* box.h - boxing (redistribution): moves a tensor between layouts.
 *
 * box_plan() is a pure function from (type, from, to) to a list of steps; actors carry the steps out. Without
 * partial sources every destination shard copies the missing elements from their holders: |dst| - |dst n src| bytes
 * into each rank, the least possible. With partial sources an owner reduces each element once and sends it on;
 * owners are chosen evenly among the ranks that hold an addend and need the result. That takes p + |R| - 2
 * transmissions per element, again the least possible (p distinct addends, R the ranks that need the result; one
 * more if no rank of R holds an addend). P -> P leaves addends in place if possible (deal.h). Reductions combine in
 * the order of the source mesh.
 *
 * Covers every pair of layouts on equal, overlapping or disjoint placements: any meshes, uneven and empty shards, S
 * -> P, P(max). E_SBP rejects a move from one kind of P to another and names both kinds. A plan is read-only and is
 * allocated in the caller's arena; any thread. */
#ifndef RILLE_BOXING_BOX_H
#define RILLE_BOXING_BOX_H

#include "runtime/base/arena.h"
#include "runtime/base/hash.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/view.h"

enum box_verb {
    BOX_COPY,   /* dst slice = source slice */
    BOX_REDUCE, /* dst slice = sources combined in the listed order */
    BOX_FILL,   /* dst slice = identity of `reduce` (other ranks hold the value of a P) */
};

enum {
    BOX_PART = -1,     /* source is a shard, not a stage */
    BOX_ELSEWHERE = -2 /* source is a stage outside this plan, because its rank is not in the plan's set */
};

/* Source of a step: a shard of the source tensor, or a stage in which its rank reduced shards. */
struct box_source {
    int32_t rank, pos; /* device number; mesh position in `from`, or stage number */
    int32_t stage;     /* index in stage[], BOX_PART or BOX_ELSEWHERE */
};

struct box_step {
    uint8_t verb, reduce;
    int32_t nsource;
    const struct box_source *source;
    const struct box *slice; /* in global positions */
};

/* The steps with which one rank fills a stage or a destination shard; each element is filled once. */
struct box_work {
    int32_t rank, pos; /* device number; stage number, or mesh position in `to` of a destination shard */
    int32_t nstep;
    int32_t same; /* index of the first part with the same steps: replicas share a list */
    const struct box_step *step;
};

/* A hierarchical reduction, instead of owners that read all addends: consecutive addends form legs (segments). A leg
 * adds its addends to the running sum of the legs before and hands the sum on, in chunks, so that legs work
 * concurrently. It is the same left fold; between hosts one running sum is sent instead of every addend. Not for
 * moves to P. */
struct box_relay {
    int32_t nleg;         /* at least 2 */
    const int32_t *first; /* nleg + 1: index of each leg's first addend; last, the number of addends */
    int32_t nchunk;
    bool back; /* the sum is also sent back through the legs, if all holders of addends need it (relay_may_go_back) */
};

/* A staging buffer, in which one owner reduces. It holds the slices of its steps one after the other, dense
 * row-major, with the destination's dtype (layout_dtype of `to`), or the source's if the sum is handed on
 * (box_stage_layout). Its number is the mesh position in `from` plus the mesh size times its level: stages read only
 * stages of lower levels. Without a relay there is one level. With a relay, there is a level for each chunk of each
 * leg, and on the way back for each chunk of all legs but the last. */
struct box_stage {
    struct box_work work;
    int64_t numel;
    const int64_t *offset; /* offset of each slice, in elements */
};

struct box_plan {
    struct type type;
    const struct layout *from, *to;
    const struct box_relay *relay; /* NULL: owners read all addends */
    bool alias;                    /* no bytes move or change place: the same bytes under another layout */
    int32_t nstage, npart;
    struct box_stage *stage; /* by number; filled before parts */
    struct box_work *part;   /* by position of the destination mesh; none in an alias */
    int64_t bytes;           /* sum over ranks of the bytes that steps read from other ranks */
    int64_t bound;           /* proven minimum of bytes; -1 in a plan for some ranks */
    int32_t nrank;
    int32_t *rank;     /* devices in from or to (restricted to the plan's set), ascending */
    int64_t *received; /* bytes received, by index of rank */
    const char *name;  /* box_name; NULL in a plan for some ranks */
};

/* Prints ", handed on in 3 legs and back, 4 chunks". */
void box_relay_print(int32_t nleg, bool back, int32_t nchunk, struct str *s);

/* A subset of the ranks: mesh positions in either placement, ascending. */
struct box_ranks {
    int32_t nfrom, nto;
    const int32_t *from, *to;
};

/* Plans a move, in arena a. E_SBP: P to another kind of P. */
int box_plan(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
             struct box_plan **out);
/* box_plan with a hierarchical reduction. relay: must outlive the plan; NULL: none. */
int box_plan_all(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                 const struct box_relay *relay, struct box_plan **out);
/* box_plan for these ranks only: their stages and destination shards, in time and memory proportional to their
 * exchange. */
int box_plan_part(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                  const struct box_ranks *mine, struct box_plan **out);
int box_plan_relay(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                   const struct box_relay *relay, const struct box_ranks *mine, struct box_plan **out);

/* A read, by a step of one rank, of a slice of another rank's shard or stage. */
struct box_read {
    bool from_stage, to_stage;
    int32_t from, to; /* stage numbers; for shards, mesh positions: `from` in the source, `to` in the destination */
    const struct box *slice;
};

/* The border of a set of ranks: `in` lists reads from ranks outside the set, `out` reads by ranks outside. Each list
 * is sorted by (to_stage, to, from_stage, from, slice), stages first, without duplicates. At the border of two sets,
 * the `in` of one equals the `out` of the other, entry by entry. Time and memory are proportional to the exchange of
 * these ranks. */
/* Selects reads within the set that are listed in `in` as well, because they cannot be done in place; NULL: none.
 * Arguments are mesh positions: `to` in the source mesh if it fills a stage. */
typedef bool box_far_fn(const struct box_plan *p, bool to_stage, int32_t to, int32_t from);
struct box_border {
    int32_t nin, nout;
    struct box_read *in, *out;
};
void box_border(struct arena *a, const struct box_plan *p, const struct box_ranks *mine, box_far_fn *far,
                struct box_border *out);

/* Returns the usual name of a move: "none", "slice" (sends nothing), "all-gather", "reduce-scatter", "all-reduce",
 * "all-to-all", "broadcast", "permute", else "exchange". */
const char *box_name(const struct type *t, const struct layout *from, const struct layout *to);
/* Returns the `bytes` of box_plan without making the steps; INT64_MAX if box_plan rejects the move. No allocation. */
int64_t box_bytes(const struct type *t, const struct layout *from, const struct layout *to);
/* box_bytes for callers that price many moves, of any types, layouts and meshes: counts common parts once. known:
 * cache, initially empty, with its arena set; one thread. NULL: box_bytes. */
int64_t box_bytes_known(const struct type *t, const struct layout *from, const struct layout *to,
                        struct hash_table *known);
/* Returns true if only the name of the layout changes (layout_same_boxes). bytes: box_bytes of the move. If both
 * layouts have one mesh, this function's time depends on the number of mesh axes, not of ranks. */
bool box_renames(const struct type *t, const struct layout *from, const struct layout *to, int64_t bytes);
/* Prints the steps, one line per destination; ranks with equal work share a line. */
void box_print(const struct box_plan *p, struct str *s);

/* box_width_from() returns the bytes of an element in a source shard, box_width_to() in a destination shard. */
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
/* Return, for a stage number, its level, its position in the source mesh, and the layout whose dtype it has. */
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
/* Return the bytes of an element in a source; the bytes of a step's slice in its source k. */
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

/* Return the index of a stage by number (BOX_ELSEWHERE: not in this plan); the index of a device in rank[]. */
int32_t box_stage_at(const struct box_plan *p, int32_t number);
int32_t box_rank_at(const struct box_plan *p, int32_t rank);

/* Computes a BOX_COPY (n = 1) or BOX_REDUCE step: dst = src[0] op src[1] op ..., in one pass over memory. Each
 * result is rounded to the dtype of the sources, the last to that of dst; the two differ if a sum of f32 partials
 * becomes a half. dst may be src[0]. box_fill computes BOX_FILL: the identity of r. */
void box_reduce(enum reduce r, const struct view *dst, int n, const struct view *src);
/* box_reduce with operands fetched one by one: at() returns the location of operand k, whenever the loop reads it. */
struct box_operand {
    const struct view *view; /* without its data pointer */
    void *data;
};
typedef void box_operand_fn(const void *of, int k, struct box_operand *out);
void box_reduce_each(enum reduce r, const struct view *dst, int n, box_operand_fn *at, const void *of);
void box_fill(enum reduce r, const struct view *dst);
/* Returns which slice of a stage contains this slice. */
int32_t box_stage_find(const struct box_plan *p, int32_t stage, const struct box *slice);
/* Inner loop of a step, for one source: dst = combine(dst, src), or a copy if first. Both views have the same shape,
 * any strides. */
void box_combine(enum reduce r, bool first, const struct view *dst, const struct view *src);

#endif
