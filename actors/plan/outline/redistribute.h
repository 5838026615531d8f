/* redistribute.h - finds the steps of a move in this plan partition, and the data that crosses hosts or memory spaces:
 * windows that tasks here read of shards on other hosts, and the reverse.
 *
 * A pure function of the type, the two layouts and the map, so the partitions at both ends of a channel find the
 * same channels. A task has one channel per source. Replicas on one host with equal reads of one source share a
 * channel, so that the data crosses once. Reads between memory spaces of this host are grouped in the same way; they
 * become transfers instead of channels. */
#ifndef RILLE_PLAN_REDISTRIBUTE_H
#define RILLE_PLAN_REDISTRIBUTE_H

#include "actors/plan/model/channel.h"
#include "actors/plan/model/local_set.h"
#include "actors/plan/model/plan.h"
#include "boxing/box.h"

struct redistribute_channel {
    uint8_t from_side, to_side; /* enum channel_side */
    int32_t from, to, peer;     /* see struct channel_name; memory of the other end (of a transfer: this one) */
    int32_t nslice;
    const struct box_read *slice; /* in the order of sending */
    int64_t *offset;              /* of each slice in the SEND's buffer, elements */
    int64_t numel;
};

/* The reads of one task of one source that the task cannot read in place. */
struct redistribute_run {
    struct box_read key; /* task and source; the slice is not part of the key */
    int32_t first, n, channel;
};

/* Tasks are sorted by level of stages (box_stage_level). Counts include those of earlier levels. */
struct redistribute_level {
    int32_t nin, nstage, nout; /* channels to its stages, stages, and channels from stages */
};

struct redistribution {
    const struct local_positions *from, *to;
    bool one_space;       /* all local shards and stages share one memory space */
    struct box_plan *own; /* the stages and destination shards here */
    struct redistribute_channel *in, *out;
    int32_t nin, nout; /* in: channels to stages, by level, then to shards; out: channels from shards, then from stages,
                          by level */
    int32_t npart;     /* the first npart outgoing channels send shards */
    int32_t nlevel;
    struct redistribute_level *level;
    struct redistribute_run *run; /* sorted by task and source */
    int32_t nrun;
};

/* Cache of moves. Owned by the maker or the verifier of a plan; one thread. */
struct redistributions {
    struct arena *arena;
    struct local_set *mines;
    const struct box_cost *cost;
    struct hash_table found;
};
/* Returns the cached move, or analyses it. E_SBP: no method makes the move. */
int redistribute_of(struct redistributions *s, const struct type *t, const struct layout *from, const struct layout *to,
                    const struct redistribution **out);

/* Returns true if all positions of the move are in this partition. */
bool redistribute_is_all(const struct redistribution *x);
/* Returns true if a library carries the move's channels to other hosts from device memory to device memory. */
bool redistribute_is_p2p(const struct redistribution *x);
/* Returns true if this work reads the source in place: the source is here, in the same memory space. */
bool redistribute_in_place(const struct redistribution *x, const struct box_work *w, bool to_stage,
                           const struct box_source *s);
/* Returns true if the holder of the offloaded shard fetches it: the move fetches, the shard at pos is here, and
 * everything here is in one memory space. */
bool redistribute_fetches(const struct redistribution *x, const struct program *p, const struct plan_move *of,
                          int32_t pos);
/* Returns the incoming channel for a step's remote source; sets *which to the index of the slice in the channel. */
int32_t redistribute_find(const struct redistribution *x, const struct box_work *w, bool to_stage,
                          const struct box_source *s, const struct box *slice, int32_t *which);
/* Returns the turn of a channel's end in the order of a move's tasks over all partitions; a SEND precedes its RECV. */
int32_t redistribute_turn(const struct redistribution *x, const struct redistribute_channel *c, bool sends);
/* Return the mesh position of the source of a channel, and of its reader. */
int32_t redistribute_from(const struct redistribution *x, const struct redistribute_channel *c);
int32_t redistribute_to(const struct redistribution *x, const struct redistribute_channel *c);
/* Returns the dtype of the elements of a channel. */
enum dtype redistribute_dtype(const struct redistribution *x, const struct redistribute_channel *c);
/* Returns a hash of what a channel carries: the value, the layouts of the hop, and the slices. */
uint64_t redistribute_what(const struct redistribution *x, struct ref value, const struct redistribute_channel *c);

#endif
