/* verify_sync.h - proves that every edge means "happens before", whatever the streams. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_SYNC_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_SYNC_H

#include "actors/plan/verify/flow/proof.h"

int prove_syncs(struct proof *v);

#endif
