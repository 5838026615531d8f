/* worker.h - a worker process: joins a coordinator and runs programs until the coordinator dismisses the worker. The
 * calling thread is the worker's session thread; it creates and ends all further threads. */
#ifndef RILLE_CLUSTER_WORKER_H
#define RILLE_CLUSTER_WORKER_H

#include "actors/cluster/transport/carrier.h"
#include "actors/cluster/wire/devices.h"

struct cluster_worker_options {
    const char *join;     /* address of the coordinator */
    const char *key_file; /* path of the key file; NULL: no key */
    const char *job;      /* text that names the job; NULL: no name */
    const char *root;     /* folders in which files may be written and read, separated by ":"; NULL: none */
    const char *version;
    struct device_counts devices;
    int rank; /* rank that the worker requests; -1: any rank */
    /* secret that the coordinator gave to this process at its start; all zero: the coordinator did not start it */
    unsigned char secret[CLUSTER_ID];
    const char *host; /* name of a simulated host, for tests; NULL: the real host */
    int wait_s;       /* time limit for the admission by a coordinator, s */
    int keep_s;       /* time to wait for another coordinator after the loss of one, s; 0: do not wait */
    /* time after which a link to another worker without a connection counts as a loss, s; 0: 3 s */
    double link_s;
    double orphan_s;               /* time without a heartbeat after which the coordinator is lost, s; 0: 4.5 s */
    bool check_ref;                /* true: compare kernels with their references, as in rille_open() */
    enum carrier_mpi mpi;          /* whether MPI or tcp carries messages and bytes between hosts */
    void (*say)(const char *text); /* receives messages for the user; NULL: messages are dropped */
    /* returns the signal that this process has received, which the worker reports to the controller; 0: none. Called
     * on any thread. NULL: signals are not reported */
    int (*signal)(void);
    void (*joined)(void); /* called when a coordinator has admitted the worker; NULL: not called */
    /* ends the process at once, called if a kernel does not return; NULL: the worker waits for the kernel */
    void (*die)(int status);
    int *code; /* set to the exit code of the job when the job has ended; NULL: not needed */
};
/* Serves a coordinator on the calling thread, which is device thread 0. Returns 0 when the job has ended. E_LOST:
 * the coordinator is gone. Other errors (E_BUS, E_ARG, E_IO...): no coordinator admitted the worker, or the worker
 * failed. */
int cluster_serve(const struct cluster_worker_options *o);

#endif
