/* mpi.h - finds the MPI plug-in, if it is installed. Any thread. */
#ifndef RILLE_CLUSTER_MPI_H
#define RILLE_CLUSTER_MPI_H

#include "actors/cluster/transport/mpi_plugin.h"

/* Opens librille-mpi.so at the first call. E_BUS: the plug-in is missing, has the version of another Rille, or was
 * built for an MPI library that is not the launcher's. */
int mpi_find(const struct mpi_plugin **out);

#endif
