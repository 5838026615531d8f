/* box.h - moving a tensor from one layout to another.
 *
 * box_plan() is a pure function from (type, from, to) to a list of steps; it decides, actors carry out. Without partial
 * sources every destination part takes what it lacks from whoever holds it: |dst| - |dst n src| bytes into each rank,
 * which is the least possible. With partials an owner (evenly chosen among those who hold an addend and want the
 * result) reduces every element once and sends it on: p + |R| - 2 transmissions of it, which is the least possible too
 * (p distinct addends, R the ranks that want it; one more when nobody who holds it wants it). A P that stays P keeps
 * addends where they are if it can (deal.h). Reductions combine in the order of the source mesh.
 *
 * Covers every pair of layouts on the same, overlapping or disjoint placements: any meshes, uneven and empty parts, S
 * -> P, P(max). It refuses to move one kind of P to another: E_SBP names both. A plan is read-only and lies in the
 * caller's arena; any thread. */
#ifndef RILLE_BOXING_BOX_H
#define RILLE_BOXING_BOX_H

#include "runtime/arena.h"
#include "runtime/hash.h"
#include "runtime/layout.h"
#include "runtime/view.h"

enum box_verb {
    BOX_COPY,   /* dst slice = source's */
    BOX_REDUCE, /* dst slice = sources combined, in the order listed */
    BOX_FILL,   /* dst slice = the identity of `reduce` (other ranks hold the value of a P) */
};

enum {
    BOX_PART = -1,     /* the step reads the part itself, no stage */
    BOX_ELSEWHERE = -2 /* a stage that is not in this plan: of a rank that is not in its set */
};

/* What a step reads: a part of the source tensor, or what its rank reduced of it. */
struct box_source {
    int32_t rank, pos; /* device number; mesh position in `from`, or the number of the stage */
    int32_t stage;     /* index into stage[], or one of the above */
};

struct box_step {
    uint8_t verb, reduce;
    int32_t nsource;
    const struct box_source *source;
    const struct box *slice; /* in global positions */
};

/* The steps by which one rank fills its stage or its destination part: each element once. */
struct box_work {
    int32_t rank, pos; /* device number; the number of a stage, or the mesh position in `to` of a destination part */
    int32_t nstep;
    int32_t same; /* index of the first part that has these very steps: replicas share a list */
    const struct box_step *step;
};

/* How a sum is handed on instead of made by owners that read all addends: legs of addends that follow one another, each
 * of which adds its own to the sum of those before, in chunks, so that the legs work at once. The same left fold;
 * between hosts one running sum goes where every addend of a host would. Of a move to no P. */
struct box_relay {
    int32_t nleg;         /* at least 2 */
    const int32_t *first; /* nleg + 1: the first addend of each leg; last, how many addends there are */
    int32_t nchunk;
    bool back; /* the sum is handed back through the legs, whose holders of addends all want it (relay_may_go_back) */
};

/* A staging part: what one owner reduces. Its bytes are its steps' slices one after the other, each dense row-major, as
 * the destination holds them (layout_dtype of `to`), or as the source does where the sum goes on (box_stage_layout).
 * Its number is the mesh position in `from`, plus the size of that mesh times its level: stages of a level read no
 * stage but of levels before. Without a relay there is one level; with one, a level for each chunk of each leg, and on
 * the way back for each of all legs but the last. */
struct box_stage {
    struct box_work work;
    int64_t numel;
    const int64_t *offset; /* of each slice, in elements */
};

struct box_plan {
    struct type type;
    const struct layout *from, *to;
    const struct box_relay *relay; /* NULL: owners read all addends */
    bool alias;                    /* nothing moves and every part is in place: the same bytes under another layout */
    int32_t nstage, npart;
    struct box_stage *stage; /* by number; they come before parts */
    struct box_work *part;   /* in the order of the destination mesh; none in an alias */
    int64_t bytes;           /* received over all ranks: what steps read of other ranks' memory */
    int64_t bound;           /* the proven least; -1 in a plan for some ranks */
    int32_t nrank;
    int32_t *rank;     /* every device in from or to (that the plan is for), ascending */
    int64_t *received; /* bytes, by index of rank */
    const char *name;  /* box_name; NULL in a plan for some ranks */
};

/* ", handed on in 3 legs and back, 4 chunks" */
void box_relay_print(int32_t nleg, bool back, int32_t nchunk, struct str *s);

/* Some of the ranks: their mesh positions in either placement, ascending. */
struct box_ranks {
    int32_t nfrom, nto;
    const int32_t *from, *to;
};

/* In arena a. E_SBP: P to another kind of P. */
int box_plan(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
             struct box_plan **out);
