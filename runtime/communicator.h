/* communicator.h - devices of one kind among which a library makes collectives, or from one of which it brings bytes to
 * another.
 *
 * Each device has a seat. Its part in a collective is work of its stream, and is done when all seats have begun theirs
 * and what is for it has come; the n-th of one seat goes with the n-th of every other. So seats begin their parts in
 * one order, or wait for each other for ever: a plan proves that they do (actors/plan/verify_collect.c).
 *
 * Devices may be of several processes, each of which has the seats of its own. A kind knows one communicator for the
 * same devices and keeps it for the process; any thread reads this face of it. The library's is made when a run first
 * needs it (device.h, meet), by all processes that have seats, in one order: where one waits, the others come.
 *
 * A group is for collectives of all its seats. An edge has two seats, and goes one way: seat 0 sends, seat 1 receives.
 */
#ifndef RILLE_RUNTIME_COMMUNICATOR_H
#define RILLE_RUNTIME_COMMUNICATOR_H

#include "runtime/base.h"

struct communicator {
    int kind;
    int32_t n;
    const int32_t *device; /* by seat; numbers of the kind */
    bool edge;             /* else a group */
    uint64_t name;         /* follows from these: the same in all processes */
};
uint64_t communicator_name(int kind, bool edge, int32_t n, const int32_t *device);

/* How processes come together: the one that has seat 0 makes an id, and tells it to those of the other seats. */
enum { COMMUNICATOR_ID = 128 /* bytes */ };
struct communicator_post {
    void *of;
    int (*tell)(void *of, const struct communicator *c, const unsigned char id[COMMUNICATOR_ID]); /* E_BUS */
    /* Blocks. E_CANCEL: the run has failed elsewhere, and nobody tells it. */
    int (*hear)(void *of, const struct communicator *c, unsigned char id[COMMUNICATOR_ID]);
    bool (*left)(void *of); /* has it? Asked again and again by who waits for the others */
};

enum collective_verb {
    COLLECT_REDUCE,   /* everybody gets the reduction of all parts */
    COLLECT_SCATTER,  /* seat i gets block i of it */
    COLLECT_GATHER,   /* everybody gets the blocks of all, in the order of the seats */
    COLLECT_EXCHANGE, /* seat i gets block i of everybody, in that order */
    COLLECT_PASS,     /* of an edge: seat 1 gets the block of seat 0 */
};
struct collective_call {
    uint8_t verb, reduce, dtype; /* enum reduce: RED_NONE where nothing is added */
    int64_t numel;               /* elements of a block, dense; COLLECT_REDUCE: of a part. More than 0 */
};

#endif
