/* communicator.c - computes the name of a communicator, a digest of its fields. */
#include "runtime/device/communicator.h"

#include "runtime/data/hash.h"

uint64_t
communicator_name(int kind, bool edge, int32_t n, const int32_t *device)
{
    struct digest d = DIGEST_BEGIN;
    digest_add(&d, (uint64_t)kind << 1 | edge);
    for (int32_t i = 0; i < n; i++) digest_add(&d, (uint64_t)device[i]);
    return hash_number(d.a, d.b);
}
