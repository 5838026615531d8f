/* communicator.h - a list of devices of one kind, among which a library runs collectives or a point-to-point link.
 *
 * Each device has a rank in the communicator. The part of a device in a collective is work on the device's stream.
 * The part is complete when all ranks have begun their parts and the device's data has arrived. The n-th collective
 * of one rank is the n-th of every other rank. If ranks begin collectives in different orders, the ranks deadlock;
 * the verifier proves the order of a plan (actors/plan/verify/value/verify_collective.c).
 *
 * The devices may belong to several processes, each with the ranks of its own devices. A kind has one communicator
 * for each list of devices and use (group or link), and keeps it for the life of the process. Any thread may read
 * struct communicator. The library's communicator is created when a run first needs it (device.h, connect). All
 * processes with ranks create their communicators in the same order, so that no two processes wait for each other.
 *
 * A group is for collectives of all its ranks. A link (`edge`) has two ranks and one direction: rank 0 sends, rank 1
 * receives. */
#ifndef RILLE_RUNTIME_COMMUNICATOR_H
#define RILLE_RUNTIME_COMMUNICATOR_H

#include "runtime/base/base.h"

struct communicator {
    int kind;
    int32_t n;
    const int32_t *device; /* by rank: device number within the kind */
    bool edge;             /* true: a point-to-point link; false: a group */
    uint64_t name;         /* digest of the fields above; the same in all processes */
};
uint64_t communicator_name(int kind, bool edge, int32_t n, const int32_t *device);

/* Functions by which processes exchange a communicator's id. The process with rank 0 creates the id and sends it to
 * the processes with the other ranks. */
enum { COMMUNICATOR_ID = 128 /* size of an id, bytes */ };
struct communicator_post {
    void *of;
    /* sends the id to the processes with the other ranks; E_BUS: the id cannot be sent */
    int (*tell)(void *of, const struct communicator *c, const unsigned char id[COMMUNICATOR_ID]);
    /* Receives the id; blocks until it arrives. E_CANCEL: the run has failed in another process, so no id will
     * arrive. */
    int (*hear)(void *of, const struct communicator *c, unsigned char id[COMMUNICATOR_ID]);
    /* returns true if the run has failed in another process. Called repeatedly while this process waits for other
     * processes */
    bool (*left)(void *of);
};

enum collective_verb {
    COLLECT_REDUCE,   /* every rank gets the reduction of the blocks of all ranks (all-reduce) */
    COLLECT_SCATTER,  /* rank i gets block i of the reduction (reduce-scatter) */
    COLLECT_GATHER,   /* every rank gets the blocks of all ranks, in order of rank (all-gather) */
    COLLECT_EXCHANGE, /* rank i gets block i of every rank, in order of rank (all-to-all) */
    COLLECT_PASS,     /* only for links: rank 1 gets the block of rank 0 */
};
struct collective_call {
    uint8_t verb, reduce, dtype; /* reduce: enum reduce; RED_NONE: no reduction */
    /* number of elements of a rank's dense block, > 0; for COLLECT_REDUCE, the block is the rank's complete
     * operand */
    int64_t numel;
};

#endif
