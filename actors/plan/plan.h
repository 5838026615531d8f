/* plan.h - what actors carry out: tasks, the registers between them, where those lie in memory.
 *
 * plan_compile() makes it of a program; then it is read-only: every thread reads it, all that changes is in the actors.
 * A task is one operator call on one rank, or one destination's part of a move (boxing), or one rank's sum over pieces.
 * Its results are registers: nreg buffers that take turns. Registers are the credits; there is no other back-pressure.
 * A task reads three kinds of bytes: registers, leaves (values that exist before the run; always there) and numbers. A
 * task writes what must outlive the run straight into its own buffer. A task of its own, a transfer, brings what lies
 * in another space (device.h).
 *
 * Rates: a task acts nact times a run, once a piece or once a batch. It
 * publishes each result after every `every` acts; a reader keeps a register for
 * `hold` acts. A control edge carries no bytes, only that something happened;
 * its reader wants `need` tokens before an act. */
#ifndef RILLE_PLAN_PLAN_H
#define RILLE_PLAN_PLAN_H

#include "actors/plan/channel.h"
#include "actors/plan/kind.h"
#include "actors/plan/program.h"
#include "boxing/box.h"
#include "boxing/collective.h"
#include "kernels/kernel.h"

/* Where the registers of a result lie: one after the other, `stride` bytes apart, from `offset` on. Stride 0: they have
 * no bytes. Or each act has a berth, whichever register it writes: act i lies at berth[i % nberth]. */
struct where {
    uint8_t kind;  /* enum where_kind */
    int32_t index; /* plan device; root part; task */
    int64_t offset, stride;
    int32_t nberth; /* 0: registers take turns */
    const int64_t *berth;
};
enum where_kind {
    NOWHERE,  /* an output of order or of credits */
    IN_ARENA, /* of the device `index`, the task's own but for transfers; 64-byte aligned */
    IN_ROOT,  /* root part `index`, a buffer that outlives the run */
    IN_TASK,  /* the registers of result 0 of task `index`, whose own are not IN_TASK */
};

enum { REG_ALIGN = 64 };
static inline int64_t
where_stride(int64_t bytes)
{
    return (int64_t)(((uint64_t)bytes + REG_ALIGN - 1) & ~(uint64_t)(REG_ALIGN - 1));
}

/* What tells a reader that it may go on, and when a register goes back (token.c). Either way the producer's work is
 * done before the reader's work begins. */
enum token {
    TOKEN_DONE,   /* the producer's work is done; the register goes back when the reader's is */
    TOKEN_ISSUED, /* the producer has enqueued it on the stream that is the reader's too; so does the register go back
                   */
    TOKEN_EVENT,  /* the producer has enqueued it on another stream of this thread, for which the reader's waits; the
                     register goes back when the reader's work is done */
};

struct in_port {
    int32_t task, out; /* who produces it */
    int32_t hold;      /* acts that read one register before its reader gives it back */
    int32_t need;      /* control: tokens an act takes; data: 1 */
    int32_t fan;       /* which fan of the producer's result it belongs to */
    uint8_t token;     /* enum token: what tells it to go on */
};

struct reader {
    int32_t task, port;
};
/* The readers of one result on one thread: one message tells them, one answers. */
struct fan {
    int32_t thread, nreader;
    int32_t nissued; /* the producer tells the first so many when the work is enqueued, the others when it is done */
    const struct reader *reader;
};
struct out_port {
    bool control; /* no bytes, never waits for a free register */
    bool once;    /* it fills no register twice in a run: it waits for none to come back, so readers send none back */
    bool shared;  /* others lie in it */
    int32_t nreg;
    int32_t every; /* the task publishes it after so many acts */
    int32_t nfan;
    struct fan *fan;
    int64_t bytes; /* of one register */
    struct where where;
};

