/* build.h - calls operators on values.
 *
 * A call derives types and layouts and adds its node, or the nodes of a composite. `out` has room for the operator's
 * results, which belong to the call until build_settle() (build_node.h). Session's thread. */
#ifndef RILLE_SESSION_BUILD_H
#define RILLE_SESSION_BUILD_H

#include "actors/session/core/build_node.h"
#include "kernels/exec/kernel.h"

/* Calls any op. source: type and layout of a source operator's result, or the target layout of to_global (type
 * NULL). */
struct build_source {
    const struct type *type;
    const struct layout *layout;
};
int build_call(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
               const struct attr *attr, const struct build_source *source, struct val **out);
/* Calls an op that is neither a source nor a move; attr holds all attributes. */
int build_written(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
                  const struct attr *attr, struct val **out);
struct val *build_number(struct rille_session *s, bool is_int, double f, int64_t i);
/* Returns v in that dtype: v itself if it already has the dtype. */
int build_cast(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out);
/* Casts like build_cast. If v is a view of all of a value, casts that value and returns the same view of the cast.
 * So a weight and its gradient keep the weight's own layout, and the weight is cast once, even if readers transpose
 * it. */
int build_cast_below(const struct call_context *ctx, struct val *v, enum dtype d, struct val **out);
int build_to_global(const struct call_context *ctx, struct val *v, const struct layout *l, struct val **out);

/* The interface with which kernels build gradients and composites. */
struct builder {
    struct build base;
    const struct call_context *ctx; /* must outlive the builder */
};
struct builder builder_of(const struct call_context *ctx);

#endif
