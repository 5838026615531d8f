/* rille.h - the public face of librille: tensors that lie over many devices, and programs on them.
 *
 * A session owns devices, threads, memory, the stored program and its plans. The thread that opened it uses it:
 * functions refuse any other thread, but for rille_interrupt() and rille_doing(). They refuse NULL too, and what
 * belongs to another session; those that return a pointer, a count or nothing then give NULL, 0 or -1, or do nothing,
 * and rille_error() tells why. A session's values are lazy: an operator call adds a node (shape, dtype, layout and
 * placement errors come at once), and a read computes the value.
 *
 * Functions that can fail return 0 or a code > 0; rille_error() then tells what they expected, what they found, and the
 * line of the program that rille_at() named. The caller owns handles (rille_tensor, rille_graph, rille_file...) and
 * gives them back to their free or close function, which also clears the pointer. The session owns placements and
 * layouts; equal ones are the same pointer. Text in a char * is the caller's to free(); const char * is the library's.
 * Axes, ranks and positions count from 0. dtypes are text: f32 f64 bf16 f16 i32 i64 u8 bool. */
#ifndef RILLE_H
#define RILLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined __GNUC__
#pragma GCC visibility push(default)
#endif

#define RILLE_VERSION "0.1.0"
enum { RILLE_DIMS = 8, RILLE_AXES = 6 };

struct rille_session;
struct rille_tensor;
struct rille_place;
struct rille_layout;
struct rille_op;
struct rille_graph;
struct rille_live;

/* ---- session ---- */

struct rille_options {
    const char *devices; /* "cpu:8,meta"; NULL: cpu:8 (or as many as cores, if more) */
    int threads;         /* device threads at most; 0: RILLE_THREADS or the cores */
    const char *bus;     /* "zmq" (NULL), "sim:SEED"; RILLE_BUS */
    uint64_t seed;       /* of random values */
    bool check_ref, check_nan;
    size_t memory_limit;                 /* bytes a device; 0: none */
    const char *collectives;             /* "own" (NULL); "nccl": a library makes them, among GPUs (docs/cuda.md) */
    const char *cost;                    /* file of rille_cost_write(): what moves cost here; NULL: built in */
    const struct rille_workers *cluster; /* workers own the devices; NULL: this process. rille_open() reads it */
};

/* A session over worker processes: their devices count through them in order of rank. rille_open() waits until all are
 * there. */
enum { RILLE_SECRET = 16 };
struct rille_workers {
    int workers;
    const char *bind;     /* where workers join: "tcp://127.0.0.1:5555"; NULL: sockets in a folder of the user's own */
    const char *key_file; /* of rille_key_new(), or a folder; NULL: none, for this host alone */
    const char *root; /* folders, "/a:/b", in which workers that have them too write and read checkpoints; NULL: none */
    /* Starts the process of a rank, which calls rille_worker() with this address and secret (a pipe carries the secret:
     * arguments and environment never hold it); the session asks for the first `started` ranks, and again for those it
     * loses. Gives 0 and *pid, or tells the user why not and gives non-zero. NULL: workers come by themselves. */
    int (*start)(void *arg, int rank, const char *address, const unsigned char secret[RILLE_SECRET], int *pid);
    int started;
    const char *devices; /* that start() gives to each; NULL: it does not say */
    /* Before it asks, the session waits 1.5 s for workers that an earlier one has left; where they have other devices
     * they stay so, and that is an error. */
    bool takes_over;
    const char *(*host)(void *arg, int rank); /* where start() starts it, for messages; NULL, or its answer: here */
    void (*say)(void *arg, const char *text); /* news: whom the session refused; any thread; NULL: to nobody */
    void *arg;
};
int rille_open(const struct rille_options *options, struct rille_session **s);
/* Frees the handles that the caller did not give back: then non-zero, and rille_error() says which. */
int rille_close(struct rille_session **s);

const char *rille_error(void); /* text of the last failure on this thread */
int rille_error_code(void);
const char *rille_error_kind(void); /* "shapes do not fit", ... */
const char *rille_error_line(void); /* "file:line" that rille_at() named for what failed; "": none */

/* Names the line of the user's program for the calls that follow; copies the texts. inside: "nn.Linear" or NULL. */
void rille_at(struct rille_session *s, const char *file, int line, const char *inside);

/* ---- worker processes ---- */

/* By what workers of different hosts speak: tcp; MPI where all workers have its plug-in, until one is lost; MPI, and
 * where it cannot be that is an error. */
enum rille_mpi { RILLE_TCP, RILLE_MPI_IF_ALL, RILLE_MPI };
struct rille_worker_options {
    const char *join, *key_file, *devices;
    const char *collectives;            /* as of struct rille_options; with GPUs of other workers, too */
    const char *root;                   /* folders, "/a:/b", in which it writes and reads checkpoints; NULL: none */
    const char *host;                   /* the host that it says it is on (tests); NULL: the one that it is on */
    int rank;                           /* wanted; -1: any */
    unsigned char secret[RILLE_SECRET]; /* zero: this process came by itself */
    int wait_seconds;                   /* for the coordinator to be there */
    int keep_seconds;                   /* for the next one when that is gone; 0: the worker ends then */
    bool check_ref, check_nan;
    enum rille_mpi mpi;            /* between hosts */
    void (*say)(const char *text); /* news, of one worker of the job; any thread; NULL: to nobody */
    void (*joined)(void);          /* a coordinator has let it in; NULL: nobody asks */
    void (*die)(int status);       /* ends the process (_exit) where a kernel does not come back; NULL: waits for it */
};
/* Runs what a controller gives it until the job ends: 0; else rille_error() says why the controller refused it or cut
 * it off. */
int rille_worker(const struct rille_worker_options *options);
/* Says for which library the MPI plug-in is, "Open MPI 4.1.4"; non-zero: why this process cannot use it. */
int rille_mpi_library(const char **out);
/* A worker that ends by itself: removes the sockets at that address, if a controller that was killed left them. */
void rille_sweep(const char *join);
/* Writes the address of this host by which it reaches another, one of IPv6 in brackets; non-zero: it does not. */
int rille_own_address(const char *host, char out[64]);
int rille_address(const char *text); /* non-zero: what is wrong with an address */
/* The same for the list of a worker's devices. here: of a worker in this process, whose driver is asked for GPUs. */
int rille_devices(const char *text, bool here);
int rille_key_new(char **text); /* what a key file holds */
/* What the files of a folder of keys hold: text[0] the coordinator's, text[1 + r] that of rank r, whose key stands for
 * that rank; the texts are the caller's to free. Non-zero: so many workers... */
