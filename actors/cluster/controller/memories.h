/* memories.h - the controller's view of the memories of all hosts. Called on the session's thread. */
#ifndef RILLE_CLUSTER_CONTROLLER_MEMORIES_H
#define RILLE_CLUSTER_CONTROLLER_MEMORIES_H

#include "actors/cluster/controller/controller_inner.h"

/* Begins the next epoch: fills the cluster's tables at the first call, makes the bus, and calls coordinator_form().
 * Every rank must be present. The caller holds the lock. E_ARG, E_PLACE, E_MEMORY. */
int control_begin(struct cluster *c);
/* Allocates the pages of all values again, in memories that were lost and made again in this epoch. The caller holds
 * the lock; the function releases the lock meanwhile. */
int control_renew(struct cluster *c);
/* Checks the devices of workers that an earlier coordinator left. E_PLACE: a worker does not have the devices that
 * are requested now. The caller holds the lock. */
int control_check_kept(const struct cluster *c);
void control_free(struct cluster *c);
/* Returns E_LOST if the cluster's epoch is over, else 0. Serves as remote_access_options.broken; of: a struct
 * cluster. */
int control_broken(void *of);

/* Returns the number of devices of each kind in the cluster. Device numbers continue from worker to worker. */
const struct device_counts *cluster_devices(const struct cluster *c);
/* Describes the GPU of a cuda device in *out, as the device's worker reported it. Appends the description of the
 * worker's kernel compiler to `kernels`. E_PLACE: no such device; E_LOST: the device's worker is lost. */
int cluster_gpu(struct cluster *c, int device, struct cuda_gpu *out, struct str *kernels);
/* Returns the map of devices and slots (device threads) from which a host's plan partition is compiled. memory:
 * number of the host's memory. */
const struct plan_map *cluster_map(const struct cluster *c, int memory);
int cluster_memories(const struct cluster *c);
/* Returns the memory (one per host) for which the session compiles its plan partition: that of this host if it has
 * workers, else memory 0. */
int cluster_home(const struct cluster *c);
/* Returns the number of the memory (one per host) that holds the values of a device. */
int cluster_memory_of(const struct cluster *c, int kind, int device);
/* Returns the number of the device's thread in plans of this host (cluster_home); -1: the device is on another
 * host. */
int cluster_thread_of(const struct cluster *c, int kind, int device);
/* Sets *out to the position (position.h) of address p in the device's pool; to POSITION_NONE if p is NULL. E_STATE:
 * p is outside the pool. */
int cluster_position(const struct cluster *c, int kind, int device, const void *p, uint64_t *out);
/* Fills *out with functions that allocate, read and write the bytes of a device's pool. For a device of another
 * host, these functions send messages; they may be called on any thread, and fail with E_LOST if a worker is lost. */
void cluster_source(struct cluster *c, int kind, int device, struct pool_source *out);

/* Fetches the digests (runtime/file/disk/source.h) of n blocks in another host's memory. place: for each block, a pair
 * of its position and its size in bytes. Any thread. E_LOST. */
int cluster_digests(struct cluster *c, int memory, const uint64_t *place, int n, uint64_t *out);

/* Returns the version of the tables that assign devices to memories and threads. It changes with the tables. Plans
 * made for another version are invalid. */
uint32_t cluster_table(const struct cluster *c);

#endif
