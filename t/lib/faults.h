/* faults.h - actors that make a mistake when they are told to: a test that includes it has these, not the library's. */
#ifndef RILLE_T_FAULTS_H
#define RILLE_T_FAULTS_H

enum fault {
    NO_FAULT,
    NO_CREDIT,    /* an actor writes its next register whether it is free or not */
    EARLY_FREE,   /* the first reader of a thread gives a register back for all of them */
    READER_COUNT, /* one reader too few is counted */
    EARLY_BACK,   /* inputs are given back when work is enqueued on a stream, not when it is done; else, before it */
    EARLY_READ,   /* all readers are told when work is enqueued on a stream */
    NO_EVENT,     /* a stream does not wait for another */
    EARLY_SAY,    /* what work found in its data is asked for when it is enqueued */
    NEXT_ADDRESS, /* work on a stream has the addresses of the act after it */
    KEPT,         /* a register is not given back */
    LOST,         /* what tells of a full register on another thread does not arrive */

    /* of runs that are open (open_run.c) */
    NO_ORDER,      /* streams of the next run do not wait for those of the run before */
    EARLY_NUMBERS, /* its numbers are copied at once */

    /* of memory that work still touches: a test that includes runtime/device/device.c too */
    EARLY_LOOK,  /* host code reads what is not written yet */
    EARLY_WRITE, /* it writes what is still read */
    EARLY_GIVE,  /* memory goes back to where it came from */
};
static enum fault fault;
#define FAULT(mistake) (fault == (mistake))
#include "actors/act/run/actor.c"
#include "actors/act/run/open_run.c"

#endif
