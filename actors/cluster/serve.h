/* serve.h - what a worker is: a process that joins a coordinator and runs what that gives it, until that tells it to
 * end. On the thread that calls, which is the session's of the worker; it makes the others and ends them. */
#ifndef RILLE_CLUSTER_SERVE_H
#define RILLE_CLUSTER_SERVE_H

#include "actors/cluster/carrier.h"
#include "actors/cluster/coordinator.h"
#include "actors/cluster/devices.h"

struct serve_options {
    const char *join;     /* the coordinator's address */
    const char *key_file; /* NULL: none */
    const char *root;     /* folders, with ":" between them, in which it writes and reads files; NULL: none */
    const char *version;
    struct device_counts devices;
    int rank;                         /* wanted; -1: any */
    unsigned char secret[CLUSTER_ID]; /* what proves that the coordinator started this process; zero: it did not */
    const char *host;                 /* the host that it says it is on (tests); NULL: the one that it is on */
    int wait_s;                       /* how long it waits for the coordinator, seconds */
    int keep_s;                       /* how long for the next one when that is gone; 0: it ends then */
    bool check_ref, check_nan;        /* as rille_open() has them */
    enum carrier_mpi mpi;             /* between hosts */
    void (*say)(const char *text);    /* news, of one worker of the job; NULL: to nobody */
    void (*joined)(void);             /* a coordinator has let it in; NULL: nobody asks */
    void (*die)(int status); /* ends the process at once, where a kernel runs on; NULL: it waits for the kernel */
};
/* Returns 0 when the job ended. E_BUS, E_ARG, E_IO...: the coordinator did not let it in; E_LOST: it is gone. The
 * calling thread is device thread 0. */
int cluster_serve(const struct serve_options *o);

#endif
