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
};
static enum fault fault;
#define FAULT(mistake) (fault == (mistake))
#include "actors/act/actor.c"

#endif
