/* stage_slot.h - stage slots ("rooms"): a virtual stage's storage for one micro-batch, and which results are stored in
 * it.
 *
 * A stage has as many equal slots as micro-batches may be in flight. A result with that many registers has a
 * register in each slot. A result with fewer registers is stored in gaps of the slots or outside of them, as costs
 * fewer bytes. stage_slots_find() decides; arena.c places slots and the other results. A struct stage_slots belongs to
 * one pass over all devices and its thread, and is in the given arena. */
#ifndef RILLE_PLAN_STAGE_SLOT_H
#define RILLE_PLAN_STAGE_SLOT_H

#include "actors/plan/outline/outline.h"

/* A result to pack. Numbers are relative to the device, so items of equal devices are equal. */
struct item {
    int64_t bytes;       /* of one register, aligned */
    int32_t first, last; /* positions in the device's task list, from its first task of the first micro-batch */
    int32_t asked, nreg; /* registers requested by the readers; registers allocated */
    int32_t group;       /* group as in pack.h */
    int32_t stage, phase;
    int64_t offset, stride; /* bytes: offset of the first register; distance between registers */
    bool again;             /* written for each micro-batch */
    bool fixed;             /* made by a move: nreg must equal asked */
    bool joins, in_room;    /* joins: candidate for the slots under trial; in_room: stored in the slots */
    bool waits, abroad;     /* read by weight gradients, which may be delayed; by backward of other stages */
};
/* Slots of a stage: equal blocks in a row, one per micro-batch in flight. */
struct room {
    int32_t nreg, first, last; /* nreg: number of slots; 0: none */
    unsigned phases;           /* bit mask of phases: results with fewer registers than slots may join from these */
    bool late;                 /* fills gaps from the latest result backwards */
    bool weights;              /* weight gradients are done before the slot is reused */
    int64_t bytes, offset;     /* bytes of one slot; offset of the first */
};

struct stage_slots;
/* Allocates for devices with at most `most` items. */
struct stage_slots *stage_slots_new(const struct outline *o, int32_t most, struct arena *a);
/* Begins a device with these items (owned by the caller) and `period` tasks. */
void stage_slots_begin(struct stage_slots *r, struct item *item, int32_t nitem, int32_t period);
/* Returns in *out the slots of a stage, without their offset. Sets in_room, nreg and offset (from the beginning of
 * the first slot) of the items stored in them. */
void stage_slots_find(struct stage_slots *r, int32_t stage, struct room *out);

#endif
