/* topk.c - the k greatest (or least) values along an axis, best first, and their positions.
 *
 * NaN counts as the greatest value; equal values keep their order. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/team.h"
#include "runtime/base/simd.h"

#include <string.h>

extern const struct op op_gather_grad;

enum { K, AXIS, LARGEST, SORTED };

static int
rule(const struct call *c, struct str *rule)
{
    struct str y = {0};
    for (int d = 0; d < c->in[0].ndim; d++) {
        bool axis = d == c->attr[AXIS].i;
        str_addf(rule, axis ? "[%c]" : "%c", letter(d));
        str_addf(&y, axis ? "[%c]" : "%c", axis ? 'K' : letter(d));
    }
    str_addf(rule, "->%s,%s", str_text(&y), str_text(&y));
    str_free(&y);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    if (c->in[0].ndim == 0) return call_fail(E_SHAPE, c, "x must have at least 1 dimension");
    int64_t k = c->attr[K].i, n = c->in[0].dim[c->attr[AXIS].i];
    if (k < 0 || k > n) return call_fail(E_ATTR, c, "k must be from 0 to %lld, found %lld", (long long)n, (long long)k);
    size[0] = k;
    c->out[1].dtype = DT_I64;
    return 0;
}

/* Returns true if element i ranks before element j. */
static bool
before(const struct view *x, int64_t i, int64_t j, bool largest)
{
    if (!is_real(x)) {
        int64_t a = i64_of(x)[i], b = i64_of(x)[j];
        return largest ? a > b : a < b;
    }
    double a = f64_of(x)[i], b = f64_of(x)[j];
    bool greater = a > b || (a != a && b == b), less = a < b || (b != b && a == a);
    return largest ? greater : less;
}

/* The reference: keeps the positions of the best k elements so far in order, and inserts every element at its rank. */
static int
ref(const struct kcall *k)
{
    const struct attr *attr = k->call->attr;
    const struct view *x = &k->in[0], *value = &k->out[0];
    struct lines l = lines_of(x, (int)attr[AXIS].i);
    int64_t n = attr[K].i;
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t from = r / l.inner * l.size * l.inner + r % l.inner, to = r / l.inner * n * l.inner + r % l.inner;
        int64_t *at = i64_of(&k->out[1]) + to, have = 0;
        for (int64_t i = 0; i < l.size; i++) {
            int64_t p = have;
            while (p > 0 && before(x, from + i * l.inner, from + at[(p - 1) * l.inner] * l.inner, attr[LARGEST].i)) p--;
            if (p == n) continue;
            have = MIN(have + 1, n);
            for (int64_t q = have - 1; q > p; q--) at[q * l.inner] = at[(q - 1) * l.inner];
            at[p * l.inner] = i;
        }
        for (int64_t p = 0; p < n; p++) {
            if (is_real(x))
                f64_of(value)[to + p * l.inner] = f64_of(x)[from + at[p * l.inner] * l.inner];
            else
                i64_of(value)[to + p * l.inner] = i64_of(x)[from + at[p * l.inner] * l.inner];
        }
    }
    return 0;
}

/* ---- variant: a heap of the best k entries so far, with the worst on top ---- */

/* One element in the heap. The element with the larger key ranks first; of elements with equal keys, that with the
 * lower position. */
struct entry {
    uint64_t key;
    int64_t at;
};

INLINE uint64_t
key_of_real(double x)
{
    uint64_t u = bits_of_double(x == 0 ? 0 : x); /* makes -0 and 0 equal */
    return x != x ? UINT64_MAX : u >> 63 ? ~u : u | (uint64_t)1 << 63;
}

static bool
stands_before(struct entry a, struct entry b)
{
    return a.key > b.key || (a.key == b.key && a.at < b.at);
}

/* Moves entry e down from index i to its place in a heap of n entries. */
static void
sink(struct entry *heap, int64_t n, int64_t i, struct entry e)
{
    for (int64_t below = 2 * i + 1; below < n; below = 2 * i + 1) {
        if (below + 1 < n && stands_before(heap[below], heap[below + 1])) below++;
        if (!stands_before(e, heap[below])) break;
        heap[i] = heap[below];
        i = below;
    }
    heap[i] = e;
}

static void
make_heap(struct entry *heap, int64_t n)
{
    for (int64_t p = n / 2, since = 0; p-- > 0 && !stop_after(&since, 64);) sink(heap, n, p, heap[p]);
}

/* Sorts the heap, best entry first: repeatedly moves the top, which is the worst, after the remaining entries. */
static void
in_order(struct entry *heap, int64_t n)
{
    for (int64_t i = n - 1, since = 0; i > 0 && !stop_after(&since, 64); i--) {
        struct entry last = heap[i];
        heap[i] = heap[0];
        sink(heap, i, 0, last);
    }
}

/* Adds entry e to the heap of a line's best n entries, unless all n are better than e. *have: number of entries so far.
 */
static void
let_in(struct entry *heap, int64_t n, int64_t *have, struct entry e)
{
    if (*have == n) {
        if (stands_before(e, heap[0])) sink(heap, n, 0, e);
        return;
    }
    heap[(*have)++] = e;
    if (*have == n) make_heap(heap, n);
}

