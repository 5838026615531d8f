/* mpi_plugin.c - librille-mpi.so: implements mpi_plugin.h with the MPI library that it was built for. */
#include "actors/cluster/transport/mpi_plugin.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

/* copy of MPI_COMM_WORLD; separates Rille's messages from other MPI messages of the process */
static MPI_Comm all;

static int
mpi_plugin_open(int *rank, int *size)
{
    int has;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &has) || has < MPI_THREAD_SERIALIZED) return -1;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &all) || MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN)) return -1;
    return MPI_Comm_rank(all, rank) || MPI_Comm_size(all, size) ? -1 : 0;
}

static void *
ticket_of(MPI_Request *r, int status)
{
    if (!status) return r;
    free(r);
    return NULL;
}

static void *
mpi_plugin_send(int rank, int tag, const void *bytes, size_t n)
{
    MPI_Request *r = n <= INT_MAX ? malloc(sizeof *r) : NULL;
    return r ? ticket_of(r, MPI_Isend(bytes, (int)n, MPI_BYTE, rank, tag, all, r)) : NULL;
}

static void *
mpi_plugin_receive(int rank, int tag, void *to, size_t n)
{
    MPI_Request *r = n <= INT_MAX ? malloc(sizeof *r) : NULL;
    return r ? ticket_of(r, MPI_Irecv(to, (int)n, MPI_BYTE, rank, tag, all, r)) : NULL;
}

static bool
look_mpi(int tag, int *rank)
{
    int there = 0;
    MPI_Status s;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, all, &there, &s)) return false;
    if (there) *rank = s.MPI_SOURCE;
    return there;
}

static enum mpi_done
done_mpi(void *ticket)
{
    int over = 0, failed = MPI_Test(ticket, &over, MPI_STATUS_IGNORE);
    if (failed || over) free(ticket);
    return failed ? MPI_FAILED : over ? MPI_DONE : MPI_NOT_YET;
}

static void
mpi_plugin_close(void)
{
    MPI_Comm_free(&all);
    MPI_Finalize();
}

static const struct mpi_plugin plugin = {
    .version = MPI_PLUGIN_VERSION,
    .library = RILLE_MPI_LIBRARY,
    .open = mpi_plugin_open,
    .send = mpi_plugin_send,
    .receive = mpi_plugin_receive,
    .look = look_mpi,
    .done = done_mpi,
    .close = mpi_plugin_close,
};

__attribute__((visibility("default"))) mpi_plugin_get rille_mpi_plugin;
const struct mpi_plugin *
rille_mpi_plugin(void)
{
    return &plugin;
}
