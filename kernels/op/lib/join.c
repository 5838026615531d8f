/* join.c - joins values along an axis, in gradients and composites. */
#include "kernels/op/lib/join.h"

#include "kernels/op/base/op_impl.h"

extern const struct op op_concat;

struct val *
b_join(struct build *b, int64_t axis, int32_t n, struct val **x)
{
    enum { MOST = 32 };
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_concat, attr);
    attr_int(&op_concat, attr, "axis", axis);
    while (n > 1) {
        for (int32_t i = 0; i < n; i++)
            if (!x[i]) return NULL; /* an earlier call has failed */
        int32_t left = 0;
        for (int32_t i = 0; i < n; i += MOST)
            x[left++] = n - i == 1 ? x[i] : b_call(b, &op_concat, MIN(MOST, n - i), x + i, attr);
        n = left;
    }
    return x[0];
}
