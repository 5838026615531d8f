/* plan_digest.h - 16 bytes that tell two plans apart: processes compare them before they run together. Pure; any
 * thread. It finds mistakes - another library, other cores - and no forger. */
#ifndef RILLE_CLUSTER_PLAN_DIGEST_H
#define RILLE_CLUSTER_PLAN_DIGEST_H

#include "actors/plan/plan.h"

/* Digests everything that must be equal where messages name tasks and registers by number: tasks, ports, rates,
 * registers, where they lie. Lines and names do not count. */
void plan_digest(const struct plan *p, unsigned char out[16]);
/* The name by which processes speak of a program with these bytes: equal in all of them, and not 0. */
uint64_t program_name(const void *bytes, size_t n);

#endif
