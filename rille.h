/* rille.h - the public API of librille: tensors sharded over many devices, and programs on them.
 *
 * A session owns devices, threads, memory, the stored program and its plans. Only the thread that opened a session,
 * or that has called rille_adopt(), may use it, except for rille_interrupt() and rille_doing(). After fork(), a
 * child must not use the session of its parent, but may open a session of its own. Functions reject NULL, objects of
 * another session, and a parent's session in a child. A function that rejects its arguments returns an error code,
 * NULL, 0 or -1, or does nothing if it returns void; rille_error() says why. Values are lazy: an operator call only
 * adds a node to the stored program, and reading the value computes it. Errors of shape, dtype, layout and placement
 * are reported by the call.
 *
 * Functions that can fail return 0 or a code > 0. rille_error() then returns a text with the expected and the found
 * value; rille_error_line() returns the user's program line that rille_at() has set. The caller owns handles
 * (rille_tensor, rille_graph, rille_file...) and passes them to their free or close function, which also clears the
 * pointer. The session owns placements and layouts; equal ones have the same pointer. The caller must free() text
 * returned as char *; the library owns text returned as const char *. Axes, ranks and positions count from 0. dtypes
 * are text: f32 f64 bf16 f16 i32 i64 u8 bool. */
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
/* version of this header: 1000000 * MAJOR + 1000 * MINOR + PATCH */
#define RILLE_VERSION_NUMBER 1000
enum { RILLE_DIMS = 8, RILLE_AXES = 6 };

struct rille_session;
struct rille_tensor;
struct rille_place;
struct rille_layout;
struct rille_op;
struct rille_graph;
struct rille_live;

/* Return the version of the library at run time. The library may be later than this header, with which the program
 * was compiled. */
const char *rille_version(void);
int rille_version_number(void);

/* ---- opening and closing a session ---- */

/* An option struct begins with its size: sizeof the struct in the header with which the program was compiled. So the
 * program also runs with a later library, whose struct has more fields. Set the struct to zero first, because a zero
 * field means the default. size 0 means the struct of version 0.1.0. A field that the library does not know must be
 * zero. */
struct rille_options {
    size_t size; /* sizeof(struct rille_options) */
    /* devices to open, "cpu:8,meta"; NULL: 8 cpu devices, or one per core on a machine with more than 8 cores */
    const char *devices;
    /* maximum number of device threads; 0: the environment variable RILLE_THREADS or, if unset, one per core of the
     * process */
    int threads;
    /* message bus between device threads: "zmq", or "sim:SEED" for a simulation; NULL: the environment variable
     * RILLE_BUS or, if unset, "zmq" */
    const char *bus;
    uint64_t seed;       /* seed of random values */
    bool check_ref;      /* true: compare each kernel with its reference; applies to the whole process */
    bool check_nan;      /* initial setting of rille_detect_nan() */
    size_t memory_limit; /* memory limit per device, bytes; 0: none */
    /* implementation of collectives among GPUs: "own" (NULL): Rille's kernels; "nccl": NCCL (docs/cuda.md) */
    const char *collectives;
    const char *cost; /* file that rille_cost_write() wrote with this machine's costs; NULL: built-in costs */
    /* worker processes that own the devices; NULL: this process owns the devices. Only rille_open() reads the
     * struct */
    const struct rille_workers *cluster;
};

/* Options of a session over worker processes. Devices are numbered consecutively over the workers, in order of rank.
 * rille_open() waits until all workers have joined. */
enum { RILLE_SECRET = 16 };
struct rille_workers {
    size_t size; /* sizeof(struct rille_workers) */
    int workers;
    /* address at which the session listens for workers, "tcp://127.0.0.1:5555"; NULL: sockets in a private folder */
    const char *bind;
    /* key file of rille_key_new(), or a folder of such files; NULL: no keys, so workers must be on this host */
    const char *key_file;
    /* folders of checkpoints, separated by ':', "/a:/b"; NULL: none. A worker to which the same folders were passed
     * writes and reads its shards there itself */
    const char *root;
    /* Starts the worker process of a rank, which must call rille_worker() with this address and secret. Pass the
     * secret through a pipe, never in arguments or the environment. The session calls start() for each of the first
     * `started` ranks, and again whenever the worker of such a rank is lost. start() returns 0 and sets *pid, or
     * reports an error to the user and returns non-zero. NULL: all workers join by themselves. */
    int (*start)(void *arg, int rank, const char *address, const unsigned char secret[RILLE_SECRET], int *pid);
    int started;
    const char *devices; /* device list that start() passes to each worker; NULL: unknown */
    /* true: the session first waits 1.5 s for workers that an earlier session left running, and calls start() only
     * for the missing ones. A worker that was left keeps its devices; if this session requires other devices, that
     * is an error. */
    bool takes_over;
    /* time without a heartbeat after which a worker counts as lost, s; 0: 0.8 */
    double silence_seconds;
    /* longest wait for a packet that a worker reported as sent, s; 0: 3. The worker then counts as lost */
    double link_seconds;
    /* longest time without progress, s; 0: 600. If none of the workers whose answers are missing progresses for
     * this long, one of them counts as lost */
    double hang_seconds;
    /* returns the name of a rank's host, for error texts; the result NULL means this host. The field is NULL: all
     * ranks are on this host */
    const char *(*host)(void *arg, int rank);
    /* receives news, such as rejected workers, on any thread; NULL: no news */
    void (*say)(void *arg, const char *text);
    void *arg;
    /* text that names the job; all processes of a job pass the same text, and workers of other jobs are rejected;
     * NULL: no name */
    const char *job;
    /* smallest number of workers of an elastic job; 0: not elastic. The number of workers of an elastic job may
     * change (rille_can_admit), up to `workers`. The session begins when this number of workers has joined, among
     * them all workers that start() starts */
    int least;
    /* rille_recover() fails if more than `restarts` workers (at most 63) were lost within `restart_seconds`; 0 s: no
     * limit */
    int restarts;
    double restart_seconds;
};
/* Opens a session, which lasts until rille_close(). The texts of the options need not outlive the call, but those of
 * options->cluster must outlive the session. */
int rille_open(const struct rille_options *options, struct rille_session **s);
/* Hands the session over to the calling thread, and waits for work in progress. From then on, the previous thread may
 * not use the session. The caller makes sure that the previous thread has left its last call, by a lock or a queue. */
int rille_adopt(struct rille_session *s);
/* Closes the session. If the caller has not freed all handles, frees them and returns non-zero; rille_error() then
 * lists them. */
int rille_close(struct rille_session **s);

const char *rille_error(void); /* text of this thread's last error */
int rille_error_code(void);
const char *rille_error_kind(void); /* kind of this thread's last error in words: "shapes do not fit", ... */
/* user's line of the failed call, "file:line", as set by rille_at(); "": none */
const char *rille_error_line(void);
/* Returns the number of the module (`module` of rille_at) whose operator failed in a run; 0: none. */
int32_t rille_error_module(void);

/* Sets the user's program line for the following calls; copies the texts. inside: module that the line belongs to,
 * "nn.Linear"; NULL: none. module: the caller's number of that module; 0: none. */
void rille_at(struct rille_session *s, const char *file, int line, const char *inside, int32_t module);

/* ---- running sessions over worker processes ---- */

/* Transport between workers of different hosts. RILLE_TCP: TCP. RILLE_MPI_IF_ALL: MPI if all workers have the MPI
 * plug-in, else TCP; TCP as well after the loss of a worker. RILLE_MPI: MPI; if that is impossible, an error. */
enum rille_mpi { RILLE_TCP, RILLE_MPI_IF_ALL, RILLE_MPI };
struct rille_worker_options {
    size_t size; /* sizeof(struct rille_worker_options) */
    /* join: address of the coordinator; key_file: key file of this rank, NULL: no key; devices: list of this
     * worker's devices */
    const char *join, *key_file, *devices;
    /* implementation of collectives among GPUs, also with other workers' GPUs; values as in struct rille_options */
    const char *collectives;
    const char *root; /* folders "/a:/b" in which the worker writes and reads checkpoints; NULL: none */
    const char *host; /* host name that the worker reports, for tests; NULL: the real one */
    int rank;         /* rank that the worker requests; -1: any */
    /* secret that the starting session passed; all zero: no session started the process */
    unsigned char secret[RILLE_SECRET];
    int wait_seconds; /* time to wait for the coordinator, s */
    /* time to wait for a new coordinator after the old one has ended, s; 0: the worker ends at once */
    int keep_seconds;
    /* longest interruption of a connection to another worker, s; after it, that worker counts as lost; 0: 3 */
    double link_seconds;
    /* time without a heartbeat after which the worker counts the coordinator as lost, s; 0: 4.5 */
    double orphan_seconds;
    bool check_ref;                /* true: compare each kernel with its reference */
    enum rille_mpi mpi;            /* transport between hosts */
    void (*say)(const char *text); /* receives news on any thread, in one worker of the job; NULL: no news */
    void (*joined)(void);          /* called when a coordinator has admitted the worker; NULL: not called */
    /* returns a signal that this process has received; the worker passes it to the controller; 0: none. Called on
     * any thread; NULL: signals are not passed on */
    int (*signal)(void);
    /* function that ends the process (_exit). Called when the worker must end and a kernel does not return; NULL:
     * the worker waits for the kernel */
    void (*die)(int status);
    const char *job; /* text that names the job, as in struct rille_workers; NULL: no name */
    int *code;       /* set to the exit code of the job (rille_end_with) when the job ends; NULL: not needed */
};
/* Runs the work that a controller sends, and returns 0 when the job ends. Non-zero: the controller rejected the
 * worker or disconnected it; rille_error() says why. */
int rille_worker(const struct rille_worker_options *options);
/* Sets *out to the name of the library for which the MPI plug-in was built, "Open MPI 4.1.4". Non-zero: this process
 * cannot use the plug-in; rille_error() says why. */
int rille_mpi_library(const char **out);
/* Removes the sockets of address `join`, if a killed controller has left them. A worker that ends by itself calls
 * this function. */
void rille_sweep(const char *join);
/* Writes to `out` the address of this host on the route to another host, with IPv6 addresses in brackets. Non-zero:
 * there is no route. */
int rille_own_address(const char *host, char out[64]);
/* Limits matrix products of this process to an instruction set, such as "avx2". If the process is a cluster's
 * controller, all workers use at most this set. Call this function before a product or a cluster. Non-zero: unknown
 * name, or a product was computed already; rille_error() says which. */