int rille_key_new_ranks(int workers, char **text);
enum { RILLE_KEY_NAME = 24 };
int rille_key_name(int rank, char out[RILLE_KEY_NAME]); /* of such a file; rank -1: the coordinator's */

struct rille_worker_info {
    int rank, pid, cores; /* cores, bytes: of its host */
    uint64_t bytes;
    char host[64], devices[256], state[16]; /* devices: "cpu:2 cpu:3" */
    double heartbeat;                       /* seconds since the last one */
    int64_t acts;                           /* in all runs */
    double busy;                            /* seconds for which its devices had work in them, all together */
    double slow; /* how many times as long its acts take as those of workers that do the same; 0: not much longer */
};
/* Describes the i-th worker; false: there is none. Without a cluster this process is the only one. */
bool rille_worker_info(struct rille_session *s, int i, struct rille_worker_info *out);
bool rille_in_cluster(struct rille_session *s);
bool rille_was_lost(void); /* was the last failure on this thread the loss of a worker? */

/* rille_snapshot() keeps all variables, their gradients and the counters of random values as they are now, and counts
 * it: *number. On several hosts a second copy goes to others while the next runs compute; until it is there the one
 * before is the one that outlives a host (the first one waits). The next snapshot waits for that copy. keep: 1, or 2:
 * the one before it stays as well, which takes as much memory again. *oldest: of those that are kept now.
 * rille_recover() goes back to the latest that is left, *number. It first replaces lost workers, or gives their devices
 * to those that are left (workers: how many there are to be; 0: as many as before). Handles and graphs stay valid.
 * *why: NULL, or why a later one, which was damaged or lost, was passed over; valid until the next call. */
int rille_snapshot(struct rille_session *s, int keep, int64_t *number, int64_t *oldest);
bool rille_has_snapshot(struct rille_session *s);
int rille_recover(struct rille_session *s, int workers, int64_t *number, const char **why);

/* Waits until all that runs have begun is done, and fails as that does. A run on one device with streams (late, cuda)
 * may return before: the device works on, and a failure is told by who waits, with the line whose operator failed.
 * Reading and saving wait by themselves. "Interrupted" ends the waiting, not the work. Call it before rille_close(),
 * which tells no failure of work. */
int rille_wait(struct rille_session *s);

/* Requests cancellation of the run in progress: it fails with "interrupted" at its next act, and gives its random
 * numbers back. A run that has begun to update variables finishes. A planner's search ends too. Safe in a signal
 * handler, and from any thread. */
void rille_interrupt(struct rille_session *s);
/* What texts and files that take long ask on the calling thread every few milliseconds: after a yes they fail with
 * "interrupted", and until they have, it is the answer. NULL: nobody. */
void rille_stop_when(bool (*wanted)(void *arg), void *arg);
/* Writes what the run in progress is doing, "matmul (a.lua:3)", "a run" where that is not seen from here, or the work
 * of a device with streams that somebody waits for, also after its run has returned, "matmul (a.lua:3) on late:0"; ""
 * for nothing. As free to call as rille_interrupt(). */
void rille_doing(struct rille_session *s, char *text, size_t size);
/* Writes what one device thread does, or waits for on its devices, in this process or a worker of its host; false:
 * there is no such thread. In a signal handler, or on the session's thread. */
bool rille_doing_thread(struct rille_session *s, int thread, char *text, size_t size);
/* Writes what a device thread of this process that does nothing in a run waits for, "matmul (a.lua:3) waits for relu
 * (a.lua:2) on cpu:0", with "to read" behind it where that reads the registers of the first; "" for nothing. Else as
 * rille_doing_thread(). */
bool rille_waiting_thread(struct rille_session *s, int thread, char *text, size_t size);
void rille_seed(struct rille_session *s, uint64_t seed); /* restarts the count of random calls */
/* The random state: sessions of the same seed and count draw the same numbers from then on, compiled or not. */
void rille_random_state(struct rille_session *s, uint64_t *seed, uint64_t *count);
void rille_random_restore(struct rille_session *s, uint64_t seed, uint64_t count);

/* What moves cost on this machine: it decides whether they go at once or in hops, and how sums are made between hosts.
 * And what a device computes while others do: planners reckon with it. rille_calibrate() alone measures, but for what
 * goes to another host: it takes a second or two, on four cpu devices, and changes nothing; the options of a session
 * name the file that rille_cost_write() writes. */
struct rille_cost {
    double alpha_ns;          /* a message */
    double beta_ns_per_byte;  /* a byte received */
    double gamma_ns_per_byte; /* a byte that a rank reads to combine */
    double copy_ns_per_byte;  /* a byte of the rank's own that it copies */
    double hop_ns;            /* a hop, whatever it moves */
    double wire_ns;           /* what goes to another host, until it is there */
    double wire_ns_per_byte;  /* a byte of it */
    double staging_bytes;     /* a rank holds at most so much between hops; 0: no limit */
    double flops_per_ns;      /* floating-point operations of products */
    double bytes_per_ns;      /* read and written by what is not a product */
};
void rille_cost(struct rille_session *s, struct rille_cost *out);
int rille_calibrate(struct rille_session *s, struct rille_cost *out);
int rille_cost_write(const char *path, const struct rille_cost *c);

/* Devices of a kind that the session has; -1 for an unknown kind, INT_MAX for meta. */
int rille_device_count(struct rille_session *s, const char *kind);
const char *rille_default_kind(struct rille_session *s);

