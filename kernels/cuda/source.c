/* source.c - writes kernel texts: inserts the bodies that operators' records contain into the loops of an engine. */
#include "kernels/cuda/source.h"
#include "kernels/cuda/after.h"
#include "kernels/cuda/attention.h"

#include "kernels/op/base/build.h"
#include "runtime/base/error.h"
#include "sbp/rule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

extern const struct op op_add, op_cast, op_maximum, op_minimum;

enum { TILE = 64 }; /* rows and columns of a tile of results; equals TILE in product.cuh */

void
cuda_source_fill(const struct cuda_source *s, int nin, void *const *in, void *const *out, void *scratch, uint64_t piece,
                 uint64_t *to)
{
    memcpy(to, s->word, sizeof *to * (size_t)s->nword);
    for (int i = 0; i < s->nfill; i++) {
        const struct cuda_fill *f = &s->fill[i];
        char *data = f->index < nin ? in[f->index] : out[f->index - nin];
        if (f->what == FILL_PIECE)
            to[f->word] = piece;
        else if (f->what == FILL_SCRATCH)
            to[f->word] = (uintptr_t)scratch + (uintptr_t)f->skip;
        else
            to[f->word] = (uintptr_t)(data + f->skip);
    }
}

/* Writes the declaration of the kernel's member n<i>, the number of positions, and the beginning of a loop over
 * positions p < n<i>. All threads divide the loop; each iteration covers `step` positions. */
static void
each_of(struct making *m, int i, int64_t n, int step)
{
    str_addf(&m->member, "    int64_t n%d;\n", i);
    making_word(m, (uint64_t)n);
    str_addf(&m->body, "    EACH_OF(%d, %d) {\n", i, step);
}

/* ---- choosing packs: elements of an innermost loop that a thread accesses at once ---- */

enum { PACK_BYTES = 16 };

/* Returns the name, in device.cuh, of a view's layout along the innermost loop. */
static const char *
lying_of(int nloop, const int64_t *stride)
{
    return stride[nloop - 1] == 0 ? "IN_PLACE" : stride[nloop - 1] == 1 ? "TOGETHER" : "APART";
}

/* Returns the largest pack that a view allows: a power of two, at most `most` elements. */
static int
pack_of(int most, int nloop, const int64_t *size, const int64_t *stride, size_t bytes)
{
    int n = MIN(most, PACK_BYTES / (int)bytes);
    while (n > 1 && size[nloop - 1] % n) n /= 2;
    for (int k = 0; k < nloop - 1 && stride[nloop - 1] == 1; k++)
        while (n > 1 && size[k] > 1 && stride[k] % n) n /= 2;
    return n;
}

/* Extends the C++ condition `whole`: if the elements of this view are contiguous, they must be aligned to packs. */
static void
add_alignment_test(struct str *s, const char *lying, const char *name, int i, size_t pack_bytes)
{
    if (!strcmp(lying, "TOGETHER"))
        str_addf(s, "%s(uint64_t)a.%s%d.data %% %d == 0", s->len ? " && " : "", name, i, (int)pack_bytes);
}

/* ---- engine "each" (each thread computes some elements): chains of element-wise operators ---- */

/* Returns the C++ text that computes a step (its body), and sets the type in which the step computes. */
static const char *
body_of(const struct call *c, enum compute *type)
{
    *type = chain_type(c);
    return *type == COMP_I64 ? c->op->eltwise.i_text : c->op->eltwise.f_text;
}

static void
source_add_step(struct making *m, int i, const struct call *c)
{
    enum compute type;
    const char *body = body_of(c, &type);
    str_addf(&m->head, "struct step%d {\n    typedef %s real;\n", i,
             type == COMP_I64 ? "double" : making_compute(type));
    making_add_names(&m->head, c->op);
    str_addf(&m->head, "    STEP_OF(%s)\n    {\n        (void)c;\n        %s\n    }\n};\n", making_compute(type), body);
}

