/* threads.c - tests that the number of threads does not change a kernel's result. One, two, three and seven threads
 * must give the same bits, which must agree with the reference within rounding. Shapes are large enough to be split,
 * into parts of unequal sizes. Rows along an axis have every length around the sizes of blocks and lanes. */
#include "kernels/cpu/conv/conv.h"
#include "t/lib/kernel/trial.h"

static const struct row {
    /* operands as text, in which %N stands for a length; the row is tried with each number of `lengths` */
    const char *op, *sample;
    /* allowed difference between runs on different numbers of threads, relative to the largest value; 0: bits must
     * be equal */
    double rounding;
} table[] = {
    {"sum", "f32{300001}", 0},
    {"sum", "f32{16383}", 0},
    {"sum", "f32{16384}", 0},
    {"sum", "f32{5,16449} axis=1", 0},
    {"sum", "bf16{200000}", 0},
    {"sum", "i64{200003}", 0},
    {"sum", "f32{3,70001}", 0},
    {"sum", "f32{3,70001} axis=1", 0},
    {"sum", "f32{70001,3} axis=0", 0},
    {"sum", "f32{70001,3} axis=1", 0},
    {"max", "f32{70001,3} axis=0", 0},
    {"min", "f32{70001,3} axis=1", 0},
    {"sum", "f32{5000,63} axis=1", 0},
    {"sum", "bf16{100,5000} axis=0", 0},
    {"square_sum", "f32{200003}", 0},
    {"sum", "f32{5,4099,9} axis=1", 0},
    {"sum", "f32{16,2000,7} axis=0,2", 0},
    {"sum", "f32{200,5000} axis=0", 0},
    {"sum", "f32{2,100000} axis=0", 0},
    {"max", "f32{300001}", 0},
    {"min", "f64{150,3000} axis=0", 0},
    {"prod", "f32{140000}", 0},
    {"argmax", "f32{40,1300} axis=0", 0},
    {"argmin", "f32{3,70,530} axis=1", 0},
    {"any", "bool{200000}", 0},
    {"all", "bool{77,3000} axis=1", 0},
    {"add", "f32{200003} f32{200003}", 0},
    {"add", "f32{701,300} f32{300}", 0},
    {"mul", "f32{40001,5} f32{40001,1}", 0},
    {"add", "f32{40001,10} f32{10}", 0},
    {"add", "f32{7001,63} f32{63}", 0},
    {"where", "bool{90,2000} f32{90,2000} #0.5", 0},
    {"gelu", "f32{100001}", 0},
    {"cast", "f32{100003} dtype=bf16", 0},
    {"cumsum", "f32{301,777} axis=1", 0},
    {"cumsum", "f32{301,777} axis=1 reverse=true", 0},
    {"cumsum", "f64{31,500,3} axis=1 reverse=true", 0},
    {"cumsum", "bf16{70,300,9} axis=1", 0},
    {"softmax", "f32{301,777}", 0},
    {"softmax", "f32{30,500,9} axis=1", 0},
    {"softmax_grad", "f32{301,777} f32{301,777}", 0},
    {"log_softmax", "f32{301,777}", 0},
    {"layer_norm", "f32{301,777} f32{777} f32{777}", 0},
    {"norm_grad", "f32{301,777} f32{301,777} f32{777}", 0},
    {"norm_grad", "bf16{5000,60} bf16{5000,60} -", 0},
    {"norm_grad", "f64{301,777} f64{301,777} f64{777}", 0},
    {"cross_entropy_parts", "f32{3000,100} i64{3000}<100 f32{3000}>2", 0},
    {"cross_entropy_parts_grad", "f32{3000,100} i64{3000}<100 f32{3000}>2 f32{3000} f32{3000}", 0},
    {"cross_entropy_rows", "f32{3000,100} i64{3000}<100", 0},
    {"cross_entropy_grad", "f32{3000,100} i64{3000}<100 f32{3000} f32{3000} f32{3000}", 0},
    {"concat", "f32{300,301} f32{300,77} f32{300,5} axis=1", 0},
    {"slice_grad", "f32{300,301} axis=1 start=7 size=400", 0},
    {"flip", "f32{300,301} axes=0,1", 0},
    {"pad", "f32{300,301} pad=1,2,3,-4", 0},
    {"put", "f32{2,5000,40} i64{2,3}<5000 f32{2,3,40} axis=1", 0},
    {"index_select", "f32{5000,40} i64{3000}<5000 axis=0", 0},
    {"embedding", "i64{3000}<500 f32{500,77}", 0},
    {"adamw", "f32{100003} f32{100003} f32{100003}>0.01 f32{100003} #0.01 #3", 0},
    {"sgd", "f32{100003} f32{100003} f32{100003} #0.01", 0},
    {"max_pool2d", "f32{5,7,30,31} kernel_size=3 stride=2 padding=1", 0},
    {"avg_pool2d", "f32{5,7,60,61} kernel_size=3 stride=2 padding=1", 0},
    {"matmul", "f32{301,200} f32{200,170}", 1e-5},
    {"matmul", "f32{12,65,64} f32{12,64,33}", 1e-5},
    {"matmul", "f32{12,65,64} f32{12,64,80}", 0},
    {"matmul", "f32{130,64} f32{64,208}", 0},
    {"matmul", "f32{5,130,64} f32{5,64,496}", 0},
    {"expert_matmul", "f32{1,700,1,96} f32{1,3,96,1100} i64{700,2}<3", 0},
    {"expert_matmul", "bf16{1,300,2,96} bf16{1,7,96,600} i64{300,2}<7", 0},
    {"expert_matmul", "f32{1,3,1,96} f32{1,7,96,1100} i64{3,2}<7", 0},
    {"expert_matmul_grad", "f32{1,700,1,96} f32{1,700,2,1024} i64{700,2}<3 experts=3", 0},
    {"expert_matmul_grad", "bf16{1,300,2,96} bf16{1,300,2,600} i64{300,2}<7 experts=7", 0},
    {"conv2d", "f32{4,8,30,30} f32{16,8,3,3} - padding=1", 1e-5},
    {"conv2d_grad_w", "bf16{5,4,6,5} bf16{5,6,3,3} padding=1 stride=2 groups=2 size=3,3", 1e-2},
    {"softmax", "f32{2000,40}", 0},
    {"softmax", "f64{2,50,1500} axis=1", 0},
    {"softmax_grad", "f32{2000,40} f32{2000,40}", 0},
    {"attention_softmax", "f32{4,100,100} - is_causal=true", 0},
    {"cross_entropy_parts", "f32{5000,10} i64{5000}<10 f32{5000}>9", 0},
    {"cross_entropy_parts_grad", "f32{5000,10} i64{5000}<10 f32{5000}>9 f32{5000} f32{5000}", 0},
    {"cross_entropy_rows", "f32{5000,10} i64{5000}<10", 0},
    {"cross_entropy_grad", "f32{5000,10} i64{5000}<10 f32{5000}>9 f32{5000} f32{5000}", 0},
    {"layer_norm", "f32{1000,64} f32{64} f32{64}", 0},
    {"norm_grad", "f32{1000,64} f32{1000,64} f32{64}", 0},
    {"norm_grad", "f32{300,900} f32{300,900} -", 0},
    {"index_add", "f32{3000,8} i64{500}<3000 f32{500,8} axis=0", 0},
    {"index_add_to", "f32{3000,8} i64{500}<3000 f32{500,8} axis=0", 0},
    {"adamw", "f32{100000} f32{100000} f32{100000}>0.1 f32{100000} #0.1 #3", 0},
    {"sgd", "f32{100000} f32{100000} f32{100000} #0.1 momentum=0.9", 0},
    {"softmax", "f32{3,%N}", 0},
    {"softmax", "bf16{3,%N}", 0},
    {"softmax", "f32{2,%N,3} axis=1", 0},
    {"softmax", "f32{%N,530} axis=0", 0},
    {"log_softmax", "bf16{%N,515} axis=0", 0},
    {"log_softmax", "f32{3,%N}", 0},
    {"log_softmax", "f16{%N,2} axis=0", 0},
    {"softmax_grad", "f32{3,%N} f32{3,%N}", 0},
    {"softmax_grad", "bf16{3,%N} bf16{3,%N}", 0},
    {"attention_softmax", "f32{2,3,%N} - scale=0.5", 0},
    {"attention_softmax", "f32{2,37,%N} - is_causal=true", 0},
    {"attention_softmax", "bf16{2,3,%N} f32{%N} is_causal=true", 0},
    {"cross_entropy_parts", "f32{3,%N} i64{3}<%N f32{3}>9 label_smoothing=0.1", 0},
    {"cross_entropy_parts", "bf16{2,%N,3} i32{2,3}<%N bf16{2,3}>9", 0},
    {"cross_entropy_parts_grad", "f32{3,%N} i64{3}<%N f32{3}>9 f32{3} f32{3} label_smoothing=0.1", 0},
    {"cross_entropy_parts_grad", "f16{2,%N,3} i32{2,3}<%N f32{2,3}>9 f32{2,3} f32{2,3}", 0},
    {"cross_entropy_rows", "f32{3,%N} i64{3}<%N label_smoothing=0.1", 0},
    {"cross_entropy_rows", "bf16{2,%N,3} i32{2,3}<%N", 0},
    {"cross_entropy_grad", "f32{3,%N} i64{3}<%N f32{3}>9 f32{3} f32{3} label_smoothing=0.1", 0},
    {"cross_entropy_grad", "f16{2,%N,3} i32{2,3}<%N f32{2,3}>9 f32{2,3} f32{2,3}", 0},
    {"layer_norm", "f32{3,%N} f32{%N} f32{%N}", 0},
    {"layer_norm", "bf16{3,%N} - bf16{%N}", 0},
    {"rms_norm", "f32{3,%N}", 0},
    {"norm_grad", "f32{3,%N} f32{3,%N} f32{%N}", 0},
    {"norm_grad", "f32{7,%N} f32{7,%N} -", 0},
    {"norm_grad", "bf16{3,%N} bf16{3,%N} - center=0", 0},
    {"index_add", "f32{3,%N} i64{5}<3 f32{5,%N} axis=0", 0},
    {"index_add", "bf16{3,%N} i64{2}<3 bf16{2,%N} axis=0", 0},
    {"index_add_to", "f32{3,%N} i64{5}<3 f32{5,%N} axis=0", 0},
    {"index_add_to", "bf16{3,%N} i64{2}<3 bf16{2,%N} axis=0", 0},
    {"adamw", "f32{%N} f32{%N} f32{%N}>0.1 f32{%N} #0.1 #3 weight_decay=0.1", 0},
    {"adamw", "bf16{%N} f32{%N} f32{%N}>0.1 bf16{%N} #0.1 #1 weight_decay=0.1 decoupled=0", 0},
    {"sgd", "f32{%N} f32{%N} f32{%N} #0.1 momentum=0.9", 0},
    {"sgd", "f32{%N} - f32{%N} #0.1 weight_decay=0.1", 0},
};
/* convolutions and average pooling: several threads divide the batch into groups of images */
static const struct row in_parts[] = {
    {"conv2d", "f32{11,8,30,30} f32{16,8,3,3} - padding=1", 1e-5},
    {"conv2d", "f32{5,8,12,12} f32{16,4,3,3} - padding=1 groups=2", 1e-5},
    {"conv2d", "f32{2,5,9,8} f32{40,5,3,2} - padding=1 stride=2", 1e-5},
    {"conv2d", "bf16{1,20,7,7} bf16{33,20,3,3} - dilation=2", 2e-2},
    {"conv2d_grad_x", "f32{2,10,9,9} f32{10,40,3,3} padding=1 size=9,9", 1e-5},
    {"conv2d_grad_x", "f32{1,10,5,5} f32{10,17,3,3} stride=2 size=11,11", 1e-5},
    {"conv2d_grad_w", "f32{3,5,9,9} f32{3,40,9,9} padding=1 size=3,3", 1e-5},
    {"conv2d_grad_w", "bf16{1,5,9,9} bf16{1,33,9,9} padding=1 size=3,3", 2e-2},
    {"conv2d_grad_x", "f32{11,4,3,5} f32{4,3,3,2} size=5,6", 1e-5},
    {"conv2d_grad_w", "f32{11,3,5,6} f32{11,4,3,5} size=3,2", 1e-5},
    {"conv2d_grad_w", "bf16{5,4,6,5} bf16{5,6,3,3} padding=1 stride=2 groups=2 size=3,3", 1e-2},
    {"avg_pool2d", "f32{11,16,30,31} kernel_size=3 stride=2 padding=1", 0},
    {"avg_pool2d_grad", "f32{11,16,15,16} kernel_size=3 stride=2 padding=1 size=30,31", 0},
};
static const int lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 100, 1023, 1024, 1025, 2100};

