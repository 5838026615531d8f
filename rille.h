/* rille.h - the public API of librille: tensors sharded over many devices, and programs on them.
 *
 * A session owns devices, threads, memory, the stored program and its plans. Only the thread that opened a session
 * may use it, except for rille_interrupt() and rille_doing(). Functions also refuse NULL and objects of another
 * session. On a refusal, a function that returns a pointer or a count returns NULL, 0 or -1, a void function does
 * nothing, and rille_error() says why. A session's values are lazy: an operator call adds a node (errors of shape,
 * dtype, layout and placement are reported at once), and a read computes the value.
 *
 * Functions that can fail return 0 or a code > 0. rille_error() then says what was expected, what was found, and the
 * program line set by rille_at(). The caller owns handles (rille_tensor, rille_graph, rille_file...) and passes them
 * to their free or close function, which also clears the pointer. The session owns placements and layouts; equal
 * ones have the same pointer. The caller must free() text returned as char *; the library owns const char *. Axes,
 * ranks and positions count from 0. dtypes are text: f32 f64 bf16 f16 i32 i64 u8 bool. */
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
    const char *devices;     /* "cpu:8,meta"; NULL: cpu:8 (or as many as cores, if more) */
    int threads;             /* maximum number of device threads; 0: RILLE_THREADS, else the number of cores */
    const char *bus;         /* "zmq" or "sim:SEED"; NULL: RILLE_BUS, else "zmq" */
    uint64_t seed;           /* seed of random values */
    bool check_ref;          /* compares kernels with their references, process-wide */
    bool check_nan;          /* initial setting of rille_detect_nan() */
    size_t memory_limit;     /* bytes per device; 0: no limit */
    const char *collectives; /* "own" (NULL); "nccl": the library runs collectives among GPUs (docs/cuda.md) */
    const char *cost;        /* file of rille_cost_write() with this machine's costs; NULL: built-in costs */
    const struct rille_workers *cluster; /* workers that own the devices, read by rille_open(); NULL: this process */
};

/* A session over worker processes. Devices are numbered through the workers in order of rank. rille_open() waits
 * until all workers have joined. */
enum { RILLE_SECRET = 16 };
struct rille_workers {
    int workers;
    const char *bind;     /* address that workers join, "tcp://127.0.0.1:5555"; NULL: sockets in a private folder */
    const char *key_file; /* file of rille_key_new(), or a folder of keys; NULL: no keys, this host only */
    const char *root;     /* folders, "/a:/b", for checkpoints that workers with the same folders share; NULL: none */
    /* Starts the process of a rank, which calls rille_worker() with this address and secret (the secret is passed
     * through a pipe, never in arguments or environment). The session calls start() for the first `started` ranks,
     * and again for those it loses. Returns 0 and sets *pid, or reports the reason to the user and returns non-zero.
     * NULL: workers join without being started. */
    int (*start)(void *arg, int rank, const char *address, const unsigned char secret[RILLE_SECRET], int *pid);
    int started;
    const char *devices; /* devices that start() gives to each worker; NULL: unspecified */
    /* Before it calls start(), the session waits 1.5 s for workers that an earlier session left running. Such
     * workers keep their devices; it is an error if those differ. */
    bool takes_over;
    double silence_seconds;                   /* time without a heartbeat until a worker is lost; 0: 0.8 */
    const char *(*host)(void *arg, int rank); /* host of a rank, for messages; NULL or NULL result: this host */
    void (*say)(void *arg, const char *text); /* receives news, such as refused workers; any thread; NULL: no news */
    void *arg;
};
int rille_open(const struct rille_options *options, struct rille_session **s);
/* Closes the session. If the caller did not free all handles, frees them and returns non-zero; rille_error() lists
 * them. */
int rille_close(struct rille_session **s);

const char *rille_error(void); /* text of the last failure on this thread */
int rille_error_code(void);
const char *rille_error_kind(void); /* "shapes do not fit", ... */
const char *rille_error_line(void); /* "file:line" set by rille_at() for the failed call; "": none */

/* Sets the user's program line for the calls that follow; copies the texts. inside: "nn.Linear" or NULL. */
void rille_at(struct rille_session *s, const char *file, int line, const char *inside);

/* ---- worker processes ---- */

/* Transport between workers of different hosts: TCP; MPI if all workers have its plug-in, until a worker is lost;
 * MPI, and an error if MPI cannot be used. */
enum rille_mpi { RILLE_TCP, RILLE_MPI_IF_ALL, RILLE_MPI };
struct rille_worker_options {
    const char *join, *key_file, *devices;
    const char *collectives; /* as in struct rille_options; also with GPUs of other workers */
    const char *root;        /* folders, "/a:/b", in which the worker writes and reads checkpoints; NULL: none */
    const char *host;        /* host that the worker reports (tests); NULL: its real host */
    int rank;                /* requested rank; -1: any */
    unsigned char secret[RILLE_SECRET]; /* all zero: the process was not started by a session */
    int wait_seconds;                   /* time to wait for the coordinator, s */
    int keep_seconds; /* time to wait for a new coordinator when the old one is gone, s; 0: the worker ends at once */
    double link_seconds;           /* time until a broken connection to another worker is a loss; 0: 3 */
    double orphan_seconds;         /* time without a heartbeat until the coordinator counts as gone; 0: 4.5 */
    bool check_ref;                /* as in struct rille_options */
    enum rille_mpi mpi;            /* transport between hosts */
    void (*say)(const char *text); /* receives news, from one worker of the job; any thread; NULL: no news */
    void (*joined)(void);          /* called when a coordinator has admitted the worker; NULL: no call */
    void (*die)(int status);       /* ends the process (_exit) if a kernel does not return; NULL: waits for it */
};
/* Runs the work that a controller sends until the job ends, and returns 0. Non-zero: rille_error() says why the
 * controller refused the worker or cut it off. */
int rille_worker(const struct rille_worker_options *options);
/* Sets *out to the library that the MPI plug-in was built for, "Open MPI 4.1.4". Non-zero: rille_error() says why
 * this process cannot use the plug-in. */
int rille_mpi_library(const char **out);
/* Removes the sockets at that address if a killed controller left them. For a worker that ends by itself. */
void rille_sweep(const char *join);
/* Writes the address of this host from which it reaches another host, IPv6 in brackets. Non-zero: there is no route. */
int rille_own_address(const char *host, char out[64]);
int rille_address(const char *text); /* checks an address; non-zero: rille_error() says what is wrong */
/* Checks the device list of a worker likewise. here: the worker is in this process, and its driver is asked for
 * GPUs. */
