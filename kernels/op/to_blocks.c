/* to_blocks.c - quantises values to blocks: x (..., k) -> u8 (..., blocks, bytes of a block).
 *
 * A block of 32 values is an f16 scale d, then 32 integers q of 8 bits (Q8_0) or of 4 bits (Q4_0: q + 8); each
 * stands for the value d q. The error is at most d / 2. In Q4_0, d is an eighth of the value with the largest
 * magnitude, and the error is up to d at the end of the range. */
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/layers/blocks.h"
#include "kernels/op/base/op_impl.h"
#include "runtime/tensor/half.h"

#include <math.h>

enum { KIND };
enum { SIZE = 32 };

static int
rule(const struct call *c, struct str *rule)
{
    int batch = c->in[0].ndim - 1;
    for (int d = 0; d < batch; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "(Z[K])->");
    for (int d = 0; d < batch; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "Z[B]");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    const struct type *x = &c->in[0];
    if (x->ndim == 0 || x->ndim == MAX_DIM || x->dim[x->ndim - 1] % SIZE)
        return call_fail(E_SHAPE, c, "the last dimension of x must be a multiple of %d, the elements of a block", SIZE);
    size[0] = x->dim[x->ndim - 1] / SIZE;
    size[1] = blocks_coding(c)->bytes;
    c->out[0].dtype = DT_U8;
    return 0;
}

/* Returns the element with the largest absolute value, with its sign. */
static double
largest_of(const double *x)
{
    double most = 0;
    for (int i = 0; i < SIZE; i++)
        if (fabs(x[i]) > fabs(most)) most = x[i];
    return most;
}

/* Quantises SIZE values into one block (Q4_0 or Q8_0). */
static void
round_to_block(const double *x, bool four, uint8_t *out)
{
    double most = largest_of(x);
    uint16_t half = to_f16((float)(four ? most / -8 : fabs(most) / 127));
    double d = (double)from_f16(half);
    memcpy(out, &half, sizeof half);
    if (four) memset(out + 2, 0, SIZE / 2);
    for (int i = 0; i < SIZE; i++) {
        double q = d != 0 ? x[i] / d : 0; /* if q is NaN, fmax returns the lower bound */
        if (four)
            out[2 + i % 16] |= (uint8_t)((int)fmin(fmax(floor(q + 8.5), 0), 15) << (i / 16 * 4));
        else
            out[2 + i] = (uint8_t)(int8_t)fmin(fmax(nearbyint(q), -127), 127);
    }
}

static int
ref(const struct kcall *k)
{
    const struct coding *c = blocks_coding(k->call);
    for (int64_t b = 0; b < view_numel(&k->in[0]) / SIZE; b++) {
        uint8_t bytes[2 + SIZE];
        round_to_block(f64_of(&k->in[0]) + b * SIZE, c->bytes < SIZE, bytes);
        for (int i = 0; i < c->bytes; i++) i64_of(&k->out[0])[b * c->bytes + i] = bytes[i];
    }
    return 0;
}

/* ---- variant: f32, bf16, f16 ---- */

/* Returns element i of a dense view of one of the dtypes of the variant. */
static double
element(const struct view *v, int64_t i)
{
    if (v->dtype == DT_F32) return (double)((const float *)v->data)[i];
    uint16_t half = ((const uint16_t *)v->data)[i];
    return (double)(v->dtype == DT_BF16 ? from_bf16(half) : from_f16(half));
}

static void
round_range(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    const struct coding *c = blocks_coding(k->call);
    for (int64_t b = lo; b < hi; b++) {
        double x[SIZE];
        for (int i = 0; i < SIZE; i++) x[i] = element(&k->in[0], b * SIZE + i);
        round_to_block(x, c->bytes < SIZE, (uint8_t *)k->out[0].data + b * c->bytes);
    }
}

static bool
accepts(const struct kcall *k)
{
    enum dtype dt = k->in[0].dtype;
    return (dt == DT_F32 || dt == DT_BF16 || dt == DT_F16) && dense_out(k);
}

static int
run(const struct kcall *k, const void *state)
{
    enum { WORTH = 256 }; /* minimum number of blocks per thread */
    UNUSED(state);
    team_run(k->threads, view_numel(&k->in[0]) / SIZE, WORTH, round_range, (void *)(uintptr_t)k);
    return 0;
}

static const struct kernel_variant variants[] = {
    {"floats", .dense_in = true, .accepts = accepts, .run = run},
    {NULL},
};

const struct op op_to_blocks = {
    .name = "to_blocks",
    .doc = "x[..., k] rounded to blocks of 32 with a scale each, as u8; from_blocks reverses it",
    .result = "a tensor (..., blocks, bytes of a block) of dtype u8",
    .errors = "the last dimension of x must be a multiple of 32",
    .source = "GGUF",
    .in = {{"x", IN_FLOAT}},
    .attr = {[KIND] = {"kind", ATTR_TEXT, .text = "Q8_0|Q4_0", .doc = "quantised type of the result"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .grad.build = b_zero_grad,
    .host.ref = ref,
    .host.kernel = variants,
    .flags = OP_UNPLACED,
    .sample = {"f32{3,64}", "f32{2,2,32} kind=Q4_0", "bf16{96}", "f16{2,64} kind=Q4_0"},
};
