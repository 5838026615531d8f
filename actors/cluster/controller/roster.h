/* roster.h - queries about workers: identity, devices, state. Session's thread. */
#ifndef RILLE_ACTORS_CLUSTER_CONTROLLER_ROSTER_H
#define RILLE_ACTORS_CLUSTER_CONTROLLER_ROSTER_H

#include "actors/cluster/controller/controller.h"

/* Writes the name of a memory's host to `out`. */
void cluster_host(struct cluster *c, int memory, char out[64]);

/* describes the i-th worker, without retired ranks; false: there are not so many workers */
bool cluster_worker(struct cluster *c, int i, struct cluster_worker *out);

/* returns the rank that runs the device at present; -1: none */
int cluster_owner(struct cluster *c, int kind, int device);

/* Returns true if the worker that originally had the device is present. Otherwise another worker runs the device. */
bool cluster_is_present(struct cluster *c, int kind, int device);

#endif
