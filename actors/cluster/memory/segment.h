/* segment.h - memory shared by the processes of one host; contains the memories of a cluster's devices.
 *
 * The controller makes a segment (a memfd: nameless, and freed with the last process that maps it) and allocates its
 * bytes; workers open it by the path that the controller sends, and map all of it. An offset has the same meaning in
 * every process, so a process reads in place what another wrote. segment_take() allocates pages and segment_give()
 * frees them: a lack of memory is E_MEMORY at the allocating line, not a signal later.
 *
 * Of another host's segment the controller has the list of allocations, and an address range without memory: offsets
 * are valid there, and an access here faults.
 *
 * Only the controller's session thread allocates and frees. */
#ifndef RILLE_CLUSTER_SEGMENT_H
#define RILLE_CLUSTER_SEGMENT_H

#include "runtime/base/base.h"

struct segment;
enum { SEGMENT_PATH = 64 };

/* Makes a segment. bytes: address space; segment_take() allocates the pages. E_MEMORY. */
int segment_new(size_t bytes, struct segment **out);
/* Opens a segment by path. E_MEMORY; E_IO: missing, wrong kind of file, or wrong size. */
int segment_open(const char *path, size_t bytes, struct segment **out);
/* Makes the controller's view of another host's segment. hold: allocates or frees pages on that host; non-zero: no
 * memory. E_MEMORY. */
struct segment_far {
    void *of;
    int (*hold)(void *of, size_t at, size_t bytes, bool give);
};
int segment_far(size_t bytes, const struct segment_far *far, struct segment **out);
void segment_free(struct segment **s);
/* Allocates the pages of all taken ranges once more, because the other host's segment was replaced by a fresh one. */
int segment_renew(struct segment *s);

/* Allocates or frees pages of a range inside the segment, for the process that keeps its list of allocations.
 * E_MEMORY. */
int segment_hold(struct segment *s, size_t at, size_t bytes, bool give);
void segment_path(const struct segment *s, char path[SEGMENT_PATH]);
size_t segment_bytes(const struct segment *s);
char *segment_base(const struct segment *s);

/* Allocates bytes: 64-byte aligned; fresh pages are zero. NULL: no space in the segment, or no memory on the host. */
void *segment_take(struct segment *s, size_t bytes);
void segment_give(struct segment *s, void *p);
size_t segment_used(const struct segment *s); /* allocated bytes */

#endif
