/* poison.h - registers that hold nothing are filled with NaN, so that who reads them is seen.
 *
 * On the simulator's bus, and where tests ask for it (run.poison). A register is filled before the act that writes it
 * does, so that what nobody wrote is seen, and when the last who reads it has: by the reader, on the stream of its
 * work, before anybody hears of that, so that nobody has the bytes yet who has them next. So all registers are filled,
 * also those that share bytes with others and those that are filled once a run.
 *
 * Counts belong to the plan's actors: the session's thread makes them, whoever reads, a device's thread or one of its
 * streams', counts down. */
#ifndef RILLE_ACT_POISON_H
#define RILLE_ACT_POISON_H

#include "actors/act/engine.h"
#include "runtime/stream.h"

struct poison {
    int32_t *first;        /* by result: its first register among all */
    int32_t *readers;      /* by result: of all that lies in its registers */
    _Atomic int32_t *left; /* by register: reads that are still to come; whoever reads */
};

/* Before a run, on the session's thread: nothing has been read. */
void poison_begin(const struct run *r);
/* Fills what the act is to write; s NULL: now. */
void poison_outputs(const struct run *r, int task, int piece, struct stream *s);
/* The act has read its inputs when what is on the stream now is done: fills those that nobody else still reads. */
void poison_inputs(const struct run *r, int task, int piece, struct stream *s);

#endif