int rille_devices(const char *text, bool here);
int rille_key_new(char **text); /* creates the contents of a key file */
/* Creates the contents of a folder of keys: text[0] is the coordinator's, text[1 + r] that of rank r, which
 * authenticates that rank. The caller must free() the texts. Non-zero: unsupported number of workers. */
int rille_key_new_ranks(int workers, char **text);
enum { RILLE_KEY_NAME = 24 };
int rille_key_name(int rank, char out[RILLE_KEY_NAME]); /* file name in such a folder; rank -1: the coordinator's */

struct rille_worker_info {
    int rank, pid, cores; /* cores, bytes: of the worker's host */
    uint64_t bytes;
    char host[64], devices[256], state[16]; /* devices: "cpu:2 cpu:3" */
    double heartbeat;                       /* seconds since the last heartbeat */
    int64_t acts;                           /* acts in all runs */
    double busy;                            /* seconds in which the worker's devices had work, summed over devices */
    double slow; /* duration of its acts relative to workers with the same tasks; 0: not much longer */
};
/* Describes the i-th worker; false: no such worker. Without a cluster this process is the only worker. */
bool rille_worker_info(struct rille_session *s, int i, struct rille_worker_info *out);
bool rille_in_cluster(struct rille_session *s);
bool rille_was_lost(void); /* true if the last failure on this thread was the loss of a worker */

/* rille_snapshot() saves in memory all variables, their gradients and the counters of random values, and sets
 * *number to the snapshot's number. On several hosts a second copy is sent to other hosts while the next runs
 * compute. Until that copy is complete, only the previous snapshot survives the loss of a host; the first snapshot
 * waits for its copy, and each snapshot waits for the copy of the one before. keep: number of snapshots kept, 1 or
 * 2; 2 doubles the memory. *oldest: the oldest snapshot still kept.
 *
 * rille_recover() restores the latest snapshot that is left and sets *number. It first replaces lost workers, or
 * gives their devices to the remaining workers (workers: the number to continue with; 0: as many as before). Handles
 * and graphs stay valid. *why: the reason why a later, damaged or lost, snapshot was skipped, or NULL; valid until
 * the next call. */
int rille_snapshot(struct rille_session *s, int keep, int64_t *number, int64_t *oldest);
bool rille_has_snapshot(struct rille_session *s);
int rille_recover(struct rille_session *s, int workers, int64_t *number, const char **why);

/* Waits until the work of all runs is done, and returns its failure. A run on one device with streams (async, cuda)
 * may return earlier: the device continues, and the call that waits reports a failure, with the line of the failed
 * operator. Reads and saves wait implicitly. "Interrupted" ends the wait, not the work. Call it before
 * rille_close(), which reports no failure of work. */
int rille_wait(struct rille_session *s);

/* Requests cancellation of the run in progress: the run fails with "interrupted" at its next act and restores the
 * count of random numbers. A run that has begun to update variables finishes. A planner's search ends too. Any
 * thread, async-signal-safe. */
void rille_interrupt(struct rille_session *s);
/* Sets a function that long text and file operations call on this thread every few milliseconds. Once it returns
 * true they fail with "interrupted", and its answer stays true until they have failed. NULL: no function. */
void rille_stop_when(bool (*wanted)(void *arg), void *arg);
/* Writes what the run in progress is doing: "matmul (a.lua:3)"; "a run" if this process cannot see it; for a device
 * with streams the work that a thread waits for, also after its run has returned, "matmul (a.lua:3) on async:0"; ""
 * for nothing. Any thread, async-signal-safe. */
void rille_doing(struct rille_session *s, char *text, size_t size);
/* Writes what one device thread computes, or waits for on its devices, in this process or a worker on its host.
 * Returns false if the thread does not exist. Session's thread, async-signal-safe. */
bool rille_doing_thread(struct rille_session *s, int thread, char *text, size_t size);
/* Writes what an idle device thread of this process waits for in a run: "matmul (a.lua:3) waits for relu (a.lua:2)
 * on cpu:0", followed by "to read" if the relu still has to read the registers of the matmul; "" for nothing.
 * Otherwise as rille_doing_thread(). */
bool rille_waiting_thread(struct rille_session *s, int thread, char *text, size_t size);
void rille_seed(struct rille_session *s, uint64_t seed); /* sets the seed and resets the count of random calls */
/* Get and set the random state. Sessions of the same seed and count draw the same numbers from then on, compiled or
 * not. */
void rille_random_state(struct rille_session *s, uint64_t *seed, uint64_t *count);
void rille_random_restore(struct rille_session *s, uint64_t seed, uint64_t count);

/* Measured costs of this machine. Costs of data movement decide whether a boxing is direct or in hops, and how sums
 * between hosts are computed; planners also use the rates of computation. rille_calibrate() measures all but the
 * costs between hosts, on four cpu devices, in one or two seconds, and does not change the session. A session reads
 * the file of rille_cost_write() if its options name it. */
struct rille_cost {
    double alpha_ns;          /* per message */
    double beta_ns_per_byte;  /* per byte received */
    double gamma_ns_per_byte; /* per byte that a rank reads to combine */
    double copy_ns_per_byte;  /* per byte that a rank copies of its own data */
    double hop_ns;            /* per hop, whatever its size */
    double wire_ns;           /* latency to another host */
    double wire_ns_per_byte;  /* per byte sent to another host */
    double staging_bytes;     /* maximum bytes that a rank holds between hops; 0: no limit */
    double flops_per_ns;      /* floating-point operations of matrix products */
    double bytes_per_ns;      /* bytes read and written by other operators */
};
void rille_cost(struct rille_session *s, struct rille_cost *out);
int rille_calibrate(struct rille_session *s, struct rille_cost *out);
int rille_cost_write(const char *path, const struct rille_cost *c);

/* Returns the number of the session's devices of a kind; -1 for an unknown kind, INT_MAX for meta. */
int rille_device_count(struct rille_session *s, const char *kind);
const char *rille_default_kind(struct rille_session *s);

