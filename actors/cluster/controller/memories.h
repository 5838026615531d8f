/* memories.h - the memories of all hosts, as the controller makes and addresses them. Session's thread. */
#ifndef RILLE_CLUSTER_CONTROLLER_MEMORIES_H
#define RILLE_CLUSTER_CONTROLLER_MEMORIES_H

#include "actors/cluster/controller/controller_inner.h"

/* Makes what the next epoch needs and forms it; every rank must be present. With the lock. E_ARG, E_PLACE, E_MEMORY. */
int control_begin(struct cluster *c);
/* Allocates all pages again in memories that were made again in this epoch. Called with the lock, which it releases
 * meanwhile. */
int control_renew(struct cluster *c);
/* Checks the devices of workers that an earlier coordinator left. E_PLACE: a worker has other devices than the ones
 * requested now. Called with the lock held. */
int control_check_kept(const struct cluster *c);
void control_free(struct cluster *c);
/* Is remote_access_options.broken for a cluster; of: the cluster. */
int control_broken(void *of);

#endif
