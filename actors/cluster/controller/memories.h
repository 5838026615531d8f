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

#endif