struct rille_counters {
    int64_t nodes;      /* operator calls added since the session was opened */
    int64_t compiles;   /* plans created */
    int64_t cache_hits; /* plans found in the cache */
    int64_t runs;
    int64_t acts;
    int64_t messages;        /* messages through the rings of device threads */
    int64_t thread_messages; /* messages between different threads */
    int64_t allocations;     /* buffers that pools allocated from the host */
    int64_t run_allocations; /* allocations by Rille's code on device threads between START and END; expected: 0 */
    int64_t live_values;     /* values and nodes stored now */
    int64_t live_nodes;
    int64_t live_bytes; /* bytes in buffers, over all devices */
    int64_t arena_bytes;
    int64_t plans;        /* plans in the cache */
    int64_t plan_bytes;   /* host memory of the plans, approximate */
    int64_t generation;   /* incremented by rille_generation(); compiled steps of older generations do not fit */
    int64_t cuda_graphs;  /* CUDA graphs created by this process */
    int64_t cuda_replays; /* launches of those graphs */
};
void rille_count(struct rille_session *s, struct rille_counters *out);
/* Returns an estimate of the bytes that only the caller's garbage collector can free (for lua_gc). */
int64_t rille_external_bytes(struct rille_session *s);

struct rille_device_info {
    const char *kind;
    int device, thread; /* thread: as in rille_doing_thread(); -1: on another host */
    int64_t live_bytes, arena_bytes, peak_bytes, limit_bytes;
};
/* Describes the i-th device that the session has used; false: no such device. */
bool rille_device_info(struct rille_session *s, int i, struct rille_device_info *out);
struct rille_gpu_info {
    char name[256];
    int64_t memory;    /* bytes */
    int major, minor;  /* compute capability */
    char kernels[512]; /* compiler and cache of the kernels, or why there are none */
};
/* Describes the GPU of the device cuda:device. */
int rille_gpu_info(struct rille_session *s, int device, struct rille_gpu_info *out);

/* ---- placements and layouts ---- */

int rille_place(struct rille_session *s, const char *kind, int naxis, const int32_t *sizes, const int32_t *ranks,
                const struct rille_place **out);
const char *rille_place_kind(const struct rille_place *p);
int rille_place_axes(const struct rille_place *p, int32_t sizes[RILLE_AXES]); /* number of axes */
int rille_place_ranks(const struct rille_place *p, const int32_t **ranks);    /* number of ranks, mesh order */
char *rille_place_text(const struct rille_place *p);

/* Accepts one text per mesh axis ("S(0)", "B", "P(max)"), or a single text for all axes ("(B, S(0))"). order: NULL,
 * or every mesh axis once. ndim: number of dimensions of the tensor, which resolves S(-1) and limits S; -1: unknown. */
int rille_layout(struct rille_session *s, const struct rille_place *p, int n, const char *const *sbp, const int *order,
                 int ndim, const struct rille_layout **out);
const struct rille_place *rille_layout_place(const struct rille_layout *l);
const char *rille_layout_text(struct rille_session *s, const struct rille_layout *l); /* interned text */

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
    const char *words; /* RILLE_TEXT: the allowed words, separated by '|' */
    const char *doc;
};
const struct rille_op *rille_op_find(const char *name);
const struct rille_op *rille_op_at(int i); /* operators in order of name; NULL past the end */
const char *rille_op_name(const struct rille_op *op);
int rille_op_operands(const struct rille_op *op, struct rille_operand_info out[16]);
int rille_op_attrs(const struct rille_op *op, struct rille_attr_info out[16]);
int rille_op_results(const struct rille_op *op);
bool rille_op_hidden(const struct rille_op *op); /* internal, not for users */
bool rille_op_source(const struct rille_op *op); /* creates a tensor from no tensor: rille_create */
char *rille_op_help(struct rille_session *s, const struct rille_op *op); /* returns the operator's help page */

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
/* Calls an operator. args: operands in order; trailing optional operands may be missing. out has room for
 * rille_op_results() handles. A FLOAT also accepts an integer, and INTS a single INT. */
int rille_call(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args, int nattrs,
               const struct rille_attr *attrs, struct rille_tensor **out);
/* Sets into how many shards the next call splits each axis of its tensor operands: a constraint on the call's
 * layouts, for the default choice and for a planner. pieces: naxis[i] numbers for operand i, operand by operand. */
int rille_strategy(struct rille_session *s, int noperand, const int *naxis, const int32_t *pieces);
/* Calls an operator in place: leaf, a variable, is assigned the first result as by rille_tensor_assign(); no
 * gradient flows through the assignment. Refuses a result of a wider class than leaf's dtype (a float for an
 * integer, an integer for a bool). */
int rille_call_into(struct rille_session *s, struct rille_tensor *leaf, const struct rille_op *op, int nargs,
                    const struct rille_arg *args, int nattrs, const struct rille_attr *attrs);
/* Calls a source operator ("zeros", "randn", "arange"...) and returns a leaf of this shape, dtype (NULL: the
 * operator's default) and layout (NULL: whole on device 0 of the default kind). args: the operator's numbers. */
int rille_create(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args, int ndim,
                 const int64_t *shape, const char *dtype, const struct rille_layout *layout, struct rille_tensor **out);

/* ---- tensors ---- */

/* Copies host values into a leaf: the global value, dense, row-major, of dtype. */
int rille_tensor_from_host(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape, const void *data,
                           const struct rille_layout *layout, struct rille_tensor **out);
void rille_tensor_free(struct rille_tensor **t);
struct rille_tensor *rille_tensor_hold(struct rille_tensor *t); /* another handle on the same tensor */

const char *rille_tensor_dtype(const struct rille_tensor *t);
int rille_tensor_ndim(const struct rille_tensor *t);
const int64_t *rille_tensor_shape(const struct rille_tensor *t);
int64_t rille_tensor_numel(const struct rille_tensor *t);
size_t rille_dtype_bytes(const char *dtype); /* 0: unknown */
const struct rille_layout *rille_tensor_layout(const struct rille_tensor *t);
bool rille_tensor_is_leaf(const struct rille_tensor *t);
bool rille_tensor_has_value(const struct rille_tensor *t); /* in memory; if false, a read computes the value */
bool rille_tensor_requires_grad(const struct rille_tensor *t);
/* Leaves of a float dtype only. A compiled step that holds the leaf fits only while the flag is as it was at the
 * trace. */
int rille_tensor_set_requires_grad(struct rille_tensor *t, bool on);
const char *rille_tensor_name(const struct rille_tensor *t); /* NULL: none */
void rille_tensor_set_name(struct rille_tensor *t, const char *name);