struct rille_counters {
    int64_t nodes;      /* operator calls added, ever */
    int64_t compiles;   /* plans made */
    int64_t cache_hits; /* plans found */
    int64_t runs;
    int64_t acts;
    int64_t messages;        /* through the rings of device threads */
    int64_t thread_messages; /* of those, between threads */
    int64_t allocations;     /* buffers that pools asked of the host */
    int64_t run_allocations; /* by Rille's own code on device threads between START and END: 0 */
    int64_t live_values;     /* values and nodes now stored */
    int64_t live_nodes;
    int64_t live_bytes; /* in buffers, over all devices */
    int64_t arena_bytes;
    int64_t plans;        /* in the cache */
    int64_t plan_bytes;   /* of host memory, about */
    int64_t generation;   /* rille_generation() raises it: older compiled steps do not fit */
    int64_t cuda_graphs;  /* CUDA graphs that this process made */
    int64_t cuda_replays; /* and how often one was launched */
};
void rille_count(struct rille_session *s, struct rille_counters *out);
/* Bytes that only a collection of the caller's garbage would free (for lua_gc); a hint. */
int64_t rille_external_bytes(struct rille_session *s);

struct rille_device_info {
    const char *kind;
    int device, thread; /* thread: as in rille_doing_thread(); -1: on another host */
    int64_t live_bytes, arena_bytes, peak_bytes, limit_bytes;
};
/* Describes the i-th device that the session has used; false: there is none. */
bool rille_device_info(struct rille_session *s, int i, struct rille_device_info *out);
struct rille_gpu_info {
    char name[256];
    int64_t memory;    /* bytes */
    int major, minor;  /* compute capability */
    char kernels[512]; /* who compiles them and where they are kept, or why not */
};
/* Describes the GPU that cuda:device lies on. */
int rille_gpu_info(struct rille_session *s, int device, struct rille_gpu_info *out);

/* ---- placements and layouts ---- */

int rille_place(struct rille_session *s, const char *kind, int naxis, const int32_t *sizes, const int32_t *ranks,
                const struct rille_place **out);
const char *rille_place_kind(const struct rille_place *p);
int rille_place_axes(const struct rille_place *p, int32_t sizes[RILLE_AXES]); /* number of axes */
int rille_place_ranks(const struct rille_place *p, const int32_t **ranks);    /* number of ranks, mesh order */
char *rille_place_text(const struct rille_place *p);

/* Takes one text for each mesh axis ("S(0)", "B", "P(max)"), or a single text of the whole ("(B, S(0))"). order: NULL,
 * or every mesh axis once. ndim: of the tensor it is for: it tells what S(-1) means and refuses S beyond it; -1: not
 * known. */
int rille_layout(struct rille_session *s, const struct rille_place *p, int n, const char *const *sbp, const int *order,
                 int ndim, const struct rille_layout **out);
const struct rille_place *rille_layout_place(const struct rille_layout *l);
const char *rille_layout_text(struct rille_session *s, const struct rille_layout *l); /* interned */

/* ---- operators ---- */

struct rille_operand_info {
    const char *name;
    bool number, optional, list, hidden;
};
enum rille_attr_kind { RILLE_INT = 1, RILLE_FLOAT, RILLE_BOOL, RILLE_TEXT, RILLE_INTS, RILLE_DTYPE };
struct rille_attr_info {
    const char *name;
    enum rille_attr_kind kind;
    bool required;
    const char *words; /* RILLE_TEXT: the words allowed, separated by '|' */
    const char *doc;
};
const struct rille_op *rille_op_find(const char *name);
const struct rille_op *rille_op_at(int i); /* in order of name; NULL past the end */
const char *rille_op_name(const struct rille_op *op);
int rille_op_operands(const struct rille_op *op, struct rille_operand_info out[16]);
int rille_op_attrs(const struct rille_op *op, struct rille_attr_info out[16]);
int rille_op_results(const struct rille_op *op);
bool rille_op_hidden(const struct rille_op *op); /* not for users */
bool rille_op_source(const struct rille_op *op); /* makes a tensor from no tensor: rille_create */
char *rille_op_help(struct rille_session *s, const struct rille_op *op); /* its page */

enum rille_arg_kind { RILLE_ARG_NONE, RILLE_ARG_TENSOR, RILLE_ARG_INT, RILLE_ARG_FLOAT, RILLE_ARG_LIVE };
struct rille_arg {
    enum rille_arg_kind kind;
    union {
        struct rille_tensor *tensor;
        int64_t i;
        double f;
        struct rille_live *live;
    };
};
struct rille_attr {
    const char *name;
    enum rille_attr_kind kind;
    int64_t i;        /* INT, BOOL */
    double f;         /* FLOAT */
    const char *text; /* TEXT, DTYPE */
    int n;            /* INTS */
    const int64_t *list;
};
/* Calls an operator. args: operands in order (trailing ones may be missing when they are optional). out has room for
 * rille_op_results() handles. A FLOAT takes a whole number too, INTS a single INT. */
int rille_call(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args, int nattrs,
               const struct rille_attr *attrs, struct rille_tensor **out);
/* Says how often the next call cuts each axis of each tensor among its operands: a constraint on its layouts that the
 * choice and a planner obey. pieces: operand by operand, naxis[i] numbers each. */
int rille_strategy(struct rille_session *s, int noperand, const int *naxis, const int32_t *pieces);
/* In place: leaf, a variable, takes the first result as rille_tensor_assign() has it; no gradient passes. Refuses a
 * result of a wider class, which leaf's dtype would cut (a float for an integer, an integer for a bool). */
int rille_call_into(struct rille_session *s, struct rille_tensor *leaf, const struct rille_op *op, int nargs,
                    const struct rille_arg *args, int nattrs, const struct rille_attr *attrs);
/* Calls a source operator ("zeros", "randn", "arange"...) for a leaf of this shape, dtype (NULL: the operator's own)
 * and layout (NULL: whole on device 0 of the default kind). numbers: its operands. */
int rille_create(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args, int ndim,
                 const int64_t *shape, const char *dtype, const struct rille_layout *layout, struct rille_tensor **out);

/* ---- tensors ---- */

/* Copies host values into a leaf: the global value, dense, row-major, of dtype. */
int rille_tensor_from_host(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape, const void *data,
                           const struct rille_layout *layout, struct rille_tensor **out);
void rille_tensor_free(struct rille_tensor **t);
struct rille_tensor *rille_tensor_hold(struct rille_tensor *t); /* one more handle on the same tensor */

