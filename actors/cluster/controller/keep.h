/* keep.h - stores descriptions of snapshots with the workers, and finds earlier ones. Session's thread. */
#ifndef RILLE_ACTORS_CLUSTER_CONTROLLER_KEEP_H
#define RILLE_ACTORS_CLUSTER_CONTROLLER_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster;
struct kept_range;
struct str;

/* Returns true if a worker of the job outlives the controller, so that the next controller can find snapshots. */
bool cluster_keeps(struct cluster *c);
/* Returns true if a present worker has served an earlier controller. */
bool cluster_took_over(struct cluster *c);
/* Stores the description of a snapshot in the memory of each host. range: by memory, the bytes that the snapshot needs
 * there. number: larger than that of the snapshot before, whose bytes may be freed after this call. E_LOST, E_MEMORY.
 */
struct kept_ranges {
    struct kept_range *range;
    int n, capacity;
};
int cluster_keep(struct cluster *c, uint64_t number, const struct kept_ranges *ranges, const struct str *text);
/* Finds the latest snapshot that workers keep from an earlier controller, and makes them free other memory of that
 * controller. Sets *number to its number and *text to its text; *number 0: there is none. Later snapshots need larger
 * numbers. E_LOST. */
int cluster_kept(struct cluster *c, uint64_t *number, struct str *text);
/* Reads bytes of that snapshot. memory: number of the host's memory in the job that took it. E_LOST: no worker keeps
 * this memory. */
int cluster_kept_read(struct cluster *c, int memory, uint64_t at, void *to, size_t bytes);
/* Makes the workers free the snapshots of earlier controllers. E_LOST. */
int cluster_kept_drop(struct cluster *c);
/* Frees what the controller knows about snapshots of an earlier controller. */
void control_kept_free(struct cluster *c);

#endif
