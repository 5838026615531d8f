/* one_hot.c - encodes ids along a new last dimension of size n: 1 at the id, 0 elsewhere. This dimension may be
 * split: each rank computes a range. */
#include "kernels/op/lib/lookup.h"

#include <string.h>

enum { N };

static int
rule(const struct call *c, struct str *rule)
{
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "N+");
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
    const struct view *ids = &k->in[0], *y = &k->out[0];
    lookup_find(k);
    int64_t n = y->dim[y->ndim - 1], first = y->offset[y->ndim - 1], *row = y->data;
    view_clear(y);
    for (int64_t i = 0, since = 0; i < view_numel(ids) && !stop_after(&since, 64); i++, row += n) {
        int64_t here = lookup_here(elem_get_i(ids->dtype, ids->data, i), first, n);
        if (here >= 0) row[here] = 1;
    }
    return 0;
}

static int
say(const struct kcall *k, const struct finding *f)
{
    static const struct lookup_words words = {"one_hot", "id", "in a range of ", ""};
    return lookup_say(k, 0, k->call->attr[N].i, &words, f);
}

static const char element[] = BODY({ return x0(at) == place(NDIM - 1); });

static void
allows(const struct kcall *k, struct allowed *a)
{
    *a = (struct allowed){.operand = 0, .count = (uint64_t)k->call->attr[N].i};
}

const struct op op_one_hot = {
    .name = "one_hot",
    .doc = "y[..., v] = 1 where ids[...] = v, else 0",
    .result = "a tensor of ids' shape with one more dimension, of size n",
    .errors = "n must not be negative; an id must be from 0 to n - 1\n"
              "ids must have at most 7 dimensions",
    .in = {{"ids", IN_INDEX}},
    .attr = {[N] = {"n", ATTR_INT, ATTR_REQUIRED, .doc = "size of the new dimension"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_I64,
    .host.ref = ref,
    .gpu.element = element,
    .host.allows = allows,
    .host.say = say,
    .host.kernel = kernel_direct,
    .sample = {"i64{5}<7 n=7", "i32{2,3}<4 n=5", "i64{}<3 n=3"},
};
