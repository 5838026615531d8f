/* plan.h - a compiled plan: tasks, the registers between tasks, and where registers are stored.
 *
 * plan_compile() makes a plan from a program. A plan is read-only and shared by all threads; everything that changes
 * during a run is in the actors. A task is one operator call on one rank, one destination's shard of a move
 * (boxing), or one rank's sum over micro-batches. The results of a task are stored in registers: nreg buffers used
 * in turn. Free registers are the credits; there is no other back-pressure. A task reads three kinds of arguments:
 * registers, leaves (values that exist before the run and are always available) and numbers. A result that must
 * outlive the run is written directly to its own buffer. Data in another memory space (device.h) is fetched by a
 * separate task, a transfer.
 *
 * Rates: a task acts nact times per run, once per micro-batch or once per batch. It publishes each result after
 * every `every` acts; a reader keeps a register for `hold` acts. A control edge carries no bytes, only the fact that
 * something happened; its reader needs `need` tokens per act. */
#ifndef RILLE_PLAN_PLAN_H
#define RILLE_PLAN_PLAN_H

#include "actors/plan/model/channel.h"
#include "actors/plan/model/kind.h"
#include "actors/plan/model/program.h"
#include "boxing/box.h"
#include "boxing/collective.h"
#include "kernels/exec/kernel.h"

/* Location of a result's registers: consecutive, `stride` bytes apart, from `offset` on. Stride 0: the registers
 * have no bytes. If nact_offset > 0, every act has an offset of its own, whatever the register: act i is stored at
 * berth[i % nact_offset]. */
struct where {
    uint8_t kind;  /* enum where_kind */
    int32_t index; /* index of a plan device, root part or task, by kind */
    int64_t offset, stride;
    int32_t nact_offset; /* number of per-act offsets; 0: registers take turns */
    const int64_t *berth;
};
enum where_kind {
    NOWHERE,  /* an output that carries order or credits only */
    IN_ARENA, /* in the arena of device `index`, the task's own device except for transfers; 64-byte aligned */
    IN_ROOT,  /* in root part `index`, a buffer that outlives the run */
    IN_TASK,  /* in the registers of result 0 of task `index`, which must not be IN_TASK */
};

enum { REG_ALIGN = 64 };
static inline int64_t
where_stride(int64_t bytes)
{
    return (int64_t)(((uint64_t)bytes + REG_ALIGN - 1) & ~(uint64_t)(REG_ALIGN - 1));
}

/* When a reader may go on, and when its register is returned (sync.c). With every token the producer's work is done
 * before the reader's work begins. */
enum sync {
    SYNC_HOST,     /* the producer's work is done; the register is returned when the reader's work is done */
    SYNC_ENQUEUED, /* the producer has enqueued its work on the stream that the reader uses, too; the register is
                     returned when the reader has enqueued its work */
    SYNC_EVENT,    /* the producer has enqueued its work on another stream of this thread, and the reader's stream waits
                       for that work; the register is returned when the reader's work is done */
};

struct in_port {
    int32_t task, out; /* producer */
    int32_t hold;      /* acts that read a register before the reader returns the register */
    int32_t need;      /* tokens per act of a control edge; data: 1 */
    int32_t fan;       /* index of the producer's fan that contains this port */
    uint8_t token;     /* enum sync: the synchronisation before an act */
};

struct reader {
    int32_t task, port;
};
/* The readers of a result on one thread. A single message notifies all of them, and a single message answers. */
struct fan {
    int32_t thread, nreader;
    int32_t nissued; /* number of readers, from the first, that are notified when the work is enqueued; the rest: when
                        the work is done */
    const struct reader *reader;
};
struct out_port {
    bool control; /* carries no bytes, never waits for a free register */
    bool once;    /* fills no register twice in a run: never waits for a returned register, so readers return none */
    bool shared;  /* registers also store results of other tasks (IN_TASK) */
    int32_t nreg;
    int32_t every; /* acts per published register */
    int32_t nfan;
    struct fan *fan;
    int64_t bytes; /* size of one register */
    struct where where;
};

enum arg_kind { ARG_NONE, ARG_REG, ARG_LEAF, ARG_NUMBER };
struct arg {
    uint8_t kind;
    int32_t index;        /* index of the in_port, leaf part or number */
    int64_t skip;         /* bytes from the start of the buffer to the view */
    int64_t piece_stride; /* leaf: bytes from one micro-batch to the next */
};

