/* redistribute.h - analyses a move for this plan partition: finds the steps that run in the partition, and the
 * data that crosses hosts or memory spaces. Tasks of this partition read windows of shards on other hosts, and
 * tasks on other hosts read windows of local shards.
 *
 * The analysis depends only on the type, the two layouts and the map of devices to hosts (struct plan_map). So
 * the partitions at both ends find the same channels. A receiving task has one channel per source. Replicas on
 * one host that read the same data share a channel, so the data crosses once. Reads between memory spaces of this
 * host are grouped in the same way, but are lowered to transfers instead of channels. The cache (struct
 * redistributions) owns the analyses; one thread. */
#ifndef RILLE_PLAN_REDISTRIBUTE_H
#define RILLE_PLAN_REDISTRIBUTE_H

#include "actors/plan/model/channel.h"
#include "actors/plan/model/local_set.h"
#include "actors/plan/model/plan.h"

struct redistribute_channel {
    uint8_t from_side, to_side; /* enum channel_side */
    /* from, to: as in struct channel_name. peer: host at the other end of the channel; this partition's host if the
     * data only crosses memory spaces of this host */
    int32_t from, to, peer;
    int32_t nslice;
    const struct box_read *slice; /* slices, in the order in which they are sent */
    int64_t *offset;              /* by slice: its offset in the dense vector that the channel sends, elements */
    int64_t numel;
};

/* The reads of one task from one source that the task cannot access in place. They are adjacent in the list of
 * reads: n reads from index `first` on. */
struct redistribute_run {
    struct box_read key; /* any of these reads; identifies task and source */
    int32_t first, n, channel;
};

/* Numbers of channels and stage buffers up to a level of stage buffers, this level included (box_stage_level).
 * Tasks that fill stage buffers are sorted by level. */
struct redistribute_level {
    /* nin: number of incoming channels to stage buffers; nstage: number of stage buffers; nout: number of outgoing
     * channels, those that send shards included */
    int32_t nin, nstage, nout;
};

struct redistribution {
    const struct local_positions *from, *to;
    bool one_space;       /* true: all local shards and stage buffers are in one memory space */
    struct box_plan *own; /* work of the move in this partition: local stage buffers and destination shards */
    struct redistribute_channel *in, *out;
    /* nin: number of incoming channels, first those to stage buffers, by level, then those to shards. nout: number
     * of outgoing channels, first those from shards, then those from stage buffers, by level */
    int32_t nin, nout;
    int32_t npart; /* number of outgoing channels that send shards; these come first */
    int32_t nlevel;
    struct redistribute_level *level;
    struct redistribute_run *run; /* runs of reads, sorted by task and source */
    int32_t nrun;
    uint64_t hash; /* redistribute_hash(own) */
};

/* Cache of analysed moves. The cache belongs to the maker or to the verifier of a plan; one thread. */
struct redistributions {
    struct arena *arena;
    struct local_set *mines;
    const struct box_cost *cost;
    struct hash_table found;
};
/* Returns the analysis of a move in *out; an analysis is made once and cached. E_SBP: no method makes the move. */
int redistribute_of(struct redistributions *s, const struct type *t, const struct layout *from, const struct layout *to,
                    const struct redistribution **out);

/* Returns true if all mesh positions of the move are in this partition. */
bool redistribute_is_all(const struct redistribution *x);
/* Returns true if a library sends the data of the move's channels from device memory to device memory. */
bool redistribute_is_p2p(const struct redistribution *x);
/* Returns true if work w can read the source in place: the source is in this partition and in the memory space of
 * the reader. */
bool redistribute_in_place(const struct redistribution *x, const struct box_work *w, bool to_stage,
                           const struct box_source *s);
/* Returns true if the move fetches an offloaded value, and the device that stores the offloaded shard `pos`
 * performs the move. That is so if all data of the move in this partition, the shard included, is in one memory
 * space. */
bool redistribute_fetches(const struct redistribution *x, const struct program *p, const struct plan_move *of,
                          int32_t pos);
/* Returns the incoming channel that delivers a slice of a remote source to a step. *which: index of the slice in
 * the channel. */
int32_t redistribute_find(const struct redistribution *x, const struct box_work *w, bool to_stage,
                          const struct box_source *s, const struct box *slice, int32_t *which);
/* Returns the sort key of a channel's end in the order of a move's tasks over all partitions. In that order a SEND
 * precedes its RECV. */
int32_t redistribute_turn(const struct redistribution *x, const struct redistribute_channel *c, bool sends);
/* Return the mesh position of a channel's source, and of its reader. */
int32_t redistribute_from(const struct redistribution *x, const struct redistribute_channel *c);
int32_t redistribute_to(const struct redistribution *x, const struct redistribute_channel *c);
/* Returns the dtype of the elements that a channel sends. */
enum dtype redistribute_dtype(const struct redistribution *x, const struct redistribute_channel *c);
/* Returns a hash of the type and the two layouts of a move. The hash is the same in every process. */
uint64_t redistribute_hash(const struct box_plan *b);
/* Returns a hash of the content of a channel: the value, the layouts of the hop, and the slices. */
uint64_t redistribute_what(const struct redistribution *x, struct ref value, const struct redistribute_channel *c);

#endif