/* Marks the operands of a chain that are numbers (scalars) of a call. A number is stored in a word of memory. */
static void
find_step_numbers(int nstep, const struct fuse_step *step, bool *number)
{
    for (int i = 0; i < nstep; i++)
        for (int k = 0; k < step[i].call->nin; k++)
            if (!step[i].arg[k].step && step[i].arg[k].index >= 0 && step[i].call->in[k].weak)
                number[step[i].arg[k].index] = true;
}

static void
add_step_value(struct making *m, int i, const struct fuse_step *s)
{
    enum compute type;
    char name[16];
    body_of(s->call, &type);
    snprintf(name, sizeof name, "c%d", i);
    making_add_call(&m->head, name, s->call);
    str_addf(&m->head, "        const %s x%d[] = {", making_compute(type), i);
    for (int k = 0; k < s->call->nin; k++) {
        if (s->call->in[k].dtype == DT_NONE || (!s->arg[k].step && s->arg[k].index < 0))
            str_add(&m->head, "0, ");
        else
            str_addf(&m->head, "get<%s>(%c%d), ", making_compute(type), s->arg[k].step ? 's' : 'v', s->arg[k].index);
    }
    str_add(&m->head, "0};\n");
    str_addf(&m->head, "        STEP_VALUE(%d, %s)\n", i, making_memory((enum dtype)s->call->out[0].dtype));
}

bool
making_in_memory(const struct making_ends *e, int i)
{
    return e->view[i]->dtype != DT_NONE && !e->number[i];
}

/* Appends the parameters of a chain's function: the leading step's value, the values of operands, and the addresses
 * of results. */
static void
add_parameters(struct str *s, int lead, const struct fuse_step *step, const struct making_ends *e)
{
    const char *before = "";
    if (lead >= 0) {
        str_addf(s, "%s s%d", making_memory((enum dtype)step[lead].call->out[0].dtype), lead);
        before = ", ";
    }
    for (int i = 0; i < e->nin + e->nout; i++) {
        if (e->view[i]->dtype == DT_NONE) continue;
        const char *memory = making_memory((enum dtype)e->view[i]->dtype);
        str_addf(s, i < e->nin ? "%s%s v%d" : "%s%s &y%d", before, memory, i < e->nin ? i : i - e->nin);
        before = ", ";
    }
}

static void
add_arguments(struct str *s, const struct making_ends *e)
{
    const char *before = "";
    for (int i = 0; i < e->nin + e->nout; i++) {
        if (e->view[i]->dtype == DT_NONE) continue;
        const char *form = i >= e->nin ? "%sy%d.of[i]" : e->number[i] ? "%sv%d" : "%sv%d.of[i]";
        str_addf(s, form, before, i < e->nin ? i : i - e->nin);
        before = ", ";
    }
}

/* Writes the declarations of operand v<i> or result y<i> of a chain, and of the position of a pack. */
static void
add_lane(struct making *m, char name, int i, int index, const struct lane *l, const struct elt *walk)
{
    str_addf(&m->member, "    struct { void *data; int64_t stride[%d]; } %c%d;\n", walk->nloop, name, i);
    making_fill(m, FILL_ADDRESS, index, 0);
    making_words(m, walk->nloop, l->stride);
    str_addf(&m->body, "        LANE_AT(%c%d, %s, %d, %s)\n", name, i, making_memory((enum dtype)l->dtype), walk->nloop,
             making_places(walk->numel));
}

void
making_add_chain(struct making *m, int lead, int nstep, const struct fuse_step *step, const struct making_ends *e)
{
    for (int i = 0; i < nstep; i++) {
        making_what(m, step[i].call->op->name);
        if (i != lead) source_add_step(m, i, step[i].call);
    }
    str_add(&m->head, "struct chain {\n    static METHOD void of(");
    add_parameters(&m->head, lead, step, e);
    str_add(&m->head, ")\n    {\n");
    for (int i = 0; i < nstep; i++) {
        if (i != lead) add_step_value(m, i, &step[i]);
        if (step[i].out >= 0) str_addf(&m->head, "        y%d = s%d;\n", step[i].out, i);
    }
    str_add(&m->head, "    }\n};\n");
}

/* Returns the number of elements that a thread accesses at once. Sets *whole to the run-time condition that every
 * view with contiguous elements is aligned. */
