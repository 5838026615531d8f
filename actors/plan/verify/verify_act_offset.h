/* verify_act_offset.h - proves that live registers at per-act offsets share no bytes. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_ACT_OFFSET_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_ACT_OFFSET_H

#include "actors/plan/verify/flow/proof.h"

/* Proves that live results do not overlap on devices that have results with per-act offsets.
 * Sets has[device] for these devices; has[] must be false before. */
int prove_act_offsets(struct proof *v, bool *has);

#endif
