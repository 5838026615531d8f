/* mpi_plugin.h - interface of librille-mpi.so to the carrier: non-blocking messages by MPI.
 *
 * The carrier opens the plug-in if an MPI launcher started the workers; MPI is called only through the plug-in. Any
 * thread may call these functions, but two threads never at the same time (the carrier's lock). The bytes of a
 * message must not change until done() reports the end of its operation. After a failure or the loss of a worker no
 * function may be called again, not even close(), because MPI cannot recover. */
#ifndef RILLE_CLUSTER_MPI_PLUGIN_H
#define RILLE_CLUSTER_MPI_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

enum { MPI_PLUGIN_VERSION = 1, MPI_PLUGIN_TAGS = 4 };
enum mpi_done { MPI_NOT_YET, MPI_DONE, MPI_FAILED };

struct mpi_plugin {
    int version;
    const char *library; /* the MPI library that the plug-in was built for, such as "Open MPI 4.1.4" */
    /* Initializes MPI, and waits until every process of the job has called this function. Non-zero: MPI cannot
     * start. */
    int (*open)(int *rank, int *size);
    /* Begin to send or receive n bytes. Return a ticket for the operation; NULL: failed. */
    void *(*send)(int rank, int tag, const void *bytes, size_t n);
    void *(*receive)(int rank, int tag, void *to, size_t n);
    /* Returns true if a message with this tag has arrived, and sets *rank to its sender. */
    bool (*look)(int tag, int *rank);
    /* returns the state of an operation; frees the ticket unless the result is MPI_NOT_YET */
    enum mpi_done (*done)(void *ticket);
    void (*close)(void); /* ends MPI; must be called in every process, after its last message */
};

/* Type of rille_mpi_plugin, the only symbol of the plug-in. */
typedef const struct mpi_plugin *mpi_plugin_get(void);

#endif
