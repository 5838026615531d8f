/* build_node.h - adds one node with known types and layouts to the graph.
 *
 * New values belong to the call in progress until build_settle() ends the call. Session's thread. */
#ifndef RILLE_SESSION_BUILD_NODE_H
#define RILLE_SESSION_BUILD_NODE_H

#include "actors/session/core/call_context.h"
#include "runtime/base/arena.h"
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

/* State of a session's operator calls: settings for new nodes that call_context does not hold, and the values of the
 * call in progress. */
struct session_calls {
    /* region: recomputation region of new nodes; the backward pass recomputes all nodes of a region; 0: none, so
     * results are kept from the forward pass. nregion: number of regions so far. */
    int32_t region, nregion;
    int32_t step_region;       /* first region of a compiled step that is recomputed; 0: none */
    struct strategy *strategy; /* strategy of the next call, owned; NULL: none */
    int32_t nstrategy;         /* number of composite calls with a strategy so far */
    enum dtype autocast;       /* dtype that calls cast operands to; DT_NONE: no cast */
    bool tf32;                 /* products and convolutions get the attribute tf32 */
    struct arena scratch;      /* scratch memory of a call; reset at the end of the outermost call */
    struct val **fresh;        /* values that the call in progress created; a reference is held */
    int32_t nfresh, fresh_capacity;
    int64_t price; /* bytes moved by all calls so far; differences give the price of one expanded call */
};

/* Types and layouts of a new node, for build_add(). */
struct node_made {
    int nin, nout;
    const struct layout *const *want; /* [nin] requested layouts of operands */
    const struct type *type;          /* [nout] result types */
    const struct layout *const *layout;
};
int build_add(const struct call_context *ctx, const struct op *op, struct val *const *in, const struct attr *attr,
              const struct node_made *made, struct val **out);
/* Returns a copy of the context without its strategy, because a strategy applies only to the called operator. */
struct call_context build_plain(const struct call_context *ctx);
/* build_fresh takes a reference to a value that a call created; build_settle drops these references at the end of
 * the call. Afterwards only handles and readers keep the value. build_settle returns `status`. */
struct val *build_fresh(struct rille_session *s, struct val *v);
/* Makes a leaf that shares the bytes of v, which is computed. */
int build_share(struct rille_session *s, struct val *v, struct val **out);
int build_settle(struct rille_session *s, int status);

#endif
