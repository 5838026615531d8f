/* verify_memory.h - proves that no two live registers share bytes. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_MEMORY_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_MEMORY_H

#include "actors/plan/verify/flow/proof.h"

int prove_memory(struct proof *v);

#endif
