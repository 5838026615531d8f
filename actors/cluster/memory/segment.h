/* segment.h - memory that the processes of one host share; the values of the cluster's devices are stored there.
 *
 * The controller makes a segment and allocates its bytes. The segment is a memory file (system.h), which Linux frees
 * with the last process that maps it. Workers open the segment by the path that the controller sends, and map all of
 * its bytes. An offset has the same meaning in every process, so a process reads in place what another process wrote.
 * segment_take() allocates the pages at once, so a lack of memory is E_MEMORY at the allocating line, not a signal
 * later.
 *
 * For a segment of another host, the controller keeps the list of allocations and an address range without memory:
 * offsets are valid there, but an access faults. Only the controller's session thread allocates and frees bytes of
 * segments. */
#ifndef RILLE_CLUSTER_SEGMENT_H
#define RILLE_CLUSTER_SEGMENT_H

#include "runtime/base/base.h"
#include "runtime/base/system.h"

struct segment;
/* SEGMENT_HEAD: size of the segment's first page, bytes, which is never allocated (kept.h) */
enum { SEGMENT_PATH = SYSTEM_NAME, SEGMENT_HEAD = 4096 };

/* Makes a segment. bytes: size of the address range, whose pages are allocated by segment_take(). E_MEMORY. */
int segment_new(size_t bytes, struct segment **out);
/* Opens a segment by path. E_MEMORY; E_IO: the file is missing, is no segment, or does not have `bytes` bytes. */
int segment_open(const char *path, size_t bytes, struct segment **out);
/* Makes the controller's view of another host's segment. hold: allocates pages on that host or, if give is true,
 * frees them; returns 0 or the error. E_MEMORY. */
struct segment_far {
    void *of;
    int (*hold)(void *of, size_t at, size_t bytes, bool give);
};
int segment_far(size_t bytes, const struct segment_far *far, struct segment **out);
void segment_free(struct segment **s);
/* Allocates the pages of all allocated ranges again, because the other host's segment was replaced by a new one. */
int segment_renew(struct segment *s);

/* Allocates pages for a range of the segment or, if give is true, frees them. The list of allocations is not
 * changed. E_MEMORY. */
int segment_hold(struct segment *s, size_t at, size_t bytes, bool give);
void segment_path(const struct segment *s, char path[SEGMENT_PATH]);
size_t segment_bytes(const struct segment *s);
char *segment_base(const struct segment *s);

/* Allocates bytes at a multiple of 64; new pages are zero. NULL: no free range in the segment is large enough, or
 * the host has no memory. */
void *segment_take(struct segment *s, size_t bytes);
void segment_give(struct segment *s, void *p);
/* Returns the number of allocated bytes. Tests call it to find leaks: freed cells keep their chunk, so a large
 * allocation does not show them. */
size_t segment_used(const struct segment *s);

#endif
