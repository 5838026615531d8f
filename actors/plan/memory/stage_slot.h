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

/* The memory of a result's registers. Positions are relative to the device's task list, so equal devices have equal
 * items. */
struct item {
    int64_t bytes; /* size of one register, aligned */
    /* lifetime: first and last position in the device's task list. Positions of the first micro-batch count from 0;
     * those of the last micro-batch are one period (the length of the task list) later */
    int32_t first, last;
    int32_t asked, nreg; /* asked: number of registers that the readers request; nreg: number allocated */
    int32_t group;       /* group of items that share bytes within a period (pack.h); 0: none */
    int32_t stage, phase;
    int64_t offset, stride; /* offset of the first register and distance between registers, bytes */
    bool again;             /* written for each micro-batch */
    bool fixed;             /* true: a move makes the result, so its number of registers must remain `asked` */
    /* joins: true if the alternative under trial stores the item in the slots; in_room: true if the chosen slots
     * store it */
    bool joins, in_room;
    /* waits: true if weight gradients, which may be delayed, read the result; abroad: true if backward of another
     * stage reads it */
    bool waits, abroad;
};
/* The slots of a stage: equal contiguous blocks, one per micro-batch in flight. */
struct room {
    /* number of slots, 0: none; first and last position at which the slots are in use (struct item) */
    int32_t nreg, first, last;
    /* bit mask of phases, for results with fewer registers than there are slots: the slots may store results of
     * these phases */
    unsigned phases;
    bool weights;          /* true: a slot is reused only after the weight gradients of its micro-batch are done */
    int64_t bytes, offset; /* size of one slot, bytes; offset of the first slot, bytes */
};

struct stage_slots;
/* Allocates the tables for devices with at most `most` items. */
struct stage_slots *stage_slots_new(const struct outline *o, int32_t most, struct arena *a);
/* Begins a device: sets its items, which the caller owns, and the period, which is the number of the device's
 * tasks. */
void stage_slots_begin(struct stage_slots *r, struct item *item, int32_t nitem, int32_t period);
/* Chooses the slots of a stage and returns them in *out, except their offset. Sets in_room, nreg and offset of the
 * items stored in the slots; the offset counts from the start of the first slot. */
void stage_slots_find(struct stage_slots *r, int32_t stage, struct room *out);

#endif
