/* kind.h - what a kind of task is: a record, one file (kind_NAME.c) and one line (kinds.def) each.
 *
 * A plan names the kind of each of its tasks by a pointer to its record. Nobody
 * asks which kind that is, but the kinds themselves: what others must know is a flag, a
 * field or a function here. Read-only; any thread. */
#ifndef RILLE_PLAN_KIND_H
#define RILLE_PLAN_KIND_H

#include "runtime/op.h"
#include "runtime/str.h"
#include "runtime/type.h"
#include "runtime/view.h"

struct plan;
struct task;
struct values;
struct stream;
struct stream_work;
struct transport;

/* One act, as the functions of a kind see it. The thread of the task's device owns it; it lives as long as its work is
 * under way. Addresses are those of this act: of each argument where its view begins, of each result's register. */
struct act {
    const struct plan *plan;
    const struct task *task;
    void *const *in, *const *out;      /* by argument; by result */
    void *scratch;                     /* the device's; until the work is done */
    struct stream *stream;             /* that takes the work; NULL: the work is done when begin returns */
    int32_t piece;                     /* counts from 0 */
    int64_t received;                  /* bytes of other devices' memory that it reads: begin adds to it */
    const struct transport *transport; /* of the bytes that go to other memories, or come from there */
    int64_t ticket;                    /* sent bytes stay as they are until the transport says so; 0: they need not */
    struct finding find;               /* what its work found wrong in its data */
};

enum kind_flags {
    KIND_EXEC = 1,         /* calls a kernel, which its task has */
    KIND_MOVE = 2,         /* is part of a move: task.move */
    KIND_NODE = 4,         /* computes a program node (or a chain of them): its results are those of the node */
    KIND_ONCE_A_BATCH = 8, /* its results come once a batch, whatever it reads */
    KIND_ALIAS = 16,       /* its result may lie in a register that another task has (where: IN_TASK) */
    KIND_WRITES = 32,      /* its acts write the bytes of its results */
    KIND_ORDER = 64,       /* it has no results: others wait for it */
    KIND_SENDS = 128,      /* it has no results here: what it reads goes to another memory */
    KIND_FAR = 256,        /* it may be an end of a channel */
    KIND_CARRIES = 512,    /* it reads what lies in another space than its results */
    KIND_COLLECTS = 1024,  /* its work waits for that of its partners: task.move.seat */
    KIND_DIRECT = 2048,    /* an end of a direct channel: its work waits for the other's: task.move.seat */
};

struct task_kind {
    const char *name;
    unsigned flags;
    /* Begins the work of an act: does it, or enqueues it on a->stream. The device's thread; does not block, allocates
     * nothing. E_KERNEL, E_VALUE. */
    int (*begin)(struct act *a);
    /* After the work of an act is done: says on the host what it found in its data. The device's thread; NULL: nothing
     * to say. E_VALUE. */
    int (*done)(struct act *a);
    /* The proof's own derivation of what a task of this kind must be (verify_value.h). E_PLAN. */
    int (*check)(struct values *s, int32_t task);
    /* The local type of a result, as the reader of a plan thinks of it. */
    struct type (*result)(const struct plan *p, int32_t task, int32_t out);
    /* What a reader of a plan calls the task. */
    void (*print)(const struct plan *p, int32_t task, struct str *s);
};

/* Enqueues the work of an act on its stream, or does it. run: takes w->of for its task. */
int kind_enqueue(const struct act *a, int (*run)(const struct stream_work *w, const struct stream *s), bool launches);
/* Gives both views of work that makes a dense result of one window (task.source), where the work reaches them. */
void kind_views(const struct stream_work *w, const struct stream *s, struct view *dst, struct view *src);
/* Work of such a task: the result is the window, in its own dtype. */
int kind_copy_source(const struct stream_work *w, const struct stream *s);

/* For kinds whose tasks have a name of their own, and give what task.type says. */
void kind_print_name(const struct plan *p, int32_t task, struct str *s);
/* For those that may be an end of a channel: the name, and to or from which memory. */
void kind_print_far(const struct plan *p, int32_t task, struct str *s);
struct type kind_result_type(const struct plan *p, int32_t task, int32_t out);

#define KIND(name) extern const struct task_kind kind_##name;
#include "actors/plan/kinds.def"
#undef KIND

#endif