static int
chain_pack(const struct making_ends *e, const struct elt *walk, struct str *whole)
{
    int pack = PACK_BYTES;
    for (int i = 0; i < e->nin + e->nout; i++)
        if (making_in_memory(e, i))
            pack =
                pack_of(pack, walk->nloop, walk->size, e->lane[i].stride, dtype_bytes((enum dtype)e->view[i]->dtype));
    for (int i = 0; i < e->nin + e->nout; i++)
        if (making_in_memory(e, i))
            add_alignment_test(whole, lying_of(walk->nloop, e->lane[i].stride), i < e->nin ? "v" : "y",
                               i < e->nin ? i : i - e->nin, (size_t)pack * dtype_bytes((enum dtype)e->view[i]->dtype));
    return pack;
}

/* Writes code that reads the number operands once per thread. */
static void
add_numbers(struct making *m, const struct making_ends *e)
{
    for (int i = 0; i < e->nin; i++) {
        if (!e->number[i] || e->view[i]->dtype == DT_NONE) continue;
        str_addf(&m->member, "    const int64_t *v%d;\n", i);
        making_fill(m, FILL_ADDRESS, i, 0);
        str_addf(&m->body, "    NUMBER_OF(%d, %s, v%d)\n", i, making_memory((enum dtype)e->view[i]->dtype), i);
    }
}

/* Writes code that reads a pack of each operand, computes the chain for each element, and writes a pack of each
 * result. */
static void
add_packs(struct making *m, const struct making_ends *e, const struct elt *walk, int pack)
{
    int last = walk->nloop - 1;
    for (int i = 0; i < e->nin; i++) {
        if (!making_in_memory(e, i)) continue;
        add_lane(m, 'v', i, i, &e->lane[i], walk);
        str_addf(&m->body, "        BRING_LANE(%d, %d, %s, %d)\n", i, pack, lying_of(walk->nloop, e->lane[i].stride),
                 last);
    }
    for (int i = 0; i < e->nout; i++) {
        const struct view *y = e->view[e->nin + i];
        if (!making_in_memory(e, e->nin + i)) continue;
        add_lane(m, 'y', i, e->nin + i, &e->lane[e->nin + i], walk);
        str_addf(&m->body, "        pack<%s, %d> y%d;\n", making_memory((enum dtype)y->dtype), pack, i);
    }
    str_addf(&m->body, "#pragma unroll\n        for (int i = 0; i < %d; i++) chain::of(", pack);
    add_arguments(&m->body, e);
    str_add(&m->body, ");\n");
    for (int i = 0; i < e->nout; i++)
        if (making_in_memory(e, e->nin + i))
            str_addf(&m->body, "        LEAVE_LANE(%d, %d, %s, %d)\n", i, pack,
                     lying_of(walk->nloop, e->lane[e->nin + i].stride), last);
}

static int
make_chain(struct arena *a, int nstep, const struct fuse_step *step, struct making_ends *e, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    struct elt walk = {.nin = e->nin, .nout = e->nout, .lane = e->lane};
    struct str whole = {0};
    chain_lanes(&walk, e->view[e->nin], e->view);
    making_add_chain(&m, -1, nstep, step, e);
    int pack = chain_pack(e, &walk, &whole);
    add_numbers(&m, e);
    str_addf(&m.body, "    ALIGNED(whole, %s)\n", whole.len ? str_text(&whole) : "true");
    str_free(&whole);
    each_of(&m, 0, walk.numel, pack);
    str_addf(&m.member, "    int64_t size[%d];\n", walk.nloop);
    making_words(&m, walk.nloop, walk.size);
    add_packs(&m, e, &walk, pack);
    str_add(&m.body, "    }\n");
    return making_finish(&m, "each", walk.numel / pack);
}

