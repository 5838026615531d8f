/* segment.h - memory that the processes of one host share: the devices of a cluster lie in it.
 *
 * The controller makes a segment (a memfd: it has no name anywhere, and is gone with the last process that maps it) and
 * says who has which bytes; workers open it by the path that it tells them and map it whole. So an address is an
 * offset, the same in every process, and each reads bytes in place whoever wrote them. segment_take() asks for pages
 * and segment_give() gives them back: E_MEMORY comes at the line that wanted them, not as a signal later.
 *
 * Of a segment of another host the controller has the list of who has which bytes, and a range of addresses behind
 * which nothing lies: an offset is the same there, and who touches it here faults.
 *
 * Taking and giving back: the controller's session thread alone. */
#ifndef RILLE_CLUSTER_SEGMENT_H
#define RILLE_CLUSTER_SEGMENT_H

#include "runtime/base.h"

struct segment;
enum { SEGMENT_PATH = 64 };

/* bytes: address space; pages come as segment_take() wants them. E_MEMORY. */
int segment_new(size_t bytes, struct segment **out);
/* Opens it by the path that its maker told. E_MEMORY, E_IO: it is not there, is no such memory or not so large. */
int segment_open(const char *path, size_t bytes, struct segment **out);
/* Makes that of another host. hold: asks for pages there, or gives them back; non-zero: there are none. E_MEMORY. */
struct segment_far {
    void *of;
    int (*hold)(void *of, size_t at, size_t bytes, bool give);
};
int segment_far(size_t bytes, const struct segment_far *far, struct segment **out);
void segment_free(struct segment **s);
/* Asks anew for the pages of all that was taken of a segment of another host, where nothing of it is any more. */
int segment_renew(struct segment *s);

/* Asks for pages of a segment here, or gives them back, for who has its list; they lie in it. E_MEMORY. */
int segment_hold(struct segment *s, size_t at, size_t bytes, bool give);
void segment_path(const struct segment *s, char path[SEGMENT_PATH]);
size_t segment_bytes(const struct segment *s);
char *segment_base(const struct segment *s);

/* 64-byte aligned, zeroed when fresh; NULL when there is no room or the host has no more. */
void *segment_take(struct segment *s, size_t bytes);
void segment_give(struct segment *s, void *p);
size_t segment_used(const struct segment *s); /* bytes taken */

#endif
