/* recovery.h - begins the next epoch after a loss, or to admit workers to an elastic job. Session's thread. */
#ifndef RILLE_ACTORS_CLUSTER_CONTROLLER_RECOVERY_H
#define RILLE_ACTORS_CLUSTER_CONTROLLER_RECOVERY_H

#include "actors/cluster/controller/controller.h"

/* Describes the i-th member lost in this epoch, in the order of losses; false: fewer members were lost. */
bool cluster_lost(struct cluster *c, int i, struct cluster_loss *out);
/* Returns true if the epoch is formed and has lost no member. */
bool cluster_stands(struct cluster *c);
/* Begins the next epoch: replaces the lost workers, or continues with `workers` members (0: as many as before; in an
 * elastic job all who are present or wait, but at least the smallest number). E_STATE: too many losses.
 * After an interrupted call, continues the epoch that the interrupted call had begun. E_LOST: a further member was
 * lost meanwhile. */
int cluster_recover(struct cluster *c, int workers);
/* Returns true if the job is elastic, and cluster_grow() would admit workers that wait for a rank. */
bool cluster_can_grow(struct cluster *c);
/* Begins the next epoch if cluster_can_grow(), and sets *grew to true. Requests about files must have ended. E_LOST: a
 * member was lost meanwhile. */
int cluster_grow(struct cluster *c, bool *grew);

#endif
