/* kind.h - task kinds: one record (struct task_kind), file (kind_NAME.c) and line (kinds.def) per kind.
 *
 * Each task of a plan points to the record of its kind. Only the kinds themselves test which kind a task has;
 * everything other code must know is a flag, a field or a function here. Read-only; any thread. */
#ifndef RILLE_PLAN_KIND_H
#define RILLE_PLAN_KIND_H

#include "runtime/graph/op.h"
#include "runtime/base/str.h"
#include "runtime/tensor/type.h"
#include "runtime/tensor/view.h"

struct plan;
struct task;
struct values;
struct stream;
struct stream_work;
struct transport;

/* One act, as the functions of a kind see it. Owned by the thread of the task's device; lives until the act's work
 * is done. Addresses are valid for this act only: the start of each argument's view, and each result's register. */
struct act {
    const struct plan *plan;
    const struct task *task;
    void *const *in, *const *out;      /* by argument; by result */
    void *scratch;                     /* scratch memory of the device; valid until the work is done */
    struct stream *stream;             /* stream that runs the work; NULL: the work is done when begin returns */
    int32_t piece;                     /* micro-batch, from 0 */
    int64_t received;                  /* bytes read from other devices' memory; begin adds to it */
    const struct transport *transport; /* carries bytes to and from other hosts */
    int64_t ticket;                    /* transport ticket: sent bytes must not change until its release; 0: none */
    struct finding find;               /* data error found by the work */
};

enum kind_flags {
    KIND_EXEC = 1,         /* calls the kernel task.exec */
    KIND_MOVE = 2,         /* belongs to a move: task.move */
    KIND_NODE = 4,         /* computes a program node or a chain, and has the results of the node */
    KIND_ONCE_A_BATCH = 8, /* publishes results once per batch, whatever it reads */
    KIND_ALIAS = 16,       /* result may be stored in another task's register (where: IN_TASK) */
    KIND_WRITES = 32,      /* acts write the bytes of the results */
    KIND_ORDER = 64,       /* has no results: only orders other tasks */
    KIND_SENDS = 128,      /* has no results in this partition: sends the argument to another host */
    KIND_FAR = 256,        /* may be an end of a channel */
    KIND_CARRIES = 512,    /* argument and results are in different memory spaces */
    KIND_COLLECTS = 1024,  /* work waits for the work of all partners: task.move.member */
    KIND_P2P = 2048,       /* end of a direct channel: work waits for the other end's work: task.move.member */
};

struct task_kind {
    const char *name;
    unsigned flags;
    /* Begins the work of an act: runs the work, or enqueues it on a->stream. Must not block or allocate. Device's
     * thread. E_KERNEL, E_VALUE. */
    int (*begin)(struct act *a);
    /* Called when the work of an act is done: reports on the host what the work found wrong in its data. NULL:
     * nothing to report. Device's thread. E_VALUE. */
    int (*done)(struct act *a);
    /* Derives independently what a task of this kind must be, and compares (verify_value.h). E_PLAN. */
    int (*check)(struct values *s, int32_t task);
    /* Returns the local type of a result, for printed plans. */
    struct type (*result)(const struct plan *p, int32_t task, int32_t out);
    /* Prints the task's name, for printed plans. */
    void (*print)(const struct plan *p, int32_t task, struct str *s);
};

/* Enqueues the work of an act on its stream, or does it at once. run: called with the task as w->of. */
int kind_enqueue(const struct act *a, int (*run)(const struct stream_work *w, const struct stream *s), bool launches);
/* For tasks that make one window dense (task.source): returns the views of result and source, with addresses that
 * the work can access. */
void kind_views(const struct stream_work *w, const struct stream *s, struct view *dst, struct view *src);
/* Runs the work of a copy: copies the window into the result, in its own dtype. */
int kind_copy_source(const struct stream_work *w, const struct stream *s);

/* Functions of kinds that print task.name and have results of type task.type. */
void kind_print_name(const struct plan *p, int32_t task, struct str *s);
/* Prints the name and, for an end of a channel, the host at the other end. */
void kind_print_far(const struct plan *p, int32_t task, struct str *s);
struct type kind_result_type(const struct plan *p, int32_t task, int32_t out);

#define KIND(name) extern const struct task_kind kind_##name;
#include "actors/plan/model/kinds.def"
#undef KIND

#endif
