/* pages.h - large blocks of the host's memory, on huge pages that they share.
 *
 * A block of 2.25 MiB with a mapping of its own has one huge page and 64 small pages behind it. Here blocks are
 * adjacent in regions. A region is mapped as one, and costs nothing where nobody has written, so nearly all of each
 * block is on huge pages: one fault per 2 MiB, and one TLB entry per 2 MiB.
 *
 * On one core of an EPYC, GPT-2 124M (weights of 2.25, 7 and 9 MiB) generates an id in 16.3 to 16.7 ms instead of
 * 17.1. Products with its keys and values (384 KiB each, out of the caches) take 17 and 14 us instead of 28 and 24.
 *
 * Blocks smaller than a huge page have regions of their own, so that their holes are reused by blocks of that size.
 * Freed memory returns to the host by huge pages. Process-wide; any thread. */
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
