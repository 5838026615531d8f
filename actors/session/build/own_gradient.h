/* own_gradient.h - gradients that the user defines: functions with a backward function of their own, and hooks.
 *
 * A node may have an own gradient. `function`: the node is a view of one result of the user's function; backward
 * calls that function once, when it knows the gradients of all results. `hooks`: backward passes the final
 * gradient of a result of the node to each hook, which may replace the gradient. Hooks of variables belong to
 * their handles. An own gradient is freed when backward has passed through its node, or with the node. Used only
 * on the session's thread. */
#ifndef RILLE_SESSION_OWN_GRADIENT_H
#define RILLE_SESSION_OWN_GRADIENT_H

#include "actors/session/core/call_context.h"
#include "actors/session/core/handle.h"

/* A call of a function with a user-defined gradient. All nodes that are results of this call share the record. */
struct own_function {
    struct rille_session *s;
    struct rille_backward user; /* the user's functions and data; the graph owns the string user.name */
    int32_t nref;               /* number of nodes and calls in progress that refer to this record */
    int nin, nsaved, nresult;
    /* arguments; the references keep the values, but not their bytes. NULL: not a tensor, or needs no gradient */
    struct val **in;
    struct val **saved; /* saved tensors; references are held */
    int *saved_from;    /* by saved tensor: index among the results; SAVED_INPUT: an argument; SAVED_INNER: neither */
    struct type *type;  /* types of the results */
    const struct layout **layout;
    uint64_t mark;        /* graph mark of the last backward pass that reached this call */
    int32_t npending;     /* number of reached nodes of this call that the pass has not visited yet */
    struct val **dresult; /* gradients of the results in this pass; NULL: none */
};
enum { SAVED_INPUT = -1, SAVED_INNER = -2 };

struct own_gradient {
    struct rille_session *session;
    struct node *node;
    struct own_function *function;    /* NULL: hooks only */
    int result;                       /* index of the node's value among the function's results */
    struct hook *hooks;               /* hooks of the node's results, in order of registration */
    struct own_gradient *next, *back; /* neighbours in the session's list */
};

/* Frees a node's record of user-defined gradients; for graph_on_own_gradient(). */
void own_gradient_release(struct graph *g, struct own_gradient *own);
/* Calls the backward function with f->dresult and `saved`: the saved tensors or their recomputed copies.
 * din[i]: gradient of argument i; NULL: none. */
int own_function_call(const struct call_context *ctx, struct own_function *f, struct val *const *saved,
                      struct val **din);
/* Links a recomputed copy of a node to the user's function of the node. */
void own_function_share(struct node *copy, const struct own_gradient *own);
/* Ends one reference to f; the last one frees f. */
void own_function_drop(struct graph *g, struct own_function *f);
/* Passes the gradient *g of result `out` to the hooks, one after the other. */
int own_hooks_call(const struct call_context *ctx, struct hook *hooks, int out, struct val **g);

#endif
