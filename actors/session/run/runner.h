/* runner.h - runs a plan. The plan cache or a compiled step owns the runner. Used only on the session's thread. */
#ifndef RILLE_SESSION_RUNNER_H
#define RILLE_SESSION_RUNNER_H

#include "actors/act/run/actors.h"
#include "actors/act/run/engine.h"
#include "runtime/data/arena.h"

struct moved_bytes;
struct plan;
struct rille_session;
struct remote;
struct store;
/* A plan with its actors and the buffers of a run. The plan cache or a compiled step owns a runner and uses it for
 * one run at a time (run.c). */
struct runner {
    struct plan *plan;
    struct actors *actors;
    struct run run;
    /* leaf, root: stores by leaf and by root of the program, borrowed; the caller sets both before a run */
    struct store **leaf, **root;
    bool *donate; /* by root: the run overwrites the root's leaf instead of allocating a buffer */
    /* by root: the run may overwrite the root's leaf, because tasks overwrite it on all hosts that have a shard
     * of the leaf */
    bool *overwrites;
    struct arena arena;
    struct rille_session *s;
    struct remote *remote;           /* cluster state; NULL before the first run on workers */
    const struct moved_bytes *moved; /* bytes that a run moves (totals.h); NULL: not counted yet */
};
/* Returns the approximate size of the runner in host memory, bytes. */
size_t runner_bytes(const struct runner *r);
/* Creates a runner for a plan, and takes ownership of the plan. */
struct runner *runner_new(struct rille_session *s, struct plan *p);
void runner_free(struct runner **r);
/* Runs the runner's plan. First gives buffers to roots that have none: new buffers, or the buffers of the leaf that
 * the root overwrites. */
int runner_run(struct rille_session *s, struct runner *r, bool timed);
/* Sets root[k] after a failed run, if an update had begun to overwrite the leaf of root k. */
void runner_overwrote(const struct runner *r, bool *root);

#endif
