/* communicator.h - devices of one kind among which a library makes collectives.
 *
 * Each device has a seat. Its part in a collective is work of its stream, and is done when all seats have begun theirs
 * and what is for it has come; the n-th of one seat goes with the n-th of every other. So seats begin their parts in
 * one order, or wait for each other for ever: a plan proves that they do (actors/plan/verify_collect.c). A kind makes
 * one communicator for the same devices (device.h) and keeps it for the process; any thread reads this face of it. */
#ifndef RILLE_RUNTIME_COMMUNICATOR_H
#define RILLE_RUNTIME_COMMUNICATOR_H

#include "runtime/base.h"

struct communicator {
    int32_t n;
    const int32_t *device; /* by seat; numbers of the kind */
};

enum collective_verb {
    COLLECT_REDUCE,   /* everybody gets the reduction of all parts */
    COLLECT_SCATTER,  /* seat i gets block i of it */
    COLLECT_GATHER,   /* everybody gets the blocks of all, in the order of the seats */
    COLLECT_EXCHANGE, /* seat i gets block i of everybody, in that order */
};
struct collective_call {
    uint8_t verb, reduce, dtype; /* enum reduce: RED_NONE where nothing is added */
    int64_t numel;               /* elements of a block, dense; COLLECT_REDUCE: of a part. More than 0 */
};

#endif