/* One step of a move: combines slices of source shards into one slice of the destination shard. */
struct box_from {
    int32_t arg;
    int64_t skip; /* bytes, added to the argument's own skip */
    const struct view *view;
};
struct box_move {
    uint8_t verb, reduce; /* enum box_verb */
    int32_t nfrom;
    struct box_from *from; /* sources, in the order in which the step combines them */
    int64_t skip;          /* bytes */
    const struct view *view;
    const struct box *slice;          /* fill: the slice in global positions */
    const struct cuda_launch *launch; /* kernel, on devices that compile; NULL: host code */
};

/* Nodes computed by a task in one pass: a chain of element-wise nodes with an optional leading product (fusion.c), or
 * a group of updates. Lists the inputs of the chain, in the order of the task's arguments, and the live-out results
 * of its members. */
struct plan_chain {
    int32_t nstep, nin, nout;
    int32_t *member; /* program nodes, in order */
    struct ref *in;
    const struct layout **want; /* NULL for numbers */
    struct ref *live_out; /* results of members, in order; a member with a live-out result lists all its results */
};

/* A complete move, or one hop (collective step) of a move. */
struct plan_move {
    int32_t step;         /* program node that needs the move */
    int16_t operand, hop; /* operand that moves; index of the hop. All partitions use the same numbers, which name the
                             hop and its channels (channel.h) */
    struct ref value;
    struct type type;
    const struct layout *from, *to;
    const char *name;     /* box_plan.name */
    int64_t bytes, bound; /* bytes received by this plan's devices; proven minimum of the complete move */
    int32_t nleg, nchunk; /* segments and chunks of a hierarchical reduction (box_relay); 0: not hierarchical */
    bool back;            /* the sum is also sent back through the segments */
    /* Library collective that implements the move: one KIND_COLLECTS task per position of this partition, in order.
     * Positions on other hosts have their tasks in the partitions of those hosts, and all partitions must agree
     * (comm_ranks.h). NULL: none. */
    const struct collective *by;
    bool late; /* (collective with ranks on other hosts) its only act comes after the last micro-batch */
};

/* A copy between a window of a shard and a dense block, in either direction. */
struct comm_rank_copy {
    const struct view *from, *to;
    int64_t from_skip, to_skip;       /* bytes */
    const struct cuda_launch *launch; /* NULL: host code does it */
};
/* The rank of a task in the communicator of a collective or of a point-to-point link. Packed blocks, and blocks to
 * unpack, are stored in results behind the first, in that order; no task reads these. A shard with gaps is packed,
 * too. A sender on a link has no other results, and packs every slice that it sends, except a single slice without
 * gaps. */
struct move_comm_rank {
    struct communicator *in;
    int32_t comm_rank;
    uint8_t dtype;          /* element type carried by a link */
    int64_t numel;          /* collective_numel; of a link: number of elements carried */
    int32_t npack, nunpack; /* number of blocks; 0: the library reads the argument, or writes the result, in place */
    struct comm_rank_copy *pack, *unpack;
};

/* The share of a task in a move. */
struct task_move {
    const struct plan_move *of;
    bool stage; /* fills a stage of the move, not a destination shard */
    int32_t nstep;
    struct box_move *step;
    int64_t received;                    /* bytes read from other devices' memory per act */
    const struct move_comm_rank *member; /* for KIND_COLLECTS and KIND_P2P; else NULL */
};