int rille_limit_isa(const char *name);
/* checks the syntax of an address; non-zero: rille_error() says what is wrong */
int rille_address(const char *text);
/* Checks the device list of a worker. here true: the worker is this process, so its GPU driver is asked, too.
 * Non-zero: rille_error() says what is wrong. */
int rille_devices(const char *text, bool here);
/* Limits of this process, which can be less than the machine has (docs/library.md). Sources: affinity, control groups
 * of containers and batch systems, OMP_NUM_THREADS. */
struct rille_limits {
    int cores;             /* number of cores that the process can keep busy: the default number of device threads */
    uint64_t memory;       /* bytes of memory that all processes of the control group can use */
    char cores_from[320];  /* setting or file that limits the cores; "": the machine */
    char memory_from[320]; /* file that limits the memory; "": the machine */
};
int rille_limits(struct rille_limits *out);
int rille_key_new(char **text); /* returns the text of a new key file */
/* Returns the texts of a folder of key files. There is one file per process, so that each key is valid only for its
 * rank: text[0] is the coordinator's, text[1 + r] that of rank r. The caller must free() the texts. Non-zero:
 * unsupported number of workers. */
int rille_key_new_ranks(int workers, char **text);
enum { RILLE_KEY_NAME = 24 };
/* returns the file name of a rank's key in such a folder; rank -1: the coordinator's key */
int rille_key_name(int rank, char out[RILLE_KEY_NAME]);

struct rille_worker_info {
    int rank, pid, cores; /* cores: number of cores of the worker's host */
    uint64_t bytes;
    char host[64], devices[256], state[16]; /* devices: device names, "cpu:2 cpu:3" */
    double heartbeat;                       /* time since the last heartbeat, s */
    int64_t acts;                           /* number of acts in all runs */
    double busy;                            /* time in which the worker's devices had work, s, summed over devices */
    /* slowdown: duration of the worker's acts divided by that of workers with the same tasks; 0: not much slower */
    double slow;
    double silence, hang, link;  /* time limits of the controller (struct rille_workers), s; 0: no cluster */
    double own_link, own_orphan; /* time limits of the worker (struct rille_worker_options), s; 0: no cluster */
};
/* Describes the i-th worker; returns false if there are at most i workers. A session without a cluster has one
 * worker, this process. May be called on any thread, until rille_close() is called. */
bool rille_worker_info(struct rille_session *s, int i, struct rille_worker_info *out);
/* Sets the signals, bits 1 << number, that the program handles if a worker receives them. Other signals end the worker
 * that receives them. */
int rille_hear(struct rille_session *s, uint64_t signals);
/* Returns the first signal that a worker has received, of those set by rille_hear(), and sets *rank to the worker;
 * 0: none. */
int rille_heard(struct rille_session *s, int *rank);
/* Sets the exit code of the job, which rille_close() sends to the workers; 0 if this function is not called. */
int rille_end_with(struct rille_session *s, int code);
bool rille_in_cluster(struct rille_session *s);
bool rille_was_lost(void); /* returns true if this thread's last error was the loss of a worker */

/* rille_snapshot() saves all variables, their gradients and the counters of random values in memory. *number: number
 * of the snapshot. On several hosts, a second copy is sent to other hosts while the next runs compute. Until that
 * copy is complete, only the previous snapshot survives the loss of a host. The first snapshot waits for its copy,
 * and each later snapshot waits for the copy of the previous one. keep: number of snapshots kept, 1 or 2; 2
 * doubles the memory. *oldest: number of the oldest snapshot that is kept.
 *
 * rille_recover() restores the latest usable snapshot; *number: its number. Recovery first replaces lost workers, or
 * gives their devices to the remaining ones. workers: number of workers to continue with; 0: as many as before, and in
 * an elastic job all that are present, wait to be admitted, or are started by the session. Recovery fails if a worker
 * was lost three times in succession at the same operator call after the same snapshot. Handles and graphs stay valid.
 * *why: why a later snapshot could not be used (damaged or lost); NULL: the latest one was used. The text is valid
 * until the next call. */
struct rille_state; /* a training's state; NULL: the snapshot is lost with this process */
int rille_snapshot(struct rille_session *s, int keep, const struct rille_state *state, int64_t *number,
                   int64_t *oldest);
bool rille_has_snapshot(struct rille_session *s);
/* The state of a training for the next controller, which finds it with the workers that outlive this one
 * (keep_seconds). The tensors must have no pending reduction. A snapshot with a state waits until the copies on other
 * hosts and the digests are complete. rille_keeps_state() returns true if a worker of the job outlives the controller.
 */
struct rille_state {
    int n;
    const char *const *name;
    struct rille_tensor *const *tensor;
    const char *text;
};
bool rille_keeps_state(struct rille_session *s);
/* Finds the latest snapshot with a state of an earlier controller. *text: JSON {"state": text of the state, "values":
 * {name: {"dtype": "f32", "shape": [2, 3], ...}}}, valid until the next call; NULL: there is none. *took_over: workers
 * of an earlier controller are present. rille_kept_tensor() reads a tensor of this state, with the given layout. It
 * fails if the bytes are lost or damaged. */
int rille_kept_state(struct rille_session *s, const char **text, bool *took_over);
int rille_kept_tensor(struct rille_session *s, const char *name, const struct rille_layout *layout,
                      struct rille_tensor **out);
/* Compares the replicas of all variables and gradients in the last snapshot, by digests. If replicas differ,
 * returns non-zero, names their workers in rille_error(), and drops the last snapshot, so that recovery uses the
 * previous one (if keep was 2). If all replicas agree, drops the previous snapshot. *wrong: NULL, unless an earlier
 * comparison failed and the same work was repeated since. Then *wrong names the workers whose replicas were wrong
 * in that comparison. The text is valid until the next call. */
int rille_compare_replicas(struct rille_session *s, const char **wrong);
int rille_recover(struct rille_session *s, int workers, int64_t *number, const char **why);
/* Returns true if workers wait to join an elastic job that has fewer workers than its maximum. */
bool rille_can_admit(struct rille_session *s);
/* Admits the workers that wait. The session then has their devices, too, and compiled steps are traced again; values
 * stay. Saves in progress must have ended. If a worker is lost meanwhile, fails as a run does. */
int rille_admit(struct rille_session *s);
/* Returns true if the worker to which a device belongs is present. If the worker is lost, and the job continues without
 * it, another worker computes for the device. Without workers returns true for all devices of the session. */
bool rille_device_present(struct rille_session *s, const char *kind, int device);

/* Waits until the work of all runs is complete, and returns its error, if any. A run on one device with streams
 * (async, cuda) may return before its work is complete. The call that waits then reports errors, with the line of
 * the failed operator. Reads and saves wait by themselves. An interrupt ends the wait, but not the work. Call
 * rille_wait() before rille_close(), which does not report errors of such work. */
int rille_wait(struct rille_session *s);

/* Requests cancellation of the run in progress. The run fails with "interrupted" at its next act, and restores the
 * count of random numbers. A run that has begun to update variables finishes first. A planner's search ends, too.
 * Any thread, async-signal-safe. */
void rille_interrupt(struct rille_session *s);
/* Sets a function that long text and file operations on this thread call every few milliseconds. If the function
 * returns true, the operation fails with "interrupted". The function must then return true until the operation has
 * failed. NULL: no function. */
void rille_stop_when(bool (*wanted)(void *arg), void *arg);
/* Describes what the run in progress does: "matmul (a.lua:3)"; "a run" if this process does not know the operator;
 * "": no run. For a device with streams, the text also describes work that a thread waits for after the run has
 * returned: "matmul (a.lua:3) on async:0". Any thread, async-signal-safe. */
void rille_doing(struct rille_session *s, char *text, size_t size);
/* Describes what a device thread computes, or what the thread waits for on its devices. thread: number of a thread
 * of this process, or of a worker on its host. Returns false if there is no such thread. Session's thread,
 * async-signal-safe. */
bool rille_doing_thread(struct rille_session *s, int thread, char *text, size_t size);
/* Describes what an idle device thread of this process waits for: "matmul (a.lua:3) waits for relu (a.lua:2) on
 * cpu:0"; "": nothing. The text ends with "to read" if the matmul cannot overwrite its buffer before the relu has
 * read it. In all other respects, the function is like rille_doing_thread(). */
bool rille_waiting_thread(struct rille_session *s, int thread, char *text, size_t size);
/* Describes the job of a session with workers, also during a run: the phase, the number of the run, and a line for
 * each worker. A worker's line has its state, the time without progress, and its current act. "": the session has no
 * workers. Any thread, until rille_close() is called. */
void rille_status(struct rille_session *s, char *text, size_t size);
void rille_seed(struct rille_session *s, uint64_t seed); /* sets the seed and resets the count of random calls */
/* Get and set the state of the random numbers. Sessions with equal seed and count draw the same numbers from then
 * on, in compiled steps or not. */
void rille_random_state(struct rille_session *s, uint64_t *seed, uint64_t *count);
void rille_random_restore(struct rille_session *s, uint64_t seed, uint64_t count);

/* Measured costs of this machine. Costs of moves decide whether a boxing (redistribution) is done directly or in
 * hops (collective steps), and how sums between hosts are computed. Planners also use the rates of computation.
 * rille_calibrate() measures all costs except those between hosts, on four cpu devices, in one or two seconds; the
 * session stays unchanged. A session reads a file of rille_cost_write() if its options name the file. */
struct rille_cost {
    double alpha_ns;          /* cost per message, ns */
    double beta_ns_per_byte;  /* cost per byte received, ns */
    double gamma_ns_per_byte; /* cost per byte that a rank reads to reduce, ns */
    double copy_ns_per_byte;  /* cost per byte that a rank copies of its own data, ns */
    double hop_ns;            /* fixed cost per hop (collective step), ns */
    double wire_ns;           /* latency to another host, ns */
    double wire_ns_per_byte;  /* cost per byte sent to another host, ns */
    double staging_bytes;     /* maximum number of bytes that a rank may hold between hops; 0: no limit */
    double flops_per_ns;      /* speed of matrix products, floating-point operations per ns */
    double bytes_per_ns;      /* speed of other operators, bytes read and written per ns */
};
void rille_cost(struct rille_session *s, struct rille_cost *out);
int rille_calibrate(struct rille_session *s, struct rille_cost *out);
int rille_cost_write(const char *path, const struct rille_cost *c);