/* Computes the values of these tensors in one run, except those already computed. */
int rille_eval(struct rille_session *s, int n, struct rille_tensor *const *t);
/* Writes the global value to out: dense, row-major, numel * dtype_bytes bytes. */
int rille_tensor_read(struct rille_tensor *t, void *out);
/* Writes the elements start[i] <= index < stop[i] along each axis i likewise. Requests data only from ranks that own
 * some of them. */
int rille_tensor_read_part(struct rille_tensor *t, const int64_t *start, const int64_t *stop, void *out);
/* Returns the value of a tensor with one element: in *i with *is_int for integers and bools, else in *f. */
int rille_tensor_item(struct rille_tensor *t, double *f, int64_t *i, bool *is_int);
/* Returns the shard at a rank, as a tensor on that device alone. */
int rille_tensor_to_local(struct rille_tensor *t, int rank, struct rille_tensor **out);
/* Returns the rank, local shape and offset of mesh position pos. */
int rille_tensor_shard(const struct rille_tensor *t, int pos, int *rank, int64_t *shape, int64_t *offset);

int rille_tensor_to_global(struct rille_tensor *t, const struct rille_layout *l,
                           struct rille_tensor **out); /* differentiable */
/* As rille_tensor_to_global, but the gradient is first converted to the layout of t (replicated where t is partial)
 * before any operator uses it. */
int rille_tensor_pin(struct rille_tensor *t, const struct rille_layout *l, struct rille_tensor **out);
int rille_tensor_detach(struct rille_tensor *t, struct rille_tensor **out);
/* rille_tensor_parts() stacks the addends of a partial tensor along a new first dimension; rille_tensor_of_parts()
 * makes a partial tensor from such a stack. Addends of bf16 and f16 are stored as f32. dtype: dtype of their sum
 * (NULL: that of the addends). */
int rille_tensor_parts(struct rille_tensor *t, struct rille_tensor **out);
int rille_tensor_of_parts(struct rille_tensor *parts, const struct rille_layout *layout, const char *dtype,
                          struct rille_tensor **out);
int rille_tensor_clone(struct rille_tensor *t, struct rille_tensor **out);
/* Sets whether a planner may choose the leaf's layout (sbp = "auto"). The first planned step that reads the leaf, or
 * has it as an argument, chooses, and the leaf keeps that layout. Clears nothing else; to_global_ ends it. */
int rille_tensor_auto(struct rille_tensor *leaf, bool on);
/* Assigns src's value to the leaf in place (cast to its dtype, boxed to its layout; shapes must broadcast to the
 * leaf's). Results computed from the old value keep it. */
int rille_tensor_assign(struct rille_tensor *leaf, struct rille_tensor *src);
/* Assigns to n leaves, all or none; *wrong (unless NULL) is set to the index of the leaf that failed. Operators that
 * can fail on their data, such as an embedding on ids, are computed at once so that such a failure is detected. */
int rille_tensors_assign(struct rille_session *s, int n, struct rille_tensor *const *leaf,
                         struct rille_tensor *const *src, int *wrong);
/* to_global_: changes the layout of the leaf and of its gradient. Clears rille_tensor_set_grad_layout; older
 * compiled steps do not fit. */
int rille_tensor_relayout(struct rille_tensor *leaf, const struct rille_layout *l);
/* Changes the layouts of n leaves, all or none; *wrong (unless NULL) is set to the index of the leaf that failed. */
int rille_tensors_relayout(struct rille_session *s, int n, struct rille_tensor *const *leaf,
                           const struct rille_layout *const *l, int *wrong);
/* Changes the dtype of n leaves and of their gradients, all or none; *wrong as above. Results computed from the old
 * values keep them; older compiled steps do not fit. */
int rille_tensors_retype(struct rille_session *s, int n, struct rille_tensor *const *leaf, const char *dtype,
                         int *wrong);

/* ---- gradients ---- */

/* Adds d t / d leaf to the gradient of each leaf with requires_grad; t must have one element. */
int rille_tensor_backward(struct rille_tensor *t);
/* Sets out[i] to d sum(y) / d x[i] (zeros if y does not depend on x[i]), differentiable again. y may have any shape. */
int rille_tensor_grad_of(struct rille_tensor *y, int n, struct rille_tensor *const *x, struct rille_tensor **out);
/* Returns a new handle on the gradient; NULL: none. */
struct rille_tensor *rille_tensor_grad(struct rille_tensor *t);
int rille_tensor_set_grad(struct rille_tensor *t, struct rille_tensor *g); /* NULL clears */
/* Sets the layout, on the leaf's placement, in which backward stores the leaf's gradient; NULL: a layout that suits
 * the leaf's. A new layout of the leaf resets the setting. */
int rille_tensor_set_grad_layout(struct rille_tensor *t, const struct rille_layout *l);
/* Sets whether compiled steps free the gathered value of a sharded variable after forward and gather it again for
 * backward (true, the initial setting), or gather it once and keep it until backward has read it. */
int rille_tensor_set_reshard(struct rille_tensor *variable, bool on);
bool rille_grad_mode(struct rille_session *s, bool on); /* returns the previous mode */

/* While on, calls save nothing for the backward pass, which recomputes their results, bit for bit, from the inputs
 * of the region; a region lasts from on to off. Switching on twice changes nothing. Returns the previous mode. */
bool rille_recompute(struct rille_session *s, bool on);
bool rille_recomputes(const struct rille_session *s); /* true while on */

/* From now on matrix products, conv2d and attention cast f32 operands to this 16-bit dtype, and sums, norms, losses
 * and powers cast 16-bit operands to f32. NULL: no casts. A compiled step keeps the setting of its trace. */
int rille_autocast(struct rille_session *s, const char *dtype);
const char *rille_autocast_dtype(const struct rille_session *s); /* NULL: none */

/* While on, matrix products and convolutions of f32 on GPUs may round their factors to TF32 (a sign, 8 bits of
 * exponent, 10 of fraction) for tensor cores; sums stay f32. Initially off. A compiled step keeps the setting of its
 * trace. No effect on a cpu. Returns the previous setting. */
bool rille_allow_tf32(struct rille_session *s, bool on);

/* While on, every computation searches its results, and fails (E_KERNEL) at the first NaN, or at an infinity that no
 * operand and no attribute has. The error names the operator and its line. Operators are not fused meanwhile.
 * Compiled steps are traced again after a change. Returns the previous setting. */
bool rille_detect_nan(struct rille_session *s, bool on);

