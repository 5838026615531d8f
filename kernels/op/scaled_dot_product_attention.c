/* scaled_dot_product_attention.c - softmax(scale q k^T + mask) v. The call becomes one operator, or two products with a
 * softmax between them.
 *
 * Both forms support splits of the batch, of the heads and of the queries. */
#include "kernels/op/attention.h"

#include "kernels/cpu/gemm/gemm_few.h"
#include "runtime/device/device.h"

#include <math.h>
#include <string.h>

extern const struct op op_attention;

enum { CAUSAL, SCALE, WINDOW, SOFTCAP };

/* Returns true if the call is faster by parts (two products and a softmax). This is so for fewer than FEW queries,
 * because packing keys and values into blocks then takes longer than it saves. At most GEMM_FEW queries are an
 * exception, because the single operator has a special kernel for them. Times in us on one core for rows of 64
 * elements. The columns are: forward as one operator, forward by parts, forward and backward as one operator,
 * forward and backward by parts.
 *
 *   256 heads, 16 x 16, f32    540  480 1,260   880
 *
 * The next table has the same columns for three dtypes, on one core of a Zen 4. A causal mask halves the work of the
 * single operator, but not that of the parts.
 *
 *                              f32                       bf16                      f16
 *   48 heads, 32 x 32     157  198   522   485     92  140   319   341    172  251   575   694
 *     causal              135  194   447   485     85  139   289   341    150  250   500   691
 *   48 heads, 33 x 33     206  256   674   667    125  175   413   441    222  315   724   872
 *     causal              185  250   592   658    116  168   381   430    201  307   638   864
 *   24 heads, 48 x 48     164  194   545   494     94  135   318   338    176  240   584   676
 *     causal              129  189   424   489     79  130   266   333    141  234   460   672
 *   24 heads, 64 x 64     276  301   924   817    153  197   530   522    294  414   975 1,191
 *     causal              204  312   672   828    121  209   415   532    221  427   722 1,200
 *   24 heads, 96 x 96     614  669 2,061 1,806    339  435 1,155 1,119    636  842 2,151 2,345
 *     causal              406  652 1,347 1,770    237  417   797 1,094    428  827 1,422 2,324
 *   12 heads, 127 x 127   521  628 1,757 1,650    287  417   977 1,028    537  765 1,809 2,094
 *     causal              330  575 1,101 1,600    191  363   645   971    348  713 1,146 2,030
 *
 * For the gradient, the parts keep the weights. The single operator recomputes them, which costs one product of
 * seven, and the exponentials. So the parts are faster for f32 without a causal mask below 128 queries. The single
 * operator is used nevertheless, because it keeps one number per query instead of all weights, and returns the same
 * bits with and without a gradient. */
static bool
is_short(const struct call *c)
{
    enum { FEW = 32 };
    int64_t n = c->in[ATT_Q].dim[c->in[ATT_Q].ndim - 2];
    return n > GEMM_FEW && n < FEW;
}

static int64_t
score_count(const struct call *c)
{
    const struct type *q = &c->in[ATT_Q], *k = &c->in[ATT_K], *v = &c->in[ATT_V];
    int last = q->ndim - 1;
    int64_t n = q->dim[last - 1] * k->dim[last - 1];
    for (int i = 0; i < last - 1; i++) n *= MAX(MAX(q->dim[i], k->dim[i]), v->dim[i]);
    return n;
}

/* Returns true for f64 if there are few scores and no mask removes many of them. The parts use blocked matrix
 * products, but the single operator's kernel for f64 does not. 24 heads of 128 x 128 on one core, ms:
 *
 *                      by parts   one operator
 *                           2.0            6.6
 *     causal mask           2.2            3.4 */
static bool
is_small_f64(const struct call *c, enum dtype d)
{
    return d == DT_F64 && !attention_has_options(c, ATT_MASK) && score_count(c) <= 1 << 22;
}

static bool
compiles(const struct call *c)
{
    const struct layout *l = c->layout ? c->layout[ATT_Q] : NULL;
    return l && device_kind(l->place->kind)->flags & COMPILES;
}

/* Returns true if the single operator would be slow on a GPU and there are at most `room` scores. The GPU
 * multiplies short rows of 16-bit floats with matrix instructions; other rows element by element, which is slow
 * but needs no memory for the scores. */
static bool
is_slow_whole(const struct call *c, enum dtype d)
{
    enum { ROW = 128 };
    const int64_t room = 1 << 28; /* largest number of scores that may be stored in memory */
    const struct type *q = &c->in[ATT_Q], *v = &c->in[ATT_V];
    int last = q->ndim - 1;
    bool matrices = dtype_is_half(d) && !attention_has_options(c, ATT_MASK);
    if (matrices && q->dim[last] <= ROW && v->dim[last] <= ROW) return false;
    return score_count(c) <= room;
}