/* Returns the number of the session's devices of a kind. -1: unknown kind; INT_MAX: meta. */
int rille_device_count(struct rille_session *s, const char *kind);
const char *rille_default_kind(struct rille_session *s);

struct rille_counters {
    int64_t nodes;      /* number of operator calls since the session was opened */
    int64_t compiles;   /* number of plans compiled */
    int64_t cache_hits; /* number of plans found in the cache */
    int64_t runs;
    int64_t acts;
    int64_t messages;        /* number of messages through the rings of device threads */
    int64_t thread_messages; /* number of messages between different threads */
    int64_t allocations;     /* number of buffers that pools allocated from the system or device */
    int64_t run_allocations; /* number of allocations of Rille's code on device threads during runs; expected: 0 */
    int64_t live_values;     /* number of stored values and nodes */
    int64_t live_nodes;
    int64_t live_bytes; /* bytes in buffers, sum over all devices */
    int64_t arena_bytes;
    int64_t plans;      /* number of plans in the cache */
    int64_t plan_bytes; /* approximate host memory of the plans in the cache, bytes */
    /* number of rille_generation() calls; a compiled step with an older generation must be traced again */
    int64_t generation;
    int64_t cuda_graphs;  /* number of CUDA graphs that this process has created */
    int64_t cuda_replays; /* number of launches of CUDA graphs */
};
void rille_count(struct rille_session *s, struct rille_counters *out);

/* Totals over all runs of a session since rille_metrics_begin(), for monitors. */
enum { RILLE_MOVES = 16 };
struct rille_moved {
    const char *name; /* usual name of the moves: "all-reduce", ...; "other": names beyond the first RILLE_MOVES - 1 */
    int64_t times, bytes; /* times: number of moves; bytes: bytes sent, sum over all ranks */
};
struct rille_metrics {
    int64_t runs, failed_runs;
    int64_t acts, compiles, snapshots;
    /* after the last run: bytes of stored tensors; bytes of the memory that devices keep for the intermediate
     * values of runs */
    int64_t tensor_bytes, arena_bytes;
    /* run_seconds: time in runs. busy_seconds: busy time of all devices. device_seconds: time in runs multiplied by
     * the number of devices. So 1 - busy_seconds / device_seconds is the idle share, with pipeline bubbles */
    double run_seconds, busy_seconds, device_seconds;
    int64_t losses, recoveries; /* number of lost workers; number of recoveries from losses */
    int nmove;
    struct rille_moved move[RILLE_MOVES];
};
/* Begins to count the totals of rille_metrics(). Each run then takes a few microseconds more; the first run of a
 * plan counts the plan's moves. */
int rille_metrics_begin(struct rille_session *s);
/* Copies the totals. Does not wait for a run in progress, whose work is not included. Any thread, until rille_close()
 * is called. */
int rille_metrics(struct rille_session *s, struct rille_metrics *out);
/* Returns an estimate of the bytes that only the host program's garbage collector can free (for lua_gc). */
int64_t rille_external_bytes(struct rille_session *s);

struct rille_device_info {
    const char *kind;
    int device, thread; /* thread: number as in rille_doing_thread(); -1: the device is on another host */
    int64_t live_bytes, arena_bytes, peak_bytes, limit_bytes;
};
/* Describes the i-th device that the session has used. Returns false if it has used at most i devices. */
bool rille_device_info(struct rille_session *s, int i, struct rille_device_info *out);
struct rille_gpu_info {
    char name[256];
    int64_t memory;    /* memory of the GPU, bytes */
    int major, minor;  /* compute capability, major and minor */
    char kernels[512]; /* compiler and cache of kernels, or why kernels cannot be compiled */
};
/* Describes the GPU of device cuda:device. */
int rille_gpu_info(struct rille_session *s, int device, struct rille_gpu_info *out);

/* ---- making placements and layouts ---- */

/* Makes the placement of a mesh. sizes: number of ranks along each of naxis axes; ranks: the device of each mesh
 * position, in row-major order. The session owns the placement until rille_close(). */
int rille_place(struct rille_session *s, const char *kind, int naxis, const int32_t *sizes, const int32_t *ranks,
                const struct rille_place **out);
const char *rille_place_kind(const struct rille_place *p);
int rille_place_axes(const struct rille_place *p, int32_t sizes[RILLE_AXES]); /* returns the number of axes */
/* returns the number of ranks; *ranks: device numbers in mesh order, owned by the placement */
int rille_place_ranks(const struct rille_place *p, const int32_t **ranks);
char *rille_place_text(const struct rille_place *p);

/* Makes a layout from one text per mesh axis ("S(0)", "B", "P(max)"), or from a single text for all axes ("(B,
 * S(0))"). order: every mesh axis once, in the order of splitting; NULL: mesh order. ndim: number of dimensions of
 * the tensor; -1: unknown. With ndim, S(-1) stands for the last dimension, and the function rejects dimensions that
 * the tensor does not have. The session owns the layout until rille_close(). */
int rille_layout(struct rille_session *s, const struct rille_place *p, int n, const char *const *sbp, const int *order,
                 int ndim, const struct rille_layout **out);
const struct rille_place *rille_layout_place(const struct rille_layout *l);
/* returns a text that the session owns */
const char *rille_layout_text(struct rille_session *s, const struct rille_layout *l);

/* ---- finding and calling operators ---- */

/* Properties of an operand. number: the operand may be a number; optional: the operand may be absent; list: the
 * operand is a list of tensors; hidden: the session sets the operand, not the caller. */
struct rille_operand_info {
    const char *name;
    bool number, optional, list, hidden;
};
enum rille_attr_kind { RILLE_INT = 1, RILLE_FLOAT, RILLE_BOOL, RILLE_TEXT, RILLE_INTS, RILLE_DTYPE };
struct rille_attr_info {
    const char *name;
    enum rille_attr_kind kind;
    bool required;
    const char *words; /* allowed words of a RILLE_TEXT attribute, separated by '|' */
    const char *doc;
};
/* Returns the operator with this name; NULL: no such operator. Operators are constants of the library. */
const struct rille_op *rille_op_find(const char *name);
/* returns the i-th operator, built-in ones in order of name, then loaded ones; NULL: there are at most i operators */
const struct rille_op *rille_op_at(int i);
const char *rille_op_name(const struct rille_op *op);
int rille_op_operands(const struct rille_op *op, struct rille_operand_info out[16]);
int rille_op_attrs(const struct rille_op *op, struct rille_attr_info out[16]);
int rille_op_results(const struct rille_op *op);
bool rille_op_hidden(const struct rille_op *op); /* returns true if the operator is internal, not for users */
/* returns true if the operator creates a tensor without tensor operands; call it with rille_create */
bool rille_op_source(const struct rille_op *op);
/* returns true if the operator computes each element from the operands' elements at that position */
bool rille_op_elementwise(const struct rille_op *op);
/* returns the path of the library that the operator was loaded from; NULL: it is built in */
const char *rille_op_library(const struct rille_op *op);
char *rille_op_help(struct rille_session *s, const struct rille_op *op); /* returns the operator's help page */

/* Loads the operators of a shared library (rille_operator.h) for the whole process; a path without '/' is a file
 * of the current folder. Does nothing if they are loaded already. Fails without loading any operator in these
 * cases: the path is no such library; the library has another interface version; an operator of that name exists;
 * a record is wrong (each record is checked on its samples). rille_open() and rille_worker() load the libraries
 * that the environment variable RILLE_OPERATORS lists, separated by ':', because worker processes need the
 * operators, too. */
int rille_load_operators(struct rille_session *s, const char *path);

enum rille_arg_kind { RILLE_ARG_NONE, RILLE_ARG_TENSOR, RILLE_ARG_INT, RILLE_ARG_FLOAT, RILLE_ARG_LIVE };
struct rille_arg {
    enum rille_arg_kind kind;
    struct rille_tensor *tensor; /* value of RILLE_ARG_TENSOR */
    int64_t i;                   /* value of RILLE_ARG_INT */
    double f;                    /* value of RILLE_ARG_FLOAT */
    struct rille_live *live;     /* value of RILLE_ARG_LIVE */
};
struct rille_attr {
    const char *name;
    enum rille_attr_kind kind;
    int64_t i;        /* value of RILLE_INT and RILLE_BOOL */
    double f;         /* value of RILLE_FLOAT */
    const char *text; /* value of RILLE_TEXT and RILLE_DTYPE */
    int n;            /* length of RILLE_INTS */
    const int64_t *list;
};
/* Calls an operator. args: operands in order; trailing optional operands may be omitted. out: room for
 * rille_op_results() handles. A FLOAT attribute accepts an integer, and an INTS attribute a single INT. */
int rille_call(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args, int nattrs,
               const struct rille_attr *attrs, struct rille_tensor **out);
/* Sets the sharding strategy of the next call: the number of pieces into which the call splits each dimension of
 * its tensor operands. The strategy constrains the call's layouts, for the default choice and for a planner.
 * naxis: by operand, number of its dimensions; pieces: numbers of pieces for all dimensions of operand 0, then of
 * operand 1, and so on. */
int rille_strategy(struct rille_session *s, int noperand, const int *naxis, const int32_t *pieces);
/* Calls an operator in place: assigns its first result to leaf, a variable, like rille_tensor_assign(). Rejects a
 * result whose dtype class is wider than the leaf's (a float for an integer, an integer for a bool). */
int rille_call_into(struct rille_session *s, struct rille_tensor *leaf, const struct rille_op *op, int nargs,
                    const struct rille_arg *args, int nattrs, const struct rille_attr *attrs);
/* Calls a source operator ("zeros", "randn", "arange"...), and returns a leaf. dtype NULL: the operator's default.
 * layout NULL: the complete tensor on device 0 of the default kind. args: the operator's number operands. */
int rille_create(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args, int ndim,
                 const int64_t *shape, const char *dtype, const struct rille_layout *layout, struct rille_tensor **out);

/* ---- making, reading and changing tensors ---- */

/* Functions that return a tensor in a struct rille_tensor ** argument return a new handle, even if the tensor
 * already has handles. A handle lasts until rille_tensor_free() or rille_close(). Results, graphs, gradients and
 * saves keep the values that they need alive, also after the handles are freed. */

