/* plan.h - a compiled plan: tasks, the registers between tasks, and where registers are stored.
 *
 * plan_compile() makes a plan from a program. A plan is read-only and shared by all threads; actors hold the state
 * of a run. A task is one operator call on one rank, one destination shard of a move (boxing), or one rank's sum
 * over micro-batches. The results of a task are stored in registers: nreg buffers used in turn. Free registers are
 * the credits, and the only back-pressure. A task reads three kinds of arguments: registers, leaves (values that
 * exist before the run and are always available) and numbers. A result that must outlive the run is written directly
 * to its own buffer. A transfer task fetches data from another memory space (device.h).
 *
 * Rates: a task acts nact times per run: once per micro-batch, or once. A task publishes each result after every
 * `every` acts; a reader keeps a register for `hold` acts. A control edge carries no bytes, only a token per act of
 * its producer; its reader needs `need` tokens per act. */
#ifndef RILLE_PLAN_PLAN_H
#define RILLE_PLAN_PLAN_H

#include "actors/plan/model/channel.h"
#include "actors/plan/model/kind.h"
#include "actors/plan/model/program.h"
#include "boxing/collective.h"
#include "kernels/exec/exec.h"

/* Location of a result's registers. The registers are `stride` bytes apart, the first at `offset`; stride 0: the
 * registers have no bytes. If nact_offset > 0, each act has an offset of its own, whichever register it writes:
 * act i writes at berth[i % nact_offset]. */
struct where {
    uint8_t kind;  /* enum where_kind */
    int32_t index; /* index of a plan device, root part or task, depending on `kind` */
    int64_t offset, stride;
    int32_t nact_offset; /* number of per-act offsets; 0: registers are used in turn */
    const int64_t *berth;
};
enum where_kind {
    NOWHERE, /* output without bytes, which carries only order or credits */
    /* in the arena of device `index`, 64-byte aligned; `index` is the task's own device, except for a transfer */
    IN_ARENA,
    IN_ROOT, /* in root part `index`, a buffer that outlives the run */
    /* in the registers of another task: those of result 0 of task `index`, whose kind must not be IN_TASK */
    IN_TASK,
};

enum { REG_ALIGN = 64 };
static inline int64_t
where_stride(int64_t bytes)
{
    return (int64_t)(((uint64_t)bytes + REG_ALIGN - 1) & ~(uint64_t)(REG_ALIGN - 1));
}

/* Synchronisation of an edge: when the reader is notified, and when it returns the register (sync.c). In all cases
 * the producer's work ends before the reader's work begins. */
enum sync {
    /* by completion: the reader is notified when the producer's work is done, and returns the register when its own
     * work is done */
    SYNC_HOST,
    /* by stream order: both tasks use one stream. The reader is notified when the producer has enqueued its work,
     * and returns the register when it has enqueued its own work */
    SYNC_ENQUEUED,
    /* by an event: the tasks use two streams of one thread. The reader is notified when the producer has enqueued
     * its work, and the reader's stream waits for an event after that work. The reader returns the register when
     * its own work is done */
    SYNC_EVENT,
};

struct in_port {
    int32_t task, out; /* producer task, and its out-port */
    int32_t hold;      /* number of acts for which the reader keeps a register before it returns it */
    int32_t need;      /* control edge: tokens that the reader needs per act; data edge: 1 */
    int32_t fan;       /* index, among the producer's fans, of the fan that contains this in-port */
    uint8_t token;     /* enum sync: how the reader waits for the producer */
};

struct reader {
    int32_t task, port;
};
/* The readers of a result that run on one thread. One message notifies all readers of a fan; one message returns the
 * register for all of them. */
struct fan {
    int32_t thread, nreader;
    /* number of readers that are notified when the work is enqueued; they are listed first. The other readers are
     * notified when the work is done */
    int32_t nissued;
    const struct reader *reader;
};
struct out_port {
    bool control; /* control output: carries no bytes, and never waits for a free register */
    /* a run fills each register at most once. So writers never wait for a free register, and readers return none */
    bool once;
    bool shared; /* tasks with where.kind IN_TASK store their results in these registers, too */
    int32_t nreg;
    int32_t every; /* number of the task's acts per published register */
    int32_t nfan;
    struct fan *fan;
    int64_t bytes; /* size of one register */
    struct where where;
};

