/* faults.h - actors with faults that a test switches on. A test that includes this file replaces the library's
 * actors. */
#ifndef RILLE_T_FAULTS_H
#define RILLE_T_FAULTS_H

enum fault {
    NO_FAULT,
    NO_CREDIT,    /* an actor writes its next register even if it is in use */
    EARLY_FREE,   /* the first reader on a thread releases a register for all readers of the thread */
    READER_COUNT, /* the count of readers is one too low */
    EARLY_BACK,   /* inputs are released when stream work is enqueued, not when it is done; without a stream: before the
                     act */
    EARLY_READ,   /* all readers are notified when work is enqueued on a stream */
    NO_EVENT,     /* a stream does not wait for another stream */
    EARLY_SAY,    /* findings of work are read when the work is enqueued */
    NEXT_ADDRESS, /* work on a stream gets the addresses of the next act */
    KEPT,         /* a register is never released */
    LOST,         /* the message about a full register on another thread is lost */

    /* Faults of open runs (open_run.c). */
    NO_ORDER,      /* streams of the next run do not wait for the previous run */
    EARLY_NUMBERS, /* numbers of the next run are copied at once */

    /* Faults of memory that work still uses; the test must include runtime/device/device.c, too. */
    EARLY_LOOK,  /* host code reads data before it is written */
    EARLY_WRITE, /* host code overwrites data before it is read */
    EARLY_GIVE,  /* memory is freed too early */
};
static enum fault fault;
#define FAULT(mistake) (fault == (mistake))
#include "actors/act/run/actor.c"
#include "actors/act/run/open_run.c"

#endif