/* Copies host values into a new leaf. data: the global value, dense and row-major, of this dtype. */
int rille_tensor_from_host(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape, const void *data,
                           const struct rille_layout *layout, struct rille_tensor **out);
/* Makes a new leaf of memory that the caller owns, on device 0 of the default kind. strides: in elements; NULL:
 * dense and row-major. The tensor shares the memory if the memory is dense, aligned to 64 bytes and on a cpu device
 * of this process; otherwise the function copies the memory. Rille never writes shared memory: a change in place moves
 * the leaf. The caller must not write shared memory until all results of the leaf are computed. release(arg) is called
 * once, on the session's thread, when Rille does not use the memory any more; NULL: no call. If the function copies
 * the memory, the call is made before the function returns, otherwise in rille_close() at the latest. But memory that
 * rille_to_dlpack() has shared is released by the last deleter, on its thread, if that is called after rille_close().
 * After an error, the memory stays the caller's, and release() is not called. */
int rille_from_memory(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                      const int64_t *strides, void *data, void (*release)(void *arg), void *arg,
                      struct rille_tensor **out);
/* DLPack: tensors of other libraries, in the structs of dlpack.h (version 1), which the caller includes. Only cpu
 * memory.
 *
 * rille_from_dlpack() makes a leaf as rille_from_memory() does, and owns m if it succeeds: m->deleter is the release
 * function. Memory that m marks as read-only is shared, too.
 *
 * rille_to_dlpack() computes t, and returns its value in *out. The caller must call the deleter of *out once, on any
 * thread, also after rille_close(). t must be on one cpu device, or replicated over cpu devices. The value is
 * shared, so the caller must not write it; later changes of t may be visible or not. A session with workers copies
 * the value. The deleter only marks the memory of the value: the next call of a function of this group, or
 * rille_close(), frees it. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;
int rille_from_dlpack(struct rille_session *s, struct DLManagedTensor *m, struct rille_tensor **out);
int rille_from_dlpack_versioned(struct rille_session *s, struct DLManagedTensorVersioned *m, struct rille_tensor **out);
int rille_to_dlpack(struct rille_tensor *t, struct DLManagedTensor **out);
int rille_to_dlpack_versioned(struct rille_tensor *t, struct DLManagedTensorVersioned **out);
void rille_tensor_free(struct rille_tensor **t);
struct rille_tensor *rille_tensor_hold(struct rille_tensor *t); /* returns another handle on the same tensor */

const char *rille_tensor_dtype(const struct rille_tensor *t); /* returns a constant of the library */
int rille_tensor_ndim(const struct rille_tensor *t);
/* returns an array that lasts until t is freed or changed in place */
const int64_t *rille_tensor_shape(const struct rille_tensor *t);
int64_t rille_tensor_numel(const struct rille_tensor *t);
size_t rille_dtype_bytes(const char *dtype); /* returns the bytes per element; 0: unknown dtype (rille_error()) */
const struct rille_layout *rille_tensor_layout(const struct rille_tensor *t);
bool rille_tensor_is_leaf(const struct rille_tensor *t);
/* Returns true if values can be assigned to t: t is a leaf or a clone. A leaf stays assignable after the
 * assignment of a value with a recorded gradient, although t is then no leaf (rille_tensor_is_leaf()). */
bool rille_tensor_is_variable(const struct rille_tensor *t);
/* returns the dimension along which t counts 0, 1, 2, ...: t is an arange that is not computed yet, and its other
 * dimensions have size 1. -1: any other tensor */
int rille_tensor_counts(const struct rille_tensor *t);
/* returns true if the value is in memory; false: reading computes it */
bool rille_tensor_has_value(const struct rille_tensor *t);
/* returns true if t existed before the trace in progress, and the traced calls have not changed it or its gradient */
bool rille_tensor_predates(const struct rille_tensor *t);
bool rille_tensor_requires_grad(const struct rille_tensor *t);
/* Sets requires_grad of a leaf with a float dtype. A compiled step that reads the leaf can be called only while the
 * flag is as it was in the trace. */
int rille_tensor_set_requires_grad(struct rille_tensor *t, bool on);
/* Returns true if the last rille_tensor_set_requires_grad() of t switched the flag off; false: the flag is on, or
 * was never set. */
bool rille_tensor_frozen(const struct rille_tensor *t);
/* returns a text that lasts until t is freed or named again; NULL: the tensor has no name */
const char *rille_tensor_name(const struct rille_tensor *t);
void rille_tensor_set_name(struct rille_tensor *t, const char *name);

/* Computes the values of these tensors in one run, except those that are computed already. */
int rille_eval(struct rille_session *s, int n, struct rille_tensor *const *t);
/* Writes the global value to `out`: dense, row-major, number of elements * rille_dtype_bytes() bytes. */
int rille_tensor_read(struct rille_tensor *t, void *out);
/* Writes the elements with start[i] <= index < stop[i] along each axis i to `out`. Requests data only from ranks
 * that own some of these elements. */
int rille_tensor_read_part(struct rille_tensor *t, const int64_t *start, const int64_t *stop, void *out);
/* Reads the value of a tensor with one element. Integers and bools: sets *is_int and *i; floats: *f. */
int rille_tensor_item(struct rille_tensor *t, double *f, int64_t *i, bool *is_int);
/* Returns the shard of a rank, as a tensor on that device alone. Differentiable: if t requires a gradient, the tensor
 * is moved to the device and sliced; a detached tensor is not moved. */
int rille_tensor_to_local(struct rille_tensor *t, int rank, struct rille_tensor **out);
/* Makes a tensor from one shard per rank, in mesh order. The layout must be S on each mesh axis. */
int rille_tensor_from_local(int n, struct rille_tensor *const *shard, const struct rille_layout *layout,
                            struct rille_tensor **out);
/* Returns the rank at mesh position pos, and the shape and global offset of its shard. */
int rille_tensor_shard(const struct rille_tensor *t, int pos, int *rank, int64_t *shape, int64_t *offset);

int rille_tensor_to_global(struct rille_tensor *t, const struct rille_layout *l,
                           struct rille_tensor **out); /* moves t to another layout; differentiable */
/* Moves t like rille_tensor_to_global(). In backward, the gradient is converted to the layout of t (replicated where
 * t is partial) before any other operator uses the gradient. */
int rille_tensor_pin(struct rille_tensor *t, const struct rille_layout *l, struct rille_tensor **out);
int rille_tensor_detach(struct rille_tensor *t, struct rille_tensor **out);
/* rille_tensor_parts() stacks the addends of a partial tensor along a new first dimension. rille_tensor_of_parts()
 * makes a partial tensor from such a stack. Addends of bf16 and f16 are stored as f32. dtype: dtype of the sum;
 * NULL: dtype of the addends. */
int rille_tensor_parts(struct rille_tensor *t, struct rille_tensor **out);
int rille_tensor_of_parts(struct rille_tensor *parts, const struct rille_layout *layout, const char *dtype,
                          struct rille_tensor **out);
int rille_tensor_clone(struct rille_tensor *t, struct rille_tensor **out);
/* Sets whether a planner may choose the leaf's layout (sbp = "auto"). The first step with a planner that reads the
 * leaf, or has the leaf as an argument, chooses a layout, which the leaf keeps. rille_tensor_relayout() clears the
 * setting. */
int rille_tensor_auto(struct rille_tensor *leaf, bool on);
/* Assigns src's value to the leaf in place: casts to the leaf's dtype, and moves to its layout. The shape must
 * broadcast to the leaf's. Results computed from the old value keep it. The assignment is recorded for gradients, like
 * an operator: a leaf without requires_grad becomes a result of src's computation, which rille_tensor_is_variable()
 * still reports as a variable. E_STATE: both the leaf and src require a gradient. */
int rille_tensor_assign(struct rille_tensor *leaf, struct rille_tensor *src);
/* Assigns src[i] to leaf[i], for n leaves, without recording gradients. After an error, all leaves keep their values,
 * and *wrong is the index of the leaf that caused the error; wrong may be NULL. Some operators can fail because of
 * their data, such as an embedding of ids. If src depends on such operators, they are computed at once, so that this
 * call reports their errors. */
int rille_tensors_assign(struct rille_session *s, int n, struct rille_tensor *const *leaf,
                         struct rille_tensor *const *src, int *wrong);
/* Changes the layout of the leaf and of its gradient in place (to_global_). Resets rille_tensor_set_grad_layout().
 * Compiled steps with the old layout must be traced again. */
int rille_tensor_relayout(struct rille_tensor *leaf, const struct rille_layout *l);
/* Changes the layout of leaf[i] to l[i], for n leaves. After an error, all leaves keep their layouts, and *wrong is
 * the index of the leaf that caused the error; wrong may be NULL. */
int rille_tensors_relayout(struct rille_session *s, int n, struct rille_tensor *const *leaf,
                           const struct rille_layout *const *l, int *wrong);
/* Changes the dtype of n leaves and of their gradients. After an error, all leaves keep their dtypes, and *wrong is
 * the index of the leaf that caused the error; wrong may be NULL. Results computed from the old values keep them.
 * Compiled steps with the old dtype must be traced again. */
int rille_tensors_retype(struct rille_session *s, int n, struct rille_tensor *const *leaf, const char *dtype,
                         int *wrong);

/* ---- computing gradients ---- */

/* Adds d t / d leaf to the gradient of each leaf with requires_grad; t must have one element.
 * rille_tensor_backward_retained() keeps the saved tensors, so that backward may be called again. */
int rille_tensor_backward(struct rille_tensor *t);
int rille_tensor_backward_retained(struct rille_tensor *t);
/* Sets out[i] to d sum(y) / d x[i], which is differentiable again; zeros if y does not depend on x[i]. y may have
 * any shape. */
int rille_tensor_grad_of(struct rille_tensor *y, int n, struct rille_tensor *const *x, struct rille_tensor **out);
/* Returns a new handle on the tensor's gradient; NULL: the tensor has no gradient. */
struct rille_tensor *rille_tensor_grad(struct rille_tensor *t);
int rille_tensor_set_grad(struct rille_tensor *t, struct rille_tensor *g); /* g NULL: removes t's gradient */
/* Sets the layout, on the leaf's placement, in which backward stores the leaf's gradient. NULL: a layout chosen to
 * fit the leaf's layout. Changing the leaf's layout resets the setting. */
