/* one_hot.c - 1 at each id, 0 elsewhere, along a new last dimension of n. */
#include "kernels/op/lookup.h"

#include <string.h>

enum { N };

static int
rule(const struct call *c, struct str *rule)
{
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "[N]");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    TRY(infer_one_more(c, size));
    size[0] = c->attr[N].i;
    if (size[0] < 0) return call_fail(E_ATTR, c, "n must not be negative, found %lld", (long long)size[0]);
    return 0;
}

static int
ref(const struct kcall *k)
{
    static const struct lookup_words words = {"one_hot", "id", "in a range of ", ""};
    int64_t n = k->call->attr[N].i, count = view_numel(&k->in[0]);
    TRY(lookup_check(k, 0, n, NULL, &words));
    int64_t *y = i64_of(&k->out[0]);
    memset(y, 0, (size_t)(count * n) * sizeof *y);
    for (int64_t i = 0; i < count; i++) y[i * n + i64_of(&k->in[0])[i]] = 1;
    return 0;
}

const struct op op_one_hot = {
    .name = "one_hot",
    .doc = "y[..., v] = 1 where ids[...] = v, else 0",
    .in = {{"ids", IN_INDEX}},
    .attr = {[N] = {"n", ATTR_INT, ATTR_REQUIRED, .doc = "size of the new dimension"}},
    .make_rule = rule,
    .infer = infer,
    .dtype = OUT_I64,
    .ref = ref,
    .flags = OP_CHECKS,
    .sample = {"i64{5}<7 n=7", "i32{2,3}<4 n=5", "i64{}<3 n=3"},
};