/* Sets the attributes of operator attention from the attributes of the call. */
static int
set_attributes(const struct call *c, struct attr *attr)
{
    const int64_t most = (int64_t)1 << 40; /* more keys than any tensor can have */
    int n = c->in[ATT_Q].ndim;
    int64_t window[2];
    double scale = c->attr[SCALE].set ? c->attr[SCALE].f : 1 / sqrt((double)c->in[ATT_Q].dim[n - 1]);
    if (c->attr[WINDOW].n && c->attr[WINDOW].n != 2)
        return call_fail(E_ATTR, c, "window must be {left, right}, found %d numbers", c->attr[WINDOW].n);
    if (c->attr[SOFTCAP].set && !(c->attr[SOFTCAP].f > 0 && c->attr[SOFTCAP].f < INFINITY))
        return call_fail(E_ATTR, c, "softcap must be greater than 0, found %g", c->attr[SOFTCAP].f);
    op_attr_defaults(&op_attention, attr);
    attr_float(&op_attention, attr, "scale", scale);
    attr_int(&op_attention, attr, "is_causal", c->attr[CAUSAL].i);
    for (int i = 0; i < c->attr[WINDOW].n; i++) window[i] = MIN(c->attr[WINDOW].list[i], most);
    if (c->attr[WINDOW].n) attr_ints(&op_attention, attr, "window", 2, window);
    if (c->attr[SOFTCAP].set) attr_float(&op_attention, attr, "softcap", c->attr[SOFTCAP].f);
    return 0;
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    struct attr attr[OP_ATTR];
    struct type type[ATT_SPANS + 1] = {0};
    TRY(set_attributes(c, attr));
    struct call own = {.op = c->op, .nin = ATT_SPANS + 1, .in = type, .attr = attr, .layout = c->layout};
    memcpy(type, c->in, sizeof *type * (size_t)c->nin);
    TRY(attention_infer(&own, NULL));
    enum dtype d = c->in[ATT_Q].dtype;
    for (int i = ATT_K; i <= ATT_V; i++) d = dtype_promote(d, false, c->in[i].dtype, false);
    struct val *cast[ATT_SPANS + 1] = {NULL};
    for (int i = 0; i < c->nin; i++) cast[i] = i <= ATT_V ? b_cast(b, in[i], d) : in[i];
    bool parts = compiles(c) ? is_slow_whole(&own, d) : is_short(c) || is_small_f64(&own, d);
    out[0] = b->failed ? NULL
             : parts   ? b_attention_parts(b, cast, attr)
                       : b_call(b, &op_attention, countof(cast), cast, attr);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .doc = "softmax(q k^T scale + mask) v; a bool mask keeps keys where it is true, other masks are added; a query "
           "without keys gives 0",
    .result = "a tensor (batch, heads, queries, size of v), of the dtype promoted from q, k and v",
    .errors = "q, k and v must be (.., queries, size), (.., keys, size) and (.., keys, size of v)\n"
              "q, k and v must have equally many dimensions, and those before the last two must broadcast\n"
              "mask must broadcast to (.., queries, keys), sinks to (..) and spans to (.., queries, 2)\n"
              "window must be {left, right}, and softcap must be greater than 0",
    .source = "Vaswani et al. 2017",
    .in = {{"q", IN_FLOAT},
           {"k", IN_FLOAT},
           {"v", IN_FLOAT},
           {"mask", IN_OPTIONAL},
           {"sinks", IN_OPTIONAL | IN_FLOAT},
           {"spans", IN_OPTIONAL}},
    .attr = {[CAUSAL] = {"is_causal", ATTR_BOOL, .doc = "query i attends to keys 0..i"},
             [SCALE] = {"scale", ATTR_FLOAT, ATTR_ABSENT, .doc = "factor of the products; default: 1 / sqrt(size)"},
             [WINDOW] = {"window", ATTR_INTS, ATTR_ABSENT,
                         .doc = "{left, right}: query i attends to keys i - left..i + right; -1: no limit"},
             [SOFTCAP] = {"softcap", ATTR_FLOAT, ATTR_ABSENT, .doc = "scores s become softcap tanh(s / softcap)"}},
    .build = build,
    .flags = OP_NARROW,
    .sample = {"f32{2,3,4,5} f32{2,3,4,5} f32{2,3,4,5} is_causal=true",
               "f32{1,2,3,4} f32{1,2,5,4} f32{1,2,5,6} bool{3,5}",
               "f32{2,4,3} f32{2,4,3} f32{2,4,3} f32{2,1,4} scale=0.5",
               "f32{2,3,4,5} f32{2,3,4,5} f32{2,3,4,5} - f32{3} i64{2,1,4,2}<5 window=2,1 softcap=2"},
};