int rille_tensor_set_grad_layout(struct rille_tensor *t, const struct rille_layout *l);
/* Sets when compiled steps gather a sharded variable whose operators need it replicated. true (the initial
 * setting): steps free the gathered value after forward, and gather again for backward. false: steps gather once,
 * and keep the value until backward has read it. */
int rille_tensor_set_reshard(struct rille_tensor *variable, bool on);
/* sets whether calls record gradients; returns the previous setting */
bool rille_grad_mode(struct rille_session *s, bool on);

/* The caller's backward function of a custom gradient. Backward calls the function once, with the gradients of all
 * results (NULL: an integer result) and the saved tensors. The function sets din[i] to a new handle on the
 * gradient of argument i, or leaves NULL: no gradient. The function may call all functions of this header. It
 * returns 0, or the error code of a function that failed. */
typedef int rille_backward_fn(void *arg, struct rille_tensor *const *dresult, struct rille_tensor *const *saved,
                              struct rille_tensor **din);
struct rille_backward {
    const char *name; /* name of the function, for messages; the call copies the text */
    rille_backward_fn *fn;
    void (*drop)(void *arg); /* called once, when arg is not needed any more, also if the call fails; may be NULL */
    void *arg;
};
/* Attaches a custom gradient to results. Sets out[k] to a new handle on result[k], whose gradient the backward
 * function computes. The results must have been computed in grad mode off, from the arguments in[] (NULL: not a
 * tensor). If grad mode is off now, or no argument needs a gradient, the results get none. */
int rille_own_gradient(struct rille_session *s, const struct rille_backward *backward, int nin,
                       struct rille_tensor *const *in, int nsaved, struct rille_tensor *const *saved, int nresult,
                       struct rille_tensor *const *result, struct rille_tensor **out);

/* A scan is a loop over the positions of an axis, as one operator. It carries states from each position to the
 * next.
 *
 * rille_scan_begin() sets out[] to nstate + nslice stand-ins, owned by the caller: one for each state, with the
 * type of state[i]; and one for each slice, with the type of slice[i] without the axis. With the stand-ins the
 * caller computes the next states and the outputs of one position. Until the end of the recording, the values of
 * stand-ins cannot be read, and variables cannot be assigned.
 *
 * rille_scan_end() takes nstate next states and noutput outputs. It sets out[] to the states after `length`
 * positions, and to the outputs of all positions, stacked along the axis. rille_scan_cancel() ends the recording
 * without a result. Both free the scan, also if they fail, unless an argument is missing.
 *
 * The error of rille_scan_end() says why the calls cannot become one operator; for instance, they draw random
 * numbers. The caller can then repeat the calls for each position. *final true: the caller cannot repeat the
 * calls, because a step of several micro-batches cannot contain them. Session's thread. E_ARG, E_STATE, E_SHAPE,
 * E_PLAN. */
struct rille_scan;
int rille_scan_begin(struct rille_session *s, int axis, int nstate, struct rille_tensor *const *state, int nslice,
                     struct rille_tensor *const *slice, struct rille_tensor **out, struct rille_scan **scan);
int rille_scan_end(struct rille_scan **scan, int64_t length, struct rille_tensor *const *next, int noutput,
                   struct rille_tensor *const *output, struct rille_tensor **out, bool *final);
void rille_scan_cancel(struct rille_scan **scan);

/* Sets a function name for the following calls; NULL: none. Plans and run-time errors report this name as the
 * function that made the calls. Returns the previous name. */
const char *rille_name_calls(struct rille_session *s, const char *name);

/* A hook is called with the gradient of a tensor, once in each backward pass. It may set *out to a new handle on
 * another gradient, which replaces this one. */
typedef int rille_hook_fn(void *arg, struct rille_tensor *gradient, struct rille_tensor **out);
struct rille_hook_user {
    void (*drop)(void *arg); /* called once, when arg is not needed any more; may be NULL */
    void *arg;
};
int rille_tensor_hook(struct rille_tensor *t, rille_hook_fn *fn, const struct rille_hook_user *user, int64_t *id);
int rille_tensor_unhook(struct rille_tensor *t, int64_t id); /* removes a hook; does nothing if t has no such hook */
/* Lets backward set the gradient of t, the result of an operator, like that of a leaf. */
int rille_tensor_retain_grad(struct rille_tensor *t);

/* Switches recomputation on or off. While recomputation is on, calls save nothing for the backward pass. Backward
 * recomputes their results from the inputs of the region; a region lasts from on to off. Gradients have the same bits
 * as without recomputation, unless a value is read between forward and backward: then they are equal up to rounding.
 * Switching on twice has no further effect. Returns the previous setting. */
bool rille_recompute(struct rille_session *s, bool on);
bool rille_recomputes(const struct rille_session *s); /* returns true while recomputation is on */

/* Switches autocast. From now on, matrix products, conv2d and attention cast f32 operands to this 16-bit dtype;
 * sums, norms, losses and powers cast 16-bit operands to f32. dtype NULL: no casts. A compiled step keeps the
 * setting of its trace. */
int rille_autocast(struct rille_session *s, const char *dtype);
/* returns the dtype that autocast uses; NULL: autocast is off */
const char *rille_autocast_dtype(const struct rille_session *s);

/* Sets whether f32 matrix products and convolutions on GPUs may round their factors to TF32 (sign, 8 exponent bits,
 * 10 fraction bits), which makes them faster on tensor cores. Sums stay f32. Initially off. A compiled step keeps
 * the setting of its trace. No effect on cpu devices. Returns the previous setting. */
bool rille_allow_tf32(struct rille_session *s, bool on);

/* Sets whether every computation searches its results for NaN and infinities. A computation then fails (E_KERNEL) if
 * a result has a NaN, or has an infinity although no operand and no attribute is infinite. The error names the operator
 * and its line. While on, operators are not fused. A change makes compiled steps be traced again. Returns the previous
 * setting. */
bool rille_detect_nan(struct rille_session *s, bool on);

/* Adds an update by an optimiser. op overwrites its first operands, which must be leaves, with its first results.
 * rille_step() runs all added updates together. */
int rille_update(struct rille_session *s, const struct rille_op *op, int nargs, const struct rille_arg *args,
                 int nattrs, const struct rille_attr *attrs);
/* Adds an update that sets the variable to `value`, which other operators compute. rille_step() runs the update. */
int rille_update_to(struct rille_tensor *variable, struct rille_tensor *value);
/* Computes the updates added since the last step, the gradients of their leaves, and the values on which backward
 * was called. After an error, the variables are unchanged. Gradients that cannot be computed because of invalid data
 * (a label out of range) are dropped; others are kept. */
int rille_step(struct rille_session *s);
/* Drops the updates added since the last step; the variables stay unchanged. */
void rille_step_undo(struct rille_session *s);

/* ---- live numbers: numbers that a function of the caller supplies anew at each call of a step ---- */

/* sets *out to the number's value; non-zero: failure, and the run does not start */
typedef int rille_live_fn(void *arg, double *out);
/* Makes a live number, whose handle lasts until rille_live_free() or rille_close(). A step that reads the number
 * does not need the handle. drop(arg): called once, when nothing reads the number any more; may be NULL. */
int rille_live_new(struct rille_session *s, rille_live_fn *fn, void (*drop)(void *arg), void *arg,
                   struct rille_live **out);
/* Sets a function that the session calls if the run that read the number fails or is interrupted. */
void rille_live_undo(struct rille_live *l, void (*undo)(void *arg));
/* Marks the live number as an integer, for operators that treat integers and floats differently. */
void rille_live_whole(struct rille_live *l);
/* Makes the step that is being traced call the number's function at each call, even if nothing reads the number.
 * E_STATE: no trace is in progress. */
int rille_live_ask(struct rille_live *l);
void rille_live_free(struct rille_live **l);

/* ---- compiling and running steps (graphs) ---- */

struct rille_graph_options {
    size_t size;       /* sizeof(struct rille_graph_options) */
    int micro_batches; /* number of micro-batches; 0: 1 */
    /* name of the schedule, "1f1b", "gpipe", "zb-v", "auto"; NULL: "1f1b"; the error for an unknown name lists all
     * names */
    const char *schedule;
    /* lookahead of the schedule: number of micro-batches per hop between stages by which forward may be ahead; 0:
     * the schedule's default */
    int lag;
    /* memory for a schedule search, which finds the schedule with the least bubble within this memory; 0: no
     * search. Values up to 16 are multiples of the memory that 1F1B saves for backward on the fullest device;
     * larger values are bytes per device. Needs at least two micro-batches; `schedule` must be NULL */
    double memory;
    /* costs for a schedule search; NULL: estimated costs. The struct must stay valid until the step is made */
    const struct rille_chart_costs *costs;
    /* split_backward: true: the schedule may run weight gradients later than input gradients; recompute: true:
     * backward recomputes all values that forward would save */
    bool split_backward, recompute;
    /* true: backward recomputes parts of stages, if the memory limit requires it, or if that is faster within the
     * limit */
    bool recompute_auto;
    /* ZeRO stage; 0: none; 1: shards the optimiser's state; 2: shards gradients, too; 3: shards parameters, too */
    int zero;
    /* placement that stores the values saved for backward, and the optimiser's state, while no call uses them;
     * NULL: none */
    const struct rille_place *offload;
    /* number of fetched values, or values gathered again (zero = 3), that a device holds ahead of their reader; 0:
     * 1 */
    int prefetch;
    /* Planner that chooses the layouts: "optimal", "propagate", "recursive" or "greedy"; NULL: no planner, so the
     * program's own layouts. */
    const char *auto_parallel;
    /* memory limit of a planner and of a schedule search, bytes per device; 0: none. A plan above the limit is an
     * error */
    int64_t memory_limit;
    /* true: this trace is of the whole batch. It finds the numbers that the function computes from the batch size,
     * such as 1 / n for a mean. The caller ends the trace by rille_trace_abort(). The next trace of the session uses
     * these numbers in place of those that the function computes from the size of a micro-batch. */
    bool whole;
    bool check_nan; /* true: search this step's results for NaN and infinities, like rille_detect_nan() */
    /* time limit of the planner's search, s of one core; 0: the default of 1 s. The search counts its work instead
     * of measuring time, so that every machine finds the same plan. The search also ends after four times as much
     * real time. For "propagate" and "greedy" without a memory limit, the default is 0.1 s, because only their
     * bound needs a search */
    double time_limit;
};
/* Checks the options, like rille_trace_begin(). E_ARG: an option has an invalid value. */
int rille_graph_check(const struct rille_graph_options *o);
/* Returns the largest number of micro-batches whose activations a device holds at once in a named schedule, summed
 * over the device's `stages` stages. Assumes a batch of at least that many micro-batches. device: number from 0 to
 * devices - 1. "1f1b", "gpipe" (INT32_MAX: all), "zb-h1" and "zb-h2" have one stage per device. 0: the name has no
 * formula, or a number is out of range. */
