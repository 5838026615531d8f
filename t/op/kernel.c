/* kernel.c - tests that every kernel variant, the element-wise engine and view copies equal the reference, and give
 * the same bits twice.
 *
 * Operands are dense, strided, repeated, overlapping and unaligned, in the dtypes of the samples and others, with
 * dimensions of size 0 and 1, NaN, infinities, signed zeros and subnormal numbers. Each variant is tried alone, in a
 * copy of the operator's record without the other variants. Every variant must accept at least one sample; otherwise
 * the reference would be compared with itself. */
#include "kernels/cpu/eltwise/tile.h"
#include "t/lib/kernel/trial.h"

/* ---- running and comparing ---- */

static const char *taken; /* variant name of the last call */

/* Sets the position of all operands and results, as if they were shards elsewhere in a larger tensor. If the
 * operator ignores positions, results must not change. */
static void
place_elsewhere(struct trial *t, const struct call *c)
{
    for (int i = 0; i < c->nin + c->nout; i++) {
        struct view *v = i < c->nin ? &t->in[i].view : &t->again[i - c->nin].view;
        for (int d = 0; d < v->ndim; d++) {
            v->offset[d] += 3 + d;
            v->global[d] += 17;
        }
    }
}

static void
try_form(struct trial *t, const struct op *op, const char *form, const char *text, enum memory m)
{
    struct call c = t->sample.call;
    c.op = op;
    int status = trial_run(t, &c, 1, t->got, &taken);
    if (!op_is_placed(op)) place_elsewhere(t, &c);
    if (!status) status = trial_run(t, &c, 1, t->again, &taken);
    if (status) {
        ok(false, "%s %s, %s: %s runs", op->name, text, memory_text[m], form);
        diag("%s", err_text());
        return;
    }
    double worst = 0;
    bool same = true;
    for (int k = 0; k < c.nout; k++) {
        worst = fmax(worst, distance(&t->got[k].view, &t->want[k].view));
        size_t bytes = (size_t)type_bytes(&c.out[k]);
        same &= !memcmp(t->got[k].memory, t->again[k].memory, bytes);
    }
    if (!ok(worst <= 1, "%s %s, %s: %s is the reference", op->name, text, memory_text[m], form))
        diag("%g times the allowed error", worst);
    ok(same, "%s %s, %s: %s gives the same bits twice%s", op->name, text, memory_text[m], form,
       op_is_placed(op) ? "" : ", for any position of the shard in the tensor");
}

/* names of the variants that accepted a sample */
static struct {
    const struct kernel_variant *of[1024];
    int n;
} reached;

static bool
is_reached(const struct kernel_variant *v)
{
    int i = 0;
    while (i < reached.n && reached.of[i] != v) i++;
    return i < reached.n;
}

/* Records the variant that ran the last call. */
static void
note_reached(const struct kernel_variant *v)
{
    if (strcmp(taken, v->name) || is_reached(v)) return;
    assert(reached.n < (int)countof(reached.of));
    reached.of[reached.n++] = v;
}

/* Replaces random operands of loss gradients by results of the loss, because the gradient is defined only for
 * these. */
static void
agree(struct trial *t)
{
    const struct call *c = &t->sample.call;
    bool of_whole = !strcmp(c->op->name, "cross_entropy_grad");
    if (!of_whole && strncmp(c->op->name, "cross_entropy_parts", strlen("cross_entropy_parts"))) return;
    struct rule rule;
    struct type type[OP_OUT];
    struct call loss = {.op = op_find("cross_entropy_rows"), .nin = 2, .nout = 3, .in = c->in, .out = type};
    loss.attr = c->attr;
    if (call_infer(&t->arena, &loss, &rule)) return;
    struct tensor unused[2];
    for (int i = 0; i < 2; i++) make_tensor(&unused[i], &type[0], DENSE);
    struct view in[] = {t->in[0].view, t->in[1].view};
    struct view out[] = {unused[0].view, t->in[2].view, of_whole ? t->in[3].view : unused[1].view};
    ok(!ref_run(&(struct kcall){.call = &loss, .in = in, .out = out, .threads = 1}), "the loss runs");
    for (int i = 0; i < 2; i++) free(unused[i].memory);
}

static void
try_sample(const struct op *op, const char *text, enum memory m, uint64_t seed)
{
    struct trial t;
    if (trial_open(&t, op, text, m, seed)) {
        if (strange) agree(&t);
        if (trial_reference(&t)) {
            ok(false, "%s %s: the reference runs", op->name, text);
            diag("%s", err_text());
        }
        try_form(&t, op, "the way chosen", text, m);
        for (const struct kernel_variant *v = op->host.kernel; v && v->name; v++)
            note_reached(v); /* records the variant that the kernel selects by itself, without a restriction */
        for (const struct kernel_variant *variant = op->host.kernel; variant && variant->name; variant++) {
            const struct kernel_variant alone[2] = {*variant, {NULL}};
            struct op copy = *op;
            copy.host.kernel = alone;
            if (variant->device != DEV_CPU) continue;
            try_form(&t, &copy, variant->name, text, m);
            note_reached(variant);
        }
    }
    trial_close(&t);
}

