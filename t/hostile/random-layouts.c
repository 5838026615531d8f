/* random-layouts.c - tests that random programs give the same values on one device and on many devices, with random
 * layouts.
 *
 * A seed determines the program: leaves, operators on earlier values, updates of leaves, early and late reads, and
 * dropped handles. The program runs in two worlds at once. One world has a single device. The other has placements
 * of one or two mesh axes on cpu or async devices, and converts operands to random layouts before each use. All
 * values are small integers, so every order of summation gives the same bits. */
#include "rille.h"
#include "t/lib/tap.h"

enum { LEAVES = 5, INPUTS = 3, POOL = 16, PLACES = 7, BYTES = 1 << 16, MOST = 9 };

struct world {
    struct rille_session *s;
    struct rille_tensor *t[POOL]; /* the program's tensors; leaves are first */
    const struct rille_place *place[PLACES];
    bool spread;
};

struct program {
    /* seeds of two generators; random: draws the computation; layouts: draws the layouts of the world `many` */
    uint64_t random, layouts;
    struct world one, many;
    bool gradients; /* true: values are f64, the program is short, and backward runs at the end of the program */
    bool traced;    /* true: the world `many` runs as a compiled step, so no value is read while the step is traced */
    int wrong;
    char last[200]; /* text of the current instruction, for messages */
};

/* ---- drawing numbers ---- */

static int
below(uint64_t *r, int n)
{
    return (int)(next_random(r) % (uint64_t)n);
}

static bool
chance(uint64_t *r, int in)
{
    return below(r, in) == 0;
}

static void
say(struct program *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->last, sizeof p->last, fmt, ap);
    va_end(ap);
}

static int
wrong(struct program *p, const char *what)
{
    if (p->wrong++ == 0) diag("%s: %s: %s", p->last, what, rille_error());
    return 1;
}

/* ---- drawing placements and layouts ---- */

/* Makes the placements of a world. kind: device kind; NULL: alternates between cpu and async. */
static void
places(struct world *w, const char *kind)
{
    static const struct {
        int naxis;
        int32_t size[2], rank[6];
    } mesh[PLACES] = {{1, {1}, {0}},      {1, {2}, {0, 1}},          {1, {3}, {2, 0, 1}},
                      {1, {2}, {3, 4}},   {2, {2, 2}, {0, 1, 2, 3}}, {2, {2, 3}, {5, 4, 3, 2, 1, 0}},
                      {2, {1, 2}, {1, 3}}};
    for (int i = 0; i < PLACES; i++)
        if (rille_place(w->s,
                        kind    ? kind
                        : i % 2 ? "async"
                                : "cpu",
                        mesh[i].naxis, mesh[i].size, mesh[i].rank, &w->place[i]))
            abort();
}

/* Returns a random layout for a tensor of ndim dimensions. */
static const struct rille_layout *
layout(struct program *p, const struct rille_place *place, int ndim, bool partial)
{
    char text[2][16];
    const char *sbp[2] = {text[0], text[1]};
    int32_t size[RILLE_AXES];
    const struct rille_layout *l;
    int naxis = rille_place_axes(place, size), order[2] = {1, 0};
    bool summed = partial && chance(&p->layouts, 4);
    for (int a = 0; a < naxis; a++) {
        int axis = ndim ? below(&p->layouts, ndim + 1) : 0;
        if (summed && chance(&p->layouts, 2))
            strcpy(text[a], "P");
        else if (axis < ndim)
            snprintf(text[a], sizeof text[a], "S(%d)", axis);
        else
            strcpy(text[a], "B");
    }
    bool reversed = naxis == 2 && chance(&p->layouts, 3);
    if (rille_layout(p->many.s, place, naxis, sbp, reversed ? order : NULL, ndim, &l)) abort();
    return l;
}

/* Returns an operand on this placement, for the world `many`, sometimes converted to a new layout. The caller
 * frees the handle. */
