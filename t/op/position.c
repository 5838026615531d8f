/* position.c - tests operators whose values depend on positions: they must use positions in the global tensor.
 *
 * A shard must have the bits of the global tensor at the shard's place, for every variant and every split. */
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

enum { ROWS = 7, COLUMNS = 300, PIECE = 2 };

/* Operators whose values depend on positions, with sample operands as text. "T" stands for a tensor of the
 * result's shape. */
static const struct {
    const char *op, *numbers;
} tried[] = {
    {"rand", "#5 #2"},
    {"randn", "#5 #2"},
    {"randint", "#-3 #9 #5 #2"},
    {"arange", "#1 #99 #2"},
    {"arange", "#0.5 #9.0 #0.25"},
    {"linspace", "#0 #1"},
    {"eye", ""},
    {"position", "T axis=1"},
    {"position", "T"},
    {"dropout", "T #5 #2"},
    {"dropout", "T #5 #2 p=0.9"},
};

struct cut {
    int64_t lo[2], size[2];
};
static const struct cut boxes[] = {
    {{0, 0}, {ROWS, COLUMNS}}, {{2, 0}, {3, COLUMNS}}, {{0, 17}, {ROWS, 130}},
    {{3, 299}, {4, 1}},        {{6, 128}, {1, 172}},   {{1, 5}, {0, 9}},
};

static float operand[ROWS * COLUMNS];

struct part {
    struct view view[OP_OPERAND + 1];
    void *data[OP_OPERAND + 1];
    double number[OP_OPERAND];
    void *result;
};

/* Returns the view of a shard, given by its box in the global tensor. Operands keep the global strides; the result
 * is dense. */
static struct view
view_of(const struct cut *b, enum dtype d, bool dense)
{
    struct view v = {.dtype = (uint8_t)d, .ndim = 2, .global = {ROWS, COLUMNS}};
    for (int i = 0; i < 2; i++) v.dim[i] = b->size[i], v.offset[i] = b->lo[i];
    v.stride[0] = dense ? b->size[1] : COLUMNS;
    v.stride[1] = 1;
    return v;
}

static int
compute(const struct sample *s, const struct cut *b, bool by_ref, struct part *p)
{
    const struct call *c = &s->call;
    for (int k = 0; k < c->nin; k++) {
        p->view[k] = (struct view){.dtype = s->in[k].dtype};
        p->number[k] = s->number[k];
        p->data[k] = &p->number[k];
        if (s->in[k].weak && s->in[k].dtype == DT_I64) *(int64_t *)p->data[k] = (int64_t)s->number[k];
        if (s->in[k].weak || s->in[k].dtype == DT_NONE) continue;
        p->view[k] = view_of(b, DT_F32, false);
        p->data[k] = operand + b->lo[0] * COLUMNS + b->lo[1];
    }
    p->view[c->nin] = view_of(b, (enum dtype)s->out[0].dtype, true);
    p->data[c->nin] = p->result = must_alloc((size_t)(b->size[0] * b->size[1]) * sizeof(double) + 1);
    struct kcall k = {.call = c, .in = p->view, .out = p->view + c->nin, .threads = 1, .piece = PIECE};
    if (by_ref) {
        for (int i = 0; i <= c->nin; i++) p->view[i].data = p->data[i];
        return ref_run(&k);
    }
    return kcall_once(&k, p->data, p->data + c->nin, NULL);
}

static bool
same_there(const struct part *global, const struct part *part, const struct cut *b, enum dtype d)
{
    size_t bytes = dtype_bytes(d);
    for (int64_t i = 0; i < b->size[0]; i++) {
        const char *want = (const char *)global->result + (size_t)((b->lo[0] + i) * COLUMNS + b->lo[1]) * bytes;
        const char *got = (const char *)part->result + (size_t)(i * b->size[1]) * bytes;
        if (memcmp(want, got, (size_t)b->size[1] * bytes)) return false;
    }
    return true;
}

/* Reads the sample, with "T" replaced by a tensor of the global shape. */
static bool
read_sample(const char *name, const char *numbers, struct sample *s)
{
    char text[128];
    bool tensor = numbers[0] == 'T';
    snprintf(text, sizeof text, "%s%s", tensor ? "f32{7,300}" : "", tensor ? numbers + 1 : numbers);
    struct arena a = {0};
    struct rule rule;
    bool good = sample_read(op_find(name), text, s);
    s->out[0] = (struct type){.ndim = 2, .dim = {ROWS, COLUMNS}};
    good = good && !call_infer(&a, &s->call, &rule);
    arena_fini(&a);
    return good;
}

static void
try_op(const char *name, const char *numbers)
{
    struct sample s;
    if (!ok(read_sample(name, numbers, &s), "%s %s has a type", name, numbers)) {
        diag("%s", err_text());
        return;
    }
    for (int by_ref = 0; by_ref < 2; by_ref++) {
        struct part global = {0};
        bool good = !compute(&s, &boxes[0], by_ref, &global);
        for (size_t i = 0; i < countof(boxes); i++) {
            struct part part = {0};
            good = good && !compute(&s, &boxes[i], by_ref, &part);
            ok(good && same_there(&global, &part, &boxes[i], (enum dtype)s.out[0].dtype),
               "%s %s, {%lld, %lld} at {%lld, %lld}, by %s: is the whole's", name, numbers, (long long)boxes[i].size[0],
               (long long)boxes[i].size[1], (long long)boxes[i].lo[0], (long long)boxes[i].lo[1],
               by_ref ? "the reference" : "the way chosen");
            free(part.result);
        }
        free(global.result);
    }
}

int
main(void)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) operand[i] = (float)(i % 97) - 48;
    for (size_t i = 0; i < countof(tried); i++) try_op(tried[i].op, tried[i].numbers);
    return done();
}
