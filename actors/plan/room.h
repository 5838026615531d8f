/* room.h - what a virtual stage keeps of a piece: rooms, as many alike as pieces may be under way, and who has a place
 * in each of them.
 *
 * What has as many registers as there are rooms has one in each; what has fewer may, in what has become free there, or
 * lies beside them all, as takes less. rooms_find() decides; where rooms and the rest lie is arena.c's. A struct rooms
 * belongs to one pass over all devices and its thread; it is in the arena given. */
#ifndef RILLE_PLAN_ROOM_H
#define RILLE_PLAN_ROOM_H

#include "actors/plan/outline.h"

/* A tenant as packing sees it: numbers of its device alone, so that those of like devices are equal. */
struct item {
    int64_t bytes;       /* of a register, aligned */
    int32_t first, last; /* positions among the device's tasks, from the first of the first piece on */
    int32_t asked, nreg; /* registers that its readers ask for, and those that it has */
    int32_t group;       /* as pack.h has it */
    int32_t stage, phase;
    int64_t offset, stride; /* of the first register; from one to the next */
    bool again;             /* it is written for each piece */
    bool fixed;             /* a move made it, which has as many registers as are asked for */
    bool joins, in_room;    /* it would have a place in each room; it has */
    bool waits, abroad;     /* weight gradients have it, and may wait; backward of another stage reads it */
};
/* What one stage keeps of a piece: as many alike, one after the other, as pieces may be under way. */
struct room {
    int32_t nreg, first, last; /* nreg 0: there is none */
    unsigned phases;           /* whose items of fewer registers may have a place in each */
    bool late;                 /* the last of these in time come first, and fill what is free */
    bool weights;              /* weight gradients have left when the next piece has it */
    int64_t bytes, offset;     /* of one; of the first */
};

struct rooms;
/* For devices of so many items at most. */
struct rooms *rooms_new(const struct outline *o, int32_t most, struct arena *a);
/* Of a device that has `period` tasks, these items; they are the caller's. */
void rooms_begin(struct rooms *r, struct item *item, int32_t nitem, int32_t period);
/* Gives the rooms of a stage, but for where they lie; its items that are in them have their registers, and offsets from
 * the beginning of the first room. */
void rooms_find(struct rooms *r, int32_t stage, struct room *out);

#endif
