/* session.h - the state of one session, for the files that implement the session. Private to actors/.
 *
 * The session thread owns the whole state. Device threads see plans and runs only. */
#ifndef RILLE_SESSION_SESSION_H
#define RILLE_SESSION_SESSION_H

#include "actors/act/run/actors.h"
#include "actors/act/run/address.h"
#include "actors/act/run/inspect.h"
#include "actors/act/run/engine.h"
#include "actors/plan/model/program.h"
#include "actors/plan/model/rates.h"
#include "actors/session/core/call_context.h"
#include "actors/session/core/cache.h"
#include "actors/session/core/collect.h"
#include "actors/session/core/derive.h"
#include "actors/session/core/handle.h"
#include "actors/session/core/live.h"
#include "actors/session/core/runner.h"
#include "actors/session/core/update.h"
#include "actors/session/core/tracer.h"
#include "rille.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/file/claim.h"
#include "runtime/base/hash.h"

struct cluster;
struct snapshot;
struct rille_session {
    const void *owner;            /* mark of the thread that opened the session (face.h) */
    struct rille_tensor *tensors; /* list of all tensors with handles; the next two lists likewise */
    struct rille_live *lives;
    struct rille_graph *graphs;
    struct atlas *atlas;
    struct graph *graph;
    struct engine *engine;
    atomic_int interrupted;  /* a call that plans was interrupted; set by any thread and by signal handlers */
    struct cluster *cluster; /* worker processes; NULL: the devices belong to this process */
    struct act_time *act;    /* acts of the cluster's last timed run */
    int64_t nact, act_capacity, run_begin_ns, run_elapsed_ns, remote_runs, remote_acts;
    uint32_t nrows;                    /* number of the last schedule rows sent to workers */
    struct snapshot *snapshot, *taken; /* the last complete snapshot; the snapshot being copied; NULL: none */
    struct snapshot *before;           /* the complete snapshot before that, if kept; NULL: none */
    struct str passed_over;            /* reason why the last recovery did not use the last snapshot; empty: it did */
    int64_t snapshots;                 /* number of snapshots taken */
    /* Called after each good run on workers while a snapshot is being copied; NULL: none. */
    void (*after_run)(struct rille_session *s);
    struct pool **pool[NDEVICE_KIND];
    int32_t npool[NDEVICE_KIND];   /* capacity of the array */
    int32_t ndevice[NDEVICE_KIND]; /* number of devices by kind */
    int default_kind;
    size_t memory_limit;
    int32_t threads;
    struct box_cost cost;        /* costs of moves: built in, or calibrated (cost.c) */
    struct compute_rates rates;  /* rates for planners: likewise */
    struct call_context context; /* of calls from public functions: line and gradient mode; no strategy */
    uint64_t seed, ordinal, generation;
    bool poison;
    /* The region that new nodes belong to; the backward pass recomputes the nodes of a region. 0: the forward pass
     * keeps their results. */
    int32_t region, nregion;
    int32_t step_region;       /* first region of a compiled step that is recomputed; 0: none */
    struct strategy *strategy; /* strategy of the next call, owned; NULL: none */
    int32_t ninside;
    enum dtype autocast;  /* dtype that calls cast operands to; DT_NONE: no cast */
    bool tf32;            /* products and convolutions get the attribute tf32 */
    struct arena scratch; /* scratch memory of a call; reset at the end of the outermost call */
    struct val **fresh;   /* held values that the call in progress created */
    int32_t nfresh, fresh_capacity;
    struct memo memo;
    struct cache cache;
    struct runner *last;    /* the runner that ran last; NULL: none, or freed */
    struct work_order work; /* the order of runs, by run number (engine.h); shared with all pools */
    struct str looked;      /* texts of the last inspected actor */
    struct collection collection;
    struct pending_update *update;
    int32_t nupdate, update_capacity;
    struct rille_tensor **watch;
    int32_t nwatch, watch_capacity;
    struct session_trace trace;
    int64_t ntensor, nodes, compiles, hits, external;
    int64_t price; /* price of all calls so far (build.c); that of a call in parts is a difference */
    char **text;   /* text of each requested layout, by id */
    int32_t ntext, text_capacity;
    struct claims claims; /* folders in which the session saves checkpoints */
};

#endif
