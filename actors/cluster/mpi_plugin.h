/* mpi_plugin.h - what librille-mpi.so does for the carrier: messages by MPI, none of which waits.
 *
 * The carrier opens it where a launcher of MPI started the workers, and no other file knows MPI. One thread calls all
 * of it, which is MPI's main thread. Bytes of a message stay as they are until done() says that it is over. After a
 * failure, or when somebody is gone, nobody calls it again, close() neither: MPI has no way back from there. */
#ifndef RILLE_CLUSTER_MPI_PLUGIN_H
#define RILLE_CLUSTER_MPI_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

enum { MPI_PLUGIN_VERSION = 1, MPI_PLUGIN_TAGS = 4 };
enum mpi_done { MPI_NOT_YET, MPI_DONE, MPI_FAILED };

struct mpi_plugin {
    int version;
    const char *library; /* "Open MPI 4.1.4": what it was built for */
    /* Waits for all of the job to call it. Non-zero: MPI does not start. */
    int (*open)(int *rank, int *size);
    /* Tickets; NULL: it failed. */
    void *(*send)(int rank, int tag, const void *bytes, size_t n);
    void *(*receive)(int rank, int tag, void *to, size_t n);
    /* Has somebody sent a message with this tag? *rank: who. */
    bool (*look)(int tag, int *rank);
    enum mpi_done (*done)(void *ticket); /* frees the ticket when the message is over */
    void (*close)(void);                 /* all do, when all their messages are over */
};

/* The plug-in's only symbol is rille_mpi_plugin, such a function. */
typedef const struct mpi_plugin *mpi_plugin_get(void);

#endif
