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
struct reach_options {
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
struct reach *reach_new(const struct reach_options *o);
void reach_free(struct reach **r);
/* Forgets the process of a rank; a new process may take the rank. */
void reach_forget(struct reach *r, int rank);

/* Hold (or give back) pages, store, and fetch bytes at a position. E_LOST, E_MEMORY, E_BUS. */
int reach_hold(struct reach *r, int memory, uint64_t at, size_t bytes, bool give);
int reach_store(struct reach *r, int memory, uint64_t at, const void *from, size_t bytes);
int reach_fetch(struct reach *r, int memory, uint64_t at, void *to, size_t bytes);
/* Fetches the digests (runtime/file/source.h) of at most REACH_SUMS blocks of REACH_SUM_BYTES in total. place: pairs
 * of position and bytes. */
enum { REACH_SUMS = 4096, REACH_SUM_BYTES = 4 << 20 };
int reach_digests(struct reach *r, int memory, const uint64_t *place, int n, uint64_t *out);
/* Copies bytes from one memory to another, worker to worker. */
int reach_bring(struct reach *r, int memory, uint64_t at, int source, uint64_t from, size_t bytes);

#endif
