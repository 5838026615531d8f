/* mpi_plugin.h - interface of librille-mpi.so to the carrier: non-blocking messages by MPI.
 *
 * The carrier opens the plug-in if an MPI launcher started the workers; no other file calls MPI. Any thread calls,
 * one at a time (the carrier's lock). The bytes of a message must not change until done() reports its end. After a
 * failure or the loss of a worker no function may be called again, not even close(): MPI cannot recover. */
#ifndef RILLE_CLUSTER_MPI_PLUGIN_H
#define RILLE_CLUSTER_MPI_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

enum { MPI_PLUGIN_VERSION = 1, MPI_PLUGIN_TAGS = 4 };
enum mpi_done { MPI_NOT_YET, MPI_DONE, MPI_FAILED };

struct mpi_plugin {
    int version;
    const char *library; /* "Open MPI 4.1.4": the MPI it was built for */
    /* Initializes MPI; waits until every process of the job calls it. Non-zero: MPI cannot start. */
    int (*open)(int *rank, int *size);
    /* Return tickets of operations in progress; NULL: failed. */
    void *(*send)(int rank, int tag, const void *bytes, size_t n);
    void *(*receive)(int rank, int tag, void *to, size_t n);
    /* Returns true if a message with this tag has arrived; *rank: its sender. */
    bool (*look)(int tag, int *rank);
    enum mpi_done (*done)(void *ticket); /* frees the ticket unless MPI_NOT_YET */
    void (*close)(void);                 /* called by every process, after its last message */
};

/* Type of the plug-in's only symbol, rille_mpi_plugin. */
typedef const struct mpi_plugin *mpi_plugin_get(void);

#endif
