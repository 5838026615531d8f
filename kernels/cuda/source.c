/* source.c - texts of kernels: what the records say, put between the loops of an engine. */
#include "kernels/cuda/source.h"

#include "kernels/cpu/chain.h"
#include "kernels/op/build.h"
#include "kernels/cpu/reduce.h"
#include "runtime/error.h"
#include "runtime/hash.h"
#include "runtime/str.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WORDS = 500, MOST_BLOCKS = 1 << 20 }; /* the argument of a kernel is 4 KiB at most */
enum { TILE = 64 };                               /* as in device.cuh */

/* A kernel under construction. The argument is a struct `args` whose members are `member`, in the order of the words.
 */
struct making {
    struct arena *arena;
    struct cuda_source *to;
    struct str member, head, body;
    int room, fill_room;
};

/* ---- the argument ---- */

static void
word(struct making *m, uint64_t w)
{
    ARENA_GROW(m->arena, m->to->word, m->to->nword + 1, m->room);
    m->to->word[m->to->nword++] = w;
}

static void
words(struct making *m, int n, const int64_t *w)
{
    for (int i = 0; i < n; i++) word(m, (uint64_t)w[i]);
}

/* A word that a run fills in. */
static void
fill(struct making *m, int what, int index, int64_t skip)
{
    ARENA_GROW(m->arena, m->to->fill, m->to->nfill + 1, m->fill_room);
    struct cuda_fill *f = &m->to->fill[m->to->nfill++];
    *f = (struct cuda_fill){.word = m->to->nword, .index = index, .skip = skip};
    f->what = what;
    word(m, 0);
}

void
cuda_source_fill(const struct cuda_source *s, int nin, void *const *in, void *const *out, uint64_t piece, uint64_t *to)
{
    memcpy(to, s->word, sizeof *to * (size_t)s->nword);
    for (int i = 0; i < s->nfill; i++) {
        const struct cuda_fill *f = &s->fill[i];
        char *data = f->index < nin ? in[f->index] : out[f->index - nin];
        if (f->what == FILL_PIECE)
            to[f->word] = piece;
        else if (f->what == FILL_NUMBER)
            memcpy(&to[f->word], data, sizeof *to);
        else
            to[f->word] = (uintptr_t)(data + f->skip);
    }
}

/* ---- the words of C++ ---- */

static const char *
memory_text(enum dtype d)
{
    static const char *const of[NDTYPE] = {
        [DT_F32] = "float",  [DT_F64] = "double", [DT_BF16] = "bf16",   [DT_F16] = "f16",
        [DT_BOOL] = "truth", [DT_U8] = "uint8_t", [DT_I32] = "int32_t", [DT_I64] = "int64_t"};
    return of[d];
}

static const char *
compute_text(enum compute c)
{
    static const char *const of[NCOMPUTE] = {"float", "double", "int64_t"};
    return of[c];
}

/* "APPROXIMATE" or "APPROXIMATE_TANH". */
static void
add_capitals(struct str *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) str_addf(s, "%c", toupper((unsigned char)text[i]));
}

/* The names of attributes and of their words, as bodies say them. */
static void
add_names(struct str *s, const struct op *op)
{
    for (int i = 0; i < op_nattr(op); i++) {
        const struct attr_def *a = &op->attr[i];
        str_add(s, "    enum { ");
        add_capitals(s, a->name, strlen(a->name));
        str_addf(s, " = %d };\n", i);
        const char *at = a->kind == ATTR_TEXT ? a->text : "";
        for (int k = 0; *at; k++) {
            size_t n = strcspn(at, "|");
            str_add(s, "    enum { ");
            add_capitals(s, a->name, strlen(a->name));
            str_add(s, "_");
            add_capitals(s, at, n);
            str_addf(s, " = %d };\n", k);
            at += n + (at[n] == '|');
        }
    }
}

static void
add_real(struct str *s, double f)
{
    if (f != f)
        str_add(s, "NAN");
    else if (f - f != 0)
        str_add(s, f < 0 ? "-INFINITY" : "INFINITY");
    else
        str_addf(s, "%.17g", f);
}

