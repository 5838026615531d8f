/* build_node.h - adds one node, whose types and layouts are known.
 *
 * New values belong to the call in progress until build_settle() ends the call. Session's thread. */
#ifndef RILLE_SESSION_BUILD_NODE_H
#define RILLE_SESSION_BUILD_NODE_H

#include "actors/session/core/call_context.h"
#include "sbp/sig.h"

enum { BUILD_OPERANDS = 256 };

/* A call on values, with space for its arrays. */
struct called {
    struct call call;
    struct type type[BUILD_OPERANDS];
    const struct layout *layout[BUILD_OPERANDS];
    uint8_t same[BUILD_OPERANDS];
};

void build_called(const struct op *op, int nin, struct val *const *in, const struct attr *attr, struct called *c);
/* Returns the first operand that is the same value as operand i. */
uint8_t build_same_as(struct val *const *in, int i);
/* Fails with what is wrong with a call, followed by its operands with type and layout. */
int build_refuse(int code, const struct op *op, int nin, struct val *const *in, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Adds the node of a call with the given requested layouts, types and result layouts. */
struct node_made {
    int nin, nout;
    const struct layout *const *want; /* nin */
    const struct type *type;          /* nout */
    const struct layout *const *layout;
};
int build_add(const struct call_context *ctx, const struct op *op, struct val *const *in, const struct attr *attr,
              const struct node_made *made, struct val **out);
/* Returns the context without its strategy, which is meant for the called operator only. */
struct call_context build_plain(const struct call_context *ctx);
/* build_fresh holds a value that a call created until build_settle ends the call. After that a value lives only by
 * its handles and readers. build_settle returns status. */
struct val *build_fresh(struct rille_session *s, struct val *v);
int build_settle(struct rille_session *s, int status);

#endif
