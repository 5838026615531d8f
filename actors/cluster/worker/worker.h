/* worker.h - a worker process: joins a coordinator and runs its programs until dismissed. The calling thread is the
 * worker's session thread; it creates and ends the other threads. */
#ifndef RILLE_CLUSTER_WORKER_H
#define RILLE_CLUSTER_WORKER_H

#include "actors/cluster/transport/carrier.h"
#include "actors/cluster/coordinator/coordinator.h"
#include "actors/cluster/wire/devices.h"

struct cluster_worker_options {
    const char *join;     /* the coordinator's address */
    const char *key_file; /* NULL: none */
    const char *root;     /* allow-listed folders for files, separated by ":"; NULL: none */
    const char *version;
    struct device_counts devices;
    int rank;                         /* requested rank; -1: any */
    unsigned char secret[CLUSTER_ID]; /* proves that the coordinator started this process; zero: not started by it */
    const char *host;                 /* claimed host (tests); NULL: the real one */
    int wait_s;                       /* time to wait for the coordinator, s */
    int keep_s;                       /* time to wait for the next coordinator after a loss, s; 0: end at once */
    double link_s;                    /* time until a broken connection to a worker is a loss, s; 0: 3 */
    double orphan_s;                  /* time without a heartbeat until the coordinator is gone, s; 0: 4.5 */
    bool check_ref;                   /* as in rille_open() */
    enum carrier_mpi mpi;             /* transport between hosts */
    void (*say)(const char *text);    /* receives news, from one worker of the job; NULL: no receiver */
    void (*joined)(void);             /* called when a coordinator has admitted the worker; NULL: not called */
    void (*die)(int status); /* ends the process at once if a kernel does not return; NULL: waits for the kernel */
};
/* Serves a coordinator on the calling thread, which is device thread 0. Returns 0 when the job ended. E_BUS, E_ARG,
 * E_IO...: the coordinator did not admit the worker; E_LOST: the coordinator is gone. */
int cluster_serve(const struct cluster_worker_options *o);

#endif
