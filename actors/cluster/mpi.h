/* mpi.h - the MPI plug-in, where there is one. Any thread. */
#ifndef RILLE_CLUSTER_MPI_H
#define RILLE_CLUSTER_MPI_H

#include "actors/cluster/mpi_plugin.h"

/* Opens librille-mpi.so, once. E_BUS: it is not there, is of another version of Rille, or for another MPI than the one
 * that started this process. */
int mpi_find(const struct mpi_plugin **out);

#endif
