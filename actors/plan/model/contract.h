/* contract.h - reads and writes the lists that the partitions of several hosts compare before a run.
 *
 * A list consists of 64-bit numbers, little-endian on every host. The contents of the lists are described in
 * channel.h and comm_ranks.h. The functions are pure and may run on any thread. */
#ifndef RILLE_PLAN_CONTRACT_H
#define RILLE_PLAN_CONTRACT_H

#include "runtime/data/str.h"

static inline void
contract_put(struct str *s, uint64_t v)
{
    char byte[8];
    for (int i = 0; i < 8; i++) byte[i] = (char)(v >> 8 * i);
    str_addn(s, byte, sizeof byte);
}

/* Returns number i of a list. The caller checks that the list is long enough. */
static inline uint64_t
contract_get(const void *list, size_t i)
{
    const unsigned char *b = (const unsigned char *)list + 8 * i;
    uint64_t v = 0;
    for (int k = 7; k >= 0; k--) v = v << 8 | b[k];
    return v;
}

#endif
