/* promela.h - exports a plan as a Promela model for spin: threads, tokens, registers, messages, and an interrupt at
 * any moment.
 *
 * The model asserts the guarantees of the actors: no register is written before its last reader has run, all acts
 * run, every register is returned, and an interrupt stops either all updates of variables or none. Pure; any thread. */
#ifndef RILLE_PLAN_PROMELA_H
#define RILLE_PLAN_PROMELA_H

#include "actors/plan/model/plan.h"

/* Appends the model of p to s. An act completes when it begins, because the model has no streams. */
void plan_promela(const struct plan *p, struct str *s);

#endif
