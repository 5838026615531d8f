/* work.c - tests the estimates of a call's work (call_work), from which the planner computes prices.
 *
 * Every sample of every operator must have at most two operations per element read or written. Operators with more work
 * are in a table, with the operations counted by hand. */
#include "actors/plan/model/rates.h"
#include "actors/plan/outline/estimate.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

static const struct {
    const char *op, *sample;
    double flops;
} table[] = {
    {"matmul", "f32{4,6} f32{6,8}", 2 * 4 * 6 * 8},
    {"matmul", "f32{2,1,3,4} f32{3,4,2}", 2 * 2 * 3 * 3 * 4 * 2},
    {"contract", "f64{2,40,9} f64{2,40,20}", 2 * 2 * 40 * 9 * 20},
    {"linear_int8", "f32{3,70} u8{5,70} f32{5}", 2 * 3 * 70 * 5},
    {"linear_blocks", "f32{3,96} u8{5,3,34}", 2 * 3 * 96 * 5},
    /* each row is multiplied only by the weights of the experts chosen for the row */
    {"expert_blocks", "f32{1,5,1,64} u8{1,3,6,2,34}<60 i64{5,2}<3", 2 * 5 * 2 * 64 * 6},
    {"expert_matmul", "f32{1,5,1,4} f32{1,3,4,6} i64{5,2}<3", 2 * 5 * 2 * 4 * 6},
    {"expert_matmul_grad", "f32{1,5,1,4} f32{1,5,2,6} i64{5,2}<3 experts=3", 2 * 5 * 2 * 4 * 6},
    /* each time step multiplies the states by w */
    {"recurrence", "f32{4,3,8} f32{8,2} f32{4,2} f32{4,2}", 2 * (4 * 3) * (8 * 2)},
    {"recurrence_grad", "f32{4,3,2} - f32{4,3,2} f32{4,3,0} f32{4,3,0} f32{2,2} f32{4,2} cell=tanh",
     2 * (4 * 3) * (2 * 2)},
    /* each position multiplies the state by w, and computes two element-wise operators */
    {"scan", "f32{4,3} f32{5,4,3} f32{3,3} length=5 body=1,1,1:matmul(0,2);add(3,1);tanh(4)>5,5",
     5 * (2 * 4 * 3 * 3 + 2 * 2 * (4 * 3))},
    /* each entry of y sums 3 channels of windows of 3 x 2; in calls with groups, 2 channels of windows of 3 x 3 */
    {"conv2d", "f32{2,3,5,6} f32{4,3,3,2}", 2 * (2 * 4 * 3 * 5) * (3 * 3 * 2)},
    {"conv2d", "f32{2,4,6,5} f32{6,2,3,3} - padding=1 stride=2 groups=2", 2 * (2 * 6 * 3 * 3) * (2 * 3 * 3)},
    {"conv2d_grad_x", "f32{2,4,3,5} f32{4,3,3,2} size=5,6", 2 * (2 * 4 * 3 * 5) * (3 * 3 * 2)},
    {"conv2d_grad_x", "f32{2,6,3,3} f32{6,2,3,3} padding=1 stride=2 groups=2 size=6,5",
     2 * (2 * 6 * 3 * 3) * (2 * 3 * 3)},
    {"conv2d_grad_w", "f32{2,3,5,6} f32{2,4,3,5} size=3,2", 2 * (2 * 4 * 3 * 5) * (3 * 3 * 2)},
    {"conv2d_grad_w", "f32{2,4,6,5} f32{2,6,3,3} padding=1 stride=2 groups=2 size=3,3",
     2 * (2 * 6 * 3 * 3) * (2 * 3 * 3)},
    /* max_pool2d costs one operation for each entry of a window */
    {"max_pool2d", "f32{2,3,4,6} kernel_size=2", (2 * 3 * 2 * 3) * (2 * 2)},
    {"max_pool2d", "f32{1,2,5,7} kernel_size=3,2 stride=2,1 padding=1", (2 * 3 * 8) * (3 * 2)},
    {"max_pool2d_grad", "f32{2,3,4,6} f32{2,3,3,5} kernel_size=2 stride=1", (2 * 3 * 3 * 5) * (2 * 2)},
    {"max_pool2d_pick", "f32{2,3,4,6} f32{2,3,4,6} kernel_size=2 stride=1", (2 * 3 * 3 * 5) * (2 * 2)},
    {"avg_pool2d", "f32{2,3,4,6} kernel_size=2", (2 * 3 * 2 * 3) * (2 * 2)},
    {"avg_pool2d_grad", "f32{2,3,3,5} kernel_size=2 stride=1 size=4,6", (2 * 3 * 3 * 5) * (2 * 2)},
    /* Attention costs a dot product, an exponential and a weighted value for each pair of query and key. Backward
     * costs five products instead of two. Causal attention counts each tile of 64 keys of which a query sees at
     * least one key. Attention with a window counts the keys of the window and one tile. */
    {"attention", "f32{2,1,3,4} f32{1,2,5,4} f32{1,2,5,6} bool{3,5}", (2 * 2 * 3 * 5) * (2 * (4 + 6) + 64)},
    {"attention_grad", "f32{2,1,3,4} f32{1,2,5,4} f32{1,2,5,6} bool{3,5} - - f32{2,2,3,6} f32{2,2,3,6}",
     2.5 * (2 * 2 * 3 * 5) * (2 * (4 + 6) + 64)},
    {"attention", "f32{1,1,512,4} f32{1,1,512,4} f32{1,1,512,6} is_causal=1",
     (512 * 512 * 9 / 16) * (2 * (4 + 6) + 64)},
    {"attention", "f32{1,1,512,4} f32{1,1,512,4} f32{1,1,512,6} is_causal=1 window=63,0",
     (512 * 512 / 4) * (2 * (4 + 6) + 64)},
};