enum arg_kind { ARG_NONE, ARG_REG, ARG_LEAF, ARG_NUMBER };
struct arg {
    uint8_t kind;
    int32_t index;        /* index of the in-port, leaf part or number */
    int64_t skip;         /* bytes from the start of the register or buffer to the argument's view */
    int64_t piece_stride; /* leaf: distance between the data of two micro-batches in the leaf's buffer, bytes */
};

/* A source of one step of a move: a slice of an argument. */
struct box_from {
    int32_t arg;
    int64_t skip; /* offset of the slice from the argument's view, bytes */
    const struct view *view;
};
struct box_move {
    /* verb: enum box_verb, how the step combines its sources; reduce: the operation (sum, max, ...) if it reduces
     * them */
    uint8_t verb, reduce;
    int32_t nfrom;
    struct box_from *from; /* sources, in the order in which they are combined */
    int64_t skip;          /* offset of the destination slice from the result's start, bytes */
    const struct view *view;
    const struct box *slice;          /* verb `fill`: position of the destination slice in the global tensor */
    const struct cuda_launch *launch; /* kernel on devices that compile kernels; NULL: host code runs the step */
};

/* The nodes that one task computes: a chain of element-wise nodes with an optional leading product (fusion.c), or a
 * group of updates or casts. in: values that the nodes read from outside, in the order of the task's arguments. */
struct plan_chain {
    int32_t nstep, nin, nout;
    int32_t *member; /* members: program nodes, in order */
    struct ref *in;
    const struct layout **want; /* by input: the layout in which the input is read; NULL for numbers */
    /* results that the task stores in memory, in the order of members. A member with any stored result lists all
     * its results */
    struct ref *live_out;
};

/* A move, or one hop (collective step) of a move. */
struct plan_move {
    int32_t step; /* index of the program node for which the value is moved */
    /* operand: number of the operand that moves; hop: index of the hop. Channel names contain both numbers
     * (channel.h), so all partitions use the same numbers */
    int16_t operand, hop;
    struct ref value;
    struct type type;
    const struct layout *from, *to;
    const char *name; /* name of the move's method, for printed plans (box_plan.name) */
    /* bytes: bytes that this partition's devices receive; bound: proven minimum for the complete move, over all
     * devices */
    int64_t bytes, bound;
    /* hierarchical reduction (box_relay): nleg segments of addends, one per host; nchunk chunks into which the sum
     * is cut. 0: the reduction is not hierarchical */
    int32_t nleg, nchunk;
    bool back; /* hierarchical: the complete sum also travels back through the segments, in reverse order */
    /* library collective that performs the move; NULL: none. This partition has one KIND_COLLECTS task per local
     * position, in mesh order. The tasks of the other positions are in the partitions of other hosts. All
     * partitions must agree about the collective (comm_ranks.h) */
    const struct collective *by;
    bool late; /* true: a collective with ranks on other hosts that runs once, after the last micro-batch */
};

/* A copy between a window of a shard and a dense block, in either direction. */
struct comm_rank_copy {
    const struct view *from, *to;
    int64_t from_skip, to_skip;       /* offsets in bytes */
    const struct cuda_launch *launch; /* kernel of the copy; NULL: host code copies */
};
/* A task's rank in a communicator, for a collective or a point-to-point link. Result 0 of the task is the result of
 * the collective or link. All further results are private buffers of the task: first blocks to send that were
 * packed, then received blocks to unpack. A task packs a shard that has gaps. A sender on a link packs its slices,
 * unless it sends a single slice without gaps. */
struct move_comm_rank {
    struct communicator *in;
    int32_t comm_rank;
    uint8_t dtype; /* link: dtype of the elements sent */
    /* number of elements: of a collective, as in collective_numel(); of a link, those that the link sends */
    int64_t numel;
    /* npack: number of blocks to pack; 0: the library reads the argument in place. nunpack: number of blocks to
     * unpack; 0: the library writes the result in place */
    int32_t npack, nunpack;
    struct comm_rank_copy *pack, *unpack;
};

/* The work of a task in a move. */
struct task_move {
    const struct plan_move *of;
    bool stage; /* true: fills a stage buffer of the move; false: fills a destination shard */
    int32_t nstep;
    struct box_move *step;
    int64_t received;                    /* bytes per act that the task reads in other devices' memory */
    const struct move_comm_rank *member; /* KIND_COLLECTS and KIND_P2P: the rank in a communicator; else NULL */
};

