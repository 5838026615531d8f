/* line.c - texts of kernels in which a group of threads goes along a line: folds, softmax, norms, in one pass or in
 * several. */
#include "kernels/cuda/making.h"

#include "kernels/cpu/reduce.h"
#include "kernels/op/op_impl.h"
#include "runtime/error.h"
#include "sbp/rule.h"

#include <inttypes.h>
#include <string.h>

/* Along which dimensions of operand 0, or of a result, lines lie. */
static void
line_dims(const struct call *c, const struct line_pass *pass, bool *gone)
{
    int axis = op_attr_find(c->op, "axis");
    if (pass->dims)
        pass->dims(c, gone);
    else if (pass->of > 0)
        gone[c->out[pass->of - 1].ndim - 1] = true;
    else if (c->op->folds != RED_NONE)
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

/* The dimensions of what lines are of, in two lots: those along which its lines lie, and the others. */
struct lines_on {
    const struct view *of;
    int ndim;
    bool gone[MAX_DIM];
    int64_t count, length;
    int64_t size[2][MAX_DIM]; /* of the others, of the line */
    int n[2];
    int nloop[2]; /* those that all operands and results let go as one are one loop: */
    struct loop {
        int64_t size;
        int last; /* of its dimensions in the lot, the one whose stride is its */
    } loop[2][MAX_DIM];
    bool flat; /* its elements go by themselves and lie dense: a line is a stretch of them, the last one shorter */
    int64_t total;
    struct rule rule; /* of the call, where it has one: which letters its operands and results have, */
    bool ruled;
    int at; /* and which of them lines are of */
};

/* Does nothing hold elements together, of dense operands and results of one shape? */
static bool
is_flat(const struct kcall *k, const struct lines_on *l)
{
    for (int d = 0; d < l->ndim; d++)
        if (l->gone[d]) return false;
    for (int i = 0; i < k->call->nin + k->call->nout; i++) {
        const struct view *v = i < k->call->nin ? &k->in[i] : &k->out[i - k->call->nin];
        if (v->dtype != DT_NONE && v->ndim == l->ndim && !view_is_dense(v)) return false;
    }
    return k->call->op->line_dims == no_dims;
}

/* Long enough that what a body computes once a line costs little beside 16 elements a thread. Of any number of
 * elements, so that variables of all shapes have one text. */
static void
flatten(struct lines_on *l)
{
    enum { STRETCH = 4096 };
    l->flat = true;
    l->total = l->count;
    l->count = (l->total + STRETCH - 1) / STRETCH;
    l->length = STRETCH;
    l->n[0] = l->n[1] = 1;
    l->size[0][0] = MAX(l->count, 1);
    l->size[1][0] = STRETCH;
}

/* Which lot a view has whose dimensions are those of one alone: that of its letters, or else of its sizes, which do not
 * tell where there are as many lines as a line is long. */
static int
lot_of(const struct lines_on *l, int index, const struct view *v, int nother)
{
    const struct rule_operand *own = l->ruled ? &l->rule.operand[index] : NULL, *of = &l->rule.operand[l->at];
    for (int d = 0; own && d < own->ndim; d++)
        for (int e = 0; e < of->ndim; e++)
            if (own->dim[d].nfactor == 1 && of->dim[e].nfactor == 1 && own->dim[d].factor[0] == of->dim[e].factor[0])
                return l->gone[e];
    return view_numel(v) == l->count && v->ndim == nother ? 0 : 1;
}

/* The strides of a view along both lots: it has all dimensions of operand 0, or those of one lot. False: it has not. */
static bool
line_strides(const struct lines_on *l, int index, const struct view *v, int64_t stride[2][MAX_DIM])
{
    memset(stride, 0, sizeof(int64_t[2][MAX_DIM]));
    if (l->flat && v->ndim == l->ndim) {
        stride[0][0] = l->length;
        stride[1][0] = 1;
        return true;
    }
    int at[2] = {0}, n[2] = {0};
    for (int d = 0; d < l->ndim; d++) n[l->gone[d]]++;
    for (int d = 0; d < l->ndim && v->ndim == l->ndim; d++) {
        int g = l->gone[d];
        bool one_loop = g == 1 && n[1] == 1; /* results may be longer or shorter along the line */
        if (v->dim[d] > 1 && v->dim[d] != l->size[g][at[g]] && !one_loop) return false;
        stride[g][at[g]++] = v->dim[d] <= 1 ? 0 : v->stride[d];
    }
    if (v->ndim == l->ndim) return true;
    int only = lot_of(l, index, v, n[0]);
    if (v->ndim != n[only]) return false;
    for (int d = 0; d < v->ndim; d++) {
        if (MAX(v->dim[d], 1) != l->size[only][d]) return false;
        stride[only][d] = v->stride[d];
    }
    return true;
}

/* Do dimensions a and b of lot g, neighbours, lie as one in all that goes along lines? */
static bool
are_joint(const struct kcall *k, const struct lines_on *l, int g, int a, int b)
{
    int64_t stride[2][MAX_DIM];
    const struct call *c = k->call;
    for (int i = 0; i < c->nin + c->nout; i++) {
        bool operand = i < c->nin;
        const struct view *v = operand ? &k->in[i] : &k->out[i - c->nin];
        if (v->dtype == DT_NONE || (operand ? c->in[i].weak || c->op->by_position >> i & 1 : view_numel(v) == 0))
            continue;
        if (!line_strides(l, i, v, stride) || stride[g][a] != stride[g][b] * l->size[g][b]) return false;
    }
    return true;
}

static void
join_loops(const struct kcall *k, struct lines_on *l)
{
    for (int g = 0; g < 2; g++) {
        struct loop *loop = l->loop[g];
        for (int d = 0; d < l->n[g]; d++) {
            struct loop *last = l->nloop[g] ? &loop[l->nloop[g] - 1] : NULL;
            if (l->size[g][d] == 1) continue;
            if (last && are_joint(k, l, g, last->last, d))
                *last = (struct loop){last->size * l->size[g][d], d};
            else
                loop[l->nloop[g]++] = (struct loop){l->size[g][d], d};
        }
        if (l->nloop[g] == 0) loop[l->nloop[g]++] = (struct loop){1, l->n[g] - 1};
    }
}

static void
split_dims(struct arena *a, const struct kcall *k, const struct line_pass *pass, struct lines_on *l)
{
    const struct view *x = pass->of ? &k->out[pass->of - 1] : &k->in[0];
    *l = (struct lines_on){.of = x, .ndim = x->ndim, .count = 1, .length = 1};
    l->at = pass->of ? k->call->nin + pass->of - 1 : 0;
    l->ruled = !rule_of_call(a, k->call, NULL, &l->rule);
    if (!l->ruled) err_clear();
    line_dims(k->call, pass, l->gone);
    for (int d = 0; d < x->ndim; d++) {
        l->size[l->gone[d]][l->n[l->gone[d]]++] = MAX(x->dim[d], 1); /* walks divide by it, also those of no steps */
        *(l->gone[d] ? &l->length : &l->count) *= x->dim[d];
    }
    for (int g = 0; g < 2; g++)
        if (l->n[g] == 0) l->size[g][l->n[g]++] = 1;
    if (is_flat(k, l)) flatten(l);
    join_loops(k, l);
}

/* The sizes of a lot's loops as words, or their strides. */
static void
add_loops(struct making *m, const struct lines_on *l, int g, const int64_t *stride)
{
    for (int i = 0; i < l->nloop[g]; i++)
        making_word(m, (uint64_t)(stride ? stride[l->loop[g][i].last] : l->loop[g][i].size));
}

static bool
add_line_view(struct making *m, const struct lines_on *l, char name, int k, int index, const struct view *v)
{
    int64_t stride[2][MAX_DIM];
    enum dtype d = (enum dtype)v->dtype;
    const char *memory = making_memory(d), *type = making_compute(compute_of(d));
    if (name == 'y' && view_numel(v) == 0) { /* a result that is not wanted, or of no lines */
        str_addf(&m->head, "    template <class C> METHOD void y%d(int64_t, C) const {}\n", k);
        return true;
    }
    if (!line_strides(l, index, v, stride)) return false;
    str_addf(&m->member, "    struct { void *data; int64_t across[%d], along[%d]; } %c%d;\n", l->nloop[0], l->nloop[1],
             name, k);
    making_fill(m, FILL_ADDRESS, index, 0);
    add_loops(m, l, 0, stride[0]);
    add_loops(m, l, 1, stride[1]);
    str_addf(
        &m->head,
        "    METHOD int64_t %c%d_at(int64_t i) const\n    {\n"
        "        return walk<%d>((%s)line, a.across, a.%c%d.across) + walk<%d>((%s)i, a.along, a.%c%d.along);\n    }\n",
        name, k, l->nloop[0], making_places(l->count), name, k, l->nloop[1], making_places(l->length), name, k);
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

/* The bodies of an operator that folds: of all of a line at once, of a part of it, and of what parts gave. */
enum fold_form { FOLD_WHOLE, FOLD_PART, FOLD_PARTS };

static const char *
fold_body(struct arena *a, const struct kcall *k, enum fold_form form)
{
    static const char *const kind[NREDUCE] = {
        [RED_SUM] = "sums", [RED_MAX] = "greatest", [RED_MIN] = "least", [RED_PROD] = "products"};
    static const char *const text[] = {
        [FOLD_WHOLE] = "const type v = fold<kind>(start, [&](int64_t i) { return (type)x0(i); });\n"
                       "        once([&] { y0(0, v); });",
        [FOLD_PART] = "keep(0, fold<kind>(start, [&](int64_t i) { return (type)x0(from + i); }));",
        [FOLD_PARTS] = "const type v = fold_parts<kind>(start, [&](int64_t i) { return kept_part<type>(i, 0); });\n"
                       "        once([&] { y0(0, v); });"};
    enum reduce r = k->call->op->folds;
    bool real = compute_of((enum dtype)k->in[0].dtype) != COMP_I64;
    double start = reduce_start_f(r);
    int64_t whole = reduce_start_i(r, (enum dtype)k->out[0].dtype);
    uint64_t bits;
    memcpy(&bits, real ? (void *)&start : (void *)&whole, sizeof bits);
    struct str body = {0};
    str_addf(&body,
             "typedef %s type;\n        typedef %s kind;\n"
             "        const type start = bits_as<type>((uint64_t)0x%" PRIx64 "ull);\n        (void)start;\n        %s",
             real ? "double" : "int64_t", kind[r], bits, text[form]);
    const char *own = arena_strdup(a, str_text(&body));
    str_free(&body);
    return own;
}

/* Where element i of the line lies in what it is of, for bodies that read others by position. */
static void
add_where(struct making *m, const struct lines_on *l, bool of_result)
{
    const struct view *x = l->of;
    str_addf(&m->head, "    typedef %s places;\n", making_places(MAX(l->count, l->length)));
    making_add_whole(m, 'z', 0, 0, x);
    if (of_result)
        str_addf(&m->head,
                 "    METHOD int64_t size(int d) const { return a.z0.dim[d]; }\n"
                 "    METHOD int64_t place(int d) const { return a.z0.offset[d]; }\n    enum { NDIM = %d };\n",
                 x->ndim);
    else
        making_add_sizes(m, 'z', 0, x->ndim);
    str_add(&m->head, "    METHOD void where(int64_t i, int64_t *at) const\n    {\n        places rest[] = "
                      "{(places)line, (places)i};\n"
                      "        const bool along[] = {");
    for (int d = 0; d < x->ndim; d++) str_addf(&m->head, "%d, ", l->gone[d]);
    str_addf(
        &m->head,
        "0};\n#pragma unroll\n        for (int d = %d; d >= 0; d--) {\n"
        "            const places size = a.z0.dim[d] > 0 ? a.z0.dim[d] : 1, left = rest[along[d]] / size;\n"
        "            at[d] = rest[along[d]] - left * size;\n            rest[along[d]] = left;\n        }\n    }\n",
        x->ndim - 1);
}

/* A pass as it is made: how its lines are shared out, and where what is kept lies in scratch. */
struct passing {
    const struct line_pass *pass;
    int parts;                /* of its lines, each a team's */
    int width, gap;           /* threads of a team, and how far apart these are */
    int keeps, kept;          /* numbers of a line, or of a part, of this pass; of the one whose numbers it reads */
    int64_t keep_at, kept_at; /* bytes into the scratch */
    int joins;                /* parts of the lines of the pass before, which this one joins; 0: it had none */
    int part_kept;            /* then numbers of each, */
    int64_t part_at;          /* and where */
};

/* keep, kept, kept_part: numbers of a pass, those of a line or part one after the other. */
static void
add_kept(struct making *m, const struct passing *p)
{
    if (p->keeps) {
        str_add(&m->member, "    uint64_t *keeps;\n");
        making_fill(m, FILL_SCRATCH, 0, p->keep_at);
        str_addf(&m->head,
                 "    template <class C> METHOD void keep(int k, C v) const\n    {\n"
                 "        once([&] { a.keeps[(part * a.lines + line) * %d + k] = bits_as<uint64_t>(v); });\n    }\n",
                 p->keeps);
    }
    if (p->kept) {
        str_add(&m->member, "    const uint64_t *kept;\n");
        making_fill(m, FILL_SCRATCH, 0, p->kept_at);
        str_addf(&m->head,
                 "    template <class C> METHOD C kept(int64_t of, int k) const { return bits_as<C>(a.kept[of * %d + "
                 "k]); }\n",
                 p->kept);
    }
    if (p->joins) {
        str_add(&m->member, "    const uint64_t *parts;\n");
        making_fill(m, FILL_SCRATCH, 0, p->part_at);
        str_addf(&m->head,
                 "    template <class C> METHOD C kept_part(int64_t i, int k) const\n    {\n"
                 "        return bits_as<C>(a.parts[(i * a.lines + line) * %d + k]);\n    }\n"
                 "    template <class Fold, class C, class F> METHOD C fold_parts(C first, F f) const\n    {\n"
                 "        return this->template fold_of<Fold>(here ? %d : 0, first, f);\n    }\n",
                 p->part_kept, p->joins);
    }
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

/* Are all reals that lie along lines halves? */
static bool
is_halves(const struct kcall *k)
{
    for (int i = 0; i < k->call->nin; i++)
        if (!k->call->in[i].weak && (k->in[i].dtype == DT_F32 || k->in[i].dtype == DT_F64)) return false;
    return k->in[0].dtype == DT_BF16 || k->in[0].dtype == DT_F16;
}

/* Threads for a line of so many elements: few are worth one, and of few lines each has a block. */
static int
width_of(int64_t length, int64_t count)
{
    enum { WARP = 32, FEW = 8, MOST = 512, MANY = 1024, LONG = 2048 };
    bool near = length <= MOST ? count >= CUDA_BLOCK : length <= LONG && count >= MANY;
    return length <= FEW ? 1 : near ? WARP : CUDA_BLOCK;
}

/* Where a body looks for what is of the line: once for so many of its elements. */
static int
positions_width(int64_t length)
{
    enum { WARP = 32, FEW = 8, EACH = 4 };
    return length <= FEW ? 1 : length <= EACH * WARP ? WARP : CUDA_BLOCK;
}

/* Do lines lie side by side in memory, and their elements not? Then threads that are neighbours take neighbouring
 * lines.
 */
static bool
is_across(const struct kcall *k, const struct line_pass *pass, const struct lines_on *l)
{
    enum { SIDE = 8 };
    int64_t stride[2][MAX_DIM];
    if (pass->of || k->call->op->by_position || l->flat || l->length <= SIDE) return false;
    if (!line_strides(l, 0, &k->in[0], stride)) return false;
    const struct loop *line = &l->loop[0][l->nloop[0] - 1], *along = &l->loop[1][l->nloop[1] - 1];
    return line->size >= SIDE && stride[0][line->last] == 1 && stride[1][along->last] != 1;
}

/* Into how many parts lines are cut, each a team's: their length and number alone decide. */
static int
parts_of(const struct lines_on *l, bool across)
{
    enum { PART = 1 << 14, NARROW = 1 << 6, MOST_PARTS = 1024, LINES = 1 << 16 };
    int64_t least = across ? NARROW : PART, enough = across ? LINES : MOST_PARTS;
    int parts = 1;
    while (parts < MOST_PARTS && l->count * parts < enough && l->length / parts > least) parts *= 2;
    return parts;
}

/* Declares operands and results as a pass reads and writes them. False: some do not lie along its lines. */
static bool
add_lines(struct making *m, const struct kcall *k, const struct lines_on *l, uint32_t writes)
{
    const struct call *c = k->call;
    bool can = true;
    for (int i = 0; i < MAX(c->nin, op_noperand(c->op)) && can; i++) {
        if (c->op->by_position >> i & 1)
            making_add_operand(m, k, i);
        else if (i >= c->nin || k->in[i].dtype == DT_NONE)
            str_addf(&m->head, "    METHOD real x%d(int64_t = 0) const { return 0; }\n", i);
        else if (c->in[i].weak)
            making_add_number(m, i, (enum dtype)k->in[i].dtype);
        else
            can = add_line_view(m, l, 'x', i, i, &k->in[i]);
    }
    for (int i = 0; i < c->nout && can; i++)
        if (writes >> i & 1) can = add_line_view(m, l, 'y', i, c->nin + i, &k->out[i]);
    return can;
}

enum { ACROSS = 32 }; /* lines that lie side by side, of a block */

/* How a pass's lines are shared out. */
static void
share_out(const struct kcall *k, const struct lines_on *l, struct passing *p)
{
    bool across = !p->joins && is_across(k, p->pass, l);
    p->parts = p->pass->parted ? parts_of(l, across) : 1;
    p->gap = across ? ACROSS : 1;
    p->keeps = p->pass->keeps;
    if (across)
        p->width = CUDA_BLOCK / ACROSS;
    else if (p->joins)
        p->width = width_of(p->joins, l->count);
    else if (k->call->op->by_position)
        p->width = positions_width(l->length);
    else
        p->width = p->parts > 1 ? CUDA_BLOCK : width_of(l->length, l->count);
}

/* The struct of a body, whose operands and results add_lines declares; begin_lines leaves it open. */
static void
begin_lines(struct making *m, const struct kcall *k, const struct lines_on *l, const struct passing *p)
{
    str_addf(&m->member, "    int64_t jobs, lines, length, across[%d], along[%d];\n", l->nloop[0], l->nloop[1]);
    making_words(m, 3, (int64_t[]){l->count * p->parts, MAX(l->count, 1), l->length});
    add_loops(m, l, 0, NULL);
    add_loops(m, l, 1, NULL);
    if (l->flat) {
        str_add(&m->member, "    int64_t total;\n");
        making_word(m, (uint64_t)l->total);
    }
    str_addf(&m->head,
             "struct lines : team<%d, %d, %d> {\n    const args &a;\n    int64_t line, part, from;\n"
             "    typedef %s real;\n    typedef %s wide;\n    typedef splitting<real>::type fine;\n"
             "    enum { PARTS = %d };\n"
             "    METHOD lines(const args &args_, double *room_) : a(args_), line(0), part(0), from(0)\n    {\n"
             "        room = room_;\n    }\n",
             p->width, p->gap, is_halves(k), line_type(k) == COMP_F32 ? "float" : "double",
             line_type(k) == COMP_I64 ? "int64_t" : "double", p->parts);
    making_add_names(&m->head, k->call->op);
    if (k->call->op->by_position) add_where(m, l, p->pass->of > 0);
    add_kept(m, p);
}

/* Each team takes a line, or a part of one, after the other. */
static void
add_jobs(struct making *m, const struct kcall *k, const struct lines_on *l, const struct passing *p)
{
    int teams = CUDA_BLOCK / p->width;
    str_addf(&m->body, "    __shared__ double room[%d];\n    lines l(a, room);\n", CUDA_BLOCK);
    making_add_call(&m->body, "c", k->call);
    str_addf(&m->body,
             "    for (int64_t base = block * %d; base < a.jobs; base += blocks * %d) {\n"
             "        const int64_t job = base + threadIdx.x %s %d;\n        l.here = job < a.jobs;\n"
             "        l.line = !l.here ? 0 : %s;\n",
             teams, teams, p->gap > 1 ? "%" : "/", p->gap > 1 ? p->gap : p->width,
             p->parts > 1 ? "job % a.lines" : "job");
    if (p->parts > 1)
        str_add(&m->body, "        l.part = !l.here ? 0 : job / a.lines;\n"
                          "        const int64_t each = (a.length + lines::PARTS - 1) / lines::PARTS;\n"
                          "        l.from = least::join(a.length, l.part * each);\n"
                          "        l.n = l.here ? least::join(each, a.length - l.from) : 0;\n");
    else
        str_addf(&m->body, "        l.n = l.here ? %s : 0;\n",
                 l->flat ? "least::join(a.length, a.total - l.line * a.length)" : "a.length");
    str_add(&m->body, "        l.of(&c);\n    }\n");
}

static int
make_pass(struct arena *a, const struct kcall *k, struct passing *p, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    struct lines_on l;
    if (k->in[0].dtype == DT_NONE) return fail(E_KERNEL, "%s: there is no operand to go along", k->call->op->name);
    split_dims(a, k, p->pass, &l);
    share_out(k, &l, p);
    making_what(&m, k->call->op->name);
    begin_lines(&m, k, &l, p);
    bool can = add_lines(&m, k, &l, p->pass->writes);
    str_addf(&m.head, "    METHOD void of(const call *c)\n    {\n        (void)c;\n        %s\n    }\n};\n",
             p->pass->body);
    add_jobs(&m, k, &l, p);
    int64_t jobs = l.count * p->parts;
    s->scratch_bytes = (size_t)(jobs * p->keeps) * sizeof(uint64_t);
    int status = making_finish(&m, "line", jobs * p->width);
    return can ? status : fail(E_KERNEL, "%s: its operands do not lie along lines", k->call->op->name);
}

/* Passes keep their numbers one behind the other. Each knows those of the pass before; of parts, which the pass behind
 * joins, the numbers of the pass before them. */
static int
make_passes(struct arena *a, const struct kcall *k, const struct line_pass *pass, struct cuda_source *s)
{
    struct passing p = {0};
    int64_t used = 0;
    struct cuda_source *to = s;
    for (; pass->body; pass++) {
        struct passing last = p;
        p = (struct passing){.pass = pass, .keep_at = used, .kept = last.keeps, .kept_at = last.keep_at};
        if (last.pass && last.pass->parted)
            p = (struct passing){
                .pass = pass, .keep_at = used, .joins = last.parts, .part_kept = last.keeps, .part_at = last.keep_at};
        TRY(make_pass(a, k, &p, to));
        used += (int64_t)to->scratch_bytes;
        if (pass[1].body) to = to->then = ARENA_NEW(a, struct cuda_source);
    }
    s->scratch_bytes = (size_t)used;
    return 0;
}

int
making_passes(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    return make_passes(a, k, k->call->op->pass, s);
}

int
making_fold(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct line_pass pass[] = {{.keeps = 1, .parted = true}, {.writes = 1}, {NULL}};
    struct lines_on l;
    split_dims(a, k, &pass[0], &l);
    bool parted = parts_of(&l, is_across(k, &pass[0], &l)) > 1;
    pass[0].body = fold_body(a, k, FOLD_PART);
    pass[1].body = fold_body(a, k, parted ? FOLD_PARTS : FOLD_WHOLE);
    return make_passes(a, k, parted ? pass : pass + 1, s);
}

int
making_line(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    const struct line_pass pass[] = {{.body = k->call->op->line, .writes = UINT32_MAX}, {NULL}};
    return make_passes(a, k, pass, s);
}