/* Adds an update (optimisers): op writes its first results over its first operands, which must be leaves.
 * rille_step() runs all updates of a step together. */
int rille_update(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args,
                 int nattrs, const struct rille_attr *attrs);
/* Computes the updates added since the last step, the gradients of their leaves, and the values on which backward
 * was called. If it fails, the variables are unchanged; gradients that the data made impossible (a label out of
 * range) are dropped, others are kept. */
int rille_step(struct rille_session *s);
/* Drops the updates added since the last step; their variables are unchanged. */
void rille_step_undo(struct rille_session *s);

/* ---- live numbers: evaluated again at each call of a compiled step ---- */

typedef int rille_live_fn(void *arg, double *out); /* non-zero: failure, and the run does not start */
int rille_live_new(struct rille_session *s, rille_live_fn *fn, void (*drop)(void *arg), void *arg,
                   struct rille_live **out);
/* Sets a function that the session calls when the run that asked for the number failed or was interrupted. */
void rille_live_undo(struct rille_live *l, void (*undo)(void *arg));
/* Makes l stand for an integer, not a float, in operators that tell them apart. */
void rille_live_whole(struct rille_live *l);
/* Makes the step being traced ask l at each call, even if nothing reads the number. E_STATE: no trace is in
 * progress. */
int rille_live_ask(struct rille_live *l);
void rille_live_free(struct rille_live **l);

/* ---- graphs: compiled steps ---- */

struct rille_graph_options {
    int micro_batches; /* 0 means 1 */
    const char
        *schedule; /* NULL: "1f1b"; or a name, "gpipe", "zb-v", "auto"; the error for an unknown name lists all names */
    int lag;       /* lookahead, micro-batches; 0: default of the schedule */
    double memory; /* above 0: chooses the schedule of least bubble within this memory; needs at least two micro-batches
                      and no other schedule; up to 16: factor of what 1F1B saves for backward on the fullest device;
                      above: bytes per device */
    /* Costs for a schedule search; NULL: estimated. The caller keeps them until the step is made. */
    const struct rille_chart_costs *costs;
    bool split_backward, recompute;
    bool recompute_auto; /* recomputes parts of stages if the memory limit requires it, or if it is faster within the
                            limit */
    int zero;
    const struct rille_place
        *offload; /* placement for values saved for backward and for optimiser state, while unused; NULL: none */
    int prefetch; /* number of values fetched, or gathered again (zero 3), before they are read; 0: 1 */
    /* Method that chooses the layouts: "optimal", "propagate", "recursive", "greedy"; NULL: the program's own
     * layouts. */
    const char *auto_parallel;
    int64_t memory_limit; /* bytes per device: limit for a planner and a schedule search; a plan above it is refused; 0:
                             none */
    bool check_nan;       /* searches this step's results as rille_detect_nan() does */
    double time_limit; /* limit of the planner's search, seconds of one core as it counts them (the same plan on every
                          machine; four times as much wall-clock time ends it too); 0: 1, or 0.1 for the bound alone of
                          a choice that needs no search ("propagate", "greedy", without a memory limit) */
};
/* Checks the options, as rille_trace_begin() does too. E_ARG: an option has an invalid value. */
int rille_graph_check(const struct rille_graph_options *o);
/* Returns the micro-batches whose activations `device` (from 0) of `devices` holds at once, summed over its `stages`
 * stages, in a named schedule, if the batch has as many. "1f1b", "gpipe" (INT32_MAX: all), "zb-h1" and "zb-h2" have one
 * stage per device. 0: the name has no formula, or a number is out of range. */
int rille_schedule_contexts(const char *schedule, int devices, int stages, int device);
/* Tracing: begin, build the program on the inputs that begin returns (one micro-batch each), end with its results.
 * Between begin and end a trace records every call and runs nothing; reading a value is an error. abort after a
 * failure restores versions and gradients. */
int rille_trace_begin(struct rille_session *s, const struct rille_graph_options *o, int nin,
                      struct rille_tensor *const *in, struct rille_tensor **piece);
int rille_trace_end(struct rille_session *s, int nout, struct rille_tensor *const *out, struct rille_graph **g);
void rille_trace_abort(struct rille_session *s);
bool rille_tracing(const struct rille_session *s);
bool rille_planning(const struct rille_session *s); /* true while a planned step is traced */
/* While paused, calls behave as outside a trace (an optimiser creates its state). Returns the previous setting. */
bool rille_trace_pause(struct rille_session *s, bool pause);
/* Returns t; in a trace with micro-batches the mean of t over them, known after the last one. For values that change
 * once per step. */
int rille_trace_mean(struct rille_tensor *t, struct rille_tensor **out);
/* Returns true if g fits these inputs (types and layouts; an "auto" input may have any layout if it was "auto" at
 * the trace), the captured variables, their gradients and the session's generation. */
bool rille_graph_fits(const struct rille_graph *g, int nin, struct rille_tensor *const *in);
bool rille_graph_is_stale(const struct rille_graph *g); /* true if g is of an older generation: it fits no inputs */
/* Runs the graph. out has room for rille_graph_results() handles. "auto" inputs keep the layouts in which the graph
 * reads them. */
int rille_graph_run(struct rille_graph *g, int nin, struct rille_tensor *const *in, struct rille_tensor **out);
int rille_graph_results(const struct rille_graph *g);
/* Compares two traces of one step: sets *how to NULL if both compute the same, else to a text that names the first
 * difference, which the caller must free(). A live number equals a constant of its present value. */
int rille_graph_compare(struct rille_graph *a, struct rille_graph *b, char **how);
void rille_graph_free(struct rille_graph **g);
/* Invalidates the graphs traced before, because something that traces depend on has changed (train/eval,
 * to_global_). */
void rille_generation(struct rille_session *s);

struct rille_device_stats {
    const char *kind;
    int device;
    double busy, idle; /* seconds in the last run */
    int64_t bytes_in, bytes_out, peak_memory;
    double flops;        /* floating-point operations of a run; a multiply-add counts as two */
    const char *tenants; /* the largest results among its registers at their peak, as text; "": none */
};
struct rille_stats {
    double step_time, ideal; /* seconds; ideal: with all devices that can act at once always busy */
    double bubble;           /* share of step_time above ideal */
    double flops;            /* floating-point operations of a run on all devices */
    double peak;             /* flops per second that the devices could do at once; 0: costs were not measured */
    int nhost;               /* number of hosts of the step's devices; at most 64 are reported */
    int ndevice;
    struct rille_device_stats *device; /* owned by the graph; overwritten by the next rille_graph_stats() */
};
int rille_graph_stats(const struct rille_graph *g, struct rille_stats *out);
/* Writes the act times of the last timed run on all hosts as Chrome trace JSON. The session times the first three
 * runs, and all runs after the first call of this function or of rille_graph_chart(). If no run has been timed yet,
 * path is written when the next run ends. */