struct task {
    const struct task_kind *kind;
    /* phase: enum node_phase. turn: priority class; among the ready tasks of a device, one with the least turn runs
     * first */
    uint8_t phase, turn;
    /* enum stream_role of the stream that runs the work; 0 if the device has at most one stream */
    uint8_t stream;
    bool updates; /* overwrites a variable */
    /* true: the task validates its input data; false: the data needs no check, or an earlier task checks it */
    bool looks;
    /* true: some task or thread must learn when the work is done. false: the only task that waits for the work is
     * the next one on the same stream */
    bool shown;
    int32_t thread, device; /* device: index in plan->device */
    int32_t stage, lead;    /* stage: virtual stage (stage.h); lead: place of that stage in a round of stages */
    /* program node that the task computes; for a task of a move, the node whose value moves; -1: none */
    int32_t node;
    /* mesh position of the task; for a task of a move, position of the shard or index of the stage buffer that the
     * task fills */
    int32_t pos;
    int32_t channel; /* index of the channel whose end this task is; -1: none */
    int32_t nact;
    int32_t priority; /* order of ready tasks with equal turn and micro-batch: the least priority runs first */
    const char *name; /* printed name: an operator, "box all-gather", ... */
    /* program node that error messages name by its source line: the computed node; for a moved leaf, the first node
     * that needs the leaf; -1: none */
    int32_t blame_node;
    int32_t nin, nout, narg;
    struct in_port *in; /* in-ports of data and control edges */
    struct out_port *out;
    struct arg *arg;
    /* number of results. The out-ports after the results carry no bytes: at most one control output, then credit
     * outputs */
    int32_t nresult;
    struct exec *exec;
    /* local type of the results, for kinds that neither compute a node nor belong to a move; other kinds: NULL */
    const struct type *type;
    const struct view *source; /* accumulate, copy: view of the argument; other kinds: NULL */
    int32_t threads;           /* accumulate, copy: number of threads if host code copies */
    /* Kernels of accumulate and copy tasks on devices that compile kernels: `copies` copies the argument to the
     * result, `adds` adds the argument to the result. NULL: host code copies and adds. */
    const struct cuda_launch *copies, *adds;
    union {                       /* data of the task's kind */
        struct plan_chain *chain; /* compute: the chain; NULL: the task computes a single node */
        /* box, fill, join, transfer: the steps of a move; send, recv: the move, without steps */
        struct task_move move;
    };
};

struct plan_device {
    uint8_t kind;
    int32_t thread, rank;
    int64_t arena_bytes; /* size of the arena (registers, then scratch), bytes */
    int64_t scratch, scratch_bytes;
    /* number of per-act offsets of each result that has bytes in the arena; 0: results use their registers in
     * turn */
    int32_t nact_offset;
};

struct plan_part {
    int32_t index, pos; /* index of the leaf or root to which the part belongs; mesh position of the part */
    struct type type;   /* local type of the part; for a part split into micro-batches, type of one micro-batch */
    int64_t bytes;      /* size of the buffer, which holds all micro-batches, bytes */
};

struct plan {
    struct arena arena;
    struct program *program;    /* program, owned by the plan */
    unsigned char digest[16];   /* digest of the outline (outline.h) */
    int32_t memory;             /* host of this partition's devices; 0: there is one host */
    int32_t nmemory, *memories; /* hosts of the program's devices, ascending */
    int32_t nthread, ndevice, ntask, pieces;
    /* For RULE_ROUNDS, where the stages of a device take turns. group: number of micro-batches that a stage runs
     * before the next stage has its turn; round: sum of the groups of all stages of a device */
    int32_t group, round;
    /* number of device threads that share the cores, counted as if all ran in one process. It decides how many
     * threads a kernel uses */
    int32_t nshare;
    struct plan_device *device;
    struct task *task; /* tasks, in a valid sequential order */
    int32_t *nlocal;   /* by thread: number of tasks, and their indices */
    int32_t **local;
    int64_t *nact; /* by thread: number of acts */
    int32_t nleaf_part, nroot_part;
    struct plan_part *leaf_part, *root_part;
    /* by leaf, by root: index of the leaf's or root's first local part; the other local parts follow in mesh
     * order */
    int32_t *leaf_first, *root_first;
    bool *overwrites; /* by root: true if tasks overwrite the root's leaf in place */
    /* by root: true if replicas of the root share one buffer, and each rank writes a slice of it (shared_update.h) */
    bool *shared;
    int32_t nexec; /* number of kernels (malloc); equal tasks share a kernel */
    struct exec **exec;
    int32_t nmove; /* moves, in the order of their tasks */
    struct plan_move **move;
    int32_t nchannel; /* channels to other hosts, sorted by name */
    struct channel *channel;
};