static struct rille_tensor *
operand(struct program *p, struct rille_tensor *t, const struct rille_place *place)
{
    struct rille_tensor *moved;
    bool there = rille_layout_place(rille_tensor_layout(t)) == place;
    if (there && chance(&p->layouts, 2)) return rille_tensor_hold(t);
    bool partial = strcmp(rille_tensor_dtype(t), "bool") != 0;
    if (!rille_tensor_to_global(t, layout(p, place, rille_tensor_ndim(t), partial), &moved)) return moved;
    if (rille_tensor_to_global(t, layout(p, place, rille_tensor_ndim(t), false), &moved)) wrong(p, "a move");
    return moved;
}

/* ---- comparing values ---- */

static unsigned char bytes[2][BYTES];

static void
compare(struct program *p, const struct rille_tensor *a, const struct rille_tensor *b, const char *what)
{
    bool alike = !strcmp(rille_tensor_dtype(a), rille_tensor_dtype(b)) && rille_tensor_ndim(a) == rille_tensor_ndim(b);
    for (int i = 0; alike && i < rille_tensor_ndim(a); i++)
        alike = rille_tensor_shape(a)[i] == rille_tensor_shape(b)[i];
    size_t n = (size_t)rille_tensor_numel(a) * rille_dtype_bytes(rille_tensor_dtype(a));
    if (!alike || n > BYTES) {
        wrong(p, "another type");
        return;
    }
    if (rille_tensor_read((struct rille_tensor *)a, bytes[0]) ||
        rille_tensor_read((struct rille_tensor *)b, bytes[1])) {
        wrong(p, what);
        return;
    }
    /* Compares two arrays of floats. 0 and -0 count as equal. */
    bool same = true;
    bool is_f32 = !strcmp(rille_tensor_dtype(a), "f32"), is_f64 = !strcmp(rille_tensor_dtype(a), "f64");
    for (int64_t i = 0; i < rille_tensor_numel(a) && same; i++)
        same = is_f32   ? ((float *)(void *)bytes[0])[i] == ((float *)(void *)bytes[1])[i]
               : is_f64 ? ((double *)(void *)bytes[0])[i] == ((double *)(void *)bytes[1])[i]
                        : true;
    if (!is_f32 && !is_f64) same = !memcmp(bytes[0], bytes[1], n);
    if (!same && p->wrong++ == 0)
        diag("%s: %s: another value; %s", p->last, what, rille_layout_text(p->many.s, rille_tensor_layout(b)));
}

static void
replace(struct world *w, int i, struct rille_tensor *t)
{
    rille_tensor_free(&w->t[i]);
    w->t[i] = t;
}

/* ---- instructions of a program ---- */

enum shape { PLAIN, AXIS, AXES, AXIS_KEEP, TWO_AXES, SLICE, PAD, FLAT, DTYPE, CHAIN };
struct instruction {
    const char *op;
    int nin;
    enum shape attrs;
    /* grows: results may be large and must be clamped; tied: gradients may be fractions, because of equal values */
    bool grows, tied;
};
static const struct instruction instruction[] = {
    {"add", 2, PLAIN, true, false},           {"sub", 2, PLAIN, true, false},
    {"mul", 2, PLAIN, true, false},           {"maximum", 2, PLAIN, false, false},
    {"minimum", 2, PLAIN, false, false},      {"neg", 1, PLAIN, false, false},
    {"abs", 1, PLAIN, false, false},          {"relu", 1, PLAIN, false, false},
    {"sign", 1, PLAIN, false, false},         {"square", 1, PLAIN, true, false},
    {"matmul", 2, PLAIN, true, false},        {"sum", 1, AXIS_KEEP, true, false},
    {"max", 1, AXIS_KEEP, false, true},       {"min", 1, AXIS_KEEP, false, true},
    {"argmax", 1, AXIS, false, false},        {"cumsum", 1, AXIS, true, false},
    {"transpose", 1, TWO_AXES, false, false}, {"flip", 1, AXES, false, false},
    {"slice", 1, SLICE, false, false},        {"pad", 1, PAD, false, false},
    {"reshape", 1, FLAT, false, false},       {"unsqueeze", 1, AXIS, false, false},
    {"concat", 2, AXIS, false, false},        {"lt", 2, PLAIN, false, false},
    {"eq", 2, PLAIN, false, false},           {"where", 3, PLAIN, false, false},
    {"remainder", 2, PLAIN, false, false},    {"cast", 1, DTYPE, false, false},
    {"embedding", 2, PLAIN, false, false},    {"tril", 1, PLAIN, false, false},
};
enum { INSTRUCTIONS = sizeof instruction / sizeof *instruction };