int rille_graph_timeline(struct rille_graph *g, const char *path);

/* Pipeline chart of a step: its plan simulated on a virtual clock, with every device independent, and its last timed
 * run. */
struct rille_chart_span { /* consecutive acts of a device on one micro-batch */
    int device, stage;    /* index in the chart's devices; virtual stage */
    int piece;            /* micro-batch; -1: once per batch */
    const char *what;     /* "forward", "backward", "weight", "move", "update" */
    double begin, end;    /* seconds since the first act */
};
struct rille_chart_stall {
    int stage;
    double share;     /* share of the time of the stage's devices */
    const char *text; /* "stage 1 waited 18 % for a register of matmul (train.lua:14)" */
};
enum { RILLE_CHART_POINTS = 256 };
struct rille_chart_run {
    double time, bubble; /* seconds; share of time in which computing devices are idle */
    int nspan, nstall;   /* nspan 0: no such run */
    struct rille_chart_span *span;
    struct rille_chart_stall *stall; /* longest first */
    double *busy;                    /* by device */
    int64_t *memory;                 /* [device][point]: peak bytes in registers, by equal intervals of the time */
};
struct rille_chart_device {
    const char *kind;
    int device, thread;
    int64_t arena; /* bytes for all registers and scratch */
};
struct rille_chart {
    int ndevice, nstage, nthread, pieces;
    int ncompute; /* devices that compute; others only hold offloaded values */
    int natonce;  /* devices that can act at once; some share threads */
    struct rille_chart_device *device;
    bool split;                               /* weight gradients may be delayed */
    int lag;                                  /* lookahead of its credits, micro-batches; 0: all micro-batches */
    bool reckoned;                            /* costs from the built-in rates: no timed run and no costs were given */
    double forward, backward, weight, moving; /* seconds per micro-batch on a device of a stage, planned */
    double bound;                             /* lower bound of the bubble of any schedule with these costs */
    int64_t activations, activations_1f1b;    /* peak bytes that a device saves for backward; the same with 1F1B */
    double again;                             /* share of forward that backward recomputes */
    struct rille_chart_run planned, measured;
    int64_t call, ncall; /* number of the measured call of the step, from 1; number of calls */
    void *memory;        /* storage of all of the above */
};
/* Seconds per micro-batch on each device of a stage (move: per segment of a move; update: per batch). */
struct rille_chart_costs {
    double forward, backward, weight, move, update;
    double jitter; /* relative random variation of the cost of each act, drawn with the seed */
    int64_t seed;
};
/* Creates a chart. costs NULL: measured costs, or built-in rates without a timed run. From then on all runs are
 * timed. */
int rille_graph_chart(struct rille_graph *g, const struct rille_chart_costs *costs, struct rille_chart **out);
void rille_chart_free(struct rille_chart **c);

/* An actor of a step's plan or (g NULL) of the plan that ran last, with its acts in its last run. */
struct rille_actor {
    const char *name, *kind; /* operator, or name of the move; "compute", "box", ... */
    const char *device_kind;
    int device, thread, stage;
    const char *phase;                  /* "forward", "backward", "weight", "batch" */
    int64_t begun, acts, pieces, bytes; /* acts begun; acts of a whole run; micro-batches; bytes of its registers */
    const char *state;                  /* "done", "ready", "waits for matmul (a.lua:3) on cpu:1" */
    const char *line;                   /* "a.lua:3", "" */
    int nhost, nshown;                  /* hosts of the plan's devices; hosts whose actors rille_actor() reports */
};
/* Describes the i-th actor; its texts are valid until the next call. false: no such actor. */
bool rille_actor(struct rille_session *s, struct rille_graph *g, int i, struct rille_actor *out);

/* ---- introspection ---- */

struct rille_explain_op {
    const char *name;
    char *line; /* "file:3" */
    int ninput, noutput;
    const char **inputs, **outputs; /* layouts as text */
    struct rille_explain_result {   /* of each output: shape, and largest shard of a rank */
        int ndim;
        int64_t shape[RILLE_DIMS], part[RILLE_DIMS];
    } * results;
    int ncandidate;
    struct rille_explain_candidate {
        const char **inputs, **outputs;
        int64_t bytes; /* bytes moved now */
        int64_t owed;  /* added pending reduction: least bytes to make its partial results whole or split */
        int64_t regret, regret_high; /* planned steps: lower and upper bound of the ns added to the step (upper
                                        INT64_MAX: unknown); -1: not planned */
        double share; /* share of the single-device work that the busiest rank does; 1: every rank does all */
    } * candidates;
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
    const int64_t *received; /* NULL above 64 "meta" ranks (doubled by each axis after the third); nrank is 0 */
    const char *name;        /* "all-gather", ... */
    const char *steps;       /* text; NULL above 8 "meta" ranks */
    const char *handed_on;   /* of a sum between hosts: ", handed on in 2 legs, 4 chunks: 95.0 us between hosts, not
                              * 160.0" by owners that read all addends; else "" */
    const char *forced_by;   /* "matmul (a.lua:3) -> relu (a.lua:4)" or NULL */
    int64_t times;           /* times per step */
    bool of_leaf;            /* moves a variable, which no call computes */
    int ncandidate;
    struct rille_explain_path { /* alternative paths; a run uses the first */
        const char *name;       /* names of its hops: "all-gather, all-gather" */
        int nhop;
        const char **layouts;   /* layout after each hop */
        int64_t bytes, staging; /* over all ranks; peak bytes that a rank holds between hops */
        double ns;              /* estimate of the cost model */
    } * candidates;
    const char *text; /* full text */
};
/* Only for steps planned by "propagate": a value whose layout follows from one hint is moved for a reader whose
 * layout follows from another. Hints are arguments, variables, moves, strategies, operators without a choice, and
 * results with a required layout. The line of a hint that no call made is that of its first reader. */
