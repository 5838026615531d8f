/* session.h - what one session owns, for the files that make it up; nothing outside actors/ includes it.
 *
 * The session thread owns all of this. Device threads see plans and runs only. */
#ifndef RILLE_SESSION_SESSION_H
#define RILLE_SESSION_SESSION_H

#include "actors/act/engine.h"
#include "actors/plan/program.h"
#include "actors/plan/rates.h"
#include "rille.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/file/claim.h"
#include "runtime/hash.h"

/* The user's handle on a value; a leaf is a variable whose present version is val. The struct lives while there are
 * handles (nref) or versions that name it as their owner (nversion). */
struct rille_tensor {
    struct rille_session *s;
    struct val *val; /* held while nref > 0 */
    int32_t nref, nversion;
    bool leaf, requires_grad, watched; /* watched: somebody called backward on it since the last step */
    bool planned;                      /* its layout is a planner's to choose */
    bool placed;                       /* a planner chose it */
    struct rille_tensor *grad;
    const struct layout *grad_layout; /* how backward deposits its gradient; NULL: as suits val's own */
    char *name;
    int32_t journal;                  /* entry of the trace in progress, -1 */
    struct rille_tensor *next, *back; /* in the session's list while nref > 0 */
};

struct rille_live {
    struct rille_session *s;
    struct rille_live *next, *back; /* in its list */
    rille_live_fn *fn;
    void (*drop)(void *arg);
    void (*undo)(void *arg); /* NULL: it has nothing to take back */
    void *arg;
    int32_t nref;
    double value; /* its last answer */
};

/* ---- memo of derivations: (operator, attributes, operand types and layouts) -> results (build.c) ---- */
struct derived;
struct memo {
    struct hash_table calls;
};

/* Bytes of a variable from which on replicas in one memory share a buffer: what each device's slice saves of an update,
 * 10 us and more, is worth the messages that order it. */
enum { SHARED_LEAST = 64 << 10 };

/* A plan with its actors and the places where a run finds its bytes; the cache or a compiled step owns it, for one run
 * at a time (run.c). */
struct runner {
    struct plan *plan;
    struct actors *actors;
    struct run run;
    struct store **leaf, **root; /* by leaf and root of the program; the caller sets them before a run; borrowed */
    bool *donate;                /* root k takes the bytes of its leaf */
    bool *overwrites;            /* it may: tasks write over them in all memories that it lies in */
    struct arena arena;
    struct rille_session *s;
    struct remote *remote; /* in a cluster; NULL until it first runs */
};