/* The call as bodies see it. */
static void
add_call(struct str *s, const char *name, const struct call *c)
{
    str_addf(s, "        const call %s = {{", name);
    for (int i = 0; i < op_nattr(c->op); i++) {
        const struct attr *a = &c->attr[i];
        str_addf(s, "{%d, %d, %" PRId64 "ll, ", a->set, a->n, a->i);
        add_real(s, a->f);
        str_add(s, ", {");
        for (int k = 0; k < a->n; k++) str_addf(s, "%" PRId64 "ll, ", a->list[k]);
        str_add(s, "0}}, ");
    }
    str_add(s, "{0, 0, 0, 0, {0}}}, {");
    for (int i = 0; i < c->nin && i < OP_OPERAND; i++) str_addf(s, "{%d}, ", c->in[i].dtype != DT_NONE);
    str_add(s, "{0}}};\n");
}

/* ---- the end ---- */

/* Puts the parts together, under a name that is the digest of them. */
static int
finish(struct making *m, const char *engine, int64_t threads)
{
    struct digest d = DIGEST_BEGIN;
    struct str whole = {0};
    struct cuda_source *to = m->to;
    int status = 0;
    const char *part[] = {str_text(&m->member), str_text(&m->head), str_text(&m->body)};
    for (int i = 0; i < 3; i++) digest_bytes(&d, part[i], strlen(part[i]));
    str_addf(&whole, "k%016" PRIx64, d.a ^ d.b);
    to->name = arena_strdup(m->arena, str_text(&whole));
    str_clear(&whole);
    str_addf(&whole,
             "namespace %s_ {\nstruct args {\n%s};\n%s\nextern \"C\" __global__ void __launch_bounds__(%d)\n"
             "%s(const args a)\n{\n%s}\n}\n",
             to->name, part[0], part[1], CUDA_BLOCK, to->name, part[2]);
    to->text = arena_strdup(m->arena, str_text(&whole));
    to->engine = engine;
    to->blocks = MIN((threads + CUDA_BLOCK - 1) / CUDA_BLOCK, MOST_BLOCKS);
    if (to->nword > MOST_WORDS) status = fail(E_KERNEL, "%d words are too many for a kernel", to->nword);
    str_free(&whole);
    str_free(&m->member);
    str_free(&m->head);
    str_free(&m->body);
    return status;
}

static struct making
begin(struct arena *a, struct cuda_source *to)
{
    *to = (struct cuda_source){0};
    return (struct making){.arena = a, .to = to};
}

/* Declares n<i> and begins a loop in which each thread meets its share of that many positions p. */
static void
each_of(struct making *m, int i, int64_t n)
{
    str_addf(&m->member, "    int64_t n%d;\n", i);
    word(m, (uint64_t)n);
    str_addf(&m->body,
             "    for (int64_t p = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; p < a.n%d;\n"
             "         p += (int64_t)gridDim.x * blockDim.x) {\n",
             i);
}

/* ---- each: chains ---- */

enum { STEPS = 64, LANES = 64 };

/* What a step computes in, and its body. */
static const char *
body_of(const struct call *c, enum compute *type)
{
    *type = chain_type(c);
    return *type == COMP_I64 ? c->op->eltwise.i_text : c->op->eltwise.f_text;
}

static void
add_step(struct making *m, int i, const struct call *c)
{
    enum compute type;
    const char *body = body_of(c, &type);
    str_addf(&m->head, "struct step%d {\n    typedef %s real;\n", i, type == COMP_I64 ? "double" : compute_text(type));
    add_names(&m->head, c->op);
    str_addf(&m->head,
             "    static METHOD %s of(const call *c, const %s *x)\n    {\n        (void)c;\n        %s\n    }\n};\n",
             compute_text(type), compute_text(type), body);
}

/* Which operands of a chain are numbers of the call: their values are words. */
static void
find_numbers(int nstep, const struct fuse_step *step, bool *number)
{
    for (int i = 0; i < nstep; i++)
        for (int k = 0; k < step[i].call->nin; k++)
            if (!step[i].arg[k].step && step[i].arg[k].index >= 0 && step[i].call->in[k].weak)
                number[step[i].arg[k].index] = true;
}

/* Loads operand i of the chain as v<i>. */
static void
add_load(struct making *m, int i, const struct view *v, bool number, int nloop)
{
    if (v->dtype == DT_NONE) return;
    const char *memory = memory_text((enum dtype)v->dtype);
    if (number)
        str_addf(&m->body, "        const %s v%d = bits_as<%s>(a.v%d);\n", memory, i, memory, i);
    else
        str_addf(&m->body, "        const %s v%d = ((const %s *)a.v%d.data)[walk<%d>(p, a.size, a.v%d.stride)];\n",
                 memory, i, memory, i, nloop, i);
}

