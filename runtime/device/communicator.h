/* communicator.h - devices of one kind among which a library runs collectives, or a point-to-point edge.
 *
 * Each device has a rank (its rank in the communicator). Its part in a collective is work of its stream, and is done
 * when all ranks have begun their parts and its data has arrived. The n-th collective of one rank matches the n-th
 * of every other rank. All ranks must begin their parts in the same order, or they deadlock; a plan proves that they
 * do (actors/plan/verify/verify_collective.c).
 *
 * The devices may belong to several processes, each with the ranks of its own devices. A kind has one communicator
 * for the same devices and keeps it for the life of the process; any thread may read this struct. The library's
 * communicator is created when a run first needs it (device.h, connect), by all processes that have ranks, in the same
 * order, so that no process waits for ever.
 *
 * A group is for collectives of all its ranks. An edge has two ranks and one direction: rank 0 sends, rank 1
 * receives. */
#ifndef RILLE_RUNTIME_COMMUNICATOR_H
#define RILLE_RUNTIME_COMMUNICATOR_H

#include "runtime/base/base.h"

struct communicator {
    int kind;
    int32_t n;
    const int32_t *device; /* device number within the kind, by rank */
    bool edge;             /* true: an edge; false: a group */
    uint64_t name;         /* derived from the fields above: the same in all processes */
};
uint64_t communicator_name(int kind, bool edge, int32_t n, const int32_t *device);

/* Rendezvous of processes: the process with rank 0 creates an id and sends it to those with the other ranks. */
enum { COMMUNICATOR_ID = 128 /* bytes */ };
struct communicator_post {
    void *of;
    int (*tell)(void *of, const struct communicator *c, const unsigned char id[COMMUNICATOR_ID]); /* E_BUS */
    /* Receives the id. Blocks. E_CANCEL: the run has failed in another process, so no id will arrive. */
    int (*hear)(void *of, const struct communicator *c, unsigned char id[COMMUNICATOR_ID]);
    bool (*left)(void *of); /* returns true if the run has failed elsewhere; polled while waiting */
};

enum collective_verb {
    COLLECT_REDUCE,   /* every rank gets the reduction of all parts */
    COLLECT_SCATTER,  /* rank i gets block i of it */
    COLLECT_GATHER,   /* every rank gets the blocks of all ranks, in order of the ranks */
    COLLECT_EXCHANGE, /* rank i gets block i of every rank, in order of the ranks */
    COLLECT_PASS,     /* edge only: rank 1 gets the block of rank 0 */
};
struct collective_call {
    uint8_t verb, reduce, dtype; /* enum reduce: RED_NONE if the call reduces nothing */
    int64_t numel;               /* elements of a dense block (COLLECT_REDUCE: of a part); > 0 */
};

#endif