static int
attributes(struct program *p, const struct instruction *in, const struct rille_tensor *x, struct rille_attr *a,
           int64_t *list)
{
    static const char *const dtype[] = {"f32", "i64", "i32", "bool", "f64"};
    uint64_t *r = &p->random;
    int ndim = rille_tensor_ndim(x), axis = ndim ? below(r, ndim) : 0, other = ndim ? below(r, ndim) : 0;
    int64_t size = ndim ? rille_tensor_shape(x)[axis] : 1, start = below(r, (int)size + 1);
    switch (in->attrs) {
    case AXIS: a[0] = (struct rille_attr){.name = "axis", .kind = RILLE_INT, .i = axis}; return 1;
    case AXES:
        list[0] = axis;
        a[0] = (struct rille_attr){.name = "axes", .kind = RILLE_INTS, .n = 1, .list = list};
        return 1;
    case AXIS_KEEP:
        list[0] = axis;
        a[0] = (struct rille_attr){.name = "keepdim", .kind = RILLE_BOOL, .i = chance(r, 2)};
        a[1] = (struct rille_attr){.name = "axis", .kind = RILLE_INTS, .n = 1, .list = list};
        return ndim == 0 || chance(r, 4) ? 1 : 2;
    case TWO_AXES:
        a[0] = (struct rille_attr){.name = "axis0", .kind = RILLE_INT, .i = axis};
        a[1] = (struct rille_attr){.name = "axis1", .kind = RILLE_INT, .i = other};
        return 2;
    case SLICE:
        a[0] = (struct rille_attr){.name = "axis", .kind = RILLE_INT, .i = axis};
        a[1] = (struct rille_attr){.name = "start", .kind = RILLE_INT, .i = start};
        a[2] = (struct rille_attr){.name = "stop", .kind = RILLE_INT, .i = start + below(r, (int)(size - start) + 1)};
        a[3] = (struct rille_attr){.name = "step", .kind = RILLE_INT, .i = 1 + below(r, 2)};
        return 4;
    case PAD:
        list[0] = below(r, 2);
        list[1] = below(r, 3);
        a[0] = (struct rille_attr){.name = "pad", .kind = RILLE_INTS, .n = 2, .list = list};
        a[1] = (struct rille_attr){.name = "value", .kind = RILLE_FLOAT, .f = 3};
        return 2;
    case FLAT: /* merges all dimensions, or all dimensions except the last */
        list[0] = -1;
        list[1] = ndim ? rille_tensor_shape(x)[ndim - 1] : 1;
        a[0] = (struct rille_attr){.name = "shape", .kind = RILLE_INTS, .n = 1 + chance(r, 2), .list = list};
        return 1;
    case DTYPE:
        a[0] = (struct rille_attr){.name = "dtype", .kind = RILLE_DTYPE, .text = dtype[below(r, p->gradients ? 5 : 4)]};
        return 1;
    default: return 0;
    }
}

/* Calls op in one world. Operands: the tensors t[index[k]], then a number as the last operand, unless `number` is
 * 0. */