const char *rille_tensor_dtype(const struct rille_tensor *t);
int rille_tensor_ndim(const struct rille_tensor *t);
const int64_t *rille_tensor_shape(const struct rille_tensor *t);
int64_t rille_tensor_numel(const struct rille_tensor *t);
size_t rille_dtype_bytes(const char *dtype); /* 0: unknown */
const struct rille_layout *rille_tensor_layout(const struct rille_tensor *t);
bool rille_tensor_is_leaf(const struct rille_tensor *t);
bool rille_tensor_has_value(const struct rille_tensor *t); /* in memory; else who reads it has it computed */
bool rille_tensor_requires_grad(const struct rille_tensor *t);
/* Of leaves of a float dtype only. Compiled steps that hold it fit where this is as it was when they were traced. */
int rille_tensor_set_requires_grad(struct rille_tensor *t, bool on);
const char *rille_tensor_name(const struct rille_tensor *t); /* NULL: none */
void rille_tensor_set_name(struct rille_tensor *t, const char *name);

/* Computes the values of these tensors in one run, but for those that have theirs. */
int rille_eval(struct rille_session *s, int n, struct rille_tensor *const *t);
/* Writes the global value to out: dense, row-major, numel * dtype_bytes bytes. */
int rille_tensor_read(struct rille_tensor *t, void *out);
/* The same of the elements from start[i] on and before stop[i] along each axis i; asks only their owners. */
int rille_tensor_read_part(struct rille_tensor *t, const int64_t *start, const int64_t *stop, void *out);
/* The value of a tensor of one element. Integers and bools in *i with *is_int. */
int rille_tensor_item(struct rille_tensor *t, double *f, int64_t *i, bool *is_int);
/* The part at rank, as a tensor on that device alone. */
int rille_tensor_to_local(struct rille_tensor *t, int rank, struct rille_tensor **out);
/* Tells the rank, local shape and offset of mesh position pos. */
int rille_tensor_shard(const struct rille_tensor *t, int pos, int *rank, int64_t *shape, int64_t *offset);

int rille_tensor_to_global(struct rille_tensor *t, const struct rille_layout *l,
                           struct rille_tensor **out); /* differentiable */
/* As rille_tensor_to_global; its gradient goes back to where t lies (whole where t is partial) before anything takes
 * it. */
int rille_tensor_pin(struct rille_tensor *t, const struct rille_layout *l, struct rille_tensor **out);
int rille_tensor_detach(struct rille_tensor *t, struct rille_tensor **out);
/* The addends of a partial tensor, one behind the other along a new first dimension; and a partial tensor of such.
 * Addends of bf16 and f16 are f32: dtype is that of their sum (NULL: theirs). */
int rille_tensor_parts(struct rille_tensor *t, struct rille_tensor **out);
int rille_tensor_of_parts(struct rille_tensor *parts, const struct rille_layout *layout, const char *dtype,
                          struct rille_tensor **out);
int rille_tensor_clone(struct rille_tensor *t, struct rille_tensor **out);
/* Says whether a planner may choose the leaf's layout (sbp = "auto"): the first planned step does that reads it or is
 * given it as an argument, and the leaf keeps it. Clears nothing else; to_global_ ends it. */
int rille_tensor_auto(struct rille_tensor *leaf, bool on);
/* In place: the leaf takes src's value (cast to its dtype, boxed to its layout; shapes must broadcast to it). Results
 * of the old value keep it. */
int rille_tensor_assign(struct rille_tensor *leaf, struct rille_tensor *src);
/* The same for n leaves, all of them or none; *wrong (unless NULL) becomes the index of the one that could
 * not. What looks at data that may be wrong, as an embedding does at ids, is computed at once, to that end. */
int rille_tensors_assign(struct rille_session *s, int n, struct rille_tensor *const *leaf,
                         struct rille_tensor *const *src, int *wrong);
/* to_global_: the leaf changes its layout, and its gradient goes with it; rille_tensor_set_grad_layout of before is
 * gone, and older compiled steps do not fit. */
int rille_tensor_relayout(struct rille_tensor *leaf, const struct rille_layout *l);
/* The same for n leaves, all of them or none; *wrong (unless NULL) becomes the index of the one that could
 * not. */
int rille_tensors_relayout(struct rille_session *s, int n, struct rille_tensor *const *leaf,
                           const struct rille_layout *const *l, int *wrong);
/* n leaves change their dtype, and their gradients with them, all of them or none; *wrong as above. Results of the old
 * values keep them; older compiled steps do not fit. */
int rille_tensors_retype(struct rille_session *s, int n, struct rille_tensor *const *leaf, const char *dtype,
                         int *wrong);

/* ---- gradients ---- */

/* Adds d t / d leaf to the grad of each leaf with requires_grad; t has one element. */
int rille_tensor_backward(struct rille_tensor *t);
/* Gives d y / d x[i] in out[i] (zeros where y does not depend on it), differentiable again. y may be of any shape: its
 * sum. */
int rille_tensor_grad_of(struct rille_tensor *y, int n, struct rille_tensor *const *x, struct rille_tensor **out);
/* NULL when there is none; a new handle. */
struct rille_tensor *rille_tensor_grad(struct rille_tensor *t);
int rille_tensor_set_grad(struct rille_tensor *t, struct rille_tensor *g); /* NULL clears */
/* backward deposits the leaf's gradient in this layout, of the leaf's placement; NULL: in one that suits the leaf's
 * own. A new layout of the leaf forgets it. */
int rille_tensor_set_grad_layout(struct rille_tensor *t, const struct rille_layout *l);
bool rille_grad_mode(struct rille_session *s, bool on); /* returns what it was */

/* While on, calls keep nothing for the backward pass, which computes their results again, to the same bits, from what
 * the region began with; a region is from on to off. Returns what it was; on within on changes nothing. */
bool rille_recompute(struct rille_session *s, bool on);
bool rille_recomputes(const struct rille_session *s); /* is it on? */

/* From now on products (matmul, conv2d, attention) take f32 operands in this dtype of 16 bits, and sums, norms, losses
 * and powers take operands of 16 bits as f32; NULL: all take everything as it is. A trace keeps what was on when it was
 * made. */
int rille_autocast(struct rille_session *s, const char *dtype);
const char *rille_autocast_dtype(const struct rille_session *s); /* NULL: none */

/* While on, products of f32 matrices and convolutions on GPUs may round their factors to TF32 (a sign, 8 bits of
 * exponent, 10 of fraction), which tensor cores multiply; sums stay f32. Off at first; a trace keeps what was on when
 * it was made. Has no effect on a cpu. Returns what it was. */
