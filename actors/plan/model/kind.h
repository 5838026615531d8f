/* kind.h - task kinds. Each kind has a record (struct task_kind), a file (kind_NAME.c) and a line in kinds.def.
 *
 * Each task of a plan points to the record of its kind. Code outside a kind's file never tests for the kind; it uses
 * the flags, fields and functions of struct task_kind. Read-only; any thread. */
#ifndef RILLE_PLAN_KIND_H
#define RILLE_PLAN_KIND_H

#include "runtime/graph/op.h"
#include "runtime/data/str.h"
#include "runtime/tensor/type.h"
#include "runtime/tensor/view.h"

struct plan;
struct task;
struct values;
struct stream;
struct stream_work;
struct transport;

/* One act of a task, as passed to the functions of the task's kind. The thread of the task's device owns a struct
 * act until the act's work is done. The addresses in[] and out[] are valid for this act only. */
struct act {
    const struct plan *plan;
    const struct task *task;
    void *const *in, *const *out;      /* by argument: start of its view; by result: start of its register */
    void *scratch;                     /* scratch memory of the device, for this act until its work is done */
    struct stream *stream;             /* stream that runs the act's work; NULL: begin() itself does the work */
    int32_t piece;                     /* micro-batch, from 0 */
    int64_t received;                  /* bytes read so far from other devices' memory; begin() increases it */
    const struct transport *transport; /* sends and receives the bytes of channels to other hosts */
    /* number by which the transport releases the sent bytes, which must stay unchanged until then (transport.h); 0:
     * the bytes were copied */
    int64_t ticket;
    struct finding find; /* invalid data found by the act's work */
};

enum kind_flags {
    KIND_EXEC = 1, /* the task calls the kernel in task.exec */
    KIND_MOVE = 2, /* the task belongs to a move, described in task.move */
    KIND_NODE = 4, /* the task computes a program node or a chain; its results are the node's results */
    /* the task publishes its results once per batch, even if it reads data of each micro-batch */
    KIND_ONCE_A_BATCH = 8,
    /* with KIND_ONCE_A_BATCH: a result has the values of all micro-batches, one after the other */
    KIND_APPENDS = 4096,
    KIND_ALIAS = 16,    /* the task's result may be stored in another task's register (where.kind IN_TASK) */
    KIND_WRITES = 32,   /* the task writes bytes into its results' registers */
    KIND_ORDER = 64,    /* the task has no results and only orders other tasks */
    KIND_SENDS = 128,   /* the task sends its argument to another host and has no results in this partition */
    KIND_FAR = 256,     /* the task may be one end of a channel */
    KIND_CARRIES = 512, /* the task's argument and results are in different memory spaces */
    /* the task is one rank of a collective (task.move.member), so its work waits for the work of all ranks */
    KIND_COLLECTS = 1024,
    /* the task is one end of a direct channel (task.move.member), so its work waits for the work of the other end */
    KIND_P2P = 2048,
};

struct task_kind {
    const char *name;
    unsigned flags;
    /* Begins the work of an act: runs the work, or enqueues it on a->stream. Must not block or allocate. Runs on the
     * device's thread. E_KERNEL, E_VALUE. */
    int (*begin)(struct act *a);
    /* Reports invalid data that the act's work has found. Runs on the device's thread when the work is done. NULL:
     * the kind's work never finds invalid data. E_VALUE. */
    int (*done)(struct act *a);
    /* Proves a task of this kind (verify_value.h): derives from the program what the task must do, and compares.
     * E_PLAN. */
    int (*check)(struct values *s, int32_t task);
    /* Returns the local type of a result, for printed plans. */
    struct type (*result)(const struct plan *p, int32_t task, int32_t out);
    /* Prints the task's name, for printed plans. */
    void (*print)(const struct plan *p, int32_t task, struct str *s);
};

/* Enqueues the work of an act on the act's stream; without a stream, does the work at once. run: function that does
 * the work. Its argument w->of points to the act's task. */
int kind_enqueue(const struct act *a, int (*run)(const struct stream_work *w, const struct stream *s), bool launches);
/* Returns two views for a task that copies the window task.source to a dense result: the result's view and the
 * source's view. Their addresses are such that the stream's work can access them. */
void kind_views(const struct stream_work *w, const struct stream *s, struct view *dst, struct view *src);
/* Copies the window task.source into the result, without a change of dtype. */
int kind_copy_source(const struct stream_work *w, const struct stream *s);

/* For kinds whose tasks state their name and type in task.name and task.type. kind_print_name() prints the name,
 * kind_result_type() returns the type of the results. */
void kind_print_name(const struct plan *p, int32_t task, struct str *s);
/* Prints the task's name and, for an end of a channel, the host at the other end. */
void kind_print_far(const struct plan *p, int32_t task, struct str *s);
struct type kind_result_type(const struct plan *p, int32_t task, int32_t out);

#define KIND(name) extern const struct task_kind kind_##name;
#include "actors/plan/model/kinds.def"
#undef KIND

#endif
