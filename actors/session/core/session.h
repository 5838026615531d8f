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
#include "actors/session/core/tracer.h"
#include "rille.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/file/claim.h"
#include "runtime/base/hash.h"

/* The user's handle on a value. A leaf is a variable; val is the present version. The struct lives while the
 * variable has handles (nref), or versions or snapshots that refer to it (nref_weak). */
struct rille_tensor {
    struct rille_session *s;
    struct val *val; /* held while nref > 0 */
    int32_t nref, nref_weak;
    bool leaf, requires_grad, watched; /* watched: backward was called on it since the last step */
    bool planned;                      /* a planner may choose the layout */
    bool placed;                       /* a planner has chosen the layout */
    struct rille_tensor *grad;
    const struct layout *grad_layout; /* layout of the deposited gradient; NULL: as grad_suiting() says */
    char *name;
    int32_t journal;                  /* entry of the trace in progress; -1: none */
    struct rille_tensor *next, *back; /* links of the session's list, while nref > 0 */
};

struct rille_live {
    struct rille_session *s;
    struct rille_live *next, *back; /* links of the session's list */
    rille_live_fn *fn;
    void (*drop)(void *arg);
    void (*undo)(void *arg); /* NULL: nothing to undo */
    void *arg;
    int32_t nref;
    bool whole;   /* an integer, not a float */
    double value; /* last answer of fn */
};

/* ---- memo of derivations: (operator, attributes, operand types and layouts) -> results (build.c) ---- */
struct derived;
struct memo {
    struct hash_table calls;
};

/* Size in bytes from which replicas of a variable in one memory share a buffer. From there on, the saving per update
 * (each device writes only a slice; 10 us and more) outweighs the messages that order the writes. */
enum { SHARED_LEAST = 64 << 10 };

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

/* ---- plan cache (cache.c) ---- */
struct cached {
    struct cached *before, *after; /* links by last use, latest first */
    uint64_t hash;
    size_t nkey, bytes;
    unsigned char *key;
    struct runner *runner;
};
struct cache {
    struct hash_table plans;
    struct cached *latest, *oldest;
    size_t bytes;
};

/* A pending update, applied by rille_step, and the version that the update started from. */
struct pending_update {
    struct rille_tensor *t;
    struct val *before;
    bool lent; /* the step in progress may overwrite the bytes of `before` */
};

/* Result of a walk from the roots; the next walk reuses the arrays (collect.c). */
struct collection {
    struct node **node;
    struct val **leaf, **number, **root;
    int32_t nnode, nleaf, nnumber, nroot;
    int32_t node_capacity, leaf_capacity, number_capacity, root_capacity, stack_capacity, use_capacity;
    struct frame *stack;
    int32_t *use;     /* by node output, then leaf: reads by nodes that are done after the run */
    bool *unfinished; /* by node: not done after the run; a result that the run does not keep is needed */
    int32_t unfinished_capacity;
    uint64_t root_mark;
    struct str key;
};

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
    bool find_nan;        /* tasks search their results for NaN and infinities */
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

/* ---- session.c ---- */
int session_pool(struct rille_session *s, int kind, int rank, struct pool **out);
/* Chooses how moves among these GPUs are made: "nccl" (by the library) or "own" (each rank reads the others'
 * shards). E_ARG: unknown name. E_PLACE: "nccl", but `devices` names no GPU. */
struct cuda_choice;
int session_collectives(const char *how, const char *devices, struct cuda_choice *gpus);
/* Returns the default layout: replicated on device 0 of the default kind. */
const struct layout *session_layout(struct rille_session *s);
/* Returns l with B in place of every partial axis: the layout of values, gradients and sources without a pending
 * reduction. */
int layout_summed(struct atlas *a, const struct layout *l, const struct layout **out);
int place_exists(struct rille_session *s, const struct place *p);

/* ---- cost.c ---- */
/* Reads costs of moves and rates of computing from the file. path NULL: returns the built-in ones. */
int cost_read(const char *path, struct box_cost *out, struct compute_rates *rates);