struct work {
    const struct kcall *k;
    struct lines l;
    int64_t n; /* number of entries kept per line */
};
enum { BLOCK = 256, GROUP = 32 };

/* Converts the bits of n doubles to keys, in place. flip: ~0 if the least value ranks first, 0 if the greatest does. */
VECTOR static void
real_keys(int64_t n, uint64_t flip, uint64_t *key)
{
    for (int64_t i = 0; i < n; i++) key[i] = key_of_real(double_of(key[i])) ^ flip;
}

VECTOR static void
integer_keys(int64_t n, uint64_t flip, uint64_t *key)
{
    for (int64_t i = 0; i < n; i++) key[i] = key[i] ^ (uint64_t)1 << 63 ^ flip;
}

/* Skips groups of keys without a key above `least`, the worst key of a full heap. Returns the index of the first
 * group that has such a key. */
VECTOR static int64_t
skip_least(int64_t i, int64_t n, const uint64_t *key, uint64_t least)
{
    for (; i + GROUP <= n; i += GROUP) {
        int64_t above = 0;
        for (int l = 0; l < GROUP; l++) above |= -(int64_t)(key[i + l] > least);
        if (above) break;
    }
    return i;
}

/* Computes the keys of n elements of a line, starting at element `first` of x. */
static void
keys(const struct work *w, int64_t first, int64_t n, uint64_t *key)
{
    const struct view *x = &w->k->in[0];
    enum dtype d = (enum dtype)x->dtype;
    uint64_t flip = w->k->call->attr[LARGEST].i ? 0 : UINT64_MAX;
    const char *from = (const char *)x->data + first * (int64_t)dtype_bytes(d);
    block_load(dtype_is_float(d) ? COMP_F64 : COMP_I64, d, from, w->l.inner, n, key);
    if (dtype_is_float(d))
        real_keys(n, flip, key);
    else
        integer_keys(n, flip, key);
}

/* Adds each of n keys of a line to the line's heap, if the key is among the best so far. from: position of the first
 * key in the line. */
static void
let_all_in(const struct work *w, const uint64_t *key, int64_t from, int64_t n, struct entry *heap, int64_t *have)
{
    for (int64_t i = 0; i < n; i++) {
        if (*have == w->n && n - i >= GROUP && (i = skip_least(i, n, key, heap[0].key)) == n) break;
        let_in(heap, w->n, have, (struct entry){key[i], from + i});
    }
}

/* Writes result `to`: the value of element `from` of x, and the position `at` in its line. */
static void
put(const struct work *w, int64_t to, int64_t from, int64_t at)
{
    const struct view *x = &w->k->in[0];
    size_t bytes = dtype_bytes((enum dtype)x->dtype);
    ((int64_t *)w->k->out[1].data)[to] = at;
    memcpy((char *)w->k->out[0].data + (size_t)to * bytes, (const char *)x->data + (size_t)from * bytes, bytes);
}

/* Writes all results of line r, whose first element in x is `first`. */
static void
give(const struct work *w, int64_t r, int64_t first, struct entry *heap, int64_t have)
{
    int64_t inner = w->l.inner, to = r / inner * w->n * inner + r % inner;
    in_order(heap, have);
    for (int64_t p = 0; p < have; p++, to += inner) put(w, to, first + heap[p].at * inner, heap[p].at);
}

static void
one_line(const struct work *w, int64_t r, struct entry *heap)
{
    int64_t first = r / w->l.inner * w->l.size * w->l.inner + r % w->l.inner, have = 0;
    uint64_t key[BLOCK];
    for (int64_t from = 0, since = 0; from < w->l.size && !stop_after(&since, BLOCK * 64); from += BLOCK) {
        int64_t n = MIN(w->l.size - from, BLOCK);
        keys(w, first + from * w->l.inner, n, key);
        let_all_in(w, key, from, n, heap, &have);
    }
    give(w, r, first, heap, have);
}

/* A double that holds a float does not use its last 29 bits. A key stores the element's position in these bits, so
 * that one integer comparison orders by value and then by position; an earlier position makes a greater key.
 * few_best() updates the best keys by minimum and maximum, without branches, because branches would be
 * mispredicted. */
enum { FEW = 8, FLOAT_REST = (1 << 29) - 1 };
INLINE void
few_best(const uint64_t *key, int64_t size, int64_t n, uint64_t *best)
{
    for (int64_t p = 0; p < n; p++) best[p] = 0;
    for (int64_t i = 0; i < size; i++) {
        uint64_t e = (key[i] & ~(uint64_t)FLOAT_REST) | (uint64_t)(FLOAT_REST - i);
        for (int64_t p = 0; p < n; p++) {
            uint64_t greater = best[p] > e ? best[p] : e, less = best[p] > e ? e : best[p];
            best[p] = greater;
            e = less;
        }
    }
}

