/* plan_digest.h - 16-byte digests of plans, which processes compare before they run together. Pure; any thread.
 * Detects mistakes, like another library or another number of cores, but no forgery. */
#ifndef RILLE_CLUSTER_PLAN_DIGEST_H
#define RILLE_CLUSTER_PLAN_DIGEST_H

#include "actors/plan/model/plan.h"

/* Digests everything that must be equal because messages name tasks and registers by number: tasks, ports, rates,
 * registers and their offsets. Lines and names are left out. */
void plan_digest(const struct plan *p, unsigned char out[16]);
/* Returns the name of a program with these bytes: equal in all processes, never 0. */
uint64_t program_name(const void *bytes, size_t n);

#endif
