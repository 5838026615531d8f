/* contract.h - lists that parts of several memories compare before they run: numbers of 64 bits, least byte first, so
 * that they are the same on every host. channel.h and seats.h say what is in them. Pure; any thread. */
#ifndef RILLE_PLAN_CONTRACT_H
#define RILLE_PLAN_CONTRACT_H

#include "runtime/str.h"

static inline void
contract_put(struct str *s, uint64_t v)
{
    char byte[8];
    for (int i = 0; i < 8; i++) byte[i] = (char)(v >> 8 * i);
    str_addn(s, byte, sizeof byte);
}

/* Number i of a list that is long enough. */
static inline uint64_t
contract_get(const void *list, size_t i)
{
    const unsigned char *b = (const unsigned char *)list + 8 * i;
    uint64_t v = 0;
    for (int k = 7; k >= 0; k--) v = v << 8 | b[k];
    return v;
}

#endif