enum arg_kind { ARG_NONE, ARG_REG, ARG_LEAF, ARG_NUMBER };
struct arg {
    uint8_t kind;
    int32_t index;        /* in_port, leaf part, number */
    int64_t skip;         /* bytes from the start to where the view begins */
    int64_t piece_stride; /* leaf: bytes from one piece to the next */
};

/* One step of a move: a slice of the destination part is the combination of slices of others'. */
struct box_from {
    int32_t arg;
    int64_t skip; /* bytes, beyond the argument's own */
    const struct view *view;
};
struct box_move {
    uint8_t verb, reduce; /* enum box_verb */
    int32_t nfrom;
    struct box_from *from; /* in the order in which the step combines them */
    int64_t skip;          /* bytes */
    const struct view *view;
    const struct box *slice;          /* fill: in global positions */
    const struct cuda_launch *launch; /* of devices that compile; NULL: host code does it */
};

/* Element-wise nodes, and a product that leads them, that one task computes in one pass (fuse.c), or a group of updates
 * that one task computes: what the chain reads, in the order of the task's arguments, and which members' results it
 * shows. */
struct plan_chain {
    int32_t nstep, nin, nout;
    int32_t *member; /* program nodes, in order */
    struct ref *in;
    const struct layout **want; /* NULL for numbers */
    struct ref *live_out;       /* results of members, in order; all of a member that shows one */
};

/* A move at once, or a hop of one. */
struct plan_move {
    int32_t step;         /* the program node that needs it, which operand of it moves, and which hop of the way this */
    int16_t operand, hop; /* is: so a hop has one name in all parts, and its channels have it (channel.h) */
    struct ref value;
    struct type type;
    const struct layout *from, *to;
    const char *name;     /* box_plan.name */
    int64_t bytes, bound; /* that the devices of this plan receive; the proven least, of the whole move */
    int32_t nleg, nchunk; /* of a sum that is handed on (box_relay), */
    bool back;            /* and back; 0: it is not */
    /* Which collective of a library it is: a KIND_COLLECTS task at each position here, in their order; others have
     * theirs in the parts of other memories, and all parts say the same of it (seats.h). NULL: none. */
    const struct collective *by;
    bool late; /* of such with seats in other memories: its only act comes after the last piece */
};

/* A window of a part, and where its block lies by itself, or the other way round. */
struct seat_copy {
    const struct view *from, *to;
    int64_t from_skip, to_skip;       /* bytes */
    const struct cuda_launch *launch; /* NULL: host code does it */
};
/* Where a task sits in its collective, or at its end of an edge. What its blocks are packed into, and what comes before
 * it is unpacked, are results of it behind the first, in that order, which nobody reads. A part that has gaps is
 * packed, too. Who sends on an edge has no others; of what it sends each slice is a block to pack, unless it is one
 * that has no gaps. */
struct move_seat {
    struct communicator *in;
    int32_t seat;
    uint8_t dtype;          /* of an edge: of what it carries */
    int64_t numel;          /* collective_numel; on an edge all that it carries */
    int32_t npack, nunpack; /* blocks; 0: the library reads the argument, or writes the result */
    struct seat_copy *pack, *unpack;
};

/* A task's part in a move. */
struct task_move {
    const struct plan_move *of;
    bool stage; /* it fills a stage of the move, not a part of its destination */
    int32_t nstep;
    struct box_move *step;
    int64_t received;             /* bytes it reads of other devices' memory, an act */
    const struct move_seat *seat; /* KIND_COLLECTS, KIND_DIRECT; else NULL */
};