bool rille_allow_tf32(struct rille_session *s, bool on);

/* Adds an update (optimisers): op writes its first results over its first operands, which must be leaves; rille_step()
 * runs all of one step together. */
int rille_update(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args,
                 int nattrs, const struct rille_attr *attrs);
/* Computes the updates since the last step, with their leaves' gradients, and the values that backward began with. When
 * it fails, the variables are as before; gradients that the data made impossible (a label out of range) are gone,
 * others stay. */
int rille_step(struct rille_session *s);
/* Forgets the updates since the last step: their variables are as before. */
void rille_step_undo(struct rille_session *s);

/* ---- numbers that each call of a compiled step asks for again ---- */

typedef int rille_live_fn(void *arg, double *out); /* non-zero: it failed, and the run does not start */
int rille_live_new(struct rille_session *s, rille_live_fn *fn, void (*drop)(void *arg), void *arg,
                   struct rille_live **out);
/* The session calls undo when the run that asked for the number did not happen: it failed, or an interrupt ended it. */
void rille_live_undo(struct rille_live *l, void (*undo)(void *arg));
/* The step that is being traced asks l at each call, also where nothing reads it. E_STATE: none is. */
int rille_live_ask(struct rille_live *l);
void rille_live_free(struct rille_live **l);

/* ---- graphs: compiled steps ---- */

struct rille_graph_options {
    int micro_batches; /* 0 means 1 */
    const char
        *schedule; /* NULL: "1f1b"; else a name, of which an unknown one's error lists all ("gpipe", "zb-v", "auto") */
    int lag;       /* 0: of the schedule */
    double memory; /* above 0: the schedule of the least bubble in that, of two pieces or more, and no other is given;
                      up to 16: a factor of what 1F1B holds for backward on the device that holds most; above: bytes a
                      device */
    /* What a search for a schedule goes by; NULL: reckoned. The caller keeps them until the step is made. */
    const struct rille_chart_costs *costs;
    bool split_backward, recompute;
    bool recompute_auto; /* parts of stages, where it fits no other way, or is faster so in what memory there is */
    int zero;
    const struct rille_place
        *offload; /* where what backward reads lies meanwhile, and optimisers' state; NULL: nowhere */
    int prefetch; /* so many values are back from there, or gathered again (zero 3), before they are read; 0: 1 */
    /* Who lays the step out: NULL, its lines; "optimal", "propagate", "recursive", "greedy". */
    const char *auto_parallel;
    int64_t memory_limit; /* bytes a device, which a planner and a search for a schedule keep to, and over which another
                             plan is refused; 0: none */
    double time_limit; /* seconds of one core, as it counts them (on every machine the same plan; four times as many by
                          the clock end it too), that the planner may search; 0: 1, or 0.1 for the bound alone of a
                          choice that needs no search ("propagate", "greedy", without a memory limit) */
    bool again;        /* the caller traces again whenever rille_trace_end gives no graph */
};
/* E_ARG: an option is not one of those there are. rille_trace_begin() checks too. */
int rille_graph_check(const struct rille_graph_options *o);
/* Tracing: begin, build the program on the inputs that begin gives (one piece each), end with its results. Between
 * begin and end a trace records every call and runs nothing; reading a value is an error. abort after a failure:
 * versions and gradients are as before.
 *
 * A planned step writes some operators with others, as the chosen layouts ask. With options.again rille_trace_end()
 * then succeeds and gives NULL, three times at most: begin and end once more, with the same calls in between; the last
 * end gives the best. */
int rille_trace_begin(struct rille_session *s, const struct rille_graph_options *o, int nin,
                      struct rille_tensor *const *in, struct rille_tensor **piece);
int rille_trace_end(struct rille_session *s, int nout, struct rille_tensor *const *out, struct rille_graph **g);
void rille_trace_abort(struct rille_session *s);
bool rille_tracing(const struct rille_session *s);
bool rille_planning(const struct rille_session *s); /* and is it a planned step? */
/* While paused, calls are as outside a trace (an optimiser makes its state). Returns what it was. */
bool rille_trace_pause(struct rille_session *s, bool pause);
/* t; in a trace with micro-batches its mean over them, known after the last: for what changes once a step. */
int rille_trace_mean(struct rille_tensor *t, struct rille_tensor **out);
/* Does g fit these inputs (types, layouts; one that is "auto" may lie anywhere, if one was at the trace), the captured
 * variables, their gradients and the session's generation? */
bool rille_graph_fits(const struct rille_graph *g, int nin, struct rille_tensor *const *in);
/* Runs it. out has room for rille_graph_results() handles. Inputs that are "auto" lie as it reads them from then on. */
int rille_graph_run(struct rille_graph *g, int nin, struct rille_tensor *const *in, struct rille_tensor **out);
int rille_graph_results(const struct rille_graph *g);
void rille_graph_free(struct rille_graph **g);
/* Something changed that traces depend on (train/eval, to_global_): graphs traced before do not fit any more. */
void rille_generation(struct rille_session *s);

struct rille_device_stats {
    const char *kind;
    int device;
    double busy, idle; /* seconds of the last run */
    int64_t bytes_in, bytes_out, peak_memory;
    const char *tenants; /* the largest results among its registers when these hold most, as text; "": none */
};
struct rille_stats {
    double step_time, ideal; /* seconds; ideal: if as many devices as can act at once always did */
    double bubble;           /* by how large a share of step_time it was longer than that */
    int nhost;               /* of the step's devices; at most 64 of them are told of */
    int ndevice;
    struct rille_device_stats *device; /* the graph's; the next rille_graph_stats() writes over them */
};
int rille_graph_stats(const struct rille_graph *g, struct rille_stats *out);
/* Writes the times of the acts of the last timed run on all hosts as Chrome trace JSON: the session times the first
 * three runs, and all from the first call of this or of rille_graph_chart() on. Where it has timed none yet, path gets
 * those of the next run when it ends. */
int rille_graph_timeline(struct rille_graph *g, const char *path);

