/* worker_job.h - a worker compiles programs and connects their channels to other hosts. Main thread. */
#ifndef RILLE_CLUSTER_WORKER_JOB_H
#define RILLE_CLUSTER_WORKER_JOB_H

#include "actors/act/run/actors.h"
#include "actors/cluster/worker/worker_inner.h"

struct job { /* a program and its plan */
    uint64_t id;
    struct plan *plan; /* NULL: compilation failed */
    struct actors *actors;
    struct run run;
    struct arena arena, of_rows;
    struct lane_rows rows; /* last received; in use if run.rows is set */
    struct channel_far *far;
    struct carrier_channels *carrying; /* NULL: no channels */
    bool *listed;                      /* by memory: its list has arrived, or is not needed */
    int32_t nwanted;                   /* lists still missing */
    uint32_t epoch;                    /* epoch of the addresses in far */
    bool had;                          /* the outcome was reported to the coordinator */
    bool waits;                        /* for ports of workers, before asking for their lists */
};

/* Carry out the orders PROGRAM, FORGET, ROWS, ASKED, LISTED and PORTS. */
void worker_job_make(struct worker_process *w, const struct order *o);
void worker_job_forget(struct worker_process *w, const struct order *o);
void worker_job_rows(struct worker_process *w, const struct order *o);
void worker_job_asked(struct worker_process *w, const struct order *o);
void worker_job_listed(struct worker_process *w, const struct order *o);
void worker_job_ports(struct worker_process *w, const struct order *o);
/* Marks the memories of these workers as met. ports: text as in FORM. */
void worker_job_met(struct worker_process *w, const char *ports);
struct job *worker_job_find(struct worker_process *w, uint64_t id); /* NULL: unknown */
/* Sets the addresses of the channels' other ends in this epoch. E_PLAN. */
int worker_job_connect(struct worker_process *w, struct job *j);
void worker_job_free(struct job *j);

#endif