/* ---- lists of handles ---- */
#define LIST_PUSH(head, x)                                                                                             \
    do {                                                                                                               \
        (x)->back = NULL;                                                                                              \
        (x)->next = (head);                                                                                            \
        if (head) (head)->back = (x);                                                                                  \
        (head) = (x);                                                                                                  \
    } while (0)
#define LIST_TAKE(head, x)                                                                                             \
    do {                                                                                                               \
        if ((x)->next) (x)->next->back = (x)->back;                                                                    \
        *((x)->back ? &(x)->back->next : &(head)) = (x)->next;                                                         \
    } while (0)

/* ---- tensor.c ---- */
struct rille_tensor *tensor_new(struct rille_session *s, struct val *v, bool leaf);
/* Makes v the present version of the leaf. Readers of the old version keep it. */
void tensor_rebind(struct rille_tensor *t, struct val *v);
/* Makes g the gradient of the leaf. Holders of the previous gradient, if any, still see that one. */
void tensor_rebind_grad(struct rille_tensor *t, struct val *g);
/* Gives an "auto" leaf the layout that a planner chose, for good. */
int tensor_place(struct rille_tensor *t, const struct layout *l);
/* Refers to t without holding its value. tensor_orphan ends that, and frees the struct of a variable without handles.
 */
struct rille_tensor *tensor_refer(struct rille_tensor *t);
void tensor_orphan(struct rille_tensor *t);
/* Returns true if v is the present version of variable t. */
bool tensor_is_present(const struct rille_tensor *t, const struct val *v);

/* ---- file.c ---- */
/* Creates a leaf. Each shard calls the reader once for its box of values. */
typedef int leaf_reader(void *arg, const struct box *b, void *out);
int leaf_read(struct rille_session *s, const struct type *t, const struct layout *l, leaf_reader *read, void *arg,
              struct rille_tensor **out);

/* ---- build.c ---- */
/* Calls op on values: derives types and layouts, and adds the node (or the nodes of a composite). out has room for
 * the op's results. source: type and layout of a source operator's result, or the target layout of to_global (type
 * NULL). */
struct build_source {
    const struct type *type;
    const struct layout *layout;
};
int build_call(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
               const struct attr *attr, const struct build_source *source, struct val **out);
/* Calls an op that is neither a source nor a move; attr holds all attributes. */
int build_written(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
                  const struct attr *attr, struct val **out);
