/* poison.h - fills free registers with NaN, to make reads of free registers visible.
 *
 * Active on the simulator's bus, and in tests that ask for it (run.poison). A register is filled before an act
 * writes it, to show elements that no kernel wrote. The register is filled again after its last read. The reader
 * does so on the stream of its work, before any task is notified, because no other task can own the bytes before
 * that. So all registers are filled, even registers that share bytes or are written once per run.
 *
 * The counts belong to the plan's actors: they are created on the session's thread, and decremented by readers on
 * the thread of a device or of a stream. */
#ifndef RILLE_ACT_POISON_H
#define RILLE_ACT_POISON_H

#include "actors/act/run/engine.h"
#include "runtime/device/stream.h"

struct poison {
    int32_t *first;   /* by result: index of its first register among the registers of all results */
    int32_t *readers; /* by result: number of reads of each of its registers, by all results that are stored there */
    _Atomic int32_t *left; /* by register: number of reads still to come; readers decrement it */
};

/* Sets all read counts for a new run. Session's thread. */
void poison_begin(const struct run *r);
/* Fills the registers that the act will write with NaN, as work on stream s; s NULL: at once. */
void poison_outputs(const struct run *r, int task, int piece, struct stream *s);
/* Decrements the counts of the registers that the act reads, as work on stream s behind the act's own. Fills those
 * that no later act reads with NaN. s NULL: at once. */
void poison_inputs(const struct run *r, int task, int piece, struct stream *s);

#endif