static void
add_value(struct making *m, int i, const struct fuse_step *s)
{
    enum compute type;
    char name[16];
    body_of(s->call, &type);
    snprintf(name, sizeof name, "c%d", i);
    add_call(&m->body, name, s->call);
    str_addf(&m->body, "        const %s x%d[] = {", compute_text(type), i);
    for (int k = 0; k < s->call->nin; k++) {
        if (s->call->in[k].dtype == DT_NONE || (!s->arg[k].step && s->arg[k].index < 0))
            str_add(&m->body, "0, ");
        else
            str_addf(&m->body, "get<%s>(%c%d), ", compute_text(type), s->arg[k].step ? 's' : 'v', s->arg[k].index);
    }
    str_add(&m->body, "0};\n");
    const char *memory = memory_text((enum dtype)s->call->out[0].dtype);
    str_addf(&m->body, "        const %s s%d = put<%s>(step%d::of(&c%d, x%d));\n", memory, i, memory, i, i, i);
}

/* size[], and of each operand in memory where it is and its strides. */
static void
add_lane(struct making *m, int i, int index, const struct lane *l, int nloop)
{
    str_addf(&m->member, "    struct { void *data; int64_t stride[%d]; } %c%d;\n", nloop, i < 0 ? 'y' : 'v',
             i < 0 ? -i - 1 : i);
    fill(m, FILL_ADDRESS, index, 0);
    words(m, nloop, l->stride);
}

int
cuda_source_chain(struct arena *a, int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
                  const struct view *out, struct cuda_source *s)
{
    struct making m = begin(a, s);
    const struct view *view[LANES];
    struct lane lane[LANES] = {0};
    bool number[LANES] = {0};
    struct elt walk = {.nin = nin, .nout = nout, .lane = lane};
    if (nin + nout > LANES || nstep > STEPS) return fail(E_KERNEL, "a chain of %d steps is too long", nstep);
    for (int i = 0; i < nin + nout; i++) view[i] = i < nin ? &in[i] : &out[i - nin];
    chain_lanes(&walk, &out[0], view);
    find_numbers(nstep, step, number);

    each_of(&m, 0, walk.numel);
    str_addf(&m.member, "    int64_t size[%d];\n", walk.nloop);
    words(&m, walk.nloop, walk.size);
    for (int i = 0; i < nin; i++) {
        if (number[i]) {
            str_addf(&m.member, "    int64_t v%d;\n", i);
            fill(&m, FILL_NUMBER, i, 0);
        } else if (in[i].dtype != DT_NONE)
            add_lane(&m, i, i, &lane[i], walk.nloop);
        add_load(&m, i, &in[i], number[i], walk.nloop);
    }
    for (int i = 0; i < nout; i++) add_lane(&m, -1 - i, nin + i, &lane[nin + i], walk.nloop);
    for (int i = 0; i < nstep; i++) {
        add_step(&m, i, step[i].call);
        add_value(&m, i, &step[i]);
    }
    for (int i = 0; i < nstep; i++)
        if (step[i].out >= 0)
            str_addf(&m.body, "        ((%s *)a.y%d.data)[walk<%d>(p, a.size, a.y%d.stride)] = s%d;\n",
                     memory_text((enum dtype)out[step[i].out].dtype), step[i].out, walk.nloop, step[i].out, i);
    str_add(&m.body, "    }\n");
    return finish(&m, "each", walk.numel);
}

/* ---- copy ---- */

/* The loops of one view alone: neighbours that are one run are merged. */
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

/* Declares where a side of copy i, <name><i>, lies, and sets that to the offset of position p. */
static void
add_side(struct making *m, char name, int i, int index, const struct view *v, int64_t skip)
{
    int64_t size[MAX_DIM], stride[MAX_DIM];
    int n = loops_of(v, size, stride);
    str_addf(&m->member, "    struct { void *data; int64_t size[%d], stride[%d]; } %c%d;\n", n, n, name, i);
    fill(m, FILL_ADDRESS, index, skip * (int64_t)dtype_bytes((enum dtype)v->dtype));
    words(m, n, size);
    words(m, n, stride);
    str_addf(&m->body, "        const int64_t %c = walk<%d>(p, a.%c%d.size, a.%c%d.stride);\n", name, n, name, i, name,
             i);
}

