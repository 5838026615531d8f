/* pages.h - large blocks of the host's memory, on huge pages that they share.
 *
 * Mapped by itself a block of 2.25 MiB has a huge page and 64 small ones behind it. Here blocks lie side by side in
 * regions, which are mapped whole and cost nothing where nobody wrote, so that nearly all of each lies on huge pages:
 * one fault for 2 MiB, and an entry of the TLB reaches as far. (GPT-2 124M, whose weights are of 2.25, 7 and 9 MiB,
 * writes an id in 16.3 to 16.7 ms for 17.1 on one core of an EPYC: 92 to 94 % of memory's speed for 89. Its keys and
 * values are of 384 KiB; products with them, which no cache holds any more, take 17 and 14 us for 28 and 24.) Blocks
 * smaller than a huge page have regions of their own, whose holes are as small. What is given back returns to the host
 * by huge pages. Process-wide; any thread. */
#ifndef RILLE_RUNTIME_PAGES_H
#define RILLE_RUNTIME_PAGES_H

#include "runtime/base/base.h"

enum { HUGE_PAGE = 2 << 20, REGION = 16 * HUGE_PAGE, PAGES_LEAST = 128 << 10 };

/* Returns bytes rounded up to whole pages. */
size_t pages_whole(size_t bytes);
/* Allocates memory aligned to a page, zeroed or reused; NULL: no memory. Useful only from PAGES_LEAST bytes on. */
void *pages_take(size_t bytes);
void pages_give(void *p, size_t bytes); /* bytes: as allocated */

#endif
