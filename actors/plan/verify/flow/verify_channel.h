/* verify_channel.h - proves that the partitions of all hosts run to their end together. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_CHANNEL_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_CHANNEL_H

#include "actors/plan/verify/flow/proof.h"

int prove_channels(struct proof *v);

#endif