/* What a step does when: its plan on a virtual clock, each device working by itself, and its last timed run. */
struct rille_chart_span { /* acts of a device on one piece, one after the other */
    int device, stage;    /* number among the chart's devices; virtual stage */
    int piece;            /* -1: once a batch */
    const char *what;     /* "forward", "backward", "weight", "move", "update" */
    double begin, end;    /* seconds from the first act on */
};
struct rille_chart_stall {
    int stage;
    double share;     /* of the time of the stage's devices */
    const char *text; /* "stage 1 waited 18 % for a register of matmul (train.lua:14)" */
};
enum { RILLE_CHART_POINTS = 256 };
struct rille_chart_run {
    double time, bubble; /* seconds; share of their time that devices which compute do not act */
    int nspan, nstall;   /* nspan 0: there was no such run */
    struct rille_chart_span *span;
    struct rille_chart_stall *stall; /* the longest first */
    double *busy;                    /* by device */
    int64_t *memory;                 /* [device][point]: most bytes in registers, in equal parts of the time */
};
struct rille_chart_device {
    const char *kind;
    int device, thread;
    int64_t arena; /* bytes for all registers and scratch */
};
struct rille_chart {
    int ndevice, nstage, nthread, pieces;
    int ncompute; /* devices that compute: others hold what these put aside */
    int natonce;  /* so many of them can act at once: some share threads */
    struct rille_chart_device *device;
    bool split;    /* gradients of weights may wait */
    int lag;       /* of its credits; 0: as many as pieces */
    bool reckoned; /* from the built-in rates: there is no timed run, and no costs are given */
    double forward, backward, weight, moving; /* seconds of a piece on a device of a stage, planned */
    double bound;                             /* no schedule of these costs has a smaller bubble */
    int64_t activations, activations_1f1b;    /* bytes that a device holds for backward at most; with 1F1B */
    double again;                             /* of what forward computes, how much backward computes again */
    struct rille_chart_run planned, measured;
    int64_t call, ncall; /* which call of the step was measured, from 1 on, and how many there were */
    void *memory;        /* all of the above */
};
/* Seconds of one piece on each device of a stage (move: of a part of a move; update: of all that a device does once a
 * batch). */
struct rille_chart_costs {
    double forward, backward, weight, move, update;
    double jitter; /* by so much of its cost each act takes longer or shorter, drawn with the seed */
    int64_t seed;
};
/* costs NULL: as measured, or without a timed run as the built-in rates have it. Times all runs from then on. */
int rille_graph_chart(struct rille_graph *g, const struct rille_chart_costs *costs, struct rille_chart **out);
void rille_chart_free(struct rille_chart **c);

/* The actors of a step's plan, or (g NULL) of the plan that ran last: what each did in its last run. */
struct rille_actor {
    const char *name, *kind; /* operator; of a move its name; "compute", "box", ... */
    const char *device_kind;
    int device, thread, stage;
    const char *phase;                  /* "forward", "backward", "weight", "batch" */
    int64_t begun, acts, pieces, bytes; /* acts begun, of a whole run; of its registers */
    const char *state;                  /* "done", "ready", "waits for matmul (a.lua:3) on cpu:1" */
    const char *line;                   /* "a.lua:3", "" */
    int nhost, nshown;                  /* hosts of the plan's devices; those whose actors rille_actor() tells of */
};
/* Describes the i-th actor; its texts are good until the next call. false: there is none. */
bool rille_actor(struct rille_session *s, struct rille_graph *g, int i, struct rille_actor *out);

/* ---- introspection ---- */

struct rille_explain_op {
    const char *name;
    char *line; /* "file:3" */
    int ninput, noutput;
    const char **inputs, **outputs; /* layouts as text */
    struct rille_explain_result {   /* of each output: its shape, and the most that a rank holds of it */
        int ndim;
        int64_t shape[RILLE_DIMS], part[RILLE_DIMS];
    } * results;
    int ncandidate;
    struct rille_explain_candidate {
        const char **inputs, **outputs;
        int64_t bytes; /* moved now */
        int64_t owed; /* what it adds to the debt: bytes that partial results will take at least to be whole or split */
        int64_t regret, regret_high; /* of a planned step: how many ns more the whole would cost, at least and at most
                                      * (INT64_MAX: not known); -1: not planned */
        double share; /* the busiest rank's part of the work that one device alone would do: 1 when each does all */
    } * candidates;
    /* Of a planned step, at the first operator of a call that may be made in parts where its axis is cut: "softmax"; is
     * it? And what it cost in the rounds of the trace that made it so or in one piece, with its gradient and what is
     * nearer to it than to other calls. NULL elsewhere, and where there were not both. */
    const char *call;
    bool in_parts;
    int64_t parts_ns, piece_ns;
};
struct rille_explain_boxing {
    const char *from, *to; /* "S(0) on cpu[0, 1]" is placement_from, ... */
    const struct rille_place *from_place, *to_place;
    int ndim;
    int64_t shape[RILLE_DIMS];
    const char *dtype;
    int64_t bytes, bound;
    int nrank;
    const int32_t *rank;
    const int64_t *received; /* of more than 64 "meta" ranks, each axis above three doubling them: nrank is 0 */
    const char *name;        /* "all-gather", ... */
    const char *steps;       /* text; of more than 8 "meta" ranks none */
    const char *handed_on;   /* of a sum between hosts: ", handed on in 2 legs, 4 chunks: 95.0 us between hosts, not
                              * 160.0" by owners that read all addends; else "" */
    const char *forced_by;   /* "matmul (a.lua:3) -> relu (a.lua:4)" or NULL */
    int64_t times;           /* how often a step does it */
    bool of_leaf;            /* it moves a variable, which no call computes */
    int ncandidate;
    struct rille_explain_path { /* ways to carry it out: a run takes the first */
        const char *name;       /* its hops: "all-gather, all-gather" */
        int nhop;
        const char **layouts;   /* where each hop ends */
        int64_t bytes, staging; /* over all ranks; what the largest rank holds between hops */
        double ns;              /* as the cost parameters have it */
    } * candidates;
    const char *text; /* all of it */
};
/* Of a step that is planned by "propagate": a value has its layout from one hint, and is moved for a reader that has
 * its own from another. Hints are arguments, variables, moves and strategies, operators without a choice, and results
 * that must lie as they do; the line of what no call made is that where it is read first. */