/* The same of a sum that is handed on. relay: lives as long as the plan; NULL: it is not. */
int box_plan_all(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                 const struct box_relay *relay, struct box_plan **out);
/* box_plan for these ranks alone: their stages and destination parts, in time and memory of what they exchange. */
int box_plan_part(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                  const struct box_ranks *mine, struct box_plan **out);
int box_plan_relay(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                   const struct box_relay *relay, const struct box_ranks *mine, struct box_plan **out);

/* A step of one rank reads a slice of another's part or stage. */
struct box_read {
    bool from_stage, to_stage;
    int32_t from, to; /* numbers of stages; of parts, mesh positions: `from` in the source, `to` in the destination */
    const struct box *slice;
};

/* What steps of these ranks read of ranks that are not among them, and what steps of others read of these ranks. Either
 * list is sorted by (to_stage, to, from_stage, from, slice), stages first, and has each entry once: where two sets of
 * ranks meet, one's in is the other's out, entry by entry. In time and memory of what these ranks exchange. */
/* far: which reads within these ranks are in the first list too, since nobody makes them in place; NULL: none. Its
 * positions are of meshes: `to` in the source if it fills a stage. */
typedef bool box_far_fn(const struct box_plan *p, bool to_stage, int32_t to, int32_t from);
struct box_border {
    int32_t nin, nout;
    struct box_read *in, *out;
};
void box_border(struct arena *a, const struct box_plan *p, const struct box_ranks *mine, box_far_fn *far,
                struct box_border *out);

/* What people call the move: "none", "slice" (sends nothing), "all-gather", "reduce-scatter", "all-reduce",
 * "all-to-all", "broadcast", "permute", else "exchange". */
const char *box_name(const struct type *t, const struct layout *from, const struct layout *to);
/* box_plan's bytes without making the steps. INT64_MAX when box_plan refuses the move. No allocation. */
int64_t box_bytes(const struct type *t, const struct layout *from, const struct layout *to);
/* The same for who prices many moves: what they have in common is counted once. known: empty at first, its arena set;
 * one thread. Of any types, layouts and meshes. NULL: box_bytes. */
int64_t box_bytes_known(const struct type *t, const struct layout *from, const struct layout *to,
                        struct hash_table *known);
/* Is the move one in name alone, layout_same_boxes()? bytes: what it sends, box_bytes. On one mesh it takes time of its
 * axes, not of its ranks. */
bool box_renames(const struct type *t, const struct layout *from, const struct layout *to, int64_t bytes);
/* The verbs as text, one line a destination, equal ranks collapsed. */
void box_print(const struct box_plan *p, struct str *s);

/* Bytes of an element of a source part; of a destination part. */
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
/* Of the stage that has a number: its level, its position in the source mesh, the layout as of which it holds elements.
 */
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
/* Bytes of an element of a source; of the slice of a step as its source k has it. */
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
/* The mesh position of a source. */
static inline int32_t
box_source_pos(const struct box_plan *p, const struct box_source *s)
{
    return s->stage == BOX_PART ? s->pos : box_stage_pos(p, s->pos);
}

/* The index of the stage that has a number; BOX_ELSEWHERE: it is not here. The index of a device in rank[]. */
int32_t box_stage_at(const struct box_plan *p, int32_t number);
int32_t box_rank_at(const struct box_plan *p, int32_t rank);

/* Carries the plan out on plain memory: src[pos] and dst[pos] are dense parts. The definition of correct. */
void box_apply(const struct box_plan *p, void *const *src, void **dst);
/* What a BOX_COPY (n = 1) or BOX_REDUCE step does: dst = src[0] op src[1] op ..., each result rounded to the dtype of
 * the sources, the last to that of dst, which is another where parts of a sum of halves become whole; one pass over
 * memory. dst may be src[0]. BOX_FILL: the identity of r. */
void box_reduce(enum reduce r, const struct view *dst, int n, const struct view *src);
/* The same of sources one by one: at() says where number k lies, each time that the loop reads it. */
struct box_operand {
    const struct view *view; /* but for its data */
    void *data;
};
typedef void box_operand_fn(const void *of, int k, struct box_operand *out);
void box_reduce_each(enum reduce r, const struct view *dst, int n, box_operand_fn *at, const void *of);
void box_fill(enum reduce r, const struct view *dst);
/* The view of a slice in a dense part of a tensor of global type t in layout l (part, slice: global positions), or in a
 * stage of p. data may be NULL. */
struct view box_slice(const struct type *t, const struct layout *l, const struct box *part, void *data,
                      const struct box *slice);
/* Which of a stage's slices holds this one; the bytes of it follow those of the slices before. */
int32_t box_stage_find(const struct box_plan *p, int32_t stage, const struct box *slice);
/* One step's inner loop, one source at a time: dst = combine(dst, src) or copy over a slice of two views of one shape;
 * any strides. */
void box_combine(enum reduce r, bool first, const struct view *dst, const struct view *src);

#endif