struct rille_explain_meeting {
    const char *op, *line; /* the reader; "to_global": a result with a required layout */
    struct rille_explain_meeting_hint {
        const char *what, *line; /* "variable f32{64, 64} S(1)", "a.lua:3" */
    } hint[2];                   /* of the value; of its reader */
    const char *from, *to;
    int64_t bytes, ns; /* of the move, per step; ns as estimated by the planner */
};
struct rille_explain {
    int nop, nboxing, nmeeting;
    struct rille_explain_op *ops;
    struct rille_explain_boxing *boxing;
    struct rille_explain_meeting *meetings; /* NULL: not planned by "propagate" */
    int64_t bytes;                          /* bytes of all moves per step */
    int naxis;                              /* mesh axes of the cluster in rille_graph_whatif(); else 0 */
    int64_t axis_bytes[RILLE_AXES]; /* by mesh axis: bytes of moves whose slowest links are on that axis; they sum to
                                       bytes */
    bool planned;                   /* the next seven fields are valid */
    int64_t cost, bound;            /* ns of all work; lower bound over all plans of these operators */
    int64_t time;                   /* ns per step: cost, less the overlap of stages on different micro-batches */
    double gap;                     /* (cost - bound) / cost */
    double search;                  /* search time, seconds of one core */
    int64_t peak;                   /* peak bytes of the fullest device, with scratch: of the plan; whatif: estimated */
    int64_t scratch;                /* bytes of the largest kernel scratch */
    char *text;
    void *memory; /* storage of all of the above */
};
int rille_explain(struct rille_session *s, int n, struct rille_tensor *const *t, struct rille_explain **out);
int rille_graph_explain(struct rille_graph *g, struct rille_explain **out);
/* Price of each layout that the user set (to_global, strategy, variable; not one that follows another): lower and
 * upper bound of the ns that it adds to a planned step. Plans the step once without each, for a quarter of a second. */
struct rille_hint {
    const char *what, *line;
    int64_t price, price_high;
};
struct rille_hints {
    int n;
    struct rille_hint *hint;
    void *memory; /* storage of all of the above */
};
int rille_graph_hints(struct rille_graph *g, struct rille_hints **out);
void rille_hints_free(struct rille_hints **h);
/* Writes the certificate of a planned step. rille_certificate_check() checks such a file with code independent of
 * the search: returns 0 and sets *said to the proven statement, or returns E_PLAN. */
int rille_graph_certify(struct rille_graph *g, const char *path);
int rille_certificate_check(const char *path, char **said);
/* Plans the step for another cluster, on a mesh of meta devices. If the cluster has as many axes as the step's mesh,
 * the layouts that the program sets are kept; otherwise all layouts are free. */
struct rille_cluster {
    int naxis;
    int32_t mesh[RILLE_AXES];
    double bandwidth[RILLE_AXES]; /* bytes per second that a rank receives over each axis, at least 1000; 0: as here */
    double latency[RILLE_AXES];   /* seconds per message, 0 to 1 */
    bool has_latency;             /* false: latency as here */
    double flops;                 /* per second and device; 0: as here */
    int64_t memory;               /* bytes per device; 0: no limit */
};
int rille_graph_whatif(struct rille_graph *g, const struct rille_cluster *c, struct rille_explain **out);
void rille_explain_free(struct rille_explain **e);
/* Explains one boxing without a tensor. */
int rille_boxing(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                 const struct rille_layout *from, const struct rille_layout *to, struct rille_explain **out);
/* Returns the plan as text: tasks, registers, memory; equal ranks are collapsed. physical: prints offsets and
 * scratch instead. */
int rille_plan(struct rille_session *s, int n, struct rille_tensor *const *t, bool physical, char **out);
int rille_graph_plan(struct rille_graph *g, bool physical, char **out);

/* Pictures: a tensor's shards on its mesh, for a terminal of `columns` columns (color: one per rank) or as an SVG
 * document; and the hops of a tensor of this type from one layout to another. */
int rille_tensor_show(struct rille_tensor *t, int columns, bool color, char **out);
int rille_tensor_show_svg(struct rille_tensor *t, char **out);
int rille_show_move(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                    const struct rille_layout *from, const struct rille_layout *to, int columns, bool color,
                    char **out);
int rille_show_move_svg(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                        const struct rille_layout *from, const struct rille_layout *to, char **out);

/* ---- files ---- */

/* Writes a text of n bytes to a file atomically: an existing file stays until the new one is complete. who: prefix
 * of the path in errors. Any thread. */
int rille_text_write(const char *who, const char *path, const char *text, size_t n);
/* Reads a plain file of at most `most` bytes. The caller must free() *text, which ends in a zero. Any thread. */
int rille_text_read(const char *path, int64_t most, char **text, size_t *n);

/* Named tensors in a file or a folder of shards, open for reading. rille_file_open() reads and checks the whole
 * header; a load reads for each rank only its own shard. format: "safetensors", "npy", "npz", "gguf", "llmc"; NULL:
 * by the suffix of the path. */
struct rille_file;
int rille_file_open(struct rille_session *s, const char *path, const char *format, struct rille_file **out);
void rille_file_close(struct rille_file **f);
struct rille_file_entry {
    const char *name, *dtype; /* dtype: the file's word if Rille has no such dtype; then rille_file_load() fails */
    int ndim;
    const int64_t *shape;
};
/* Describes the i-th tensor, in order of name; false past the end. */
bool rille_file_entry(const struct rille_file *f, int i, struct rille_file_entry *out);
int rille_file_find(const struct rille_file *f, const char *name); /* returns the index; -1: not found */
/* Returns the i-th metadata entry, in file order; false past the end. */
bool rille_file_text(const struct rille_file *f, int i, const char **key, const char **value);
/* Loads a tensor as a leaf. dtype: dtype to which floats are cast; NULL: the file's. */
int rille_file_load(struct rille_file *f, int i, const char *dtype, const struct rille_layout *layout,
                    struct rille_tensor **out);
/* Loads the positions from[axis] <= position < to[axis] of each axis; both NULL: all. The first `skip` axes, which
 * must have one position each, are dropped from the leaf. */
int rille_file_load_window(struct rille_file *f, int i, const int64_t *from, const int64_t *to, int skip,
                           const char *dtype, const struct rille_layout *layout, struct rille_tensor **out);
/* Loads the tensor of a .npy file. */
int rille_load_npy(struct rille_session *s, const char *path, const struct rille_layout *layout,
                   struct rille_tensor **out);

