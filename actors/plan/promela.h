/* promela.h - a plan as a model for spin: its threads, tokens, registers, messages, and an interrupt at any moment.
 *
 * What the model asserts is what actors rely on: nobody writes a register while an act that reads it is still to come,
 * all acts happen, every register comes back, and an interrupt stops either all updates of variables or none. Pure; any
 * thread. */
#ifndef RILLE_PLAN_PROMELA_H
#define RILLE_PLAN_PROMELA_H

#include "actors/plan/plan.h"

/* Appends the model of p to s; p does its work as it begins it (no streams). */
void plan_promela(const struct plan *p, struct str *s);

#endif