/* ---- the element-wise engine on sizes around its block, and on pairs of dtypes ---- */

static void
sizes(uint64_t seed)
{
    static const char *const text[] = {
        "f32{1023} f32{1023}", "f32{1025} f32{1}",        "f32{3,1024} f32{1024}", "f32{5,127} f32{5,1}",
        "f32{9,130} f32{130}", "f32{33,3} f32{3}",        "f32{7,1,5} f32{1,9,5}", "f32{2,3,4,5} f32{3,1,5}",
        "f32{0,5} f32{5}",     "f32{2000,2} f32{2000,1}", "f32{1,1} f32{1,1}",     "f32{600,2} bf16{2}",
    };
    for (size_t i = 0; i < countof(text); i++)
        for (int m = 0; m < NMEMORY; m++) {
            try_sample(op_find("add"), text[i], (enum memory)m, seed + i);
            try_sample(op_find("lt"), text[i], (enum memory)m, seed + i);
        }
}

static void
dtypes(uint64_t seed)
{
    static const char *const name[] = {"add", "maximum", "eq"};
    for (int a = DT_NONE + 1; a < NDTYPE; a++)
        for (int b = DT_NONE + 1; b < NDTYPE; b++)
            for (size_t i = 0; i < countof(name); i++) {
                char text[64];
                snprintf(text, sizeof text, "%s{4,1} %s{1,3}", dtype_text(a), dtype_text(b));
                try_sample(op_find(name[i]), text, DENSE, seed);
            }
    for (int a = DT_NONE + 1; a < NDTYPE; a++)
        for (int b = DT_NONE + 1; b < NDTYPE; b++) {
            char text[64];
            snprintf(text, sizeof text, "%s{37} dtype=%s", dtype_text(a), dtype_text(b));
            try_sample(op_find("cast"), text, GAPS, seed);
        }
}

/* Tries reductions of tensors with more columns or more values per column than a block, with and without keepdim,
 * over several axes. */
static void
reductions(uint64_t seed)
{
    static const char *const name[] = {"sum", "max", "min"};
    static const char *const text[] = {"f32{2500}",           "f32{3,2500} axis=1",    "f32{3,2500} axis=0",
                                       "bf16{3,1100} axis=1", "i32{3,1100} axis=0",    "f64{5,1027} axis=1 keepdim=1",
                                       "f32{3,5,70} axis=1",  "f32{3,4,5,6} axis=0,2", "f32{3,4,5,6} axis=1,3"};
    for (size_t i = 0; i < countof(name); i++)
        for (size_t k = 0; k < countof(text); k++)
            for (int m = 0; m < NMEMORY; m++) try_sample(op_find(name[i]), text[k], (enum memory)m, seed + k);
}

static void
strange_values(uint64_t seed)
{
    static const char *const reduced[] = {"sum", "max", "min", "prod", "argmax", "argmin", "logsumexp"};
    strange = true;
    for (int i = 0; i < op_count; i++)
        for (int k = 0; k < OP_SAMPLE && op_table[i]->sample[k]; k++)
            /* gives recurrence no infinite states, because the order of a gate's products decides between NaN and
             * infinity */
            for (uint64_t j = strncmp(op_table[i]->name, "recurrence", 10) ? 0 : 10 + NMEMORY; j < 10 + NMEMORY; j++) {
                enum memory m = j < 10 || op_table[i]->flags & OP_SOURCE ? DENSE : (enum memory)(j - 10);
                try_sample(op_table[i], op_table[i]->sample[k], m, seed + j);
            }
    for (size_t i = 0; i < countof(reduced); i++)
        for (uint64_t k = 0; k < 20; k++) {
            try_sample(op_find(reduced[i]), "f32{40,3} axis=1", DENSE, seed + k);
            try_sample(op_find(reduced[i]), "f32{3,40} axis=0", DENSE, seed + k);
            try_sample(op_find(reduced[i]), "f32{3,200} axis=1", DENSE, seed + k);
        }
    strange = false;
}

/* Tries samples that are too large to be listed in an operator's record, or that have other dtypes than those
 * listed. */
