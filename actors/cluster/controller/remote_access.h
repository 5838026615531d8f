/* remote_access.h - the controller's access to memories of other hosts: values are read and written by messages.
 *
 * Requests are sent to the first worker of a host, on the link for values, in packets of 1 MiB; several packets are
 * in flight. The controller waits for the answers, so written bytes are in place before the controller's next
 * packet. For a copy from one host to another, the worker of the destination asks a worker of the source host, and
 * answers when the bytes have arrived. Any thread; one request at a time. */
#ifndef RILLE_CLUSTER_REMOTE_ACCESS_H
#define RILLE_CLUSTER_REMOTE_ACCESS_H

#include "actors/cluster/coordinator/coordinator.h"
#include "actors/cluster/wire/link.h"

struct reach;
struct remote_access_options {
    struct link *link; /* link to the workers; no other file uses the link's bulk socket */
    const unsigned char *job;
    int world;
    void *of;
    /* Returns the rank that answers for a memory at present. Without such a rank, returns -1 and sets the error
     * E_LOST. Any thread. */
    int (*keeper)(void *of, int memory);
    /* Returns E_LOST, with a text that names the lost worker, if the epoch is over; otherwise 0. After the end of an
     * epoch, workers that are not connected yet cannot connect before the next epoch. Any thread. */
    int (*broken)(void *of);
    int64_t deadline_ns; /* time without an answer after which a worker is lost, ns; 0: no limit */
    /* time limit for a connection on which nothing arrives, ns; after half of it a new one is made */
    int64_t link_ns;
    /* Makes a worker replace the connection of its link for values. Any thread. */
    void (*connect)(void *of, int rank);
    /* Declares a worker lost because it did not answer, or its answer makes no sense. Any thread. */
    void (*lose)(void *of, int rank, const char *how);
};
struct reach *remote_access_new(const struct remote_access_options *o);
void remote_access_free(struct reach **r);
/* Forgets the connection to a rank whose process is lost, because a new process may get the rank. */
void remote_access_forget(struct reach *r, int rank);

/* remote_access_hold allocates pages at a position or, if give is true, frees them. remote_access_store writes bytes
 * to a position. remote_access_fetch reads bytes. E_LOST, E_MEMORY, E_BUS. */
int remote_access_hold(struct reach *r, int memory, uint64_t at, size_t bytes, bool give);
int remote_access_store(struct reach *r, int memory, uint64_t at, const void *from, size_t bytes);
int remote_access_fetch(struct reach *r, int memory, uint64_t at, void *to, size_t bytes);
/* Reads bytes of a memory that worker `rank` keeps from an earlier controller. flags: 0: of the latest such controller;
 * FETCH_OLDER: of the one before; FETCH_PATH: instead, KEPT_PATH bytes with path and size of the memory. E_LOST: the
 * worker was lost. E_BUS: it keeps no such bytes. */
int remote_access_fetch_kept(struct reach *r, int rank, uint32_t flags, uint64_t at, void *to, size_t bytes);
/* Makes worker `rank` free the memory that it keeps from an earlier controller; all false: only the memory that no
 * snapshot needs. E_LOST. */
int remote_access_hold_kept(struct reach *r, int rank, bool all);
/* Fetches the digests (runtime/file/disk/source.h) of at most REMOTE_ACCESS_DIGESTS blocks with at most
 * REMOTE_ACCESS_DIGEST_BYTES in total. place: for each block, a pair of its position and its size in bytes. */
enum { REMOTE_ACCESS_DIGESTS = 4096, REMOTE_ACCESS_DIGEST_BYTES = 4 << 20 };
int remote_access_digests(struct reach *r, int memory, const uint64_t *place, int n, uint64_t *out);
/* Copies bytes from position `from` of memory `source` to position `at` of another memory, directly between their
 * workers. */
int remote_access_copy(struct reach *r, int memory, uint64_t at, int source, uint64_t from, size_t bytes);

#endif