/* Copy i, of operand i to its window of the result, whose index is `result`. */
static void
add_copy(struct making *m, int i, int result, const struct view *from, int64_t from_skip, const struct view *to,
         int64_t to_skip)
{
    static const char *const unit[] = {[1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"};
    bool same = from->dtype == to->dtype;
    enum dtype source = (enum dtype)from->dtype, target = (enum dtype)to->dtype;
    each_of(m, i, view_numel(to));
    add_side(m, 'x', i, i, from, from_skip);
    add_side(m, 'y', i, result, to, to_skip);
    str_addf(&m->body, "        ((%s *)a.y%d.data)[y] = ", same ? unit[dtype_bytes(target)] : memory_text(target), i);
    if (same)
        str_addf(&m->body, "((const %s *)a.x%d.data)[x];\n    }\n", unit[dtype_bytes(source)], i);
    else
        str_addf(&m->body, "put<%s>(get<%s>(((const %s *)a.x%d.data)[x]));\n    }\n", memory_text(target),
                 compute_text(compute_of(target)), memory_text(source), i);
}

int
cuda_source_copy(struct arena *a, const struct view *from, const struct view *to, int64_t skip, struct cuda_source *s)
{
    struct making m = begin(a, s);
    assert(from->dtype == to->dtype && view_numel(from) == view_numel(to));
    add_copy(&m, 0, 1, from, skip, to, 0);
    return finish(&m, "copy", view_numel(to));
}

/* Operands side by side. */
static int
make_joined(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct making m = begin(a, s);
    for (int i = 0; i < k->call->nin; i++) {
        struct view window;
        int64_t skip;
        k->call->op->window(k, i, &window, &skip);
        add_copy(&m, i, k->call->nin, &k->in[i], 0, &window, skip);
    }
    return finish(&m, "copy", view_numel(&k->out[0]));
}

/* ---- combine: a chain of additions ---- */

static const struct op *
combining(enum reduce r, enum dtype d)
{
    if (r == RED_SUM) return d == DT_BOOL ? &op_maximum : &op_add; /* truths: is any? */
    return r == RED_MAX ? &op_maximum : &op_minimum;
}

int
cuda_source_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to,
                    struct cuda_source *s)
{
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
    if (nin > LANES - 2) return fail(E_KERNEL, "%d sources are too many for a kernel", nin);
    struct fuse_step step[LANES];
    for (int i = 1; i < nin; i++) {
        step[i - 1] = (struct fuse_step){.call = &add, .out = -1};
        step[i - 1].arg[0] = (struct fuse_arg){.step = i > 1, .index = i > 1 ? i - 2 : 0};
        step[i - 1].arg[1] = (struct fuse_arg){.index = i};
    }
    step[nin - 1] = (struct fuse_step){.call = &round};
    step[nin - 1].arg[0] = (struct fuse_arg){.step = nin > 1, .index = MAX(nin - 2, 0)};
    return cuda_source_chain(a, nin, step, nin, in, 1, to, s);
}

/* ---- operands in memory, as bodies of positions and lines read them ---- */

/* Declares in the struct of a body: number<k>, or x<k>(...), y<k>(..., value) by the strides of `loops`. */
static void
add_number(struct making *m, int k, enum dtype d)
{
    str_addf(&m->member, "    int64_t number%d;\n", k);
    fill(m, FILL_NUMBER, k, 0);
    str_addf(&m->head, "    METHOD %s x%d(int64_t = 0) const { return bits_as<%s>(a.number%d); }\n", memory_text(d), k,
             memory_text(d), k);
}

/* ---- each: functions of positions ---- */

/* A view whose elements a body reads, or whose positions it asks for. */
static void
add_whole(struct making *m, char name, int k, int index, const struct view *v)
{
    str_addf(&m->member, "    struct { void *data; int64_t dim[8], stride[8], offset[8], whole[8]; } %c%d;\n", name, k);
    fill(m, FILL_ADDRESS, index, 0);
    words(m, MAX_DIM, v->dim);
    words(m, MAX_DIM, v->stride);
    words(m, MAX_DIM, v->offset);
    words(m, MAX_DIM, v->global);
}

/* dim<k>, place<k> and NDIM<k>, of the view that add_whole declared. */
static void
add_sizes(struct making *m, char name, int k, int ndim)
{
    str_addf(&m->head,
             "    METHOD int64_t dim%d(int d) const { return a.%c%d.dim[d]; }\n"
             "    METHOD int64_t place%d(int d) const { return a.%c%d.offset[d]; }\n    enum { NDIM%d = %d };\n",
             k, name, k, k, name, k, k, ndim);
}

static void
add_reader(struct making *m, int k, const struct view *v)
{
    enum dtype d = (enum dtype)v->dtype;
    str_addf(&m->head,
             "    METHOD %s x%d(const int64_t *at) const\n    {\n        int64_t o = 0;\n"
             "        for (int d = 0; d < %d; d++) o += at[d] * a.x%d.stride[d];\n"
             "        return get<%s>(((const %s *)a.x%d.data)[o]);\n    }\n",
             compute_text(compute_of(d)), k, v->ndim, k, compute_text(compute_of(d)), memory_text(d), k);
    add_sizes(m, 'x', k, v->ndim);
}

static void
add_operand(struct making *m, const struct kcall *k, int i)
{
    if (i >= k->call->nin || k->in[i].dtype == DT_NONE) {
        str_addf(&m->head,
                 "    METHOD int64_t x%d(const int64_t * = 0) const { return 0; }\n"
                 "    METHOD int64_t dim%d(int) const { return 1; }\n    enum { NDIM%d = 0 };\n",
                 i, i, i);
    } else if (k->call->in[i].weak) {
        add_number(m, i, (enum dtype)k->in[i].dtype);
    } else {
        add_whole(m, 'x', i, i, &k->in[i]);
        add_reader(m, i, &k->in[i]);
    }
}

static void
add_position(struct making *m, const struct kcall *k)
{
    const struct view *y = &k->out[0];
    str_addf(&m->head,
             "    enum { NDIM = %d, DIGITS = %d };\n    int64_t at[8];\n"
             "    METHOD int64_t place(int d) const { return a.y0.offset[d] + at[d]; }\n"
             "    METHOD int64_t whole(int d) const { return a.y0.whole[d]; }\n"
             "    METHOD int64_t index() const\n    {\n        int64_t i = 0;\n"
             "        for (int d = 0; d < NDIM; d++) i = i * a.y0.whole[d] + place(d);\n        return i;\n    }\n",
             y->ndim, dtype_digits((enum dtype)k->call->out[0].dtype));
    if (k->call->op->flags & OP_RANDOM)
        str_addf(&m->head, "    METHOD uint64_t key() const { return rng_key((uint64_t)x%d(), (uint64_t)x%d()); }\n",
                 k->call->nin - 2, k->call->nin - 1);
}

static int
make_element(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct making m = begin(a, s);
    const struct call *c = k->call;
    const struct view *y = &k->out[0];
    each_of(&m, 0, view_numel(y));
    str_add(&m.member, "    uint64_t piece;\n");
    fill(&m, FILL_PIECE, 0, 0);
    str_addf(&m.head, "struct element {\n    const args &a;\n    typedef %s real;\n",
             compute_of((enum dtype)y->dtype) == COMP_F32 ? "float" : "double");
    add_names(&m.head, c->op);
    for (int i = 0; i < MAX(c->nin, op_noperand(c->op)); i++) add_operand(&m, k, i);
    add_whole(&m, 'y', 0, c->nin, y);
    add_position(&m, k);
    str_addf(&m.head, "    METHOD auto of(const call *c) const\n    {\n        (void)c;\n        %s\n    }\n};\n",
             c->op->element);
    str_add(&m.body, "        element e = {a, {0}};\n        int64_t rest = p, o = 0;\n");
    str_addf(&m.body,
             "        for (int d = %d; d >= 0; d--) {\n            e.at[d] = rest %% a.y0.dim[d];\n"
             "            rest /= a.y0.dim[d];\n            o += e.at[d] * a.y0.stride[d];\n        }\n",
             y->ndim - 1);
    add_call(&m.body, "c", c);
    str_addf(&m.body, "        ((%s *)a.y0.data)[o] = put<%s>(e.of(&c));\n    }\n", memory_text((enum dtype)y->dtype),
             memory_text((enum dtype)y->dtype));
    return finish(&m, "each", view_numel(y));
}

/* ---- product ---- */

/* Blocks are many enough for tiles of one row; those that find none end at once. */
static int
make_product(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct making m = begin(a, s);
    const struct call *c = k->call;
    const struct view *y = &k->out[0];
    const char *real = compute_text(compute_of((enum dtype)y->dtype)), *memory = memory_text((enum dtype)y->dtype);
    str_addf(&m.head, "struct product {\n    const args &a;\n    typedef %s real;\n", real);
    add_names(&m.head, c->op);
    for (int i = 0; i < c->nin; i++) add_operand(&m, k, i);
    add_whole(&m, 'y', 0, c->nin, y);
    str_addf(&m.head,
             "    enum { NDIM = %d };\n    METHOD int64_t size(int d) const { return a.y0.dim[d]; }\n"
             "    METHOD void write(const int64_t *at, real v) const\n    {\n        int64_t o = 0;\n"
             "        for (int d = 0; d < NDIM; d++) o += at[d] * a.y0.stride[d];\n"
             "        ((%s *)a.y0.data)[o] = put<%s>(v);\n    }\n"
             "    METHOD void of(const call *c) const\n    {\n        (void)c;\n        %s\n    }\n};\n",
             y->ndim, memory, memory, c->op->product);
    str_add(&m.body, "    product p = {a};\n");
    add_call(&m.body, "c", c);
    str_add(&m.body, "    p.of(&c);\n");
    return finish(&m, "product", (view_numel(y) + TILE - 1) / TILE * CUDA_BLOCK);
}

/* ---- line ---- */

/* Along which dimensions of operand 0 lines lie. */
static void
line_dims(const struct call *c, bool *gone)
{
    int axis = op_attr_find(c->op, "axis");
    if (c->op->folds != RED_NONE)
        reduced_dims(c, gone);
    else if (c->op->line_dims)
        c->op->line_dims(c, gone);
    else if (axis >= 0 && c->op->attr[axis].flags & ATTR_ABSENT && !c->attr[axis].set)
        memset(gone, true, c->in[0].ndim); /* all */
    else if (axis >= 0)
        gone[c->attr[axis].i] = true;
    else if (c->in[0].ndim > 0)
        gone[c->in[0].ndim - 1] = true;
}

/* The dimensions of operand 0, in two lots: those along which its lines lie, and the others. */
struct lines_on {
    int ndim, nline;
    bool gone[MAX_DIM];
    int64_t count, length;
    int64_t size[2][MAX_DIM]; /* of the others, of the line */
    int n[2];
};

static void
split_dims(const struct call *c, const struct view *x, struct lines_on *l)
{
    *l = (struct lines_on){.ndim = x->ndim, .count = 1, .length = 1};
    line_dims(c, l->gone);
    for (int d = 0; d < x->ndim; d++) {
        l->size[l->gone[d]][l->n[l->gone[d]]++] = MAX(x->dim[d], 1); /* walks divide by it, also those of no steps */
        *(l->gone[d] ? &l->length : &l->count) *= x->dim[d];
    }
    for (int g = 0; g < 2; g++)
        if (l->n[g] == 0) l->size[g][l->n[g]++] = 1;
}

/* The strides of a view along both lots: it has all dimensions of operand 0, or those of one lot. False: it has not. */
static bool
line_strides(const struct lines_on *l, const struct view *v, int64_t stride[2][MAX_DIM])
{
    memset(stride, 0, sizeof(int64_t[2][MAX_DIM]));
    int at[2] = {0}, n[2] = {0};
    for (int d = 0; d < l->ndim; d++) n[l->gone[d]]++;
    for (int d = 0; d < l->ndim && v->ndim == l->ndim; d++) {
        int g = l->gone[d];
        bool one_loop = g == 1 && n[1] == 1; /* results may be longer or shorter along the line */
        if (v->dim[d] > 1 && v->dim[d] != l->size[g][at[g]] && !one_loop) return false;
        stride[g][at[g]++] = v->dim[d] <= 1 ? 0 : v->stride[d];
    }
    if (v->ndim == l->ndim) return true;
    int only = view_numel(v) == l->count && v->ndim == n[0] ? 0 : 1;
    if (v->ndim != n[only]) return false;
    for (int d = 0; d < v->ndim; d++) {
        if (MAX(v->dim[d], 1) != l->size[only][d]) return false;
        stride[only][d] = v->stride[d];
    }
    return true;
}

static bool
add_line_view(struct making *m, const struct lines_on *l, char name, int k, int index, const struct view *v)
{
    int64_t stride[2][MAX_DIM];
    enum dtype d = (enum dtype)v->dtype;
    const char *memory = memory_text(d), *type = compute_text(compute_of(d));
    if (name == 'y' && view_numel(v) == 0) { /* a result that is not wanted, or of no lines */
        str_addf(&m->head, "    template <class C> METHOD void y%d(int64_t, C) const {}\n", k);
        return true;
    }
    if (!line_strides(l, v, stride)) return false;
    str_addf(&m->member, "    struct { void *data; int64_t across[%d], along[%d]; } %c%d;\n", l->n[0], l->n[1], name,
             k);
    fill(m, FILL_ADDRESS, index, 0);
    words(m, l->n[0], stride[0]);
    words(m, l->n[1], stride[1]);
    str_addf(&m->head,
             "    METHOD int64_t %c%d_at(int64_t i) const\n    {\n"
             "        return walk<%d>(line, a.across, a.%c%d.across) + walk<%d>(i, a.along, a.%c%d.along);\n    }\n",
             name, k, l->n[0], name, k, l->n[1], name, k);
    if (name == 'x')
        str_addf(&m->head,
                 "    METHOD %s x%d(int64_t i) const { return get<%s>(((const %s *)a.x%d.data)[x%d_at(i)]); }\n", type,
                 k, type, memory, k, k);
    else
        str_addf(&m->head,
                 "    template <class C> METHOD void y%d(int64_t i, C v) const\n    {\n"
                 "        ((%s *)a.y%d.data)[y%d_at(i)] = put<%s>(v);\n    }\n",
                 k, memory, k, k, memory);
    return true;
}

/* The body of an operator that folds: the fold's kind, and what no element gives. */
static const char *
fold_body(struct making *m, const struct kcall *k, enum reduce r)
{
    static const char *const of[NREDUCE] = {
        [RED_SUM] = "sums", [RED_MAX] = "greatest", [RED_MIN] = "least", [RED_PROD] = "products"};
    bool real = compute_of((enum dtype)k->in[0].dtype) != COMP_I64;
    const char *type = real ? "double" : "int64_t";
    double start = reduce_start_f(r);
    int64_t whole = reduce_start_i(r, (enum dtype)k->out[0].dtype);
    uint64_t bits;
    memcpy(&bits, real ? (void *)&start : (void *)&whole, sizeof bits);
    str_add(&m->member, "    int64_t start;\n");
    word(m, bits);
    struct str body = {0};
    str_addf(&body,
             "const %s v = fold<%s>(bits_as<%s>(a.start), [&](int64_t i) { return (%s)x0(i); });\n"
             "        once([&] { y0(0, v); });",
             type, of[r], type, type);
    const char *text = arena_strdup(m->arena, str_text(&body));
    str_free(&body);
    return text;
}

/* Where element i of the line lies in operand 0, for bodies that read others by position. */
static void
add_where(struct making *m, const struct lines_on *l, const struct view *x)
{
    add_whole(m, 'z', 0, 0, x);
    add_sizes(m, 'z', 0, x->ndim);
    str_add(&m->head,
            "    METHOD void where(int64_t i, int64_t *at) const\n    {\n        int64_t rest[] = {line, i};\n"
            "        const bool along[] = {");
    for (int d = 0; d < x->ndim; d++) str_addf(&m->head, "%d, ", l->gone[d]);
    str_add(&m->head,
            "0};\n        for (int d = NDIM0 - 1; d >= 0; d--) {\n"
            "            const int64_t size = dim0(d) > 0 ? dim0(d) : 1;\n"
            "            at[d] = rest[along[d]] % size;\n            rest[along[d]] /= size;\n        }\n    }\n");
}

/* What a line is computed in. */
static enum compute
line_type(const struct kcall *k)
{
    enum compute type = compute_of((enum dtype)k->in[0].dtype);
    for (int i = 0; i < k->call->nin; i++)
        if (k->in[i].dtype == DT_F64 && !k->call->in[i].weak) type = COMP_F64;
    return type;
}

/* Threads for a line: a line of few elements is worth one, and of few lines each has a block. */
static int
width_of(const struct lines_on *l)
{
    return l->length <= 8 ? 1 : l->length <= 512 && l->count >= 256 ? 32 : CUDA_BLOCK;
}

static int
make_line(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct making m = begin(a, s);
    const struct call *c = k->call;
    struct lines_on l;
    bool can = k->in[0].dtype != DT_NONE;
    split_dims(c, &k->in[0], &l);
    int width = width_of(&l);
    str_addf(&m.member, "    int64_t n, length, across[%d], along[%d];\n", l.n[0], l.n[1]);
    word(&m, (uint64_t)l.count);
    word(&m, (uint64_t)l.length);
    words(&m, l.n[0], l.size[0]);
    words(&m, l.n[1], l.size[1]);
    str_addf(&m.head,
             "struct lines : team<%d> {\n    const args &a;\n    int64_t line;\n    typedef %s real;\n    typedef %s "
             "wide;\n",
             width, line_type(k) == COMP_F32 ? "float" : "double", line_type(k) == COMP_I64 ? "int64_t" : "double");
    str_addf(&m.head, "    METHOD lines(const args &args_, double *room_) : a(args_), line(0) { room = room_; }\n");
    add_names(&m.head, c->op);
    if (c->op->by_position) add_where(&m, &l, &k->in[0]);
    for (int i = 0; i < MAX(c->nin, op_noperand(c->op)) && can; i++) {
        if (c->op->by_position >> i & 1)
            add_operand(&m, k, i);
        else if (i >= c->nin || k->in[i].dtype == DT_NONE)
            str_addf(&m.head, "    METHOD real x%d(int64_t = 0) const { return 0; }\n", i);
        else if (c->in[i].weak)
            add_number(&m, i, (enum dtype)k->in[i].dtype);
        else
            can = add_line_view(&m, &l, 'x', i, i, &k->in[i]);
    }
    for (int i = 0; i < c->nout && can; i++) can = add_line_view(&m, &l, 'y', i, c->nin + i, &k->out[i]);
    const char *body = c->op->folds != RED_NONE ? fold_body(&m, k, c->op->folds) : c->op->line;
    str_addf(&m.head, "    METHOD void of(const call *c) const\n    {\n        (void)c;\n        %s\n    }\n};\n",
             body);
    str_addf(&m.body, "    __shared__ double room[%d];\n    lines l(a, room);\n", CUDA_BLOCK);
    add_call(&m.body, "c", c);
    str_addf(&m.body,
             "    for (int64_t base = (int64_t)blockIdx.x * %d; base < a.n; base += (int64_t)gridDim.x * %d) {\n"
             "        l.line = base + threadIdx.x / %d;\n        l.here = l.line < a.n;\n"
             "        l.n = l.here ? a.length : 0;\n        if (!l.here) l.line = 0;\n        l.of(&c);\n    }\n",
             CUDA_BLOCK / width, CUDA_BLOCK / width, width);
    int status = finish(&m, "line", l.count * width);
    return can ? status : fail(E_KERNEL, "%s: its operands do not lie along lines", c->op->name);
}

/* ---- calls ---- */

static int
make_view(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    const struct call *c = k->call;
    struct view window = k->out[0];
    int64_t skip = 0;
    if (c->op->view(c, &k->in[0], &window, &skip)) { /* a reshape: the same elements in row-major order */
        struct type t = type_of((enum dtype)k->in[0].dtype, k->in[0].ndim, k->in[0].dim);
        struct view dense = view_dense(&t, NULL);
        if (c->op->view(c, &dense, &window, &skip) || skip || !view_is_dense(&window))
            return fail(E_KERNEL, "%s: no loops show this window", c->op->name);
        window = k->in[0];
    }
    return cuda_source_copy(a, &window, &k->out[0], skip, s);
}

int
cuda_source_call(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    const struct op *op = k->call->op;
    if (op->flags & OP_ELTWISE) {
        struct fuse_step step = {.call = k->call};
        for (int i = 0; i < k->call->nin; i++) step.arg[i].index = i;
        return cuda_source_chain(a, 1, &step, k->call->nin, k->in, 1, k->out, s);
    }
    if (op->flags & OP_VIEW) return make_view(a, k, s);
    if (op->window) return make_joined(a, k, s);
    if (op->element) return make_element(a, k, s);
    if (op->product) return make_product(a, k, s);
    if (op->line || op->folds != RED_NONE) return make_line(a, k, s);
    return fail(E_KERNEL, "%s has no kernel for GPUs", op->name);
}
