/* session.h - the state of one session, for the files that implement sessions. Private to actors/.
 *
 * The session thread owns the whole state. Device threads see plans and runs only. */
#ifndef RILLE_SESSION_SESSION_H
#define RILLE_SESSION_SESSION_H

#include "actors/act/run/engine.h"
#include "actors/session/core/call_context.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/handle.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/live.h"
#include "actors/session/core/placing.h"
#include "actors/session/core/tracer.h"
#include "rille.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "runtime/data/str.h"
#include "runtime/file/disk/claim.h"
#include "runtime/tensor/atlas.h"

#include <pthread.h>

struct cluster;
struct dlpack_export;
struct snapshot;
/* Snapshots on a cluster (durable/snapshot.h). */
struct session_snapshots {
    struct snapshot *last;   /* the last snapshot that is complete; NULL: no snapshot yet */
    struct snapshot *taken;  /* the snapshot whose copies are in progress; NULL: none */
    struct snapshot *before; /* the complete snapshot before `last`, if the user keeps two; NULL: none */
    struct str passed_over;  /* reason why the last recovery used an older snapshot; empty: it used the latest */
    int64_t n;               /* number of snapshots taken */
    struct doubt *doubt;     /* replicas that differed at the last comparison (durable/snapshot.h); NULL: none */
    struct {
        struct str place; /* text: operator call at which the last lost worker was; empty: unknown */
        int64_t snapshot; /* number of snapshots taken before that loss */
        int times;        /* number of losses in succession at this call, without a new snapshot in between */
    } loss;
    uint64_t nstored; /* number of the last description that was stored with the workers (durable/kept.h) */
    struct kept_description *kept; /* snapshot of an earlier controller (durable/kept.h); NULL: not read */
    struct str wrong;              /* text: the workers whose replicas the last comparison found to be wrong */
};
/* State of a session's operator calls: settings for new nodes that call_context does not hold, and the values of the
 * call in progress. */
struct session_calls {
    /* region: recomputation region of new nodes; the backward pass recomputes all nodes of a region. 0: no region,
     * so results are kept from the forward pass. nregion: number of regions so far. */
    int32_t region, nregion;
    /* recomputation region of new nodes while a step that recomputes is traced; backward divides this region. 0:
     * none */
    int32_t step_region;
    struct strategy *strategy; /* strategy of the next call, owned; NULL: none */
    /* number of calls so far that a strategy splits and that are expanded into other operators */
    int32_t nstrategy;
    /* adds the gradient nodes of a scan (a node that runs a recorded body at each position; build/scan_grad.c) */
    int (*reverse_body)(const struct call_context *ctx, const struct node *n, struct val *const *dout,
                        struct val **din);
    int32_t nscan;        /* number of functions of rille.scan that are being recorded (build/scan.c) */
    enum dtype autocast;  /* dtype that calls cast operands to; DT_NONE: no cast */
    bool tf32;            /* products and convolutions may compute in TF32 (attribute tf32) */
    struct arena scratch; /* scratch memory of a call; reset at the end of the outermost call */
    struct val **fresh;   /* values that the call in progress created; a reference to each is held */
    int32_t nfresh, fresh_capacity;
    /* bytes that all calls so far move; the difference before and after an expanded call is the price of that call */
    int64_t price;
};
/* An update that rille_step will apply, and the variable's version before the update. */
struct pending_update {
    struct rille_tensor *t;
    struct val *before;
    bool lent; /* the step in progress may overwrite the bytes of the old version `before` */
};
/* Pending updates, and the variables on which backward was called since the last step. */
struct session_updates {
    struct pending_update *update;
    int32_t nupdate, update_capacity;
    struct rille_tensor **watch;
    int32_t nwatch, watch_capacity;
};
/* Memo of derivations (build/derive.h). */
struct memo {
    struct hash_table calls;
};
/* Result of a walk over the graph, starting from the requested values. The next walk reuses the arrays
 * (collect.c). */
struct collection {
    struct node **node;
    struct val **leaf, **number, **root;
    int32_t nnode, nleaf, nnumber, nroot;
    int32_t node_capacity, leaf_capacity, number_capacity, root_capacity, stack_capacity, use_capacity;
    struct frame *stack;
    /* by value: number of reads that this run completes; index: node * OP_OUT + output, then leaves */
    int32_t *use;
    /* by node: a later run must compute the node again, because a result that this run drops is still needed */
    bool *unfinished;
    int32_t unfinished_capacity;
    uint64_t root_mark;
    struct str key;
};
/* Plan cache (run/cache.h). */
struct cache {
    struct hash_table plans;
    struct cached *latest, *oldest;
    size_t bytes;
};
/* State of a session's runs. */
struct session_runs {
    struct runner *last;     /* runner that ran last; NULL: no runner ran, or that runner was freed */
    struct work_order order; /* numbers the runs whose work may still be on streams; shared with all memory pools */
    struct str inspected;    /* text of the actor that was inspected last */
    bool find_nan;           /* debugging option: tasks search their results for NaN and infinities */
    bool poison;             /* for tests: arenas are filled with 0xff bytes before a run */
};
/* Data on runs on workers: their reports on the last run, and sums over all runs. */
struct session_remote {
    struct act_time *act; /* start and end of each act (task execution) in the last timed run */
    int64_t nact, act_capacity, begin_ns, elapsed_ns;
    int64_t runs, acts; /* numbers of runs on workers and of acts in these runs */
    struct str place;   /* text: worker and operator call at the last loss of a worker; empty: unknown */
    /* serial number of the last schedule (order of tasks by thread or stream) that was sent to workers */
    uint32_t nrows;
    /* Called after each successful run on workers while a snapshot is being copied; NULL: no snapshot is being
     * copied. */
    void (*after_run)(struct rille_session *s);
};
/* State of random operators: the seed, and the number of calls of random operators so far (ordinal). */
struct session_random {
    uint64_t seed, ordinal;
};
/* Counts that rille_count() returns. */
struct session_count {
    int64_t nodes, compiles, hits;
};
/* Totals over all runs, for monitors (run/totals.c). Any thread, under the lock. */
struct session_totals {
    pthread_mutex_t lock;
    bool on; /* true: each run is added to the totals */
    struct rille_metrics sum;
};

struct rille_session {
    const void *owner; /* address that identifies the thread that opened the session (face_thread) */
    int process;       /* number that identifies the process that opened the session (face_process) */
    struct atlas *atlas;
    struct graph *graph;
    struct engine *engine;
    struct cluster *cluster; /* worker processes; NULL: all devices belong to this process */
    /* true: the present call, which plans, is to stop; any thread or signal handler may set this */
    atomic_int interrupted;
    /* settings for calls of public functions: source line and gradient mode; no strategy */
    struct call_context context;
    /* number of changes so far that make compiled steps invalid; a step from before the last change is traced
     * again */
    uint64_t generation;
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
    struct session_totals totals;
    struct layout_texts texts;
    /* tensors whose bytes other libraries use (io/dlpack.h) */
    struct dlpack_export *exports;
    struct claims claims; /* folders into which the session saves checkpoints */
};

#endif
