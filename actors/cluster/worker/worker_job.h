/* worker_job.h - a worker compiles programs and connects their channels to other hosts. Called on the main thread. */
#ifndef RILLE_CLUSTER_WORKER_JOB_H
#define RILLE_CLUSTER_WORKER_JOB_H

#include "actors/act/run/actors.h"
#include "actors/cluster/worker/worker_inner.h"

struct job { /* a program and its plan */
    uint64_t id;
    struct plan *plan; /* plan of this memory's partition; NULL: the program failed to compile */
    struct actors *actors;
    struct run run;
    struct arena arena, of_rows;
    /* schedule rows (planned order of acts) received last; run.rows points to them if they are used */
    struct lane_rows rows;
    struct channel_far *far;
    struct carrier_channels *carrying; /* channels to other hosts, this worker's ends; NULL: no channels */
    bool *listed;    /* by memory (host): true if its list of channels has arrived, or is not needed */
    int32_t nwanted; /* number of awaited lists of channels */
    uint32_t epoch;  /* epoch in which the addresses in `far` are valid */
    bool had;        /* true if the outcome of compiling was reported (HAVE packet) */
    bool waits;      /* true if ports of workers must be known before lists of channels are requested */
};

/* Carry out the work PROGRAM, FORGET, ROWS, ASKED, LISTED and PORTS (member.h). */
void worker_job_make(struct worker_process *w, const struct order *o);
void worker_job_forget(struct worker_process *w, const struct order *o);
void worker_job_rows(struct worker_process *w, const struct order *o);
void worker_job_asked(struct worker_process *w, const struct order *o);
void worker_job_listed(struct worker_process *w, const struct order *o);
void worker_job_ports(struct worker_process *w, const struct order *o);
/* Records that the ports of the workers of some memories are known. ports: text as in FORM (wire.def). */
void worker_job_met(struct worker_process *w, const char *ports);
/* returns the job of a program; NULL: not known */
struct job *worker_job_find(struct worker_process *w, uint64_t id);
/* Sets the bus addresses of the program's channel ends on other hosts, for this epoch. E_PLAN: a channel end names a
 * thread that does not exist. */
int worker_job_connect(struct worker_process *w, struct job *j);
void worker_job_free(struct job *j);

#endif
