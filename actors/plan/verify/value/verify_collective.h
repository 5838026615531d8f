/* verify_collective.h - proves that library collectives compute the program's moves. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_COLLECTIVE_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_COLLECTIVE_H

#include "actors/plan/verify/value/verify_value.h"

int value_collect(struct values *s, int32_t task);

#endif
