/* build_node.h - adds one node, whose types and layouts are known.
 *
 * New values belong to the call in progress until build_settle() ends the call. Session's thread. */
#ifndef RILLE_SESSION_BUILD_NODE_H
#define RILLE_SESSION_BUILD_NODE_H

#include "actors/session/core/call_context.h"
#include "runtime/base/arena.h"
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

/* The calls of a session: what new nodes get beside the context, and the values of the call in progress. */
struct session_calls {
    /* The region that new nodes belong to; the backward pass recomputes the nodes of a region. 0: the forward pass
     * keeps their results. */
    int32_t region, nregion;
    int32_t step_region;       /* first region of a compiled step that is recomputed; 0: none */
    struct strategy *strategy; /* strategy of the next call, owned; NULL: none */
    int32_t nstrategy;         /* number of composites that were called with a strategy */
    enum dtype autocast;       /* dtype that calls cast operands to; DT_NONE: no cast */
    bool tf32;                 /* products and convolutions get the attribute tf32 */
    struct arena scratch;      /* scratch memory of a call; reset at the end of the outermost call */
    struct val **fresh;        /* held values that the call in progress created */
    int32_t nfresh, fresh_capacity;
    int64_t price; /* price of all calls so far (build.c); that of a call in parts is a difference */
};

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
