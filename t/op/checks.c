/* checks.c - tests that invalid data is detected on the device where it is stored, and reported later by the host.
 *
 * For every operator with index or divisor operands, every sample and every kernel variant, one element is set to an
 * invalid value. Operators with a say() function must find exactly that element, and report it in the same words by
 * every variant. Operators without say() must ignore the element. No operator may write outside its results, even
 * for invalid data, because later operators of a stream may run before the error is reported. */
#include "runtime/data/rng.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

enum { EDGE = 256, CANARY = 0x5a, MOST = 4096 };

struct trial {
    struct sample sample;
    struct view view[SAMPLE_IN + OP_OUT];
    unsigned char *memory[SAMPLE_IN + OP_OUT]; /* buffers with guard bytes on both sides */
    size_t bytes[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
};

static uint64_t seed;
static long ntried;

static void
fill(struct trial *t, int k)
{
    struct view *v = &t->view[k];
    double below = t->sample.below[k] ? (double)t->sample.below[k] : 3;
    for (int64_t i = 0; i < view_numel(v); i++) {
        double r = 1 + (double)(next_random(&seed) % 1000) / 1000 * (below - 1);
        if (dtype_is_float(v->dtype))
            elem_set_f(v->dtype, t->data[k], i, r);
        else
            elem_set_i(v->dtype, t->data[k], i, (int64_t)r);
    }
}

static void
operand(struct trial *t, int k, const struct type *type)
{
    t->view[k] = (struct view){.dtype = type->dtype};
    if (type->dtype == DT_NONE) return;
    t->view[k] = view_dense(type, NULL);
    t->bytes[k] = type->weak ? 8 : (size_t)view_numel(&t->view[k]) * dtype_bytes(type->dtype);
    t->memory[k] = malloc(t->bytes[k] + 2 * EDGE);
    memset(t->memory[k], CANARY, t->bytes[k] + 2 * EDGE);
    t->data[k] = t->memory[k] + EDGE;
}

static bool
trial_open(struct trial *t, const struct op *op, const char *text)
{
    struct arena a = {0};
    struct rule rule;
    memset(t, 0, sizeof *t);
    struct call *c = &t->sample.call;
    bool good = sample_read(op, text, &t->sample) && !call_infer(&a, c, &rule);
    arena_fini(&a);
    for (int k = 0; good && k < c->nin + c->nout; k++) {
        operand(t, k, k < c->nin ? &c->in[k] : &c->out[k - c->nin]);
        if (k < c->nin && t->data[k] && !c->in[k].weak) fill(t, k);
        if (k < c->nin && c->in[k].weak) memcpy(t->data[k], &t->sample.number[k], 8);
    }
    return good;
}

static void
trial_close(struct trial *t)
{
    for (int k = 0; k < SAMPLE_IN + OP_OUT; k++) free(t->memory[k]);
}

static bool
edges_are_whole(const struct trial *t)
{
    for (int k = 0; k < SAMPLE_IN + OP_OUT; k++)
        for (size_t i = 0; t->memory[k] && i < EDGE; i++)
            if (t->memory[k][i] != CANARY || t->memory[k][EDGE + t->bytes[k] + i] != CANARY) return false;
    return true;
}

/* Runs the kernel, overwrites the operands, and only then asks the kernel for the error message. This finds
 * kernels whose message still reads the operands. */
static int
compute(struct trial *t, const struct op *op, struct finding *find)
{
    static _Alignas(64) char scratch[1 << 20];
    struct call c = t->sample.call;
    struct kcall k = {.call = &c, .in = t->view, .out = t->view + c.nin, .threads = 1};
    struct exec *e;
    c.op = op;
    TRY(exec_new(&k, DEV_CPU, &e));
    assert(exec_scratch(e) <= sizeof scratch);
    *find = (struct finding){0};
    int status = exec_enqueue(e, t->data, t->data + c.nin, scratch, NULL, 0, find);
    unsigned char *before[SAMPLE_IN];
    for (int i = 0; i < c.nin; i++) before[i] = t->bytes[i] ? must_copy(t->data[i], t->bytes[i]) : NULL;
    for (int i = 0; i < c.nin; i++) memset(t->data[i] ? t->data[i] : scratch, 0x7f, t->bytes[i]);
    if (!status) status = exec_say(e, find, 0);
    for (int i = 0; i < c.nin; i++) {
        if (before[i]) memcpy(t->data[i], before[i], t->bytes[i]);
        free(before[i]);
    }
    exec_free(&e);
    return status;
}

static bool
fits(enum dtype d, int64_t x)
{
    _Alignas(8) char one[8];
    elem_set_i(d, one, 0, x);
    return elem_get_i(d, one, 0) == x;
}

/* Sets one element of operand i to the invalid value x. The kernel must find the element and its position. */
static void
try_form(struct trial *t, const struct op *op, const char *form, int i, int64_t x, char *said)
{
    const struct view *ids = &t->view[i];
    int64_t at = (int64_t)(next_random(&seed) % (uint64_t)view_numel(ids));
    struct finding find;
    int64_t before = elem_get_i(ids->dtype, t->data[i], at);
    said[0] = 0;
    elem_set_i(ids->dtype, t->data[i], at, x);
    int status = compute(t, op, &find);
    elem_set_i(ids->dtype, t->data[i], at, before);
    ntried++;
    bool good = op->host.say ? status == E_VALUE && find.at == 1 + at && find.value[0] == x : !status && !find.at;
    if (!good || !edges_are_whole(t))
        ok(false, "%s by %s: %lld is found at %lld (%d, at %lld)", op->name, form, (long long)x, (long long)at, status,
           (long long)find.at);
    if (status) snprintf(said, 400, "%s", err_text());
    status = compute(t, op, &find);
    if (status || find.at) ok(false, "%s by %s: valid data passes: %s", op->name, form, status ? err_text() : "");
}

static void
try_value(struct trial *t, const struct op *op, int i, int64_t x)
{
    char by_ref[400], by_way[400];
    struct op alone = *op;
    uint64_t same = seed;
    alone.host.kernel = NULL;
    if (!fits((enum dtype)t->view[i].dtype, x)) return;
    if (op->host.ref) try_form(t, &alone, "the reference", i, x, by_ref);
    for (const struct kernel_variant *v = op->host.kernel; v && v->name; v++) {
        const struct kernel_variant one[2] = {*v, {NULL}};
        if (v->device != DEV_CPU) continue;
        alone.host.kernel = one;
        seed = same;
        try_form(t, &alone, v->name, i, x, by_way);
        if (strcmp(by_ref, by_way)) ok(false, "%s: variants report \"%s\" and \"%s\"", op->name, by_ref, by_way);
    }
}

static void
try_operand(struct trial *t, const struct op *op, int i)
{
    static const int64_t wrong[] = {INT64_MIN, INT64_MIN + 1, INT32_MIN, -1, 1 << 20, INT32_MAX, INT64_MAX};
    for (size_t k = 0; k < countof(wrong); k++) try_value(t, op, i, wrong[k]);
}

static bool
takes_positions(const struct op *op, int i)
{
    return op->in[i].name && op->in[i].flags & IN_INDEX;
}

static void
try_op(const struct op *op)
{
    int failed = tap_failed;
    long before = ntried;
    for (int s = 0; s < OP_SAMPLE && op->sample[s]; s++) {
        struct trial t;
        bool good = trial_open(&t, op, op->sample[s]);
        for (int i = 0; good && i < MIN(t.sample.call.nin, OP_OPERAND); i++) {
            if (!t.data[i] || t.view[i].dtype == DT_BOOL || view_numel(&t.view[i]) == 0) continue;
            if (takes_positions(op, i)) try_operand(&t, op, i);
            if (op->flags & OP_NONZERO && op->host.say) try_value(&t, op, i, 0);
        }
        trial_close(&t);
    }
    if (ntried > before && tap_failed == failed)
        ok(true, "%s %s (%ld tries)", op->name, op->host.say ? "finds invalid values" : "ignores invalid values",
           ntried - before);
}

/* Operators that do not check their index operands. Some read results of an operator that checks them: of
 * cross_entropy_rows and cross_entropy_parts (labels), of recurrence (lengths), of topk (ids of experts). put
 * writes into a cache. In weights in blocks, all bytes are valid. label_count is exempt, too. */
static const char *const silent[] = {"label_count",   "cross_entropy_grad", "cross_entropy_parts_grad", "put",
                                     "expert_matmul", "expert_matmul_grad", "recurrence_grad",          "linear_blocks",
                                     "expert_blocks", "from_blocks"};

static void
try_says(const struct op *op)
{
    bool takes = false, passes = false;
    for (int i = 0; i < OP_OPERAND; i++) takes = takes || takes_positions(op, i);
    for (size_t i = 0; i < countof(silent); i++) passes = passes || !strcmp(op->name, silent[i]);
    if (takes && op->host.ref)
        ok(!op->host.say == passes, "%s %s", op->name, passes ? "does not check indices" : "reports invalid indices");
    if (op->host.say && !op->host.allows) ok(false, "%s reports an invalid value without the valid range", op->name);
}

int
main(void)
{
    seed = seed_of(271828);
    for (int i = 0; op_table[i]; i++) try_op(op_table[i]);
    for (int i = 0; op_table[i]; i++) try_says(op_table[i]);
    return done();
}