static void
short_line(const struct work *w, const uint64_t *key, int64_t r)
{
    int64_t size = w->l.size, n = w->n;
    uint64_t best[FEW];
    if (n == 1)
        few_best(key, size, 1, best);
    else if (n == 2)
        few_best(key, size, 2, best);
    else
        few_best(key, size, n, best);
    for (int64_t p = 0; p < n; p++) {
        int64_t at = FLOAT_REST - (int64_t)(best[p] & FLOAT_REST);
        put(w, r * n + p, r * size + at, at);
    }
}

/* Computes short contiguous lines lo .. hi - 1, loading the keys of several lines at once. Selecting the best 2 of
 * 8 bf16 in 512 lines takes 12 us on one core of an EPYC (Zen 4); with a heap 25 us; one line at a time 33 us. */
static void
short_lines(const struct work *w, int64_t lo, int64_t hi, struct entry *heap)
{
    int64_t size = w->l.size, some = BLOCK / size;
    enum dtype d = (enum dtype)w->k->in[0].dtype;
    bool few = w->n <= FEW && (d == DT_F32 || dtype_is_half(d));
    uint64_t key[BLOCK];
    for (int64_t r = lo, since = 0; r < hi; r++) {
        int64_t nth = (r - lo) % some, have = 0;
        if (nth == 0) {
            if (stop_after(&since, BLOCK * 64)) return;
            keys(w, r * size, MIN(some, hi - r) * size, key);
        }
        if (few) {
            short_line(w, key + nth * size, r);
            continue;
        }
        let_all_in(w, key + nth * size, 0, size, heap, &have);
        give(w, r, r * size, heap, have);
    }
}

static void
some_lines(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    struct entry *heap = (struct entry *)w->k->scratch + share * w->n;
    if (w->l.inner == 1 && w->l.size <= BLOCK / 2)
        short_lines(w, lo, hi, heap);
    else
        for (int64_t r = lo; r < hi; r++) one_line(w, r, heap);
}

static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    *scratch_bytes = (size_t)k->call->attr[K].i * sizeof(struct entry) * (size_t)k->threads;
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct work w = {k, lines_of(&k->in[0], (int)k->call->attr[AXIS].i), k->call->attr[K].i};
    if (w.n == 0) return 0;
    team_shares(k->threads, w.l.outer * w.l.inner, 1 + 8192 / MAX(w.l.size, 1), some_lines, &w);
    return 0;
}

static const struct kernel_variant variants[] = {
    {"heap", .dense_in = true, .accepts = dense_out, .prepare = prepare, .run = run}, {NULL}};

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0) || !dout[0]) return;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_gather_grad, attr);
    attr_int(&op_gather_grad, attr, "axis", n->attr[AXIS].i);
    din[0] = b_call(b, &op_gather_grad, 3, (struct val *[]){n->in[0], n->out[1], dout[0]}, attr);
}

static double
flops(const struct call *c)
{
    return (double)type_numel(&c->in[0]);
}

/* GPU kernel: repeatedly selects the best element that ranks after the previously selected one. Of equal elements
 * the first is selected. */
static const char line[] = BODY({
    const auto key = [&](int64_t i) { return c->attr[LARGEST].i ? order_of(x0(i)) : ~order_of(x0(i)); };
    int64_t worst = INT64_MAX, before = -1;
    for (int64_t p = 0; p < c->attr[K].i; p++) {
        const auto left = [&](int64_t i) { return key(i) < worst || (key(i) == worst && i > before); };
        const int64_t best =
            fold<greatest>((int64_t)INT64_MIN, [&](int64_t i) { return left(i) ? key(i) : INT64_MIN; });
        const int64_t first =
            fold<least>((int64_t)INT64_MAX, [&](int64_t i) { return left(i) && key(i) == best ? i : INT64_MAX; });
        once([&] {
            y0(p, x0(first));
            y1(p, first);
        });
        worst = best;
        before = first;
    }
});

const struct op op_topk = {
    .name = "topk",
    .doc = "the k largest values along axis, largest first, and their positions",
    .result = "two tensors of x's shape with size k along axis: values of x's dtype, and positions of dtype i64",
    .errors = "x must have at least 1 dimension; k must be from 0 to its size along axis",
    .in = {{"x"}},
    .nout = 2,
    .attr = {[K] = {"k", ATTR_INT, ATTR_REQUIRED, .doc = "number of values"},
             [AXIS] = {"axis", ATTR_INT, ATTR_AXIS, .i = -1, .doc = "dimension to search"},
             [LARGEST] = {"largest", ATTR_BOOL, .i = 1, .doc = "false: the k smallest values"},
             [SORTED] = {"sorted", ATTR_BOOL, .i = 1, .doc = "no effect: results are always sorted"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .grad.build = grad,
    .grad.saves = "0b",
    .host.ref = ref,
    .gpu.line = line,
    .host.kernel = variants,
    .flops = flops,
    .sample = {"f32{4,6} k=2", "f32{5,3} k=3 axis=0", "i64{7} k=7 largest=false", "f32{3} k=0",
               "f16{2,300,3} k=40 axis=1", "f64{2,300} k=300 largest=false"},
};
