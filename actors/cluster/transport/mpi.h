/* mpi.h - finds the MPI plug-in, if installed. Any thread. */
#ifndef RILLE_CLUSTER_MPI_H
#define RILLE_CLUSTER_MPI_H

#include "actors/cluster/transport/mpi_plugin.h"

/* Opens librille-mpi.so, once. E_BUS: missing, of another version of Rille, or built for another MPI than the
 * launcher's. */
int mpi_find(const struct mpi_plugin **out);

#endif
