/* poison.h - fills free registers with NaN, to make reads of free registers visible.
 *
 * Active on the simulator's bus, and in tests that ask for it (run.poison). A register is filled before an act
 * writes it, to show elements that no kernel wrote. A register is filled again after its last read: by the reader,
 * on the stream of its work, before any task is notified, because the next owner of the bytes cannot have them yet.
 * So all registers are filled, even registers that share bytes or are filled once a run.
 *
 * The counts belong to the plan's actors: created on the session's thread, decremented by readers on a device's
 * thread or a stream's. */
#ifndef RILLE_ACT_POISON_H
#define RILLE_ACT_POISON_H

#include "actors/act/run/engine.h"
#include "runtime/device/stream.h"

struct poison {
    int32_t *first;        /* by result: index of the first register */
    int32_t *readers;      /* by result: readers of every result stored in its registers */
    _Atomic int32_t *left; /* by register: reads still to come; decremented by readers */
};

/* Resets the counts before a run. Session's thread. */
void poison_begin(const struct run *r);
/* Fills the registers that the act will write; s NULL: at once. */
void poison_outputs(const struct run *r, int task, int piece, struct stream *s);
/* Once the work now on the stream is complete, counts the act's reads, and fills the registers that no later act
 * reads. */
void poison_inputs(const struct run *r, int task, int piece, struct stream *s);

#endif