static void
others(uint64_t seed)
{
    static const char *const text[][2] = {
        {"matmul", "f64{2,40,9} f64{9,20}"},
        {"matmul", "f16{5,3} f16{3,7}"},
        {"linear_int8", "f64{3,70} u8{5,70} f64{5}"},
        {"linear_int8", "f16{2,3,6} u8{4,6} f16{4}"},
        /* block formats: few rows, many rows, and numbers of rows that are no multiple of a panel's */
        {"linear_blocks", "f32{5,512} u8{9,2,144}<60 kind=Q4_K"},
        {"linear_blocks", "f32{33,256} u8{70,1,210}<60 kind=Q6_K"},
        {"linear_blocks", "f32{40,64} u8{130,2,34}<60"},
        {"linear_blocks", "f64{3,64} u8{5,2,18}<60 kind=Q4_0"},
        {"linear_blocks", "f32{2,256} u8{5,1,176}<60 kind=Q5_K"},
        {"conv2d_grad_w", "f16{2,2,4,4} f16{2,3,3,3} size=2,2"},
        {"conv2d_grad_x", "f16{2,3,3,3} f16{3,2,2,2} size=4,4"},
        {"attention_softmax", "f64{3,7} f64{7}"},
        /* expert batches of all sizes: numbers of rows that are no multiple of a block's; overlapping panels of
         * columns; experts without rows; invalid ids */
        {"expert_matmul", "f32{1,700,1,20} f32{1,3,20,1100} i64{700,2}<4"},
        {"expert_matmul", "f32{2,90,2,70} f32{2,9,70,13} i32{90,2}<15"},
        {"expert_matmul", "bf16{1,130,1,60} bf16{2,2,60,530} i64{130,3}<4"},
        {"expert_matmul", "f16{1,77,2,60} f16{1,4,60,600} u8{77,2}<4"},
        {"expert_matmul", "f64{1,300,1,30} f64{1,2,30,520} i64{300,1}<2"},
        {"expert_matmul_grad", "f32{1,700,1,20} f32{1,700,2,600} i64{700,2}<4 experts=3"},
        {"expert_matmul_grad", "f32{2,90,2,70} f32{2,90,2,1024} i32{90,2}<15 experts=9"},
        {"expert_matmul_grad", "bf16{1,130,1,60} bf16{2,130,3,530} i64{130,3}<4 experts=2"},
        {"expert_matmul_grad", "bf16{1,130,1,60} bf16{2,130,3,530} i64{130,3}<4 experts=2 dtype=f32"},
        {"expert_matmul_grad", "f16{1,77,2,60} f16{1,77,2,600} u8{77,2}<4 experts=4"},
        {"expert_matmul_grad", "f64{1,300,1,30} f64{1,300,1,520} i64{300,1}<2 experts=2"},
        /* experts in blocks: few and many rows, several panels, one output feature, and invalid ids */
        {"expert_blocks", "f32{1,40,1,512} u8{1,3,70,2,144}<60 i64{40,2}<4 kind=Q4_K"},
        {"expert_blocks", "f32{2,70,2,64} u8{2,2,600,2,34}<60 i32{70,2}<5"},
        {"expert_blocks", "f32{1,200,1,256} u8{1,2,5,1,210}<60 i64{200,1}<2 kind=Q6_K"},
        {"expert_blocks", "f32{1,9,1,256} u8{1,3,1,1,176}<60 i64{9,1}<3 kind=Q5_K"},
        {"expert_blocks", "f32{1,70,2,9} u8{1,3,9,3,144}<60 i64{70,2}<4 kind=Q4_K turned=1"},
        {"expert_blocks", "f32{2,70,2,5} u8{2,2,5,33,18}<60 i64{70,2}<5 kind=Q4_0 turned=1"},
        {"avg_pool2d", "f32{2,64,8,8} kernel_size=2"},
    };
    for (size_t i = 0; i < countof(text); i++)
        for (int m = 0; m < NMEMORY; m++) try_sample(op_find(text[i][0]), text[i][1], (enum memory)m, seed + i);
    /* uses repeated rows, which accumulate errors, so the tolerance is larger */
    try_sample(op_find("contract"), "f32{70000,1} f32{70000,2}", DENSE, seed);
}

/* ---- dimensions of size 0 and 1 ---- */

/* Copies a sample's text, and replaces each size and id bound that equals `from` by the digit `to`. Returns false if
 * the text has no such number. */
static bool
resize(const char *text, int from, int to, char *resized, size_t room)
{
    bool inside = false, any = false;
    size_t n = 0;
    for (char before = 0; *text && n + 1 < room; before = text[-1]) {
        size_t digits = (inside && (before == '{' || before == ',')) || before == '<' ? strspn(text, "0123456789") : 0;
        bool hit = digits > 0 && strtol(text, NULL, 10) == from;
        any |= hit;
        inside = *text == '{' || (inside && *text != '}');
        resized[n++] = hit ? (char)('0' + to) : *text;
        text += hit ? digits : 1;
    }
    resized[n] = 0;
    return any;
}