static int
call(struct program *p, struct world *w, const char *op, int nin, const int *index, int nattr,
     const struct rille_attr *attr, int64_t number, struct rille_tensor **out)
{
    struct rille_arg arg[4] = {{0}};
    struct rille_tensor *in[3] = {NULL};
    const struct rille_place *place = w->spread ? w->place[below(&p->layouts, PLACES)] : NULL;
    for (int i = 0; i < nin; i++) {
        in[i] = w->spread ? operand(p, w->t[index[i]], place) : rille_tensor_hold(w->t[index[i]]);
        arg[i] = (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = in[i]};
    }
    int narg = nin;
    if (number) arg[narg++] = (struct rille_arg){.kind = RILLE_ARG_INT, .i = number};
    int status = rille_call(w->s, rille_op_find(op), narg, arg, nattr, attr, out);
    for (int i = 0; i < nin; i++) rille_tensor_free(&in[i]);
    return status;
}

/* Clamps values to +-MOST, which keeps them exact. */
static int
cut(struct world *w, struct rille_tensor **t)
{
    struct rille_arg arg[3] = {{.kind = RILLE_ARG_TENSOR, .tensor = *t},
                               {.kind = RILLE_ARG_INT, .i = -MOST},
                               {.kind = RILLE_ARG_INT, .i = MOST}};
    struct rille_tensor *in = *t;
    int status = rille_call(w->s, rille_op_find("clamp"), 3, arg, 0, NULL, t);
    rille_tensor_free(&in);
    return status;
}

/* Executes an instruction in both worlds. Checks that the call succeeds in both worlds or fails in both. */
static bool
both(struct program *p, const struct instruction *in, const int *index, int nattr, const struct rille_attr *attr,
     int64_t number, struct rille_tensor **a, struct rille_tensor **b)
{
    int nin = number ? 1 : in->nin;
    int one = call(p, &p->one, in->op, nin, index, nattr, attr, number, a);
    int many = call(p, &p->many, in->op, nin, index, nattr, attr, number, b);
    if (!one && !many && in->grows) {
        one = cut(&p->one, a);
        many = cut(&p->many, b);
    }
    if (one != many) wrong(p, "one world refuses");
    if (!one && many) rille_tensor_free(a);
    if (one && !many) rille_tensor_free(b);
    return !one && !many;
}

static void
keep(struct program *p, struct rille_tensor *a, struct rille_tensor *b)
{
    int to = LEAVES + below(&p->random, POOL - LEAVES);
    bool early = chance(&p->random, 4);
    if (rille_tensor_numel(a) * 8 > BYTES || rille_tensor_numel(a) > 4000) {
        rille_tensor_free(&a);
        rille_tensor_free(&b);
        return;
    }
    replace(&p->one, to, a);
    replace(&p->many, to, b);
    if (early && !p->traced) compare(p, a, b, "read at once");
}

/* Looks up rows of a table. Indices are random values modulo the number of rows. */
static bool
look_up(struct program *p, const int *index)
{
    struct rille_tensor *ids[2], *out[2] = {NULL};
    const struct rille_tensor *table = p->one.t[index[1]];
    static const struct instruction remainder = {"remainder", 1, PLAIN, false, false};
    if (rille_tensor_ndim(table) == 0 || rille_tensor_shape(table)[0] == 0) return false;
    if (!both(p, &remainder, index, 0, NULL, rille_tensor_shape(table)[0], &ids[0], &ids[1])) return false;
    struct world *w[2] = {&p->one, &p->many};
    int status[2];
    for (int i = 0; i < 2; i++) {
        const struct rille_place *place = rille_layout_place(rille_tensor_layout(ids[i]));
        struct rille_tensor *t =
            w[i]->spread ? operand(p, w[i]->t[index[1]], place) : rille_tensor_hold(w[i]->t[index[1]]);
        struct rille_arg arg[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = ids[i]},
                                   {.kind = RILLE_ARG_TENSOR, .tensor = t}};
        status[i] = rille_call(w[i]->s, rille_op_find("embedding"), 2, arg, 0, NULL, &out[i]);
        rille_tensor_free(&t);
        rille_tensor_free(&ids[i]);
    }
    if (status[0] != status[1]) wrong(p, "one world refuses");
    if (!status[0] && !status[1]) keep(p, out[0], out[1]);
    return !status[0];
}

