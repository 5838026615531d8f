/* remote.h - runs on workers. The runner owns its state in the cluster. Session's thread. */
#ifndef RILLE_SESSION_REMOTE_H
#define RILLE_SESSION_REMOTE_H

#include "runtime/base/base.h"

struct rille_session;
struct runner;
struct host_report;
struct str;
struct act_time;
/* What workers reported of the last run, and totals over all runs. */
struct session_remote {
    struct act_time *act; /* acts of the last timed run */
    int64_t nact, act_capacity, begin_ns, elapsed_ns;
    int64_t runs, acts; /* totals */
    uint32_t nrows;     /* number of the last schedule rows sent to workers */
    /* Called after each good run on workers while a snapshot is being copied; NULL: none. */
    void (*after_run)(struct rille_session *s);
};
/* Ships the program before the first bind, so that workers have compiled it and the session knows the result. */
int remote_ready(struct rille_session *s, struct runner *r);
/* Creates the arenas of the runner's devices on all hosts. */
int remote_arenas(struct rille_session *s, struct runner *r);
/* Runs a bound runner on the cluster's workers. E_LOST names the lost workers. */
int remote_run(struct rille_session *s, struct runner *r);
/* Does rille_doing_thread() for the threads of workers on this host. */
bool remote_doing(const struct rille_session *s, int thread, char *text, size_t size);
/* After a failed run: returns true if an update had begun to overwrite the leaf of this root. */
bool remote_begun(const struct runner *r, int32_t root);
void remote_free(struct rille_session *s, struct runner *r);
/* Returns, by memory, rows for workers, sent with the next run; empty: none. */
struct str *remote_rows(struct rille_session *s, struct runner *r);
/* Returns the reports of the workers of a memory. */
struct host_report *remote_report(const struct runner *r, int memory);
/* Returns the bytes of the program. */
const struct str *remote_program(const struct runner *r);

#endif