struct rille_explain_meeting {
    const char *op, *line; /* the reader; "to_global" brings a result where it must lie */
    struct rille_explain_meeting_hint {
        const char *what, *line; /* "variable f32{64, 64} S(1)", "a.lua:3" */
    } hint[2];                   /* the value's, and its reader's */
    const char *from, *to;
    int64_t bytes, ns; /* of the move, as often as a step does it; ns as the planner reckons */
};
struct rille_explain {
    int nop, nboxing, nmeeting;
    struct rille_explain_op *ops;
    struct rille_explain_boxing *boxing;
    struct rille_explain_meeting *meetings; /* NULL: not planned by "propagate" */
    int64_t bytes;                          /* of all moves, as often as a step does them */
    int naxis;                              /* of rille_graph_whatif(), the cluster's; else 0 */
    int64_t axis_bytes[RILLE_AXES]; /* by mesh axis: of moves whose slowest links are that axis's; their sum is bytes */
    bool planned;                   /* the next seven hold */
    int64_t cost, bound; /* nanoseconds of all that is done; no plan of these operators costs less than bound */
    int64_t time;        /* nanoseconds of a step: cost, but that stages work on pieces at the same time */
    double gap;          /* (cost - bound) / cost */
    double search;       /* seconds of one core that the search took */
    int64_t peak;        /* bytes on the fullest device, with its scratch: by the plan; whatif: as reckoned */
    int64_t scratch;     /* that of kernels: what the one that wants most takes */
    char *text;
    void *memory; /* all of the above */
};
int rille_explain(struct rille_session *s, int n, struct rille_tensor *const *t, struct rille_explain **out);
int rille_graph_explain(struct rille_graph *g, struct rille_explain **out);
/* What each thing that the user laid out - a to_global, a strategy, a variable, but for what follows another - makes a
 * planned step cost more: at least and at most so many nanoseconds. Plans once without each, a quarter of a second
 * long. */
struct rille_hint {
    const char *what, *line;
    int64_t price, price_high;
};
struct rille_hints {
    int n;
    struct rille_hint *hint;
    void *memory; /* all of the above */
};
int rille_graph_hints(struct rille_graph *g, struct rille_hints **out);
void rille_hints_free(struct rille_hints **h);
/* Writes what proves the plan of a planned step; rille_certificate_check() checks such a file, sharing nothing with the
 * search: 0, and in *said what it proves, or E_PLAN. */
int rille_graph_certify(struct rille_graph *g, const char *path);
int rille_certificate_check(const char *path, char **said);
/* Lays the step out anew for a cluster that is not here, on a mesh of meta devices. With as many axes as the step's own
 * the layouts that the program asks for hold; with another number all are free. */
struct rille_cluster {
    int naxis;
    int32_t mesh[RILLE_AXES];
    double bandwidth[RILLE_AXES]; /* bytes a second that a rank receives over each axis: 1000 at least; 0: as here */
    double latency[RILLE_AXES];   /* seconds a message: from 0 to 1 */
    bool has_latency;             /* false: as here */
    double flops;                 /* a second, of each device; 0: as here */
    int64_t memory;               /* bytes of each; 0: no limit */
};
int rille_graph_whatif(struct rille_graph *g, const struct rille_cluster *c, struct rille_explain **out);
void rille_explain_free(struct rille_explain **e);
/* One move without a tensor. */
int rille_boxing(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                 const struct rille_layout *from, const struct rille_layout *to, struct rille_explain **out);
/* The plan as text: tasks, registers, memory; equal ranks collapsed. physical: offsets and scratch instead. */
int rille_plan(struct rille_session *s, int n, struct rille_tensor *const *t, bool physical, char **out);
int rille_graph_plan(struct rille_graph *g, bool physical, char **out);

/* Pictures: the tensor cut over its mesh, for a terminal of so many columns (color: one a rank) and as an SVG document;
 * and what a tensor of this type goes through from one layout to another. */
int rille_tensor_show(struct rille_tensor *t, int columns, bool color, char **out);
int rille_tensor_show_svg(struct rille_tensor *t, char **out);
int rille_show_move(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                    const struct rille_layout *from, const struct rille_layout *to, int columns, bool color,
                    char **out);
int rille_show_move_svg(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                        const struct rille_layout *from, const struct rille_layout *to, char **out);

/* ---- files ---- */

/* A text of n bytes as a file, whole or not at all: one that is there stays until the new one is complete. who: what
 * stands before the path in an error. Any thread. */
int rille_text_write(const char *who, const char *path, const char *text, size_t n);
/* All of a plain file of at most `most` bytes; *text, which ends in a zero, is the caller's to free(). Any thread. */
int rille_text_read(const char *path, int64_t most, char **text, size_t *n);

/* Named tensors in a file or a folder of shards, open for reading. rille_file_open() reads and checks the whole head; a
 * load reads values, for each rank those of its own shard alone. format: "safetensors", "npy", "npz", "gguf", "llmc";
 * NULL: as the end of the path tells. */
struct rille_file;
int rille_file_open(struct rille_session *s, const char *path, const char *format, struct rille_file **out);
void rille_file_close(struct rille_file **f);
struct rille_file_entry {
    const char *name, *dtype; /* dtype: where Rille has none such, the file's word; rille_file_load() refuses it */
    int ndim;
    const int64_t *shape;
};
/* Describes the i-th tensor, in order of name; false past the end. */
bool rille_file_entry(const struct rille_file *f, int i, struct rille_file_entry *out);
int rille_file_find(const struct rille_file *f, const char *name); /* -1: it is not there */
/* Tells what else the file says, in its order; false past the end. */
bool rille_file_text(const struct rille_file *f, int i, const char **key, const char **value);
/* Loads it as a leaf. dtype: what floats become; NULL: the file's. */
int rille_file_load(struct rille_file *f, int i, const char *dtype, const struct rille_layout *layout,
                    struct rille_tensor **out);
/* Of each axis the positions from[axis] to to[axis], this one excluded; both NULL: all of it. The first `skip` axes, of
 * which it has one position each, are none of the leaf's. */
int rille_file_load_window(struct rille_file *f, int i, const int64_t *from, const int64_t *to, int skip,
                           const char *dtype, const struct rille_layout *layout, struct rille_tensor **out);
/* Loads the one tensor of a .npy file. */
int rille_load_npy(struct rille_session *s, const char *path, const struct rille_layout *layout,
                   struct rille_tensor **out);

/* Writes tensors by name: to path.safetensors, to path.npy (one, whatever its name), or, where path is a folder, to
 * shards with an index, replacing those of an earlier save. One file is there whole or not at all. */
