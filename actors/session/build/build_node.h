/* build_node.h - adds one node with known types and layouts to the graph.
 *
 * New values belong to the call in progress until build_settle() ends the call. Used only on the session's
 * thread. */
#ifndef RILLE_SESSION_BUILD_NODE_H
#define RILLE_SESSION_BUILD_NODE_H

#include "actors/session/core/call_context.h"
#include "runtime/data/arena.h"
#include "sbp/sig.h"

enum { BUILD_OPERANDS = 256 };

/* A call with its operands as values, and space for the call's arrays. */
struct called {
    struct call call;
    struct type type[BUILD_OPERANDS];
    const struct layout *layout[BUILD_OPERANDS];
    uint8_t same[BUILD_OPERANDS];
};

void build_called(const struct op *op, int nin, struct val *const *in, const struct attr *attr, struct called *c);
/* Returns the index of the first operand that is the same value as operand i. */
uint8_t build_same_as(struct val *const *in, int i);
/* Fails with the given error text, followed by the types and layouts of the call's operands. */
int build_refuse(int code, const struct op *op, int nin, struct val *const *in, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Types and layouts of a new node, for build_add(). */
struct node_made {
    int nin, nout;
    const struct layout *const *want; /* [nin] layouts in which the operator reads its operands */
    const struct type *type;          /* [nout] result types */
    const struct layout *const *layout;
};
int build_add(const struct call_context *ctx, const struct op *op, struct val *const *in, const struct attr *attr,
              const struct node_made *made, struct val **out);
/* Returns a copy of the context without the strategy, because a strategy applies only to the called operator. */
struct call_context build_plain(const struct call_context *ctx);
/* build_fresh takes a reference to a value that a call created; build_settle drops these references at the end of
 * the call. Afterwards only handles and readers keep the value. build_settle returns `status`. */
struct val *build_fresh(struct rille_session *s, struct val *v);
/* Makes a leaf that shares the bytes of v. v must be computed. */
int build_share(struct rille_session *s, struct val *v, struct val **out);
int build_settle(struct rille_session *s, int status);

#endif
