/* handle.h - handles of tensors, and the session's lists of handles.
 *
 * A handle belongs to its session. Used only on the session's thread. */
#ifndef RILLE_SESSION_HANDLE_H
#define RILLE_SESSION_HANDLE_H

#include "rille.h"
#include "runtime/graph/graph.h"

struct rille_session;
/* A hook: a function of the user that backward calls with a gradient, or a handle in which backward stores the
 * gradient. */
struct hook {
    struct hook *next, *freed; /* next: link of the list of hooks; freed: link of the session's list of freed hooks */
    int64_t id;
    /* index of the result among the results of its node */
    int out;
    rille_hook_fn *fn; /* function of the user; NULL: the hook was removed, or `retains` gets the gradient */
    struct rille_hook_user user;
    struct rille_tensor *retains; /* the handle that gets the gradient; the hook has a reference to it. NULL: none */
};
/* The user's handle for a value. A leaf is a variable, and its val is the present version. The struct lives as
 * long as there are handles (nref), or versions or snapshots that refer to the variable (nref_weak). */
struct rille_tensor {
    struct rille_session *s;
    struct val *val; /* present value; the handle holds a reference while nref > 0 */
    int32_t nref, nref_weak;
    bool leaf, requires_grad, watched; /* watched: backward was called on this tensor since the last step */
    bool frozen;  /* the user set requires_grad to false; modules still list the tensor as a parameter */
    bool planned; /* a planner may choose the tensor's layout */
    bool placed;  /* a planner has chosen the tensor's layout */
    /* a compiled step gathers this sharded tensor once and keeps the gathered value for backward */
    bool keeps_gathered;
    struct rille_tensor *grad;
    struct hook *hooks;               /* hooks of a leaf's gradient (own_gradient.h), owned */
    const struct layout *grad_layout; /* layout of the gradient at the leaf; NULL: grad_suiting() chooses it */
    char *name;
    /* index of this tensor's entry in the trace's journal, which keeps the value from before the trace; -1: no
     * entry */
    int32_t journal;
    bool was_read;                    /* a call of the trace in progress reads the variable */
    struct rille_tensor *next, *back; /* neighbours in the session's list, while nref > 0 */
};

struct own_gradient;
struct rille_graph;
struct rille_live;
/* Lists of all handles that the host program holds. */
struct session_handles {
    /* tensors with nref > 0; the lists `lives` and `graphs`, too, contain only objects with handles */
    struct rille_tensor *tensors;
    struct rille_tensor *spare; /* freed structs for reuse, linked by `next` */
    struct rille_live *lives;
    struct rille_graph *graphs;
    struct own_gradient *own; /* records of nodes' user-defined gradients and hooks (own_gradient.h) */
    int64_t nhook;            /* number of hooks registered so far */
    struct hook *freed;       /* hooks that were freed while a hook was running; their memory is released later */
    int32_t nhooking;         /* number of hook calls in progress */
    int64_t ntensor;
};

struct rille_tensor *tensor_new(struct rille_session *s, struct val *v, bool leaf);
/* Returns true if values can be assigned to t in place: t is a variable. While the variable's value has a recorded
 * gradient, t->leaf is false. */
bool tensor_is_variable(const struct rille_tensor *t);
/* Makes v the present version of the leaf. Earlier readers keep the old version. */
void tensor_rebind(struct rille_tensor *t, struct val *v);
/* Makes g the gradient of the leaf. Holders of the old gradient keep the old gradient. */
void tensor_rebind_grad(struct rille_tensor *t, struct val *g);
/* tensor_refer adds a weak reference: the struct stays, but the value may be freed. tensor_orphan drops a weak
 * reference, and frees the struct of a variable without handles. */
struct rille_tensor *tensor_refer(struct rille_tensor *t);
void tensor_orphan(struct rille_tensor *t);
/* Frees the structs of freed handles, when the session is closed. */
void handles_free(struct session_handles *h);
/* hook_end removes a hook's function, but leaves its record in the list. hook_free and hooks_free free records,
 * too. While hooks are called, records stay until the last of these calls ends. */
void hook_end(struct hook *h);
void hook_free(struct rille_session *s, struct hook *h);
void hooks_free(struct rille_session *s, struct hook **hooks);
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