struct rille_save_options {
    int nmetadata;
    const char *const *metadata; /* key, value, key, value ... */
    int64_t shard_bytes;         /* of a folder; 0: 5 GB */
    bool digest;                 /* safetensors: with a digest of all bytes, for rille_verify() */
    int nold;
    const char *const *old; /* files to remove once the new one is there */
};
struct rille_saving; /* a save in progress, on a thread of its own: of the values at the call, whatever follows */
/* in_background NULL: returns when all is written. */
int rille_save(struct rille_session *s, const char *path, int n, const char *const *name, struct rille_tensor *const *t,
               const struct rille_save_options *o, struct rille_saving **in_background);
/* Fails where a save to path could not begin: to a file, or, with folder, to a folder that is there or is made in one
 * that is. Changes nothing. Any thread. */
int rille_may_save(const char *path, bool folder);
/* From here on to rille_close() no other session, of any process, claims the folder: fails where one has it, naming
 * both. What several files make up (a list of checkpoints) is one session's then. */
int rille_claim_folder(struct rille_session *s, const char *folder);
/* Waits, and fails as the save did. Call it before rille_close(). */
int rille_saving_end(struct rille_saving **saving);
/* Fails unless all bytes of the file are those that a save wrote with a digest. */
int rille_verify(const char *path);

/* ---- text ---- */

/* A byte-level BPE tokenizer, from tokenizer.json or *.tiktoken (for the latter are pattern, NULL: cl100k's, and
 * special, texts, with their ids, NULL: those behind the last). It needs no session; one thread at a time may use it.
 * Text is any bytes. */
struct rille_tokenizer;
int rille_tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special,
                         const int64_t *ids, struct rille_tokenizer **out);
void rille_tokenizer_free(struct rille_tokenizer **t);
int64_t rille_tokenizer_size(const struct rille_tokenizer *t); /* of ids, special ones too */
/* *ids is the caller's to free(). */
int rille_tokenizer_encode(struct rille_tokenizer *t, const char *text, size_t n, uint32_t **ids, size_t *nids);
/* *text, which ends in a zero, is the caller's to free(). */
int rille_tokenizer_decode(const struct rille_tokenizer *t, size_t n, const int64_t *ids, char **text, size_t *ntext);
int rille_tokenizer_save(struct rille_tokenizer *t, const char *path); /* tokenizer.json */
/* The special tokens that the file's template puts before and behind a text; they stay the tokenizer's. */
int rille_tokenizer_template(const struct rille_tokenizer *t, const uint32_t **before, size_t *nbefore,
                             const uint32_t **after, size_t *nafter);
int rille_tokenizer_is_special(const struct rille_tokenizer *t, int64_t id); /* no part of plain text */
/* What its tokenizer.json says of how batches of texts get one length, "truncation", "padding" or "truncation and
 * padding", which encode does not do and save keeps; NULL: nothing. */
const char *rille_tokenizer_batches(const struct rille_tokenizer *t);

/* Learns a tokenizer of `size` ids, special ones last (reserved ones before, where the texts give no more), from texts
 * that the caller adds one by one. pattern NULL: GPT-2's. One thread at a time. */
struct rille_trainer;
int rille_trainer_new(const char *pattern, int nspecial, const char *const *special, struct rille_trainer **out);
void rille_trainer_free(struct rille_trainer **r);
int rille_trainer_add(struct rille_trainer *r, const char *text, size_t n);
int rille_trainer_end(struct rille_trainer *r, int64_t size, struct rille_tokenizer **out);

/* ---- tokens to train on ---- */

/* A sequence of ids, or several, one a file (llm.c's token files, of 16 or 32 bits). It reads files when somebody wants
 * ids. Windows of length + 1 ids lie one behind the other, each sharing its last id with the next; none goes from one
 * file into another. */
struct rille_tokens;
int rille_tokens_open(struct rille_session *s, int n, const char *const *path, struct rille_tokens **out);
int rille_tokens_of(struct rille_session *s, int64_t n, const int64_t *ids, struct rille_tokens **out); /* copies */
void rille_tokens_close(struct rille_tokens **t);
int64_t rille_tokens_count(const struct rille_tokens *t, int64_t *most); /* of ids in all, in the longest file */
int64_t rille_tokens_windows(const struct rille_tokens *t, int64_t length);
/* Digests how many ids each file has and ids from all over it, so that files as long can be told apart: the same in
 * every process. */
int rille_tokens_digest(const struct rille_tokens *t, uint64_t *out);
/* Rows first .. first + n - 1 of an epoch, whose order seed and epoch give: x {n, length} i64, and y, x one further.
 * Meanwhile a thread of its own reads what follows: as many rows again, and at the end of an epoch the next one. */
struct rille_token_rows {
    int64_t length, first, n;
    int64_t vocab; /* of the ids that are read each is below it, else E_ARG names file and place; 0: any are taken */
    uint64_t seed, epoch;
    const struct rille_layout *x, *y; /* NULL: whole on device 0 */
};
int rille_tokens_batch(struct rille_tokens *t, const struct rille_token_rows *rows, struct rille_tensor **x,
                       struct rille_tensor **y);
/* How far reading is ahead of who takes batches: it should wait for a credit, and nobody for it. */
struct rille_source_stats {
    int64_t depth;       /* its credits: batches that it may be ahead */
    int64_t read, taken; /* batches */
    int64_t full;        /* how often it waited for a credit */
    int64_t waited;      /* how often a caller found its batch not there: the first never is */
    double wait;         /* seconds of those */
};
void rille_tokens_stats(const struct rille_tokens *t, struct rille_source_stats *out);
/* All ids, i64 {n}. */
int rille_tokens_all(struct rille_tokens *t, const struct rille_layout *layout, struct rille_tensor **out);

/* ---- for tests ---- */

/* The k-th act from now fails as a failing kernel does (0: none). */
void rille_fail_act(struct rille_session *s, int64_t k);
/* Kernels whose operator has this name also sleep so long (0: none); of four operators at most. */
void rille_slow_op(struct rille_session *s, const char *op, double seconds);
/* The program of a step as workers get it: n bytes, the caller's to free. */
int rille_graph_program(struct rille_graph *g, char **out, size_t *n);

#if defined __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