int rille_schedule_contexts(const char *schedule, int devices, int stages, int device);
/* Functions to trace a step. rille_trace_begin() returns in piece[] the inputs for one micro-batch. The caller then
 * calls the function of the step on these inputs, and passes the function's results to rille_trace_end(). In
 * between, calls are recorded and nothing runs; reading a value is an error. The handles piece[] are the caller's,
 * also after the trace; the graph lasts until rille_graph_free() or rille_close(). After an error,
 * rille_trace_abort() restores versions and gradients. */
int rille_trace_begin(struct rille_session *s, const struct rille_graph_options *o, int nin,
                      struct rille_tensor *const *in, struct rille_tensor **piece);
int rille_trace_end(struct rille_session *s, int nout, struct rille_tensor *const *out, struct rille_graph **g);
void rille_trace_abort(struct rille_session *s);
/* Returns true if the trace in progress has read the variable `from`, or computes `to` from it. A step whose function
 * replaces `from` by `to` would then read the old tensor in each call. */
bool rille_trace_carries(const struct rille_tensor *from, const struct rille_tensor *to);
/* Reports that the function returned without an error, in a trace of the whole batch (rille_graph_options.whole).
 * The next trace then fails if it makes other calls than this trace. */
void rille_trace_returned(struct rille_session *s);
/* Returns true if the last trace failed because it made other calls than the trace of the whole batch. If only the
 * first call of the function differs from later calls, tracing the whole batch again and then the step succeeds. */
bool rille_trace_differs(const struct rille_session *s);
bool rille_tracing(const struct rille_session *s);
/* returns true while a trace is in progress for whose step a planner will choose the layouts */
bool rille_planning(const struct rille_session *s);
/* Pauses or continues the trace. While the trace is paused, calls behave as outside a trace. An optimiser uses this
 * to create its state. Returns the previous setting. */
bool rille_trace_pause(struct rille_session *s, bool pause);
/* Sets whether calls may combine the rows of one micro-batch, as softmax along axis 0 does, while a step of several
 * micro-batches is traced. If false, such a call fails with E_PLAN, because its result would differ from that of the
 * whole batch. Returns the previous setting. */
bool rille_micro_batch_alone(struct rille_session *s, bool alone);
/* For a result of calls that combine the rows of one micro-batch (rille_micro_batch_alone): states how the result's
 * value for the whole batch follows from the values of the micro-batches. If the result has as many rows as the
 * micro-batch, the values are concatenated; else their mean is taken. Does nothing outside the trace of a step with
 * several micro-batches. */
int rille_micro_batch_result(struct rille_tensor *t);
/* Returns the mean of t over the micro-batches, which is known after the last one; without micro-batches, t itself.
 * For values that change once per step. */
int rille_trace_mean(struct rille_tensor *t, struct rille_tensor **out);
/* Returns true if g can be called with these inputs: types and layouts, the captured variables, their gradients and
 * the session's generation are as in the trace. An "auto" input may have any layout, if it was "auto" in the trace. */
bool rille_graph_fits(const struct rille_graph *g, int nin, struct rille_tensor *const *in);
/* returns true if g has an older generation, so it can never be called again */
bool rille_graph_is_stale(const struct rille_graph *g);
/* Returns true if the step computes with its tensor argument number `input`, counted from 0. */
bool rille_graph_reads(const struct rille_graph *g, int input);
/* Calls the compiled step. out: room for rille_graph_results() handles. "auto" inputs are converted to, and keep,
 * the layouts in which the step reads them. */
int rille_graph_run(struct rille_graph *g, int nin, struct rille_tensor *const *in, struct rille_tensor **out);
int rille_graph_results(const struct rille_graph *g);
/* Compares two traces of one step. *how: NULL if both compute the same; else a text that describes the first
 * difference, which the caller must free(). A live number equals a constant with its current value. */
int rille_graph_compare(struct rille_graph *a, struct rille_graph *b, char **how);
void rille_graph_free(struct rille_graph **g);
/* Makes all graphs traced so far stale, because something that traces depend on has changed (train or eval mode,
 * layouts). */
void rille_generation(struct rille_session *s);

/* Sets the placements of pipeline stages, in order; a placement may have several stages. If the operands of a call
 * are on different stages, the operands are moved to the stage in progress (rille_stage). Without a stage in
 * progress, they are moved to the last of their stages. n = 0: no stages. */
int rille_stages(struct rille_session *s, int n, const struct rille_place *const *place);
/* Sets the placement of the stage in progress; NULL: none. */
int rille_stage(struct rille_session *s, const struct rille_place *now);

struct rille_device_stats {
    const char *kind;
    int device;
    double busy, idle; /* busy and idle time in the last run, s */
    int64_t bytes_in, bytes_out, peak_memory;
    double flops; /* floating-point operations of a run; a multiply-add counts as two */
    /* text that lists the largest results in the device's registers at the time of the memory peak; "": none */
    const char *tenants;
};
struct rille_stats {
    /* step_time: time of the last run, s; ideal: time of a run in which all devices that can act at the same time
     * are always busy, s */
    double step_time, ideal;
    double bubble; /* idle share of step_time: 1 - ideal / step_time */
    double flops;  /* floating-point operations of a run on all devices */
    /* peak rate of all devices that can act at the same time, floating-point operations per s; 0: costs were not
     * measured */
    double peak;
    int nhost; /* number of hosts with devices of the step; at most 64 are reported */
    int ndevice;
    /* by device: statistics, which the graph owns; the next rille_graph_stats() overwrites them */
    struct rille_device_stats *device;
};
int rille_graph_stats(const struct rille_graph *g, struct rille_stats *out);
/* Writes the act times of the last timed run on all hosts as Chrome trace JSON. The session times the first three
 * runs; after the first call of this function or of rille_graph_chart(), the session times all runs. If no run has
 * been timed yet, the file is written when the next run ends. */
int rille_graph_timeline(struct rille_graph *g, const char *path);

/* Pipeline chart of a step. The chart has a simulation of the step's plan, in which devices act independently of
 * each other, and the step's last timed run. */
struct rille_chart_span { /* consecutive acts of a device on one micro-batch */
    int device, stage;    /* device: index in the chart's devices; stage: number of the virtual stage */
    int piece;            /* number of the micro-batch; -1: work that is done once per batch */
    const char *what;     /* kind of work: "forward", "backward", "weight", "move", "update" */
    double begin, end;    /* times since the first act, s */
};
struct rille_chart_stall {
    int stage;
    /* fraction of the run's time that the stage's devices lose by this cause, mean over the devices */
    double share;
    const char *text; /* description: "stage 1 waited 18 % for a register of matmul (train.lua:14)" */
};
enum { RILLE_CHART_POINTS = 256 };
struct rille_chart_run {
    double time, bubble; /* time: duration, s; bubble: share of that time in which computing devices are idle */
    int nspan, nstall;   /* number of spans, and of stalls; nspan 0: no run was simulated or timed */
    struct rille_chart_span *span;
    struct rille_chart_stall *stall; /* idle times with their causes, longest first */
    double *busy;                    /* busy time by device, s */
    /* memory[device][point]: peak bytes of the device's registers in an interval of the run; the intervals are
     * equal */
    int64_t *memory;
};
struct rille_chart_device {
    const char *kind;
    int device, thread;
    int64_t arena; /* bytes of all registers and scratch memory */
};
struct rille_chart {
    int ndevice, nstage, nthread, pieces;
    /* number of devices that compute; the other devices only hold offloaded values */
    int ncompute;
    /* number of devices that can act at the same time; fewer than ncompute if devices share threads */
    int natonce;
    struct rille_chart_device *device;
    bool split; /* true: the schedule may delay weight gradients */
    /* lookahead of the schedule: number of micro-batches per hop between stages by which forward may be ahead; 0:
     * all */
    int lag;
    /* true: the costs are estimates from built-in rates, because no run was timed and the caller passed no costs */
    bool reckoned;
    double forward, backward, weight, moving; /* planned time per micro-batch on a device of a stage, s */
    double bound;                             /* lower bound of the bubble, for any schedule with these costs */
    /* maximum number of bytes that a device saves for backward, in this schedule and in 1F1B */
    int64_t activations, activations_1f1b;
    /* work that backward spends on recomputing forward, as a fraction of forward's work */
    double again;
    struct rille_chart_run planned, measured;
    int64_t call, ncall; /* call: number of the measured call of the step, from 1; ncall: number of calls */
    void *memory;        /* memory of all arrays and texts above */
};
/* Costs of a stage's acts on each of its devices, s. forward, backward, weight: per micro-batch; move: per segment
 * of a move, per micro-batch; update: per batch. */
struct rille_chart_costs {
    double forward, backward, weight, move, update;
    double jitter; /* random variation of each act's cost, as a fraction; 0 to 1 */
    int64_t seed;
};
/* Creates a chart. costs NULL: measured costs or, without a timed run, costs from built-in rates. From then on, all
 * runs are timed. */
int rille_graph_chart(struct rille_graph *g, const struct rille_chart_costs *costs, struct rille_chart **out);
void rille_chart_free(struct rille_chart **c);

/* An actor of a step's plan, with its acts in the last run. */
struct rille_actor {
    const char *name, *kind; /* name: operator, or name of the move; kind: "compute", "box", ... */
    const char *device_kind;
    int device, thread, stage;
    const char *phase; /* phase of the step: "forward", "backward", "weight", "batch" */
    /* begun: number of acts begun in the last run; acts: number of acts of a complete run; pieces: number of
     * micro-batches; bytes: size of the actor's registers */
    int64_t begun, acts, pieces, bytes;
    const char *state; /* state: "done", "ready", "waits for matmul (a.lua:3) on cpu:1" */
    const char *line;  /* source line, "a.lua:3"; "": none */
    /* nhost: number of hosts with devices of the plan; nshown: number of hosts whose actors rille_actor() reports */
    int nhost, nshown;
};
/* Describes the i-th actor of g's plan; g NULL: of the plan that ran last. Returns false if there are at most i
 * actors. The texts are valid until the next call. */
