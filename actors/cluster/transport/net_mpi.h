/* net_mpi.h - finds the MPI plug-in (any thread), and opens links over MPI (the thread of the carrier). */
#ifndef RILLE_CLUSTER_TRANSPORT_NET_MPI_H
#define RILLE_CLUSTER_TRANSPORT_NET_MPI_H

#include "actors/cluster/transport/mpi_plugin.h"

struct carrier;

/* Opens librille-mpi.so at the first call. E_BUS: the plug-in is missing, belongs to another version of Rille, or
 * was built for another MPI library than the launcher's. */
int mpi_find(const struct mpi_plugin **out);

/* Initializes MPI, and waits until every worker does so. E_BUS: MPI cannot start, or its ranks differ
 * from the ranks of the cluster. */
int mpi_open(struct carrier *c);
void mpi_close(struct carrier *c);         /* closes MPI; waits for the other workers, unless MPI is broken */
void mpi_break(struct carrier *c);         /* marks MPI as broken, after the loss of a worker */
bool mpi_is_busy(const struct carrier *c); /* returns true if the thread should poll MPI often */

#endif
