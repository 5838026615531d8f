/* faults.h - faulty actors, to show that tests of runs detect faults. A test that includes this file uses these
 * actors in place of the library's, and switches each fault on by name. */
#ifndef RILLE_T_FAULTS_H
#define RILLE_T_FAULTS_H

enum fault {
    NO_FAULT,
    NO_CREDIT,    /* an actor writes its next register even if that register is in use */
    EARLY_FREE,   /* the first reader on a thread releases the register for all readers on that thread */
    READER_COUNT, /* the expected number of readers of a register is one too low */
    /* an actor releases its inputs when its stream work is enqueued, not when the work is done; an act without a
     * stream releases its inputs before it runs */
    EARLY_BACK,
    EARLY_READ, /* an actor notifies its readers when its stream work is enqueued, not when the work is done */
    NO_EVENT,   /* a stream does not wait for another stream */
    /* the check for invalid elements, which is stream work, is read when it is enqueued, not when it is done */
    EARLY_SAY,
    NEXT_ADDRESS, /* stream work uses the register addresses of the next act */
    KEPT,         /* a register is never released */
    LOST,         /* the message about a full register on another thread is lost */

    /* Faults of open runs (open_run.c). */
    NO_ORDER,      /* streams of the next run do not wait for the previous run */
    EARLY_NUMBERS, /* live numbers of the next run are copied at once, while the previous run may still read them */

    /* Faults of accesses to memory that stream work is using. A test of these must include runtime/device/device.c,
     * too. */
    EARLY_LOOK,  /* host code reads data before it is written */
    EARLY_WRITE, /* host code overwrites data before it is read */
    EARLY_GIVE,  /* memory is freed while stream work still uses it */
};
static enum fault fault;
#define FAULT(mistake) (fault == (mistake))
#include "actors/act/run/actor.c"
#include "actors/act/run/open_run.c"

#endif
