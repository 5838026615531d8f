/* net_mpi.h - finds the MPI plug-in, if it is installed. Any thread. */
#ifndef RILLE_CLUSTER_TRANSPORT_NET_MPI_H
#define RILLE_CLUSTER_TRANSPORT_NET_MPI_H

#include "actors/cluster/transport/mpi_plugin.h"

/* Opens librille-mpi.so at the first call. E_BUS: the plug-in is missing, belongs to another version of Rille, or
 * was built for another MPI library than the launcher's. */
int mpi_find(const struct mpi_plugin **out);

#endif
