/* remote_access.h - the controller's remote access to memories of other hosts: messages write and read values there.
 *
 * Requests go to the first worker of a host on a link of its own, in pieces of 1 MiB, several in flight. The
 * controller waits for the answers, so written bytes are in place before its next packet. For a copy from one host
 * to another, the destination's worker asks a worker of the source host, and answers when the bytes have arrived.
 * Any thread; one request at a time. */
#ifndef RILLE_CLUSTER_REMOTE_ACCESS_H
#define RILLE_CLUSTER_REMOTE_ACCESS_H

#include "actors/cluster/coordinator/coordinator.h"
#include "actors/cluster/wire/link.h"

struct reach;
struct remote_access_options {
    struct link *link; /* its bulk socket is used only here */
    const unsigned char *job;
    int world;
    void *of;
    /* Returns the rank that answers for a memory now; -1 after fail(E_LOST): none. Any thread. */
    int (*keeper)(void *of, int memory);
    /* Returns E_LOST, naming the lost worker, if the epoch is broken: workers that have not met cannot meet before
     * the next epoch. Any thread. */
    int (*broken)(void *of);
};
struct reach *remote_access_new(const struct remote_access_options *o);
void remote_access_free(struct reach **r);
/* Forgets the process of a rank; a new process may take the rank. */
void remote_access_forget(struct reach *r, int rank);

/* Allocate (or free) pages at a position, store bytes there, or fetch them. E_LOST, E_MEMORY, E_BUS. */
int remote_access_hold(struct reach *r, int memory, uint64_t at, size_t bytes, bool give);
int remote_access_store(struct reach *r, int memory, uint64_t at, const void *from, size_t bytes);
int remote_access_fetch(struct reach *r, int memory, uint64_t at, void *to, size_t bytes);
/* Fetches the digests (runtime/file/source.h) of at most REMOTE_ACCESS_DIGESTS blocks of REMOTE_ACCESS_DIGEST_BYTES in
 * total. place: pairs of position and bytes. */
enum { REMOTE_ACCESS_DIGESTS = 4096, REMOTE_ACCESS_DIGEST_BYTES = 4 << 20 };
int remote_access_digests(struct reach *r, int memory, const uint64_t *place, int n, uint64_t *out);
/* Copies bytes from one memory to another, worker to worker. */
int remote_access_copy(struct reach *r, int memory, uint64_t at, int source, uint64_t from, size_t bytes);

#endif
