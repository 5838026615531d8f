/* cross.h - the steps of a move here, and what of it crosses memories: which windows tasks here read of other memories'
 * parts, and the other way round; and what crosses spaces of this memory.
 *
 * A pure function of the type, the two layouts and the map: the parts at both ends of a channel find the same channels.
 * All that one task reads of one source is one channel. Parts of one memory that hold the same (replicas) and read the
 * same of one source share a channel, so that it crosses once. It groups alike what tasks of one space here read of
 * another space here: that comes in from this memory itself, by transfers. */
#ifndef RILLE_PLAN_CROSS_H
#define RILLE_PLAN_CROSS_H

#include "actors/plan/channel.h"
#include "actors/plan/mine.h"
#include "actors/plan/plan.h"
#include "boxing/box.h"

struct cross_channel {
    uint8_t from_side, to_side; /* enum channel_side */
    int32_t from, to, peer;     /* see struct channel_name; the memory of the other end: this one's is a transfer */
    int32_t nslice;
    const struct box_read *slice; /* in the order in which the SEND sends them */
    int64_t *offset;              /* of each in what the SEND sends, elements */
    int64_t numel;
};

/* All that one task here reads of one source that is not in place for it. */
struct cross_run {
    struct box_read key; /* but for the slice */
    int32_t first, n, channel;
};

/* The tasks of a level of stages (box_stage_level) come one after the other; so many, with those of the levels before.
 */
struct cross_level {
    int32_t nin, nstage, nout; /* what comes in for its stages, those, and what leaves them */
};

struct cross {
    const struct mine *from, *to;
    bool one_space;       /* all that lies here does so in one */
    struct box_plan *own; /* the stages and the parts here */
    struct cross_channel *in, *out;
    int32_t nin, nout; /* in: those to stages, by level, then others; out: those from parts, then stages, by level */
    int32_t npart;     /* so many of those that go out leave parts, the first */
    int32_t nlevel;
    struct cross_level *level;
    struct cross_run *run; /* what comes in, sorted by task and source */
    int32_t nrun;
};

/* The moves seen so far, each once. Belongs to whoever makes or proves a plan; one thread. */
struct crosses {
    struct arena *arena;
    struct mines *mines;
    const struct box_cost *cost;
    struct hash_table found;
};
/* E_SBP. */
int cross_of(struct crosses *s, const struct type *t, const struct layout *from, const struct layout *to,
             const struct cross **out);

/* Does all of the move lie here? */
bool cross_is_all(const struct cross *x);
/* Does a library carry what the move's channels bring to other memories, from device memory to device memory? */
bool cross_is_direct(const struct cross *x);
/* Does this work read a source of a step in place: does that lie here, in the same space? */
bool cross_in_place(const struct cross *x, const struct box_work *w, bool to_stage, const struct box_source *s);
/* Does who holds a part aside fetch it from there: does it lie here, in the same space? */
bool cross_fetches(const struct cross *x, const struct program *p, const struct plan_move *of, int32_t pos);
/* Returns which channel that comes in brings what a step reads of another source; *which: as which of its slices. */
int32_t cross_find(const struct cross *x, const struct box_work *w, bool to_stage, const struct box_source *s,
                   const struct box *slice, int32_t *which);
/* Among the turns of a move's tasks in all parts, the one in which a channel's end has its own: a SEND before its RECV.
 */
int32_t cross_turn(const struct cross *x, const struct cross_channel *c, bool sends);
/* The mesh position of what a channel comes from, and of who reads it. */
int32_t cross_from(const struct cross *x, const struct cross_channel *c);
int32_t cross_to(const struct cross *x, const struct cross_channel *c);
/* The dtype that holds the elements of a channel. */
enum dtype cross_dtype(const struct cross *x, const struct cross_channel *c);
/* A number that tells apart what channels carry: a value in the layouts of a hop, in these slices. */
uint64_t cross_what(const struct cross *x, struct ref value, const struct cross_channel *c);

#endif