int
cuda_source_chain(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin, const struct view *in,
                  int nout, const struct view *out, struct cuda_source *s)
{
    struct making_ends e = {.nin = nin, .nout = nout};
    if (nin + nout > MAKING_LANES || nstep > MAKING_STEPS)
        return fail(E_KERNEL, "a chain of %d steps is too long for a GPU kernel", nstep);
    for (int i = 0; i < nin + nout; i++) e.view[i] = i < nin ? &in[i] : &out[i - nin];
    find_step_numbers(nstep, step, e.number);
    return lead < 0 ? make_chain(a, nstep, step, &e, s) : making_epilogue(a, lead, nstep, step, &e, s);
}

/* ---- engine "copy" ---- */

/* Makes the loops over a single view; contiguous neighbouring dimensions are merged. */
static int
loops_of(const struct view *v, int64_t *size, int64_t *stride)
{
    int n = 0;
    for (int d = 0; d < v->ndim; d++) {
        if (v->dim[d] == 1) continue;
        if (n && stride[n - 1] == v->stride[d] * v->dim[d])
            size[n - 1] *= v->dim[d], stride[n - 1] = v->stride[d];
        else
            size[n] = v->dim[d], stride[n++] = v->stride[d];
    }
    if (n == 0) size[n] = 1, stride[n++] = 0;
    return n;
}

/* The source or the destination of a copy. */
struct side {
    int n;
    int64_t size[MAX_DIM], stride[MAX_DIM];
    size_t bytes;
};

static struct side
view_side(const struct view *v)
{
    struct side s = {.bytes = dtype_bytes((enum dtype)v->dtype)};
    s.n = loops_of(v, s.size, s.stride);
    return s;
}

/* Writes the declaration of the member <name><i> for one side of copy i, and code that sets <name> to the offset
 * of position p. */
static void
add_side(struct making *m, char name, int i, int index, const struct side *s, int64_t skip, int64_t numel)
{
    str_addf(&m->member, "    struct { void *data; int64_t size[%d], stride[%d]; } %c%d;\n", s->n, s->n, name, i);
    making_fill(m, FILL_ADDRESS, index, skip * (int64_t)s->bytes);
    making_words(m, s->n, s->size);
    making_words(m, s->n, s->stride);
    str_addf(&m->body, "        SIDE_AT(%c, %d, %d, %s)\n", name, i, s->n, making_places(numel));
}

