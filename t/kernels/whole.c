/* whole.c - compares element-wise operators of integers with their references, computed in 64 bits and truncated to
 * the result's dtype. Tries every operator of tile.c with every pair of integer dtypes, at the limits of their
 * ranges, with tensors and with scalars that the dtype cannot hold. */
#include "kernels/exec/kernel.h"
#include "kernels/op/lib/table.h"
#include "kernels/cpu/eltwise/tile.h"
#include "runtime/base/arena.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "sbp/rule.h"
#include "t/lib/tap.h"

enum { N = 333, MOST = 3 };
static const enum dtype dtypes[] = {DT_BOOL, DT_U8, DT_I32, DT_I64};
static const int64_t values[] = {0,         1,         -1,        2,         -3,
                                 127,       128,       255,       256,       46341,
                                 -46341,    65536,     INT32_MAX, INT32_MIN, INT32_MAX - 1,
                                 1LL << 31, 1LL << 32, INT64_MIN, INT64_MAX, 0x123456789abcdef};
static const int64_t numbers[] = {0, 1, -1, 7, 300, INT32_MIN, 1LL << 31, (1LL << 32) + 5, -(1LL << 40)};
enum { NVALUE = countof(values), NNUMBER = countof(numbers), NDT = countof(dtypes) };

static int64_t memory[MOST][N], result[N + 1];

/* Fills operand k with values of dtype d, or with a number. Values repeat in cycles of coprime lengths, so that all
 * pairs of values occur. */
static struct type
operand(int k, enum dtype d, const int64_t *number)
{
    for (int i = 0; i < N; i++) {
        int64_t v = values[(i / (k == 1 ? NVALUE - 1 : 1) + k) % NVALUE];
        elem_set_i(number ? DT_I64 : d, memory[k], i, number ? *number : v);
    }
    if (number) return (struct type){.dtype = DT_I64, .weak = 1};
    return type_of(d, 1, (int64_t[]){N});
}

static bool
same(const struct call *c, const void *got)
{
    enum dtype to = (enum dtype)c->out[0].dtype;
    for (int i = 0; i < N; i++) {
        int64_t x[MOST], want;
        for (int k = 0; k < c->nin; k++)
            x[k] = elem_get_i((enum dtype)c->in[k].dtype, memory[k], c->in[k].weak ? 0 : i);
        elem_set_i(to, &want, 0, c->op->eltwise.i(c, x));
        if (elem_get_i(to, got, i) == elem_get_i(to, &want, 0)) continue;
        diag("%s: element %d is %lld, not %lld", c->op->name, i, (long long)elem_get_i(to, got, i),
             (long long)elem_get_i(to, &want, 0));
        return false;
    }
    return true;
}

/* Checks a call. Returns 1 if the result is right, 0 if wrong, -1 if the operator does not accept the operands. */
static int
try_call(const struct op *op, struct type *in)
{
    struct arena a = {0};
    struct type out[1];
    struct view view[MOST + 1];
    void *data[MOST + 1];
    struct attr *attr = ARENA_ARRAY(&a, struct attr, OP_ATTR);
    op_attr_defaults(op, attr);
    struct call c = {.op = op, .nin = op_noperand(op), .nout = 1, .in = in, .out = out, .attr = attr};
    struct rule rule;
    int good = -1;
    if (!call_infer(&a, &c, &rule) && !dtype_is_float((enum dtype)out[0].dtype)) {
        for (int k = 0; k <= c.nin; k++) {
            view[k] = view_dense(k < c.nin ? &in[k] : out, NULL);
            data[k] = k < c.nin ? memory[k] : result;
        }
        struct kcall k = {.call = &c, .in = view, .out = view + c.nin, .threads = 1};
        struct exec *e;
        good = !exec_new(&k, DEV_CPU, &e);
        if (good) {
            char *scratch = aligned_alloc(64, (exec_scratch(e) + 127) / 64 * 64);
            good = !exec_run(e, data, data + c.nin, scratch, 0) && same(&c, result);
            free(scratch);
            exec_free(&e);
        }
    }
    arena_fini(&a);
    return good;
}

static void
try_op(const struct op *op)
{
    int tried = 0, wrong = 0, nin = op_noperand(op);
    for (int form = 0; form < (nin == 1 ? 1 : NDT + NNUMBER); form++)
        for (int d = 0; d < NDT; d++)
            for (int swapped = 0; swapped < (nin == 1 ? 1 : 2); swapped++) {
                struct type in[MOST];
                const int64_t *number = form < NDT ? NULL : &numbers[form - NDT];
                for (int k = 0; k < nin; k++) {
                    bool other = nin > 1 && k == nin - 1 - swapped;
                    enum dtype own = k == 0 && nin == 3 ? DT_BOOL : dtypes[d];
                    in[k] = operand(k, other && !number ? dtypes[form] : own, other ? number : NULL);
                }
                int good = try_call(op, in);
                tried += good >= 0;
                wrong += good == 0;
                if (good == 0) diag("%s, way %d, turned %d", dtype_text(dtypes[d]), form, swapped);
            }
    ok(wrong == 0 && tried > 0, "%s of integers is right in %d calls", op->name, tried);
}

int
main(void)
{
    for (int i = 0; i < op_count; i++)
        if (op_table[i]->eltwise.tile != TILE_NONE && op_table[i]->eltwise.i) try_op(op_table[i]);
    return done();
}
