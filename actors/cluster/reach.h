/* reach.h - the controller's hand on memories of other hosts: messages write and read values there.
 *
 * It asks the first worker of a host, piece by piece of 1 MiB with a few on their way, on a link of its own, and waits
 * for the answers: so what it wrote is there before the controller says anything else. What goes from one host to
 * another the worker there asks one of the other host for, and answers when it is there. Any thread; one at a time. */
#ifndef RILLE_CLUSTER_REACH_H
#define RILLE_CLUSTER_REACH_H

#include "actors/cluster/coordinator.h"
#include "actors/cluster/link.h"

struct reach;
struct reach_options {
    struct link *link; /* whose socket for values is this one's alone */
    const unsigned char *job;
    int world;
    void *of;
    /* Which rank answers for a memory now; -1 after fail(E_LOST): nobody. Any thread. */
    int (*keeper)(void *of, int memory);
    /* Did the epoch end, so that workers who have not met will not before the next one? E_LOST says of whom. Any
     * thread. */
    int (*broken)(void *of);
};
struct reach *reach_new(const struct reach_options *o);
void reach_free(struct reach **r);
/* Forgets the process of a rank: it is another one from now on. */
void reach_forget(struct reach *r, int rank);

/* E_LOST, E_MEMORY, E_BUS. */
int reach_hold(struct reach *r, int memory, uint64_t at, size_t bytes, bool give);
int reach_store(struct reach *r, int memory, uint64_t at, const void *from, size_t bytes);
int reach_fetch(struct reach *r, int memory, uint64_t at, void *to, size_t bytes);
/* The digests of n blocks (runtime/file/source.h), of so many bytes in all; place: where each begins, its bytes. */
enum { REACH_SUMS = 4096, REACH_SUM_BYTES = 4 << 20 };
int reach_digests(struct reach *r, int memory, const uint64_t *place, int n, uint64_t *out);
/* From one memory to another, worker to worker. */
int reach_bring(struct reach *r, int memory, uint64_t at, int source, uint64_t from, size_t bytes);

#endif
