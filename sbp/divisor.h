/* divisor.h - the greatest common divisor (inside sbp/). Pure; any thread. */
#ifndef RILLE_SBP_DIVISOR_H
#define RILLE_SBP_DIVISOR_H

#include <stdint.h>

/* Returns the greatest common divisor of two numbers >= 0; gcd(n, 0) = n. */
static inline int64_t
common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