/* ---- plan cache (cache.c) ---- */
struct cached {
    struct cached *before, *after; /* by use, the latest first */
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

/* An update that waits for rille_step, and the version it started from. */
struct pending_update {
    struct rille_tensor *t;
    struct val *before;
    bool lent; /* the step that runs may write over its bytes */
};

/* What a walk from the roots finds; each walk uses its arrays again (collect.c). */
struct collection {
    struct node **node;
    struct val **leaf, **number, **root;
    int32_t nnode, nleaf, nnumber, nroot;
    int32_t node_capacity, leaf_capacity, number_capacity, root_capacity, stack_capacity, use_capacity;
    struct frame *stack;
    int32_t *use;     /* per node output and leaf: readers within the collection that are done with it after the run */
    bool *unfinished; /* per node: it is not done after the run, since somebody still wants a result that the run does
                         not keep */
    int32_t unfinished_capacity;
    uint64_t root_mark;
    struct str key;
};

struct trace;
struct rounds;
struct cluster;
struct snapshot;
struct inside;
struct rille_session {
    const void *owner;            /* the thread that opened it (face.h) */
    struct rille_tensor *tensors; /* all that have handles; so the two below */
    struct rille_live *lives;
    struct rille_graph *graphs;
    struct atlas *atlas;
    struct graph *graph;
    struct engine *engine;
    atomic_int interrupted;  /* since a call that plans began; set by any thread, and by signal handlers */
    struct cluster *cluster; /* of worker processes; NULL: devices are this process's own */
    struct act_time *act;    /* of the last timed run there */
    int64_t nact, act_capacity, run_begin_ns, run_elapsed_ns, remote_runs, remote_acts;
    uint32_t nrows;                    /* that workers were told */
    struct snapshot *snapshot, *taken; /* the last that is whole; the one that is being copied; NULL: none */
    struct snapshot *before;           /* the one before the last, where it is kept; NULL: none */
    struct str passed_over;            /* why the last recovery did not go back to the last one; empty: it did */
    int64_t snapshots;                 /* taken so far */
    struct pool **pool[NDEVICE_KIND];
    int32_t npool[NDEVICE_KIND];   /* capacity of the array */
    int32_t ndevice[NDEVICE_KIND]; /* how many devices of a kind there are */
    int default_kind;
    size_t memory_limit;
    int32_t threads;
    struct box_cost cost;       /* of moves: built in, or as calibrated (cost.c) */
    struct compute_rates rates; /* of planners; likewise */
    struct line at;
    const char *composite; /* the composite operator in the making */
    enum node_phase phase;
    uint64_t seed, ordinal, generation;
    bool grad_on, poison;
    /* The backward pass computes again what calls add now, as this region; 0: the forward pass keeps it. */
    int32_t region, nregion;
    int32_t step_region;       /* with which a compiled step begins that is computed again; 0: none */
    struct strategy *strategy; /* of the next call, owned; or NULL */
    struct inside *inside;     /* of the call in the making (inside.h), or NULL */
    int32_t ninside;
    enum dtype autocast;  /* DT_NONE: calls take their operands as they are */
    bool tf32;            /* products and convolutions get the attribute of that name */
    struct arena scratch; /* of one call: the outermost one resets it when it is over */
    struct val **fresh;   /* values that the call in progress made */
    int32_t nfresh, fresh_capacity;
    struct memo memo;
    struct cache cache;
    struct runner *last;    /* the latest to run; NULL: none, or it is gone */
    struct work_order work; /* runs, by their numbers (engine.h); all pools know it */
    struct str looked;      /* texts of the actor that somebody looked at last */
    struct collection collection;
    struct pending_update *update;
    int32_t nupdate, update_capacity;
    struct rille_tensor **watch;
    int32_t nwatch, watch_capacity;
    struct trace *trace; /* in progress */
    bool paused;
    struct rounds *rounds; /* of the planned step in the making (rounds.h), or NULL */
    uint64_t spelled;      /* which operators calls added: a hash of one after the other */
    bool parts;            /* the trace made some call in parts */
    int32_t call;          /* number of the call in the making (rounds.h), from 1; 0: none */
    int64_t ntensor, nodes, compiles, hits, external;
    int64_t moved; /* bytes that the calls made so far move: what a form in parts costs is the difference */
    char **text;   /* of layouts that were asked for, by id */
    int32_t ntext, text_capacity;
    struct claims claims; /* folders that it saves checkpoints in */
};

/* ---- session.c ---- */
int session_pool(struct rille_session *s, int kind, int rank, struct pool **out);
/* How moves among these GPUs, of such devices, are made: "nccl", by a library, or "own", each rank reads the others'
 * parts. E_ARG, E_PLACE. */
struct cuda_choice;
int session_collectives(const char *how, const char *devices, struct cuda_choice *gpus);
/* Returns the default layout: whole on device 0 of the default kind. */
const struct layout *session_layout(struct rille_session *s);
/* Gives the layout with B wherever l is partial: how values, gradients and sources lie that are not sums of parts. */
int layout_summed(struct atlas *a, const struct layout *l, const struct layout **out);
int place_exists(struct rille_session *s, const struct place *p);

/* ---- cost.c ---- */
/* Reads what moves and computing cost from the file; path NULL: as built in. */
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
/* The leaf takes v as its present version; the old one stays with those who use it. */
void tensor_rebind(struct rille_tensor *t, struct val *v);
/* The same of its gradient, which it may not have yet: who holds the one before goes on seeing that. */
void tensor_rebind_grad(struct rille_tensor *t, struct val *g);
/* A leaf that is "auto" lies so from now on, as a planner chose. */
int tensor_place(struct rille_tensor *t, const struct layout *l);
void tensor_orphan(struct rille_tensor *t);
/* Is v what the variable t now holds? */
bool tensor_is_present(const struct rille_tensor *t, const struct val *v);

/* ---- file.c ---- */
/* Makes a leaf whose values come box by box: each shard asks for its own, once. */
typedef int leaf_reader(void *arg, const struct box *b, void *out);
int leaf_read(struct rille_session *s, const struct type *t, const struct layout *l, leaf_reader *read, void *arg,
              struct rille_tensor **out);

/* ---- build.c ---- */
/* Calls op on values: derives types and layouts, adds the node (or the nodes of a composite). out has room for the
 * op's results. source: type and layout of a source operator's result, or the target layout of
 * to_global (type NULL). */
struct build_source {
    const struct type *type;
    const struct layout *layout;
};
int build_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
               const struct build_source *source, struct val **out);
