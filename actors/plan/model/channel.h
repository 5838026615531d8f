/* channel.h - channels: a sending task on one host, and a receiving task on another.
 *
 * A plan partition holds the tasks of the devices of one host. If a task reads data of another host, the other
 * host's partition has a SEND task, which reads the needed window. The reader's partition has a RECV task, whose
 * registers hold exactly this window. If a channel only orders tasks, both ends are gates and carry no bytes. The
 * two ends form a channel.
 *
 * Each host compiles its own partition, so the name of a channel is built from facts that both compilers know: the
 * step of the program, the operand that moves, the hop, and the positions at both ends. The bytes, credits and rate
 * of a channel follow from the outline and the cluster map. Before a run the partitions connect: each writes the
 * list of its channels to the other host, sorted by name, and compares the received list with its own. If the lists
 * differ, the run fails with an error that names the channel. The proofs of both partitions assume that the lists
 * are equal (verify_channel.c). Connecting partitions also exchange task numbers, which messages use to name the
 * other end of a channel.
 *
 * A channel is direct if its two devices have a common communication library. Both ends of a direct channel are
 * tasks of the devices themselves, and the bytes are sent over a point-to-point link (communicator.h) between device
 * memories. In all other respects a direct channel works like other channels.
 *
 * Channels belong to the plan and are read-only; any thread. */
#ifndef RILLE_PLAN_CHANNEL_H
#define RILLE_PLAN_CHANNEL_H

#include "runtime/data/str.h"
#include "runtime/tensor/view.h"

struct plan;

enum channel_side {
    /* the end is a shard of a value. Its number is a mesh position in the hop's source or destination layout */
    SIDE_PART,
    /* the end is a stage buffer, which holds a partial result of a reduction. Its number is the index of the stage
     * (boxing/box.h) */
    SIDE_STAGE,
    /* the end is the gate of a host. Its number is the index of the host. The channel carries no bytes, only order */
    SIDE_GATE,
};

struct channel_name {
    int32_t step; /* program node for which the value is moved */
    int16_t operand, hop;
    uint8_t from_side, to_side; /* enum channel_side */
    /* numbers of the two ends: mesh position, stage buffer or host, depending on from_side and to_side. If several
     * shards share the channel, the position of the first shard */
    int32_t from, to;
};

/* A slice that a SEND reads from its argument. skip: bytes from the start of the argument to the slice. */
struct channel_slice {
    int64_t skip;
    const struct view *view;
};

struct channel {
    struct channel_name name;
    bool sends;   /* true: this partition has the SEND; false: the RECV */
    int32_t peer; /* host of the peer partition */
    /* place in the order of all channel ends: within the hop (redistribute_turn) or, for a gate, within the step
     * (update_order.c) */
    int32_t turn;
    int32_t task; /* index of the task at this end of the channel */
    /* number of registers of the RECV. The SEND may be ahead of the RECV by as many acts. On a direct channel the
     * SEND begins each act only after the RECV has reported that it is ready */
    int32_t nreg;
    int32_t nact;  /* acts per run */
    uint8_t dtype; /* element type */
    bool direct;   /* true: a communication library sends the bytes, and both ends are KIND_P2P tasks of devices */
    /* true: both ends run once, after the last micro-batch; false: an end that runs once per batch runs with the
     * first micro-batch */
    bool late;
    int64_t bytes; /* bytes per act; 0: order only */
    uint64_t what; /* digest of the content: the value, the layouts of its hop, and the slices (redistribute.h) */
    int32_t nslice;
    /* SEND: slices, sent one after the other, each in row-major order. On a direct channel the task's
     * move_comm_rank.pack lists the slices instead */
    const struct channel_slice *slice;
};

/* The other end of a channel, as reported by the peer partition before a run. */
struct channel_far {
    int32_t task, thread; /* indices of the task and its thread in the peer partition */
    uint32_t addr;        /* bus address of the peer's thread; set by the owner of the thread table */
};

int channel_compare(const struct channel_name *a, const struct channel_name *b); /* < 0: a sorts before b */
/* Prints a name: "step 12, operand 0, hop 1: part 3 -> stage 5". */
void channel_print(const struct channel_name *name, struct str *s);

/* Appends the list of this partition's channels to host `peer` to string s. channels_match() reads the list on
 * that host. */
void channels_write(const struct plan *p, int32_t peer, struct str *s);
/* Compares this partition's channels to host `peer` with the list `bytes`, which the partition of that host wrote
 * (untrusted input). Fills in far[c], the other end of channel c. E_PLAN names the first channel that is missing in
 * one of the lists, or whose two ends disagree. */
int channels_match(const struct plan *p, int32_t peer, const char *bytes, size_t n, struct channel_far *far);

/* Location of a root's result: not on this host, in a new buffer, or in the buffer of the leaf that it may
 * overwrite. Partitions need not agree: a run overwrites the leaf only if the plans of all hosts with the root
 * do (actors/session/run/remote.c). */
enum root_fate { ROOT_ELSEWHERE, ROOT_NEW, ROOT_OVERWRITES };
enum root_fate root_fate(const struct plan *p, int32_t root);

/* Copies the data of a SEND to `dense`: the slices of the argument at `from`, one after the other. */
void channel_gather(const struct channel *c, const char *from, char *dense);

#endif
