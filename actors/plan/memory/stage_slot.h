/* stage_slot.h - stage slots ("rooms"): memory of a virtual stage for one micro-batch; chooses which results are
 * stored in the slots.
 *
 * A stage has as many equal slots as micro-batches may be in flight. A result with as many registers as there are
 * slots has one register in each slot. A result with fewer registers is stored in gaps of the slots or outside,
 * whichever takes fewer bytes. stage_slots_find() decides; arena.c places the slots and the other results. A
 * struct stage_slots belongs to one pass over all devices and its thread, and is in the given arena. */
#ifndef RILLE_PLAN_STAGE_SLOT_H
#define RILLE_PLAN_STAGE_SLOT_H

#include "actors/plan/outline/outline.h"

/* A result that needs memory. Positions are relative to the device's task list, so equal devices have equal items. */
struct item {
    int64_t bytes; /* size of one register, aligned */
    /* lifetime: positions in the device's task list. Positions of the first micro-batch count from 0; those of
     * the last micro-batch are one period later */
    int32_t first, last;
    int32_t asked, nreg; /* number of registers that the readers request; number allocated */
    int32_t group;       /* group of the item, as in struct pack_item (pack.h) */
    int32_t stage, phase;
    int64_t offset, stride; /* offset of the first register and distance between registers, bytes */
    bool again;             /* written for each micro-batch */
    bool fixed;             /* a move makes the item: the number of registers must stay `asked` */
    /* joins: the alternative under trial stores the item in the slots; in_room: the chosen slots store it */
    bool joins, in_room;
    /* waits: weight gradients, which may be delayed, read it; abroad: backward of another stage reads it */
    bool waits, abroad;
};
/* The slots of a stage: equal contiguous blocks, one per micro-batch in flight. */
struct room {
    int32_t nreg, first, last; /* number of slots, 0: none; lifetime of the slots as in struct item */
    /* bit mask of phases: the slots may store results of these phases even if the results have fewer registers than
     * there are slots */
    unsigned phases;
    bool weights;          /* the slot is reused only after the weight gradients of its micro-batch are done */
    int64_t bytes, offset; /* size of one slot, bytes; offset of the first slot, bytes */
};

struct stage_slots;
/* Allocates the tables for devices with at most `most` items. */
struct stage_slots *stage_slots_new(const struct outline *o, int32_t most, struct arena *a);
/* Begins a device with these items, which the caller owns, and `period` tasks per period. */
void stage_slots_begin(struct stage_slots *r, struct item *item, int32_t nitem, int32_t period);
/* Returns in *out the slots of a stage, except their offset. For the items stored in the slots, sets in_room,
 * nreg, and offset (counted from the start of the first slot). */
void stage_slots_find(struct stage_slots *r, int32_t stage, struct room *out);

#endif