static bool
step(struct program *p)
{
    const struct instruction *in = &instruction[below(&p->random, INSTRUCTIONS)];
    int index[3];
    int64_t list[2];
    struct rille_attr attr[4];
    struct rille_tensor *a, *b;
    for (int i = 0; i < 3; i++) index[i] = below(&p->random, POOL);
    for (int i = 0; i < 3; i++)
        if (!p->one.t[index[i]]) return false;
    if (p->gradients && in->tied) return false;
    say(p, "%s(%d, %d, %d)", in->op, index[0], index[1], index[2]);
    if (!strcmp(in->op, "embedding")) return look_up(p, index);
    int nattr = attributes(p, in, p->one.t[index[0]], attr, list);
    bool number = in->nin == 2 && in->attrs == PLAIN && strcmp(in->op, "matmul") && chance(&p->random, 4);
    bool cuts = !strcmp(in->op, "remainder");
    if (cuts && !number) return false; /* skips a division by a tensor, which may contain 0 */
    if (!both(p, in, index, nattr, attr, number ? 2 + below(&p->random, 3) : 0, &a, &b)) return false;
    keep(p, a, b);
    return true;
}

/* Assigns another value to a leaf. The test's last comparison includes values computed from the leaf's old value. */
static void
update(struct program *p)
{
    int leaf = below(&p->random, LEAVES), from = below(&p->random, POOL);
    if (!p->one.t[from] || (p->traced && leaf < INPUTS)) return;
    say(p, "leaf %d = %d", leaf, from);
    int one = rille_tensor_assign(p->one.t[leaf], p->one.t[from]);
    const struct rille_place *place = rille_layout_place(rille_tensor_layout(p->many.t[leaf]));
    struct rille_tensor *t; /* has no partial values, because a partial maximum cannot become a partial sum */
    if (rille_tensor_to_global(p->many.t[from], layout(p, place, rille_tensor_ndim(p->many.t[from]), false), &t))
        wrong(p, "a move");
    int many = rille_tensor_assign(p->many.t[leaf], t);
    rille_tensor_free(&t);
    if (one != many) wrong(p, "one world refuses an update");
}

/* ---- programs ---- */

static void
leaf(struct program *p, int i)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7};
    uint64_t *r = &p->random;
    int ndim = i == 0 ? 0 : 1 + below(r, 3);
    int64_t shape[3], n = 1;
    const char *dtype = i % 2 ? (p->gradients ? "f64" : "f32") : chance(r, 2) ? "i64" : "i32";
    for (int k = 0; k < ndim; k++)
        n *= shape[k] = i < 3 ? 4 : sizes[below(r, 6)]; /* equal sizes, so that operands sometimes match */
    union {
        double f64[400];
        float f32[400];
        int64_t i64[400];
        int32_t i32[400];
    } v;
    for (int64_t k = 0; k < n; k++) {
        int value = below(r, 7) - 3;
        if (!strcmp(dtype, "f64"))
            v.f64[k] = value;
        else if (!strcmp(dtype, "f32"))
            v.f32[k] = (float)value;
        else if (!strcmp(dtype, "i64"))
            v.i64[k] = value;
        else
            v.i32[k] = value;
    }
    const struct rille_place *place = p->many.place[below(&p->layouts, PLACES)];
    if (rille_tensor_from_host(p->one.s, dtype, ndim, shape, &v, NULL, &p->one.t[i])) wrong(p, "a leaf");
    if (rille_tensor_from_host(p->many.s, dtype, ndim, shape, &v, layout(p, place, ndim, true), &p->many.t[i]))
        wrong(p, "a leaf");
    if (strcmp(dtype, "f64")) return;
    rille_tensor_set_requires_grad(p->one.t[i], true);
    rille_tensor_set_requires_grad(p->many.t[i], true);
}

