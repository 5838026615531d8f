/* runner.h - runs a plan. The plan cache or a compiled step owns the runner. Session's thread. */
#ifndef RILLE_SESSION_RUNNER_H
#define RILLE_SESSION_RUNNER_H

#include "actors/act/run/actors.h"
#include "actors/act/run/engine.h"
#include "runtime/base/arena.h"

struct plan;
struct rille_session;
struct remote;
struct store;
/* A plan with its actors and the addresses of a run's bytes. The plan cache or a compiled step owns it and uses it
 * for one run at a time (run.c). */
struct runner {
    struct plan *plan;
    struct actors *actors;
    struct run run;
    struct store **leaf, **root; /* by leaf and root of the program; borrowed; set by the caller before a run */
    bool *donate;                /* root k reuses the bytes of its leaf */
    bool *overwrites;            /* root k may: tasks overwrite the leaf in all memories that hold it */
    struct arena arena;
    struct rille_session *s;
    struct remote *remote; /* state of the runner in a cluster; NULL before its first run */
};
/* The runs of a session. */
struct session_runs {
    struct runner *last;     /* the runner that ran last; NULL: none, or freed */
    struct work_order order; /* the order of runs, by run number (engine.h); shared with all pools */
    struct str inspected;    /* texts of the last inspected actor */
    bool find_nan;           /* tasks search their results for NaN and infinities */
    bool poison;             /* arenas are filled with 0xff before a run, for tests */
};
size_t runner_bytes(const struct runner *r); /* approximate bytes of host memory */
/* Creates the runner of a plan and takes the plan over. */
struct runner *runner_new(struct rille_session *s, struct plan *p);
void runner_free(struct runner **r);
/* Makes stores for roots that have none (or reuses their leaf's), then runs. */
int runner_run(struct rille_session *s, struct runner *r, bool timed);
/* After a failed run: sets root[k] if an update had begun to overwrite the leaf of root k. */
void runner_overwrote(const struct runner *r, bool *root);

#endif
