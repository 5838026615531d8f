/* communicator.h - devices of one kind among which a library runs collectives, or a point-to-point edge.
 *
 * Each device has a seat (its rank in the communicator). Its part in a collective is work of its stream, and is done
 * when all seats have begun their parts and its data has arrived. The n-th collective of one seat matches the n-th
 * of every other seat. All seats must begin their parts in the same order, or they deadlock; a plan proves that they
 * do (actors/plan/verify/verify_collective.c).
 *
 * The devices may belong to several processes, each with the seats of its own devices. A kind has one communicator
 * for the same devices and keeps it for the life of the process; any thread may read this struct. The library's
 * communicator is created when a run first needs it (device.h, meet), by all processes that have seats, in the same
 * order, so that no process waits for ever.
 *
 * A group is for collectives of all its seats. An edge has two seats and one direction: seat 0 sends, seat 1
 * receives. */
#ifndef RILLE_RUNTIME_COMMUNICATOR_H
#define RILLE_RUNTIME_COMMUNICATOR_H

#include "runtime/base/base.h"

struct communicator {
    int kind;
    int32_t n;
    const int32_t *device; /* device number within the kind, by seat */
    bool edge;             /* true: an edge; false: a group */
    uint64_t name;         /* derived from the fields above: the same in all processes */
};
uint64_t communicator_name(int kind, bool edge, int32_t n, const int32_t *device);

/* Rendezvous of processes: the process with seat 0 creates an id and sends it to those with the other seats. */
enum { COMMUNICATOR_ID = 128 /* bytes */ };
struct communicator_post {
    void *of;
    int (*tell)(void *of, const struct communicator *c, const unsigned char id[COMMUNICATOR_ID]); /* E_BUS */
    /* Receives the id. Blocks. E_CANCEL: the run has failed in another process, so no id will arrive. */
    int (*hear)(void *of, const struct communicator *c, unsigned char id[COMMUNICATOR_ID]);
    bool (*left)(void *of); /* returns true if the run has failed elsewhere; polled while waiting */
};

enum collective_verb {
    COLLECT_REDUCE,   /* every seat gets the reduction of all parts */
    COLLECT_SCATTER,  /* seat i gets block i of it */
    COLLECT_GATHER,   /* every seat gets the blocks of all seats, in order of the seats */
    COLLECT_EXCHANGE, /* seat i gets block i of every seat, in order of the seats */
    COLLECT_PASS,     /* edge only: seat 1 gets the block of seat 0 */
};
struct collective_call {
    uint8_t verb, reduce, dtype; /* enum reduce: RED_NONE if the call reduces nothing */
    int64_t numel;               /* elements of a dense block (COLLECT_REDUCE: of a part); > 0 */
};

#endif