static void
backward(struct program *p)
{
    static const struct instruction sum = {"sum", 1, PLAIN, false, false};
    for (int i = LEAVES; i < POOL; i++) {
        struct rille_tensor *a, *b;
        if (!p->one.t[i] || !rille_tensor_requires_grad(p->one.t[i])) continue;
        say(p, "backward of %d", i);
        if (!both(p, &sum, &i, 0, NULL, 0, &a, &b)) continue;
        int one = rille_tensor_backward(a), many = rille_tensor_backward(b);
        if (one != many) wrong(p, "one world has no gradient");
        if (!one) compare(p, a, b, "the sum");
        rille_tensor_free(&a);
        rille_tensor_free(&b);
        if (one || many) continue;
        for (int k = 0; k < LEAVES; k++) {
            struct rille_tensor *g = rille_tensor_grad(p->one.t[k]), *h = rille_tensor_grad(p->many.t[k]);
            if (!g != !h) wrong(p, "one world has no gradient of a leaf");
            if (g && h) compare(p, g, h, "a gradient");
            rille_tensor_free(&g);
            rille_tensor_free(&h);
        }
        return;
    }
}

static bool
run(struct rille_session *one, struct rille_session *many, const char *kind, uint64_t seed)
{
    struct program p = {
        .random = seed, .layouts = seed ^ 0x5bd1e995, .one.s = one, .many.s = many, .many.spread = true};
    places(&p.many, kind);
    p.gradients = seed % 3 == 0;
    for (int i = 0; i < LEAVES; i++) leaf(&p, i);
    int length = p.gradients ? 8 : 30;
    for (int n = 0, tries = 0; n < length && tries < 20 * length && !p.wrong; tries++) {
        if (!p.gradients && chance(&p.random, 6)) update(&p);
        n += step(&p);
    }
    if (p.gradients && !p.wrong) backward(&p);
    for (int i = 0; i < POOL && !p.wrong; i++)
        if (p.one.t[i]) say(&p, "value %d", i), compare(&p, p.one.t[i], p.many.t[i], "at the end");
    for (int i = 0; i < POOL; i++) {
        rille_tensor_free(&p.one.t[i]);
        rille_tensor_free(&p.many.t[i]);
    }
    return p.wrong == 0;
}

/* ---- compiled steps ---- */

/* Runs a compiled step and compares its results and updated variables with those of one device. */
static void
call_graph(struct program *p, struct rille_graph *g, struct rille_tensor *const *in, int nout, const int *index)
{
    struct rille_tensor *out[POOL] = {NULL};
    if (rille_graph_run(g, INPUTS, in, out)) {
        wrong(p, "the call");
        return;
    }
    for (int i = 0; i < nout; i++) {
        say(p, "result %d, value %d", i, index[i]);
        if (!p->wrong) compare(p, p->one.t[index[i]], out[i], "of a compiled step");
        rille_tensor_free(&out[i]);
    }
    for (int i = INPUTS; i < LEAVES && !p->wrong; i++) {
        say(p, "leaf %d", i);
        compare(p, p->one.t[i], p->many.t[i], "after a compiled step");
    }
}

static void
end_trace(struct program *p, struct rille_tensor *const *in)
{
    struct rille_tensor *result[POOL];
    struct rille_graph *g = NULL;
    int index[POOL], nout = 0;
    for (int i = LEAVES; i < POOL; i++)
        if (p->many.t[i]) {
            index[nout] = i;
            result[nout++] = p->many.t[i];
        }
    say(p, "the trace");
    if (rille_trace_end(p->many.s, nout, result, &g))
        wrong(p, "its end");
    else
        call_graph(p, g, in, nout, index);
    rille_graph_free(&g);
}

