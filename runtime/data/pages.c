/* pages.c - manages regions of huge pages and their free ranges.
 *
 * A block is allocated from the first free range that is large enough; a freed range is merged with its
 * neighbours. A region without blocks is returned to the system. In other regions, each huge page without a block
 * is returned. A new region has the size of all regions together, so that few regions have an end in which no
 * block fits. */
#include "runtime/data/pages.h"

#include "runtime/data/arena.h"
#include "runtime/base/limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct range {
    char *at;
    size_t bytes;
};

struct region {
    struct range all;
    bool small;         /* true: the region is for blocks smaller than a huge page */
    struct range *free; /* free ranges in order of address; no two are adjacent */
    int nfree, capacity;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static struct region *region;
static int nregion, region_capacity;
static size_t taken;  /* total size of all blocks, bytes */
static size_t mapped; /* total size of all regions, bytes */

size_t
pages_whole(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Allocates system memory aligned to a huge page. */
static void *
map_huge(size_t bytes)
{
    char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(p, before);
    munmap(p + before + bytes, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    madvise(p + before, bytes, MADV_HUGEPAGE);
#endif
    return p + before;
}

static void
insert_range(struct region *r, int i, struct range range)
{
    GROW(r->free, r->nfree + 1, r->capacity);
    memmove(r->free + i + 1, r->free + i, sizeof range * (size_t)(r->nfree - i));
    r->free[i] = range;
    r->nfree++;
}

static void
remove_range(struct region *r, int i)
{
    r->nfree--;
    memmove(r->free + i, r->free + i + 1, sizeof *r->free * (size_t)(r->nfree - i));
}

/* ---- allocating blocks ---- */

static void *
cut_from_region(struct region *r, size_t bytes)
{
    for (int i = 0; i < r->nfree; i++) {
        struct range *f = &r->free[i];
        if (f->bytes < bytes) continue;
        char *p = f->at;
        *f = (struct range){f->at + bytes, f->bytes - bytes};
        if (!f->bytes) remove_range(r, i);
        return p;
    }
    return NULL;
}

static struct region *
region_new(size_t bytes, bool small)
{
    char *at = map_huge(bytes);
    if (!at) return NULL;
    GROW(region, nregion + 1, region_capacity);
    struct region *r = &region[nregion++];
    *r = (struct region){.all = {at, bytes}, .small = small};
    insert_range(r, 0, r->all);
    mapped += bytes;
    return r;
}

static void *
take_region(size_t bytes)
{
    bool small = bytes < HUGE_PAGE;
    for (int i = 0; i < nregion; i++) {
        void *p = region[i].small != small ? NULL : cut_from_region(&region[i], bytes);
        if (p) return p;
    }
    size_t usual = MAX(mapped, (size_t)REGION);
    struct region *r = region_new(MAX(bytes, usual), small);
    if (!r && bytes < usual) r = region_new(bytes, small);
    return r ? cut_from_region(r, bytes) : NULL;
}

void *
pages_take(size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    pthread_mutex_lock(&lock);
    bytes = pages_whole(bytes);
    void *p = limits_fits(taken, bytes) ? take_region(bytes) : NULL;
    taken += p ? bytes : 0;
    pthread_mutex_unlock(&lock);
    return p;
}

/* ---- freeing blocks ---- */

/* Adds a range to the free list, and returns the merged free range that contains it. */
static struct range
merge_free_ranges(struct region *r, struct range given)
{
    int i = 0;
    while (i < r->nfree && r->free[i].at < given.at) i++;
    if (i < r->nfree && given.at + given.bytes == r->free[i].at) {
        given.bytes += r->free[i].bytes;
        remove_range(r, i);
    }
    if (i > 0 && r->free[i - 1].at + r->free[i - 1].bytes == given.at) {
        i--;
        given = (struct range){r->free[i].at, r->free[i].bytes + given.bytes};
        remove_range(r, i);
    }
    insert_range(r, i, given);
    return given;
}

/* Returns huge pages in free range f to the system: the pages on which the freed range `given` was the last block. */
static void
forget_pages(const struct region *r, struct range f, struct range given)
{
    size_t at = (size_t)(f.at - r->all.at), end = at + f.bytes;
    size_t from = (size_t)(given.at - r->all.at) / HUGE_PAGE * HUGE_PAGE,
           to = (size_t)(given.at - r->all.at) + given.bytes;
    if (from < at) from += HUGE_PAGE;
    to = (to + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (to > end) to = end / HUGE_PAGE * HUGE_PAGE;
    if (from < to) madvise(r->all.at + from, to - from, MADV_DONTNEED);
}

static void
region_free(struct region *r)
{
    munmap(r->all.at, r->all.bytes);
    mapped -= r->all.bytes;
    free(r->free);
    memmove(r, r + 1, sizeof *r * (size_t)(region + --nregion - r));
}

static void
give_region(struct range given)
{
    struct region *r = region;
    while (r < region + nregion && (size_t)(given.at - r->all.at) >= r->all.bytes) r++;
    assert(r < region + nregion);
    struct range f = merge_free_ranges(r, given);
    if (f.bytes == r->all.bytes)
        region_free(r);
    else
        forget_pages(r, f, given);
}

void
pages_give(void *p, size_t bytes)
{
    pthread_mutex_lock(&lock);
    taken -= pages_whole(bytes);
    give_region((struct range){p, pages_whole(bytes)});
    pthread_mutex_unlock(&lock);
}
