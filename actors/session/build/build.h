/* build.h - calls operators on values.
 *
 * A call derives the types and layouts of its results, and adds one node or the nodes of a composite operator.
 * `out` has room for the operator's results. The results belong to the call until build_settle() (build_node.h).
 * Used only on the session's thread. */
#ifndef RILLE_SESSION_BUILD_H
#define RILLE_SESSION_BUILD_H

#include "actors/session/build/build_node.h"
#include "kernels/exec/exec.h"

/* Calls any operator. source: type and layout of a source operator's result; for to_global: the target layout, with
 * type NULL. */
struct build_source {
    const struct type *type;
    const struct layout *layout;
};
int build_call(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
               const struct attr *attr, const struct build_source *source, struct val **out);
struct val *build_number(struct rille_session *s, bool is_int, double f, int64_t i);
/* Returns v cast to dtype d; v itself if v already has dtype d. */
int build_cast(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out);
/* Casts v to a dtype, like build_cast. If v views all elements of another value, casts that value and returns the
 * same view of the result. So a weight and its gradient keep the weight's own layout. The weight is cast once,
 * even if its readers transpose the weight. */
int build_cast_below(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out);
int build_to_global(const struct call_context *ctx, struct val *v, const struct layout *l, struct val **out);

/* The interface with which kernels build gradients and composites. */
struct builder {
    struct build base;
    const struct call_context *ctx; /* must outlive the builder */
};
struct builder builder_of(const struct call_context *ctx);

#endif