static bool
run_traced(struct rille_session *one, struct rille_session *many, const char *kind, uint64_t seed)
{
    struct program p = {
        .random = seed, .layouts = seed ^ 0x5bd1e995, .one.s = one, .many.s = many, .many.spread = true};
    struct rille_tensor *in[INPUTS];
    places(&p.many, kind);
    p.traced = true;
    for (int i = 0; i < LEAVES; i++) leaf(&p, i);
    for (int i = 0; i < INPUTS; i++) in[i] = p.many.t[i];
    if (rille_trace_begin(many, &(struct rille_graph_options){0}, INPUTS, in, p.many.t)) abort();
    for (int n = 0, tries = 0; n < 20 && tries < 400 && !p.wrong; tries++) {
        if (chance(&p.random, 6)) update(&p);
        n += step(&p);
    }
    if (p.wrong)
        rille_trace_abort(many);
    else
        end_trace(&p, in);
    for (int i = 0; i < POOL; i++) {
        rille_tensor_free(&p.one.t[i]);
        rille_tensor_free(&p.many.t[i]);
    }
    for (int i = 0; i < INPUTS; i++) rille_tensor_free(&in[i]);
    return p.wrong == 0;
}

static int
open_worlds(const char *bus, int threads, struct rille_session **one, struct rille_session **many)
{
    struct rille_options alone = {.devices = "cpu:1", .threads = 1, .bus = "zmq"};
    struct rille_options spread = {.devices = "cpu:6,async:6", .threads = threads, .bus = bus};
    return rille_open(&alone, one) || rille_open(&spread, many);
}

static void
programs(const char *bus, int threads, const char *kind, uint64_t seed, int n)
{
    struct rille_session *one, *many;
    struct rille_counters c;
    int failed = 0, wrong_steps = 0;
    if (open_worlds(bus, threads, &one, &many)) abort();
    for (int i = 0; i < n; i++) {
        unsigned long long each = seed + (uint64_t)i;
        if (!run(one, many, kind, each) && failed++ == 0) diag("first failure: SEED=%llu", each);
        if (!run_traced(one, many, kind, each) && wrong_steps++ == 0) diag("compiled: first failure: SEED=%llu", each);
    }
    if (!kind) kind = "cpu and async";
    ok(failed == 0, "%d programs on %s devices, %s, threads: %d: values equal those of one device", n, kind, bus,
       threads);
    ok(wrong_steps == 0, "the same programs as compiled steps: values equal those of one device");
    rille_count(many, &c);
    ok(c.acts > n && c.live_bytes == 0, "%s, %s: the programs ran, and all their memory is freed", kind, bus);
    rille_close(&one);
    rille_close(&many);
}

/* Runs programs that once failed. Their causes: a running sum of a scalar; moves and views of empty tensors;
 * differences of bools; products whose operands both lack the batch dimension; a new version that was moved before
 * its data was checked. */
static void
found_once(void)
{
    static const uint64_t seed[] = {4, 11, 97, 1132, 1730, 12298, 22837, 31883, 40387, 60023};
    for (size_t i = 0; i < sizeof seed / sizeof *seed; i++) {
        programs("zmq", 2, "cpu", seed[i], 1);
        programs("zmq", 2, "async", seed[i], 1);
    }
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = share_some(getenv("RILLE_LONG") ? 3000 : 150, 25, &seed);
    found_once();
    programs("zmq", 1, "cpu", seed, n);
    programs("zmq", 4, "cpu", seed + 10000, n);
    programs("zmq", 3, "async", seed + 20000, n);
    programs("sim:1", 6, "cpu", seed + 30000, n);
    programs("sim:2", 4, "async", seed + 40000, n);
    programs("zmq", 3, NULL, seed + 50000, n);
    programs("sim:3", 4, NULL, seed + 60000, n);
    return done();
}