struct task {
    const struct task_kind *kind;
    uint8_t phase, turn; /* enum node_phase; turn: among the ready tasks of a device, the least turn runs first */
    uint8_t stream; /* enum stream_role: device stream that runs its work; 0 if the device has one stream or none */
    bool updates;   /* overwrites a variable */
    bool looks;     /* validates its input data; false: an earlier task already validates it */
    bool shown;     /* work is awaited by more than the tasks behind it on its stream */
    int32_t thread, device; /* device: index in plan->device */
    int32_t stage, lead;    /* virtual stage (stage.h); lead: place of the stage in a round */
    int32_t node;           /* program node of the task (of a move: node of the value that moves); -1: none */
    int32_t pos;            /* mesh position, or destination index of a move */
    int32_t channel;        /* index of the channel whose end this task is; -1: none */
    int32_t nact;
    int32_t priority;   /* dispatch order: the least first */
    const char *name;   /* operator, "box all-gather", ... */
    int32_t blame_node; /* program node whose source line errors name: its own, or the first that needs a leaf moved;
                           -1: none */
    int32_t nin, nout, narg;
    struct in_port *in; /* data and control */
    struct out_port *out;
    struct arg *arg;
    int32_t nresult; /* number of results; behind these: at most one out for order, and outs for credits */
    struct exec *exec;
    const struct type *type;   /* local type of the result of a task that is neither node nor box; else NULL */
    const struct view *source; /* accumulate, copy: view of the argument; else NULL */
    int32_t threads;           /* accumulate, copy: threads that may copy, if host code does */
    /* accumulate, copy on devices that compile: kernels that copy the argument, and add it to the result. NULL: host
     * code. */
    const struct cuda_launch *copies, *adds;
    union {                       /* selected by kind */
        struct plan_chain *chain; /* compute: the chain; NULL: a single node */
        struct task_move move;    /* box, fill, join, transfer; send, recv: without steps */
    };
};

struct plan_device {
    uint8_t kind;
    int32_t thread, rank;
    int64_t arena_bytes; /* size of the arena: registers, then scratch */
    int64_t scratch, scratch_bytes;
    int32_t nact_offset; /* per-act offsets of each result in the arena that has bytes */
};

struct plan_part {
    int32_t index, pos; /* leaf or root; mesh position */
    struct type type;   /* local type of one micro-batch */
    int64_t bytes;      /* size of the complete buffer: all micro-batches */
};

struct plan {
    struct arena arena;
    struct program *program;    /* owned */
    unsigned char digest[16];   /* digest of the outline (outline.h) */
    int32_t memory;             /* host of this partition's devices (glossary: memory); 0: there is one host */
    int32_t nmemory, *memories; /* hosts of the program's devices, ascending */
    int32_t nthread, ndevice, ntask, pieces;
    int32_t group, round; /* micro-batches that a stage runs before the next stage's turn; the same, summed over the
                             stages of a device */
    int32_t nshare;       /* threads that share the cores, as if all ran in one process; decides team sizes */
    struct plan_device *device;
    struct task *task; /* in an order in which the tasks could run one after the other */
    int32_t *nlocal;   /* by thread: number of tasks, and their indices */
    int32_t **local;
    int64_t *nact; /* by thread: number of acts */
    int32_t nleaf_part, nroot_part;
    struct plan_part *leaf_part, *root_part;
    int32_t *leaf_first, *root_first; /* first local part of leaf i, of root k; the others follow in mesh order */
    bool *overwrites;                 /* by root: tasks may overwrite its leaf in place */
    bool *shared;  /* by root: replicas of the root, or of the leaf that it overwrites, share one buffer; each task
                      writes a slice (shared_update.h) */
    int32_t nexec; /* kernels, shared by equal tasks; malloc */
    struct exec **exec;
    int32_t nmove; /* in the order of their tasks */
    struct plan_move **move;
    int32_t nchannel; /* channels to other hosts, sorted by name */
    struct channel *channel;
};

/* Returns the source line of the task's blame_node as of planning. A plan found in the cache may have other lines:
 * see run.line. */
static inline struct line
task_line(const struct plan *p, const struct task *t)
{
    return t->blame_node >= 0 ? p->program->node[t->blame_node].line : (struct line){0};
}
/* Returns the device whose memory stores the task's results: the task's own device, unless it fills another's
 * memory. */
static inline int32_t
task_holder(const struct task *t)
{
    return t->nresult > 0 && t->out[0].where.kind == IN_ARENA ? t->out[0].where.index : t->device;
}
/* Returns the channel whose end the task is, or NULL. */
static inline const struct channel *
task_channel(const struct plan *p, const struct task *t)
{
    return t->channel >= 0 && t->channel < p->nchannel ? &p->channel[t->channel] : NULL;
}
/* Returns how many results a task with a rank in a communicator has. */
static inline int32_t
comm_rank_nresult(const struct move_comm_rank *s)
{
    return 1 + (s->npack > 0) + (s->nunpack > 0);
}
/* Returns the move that the task belongs to, or NULL. */
static inline const struct plan_move *
task_hop(const struct task *t)
{
    return t->kind->flags & KIND_MOVE ? t->move.of : NULL;
}
/* Returns the program node that offloads or re-fetches a value by the move of this task; NULL: none. */
static inline const struct prog_node *
task_fetches(const struct plan *p, const struct task *t)
{
    const struct plan_move *m = task_hop(t);
    bool there = m && m->step >= 0 && m->step < p->program->nnode;
    return there && p->program->node[m->step].again ? &p->program->node[m->step] : NULL;
}
/* Returns true if the move fetches an offloaded value. The device that stores the offloaded value runs the fetch if
 * it can access both sides. */