bool rille_actor(struct rille_session *s, struct rille_graph *g, int i, struct rille_actor *out);

/* ---- inspecting steps, plans and moves ---- */

struct rille_explain_op {
    const char *name;
    char *line; /* source line, "file:3" */
    int ninput, noutput;
    const char **inputs, **outputs; /* layouts of operands and of results, as texts */
    struct rille_explain_result {   /* a result's shape, and the shape of the largest shard of a rank */
        int ndim;
        int64_t shape[RILLE_DIMS], part[RILLE_DIMS];
    } * results;
    int ncandidate;
    struct rille_explain_candidate {
        const char **inputs, **outputs;
        int64_t bytes; /* bytes moved for the operands */
        /* pending reduction that the call adds: least bytes that must be sent later to convert its partial results
         * to B or S */
        int64_t owed;
        /* regret, regret_high: lower and upper bound of the time by which the best plan with this candidate is
         * slower than the plan found, ns; regret_high INT64_MAX: unknown. -1: no planner chose the layouts */
        int64_t regret, regret_high;
        /* work of the busiest rank as a fraction of the work on a single device; 1: a rank does all the work */
        double share;
    } * candidates;
};
struct rille_explain_boxing {
    const char *from, *to; /* layouts before and after, as texts: "S(0) on cpu[0, 1]" */
    const struct rille_place *from_place, *to_place;
    int ndim;
    int64_t shape[RILLE_DIMS];
    const char *dtype;
    int64_t bytes, bound;
    int nrank;
    const int32_t *rank;
    /* by rank: bytes received. NULL, with nrank 0: the ranks are not counted, because a mesh of "meta" devices is
     * too large. The largest has 64 ranks with up to three axes; each further axis halves this number */
    const int64_t *received;
    const char *name;  /* usual name of the move: "all-gather", ... */
    const char *steps; /* the move's steps as text; NULL: the mesh has more than 8 "meta" ranks */
    /* text that describes a hierarchical (two-level) reduction between hosts: its shape, its time, and for
     * comparison the time of a direct reduction, in which each owner of a shard reads all addends. Example: ", in 2
     * segments, 4 chunks: 95.0 us between hosts, not 160.0". "": the move has no hierarchical reduction */
    const char *handed_on;
    const char *forced_by; /* reader that needs the move, "matmul (a.lua:3) -> relu (a.lua:4)"; NULL: none */
    int64_t times;         /* number of times that the move runs per step */
    bool of_leaf;          /* true: the move's operand is a variable, which no call computes */
    int ncandidate;
    struct rille_explain_path { /* possible paths of the move; a run uses the first */
        const char *name;       /* names of its hops: "all-gather, all-gather" */
        int nhop;
        const char **layouts; /* layout of the tensor after each hop */
        /* bytes: bytes sent, sum over all ranks; staging: maximum number of bytes that a rank holds between hops */
        int64_t bytes, staging;
        double ns; /* time estimated by the cost model, ns */
    } * candidates;
    const char *text; /* description of the move as text */
};
/* A conflict of hints, only for steps planned by "propagate". A hint is anything in the program that determines a
 * layout: an argument, a variable, a move, a strategy, an operator without a choice, a result with a required
 * layout. One hint determines the layout of a value, and another hint determines the layout in which a reader needs
 * the value. The layouts differ, so the value must move. If no call made a hint, its line is that of the hint's
 * first reader. */
struct rille_explain_meeting {
    /* the reader of the value, and the reader's line; "to_global": the reader is a result with a required layout */
    const char *op, *line;
    struct rille_explain_meeting_hint {
        const char *what, *line; /* what: "variable f32{64, 64} S(1)"; line: "a.lua:3" */
    } hint[2];                   /* hint of the value, and hint of its reader */
    const char *from, *to;
    int64_t bytes, ns; /* cost of the move per step: bytes, and time estimated by the planner, ns */
};
struct rille_explain {
    int nop, nboxing, nmeeting;
    struct rille_explain_op *ops;
    struct rille_explain_boxing *boxing;
    struct rille_explain_meeting *meetings; /* conflicts of hints; NULL: not planned by "propagate" */
    int64_t bytes;                          /* bytes of all moves per step */
    int naxis;                              /* rille_graph_whatif(): number of mesh axes of the cluster; else 0 */
    /* by mesh axis: bytes of the moves whose slowest links are on that axis; the sum over all axes is `bytes` */
    int64_t axis_bytes[RILLE_AXES];
    bool planned; /* true: a planner chose the layouts; the next seven fields are then valid */
    /* cost: time of all work, ns; bound: lower bound over all plans of these operators, ns */
    int64_t cost, bound;
    /* time per step, ns: cost minus the overlap of stages on different micro-batches */
    int64_t time;
    double gap;    /* relative distance from the bound: (cost - bound) / cost */
    double search; /* search time, seconds of one core */
    /* maximum number of bytes that a device holds, with scratch memory; rille_graph_whatif(): estimated */
    int64_t peak;
    int64_t scratch; /* largest scratch memory of a kernel, bytes */
    char *text;
    void *memory; /* memory of all arrays and texts above */
};
int rille_explain(struct rille_session *s, int n, struct rille_tensor *const *t, struct rille_explain **out);
int rille_graph_explain(struct rille_graph *g, struct rille_explain **out);
/* Cost of a layout that the user set, by to_global, a strategy or a variable. Layouts that follow from such a
 * layout are not listed. price, price_high: lower and upper bound of the time that the layout adds to a planned
 * step, ns. The bounds come from planning the step once more without the layout, for a quarter of a second per
 * layout. */
struct rille_hint {
    const char *what, *line;
    int64_t price, price_high;
};
struct rille_hints {
    int n;
    struct rille_hint *hint;
    void *memory; /* memory of all arrays and texts above */
};
int rille_graph_hints(struct rille_graph *g, struct rille_hints **out);
void rille_hints_free(struct rille_hints **h);
/* rille_graph_certify() writes the certificate of a planned step to a file. rille_certificate_check() checks such a
 * file, with code that shares nothing with the search. It returns 0 and sets *said to the statement that was proved,
 * or returns E_PLAN. */
int rille_graph_certify(struct rille_graph *g, const char *path);
int rille_certificate_check(const char *path, char **said);
/* A cluster, for which rille_graph_whatif() plans the step on a mesh of meta devices. If the cluster has as many
 * axes as the step's mesh, layouts that the program sets are kept; otherwise all layouts are free. */
struct rille_cluster {
    size_t size; /* sizeof(struct rille_cluster) */
    int naxis;
    int32_t mesh[RILLE_AXES];
    /* bandwidth by axis, bytes per second that a rank receives, at least 1000; 0: as on this machine */
    double bandwidth[RILLE_AXES];
    double latency[RILLE_AXES]; /* latency by axis, seconds per message, 0 to 1 */
    /* false: `latency` is not used, and the cluster has the latency of this machine */
    bool has_latency;
    double flops;   /* speed of a device, operations per second; 0: as on this machine */
    int64_t memory; /* memory limit per device, bytes; 0: none */
};
int rille_graph_whatif(struct rille_graph *g, const struct rille_cluster *c, struct rille_explain **out);
void rille_explain_free(struct rille_explain **e);
/* Describes one boxing (redistribution) without a tensor. */
int rille_boxing(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                 const struct rille_layout *from, const struct rille_layout *to, struct rille_explain **out);
/* Returns the plan that computes n tensors as text: tasks, registers, memory. Ranks with equal work share lines.
 * physical: prints offsets and scratch memory instead. */
int rille_plan(struct rille_session *s, int n, struct rille_tensor *const *t, bool physical, char **out);
int rille_graph_plan(struct rille_graph *g, bool physical, char **out);

/* Draw pictures for a terminal of `columns` columns (color: one colour per rank); the functions whose names end in
 * _svg, as SVG documents. rille_tensor_show() draws a tensor's shards on its mesh. rille_show_move() draws a move of
 * a tensor of this type from one layout to another. */
int rille_tensor_show(struct rille_tensor *t, int columns, bool color, char **out);
int rille_tensor_show_svg(struct rille_tensor *t, char **out);
int rille_show_move(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                    const struct rille_layout *from, const struct rille_layout *to, int columns, bool color,
                    char **out);
int rille_show_move_svg(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                        const struct rille_layout *from, const struct rille_layout *to, char **out);

/* ---- loading and saving files ---- */

/* Writes a text of n bytes to a file atomically: an existing file stays until the new one is complete. who: word
 * before the path in error texts. Any thread. */
int rille_text_write(const char *who, const char *path, const char *text, size_t n);
/* Returns a path with the home folder in place of a leading "~". reads: the path may also begin with the
 * "OWNER/NAME" of a model in the cache of Hugging Face's tools. If there is no file with the path itself, the
 * function then returns the path in the cache. The caller must free() the text. Any thread. */
char *rille_path(const char *path, bool reads);
/* Reads a plain file of at most `most` bytes. A zero byte follows the text; the caller must free() it. Any thread. */
int rille_text_read(const char *path, int64_t most, char **text, size_t *n);

/* Named tensors in a file, or in a folder of shard files, open for reading. rille_file_open() reads and checks the
 * complete header. Loading reads only each rank's own shard. format: "safetensors", "npy", "npz", "gguf", "torch" or
 * "llmc"; NULL: by the path's ending. */
struct rille_file;
int rille_file_open(struct rille_session *s, const char *path, const char *format, struct rille_file **out);
void rille_file_close(struct rille_file **f);
struct rille_file_entry {
    /* dtype: dtype of the loaded tensor; if Rille cannot load the tensor, the name that the file has for the dtype */
    const char *name, *dtype;
    int ndim;
    const int64_t *shape;
    /* the file's name for the dtype, if loading converts the values; NULL: loading converts nothing */
    const char *stored;
};
/* Describes the i-th tensor of the file in order of name. Returns false if there are at most i tensors. */
bool rille_file_entry(const struct rille_file *f, int i, struct rille_file_entry *out);
/* returns the index of a tensor; -1: not found */
int rille_file_find(const struct rille_file *f, const char *name);
/* Returns the i-th metadata entry in the order of the file. Returns false if there are at most i entries. */
bool rille_file_text(const struct rille_file *f, int i, const char **key, const char **value);
/* Calls visit for each value of a list in the metadata of a .gguf file, in order. A value is passed as a text of n
 * bytes; number: true if the value is a number or boolean, printed as text. E_ARG: the file has no such list. */