/* Adds copy i, which copies operand i to its window of the result with index `result`. */
static void
add_copy(struct making *m, int i, int result, const struct view *from, int64_t from_skip, const struct view *to,
         int64_t to_skip, int pack)
{
    static const char *const unit[] = {[1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"};
    bool same = from->dtype == to->dtype;
    enum dtype source = (enum dtype)from->dtype, target = (enum dtype)to->dtype;
    const char *x = same ? unit[dtype_bytes(source)] : making_memory(source);
    const char *y = same ? unit[dtype_bytes(target)] : making_memory(target);
    struct side in = view_side(from), out = view_side(to);
    struct str whole = {0};
    add_alignment_test(&whole, lying_of(in.n, in.stride), "x", i, (size_t)pack * in.bytes);
    add_alignment_test(&whole, lying_of(out.n, out.stride), "y", i, (size_t)pack * out.bytes);
    str_addf(&m->body, "    ALIGNED(whole%d, %s)\n", i, whole.len ? str_text(&whole) : "true");
    str_free(&whole);
    each_of(m, i, view_numel(to), pack);
    add_side(m, 'x', i, i, &in, from_skip, view_numel(to));
    add_side(m, 'y', i, result, &out, to_skip, view_numel(to));
    str_addf(&m->body, "        BRING_SIDE(%d, %d, %s, %s, %d)\n", i, pack, lying_of(in.n, in.stride), x, in.n - 1);
    if (same)
        str_addf(&m->body, "        const auto &w = v;\n");
    else
        str_addf(&m->body, "        CONVERT_PACK(%d, %s, %s)\n", pack, y, making_compute(compute_of(target)));
    str_addf(&m->body, "        LEAVE_SIDE(%d, %d, %s, %s, %d)\n    }\n", i, pack, lying_of(out.n, out.stride), y,
             out.n - 1);
}

/* Returns the number of elements in a pack: as many as the strides of both source and destination allow. */
static int
copy_pack(const struct view *from, const struct view *to)
{
    struct side in = view_side(from), out = view_side(to);
    int pack = pack_of(PACK_BYTES, in.n, in.size, in.stride, in.bytes);
    return pack_of(pack, out.n, out.size, out.stride, out.bytes);
}

int
cuda_source_copy(struct arena *a, const struct view *from, const struct view *to, int64_t skip, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    assert(from->dtype == to->dtype && view_numel(from) == view_numel(to));
    int pack = copy_pack(from, to);
    add_copy(&m, 0, 1, from, skip, to, 0, pack);
    return making_finish(&m, "copy", view_numel(to) / pack);
}

/* Writes a kernel that copies each operand into its window of the result. */
static int
make_joined(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    int64_t threads = 0;
    making_what(&m, k->call->op->name);
    for (int i = 0; i < k->call->nin; i++) {
        struct view window;
        int64_t skip;
        k->call->op->host.window(k, i, &window, &skip);
        int pack = copy_pack(&k->in[i], &window);
        add_copy(&m, i, k->call->nin, &k->in[i], 0, &window, skip, pack);
        threads = MAX(threads, view_numel(&window) / pack);
    }
    return making_finish(&m, "copy", threads);
}

/* ---- writing combinations: several operands are added, or their maximum or minimum is taken ---- */

static const struct op *
combining(enum reduce r, enum dtype d)
{
    if (r == RED_SUM) return d == DT_BOOL ? &op_maximum : &op_add; /* the sum of bools is their logical or */
    return r == RED_MAX ? &op_maximum : &op_minimum;
}

/* Returns the neutral element of a reduction as C++ text. For bool, the text is the byte that stores the element. */
static const char *
identity_of(enum reduce r, enum dtype d)
{
    static const char *const least[NDTYPE] = {
        [DT_I64] = "INT64_MIN", [DT_I32] = "-2147483648ll", [DT_U8] = "(int64_t)0", [DT_BOOL] = "(int64_t)0"};
    static const char *const most[NDTYPE] = {
        [DT_I64] = "INT64_MAX", [DT_I32] = "2147483647ll", [DT_U8] = "255ll", [DT_BOOL] = "1ll"};
    if (r == RED_SUM) return "0.0f";
    if (dtype_is_float(d)) return r == RED_MAX ? "-INFINITY" : "INFINITY";
    return r == RED_MAX ? least[d] : most[d];
}

static int
make_identity(struct arena *a, enum reduce r, const struct view *to, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    enum dtype d = (enum dtype)to->dtype;
    struct side side = view_side(to);
    each_of(&m, 0, view_numel(to), 1);
    add_side(&m, 'y', 0, 0, &side, 0, view_numel(to));
    str_addf(&m.body, "        STORE(y, %s, %s)\n    }\n", making_memory(d), identity_of(r, d));
    return making_finish(&m, "each", view_numel(to));
}

int
cuda_source_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to,
                    struct cuda_source *s)
{
    if (nin == 0) return make_identity(a, r, to, s);
    struct promotion p = {0};
    struct type type = type_of((enum dtype)to->dtype, to->ndim, to->dim);
    promotion_add(&p, &type);
    for (int i = 0; i < nin; i++) {
        struct type t = type_of((enum dtype)in[i].dtype, in[i].ndim, in[i].dim);
        promotion_add(&p, &t);
    }
    struct type sum = type_of(promotion_end(&p), to->ndim, to->dim);
    const struct type pair[] = {sum, sum};
    static const struct attr none[OP_ATTR];
    struct call add = {.op = combining(r, (enum dtype)sum.dtype), .nin = 2, .nout = 1, .in = pair, .out = &sum};
    struct call round = {.op = &op_cast, .nin = 1, .nout = 1, .in = &sum, .out = &type, .attr = none};
    add.attr = none;
    if (nin > CUDA_SOURCES) return fail(E_KERNEL, "%d operands are too many for a GPU kernel", nin);
    struct fuse_step step[MAKING_LANES];
    for (int i = 1; i < nin; i++) {
        step[i - 1] = (struct fuse_step){.call = &add, .out = -1};
        step[i - 1].arg[0] = (struct fuse_arg){.step = i > 1, .index = i > 1 ? i - 2 : 0};
        step[i - 1].arg[1] = (struct fuse_arg){.index = i};
    }
    step[nin - 1] = (struct fuse_step){.call = &round};
    step[nin - 1].arg[0] = (struct fuse_arg){.step = nin > 1, .index = MAX(nin - 2, 0)};
    return cuda_source_chain(a, -1, nin, step, nin, in, 1, to, s);
}

/* ---- engine "each": operators whose elements are functions of their positions ---- */

static void
add_position(struct making *m, const struct kcall *k)
{
    str_addf(&m->head, "    POSITION_OF(%d, %d)\n", k->out[0].ndim, dtype_digits((enum dtype)k->call->out[0].dtype));
}

/* Writes declarations of the key and of the place in the random sequence. The place is computed as by random_at()
 * of kernels/cpu/math/random.h. */
static void
add_draw(struct making *m, const struct kcall *k)
{
    const struct op *op = k->call->op;
    long long run = (long long)k->call->attr[op_attr_find(op, "run")].i;
    long long pieces = (long long)k->call->attr[op_attr_find(op, "micro_batches")].i;
    str_addf(&m->head, "    RANDOM_KEY(%d, %d)\n", k->call->nin - 2, k->call->nin - 1);
    str_addf(&m->head, "    METHOD uint64_t piece() const { return %s; }\n", run ? "0" : "a.piece");
    if (run <= 0)
        str_add(&m->head, "    METHOD uint64_t draw() const { return (uint64_t)index(); }\n");
    else
        str_addf(&m->head, "    DRAW_OF_RUNS(%lldu, %lldu)\n", run, pieces);
}

static int
make_element(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    const struct call *c = k->call;
    const struct view *y = &k->out[0];
    making_what(&m, c->op->name);
    each_of(&m, 0, view_numel(y), 1);
    str_add(&m.member, "    uint64_t piece;\n");
    making_fill(&m, FILL_PIECE, 0, 0);
    str_addf(&m.head, "struct element {\n    const args &a;\n    typedef %s real;\n",
             compute_of((enum dtype)y->dtype) == COMP_F32 ? "float" : "double");
    making_add_names(&m.head, c->op);
    for (int i = 0; i < MAX(c->nin, op_noperand(c->op)); i++) making_add_operand(&m, k, i);
    making_add_whole(&m, 'y', 0, c->nin, y);
    add_position(&m, k);
    if (c->op->flags & OP_RANDOM) add_draw(&m, k);
    str_addf(&m.head, "    METHOD auto of(const call *c) const\n    {\n        (void)c;\n        %s\n    }\n};\n",
             c->op->gpu.element);
    str_addf(&m.body, "        ELEMENT_AT(%s)\n", making_places(view_numel(y)));
    making_add_call(&m.body, "c", c);
    str_addf(&m.body, "        STORE(o, %s, e.of(&c))\n    }\n", making_memory((enum dtype)y->dtype));
    return making_finish(&m, "each", view_numel(y));
}

/* ---- writing finders: kernels that search for invalid data ---- */

static int
finders_of(int64_t n)
{
    enum { PART = 1 << 12 };
    return (int)MIN((n + PART - 1) / PART, CUDA_FINDERS);
}

int
cuda_source_find(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    struct allowed w = {0};
    k->call->op->host.allows(k, &w);
    making_what(&m, "find");
    making_what(&m, k->call->op->name);
    const struct view *x = &k->in[w.operand];
    int64_t n = view_numel(x);
    str_add(&m.member, "    int64_t n, lo, count, has_also, also, *scratch;\n");
    making_words(&m, 5, (int64_t[]){n, w.lo, (int64_t)w.count, w.also != NULL, w.also ? *w.also : 0});
    making_fill(&m, FILL_SCRATCH, 0, 0);
    struct side side = view_side(x);
    str_add(&m.body, "    const auto at = [&](int64_t p) {\n");
    add_side(&m, 'x', 0, w.operand, &side, 0, n);
    str_addf(&m.body, "        return get<int64_t>(((const %s *)a.x0.data)[x]);\n    };\n",
             making_memory((enum dtype)x->dtype));
    if (w.after) {
        str_add(&m.member, "    const void *last;\n");
        making_fill(&m, FILL_ADDRESS, w.after - 1, 0);
        str_addf(&m.body, "    ALLOWED_AFTER(%s)\n", making_memory((enum dtype)k->in[w.after - 1].dtype));
    } else {
        str_add(&m.body, "    ALLOWED_RANGE\n");
    }
    str_addf(&m.body, "    FIND_INVALID(%d)\n", CUDA_BLOCK);
    s->scratch_bytes = (size_t)finders_of(n) * sizeof(struct finding);
    return making_finish(&m, "find", (int64_t)finders_of(n) * CUDA_BLOCK);
}

/* ---- engine "product" ---- */

/* Returns the C++ type of factors in shared memory. If operand 0 has 16 bits and operand 1 is exactly
 * representable in its type, this is the type of operand 0, and warps multiply. Otherwise the type is `real`. */
static const char *
source_factor(const struct kcall *k)
{
    enum dtype first = (enum dtype)k->in[0].dtype, second = (enum dtype)k->in[1].dtype, y = (enum dtype)k->out[0].dtype;
    bool halves = dtype_is_half(first) && (second == first || second == DT_U8) && compute_of(y) == COMP_F32;
    return halves ? making_memory(first) : "real";
}

/* Returns the C++ type of positions along dimensions. It is wide enough for sums of a few positions and
 * attributes. */
static const char *
coordinate_of(const struct kcall *k)
{
    const struct call *c = k->call;
    int64_t most = view_numel(&k->out[0]);
    for (int i = 0; i < c->nin; i++)
        if (k->in[i].dtype != DT_NONE) most = MAX(most, view_numel(&k->in[i]));
    for (int i = 0; i < op_nattr(c->op); i++)
        for (int j = 0; j < c->attr[i].n; j++) most = MAX(most, c->attr[i].list[j]);
    return most < INT32_MAX / 8 ? "int32_t" : "int64_t";
}

/* Returns the number of terms in each sum of a product. */
static double
sum_length(struct arena *a, const struct kcall *k)
{
    const struct call *c = k->call;
    struct rule rule;
    double n = (double)MAX(view_numel(&k->out[0]), 1);
    if (c->op->flops) return c->op->flops(c) / 2 / n;
    if (rule_of_call(a, c, NULL, &rule)) return err_clear(), 0;
    return rule_points(&rule) / n;
}

/* Returns the number of parts into which each sum is divided. It is more than one if there are few results. It
 * depends on sizes only, so results have the same bits on every GPU. */
static int64_t
product_parts(struct arena *a, const struct kcall *k)
{
    enum { TILES = 256, LEAST = 512, MOST = 64 };
    int64_t tiles = (view_numel(&k->out[0]) + TILE * TILE - 1) / (TILE * TILE), parts = 1;
    double length = sum_length(a, k);
    while (parts < MOST && tiles * parts < TILES && length / (double)parts > LEAST) parts *= 2;
    return parts;
}

/* Writes the members that the generated structs `product` share: the sizes, and store(), which writes a result. If
 * sums are divided into parts, also writes part_of(), which accesses the partial sums in scratch. */
static void
begin_product(struct making *m, const struct kcall *k, int64_t parts)
{
    const struct view *y = &k->out[0];
    const char *real = making_compute(compute_of((enum dtype)y->dtype)), *memory = making_memory((enum dtype)y->dtype);
    making_add_whole(m, 'y', 0, k->call->nin, y);
    str_add(&m->member, "    int64_t count, parts;\n");
    making_words(m, 2, (int64_t[]){view_numel(y), parts});
    str_addf(&m->head, "    RESULT_OF(%d, %s, %s)\n", y->ndim, real, memory);
    if (parts == 1) return;
    str_add(&m->member, "    void *scratch;\n");
    making_fill(m, FILL_SCRATCH, 0, 0);
    str_addf(&m->head, "    PART_OF(%s)\n", real);
}

/* Writes the pass that adds the parts of each sum, in order. */
static int
join_parts(struct arena *a, const struct kcall *k, int64_t parts, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    const char *real = making_compute(compute_of((enum dtype)k->out[0].dtype));
    making_what(&m, k->call->op->name);
    making_what(&m, "parts");
    str_add(&m.head, "struct product {\n    const args &a;\n");
    begin_product(&m, k, parts);
    str_add(&m.head, "};\n");
    str_addf(&m.body, "    JOIN_PARTS(%s)\n", real);
    return making_finish(&m, "product", view_numel(&k->out[0]));
}

/* Writes the kernel of a product. Launches as many blocks as if a tile had one row, which is an upper bound.
 * Blocks without a tile end at once. */
static int
make_product_source(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    const struct call *c = k->call;
    int64_t parts = product_parts(a, k), n = view_numel(&k->out[0]);
    const char *real = making_compute(compute_of((enum dtype)k->out[0].dtype)), *factor = source_factor(k);
    making_what(&m, c->op->name);
    making_fragments(&m);
    str_add(&m.head, cuda_product_text);
    str_addf(&m.head, "typedef %s real;\nstruct product : products<real, %s> {\n", real, factor);
    str_addf(&m.head, "    PRODUCT_OF(%s)\n", coordinate_of(k));
    s->parts.crowd = 2;
    making_add_names(&m.head, c->op);
    for (int i = 0; i < c->nin; i++) making_add_operand(&m, k, i);
    begin_product(&m, k, parts);
    str_add(&m.head, parts == 1 ? "    WRITE_RESULT\n" : "    WRITE_PART\n");
    str_addf(&m.head, "    METHOD void of(const call *c) const\n    {\n        (void)c;\n        %s\n    }\n};\n",
             c->op->gpu.product);
    str_add(&m.body, "    product p(a);\n");
    making_add_call(&m.body, "c", c);
    str_add(&m.body, "    p.of(&c);\n");
    TRY(making_finish(&m, "product", (n + TILE - 1) / TILE * parts * CUDA_BLOCK));
    if (parts == 1) return 0;
    s->scratch_bytes = (size_t)(n * parts) * compute_bytes(compute_of((enum dtype)k->out[0].dtype));
    s->then = ARENA_NEW(a, struct cuda_source);
    return join_parts(a, k, parts, s->then);
}

/* ---- calls ---- */

static int
make_view(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    const struct call *c = k->call;
    struct view window = k->out[0];
    int64_t skip = 0;
    if (c->op->host.view(c, &k->in[0], &window, &skip)) { /* a reshape has the same elements in row-major order */
        struct type t = type_of((enum dtype)k->in[0].dtype, k->in[0].ndim, k->in[0].dim);
        struct view dense = view_dense(&t, NULL);
        if (c->op->host.view(c, &dense, &window, &skip) || skip || !view_is_dense(&window))
            return fail(E_KERNEL, "%s: a GPU kernel cannot read a view with these strides", c->op->name);
        window = k->in[0];
    }
    return cuda_source_copy(a, &window, &k->out[0], skip, s);
}

int
cuda_source_call(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    const struct op *op = k->call->op;
    if (op->flags & OP_ELTWISE && op->eltwise.f_text) {
        struct fuse_step step = {.call = k->call};
        for (int i = 0; i < k->call->nin; i++) step.arg[i].index = i;
        return cuda_source_chain(a, -1, 1, &step, k->call->nin, k->in, 1, k->out, s);
    }
    if (op->flags & OP_VIEW) return make_view(a, k, s);
    if (op->host.window) return make_joined(a, k, s);
    if (op->gpu.element) return make_element(a, k, s);
    if (op->gpu.product) return make_product_source(a, k, s);
    if (op->host.folds != RED_NONE) return making_fold(a, k, s);
    if (making_attends(k)) return making_attention(a, k, s);
    if (op->gpu.pass || op->gpu.line) return making_line(a, k, s);
    return fail(E_KERNEL, "%s has no kernel for GPUs; move its operands to devices of kind cpu", op->name);
}
