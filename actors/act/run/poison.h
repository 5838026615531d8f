/* poison.h - fills free registers with NaN, to make reads of free registers visible.
 *
 * Free registers are filled on the simulator's bus, and in tests that set run.poison. A register is filled before an
 * act writes it, to show elements that no kernel wrote. The register is filled again after its last read. The last
 * reader fills the register on the stream of its own work, before it notifies any task, because no other task can
 * own the bytes before a notification. So all registers are filled, even registers that share bytes or are written
 * once per run.
 *
 * The counts belong to the plan's actors: they are created on the session's thread, and decremented by readers on
 * the thread of a device or of a stream. */
#ifndef RILLE_ACT_POISON_H
#define RILLE_ACT_POISON_H

#include "actors/act/run/engine.h"
#include "runtime/device/stream.h"

struct poison {
    int32_t *first; /* index of the first register of each result, among the registers of all results */
    /* by result: number of reads until its register is free, of all results stored in the register */
    int32_t *readers;
    _Atomic int32_t *left; /* by register: number of reads that are still expected; decremented by readers */
};

/* Sets all read counts for a new run. Called on the session's thread. */
void poison_begin(const struct run *r);
/* Fills with NaN the registers that the act will write, as work on stream s; s NULL: at once. */
void poison_outputs(const struct run *r, int task, int piece, struct stream *s);
/* Decrements the read counts of the registers that the act reads, as work on stream s behind the act's work. Fills
 * with NaN the registers that no later act reads. s NULL: at once. */
void poison_inputs(const struct run *r, int task, int piece, struct stream *s);

#endif
