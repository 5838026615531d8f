/* memories.h - the memories of all hosts, as the controller makes and addresses them. Session's thread. */
#ifndef RILLE_CLUSTER_CONTROLLER_MEMORIES_H
#define RILLE_CLUSTER_CONTROLLER_MEMORIES_H

#include "actors/cluster/controller/controller_inner.h"

/* Begins the next epoch, once every rank is present. With the lock. E_ARG, E_PLACE, E_MEMORY. */
int control_begin(struct cluster *c);
/* Requests again the pages held in memories that were made afresh in this epoch. With the lock, released meanwhile. */
int control_renew(struct cluster *c);
/* Checks the devices of workers left by an earlier coordinator. E_PLACE: not the devices asked for now. With the
 * lock. */
int control_check_kept(const struct cluster *c);
void control_free(struct cluster *c);
/* `broken` of struct remote_access_options; of: the cluster. */
int control_broken(void *of);

#endif