struct task {
    const struct task_kind *kind;
    uint8_t phase, turn; /* enum node_phase; of the tasks that are ready on a device the least goes first */
    uint8_t stream; /* enum stream_role: on which stream of its device its work is; 0 where that has one, or none */
    bool updates;   /* writes over a variable */
    bool looks;     /* for data that it refuses: where no task before it has looked through the same */
    bool shown;     /* others than who comes behind it on its stream wait for its work */
    int32_t thread, device; /* index in plan->device */
    int32_t stage, lead;    /* virtual stage (stage.h); its place in a round */
    int32_t node;           /* program node it is part of (of a move: of the value that moves), -1 */
    int32_t pos;            /* mesh position, or destination index of a move */
    int32_t channel;        /* whose end it is, -1 */
    int32_t nact;
    int32_t priority;   /* smaller first */
    const char *name;   /* operator, "box all-gather", ... */
    int32_t blame_node; /* program node whose line an error names: its own, or the first that wants a leaf moved; -1 */
    int32_t nin, nout, narg;
    struct in_port *in; /* data and control */
    struct out_port *out;
    struct arg *arg;
    int32_t nresult; /* the first nresult outs are results; then one of order, and of credits, if there are such */
    struct exec *exec;
    const struct type *type;   /* of a task that is no node and no box: the local type of its result; else NULL */
    const struct view *source; /* accumulate, copy: how it lies in its argument; else NULL */
    int32_t threads;           /* of these: how many may copy it, where host code does */
    /* Of these on devices that compile: what copies it, what adds it to its result; NULL: host code does it. */
    const struct cuda_launch *copies, *adds;
    union {                       /* by kind */
        struct plan_chain *chain; /* compute: of a chain; NULL: of its node alone */
        struct task_move move;    /* box, fill, join, transfer; send, recv: no steps */
    };
};

struct plan_device {
    uint8_t kind;
    int32_t thread, rank;
    int64_t arena_bytes; /* registers, then scratch */
    int64_t scratch, scratch_bytes;
    int32_t nberth; /* of each result in its arena that has any */
};

struct plan_part {
    int32_t index, pos; /* leaf or root, mesh position */
    struct type type;   /* local, of one piece */
    int64_t bytes;      /* of the whole buffer: all pieces */
};

struct plan {
    struct arena arena;
    struct program *program;    /* owned */
    unsigned char digest[16];   /* of the outline (outline.h) */
    int32_t memory;             /* whose part it is: that of its devices; 0 where there is one memory */
    int32_t nmemory, *memories; /* in which the program's devices lie, ascending */
    int32_t nthread, ndevice, ntask, pieces;
    int32_t group, round; /* pieces that a stage does before the next one's turn, and those of all stages of a device */
    int32_t nshare;       /* threads that share the cores, as one process would have them: team sizes follow from it */
    struct plan_device *device;
    struct task *task; /* in an order in which they could run one after the other */
    int32_t *nlocal;   /* per thread: how many tasks, which */
    int32_t **local;
    int64_t *nact; /* per thread */
    int32_t nleaf_part, nroot_part;
    struct plan_part *leaf_part, *root_part;
    int32_t *leaf_first, *root_first; /* first part here of leaf i, root k; others follow in mesh order */
    bool *overwrites;                 /* per root: tasks may write it over its leaf */
    bool *shared;  /* per root: replicas of it, or of the leaf that it overwrites, are one buffer, of which each task
                      writes a slice (replica.h) */
    int32_t nexec; /* kernels, one for all tasks that are alike; malloc */
    struct exec **exec;
    int32_t nmove; /* in the order of their tasks */
    struct plan_move **move;
    int32_t nchannel; /* to other memories, sorted by name */
    struct channel *channel;
};