static inline bool
hop_fetches(const struct program *p, const struct plan_move *m)
{
    const struct prog_node *n = &p->node[m->step];
    bool there = n->again && (n->in[0].kind == REF_LEAF || p->node[n->in[0].index].again);
    return there && m->from->place != m->to->place;
}
/* Returns the operator that the task computes (of a chain: the operator of its last node), or NULL. */
static inline const struct op *
task_op(const struct plan *p, const struct task *t)
{
    return t->kind->flags & KIND_NODE ? p->program->node[t->node].op : NULL;
}

/* Returns the dispatch key of an act. Among the ready tasks of a device the least key runs first: by turn (forward
 * before backward before weight gradients, unless the schedule says otherwise), then by micro-batch, then by
 * priority. */
static inline uint64_t
task_key(const struct plan *p, const struct task *t, int32_t act)
{
    uint64_t piece = (uint64_t)(act / p->group) * (uint64_t)p->round + (uint64_t)(t->lead + act % p->group);
    return (uint64_t)t->turn << 56 | (piece & 0xffffff) << 32 | (uint32_t)t->priority;
}

/* Returns an index that is unique to the task's device, stage (of n) and phase, less than ndevice * n * (PHASE_BATCH
 * + 1). */
static inline int64_t
task_moment(const struct task *t, int32_t n)
{
    return ((int64_t)t->device * n + t->stage) * (PHASE_BATCH + 1) + t->phase;
}

/* Called for all tasks in order. Returns true if this task continues work that an earlier task of its moment
 * (device, stage, phase) began: forward and backward from operator to operator, a sum over micro-batches with its
 * addend. *begun: one flag per moment, false at first. joint: of the task's stage. */
static inline bool
task_goes_on(const struct task *t, bool joint, bool *begun)
{
    if (t->nact == 1) return true; /* once per batch: starts no micro-batch, so need not wait for all micro-batches */
    bool sum = (t->kind->flags & (KIND_ONCE_A_BATCH | KIND_NODE)) == KIND_ONCE_A_BATCH,
         was = *begun && (t->phase != PHASE_WEIGHT || joint);
    *begun = *begun || t->kind->flags & KIND_NODE;
    return sum || was;
}

/* Compiles the partition of the host that the program's map names; without a map, the complete plan. Takes ownership
 * of the program, also on failure. E_PLAN: the plan cannot run to its end (names the blocked tasks); E_MEMORY...
 * Call it on the thread that owns the atlas. */
int plan_compile(struct program *p, struct atlas *at, struct plan **out);
void plan_free(struct plan **p);
size_t plan_bytes(const struct plan *p); /* approximate host memory, bytes */
/* Computes, without a plan, the scratch memory that the kernels of the first rank of each placement need. Takes as
 * long for 100,000 ranks as for one. The program stays the caller's. Pure. */
int plan_scratch(struct program *p, int64_t *bytes);

/* Prints a plan: logical bytes, equal ranks collapsed; the same on every machine. physical: with threads, offsets
 * and lists per thread. */
void plan_print(const struct plan *p, bool physical, struct str *s);

/* Proves that a plan is well-formed and runs to its end in every order of events: indices and sizes are in range,
 * shapes and signatures are legal, a greedy token simulation finishes, and no two live registers share bytes. E_PLAN
 * says what is wrong. */
int plan_verify(const struct plan *p);
/* Reads a program from bytes of any origin. Accepts only what program_write writes, and only legal programs. Interns
 * placements and layouts in the atlas. E_PLAN names the byte or the node of the error; *out is then NULL. */
int program_read(const char *bytes, size_t n, struct atlas *at, struct program **out);

#endif
