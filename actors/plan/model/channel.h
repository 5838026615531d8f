/* channel.h - channels: a sending task on one host, and a receiving task on another.
 *
 * A plan partition holds the tasks of the devices of one host. If a task reads data of another host, the other
 * host's partition has a SEND task, which reads the needed window. The reader's partition has a RECV task, whose
 * registers hold exactly this window. If a channel only orders tasks, both ends are gates and carry no bytes. The
 * two ends form a channel.
 *
 * Each host compiles its own partition, so the name of a channel must follow from knowledge that both compilers
 * share: the step of the program, the operand that moves, the hop, and the positions at both ends. Bytes, credits
 * and rate of a channel follow from the outline and the map. Before a run the partitions connect: each writes the
 * list of its channels to the other host, sorted by name, and compares the other's list with its own. A difference
 * is an error that names the channel. Equal terms are the contract on which the proofs of both partitions rest
 * (verify_channel.c). Connecting partitions also exchange task numbers, which messages use to name the other end of
 * a channel.
 *
 * A channel between devices with a common library is direct: both ends are tasks of the devices themselves, and the
 * bytes are sent over a point-to-point link (communicator.h) between device memories. Everything else is as for
 * other channels.
 *
 * Read-only with the plan; any thread. */
#ifndef RILLE_PLAN_CHANNEL_H
#define RILLE_PLAN_CHANNEL_H

#include "runtime/base/str.h"
#include "runtime/tensor/view.h"

struct plan;

enum channel_side {
    SIDE_PART,  /* end is a shard of a value: mesh position in the hop's source or destination layout */
    SIDE_STAGE, /* end is a stage buffer, a partial result of a reduction: index of the stage (boxing/box.h) */
    SIDE_GATE,  /* end is the gate of a host: index of the host. Such a channel carries no bytes, only order */
};

struct channel_name {
    int32_t step; /* program node that needs the move */
    int16_t operand, hop;
    uint8_t from_side, to_side; /* enum channel_side */
    /* index of the end, by side: mesh position, stage buffer or host; if several shards of a host read the same
     * window, the first shard */
    int32_t from, to;
};

/* A slice that a SEND reads: bytes from the start of the argument, and the view. */
struct channel_slice {
    int64_t skip;
    const struct view *view;
};

struct channel {
    struct channel_name name;
    bool sends;   /* true: this partition has the SEND; false: the RECV */
    int32_t peer; /* host of the peer partition */
    /* place of the act in the order of its hop (redistribute_turn); of a gate, in the order of its step
     * (update_order.c) */
    int32_t turn;
    int32_t task; /* index of the task at this end of the channel */
    /* acts by which the SEND may be ahead of the RECV: the registers of the RECV. A direct channel has one act,
     * after the RECV has reported that it is ready */
    int32_t nreg;
    int32_t nact;  /* acts per run */
    uint8_t dtype; /* element type */
    bool direct;   /* a library carries the bytes: both ends are KIND_P2P tasks of devices */
    /* runs once, after the last micro-batch; false: a task that runs once runs with the first micro-batch */
    bool late;
    int64_t bytes; /* bytes per act; 0: order only */
    uint64_t what; /* digest of the content: the value, the layouts of its hop, and the slices (redistribute.h) */
    int32_t nslice;
    const struct channel_slice *slice; /* SEND: slices, sent one after the other, each in row-major order; direct
                                          channels use rank->pack instead */
};

/* Data about the other end of a channel, exchanged before a run. */
struct channel_far {
    int32_t task, thread; /* indices of the task and its thread in the peer partition */
    uint32_t addr;        /* bus address; set by the owner of the thread table */
};

int channel_compare(const struct channel_name *a, const struct channel_name *b); /* < 0: a sorts before b */
/* Prints a name: "step 12, operand 0, hop 1: part 3 -> stage 5". */
void channel_print(const struct channel_name *name, struct str *s);

/* Appends to s the list of this partition's channels to host `peer`, as bytes for the partition of that host. */
void channels_write(const struct plan *p, int32_t peer, struct str *s);
/* Compares this partition's channels to host `peer` with the list `bytes`, which the partition of that host wrote
 * (untrusted input). Fills in far[c], the other end of channel c. E_PLAN names the first channel that is missing on
 * one side, or that differs. */
int channels_match(const struct plan *p, int32_t peer, const char *bytes, size_t n, struct channel_far *far);

/* How a root is stored: not on this host, in a new buffer, or over its leaf. All hosts that store a root must agree. */
enum root_fate { ROOT_ELSEWHERE, ROOT_NEW, ROOT_OVERWRITES };
enum root_fate root_fate(const struct plan *p, int32_t root);

/* Copies the data of a SEND to `dense`: the slices of the argument at `from`, one after the other. */
void channel_gather(const struct channel *c, const char *from, char *dense);

#endif