int rille_file_list(struct rille_file *f, const char *key,
                    void (*visit)(void *arg, const char *text, size_t n, bool number), void *arg);
/* A method by which a checkpoint stores quantised weights. rille_file_dequantise() replaces the tensors of each
 * such weight by one tensor, the weight in f32. method, and the tensors that it reads: "scaled" (weight,
 * weight_scale or weight_scale_inv), "mxfp4" (_blocks, _scales), "gptq" (qweight, qzeros, scales, g_idx) or "awq"
 * (qweight, qzeros, scales). Method "blocks" replaces nothing: for each tensor X that a .gguf file stores in
 * blocks, it adds a u8 tensor X.blocks (..., blocks, bytes of a block). bits: bits per number; group: number of
 * inputs that share a scale (-1: all); rows, columns: size of the block that shares a scale (0: none); minus_one:
 * the file stores each zero point minus 1. */
struct rille_quantisation {
    const char *method;
    int bits;
    int64_t group, rows, columns;
    bool minus_one;
};
int rille_file_dequantise(struct rille_file *f, const struct rille_quantisation *q);
/* Loads a tensor as a leaf. dtype: dtype to which floats are cast; NULL: the file's dtype. */
int rille_file_load(struct rille_file *f, int i, const char *dtype, const struct rille_layout *layout,
                    struct rille_tensor **out);
/* Loads the positions from[axis] <= position < to[axis] of each axis; both NULL: all. The first `skip` axes must
 * have one position each; the leaf omits them. */
int rille_file_load_window(struct rille_file *f, int i, const int64_t *from, const int64_t *to, int skip,
                           const char *dtype, const struct rille_layout *layout, struct rille_tensor **out);
/* Loads the tensor of a .npy file. */
int rille_load_npy(struct rille_session *s, const char *path, const struct rille_layout *layout,
                   struct rille_tensor **out);
/* Loads a PNG or JPEG file as a leaf u8 {3, height, width}: red, green, blue. Grey values are repeated, 16-bit values
 * keep their high byte, transparency is ignored, CMYK becomes RGB, and the image is turned to the orientation that a
 * camera stored (EXIF). RILLE_IO: damage, or more than 2^27 pixels. */
int rille_load_image(struct rille_session *s, const char *path, const struct rille_layout *layout,
                     struct rille_tensor **out);

/* Options of rille_save(). */
struct rille_save_options {
    size_t size; /* sizeof(struct rille_save_options) */
    int nmetadata;
    const char *const *metadata; /* key, value, key, value, ... */
    int64_t shard_bytes;         /* maximum number of bytes of a shard file in a folder; 0: 5 GB */
    bool digest;                 /* true: add a digest of all bytes to a safetensors file, for rille_verify() */
    int nold;
    const char *const *old; /* files to remove once the new file is complete */
};
struct rille_saving; /* a save in progress on its own thread, of the values at the time of the call */
/* Saves n named tensors. The path determines the format: FILE.safetensors has all tensors; FILE.npy has one tensor,
 * without its name; a folder gets shard files with an index, which replace the files of an earlier save. A single
 * file is written atomically. in_background NULL: returns when all data is written. Otherwise returns at once, and
 * sets *in_background to the save in progress. */
int rille_save(struct rille_session *s, const char *path, int n, const char *const *name, struct rille_tensor *const *t,
               const struct rille_save_options *o, struct rille_saving **in_background);
/* Checks that a save to path can begin. folder false: to a file; folder true: to a folder that exists, or can be
 * created in an existing folder. Changes nothing. Any thread. */
int rille_may_save(const char *path, bool folder);
/* Calls visit() with the name of each file in a folder, or of each object below a URL. Any thread. */
int rille_folder_list(const char *path, void (*visit)(void *arg, const char *name), void *arg);
/* Creates a folder if it is missing, and claims it until rille_close(), so that its set of files (a list of
 * checkpoints) belongs to one session. Fails if another session of any process has claimed it; the error names both. */
int rille_claim_folder(struct rille_session *s, const char *folder);
/* Waits for the save, and returns its error code, or 0. Call before rille_close(). */
int rille_saving_end(struct rille_saving **saving);
/* Checks that the file's bytes match the digest that a save added. Fails if there is no digest. */
int rille_verify(const char *path);

/* ---- encoding and decoding text ---- */

/* A tokenizer, from tokenizer.json (Hugging Face), tekken.json (Mistral), *.model (SentencePiece) or *.tiktoken.
 * Needs no session; one thread at a time. Text may be any bytes.
 *
 *   pattern   *.tiktoken only, not NULL: a regular expression, or "gpt2", "cl100k", "o200k", "llama3", "qwen"
 *   special   *.tiktoken: special tokens; *.model: names of control pieces that texts may contain
 *   ids       *.tiktoken: ids of the special tokens; NULL: the ids after the last. *.model: must be NULL */
struct rille_tokenizer;
int rille_tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special,
                         const int64_t *ids, struct rille_tokenizer **out);
/* Makes a tokenizer from the content of a tokenizer.json, n bytes. path: a name for errors. */
int rille_tokenizer_of_text(const char *path, const char *text, size_t n, struct rille_tokenizer **out);
void rille_tokenizer_free(struct rille_tokenizer **t);
int64_t rille_tokenizer_size(const struct rille_tokenizer *t); /* number of ids, including special tokens */
/* Encodes n bytes of text. The caller must free() *ids. */
int rille_tokenizer_encode(struct rille_tokenizer *t, const char *text, size_t n, uint32_t **ids, size_t *nids);
/* Decodes n ids. A zero byte follows *text; the caller must free() it. */
int rille_tokenizer_decode(const struct rille_tokenizer *t, size_t n, const int64_t *ids, char **text, size_t *ntext);
/* Writes a byte-level BPE tokenizer as tokenizer.json. Writes any other tokenizer as a copy of the file that was
 * read. */
int rille_tokenizer_save(struct rille_tokenizer *t, const char *path);
/* Returns the special tokens that the tokenizer's template puts before and after a text. The tokenizer owns the
 * arrays. */
int rille_tokenizer_template(const struct rille_tokenizer *t, const uint32_t **before, size_t *nbefore,
                             const uint32_t **after, size_t *nafter);
/* returns true if the id is a special token, which is not part of plain text */
int rille_tokenizer_is_special(const struct rille_tokenizer *t, int64_t id);
/* Returns the names of the batch settings in tokenizer.json: "truncation", "padding" or "truncation and padding";
 * NULL: none. Encoding ignores these settings; saving keeps them. */
const char *rille_tokenizer_batches(const struct rille_tokenizer *t);

/* Trains a tokenizer with `size` ids, from texts that the caller adds one by one. Special tokens get the last ids.
 * If the texts yield too few tokens, reserved ids precede the special tokens. pattern NULL: that of GPT-2. One
 * thread at a time. */
struct rille_trainer;
int rille_trainer_new(const char *pattern, int nspecial, const char *const *special, struct rille_trainer **out);
void rille_trainer_free(struct rille_trainer **r);
int rille_trainer_add(struct rille_trainer *r, const char *text, size_t n);
int rille_trainer_end(struct rille_trainer *r, int64_t size, struct rille_tokenizer **out);

/* ---- reading tokens to train on ---- */

/* One or several sequences of token ids, one per file (llm.c's token files, with 16 or 32 bits per id). Files are
 * read on demand. Each file is divided into consecutive windows of length + 1 ids; adjacent windows share one id. No
 * window spans two files. */
struct rille_tokens;
int rille_tokens_open(struct rille_session *s, int n, const char *const *path, struct rille_tokens **out);
/* makes a source of one sequence from ids in memory, and copies the ids */
int rille_tokens_of(struct rille_session *s, int64_t n, const int64_t *ids, struct rille_tokens **out);
void rille_tokens_close(struct rille_tokens **t);
/* returns the number of ids in all files; *most: in the longest file */
int64_t rille_tokens_count(const struct rille_tokens *t, int64_t *most);
int64_t rille_tokens_windows(const struct rille_tokens *t, int64_t length);
/* Hashes the number of ids of each file and a sample of the ids, which distinguishes files of equal length. The
 * result is the same in every process. */
int rille_tokens_digest(const struct rille_tokens *t, uint64_t *out);
/* Rows first to first + n - 1 of an epoch, in the order that seed and epoch determine: x, i64 {n, length}, and y,
 * which is x shifted by one id. A background thread prefetches the next n rows; at the end of an epoch, those of the
 * next epoch. */
struct rille_token_rows {
    size_t size; /* sizeof(struct rille_token_rows) */
    int64_t length, first, n;
    int64_t vocab; /* ids must be less than vocab, else E_ARG with file and position; 0: any ids */
    uint64_t seed, epoch;
    const struct rille_layout *x, *y; /* layouts of x and y; NULL: complete on device 0 */
};
int rille_tokens_batch(struct rille_tokens *t, const struct rille_token_rows *rows, struct rille_tensor **x,
                       struct rille_tensor **y);
/* Statistics of prefetching. If the reader sometimes waits for credits and callers never wait, prefetching is fast
 * enough. */
struct rille_source_stats {
    int64_t depth;       /* credits: number of batches that the reader may be ahead */
    int64_t read, taken; /* number of batches read, and taken by callers */
    int64_t full;        /* number of times that the reader waited for a credit */
    /* number of times that a caller waited for a batch; the first batch always counts, because nothing was
     * prefetched */
    int64_t waited;
    double wait; /* time that callers waited, s */
};
void rille_tokens_stats(const struct rille_tokens *t, struct rille_source_stats *out);
/* Returns all ids as one tensor, i64 {n}. */
int rille_tokens_all(struct rille_tokens *t, const struct rille_layout *layout, struct rille_tensor **out);

/* ---- functions for tests ---- */

/* Makes the k-th act from now on fail like a failing kernel; 0: none. */
void rille_fail_act(struct rille_session *s, int64_t k);
/* Makes kernels of this operator take this many seconds longer; 0: no longer. At most four operators. */
void rille_slow_op(struct rille_session *s, const char *op, double seconds);
/* Returns the program of a step as it is sent to workers: n bytes, which the caller must free(). */
int rille_graph_program(struct rille_graph *g, char **out, size_t *n);

#if defined __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
