/* verify_shared_shard.h - proves registers that several ranks fill together. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_SHARED_SHARD_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_SHARED_SHARD_H

#include "actors/plan/verify/value/verify_value.h"

int value_fill(struct values *s, int32_t task);
int value_join(struct values *s, int32_t task);

#endif