/* Returns true if the resized sample is a valid call. Rejects an id bound of 0, because a table without rows has no
 * valid id. Rejects operators with a size attribute (gradients of windows), because the attribute would not fit the
 * new sizes. */
static bool
is_call(const struct op *op, const char *text)
{
    struct arena a = {0};
    struct sample s;
    struct rule rule;
    bool good = sample_read(op, text, &s) && (op->shape.rule || op->shape.make_rule) && op_attr_find(op, "size") < 0;
    good = good && !strstr(text, "<0") && !call_infer(&a, &s.call, &rule);
    err_clear();
    arena_fini(&a);
    return good;
}

/* Tries every sample with each size replaced by 0 and by 1, if the call stays valid. */
static void
edges(uint64_t seed)
{
    static const enum memory memory[] = {DENSE, GAPS, REPEATED};
    char text[256];
    int tried = 0;
    for (int i = 0; i < op_count; i++)
        for (int k = 0; k < OP_SAMPLE && op_table[i]->sample[k]; k++)
            for (int to = 0; to < 2; to++)
                for (int from = to + 1; from < 64; from++) {
                    if (!resize(op_table[i]->sample[k], from, to, text, sizeof text)) continue;
                    if (!is_call(op_table[i], text)) continue;
                    for (size_t m = 0; m < countof(memory); m++)
                        try_sample(op_table[i], text, memory[m], seed + (uint64_t)k);
                    tried++;
                }
    ok(tried > 500, "dimensions of size 0 and 1 were tried in %d calls", tried);
}

/* Tries element-wise operators of integers with every pair of integer dtypes, and with numbers that the dtype cannot
 * hold, at the limits of the dtypes' ranges. */
static void
integers(const struct op *op, uint64_t seed)
{
    static const char *const form[] = {
        "bool{333}",    "u8{333}",     "i32{333}",    "i64{333}",       "#0", "#1", "#-1", "#7", "#300",
        "#-2147483648", "#2147483648", "#4294967301", "#-1099511627776"};
    enum { DTYPES = 4 };
    int nin = op_noperand(op), tried = 0;
    for (int a = 0; a < DTYPES; a++)
        for (int b = 0; b < (nin == 1 ? 1 : (int)countof(form)); b++)
            for (int swapped = 0; swapped < MIN(nin, 2); swapped++) {
                char text[64];
                const char *first = form[swapped ? b : a], *second = form[swapped ? a : b];
                snprintf(text, sizeof text, "%s%s %s", nin == 3 ? "bool{333} " : "", first, nin == 1 ? "" : second);
                if (!is_call(op, text)) continue;
                try_sample(op, text, DENSE, seed);
                tried++;
            }
    ok(tried > 0, "%s of integers was tried in %d calls", op->name, tried);
}

static void
limits_of_integers(uint64_t seed)
{
    limits = true;
    for (int i = 0; i < op_count; i++)
        if (op_table[i]->eltwise.tile != TILE_NONE && op_table[i]->eltwise.i) integers(op_table[i], seed);
    limits = false;
}

/* Returns true for variants that no sample of this test may reach. "f32": only for processors without instructions
 * for a 16-bit dtype. "dnnl" of avg_pool2d: only if oneDNN can compute the call. "long": for long sums, which
 * t/rows/long.c tests. */
static bool
may_be_idle(const struct op *op, const struct kernel_variant *v)
{
    bool windows = !strcmp(v->name, "dnnl") && !strncmp(op->name, "avg_pool2d", 10);
    return windows || !strcmp(v->name, "f32") || !strcmp(v->name, "long");
}

static void
all_reached(void)
{
    int missed = 0;
    for (int i = 0; i < op_count; i++)
        for (const struct kernel_variant *v = op_table[i]->host.kernel; v && v->name; v++) {
            if (v->device != DEV_CPU || is_reached(v) || may_be_idle(op_table[i], v)) continue;
            if (share_all())
                diag("%s: %s, variant %d", op_table[i]->name, v->name, (int)(v - op_table[i]->host.kernel));
            missed++;
        }
    ok(covered(missed == 0), "every variant accepts some sample");
}

int
main(int argc, char **argv)
{
    uint64_t seed = seed_of(1);
    for (int i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        if (argc > 1 && strcmp(argv[1], op->name)) continue;
        for (int k = 0; k < OP_SAMPLE && op->sample[k]; k++)
            for (int m = 0; m < NMEMORY; m++)
                if ((m == DENSE || !(op->flags & OP_SOURCE)) && ((!k && m == DENSE) || share_next()))
                    try_sample(op, op->sample[k], (enum memory)m, seed + (uint64_t)k);
    }
    if (argc > 1) return done();
    sizes(seed);
    dtypes(seed);
    reductions(seed);
    strange_values(seed);
    others(seed);
    edges(seed);
    limits_of_integers(seed);
    all_reached();
    return done();
}
