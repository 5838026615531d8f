/* plan_digest.h - 16-byte digests of plans, which processes compare before they run together. Pure; any thread.
 *
 * A digest detects mistakes, such as different versions of a library or different numbers of cores. A digest does
 * not detect forgery; only key holders can send programs. */
#ifndef RILLE_CLUSTER_PLAN_DIGEST_H
#define RILLE_CLUSTER_PLAN_DIGEST_H

#include "actors/plan/model/plan.h"

/* Computes the digest of those fields of a plan that must be equal in all processes, because messages name tasks and
 * registers by number. These are the fields of tasks, ports, rates, registers and their offsets, but no source lines
 * and names. */
void plan_digest(const struct plan *p, unsigned char out[16]);
/* Returns the number that names a program with these bytes. The number is equal in all processes, and never 0. */
uint64_t program_name(const void *bytes, size_t n);

#endif
