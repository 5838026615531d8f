/* label_count.c - the number of labels that are not ignored, over all ranks; a mean loss divides by it. */
#include "kernels/op/base/op_impl.h"

enum { IGNORE };

static int
rule(const struct call *c, struct str *rule)
{
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "->");
    return 0;
}

static int
ref(const struct kcall *k)
{
    int64_t n = view_numel(&k->in[0]), count = 0;
    for (int64_t i = 0; i < n; i++) count += i64_of(&k->in[0])[i] != k->call->attr[IGNORE].i;
    i64_of(&k->out[0])[0] = count;
    return 0;
}

static const char line[] = BODY({
    const int64_t count =
        fold<sums>((int64_t)0, [&](element i) { return (int64_t)(x0(i) != c->attr[IGNORE_INDEX].i); });
    once([&] { y0(0, count); });
});

const struct op op_label_count = {
    .name = "label_count",
    .doc = "number of labels that are not ignore_index",
    .in = {{"labels", IN_INDEX}},
    .attr = {[IGNORE] = {"ignore_index", ATTR_INT, .i = -100, .doc = "label to ignore"}},
    .shape.make_rule = rule,
    .shape.dtype = OUT_I64,
    .partial.reduce = RED_SUM,
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = all_dims,
    .flags = OP_HIDDEN,
    .sample = {"i64{7}<3 ignore_index=1", "i32{2,5}<9", "i64{}<3"},
};