/* Fails with what is wrong with a call, followed by its operands with type and layout. */
int build_refuse(int code, const struct op *op, int nin, struct val *const *in, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
struct val *build_number(struct rille_session *s, bool is_int, double f, int64_t i);
/* Returns v in that dtype: v itself if it already has the dtype. */
int build_cast(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out);
/* Casts like build_cast. If v is a view of all of a value, casts that value and returns the same view of the cast.
 * So a weight and its gradient keep the weight's own layout, and the weight is cast once, even if readers transpose
 * it. */
int build_cast_below(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out);
int build_to_global(const struct call_context *ctx, struct val *v, const struct layout *l, struct val **out);
/* build_fresh holds a value that a call created until build_settle ends the call. After that a value lives only by
 * its handles and readers. build_settle returns status. */
struct val *build_fresh(struct rille_session *s, struct val *v);
int build_settle(struct rille_session *s, int status);

/* Returns the context without its strategy, which is meant for the called operator only. */
struct call_context build_plain(const struct call_context *ctx);
/* The interface with which kernels build gradients and composites. */
struct builder {
    struct build base;
    const struct call_context *ctx; /* must outlive the builder */
};
struct builder builder_of(const struct call_context *ctx);
/* Adds the node of a call with the given requested layouts, types and result layouts. */
struct node_made {
    int nin, nout;
    const struct layout *const *want; /* nin */
    const struct type *type;          /* nout */
    const struct layout *const *layout;
};
int build_add(const struct call_context *ctx, const struct op *op, struct val *const *in, const struct attr *attr,
              const struct node_made *made, struct val **out);
int64_t price_move(void *arg, const struct type *t, const struct layout *from, const struct layout *to);
void memo_free(struct memo *m);

/* ---- grad.c ---- */
/* grad_values returns d sum(y) / d x[i] in dx[i], NULL if y does not depend on x[i]. grad_deposit adds gradients to
 * all leaves that y depends on; afterwards the forward nodes release what they saved. */
int grad_values(const struct call_context *ctx, struct val *y, int n, struct val *const *x, struct val **dx);
int grad_deposit(const struct call_context *ctx, struct val *y);
/* Returns the layout of a gradient for a parameter of layout l: l, except that a partial axis of `has` stays partial
 * if l has B there. */
int grad_suiting(struct rille_session *s, const struct layout *l, const struct layout *has, const struct layout **out);

/* ---- reuse.c ---- */
/* Merges equal calls of p, the program of c. */
void reuse_equal(struct program *p, const struct collection *c);
/* In a trace: if *v, which a reader needs in layout `want`, is a view and it costs no more to move the viewed value,
 * makes *v a view of the moved value. */
int reuse_below(const struct call_context *ctx, const struct layout *want, struct val **v);

/* ---- op_forms.c ---- */
/* Prints the calls that a composite op is made of and the resulting layouts, for the op's help page. Prints nothing
 * if the op is never a composite. */
void op_forms_print(struct rille_session *s, const struct op *op, struct str *out);

/* ---- collect.c ---- */
enum collect_mode {
    COLLECT_RUN,     /* results without bytes, and what gradients will read of them */
    COLLECT_TRACE,   /* nodes that the trace added */
    COLLECT_EXPLAIN, /* everything down to variables and discarded values, computed or not */
};
int collect(struct rille_session *s, int n, struct val *const *root, enum collect_mode mode);
void collection_key(struct rille_session *s, struct collection *c);
struct program *collection_program(struct rille_session *s, struct collection *c);

int32_t *collection_uses(struct collection *c);
void collection_unfinished(struct collection *c);
int32_t collection_slot(const struct collection *c, const struct val *v);
void collection_free(struct collection *c);

/* ---- explain_op.c ---- */

/* Prints the record of one operator in a few lines. */
void explain_op_print(struct str *s, const struct rille_explain_op *op);

/* ---- explain.c ---- */
struct assigned;
struct origin;
/* Explains a program. planned: result of the planner, with regrets; NULL: not planned. origin: by leaf of a planned
 * step. */
int explain_program(struct rille_session *s, const struct program *p, struct assigned *planned,
                    const struct origin *origin, struct rille_explain **out);

/* ---- cache.c ---- */
size_t runner_bytes(const struct runner *r); /* approximate bytes of host memory */
int cache_find(struct rille_session *s, struct collection *c, struct runner **out);
void cache_free(struct cache *c);

/* Checks that v can be read. E_STATE, with the variable's name: a failed run has left it half written. */
int val_readable(const struct val *v);

/* ---- run.c ---- */
/* Computes those of the values that have no bytes yet, in one run. */
int session_eval(struct rille_session *s, int n, struct val *const *v);
/* Called before a step replaces these values (NULL: no value): computes the pending values with handles that read
 * them, because old versions would pile up behind unread results. A value that cannot be computed stays pending, and
 * its reader gets the error. Fails only on an interrupt or a lost worker. */
int session_release(struct rille_session *s, int n, struct val *const *going);
/* Reads a box of a computed value, in global indices, into dense host memory, from the workers if they own it. */
int session_read(struct rille_session *s, struct val *v, const struct box *part, void *out);
/* Creates the runner of a plan and takes the plan over. */
struct runner *runner_new(struct rille_session *s, struct plan *p);
void runner_free(struct runner **r);
/* Makes stores for roots that have none (or reuses their leaf's), then runs. */
int runner_run(struct rille_session *s, struct runner *r, bool timed);
/* After a failed run: sets root[k] if an update had begun to overwrite the leaf of root k. */
void runner_overwrote(const struct runner *r, bool *root);
void number_bind(struct rille_session *s, const struct number *n, uint64_t *out);
/* Makes buffers for a value of this type and layout that host code will write. */
int store_make(struct rille_session *s, const struct type *t, const struct layout *l, struct store **out);

/* ---- open_run.c: a run may return while some of its work is still on streams (engine.h) ---- */
/* Lets pools wait for open runs. Called before the first pool is made. */
void work_order_begin(struct rille_session *s);
/* Sets whether the run may stay open. Waits for open runs if this run cannot be ordered behind them. E_KERNEL,
 * E_CANCEL. */
int open_run_before(struct rille_session *s, struct runner *r);
/* Marks the bound buffers of a run that stays open with the run's number. */
void open_run_bound(struct rille_session *s, struct runner *r);
/* After a run: updates what pools know of open and of failed runs. */
void open_run_after(struct rille_session *s);
/* Waits until no run is open. A failure of open work is reported now, as that of its act. E_CANCEL: interrupted, and
 * a run is still open. Reads and writes of buffers wait by themselves. */
int session_settle(struct rille_session *s);
/* Waits until no run is open, even if interrupted. The next session_settle() reports failures. */
void session_drain(struct rille_session *s);

/* ---- remote.c ---- */
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

/* ---- digests.c ---- */
struct summed {
    const struct buffer *buffer;
    int kind; /* device kind of the buffer */
    int32_t device;
    uint64_t *digest; /* out: digests of the buffer's blocks, freed by the caller; NULL: not taken */
};
/* Takes the digests of n buffers, which the session holds meanwhile. Any thread. E_CANCEL: *stop was set (NULL:
 * never). E_LOST. */
int digests_of_buffers(struct rille_session *s, int32_t n, struct summed *list, const atomic_bool *stop);

/* ---- replica.c: replicas of a snapshot on other hosts, and checks that its bytes have not changed ---- */
struct copy {
    struct type type;
    const struct layout *layout;
    struct store *store; /* held; NULL: none */
    struct store *spare; /* held: by mesh position, replica of the shard on another host, if needed; NULL: none */
    struct sums *sums;   /* digests by mesh position; NULL: not taken */
};
bool copy_is_lost(const struct copy *c);  /* a shard or a spare is lost or damaged */
bool copy_is_whole(const struct copy *c); /* no shard is lost or damaged; ignores spares */
void copy_drop(struct copy *c);
/* Begins to make new spares for all copies. Their buffers stay held until copying_end(). E_MEMORY. */
struct copying;
int copies_replicate(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out);
/* Begins to take the digests of all copies, for copies_check(). */
void copies_digest(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out);
/* Compares shards and spares with their digests; a shard or spare that differs counts as lost from now on. Skips
 * copies without digests. E_LOST: a host that held some is lost. */
int copies_check(struct rille_session *s, int32_t n, struct copy *const *c);
bool copying_ended(const struct copying *c);
/* Ends the copying. whole: waits until all is done, and reports the error. Not whole: stops after the transfer in
 * progress, and leaves the error text as it was. Returns the outcome; E_CANCEL: stopped early. */
int copying_end(struct copying **c, bool whole);
/* Restores lost shards from replicas and spares. E_LOST; E_IO names what is damaged. */
int copies_mend(struct rille_session *s, int32_t n, struct copy *const *c);
/* Prints the first shard that was lost with its host. */
void copies_tell_lost(struct rille_session *s, int32_t n, struct copy *const *c, struct str *out);
bool copies_gone(struct rille_session *s, int32_t n, struct copy *const *c); /* a shard is lost without a replica */

/* ---- snapshot.c ---- */
void snapshot_free(struct snapshot **p);
/* Promotes the snapshot being copied if it is complete by now. Called between runs; costs nothing. */
void snapshot_look(struct rille_session *s);

/* ---- microbatch.c ---- */
/* Returns v summed over the micro-batches; v itself without micro-batches, or if it is computed once per batch. */
int microbatch_sum(const struct call_context *ctx, struct val *v, struct val **out);
/* Returns the mean over the micro-batches of a value that differs between them; known after the last micro-batch. */
int microbatch_mean(const struct call_context *ctx, struct val *v, struct val **out);

/* ---- compiled.c ---- */
const struct program *graph_program(const struct rille_graph *g);
struct rille_session *graph_session(const struct rille_graph *g);

#endif