/* The same, of a call that is no source and no move, with all attributes. */
int build_written(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
                  struct val **out);
/* Fails with what is wrong with a call, then its operands with type and layout. */
int build_refuse(int code, const struct op *op, int nin, struct val *const *in, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
struct val *build_number(struct rille_session *s, bool is_int, double f, int64_t i);
/* Gives v in that dtype: itself where it has it. */
int build_cast(struct rille_session *s, struct val *v, enum dtype d, struct val **out);
/* The same, where v is a view of all of a value: that view of the value's cast, so that a weight is cast once and as it
 * lies, whoever transposes it, and its gradient comes as it lies. */
int build_cast_below(struct rille_session *s, struct val *v, enum dtype d, struct val **out);
/* The halves that v is a cast of to f32, not computed yet, through views of all of it; else v. */
int build_halves_below(struct rille_session *s, struct val *v, struct val **out);
int build_to_global(struct rille_session *s, struct val *v, const struct layout *l, struct val **out);
/* build_fresh holds a value that a call makes until build_settle, which ends the call: what has a handle or a reader by
 * then stays. build_settle returns status. */
struct val *build_fresh(struct rille_session *s, struct val *v);
int build_settle(struct rille_session *s, int status);

/* The strategy that the call was given, which is its operator's own: whoever makes nodes for it on the way takes it,
 * and puts it back (s->strategy) for the operator. NULL where there is none. */
struct strategy *build_take_strategy(struct rille_session *s);
/* What kernels build gradients and composites with. */
struct builder {
    struct build base;
    struct rille_session *s;
};
struct builder builder_of(struct rille_session *s);
/* Adds the node of a call with all that a node has. */
struct node_made {
    int nin, nout;
    const struct layout *const *want; /* nin */
    const struct type *type;          /* nout */
    const struct layout *const *layout;
};
int build_add(struct rille_session *s, const struct op *op, struct val *const *in, const struct attr *attr,
              const struct node_made *made, struct val **out);
int64_t price_move(void *arg, const struct type *t, const struct layout *from, const struct layout *to);
void memo_free(struct memo *m);

/* ---- grad.c ---- */
/* Gives d sum(y) / d x[i], NULL in dx where y does not depend on it. grad_deposit: walks to the leaves and adds to each
 * its gradient; then the forward nodes let go of what they saved. */
int grad_values(struct rille_session *s, struct val *y, int n, struct val *const *x, struct val **dx);
int grad_deposit(struct rille_session *s, struct val *y);
/* How a gradient that lies as `has` is to lie beside a parameter that lies as l: as l, but where that is B a partial
 * may stay. */
int grad_suiting(struct rille_session *s, const struct layout *l, const struct layout *has, const struct layout **out);

/* ---- reuse.c ---- */
/* Makes equal calls of p, the program of c, one. Returns, by node of c, the node of p that stands for it; in p's arena.
 */
const int32_t *reuse_equal(struct program *p, const struct collection *c);
/* In a trace: makes *v, which a reader will want in a layout, a view of what moved, where it is a view and that costs
 * no more. */
int reuse_below(struct rille_session *s, const struct layout *want, struct val **v);

/* ---- op_made.c ---- */
/* Prints what op is made of and the layouts that it has thereby, as a part of its page; nothing where it is never made
 * of others. */
void op_made_print(struct rille_session *s, const struct op *op, struct str *out);

/* ---- collect.c ---- */
enum collect_mode {
    COLLECT_RUN,     /* what has no bytes yet, and what gradients will read of it */
    COLLECT_TRACE,   /* what the trace made */
    COLLECT_EXPLAIN, /* everything from variables and forgotten values on, computed or not */
};
int collect(struct rille_session *s, int n, struct val *const *root, enum collect_mode mode);
void collection_key(struct rille_session *s, struct collection *c);
struct program *collection_program(struct rille_session *s, struct collection *c);

int32_t *collection_uses(struct collection *c);
void collection_unfinished(struct collection *c);
int32_t collection_slot(const struct collection *c, const struct val *v);
void collection_free(struct collection *c);

/* ---- explain_op.c ---- */

/* Some lines about it. */
void explain_op_print(struct str *s, const struct rille_explain_op *op);

/* ---- explain.c ---- */
struct assigned;
struct origin;
/* Explains a program. planned: of a step that a planner laid out, with its regrets; or NULL. origin: by leaf, of such a
 * step. */
int explain_program(struct rille_session *s, const struct program *p, struct assigned *planned,
                    const struct origin *origin, struct rille_explain **out);

/* ---- cache.c ---- */
/* Finds the runner of the collected program, or compiles and keeps one. */
size_t runner_bytes(const struct runner *r); /* about, of host memory */
int cache_find(struct rille_session *s, struct collection *c, struct runner **out);
void cache_free(struct cache *c);

/* E_STATE, with the variable's name, when a failed run has left it half written. */
int val_readable(const struct val *v);

/* ---- run.c ---- */
/* Computes these values in one run; leaves alone those that have their bytes. */
int session_eval(struct rille_session *s, int n, struct val *const *v);
/* A step puts others in the place of these values (NULL: of none): what handles wait for that reads them is computed,
 * so that old versions do not pile up behind results that nobody has read yet. What cannot be computed goes on waiting,
 * for its reader to be told: an error is an interrupt, or the loss of a worker. */
int session_release(struct rille_session *s, int n, struct val *const *going);
/* Reads a part of a computed value, global and dense, to the host; from whoever owns it. */
int session_read(struct rille_session *s, struct val *v, const struct box *part, void *out);
/* Makes the runner of a plan, which it takes over. */
struct runner *runner_new(struct rille_session *s, struct plan *p);
void runner_free(struct runner **r);
/* Makes stores for roots that have none (or lets them take their leaf's), then runs. */
int runner_run(struct rille_session *s, struct runner *r, bool timed);
/* After a run that failed: sets root[k] where an update had begun to write root k over its leaf. */
void runner_overwrote(const struct runner *r, bool *root);
void number_bind(struct rille_session *s, const struct number *n, uint64_t *out);
/* Makes buffers for a value of this type and layout, which host code is to write. */
int store_make(struct rille_session *s, const struct type *t, const struct layout *l, struct store **out);

/* ---- open_run.c: a run may return while some of its work is still on streams (engine.h) ---- */
/* Before the first pool. */
void work_order_begin(struct rille_session *s);
/* Says whether the run may stay open, and waits for those that are, where it cannot be ordered behind them. E_KERNEL,
 * E_CANCEL. */
int open_run_before(struct rille_session *s, struct runner *r);
/* Its buffers are bound: notes in them that it touches them. */
void open_run_bound(struct rille_session *s, struct runner *r);
/* A run ended: what is open now, and what failed of what was. */
void open_run_after(struct rille_session *s);
/* Waits until no run is open. What failed is told now, as the failing act's; E_CANCEL: somebody interrupted, and one
 * still is. Reading and writing of buffers does it by itself. */
int session_settle(struct rille_session *s);
/* The same whatever happens; what failed is told by the next session_settle(). */
void session_drain(struct rille_session *s);

/* ---- remote.c ---- */
/* Ships the program before the first bind: then workers have it, and the session knows what they made of it. */
int remote_ready(struct rille_session *s, struct runner *r);
/* Makes the arenas of its devices, on all hosts. */
int remote_arenas(struct rille_session *s, struct runner *r);
/* Runs a bound runner on the cluster's workers. E_LOST names whom it lost. */
int remote_run(struct rille_session *s, struct runner *r);
/* rille_doing_thread() of the workers' threads on this host. */
bool remote_doing(const struct rille_session *s, int thread, char *text, size_t size);
/* After a run that failed: had an update begun to write this root over its leaf? */
bool remote_begun(const struct runner *r, int32_t root);
void remote_free(struct rille_session *s, struct runner *r);

/* ---- sums.c ---- */
struct summed {
    const struct buffer *buffer;
    int kind; /* of the device that it lies on */
    int32_t device;
    uint64_t *digest; /* out: of its blocks, which the caller frees; NULL: not taken */
};
/* Takes the digests of n buffers, which the session holds meanwhile. Any thread. E_CANCEL: *stop (NULL: never). E_LOST.
 */
int buffers_sum(struct rille_session *s, int32_t n, struct summed *list, const atomic_bool *stop);

/* ---- spare.c: what a snapshot keeps, once more on other hosts, and whether it is what it was ---- */
struct copy {
    struct type type;
    const struct layout *layout;
    struct store *store; /* held; NULL: there is none */
    struct store *spare; /* held: by mesh position the same part on another host, where one is needed; NULL: none */
    struct sums *sums;   /* by mesh position what it was; NULL: nobody knows */
};
bool copy_is_lost(const struct copy *c);  /* some of it, or of its spares; or damaged */
bool copy_is_whole(const struct copy *c); /* without its spares */
void copy_drop(struct copy *c);
/* Begins to make new spares for all of them; what it copies stays held until copying_end(). E_MEMORY. */
struct copying;
int copies_spare(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out);
/* Begins to take the digests of all of them, to which copies_check() holds them. */
void copies_sum(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out);
/* Finds parts and spares that are not what they were when the digests were taken: from now on they count as lost. Where
 * no digest was taken it finds nothing. E_LOST: a host that had some is lost. */
int copies_check(struct rille_session *s, int32_t n, struct copy *const *c);
bool copying_ended(const struct copying *c);
/* Waits for the end: of all of it, or (not whole) of the piece that is on its way, which leaves the error that was said
 * last. What became of it; E_CANCEL: it was not done. */
int copying_end(struct copying **c, bool whole);
/* Brings back what is lost of them. E_LOST; E_IO names what is damaged. */
int copies_mend(struct rille_session *s, int32_t n, struct copy *const *c);
/* Says which part of them was lost with its host, the first of those. */
void copies_tell_lost(struct rille_session *s, int32_t n, struct copy *const *c, struct str *out);
bool copies_gone(struct rille_session *s, int32_t n, struct copy *const *c); /* has nobody some part of them? */

/* ---- recover.c ---- */
void snapshot_free(struct snapshot **p);
/* Is the one that was taken whole by now? Between runs; costs nothing. */
void snapshot_look(struct rille_session *s);

/* ---- pieces.c ---- */
/* Gives v summed over the pieces (v itself outside of micro-batches, or when it is once a batch). */
int trace_accumulate(struct rille_session *s, struct val *v, struct val **out);
/* Of a value that differs from piece to piece: its mean over the pieces, known after all of them. */
int trace_mean(struct rille_session *s, struct val *v, struct val **out);

/* ---- trace.c ---- */
/* In a trace (and not paused): refuses a read, with an error that names what somebody asked for. */
int trace_refuses(struct rille_session *s, const char *what);
void trace_journal(struct rille_session *s, struct rille_tensor *t);
bool tracing(const struct rille_session *s);
int trace_pieces(const struct rille_session *s);
/* By node of the collection: the node of the program that stands for it. */
const int32_t *trace_became(const struct rille_session *s);
/* Returns how many random calls came before in this trace, and counts one more. */
int64_t trace_ordinal(struct rille_session *s);
/* Does the step compute v once for each piece? */
bool trace_per_piece(const struct val *v);
/* Notes a loss whose gradients are wanted; the trace fails in the end if data come nowhere to its devices. */
void trace_loss(struct rille_session *s, const struct val *y);
/* Says of a node just added whether it comes per piece or after accumulation. E_PLAN when it mixes both. */
int trace_classify(struct rille_session *s, struct node *n);
const struct program *graph_program(const struct rille_graph *g);
struct rille_session *graph_session(const struct rille_graph *g);

#endif