/* The line of its blame_node when the plan was made; a plan that the cache finds again has others: run.line. */
static inline struct line
task_line(const struct plan *p, const struct task *t)
{
    return t->blame_node >= 0 ? p->program->node[t->blame_node].line : (struct line){0};
}
/* The device in whose memory the results of a task lie: its own, but of one that carries bytes to another's. */
static inline int32_t
task_holder(const struct task *t)
{
    return t->nresult > 0 && t->out[0].where.kind == IN_ARENA ? t->out[0].where.index : t->device;
}
/* The channel of which a task is an end; NULL. */
static inline const struct channel *
task_channel(const struct plan *p, const struct task *t)
{
    return t->channel >= 0 && t->channel < p->nchannel ? &p->channel[t->channel] : NULL;
}
/* How many results a task of a collective has. */
static inline int32_t
seat_nresult(const struct move_seat *s)
{
    return 1 + (s->npack > 0) + (s->nunpack > 0);
}
/* The move that a task is part of; NULL. */
static inline const struct plan_move *
task_hop(const struct task *t)
{
    return t->kind->flags & KIND_MOVE ? t->move.of : NULL;
}
/* The program node that brings a value aside or again, and of whose move the task is a part; NULL. */
static inline const struct prog_node *
task_brings(const struct plan *p, const struct task *t)
{
    const struct plan_move *m = task_hop(t);
    bool there = m && m->step >= 0 && m->step < p->program->nnode;
    return there && p->program->node[m->step].again ? &p->program->node[m->step] : NULL;
}
/* Does the move fetch what lies aside? Who holds it there does, where it reaches both sides. */
static inline bool
hop_fetches(const struct program *p, const struct plan_move *m)
{
    const struct prog_node *n = &p->node[m->step];
    bool there = n->again && (n->in[0].kind == REF_LEAF || p->node[n->in[0].index].again);
    return there && m->from->place != m->to->place;
}
/* The operator that it computes (of a chain: of its last node); NULL. */
static inline const struct op *
task_op(const struct plan *p, const struct task *t)
{
    return t->kind->flags & KIND_NODE ? p->program->node[t->node].op : NULL;
}

/* Of the tasks that are ready on a device the one with the least key acts next: by turn - forward before backward
 * before weight gradients, if the schedule says nothing else - then the first pieces, then by priority. */
static inline uint64_t
task_key(const struct plan *p, const struct task *t, int32_t act)
{
    uint64_t piece = (uint64_t)(act / p->group) * (uint64_t)p->round + (uint64_t)(t->lead + act % p->group);
    return (uint64_t)t->turn << 56 | (piece & 0xffffff) << 32 | (uint32_t)t->priority;
}

/* A number of its device, stage of n, and phase, less than ndevice n (PHASE_BATCH + 1). */
static inline int64_t
task_moment(const struct task *t, int32_t n)
{
    return ((int64_t)t->device * n + t->stage) * (PHASE_BATCH + 1) + t->phase;
}

/* Asked of all tasks in order: does this one carry on with what an earlier one of its moment began? Forward and
 * backward from operator to operator; a sum over pieces with its addend. *begun: of the moment, false at first; joint:
 * of its stage. */
static inline bool
task_goes_on(const struct task *t, bool joint, bool *begun)
{
    if (t->nact == 1) return true; /* what comes once a batch begins no piece: it need not wait until all are through */
    bool sum = (t->kind->flags & (KIND_ONCE_A_BATCH | KIND_NODE)) == KIND_ONCE_A_BATCH,
         was = *begun && (t->phase != PHASE_WEIGHT || joint);
    *begun = *begun || t->kind->flags & KIND_NODE;
    return sum || was;
}

/* Makes the part of the memory that the program's map names, all of the plan where there is no map. Takes over the
 * program, also when it fails. E_PLAN when the plan cannot run to its end (names who starves), E_MEMORY... On the
 * thread that owns the atlas. */
int plan_compile(struct program *p, struct atlas *at, struct plan **out);
void plan_free(struct plan **p);
size_t plan_bytes(const struct plan *p); /* of host memory, about */
/* The scratch memory that the kernels of one rank of each placement, the first, would take, without a plan: as soon
 * done for 100,000 ranks as for one. The program stays the caller's. Pure. */
int plan_scratch(struct program *p, int64_t *bytes);

/* Prints a plan: logical bytes, equal ranks collapsed; the same on every machine. physical: threads, offsets, rows. */
void plan_print(const struct plan *p, bool physical, struct str *s);

/* Proves that a plan is well-formed and runs to its end in whatever order things happen: indices and sizes in range,
 * shapes and signatures legal, one greedy token simulation, no two live tenants of one block. E_PLAN says what is
 * wrong. */
int plan_verify(const struct plan *p);

#endif
