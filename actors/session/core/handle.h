/* handle.h - handles of tensors, and the session's lists of handles.
 *
 * A handle belongs to its session. Session's thread. */
#ifndef RILLE_SESSION_HANDLE_H
#define RILLE_SESSION_HANDLE_H

#include "runtime/graph/graph.h"

struct rille_session;
/* The user's handle on a value. A leaf is a variable; val is the present version. The struct lives while the
 * variable has handles (nref), or versions or snapshots that refer to it (nref_weak). */
struct rille_tensor {
    struct rille_session *s;
    struct val *val; /* held while nref > 0 */
    int32_t nref, nref_weak;
    bool leaf, requires_grad, watched; /* watched: backward was called on it since the last step */
    bool planned;                      /* a planner may choose the layout */
    bool placed;                       /* a planner has chosen the layout */
    bool keeps_gathered;               /* compiled steps keep its gathered value for backward */
    struct rille_tensor *grad;
    const struct layout *grad_layout; /* layout of the deposited gradient; NULL: as grad_suiting() says */
    char *name;
    int32_t journal;                  /* entry of the trace in progress; -1: none */
    struct rille_tensor *next, *back; /* links of the session's list, while nref > 0 */
};

struct rille_graph;
struct rille_live;
/* Lists of all handles. */
struct session_handles {
    struct rille_tensor *tensors; /* with handles; the next two lists likewise */
    struct rille_live *lives;
    struct rille_graph *graphs;
    int64_t ntensor;
};

struct rille_tensor *tensor_new(struct rille_session *s, struct val *v, bool leaf);
/* Makes v the present version of the leaf. Readers of the old version keep it. */
void tensor_rebind(struct rille_tensor *t, struct val *v);
/* Makes g the gradient of the leaf. Holders of the previous gradient, if any, still see that one. */
void tensor_rebind_grad(struct rille_tensor *t, struct val *g);
/* Gives an "auto" leaf the layout that a planner chose, for good. */
int tensor_place(struct rille_tensor *t, const struct layout *l);
/* Refers to t without holding its value. tensor_orphan ends that, and frees the struct of a variable without handles.
 */
struct rille_tensor *tensor_refer(struct rille_tensor *t);
void tensor_orphan(struct rille_tensor *t);
/* Returns true if v is the present version of variable t. */
bool tensor_is_present(const struct rille_tensor *t, const struct val *v);

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

#endif