/* Returns the largest difference between two results, relative to the largest value, but at least `least`. */
static double
difference(const struct view *a, const struct view *b, double least)
{
    double largest = least, worst = 0;
    for (int64_t i = 0; i < view_numel(a); i++) {
        double x = elem_get_f(a->dtype, a->data, i), y = elem_get_f(b->dtype, b->data, i);
        largest = fmax(largest, fabs(y));
        worst = fmax(worst, x == y ? 0 : isnan(x - y) ? INFINITY : fabs(x - y));
    }
    return worst / largest;
}

/* Returns the allowed difference from the reference. rows: true: the sample contains %N, a length of rows. */
static double
near(enum dtype d, bool rows)
{
    return d == DT_BF16 ? 1e-2 : d == DT_F16 ? 2e-3 : rows ? 4e-6 : 2e-5;
}

/* Compares the results of one thread with the reference. Then compares the results of more threads with the results
 * of one thread. */
static void
compare(struct trial *t, const char *text, double rounding, bool rows)
{
    const struct call *c = &t->sample.call;
    const char *name = c->op->name;
    /* the tolerance is larger for norms of two elements and for losses close to 0, because these are small
     * differences of numbers near 1 */
    const char *variant = "ref";
    double worst = 0, least = strcmp(name, "norm_grad") && strcmp(name, "cross_entropy_rows") ? 1e-3 : 1;
    int status = trial_reference(t) | trial_run(t, c, 1, t->got, &variant);
    for (int k = 0; k < c->nout && !status; k++)
        worst = fmax(worst, difference(&t->got[k].view, &t->want[k].view, least) / near(c->out[k].dtype, rows));
    ok(strcmp(variant, "ref"), "%s %s is computed by a variant", name, text);
    if (!ok(!status && worst <= 1, "%s %s equals the reference", name, text))
        diag("%g times the tolerance; %s", worst, status ? err_text() : "");
    for (int threads = 2; threads <= 7; threads += threads == 3 ? 4 : 1) {
        bool good = !trial_run(t, c, threads, t->again, NULL);
        for (int k = 0; k < c->nout && good; k++)
            good = rounding > 0 ? difference(&t->again[k].view, &t->got[k].view, 1e-30) <= rounding
                                : !memcmp(t->again[k].memory, t->got[k].memory, (size_t)type_bytes(&c->out[k]));
        ok(good, "%s %s: %d threads give the result of one", name, text, threads);
    }
}

static void
try_call(const char *op, const char *text, double rounding, bool rows)
{
    struct trial t;
    if (trial_open(&t, op_find(op), text, DENSE, 1)) compare(&t, text, rounding, rows);
    trial_close(&t);
}

static void
try_row(const struct row *r)
{
    const char *at = strstr(r->sample, "%N");
    for (size_t n = 0; at && n < countof(lengths); n++) {
        struct str text = {0};
        for (const char *from = r->sample, *next; *from; from = next) {
            next = strstr(from, "%N");
            str_addf(&text, "%.*s", next ? (int)(next - from) : (int)strlen(from), from);
            if (next) str_addf(&text, "%d", lengths[n]);
            next = next ? next + 2 : from + strlen(from);
        }
        try_call(r->op, str_text(&text), r->rounding, true);
        str_free(&text);
    }
    if (!at) try_call(r->op, r->sample, r->rounding, false);
}

int
main(void)
{
    for (size_t i = 0; i < countof(table); i++) try_row(&table[i]);
    conv_part = (struct conv_part){.flops = 1, .rows = 1, .channels = 16};
    mean_part_bytes = 1 << 17;
    for (size_t i = 0; i < countof(in_parts); i++) try_row(&in_parts[i]);
    return done();
}