/* Writes named tensors to path.safetensors, to path.npy (one tensor, any name), or, if path is a folder, to shards
 * with an index, which replace those of an earlier save. A single file is written atomically. */
struct rille_save_options {
    int nmetadata;
    const char *const *metadata; /* key, value, key, value ... */
    int64_t shard_bytes;         /* maximum bytes of a shard in a folder; 0: 5 GB */
    bool digest;                 /* safetensors: adds a digest of all bytes, for rille_verify() */
    int nold;
    const char *const *old; /* files to remove when the new one is complete */
};
struct rille_saving; /* a save in progress, on its own thread, of the values at the time of the call */
/* in_background NULL: returns when all data is written. */
int rille_save(struct rille_session *s, const char *path, int n, const char *const *name, struct rille_tensor *const *t,
               const struct rille_save_options *o, struct rille_saving **in_background);
/* Checks that a save to path could begin: to a file, or (folder) to a folder that exists or can be made in an
 * existing one. Changes nothing. Any thread. */
int rille_may_save(const char *path, bool folder);
/* Claims a folder until rille_close(), so that a set of files in it (a list of checkpoints) belongs to one session.
 * Fails if another session, of any process, has claimed it; the error names both. */
int rille_claim_folder(struct rille_session *s, const char *folder);
/* Waits for the save and returns its result. Call it before rille_close(). */
int rille_saving_end(struct rille_saving **saving);
/* Checks that all bytes of the file match the digest written by a save; fails if there is none. */
int rille_verify(const char *path);

/* ---- text ---- */

/* A byte-level BPE tokenizer, from tokenizer.json or *.tiktoken. For *.tiktoken only: pattern (NULL: cl100k's), and
 * special tokens with their ids (NULL: the ids after the last). Needs no session; one thread at a time. Text may be
 * any bytes. */
struct rille_tokenizer;
int rille_tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special,
                         const int64_t *ids, struct rille_tokenizer **out);
void rille_tokenizer_free(struct rille_tokenizer **t);
int64_t rille_tokenizer_size(const struct rille_tokenizer *t); /* number of ids, including special tokens */
/* The caller must free() *ids. */
int rille_tokenizer_encode(struct rille_tokenizer *t, const char *text, size_t n, uint32_t **ids, size_t *nids);
/* The caller must free() *text, which ends in a zero. */
int rille_tokenizer_decode(const struct rille_tokenizer *t, size_t n, const int64_t *ids, char **text, size_t *ntext);
int rille_tokenizer_save(struct rille_tokenizer *t, const char *path); /* tokenizer.json */
/* Returns the special tokens that the file's template puts before and after a text; the tokenizer owns them. */
int rille_tokenizer_template(const struct rille_tokenizer *t, const uint32_t **before, size_t *nbefore,
                             const uint32_t **after, size_t *nafter);
int rille_tokenizer_is_special(const struct rille_tokenizer *t, int64_t id); /* not part of plain text */
/* Returns which batch settings tokenizer.json has: "truncation", "padding" or "truncation and padding"; NULL: none.
 * encode ignores these settings, save keeps them. */
const char *rille_tokenizer_batches(const struct rille_tokenizer *t);

/* Trains a tokenizer of `size` ids from texts that the caller adds one by one. Special tokens have the last ids;
 * reserved ids precede them if the texts yield too few. pattern NULL: GPT-2's. One thread at a time. */
struct rille_trainer;
int rille_trainer_new(const char *pattern, int nspecial, const char *const *special, struct rille_trainer **out);
void rille_trainer_free(struct rille_trainer **r);
int rille_trainer_add(struct rille_trainer *r, const char *text, size_t n);
int rille_trainer_end(struct rille_trainer *r, int64_t size, struct rille_tokenizer **out);

/* ---- tokens to train on ---- */

/* A sequence of ids, or several, one per file (llm.c's token files, of 16 or 32 bits). Files are read on demand. A
 * file is divided into consecutive windows of length + 1 ids, each sharing its last id with the next window; no
 * window spans two files. */
struct rille_tokens;
int rille_tokens_open(struct rille_session *s, int n, const char *const *path, struct rille_tokens **out);
int rille_tokens_of(struct rille_session *s, int64_t n, const int64_t *ids, struct rille_tokens **out); /* copies */
void rille_tokens_close(struct rille_tokens **t);
int64_t rille_tokens_count(const struct rille_tokens *t, int64_t *most); /* of all files; of the longest */
int64_t rille_tokens_windows(const struct rille_tokens *t, int64_t length);
/* Hashes the number of ids of each file and a sample of the ids, to tell files of equal length apart. The result is
 * the same in every process. */
int rille_tokens_digest(const struct rille_tokens *t, uint64_t *out);
/* Rows first .. first + n - 1 of an epoch, in the order given by seed and epoch: x {n, length} i64, and y, shifted
 * by one. A background thread prefetches the next n rows, at the end of an epoch those of the next epoch. */
struct rille_token_rows {
    int64_t length, first, n;
    int64_t vocab; /* upper bound of the ids read (exclusive), else E_ARG names file and place; 0: any ids */
    uint64_t seed, epoch;
    const struct rille_layout *x, *y; /* NULL: whole on device 0 */
};
int rille_tokens_batch(struct rille_tokens *t, const struct rille_token_rows *rows, struct rille_tensor **x,
                       struct rille_tensor **y);
/* Prefetch statistics of batches. Ideally the reader waits for credits, and callers never wait. */
struct rille_source_stats {
    int64_t depth;       /* credits: batches that the reader may be ahead */
    int64_t read, taken; /* batches */
    int64_t full;        /* times the reader waited for a credit */
    int64_t waited;      /* times a caller waited for its batch; the first batch always counts */
    double wait;         /* seconds that callers waited */
};
void rille_tokens_stats(const struct rille_tokens *t, struct rille_source_stats *out);
/* Returns all ids, i64 {n}. */
int rille_tokens_all(struct rille_tokens *t, const struct rille_layout *layout, struct rille_tensor **out);

/* ---- for tests ---- */

/* Makes the k-th act from now fail like a failing kernel (0: none). */
void rille_fail_act(struct rille_session *s, int64_t k);
/* Makes kernels of the operator with this name sleep this long as well (0: none); at most four operators. */
void rille_slow_op(struct rille_session *s, const char *op, double seconds);
/* Returns the program of a step as sent to workers: n bytes, which the caller must free(). */
int rille_graph_program(struct rille_graph *g, char **out, size_t *n);

#if defined __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
