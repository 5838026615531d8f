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
    /* leaf, root: buffers of the program's inputs (leaves) and results (roots), borrowed; the caller sets both
     * before a run */
    struct store **leaf, **root;
    /* by root (result of the program): the run writes the root into the buffer of its leaf instead of a new buffer */
    bool *donate;
    /* by root: true if tasks can overwrite the root's leaf in place on all hosts that have a shard of the leaf */
    bool *overwrites;
    struct arena arena;
    struct rille_session *s;
    struct remote *remote;           /* cluster state; NULL before the first run on workers */
    const struct moved_bytes *moved; /* bytes that a run moves between devices (totals.h); NULL: not counted yet */
};
/* Returns the approximate size of the runner in host memory, bytes. */
size_t runner_bytes(const struct runner *r);
/* Creates a runner for a plan, and takes ownership of the plan. */
struct runner *runner_new(struct rille_session *s, struct plan *p);
void runner_free(struct runner **r);
/* Runs the runner's plan. First gives a buffer to each result (root) that has none: a new buffer, or the buffer of
 * the input that the root overwrites. */
int runner_run(struct rille_session *s, struct runner *r, bool timed);
/* Sets root[k] if the failed run had begun to overwrite the input (leaf) that root k replaces. */
void runner_overwrote(const struct runner *r, bool *root);

#endif