static bool
has_row(const char *name)
{
    for (size_t i = 0; i < countof(table); i++)
        if (!strcmp(table[i].op, name)) return true;
    return false;
}

/* Compares the estimated work with the expected number of operations. Sets *elements to the number of elements
 * that the call reads and writes. */
static bool
work_of(const char *name, const char *sample, double *flops, double *elements)
{
    struct arena arena = {0};
    struct sample s;
    struct rule rule;
    const struct op *op = op_find(name);
    bool good = op && sample_read(op, sample, &s) && !call_infer(&arena, &s.call, &rule);
    *elements = 0;
    for (int i = 0; good && i < s.call.nin + s.call.nout; i++)
        *elements += (double)type_numel(i < s.call.nin ? &s.call.in[i] : &s.call.out[i - s.call.nin]);
    double bytes;
    if (good) call_work(&s.call, flops, &bytes);
    arena_fini(&arena);
    return good;
}

static void
try_passes(const struct op *op)
{
    double flops, elements;
    for (int i = 0; i < OP_SAMPLE && op->sample[i]; i++)
        if (!work_of(op->name, op->sample[i], &flops, &elements))
            ok(false, "%s %s: %s", op->name, op->sample[i], err_text());
        else if (!has_row(op->name))
            ok(flops <= 2 * elements, "%s %s has %g elements and at most twice as many operations: %g", op->name,
               op->sample[i], elements, flops);
}

int
main(void)
{
    double flops = 0, elements;
    for (const struct op *const *op = op_table; *op; op++)
        /* skips composites: they have no rule, and the operators of which they consist have one */
        if ((*op)->shape.rule || (*op)->shape.make_rule) try_passes(*op);
    for (size_t i = 0; i < countof(table); i++)
        ok(work_of(table[i].op, table[i].sample, &flops, &elements) && flops == table[i].flops,
           "%s %s is %g operations: %g", table[i].op, table[i].sample, table[i].flops, flops);
    return done();
}
