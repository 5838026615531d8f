/* verify_kernel.h - proves that kernels compute their nodes, and the schedule's credits. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_KERNEL_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_KERNEL_H

#include "actors/plan/verify/value/verify_value.h"

/* Returns true if two attribute values are equal. */
bool proof_same_attr(const struct attr *a, const struct attr *b);

int prove_credits(struct proof *v);
/* Proves that the task's kernel computes the task's node or chain. */
int value_kernel(struct values *s, int32_t task);

#endif