/* Returns the source line of the task's blame_node when the plan was made. A run of a cached plan may have another
 * line: see run.line. */
static inline struct line
task_line(const struct plan *p, const struct task *t)
{
    return t->blame_node >= 0 ? p->program->node[t->blame_node].line : (struct line){0};
}
/* Returns the device whose memory stores the task's results. That is the task's own device or, for a transfer
 * into another device's memory, the reader's device. */
static inline int32_t
task_holder(const struct task *t)
{
    return t->nresult > 0 && t->out[0].where.kind == IN_ARENA ? t->out[0].where.index : t->device;
}
/* Returns the channel of which the task is an end, or NULL. */
static inline const struct channel *
task_channel(const struct plan *p, const struct task *t)
{
    return t->channel >= 0 && t->channel < p->nchannel ? &p->channel[t->channel] : NULL;
}
/* Returns the number of results of a task with this rank in a communicator: the collective's or link's result,
 * and the buffers for blocks. */
static inline int32_t
comm_rank_nresult(const struct move_comm_rank *s)
{
    return 1 + (s->npack > 0) + (s->nunpack > 0);
}
/* Returns the move of which the task is a part; NULL: none. */
static inline const struct plan_move *
task_hop(const struct task *t)
{
    return t->kind->flags & KIND_MOVE ? t->move.of : NULL;
}
/* Returns the program node of the task's move, if the move offloads a value, fetches it, or gathers it again
 * (prog_node.again); else NULL. */
static inline const struct prog_node *
task_fetches(const struct plan *p, const struct task *t)
{
    const struct plan_move *m = task_hop(t);
    bool there = m && m->step >= 0 && m->step < p->program->nnode;
    return there && p->program->node[m->step].again ? &p->program->node[m->step] : NULL;
}
/* Returns true if the move fetches an offloaded value from another placement. If the device that stores the value
 * can access both memories, that device runs the move. */
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

/* Returns the dispatch key of an act. Among the ready tasks of a device the least key runs first. Keys compare turns
 * first (forward before backward before weight gradients, unless the schedule differs), then micro-batches, then
 * priorities. */
static inline uint64_t
task_key(const struct plan *p, const struct task *t, int32_t act)
{
    uint64_t piece = (uint64_t)(act / p->group) * (uint64_t)p->round + (uint64_t)(t->lead + act % p->group);
    return (uint64_t)t->turn << 56 | (piece & 0xffffff) << 32 | (uint32_t)t->priority;
}

/* Returns the index of the task's moment, that is, its device, stage and phase. With n stages the index is less
 * than ndevice * n * (PHASE_BATCH + 1). */
static inline int64_t
task_moment(const struct task *t, int32_t n)
{
    return ((int64_t)t->device * n + t->stage) * (PHASE_BATCH + 1) + t->phase;
}

/* Returns true if the task continues work that an earlier task began on the same device, in the same stage and
 * phase. Such tasks go on from operator to operator with one micro-batch. A sum over micro-batches continues after
 * its addend. Must be called for all tasks in list order. *begun: the flag of the task's moment (device, stage and
 * phase), false at first. joint: all backward work of the task's stage is weight gradients (stages.joint). */
static inline bool
task_goes_on(const struct task *t, bool joint, bool *begun)
{
    /* a task that runs once per batch begins no micro-batch, so its priority is that of a continuing task */
    if (t->nact == 1) return true;
    bool sum = (t->kind->flags & (KIND_ONCE_A_BATCH | KIND_NODE)) == KIND_ONCE_A_BATCH,
         was = *begun && (t->phase != PHASE_WEIGHT || joint);
    *begun = *begun || t->kind->flags & KIND_NODE;
    return sum || was;
}

#endif
