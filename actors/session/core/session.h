/* session.h - the state of one session, for the files that implement sessions. Private to actors/.
 *
 * The session thread owns the whole state. Device threads see plans and runs only. */
#ifndef RILLE_SESSION_SESSION_H
#define RILLE_SESSION_SESSION_H

#include "actors/session/core/build_node.h"
#include "actors/session/core/cache.h"
#include "actors/session/core/call_context.h"
#include "actors/session/core/collect.h"
#include "actors/session/core/derive.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/handle.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/live.h"
#include "actors/session/core/placing.h"
#include "actors/session/core/remote.h"
#include "actors/session/core/runner.h"
#include "actors/session/core/tracer.h"
#include "actors/session/core/update.h"
#include "rille.h"
#include "runtime/base/error.h"
#include "runtime/file/claim.h"

struct cluster;
struct dlpack_export;
struct snapshot;
/* Snapshots on a cluster (durable/snapshot.h). */
struct session_snapshots {
    struct snapshot *last;   /* the last snapshot that is complete; NULL: no snapshot yet */
    struct snapshot *taken;  /* the snapshot whose copies are in progress; NULL: none */
    struct snapshot *before; /* the complete snapshot before `last`, if the user keeps two; NULL: none */
    struct str passed_over;  /* why the last recovery did not use the latest snapshot; empty: it did */
    int64_t n;               /* number of snapshots taken */
};
/* State of random operators: the seed, and the number of calls so far (ordinal). */
struct session_random {
    uint64_t seed, ordinal;
};
/* Totals that rille_count() returns. */
struct session_count {
    int64_t nodes, compiles, hits;
};

struct rille_session {
    const void *owner; /* mark of the thread that opened the session (face_thread) */
    int process;       /* mark of the process that opened the session (face_process) */
    struct atlas *atlas;
    struct graph *graph;
    struct engine *engine;
    struct cluster *cluster; /* worker processes; NULL: all devices belong to this process */
    /* true: a call that plans was interrupted; any thread or signal handler may set this */
    atomic_int interrupted;
    struct call_context context; /* context for calls of public functions: line and gradient mode; no strategy */
    uint64_t generation;         /* a compiled step with an older generation must be traced again */
    struct session_handles handles;
    struct session_devices devices;
    struct session_calls calls;
    struct session_stages stages;
    struct session_trace trace;
    struct session_updates updates;
    struct session_random random;
    struct memo memo;
    struct collection collection;
    struct cache cache;
    struct session_runs runs;
    struct session_remote remote;
    struct session_snapshots snapshots;
    struct session_count count;
    struct layout_texts texts;
    struct dlpack_export *exports; /* tensors in the hands of other libraries (io/dlpack.h) */
    struct claims claims;          /* folders into which the session saves checkpoints */
};

#endif
