/* line.c - writes the texts of kernels in which a team of threads works along each line: reductions, softmax and
 * norms, in one or several passes. */
#include "kernels/cuda/line.h"
#include "kernels/cuda/after.h"

#include "kernels/cpu/rows/reduce.h"
#include "kernels/op/base/op_impl.h"
#include "runtime/base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sets gone[d] for each dimension d along which the pass's lines extend. d is a dimension of operand 0 or, if the
 * pass divides a result into lines, of that result. */
static void
line_dims(const struct call *c, const struct line_pass *pass, bool *gone)
{
    int axis = op_attr_find(c->op, "axis");
    if (pass->dims)
        pass->dims(c, gone);
    else if (pass->of > 0)
        gone[c->out[pass->of - 1].ndim - 1] = true;
    else if (c->op->host.folds != RED_NONE)
        reduced_dims(c, gone);
    else if (c->op->gpu.line_dims)
        c->op->gpu.line_dims(c, gone);
    else if (axis >= 0 && c->op->attr[axis].flags & ATTR_ABSENT && !c->attr[axis].set)
        memset(gone, true, c->in[0].ndim); /* without an axis, lines extend along all dimensions */
    else if (axis >= 0)
        gone[c->attr[axis].i] = true;
    else if (c->in[0].ndim > 0)
        gone[c->in[0].ndim - 1] = true;
}

/* Returns true if the pass computes each element independently of the others, and all operands and results are
 * dense and have the same shape. */
static bool
is_flat(const struct kcall *k, const struct lines_on *l)
{
    for (int d = 0; d < l->ndim; d++)
        if (l->gone[d]) return false;
    for (int i = 0; i < k->call->nin + k->call->nout; i++) {
        const struct view *v = i < k->call->nin ? &k->in[i] : &k->out[i - k->call->nin];
        if (v->dtype != DT_NONE && v->ndim == l->ndim && !view_is_dense(v)) return false;
    }
    return k->call->op->gpu.line_dims == no_dims;
}

/* Divides a tensor whose elements are computed independently into lines of STRETCH elements. A thread then has 16
 * elements, so the work that an operator's code does once per line costs little. The length is the same for every
 * tensor, so tensors of all shapes share one text. */
static void
flatten_lines(struct lines_on *l)
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

/* Returns the group of loops to which all dimensions of a view belong: 1 along a line, 0 across lines. A letter
 * of the SBP rule that the view shares with the tensor of the lines decides. Without a rule, the number of
 * elements decides; this is ambiguous if there are as many lines as elements per line. */
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

bool
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
        bool one_loop = g == 1 && n[1] == 1; /* along the line, results may be longer or shorter than operands */
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

/* Returns true if the neighbouring dimensions a and b of group g (1: along lines, 0: across lines) can be one
 * loop in all views that are accessed along lines. */
static bool
are_joint(const struct kcall *k, const struct lines_on *l, int g, int a, int b)
{
    int64_t stride[2][MAX_DIM];
    const struct call *c = k->call;
    for (int i = 0; i < c->nin + c->nout; i++) {
        bool operand = i < c->nin;
        const struct view *v = operand ? &k->in[i] : &k->out[i - c->nin];
        if (v->dtype == DT_NONE || (operand ? c->in[i].weak || c->op->gpu.by_position >> i & 1 : view_numel(v) == 0))
            continue;
        if (!line_strides(l, i, v, stride) || stride[g][a] != stride[g][b] * l->size[g][b]) return false;
    }
    const struct making_ends *e = l->after ? &l->after->ends : NULL;
    for (int i = 0; e && i < e->nin + e->nout; i++) {
        if (!making_in_memory(e, i)) continue;
        if (!line_strides(l, 0, e->view[i], stride) || stride[g][a] != stride[g][b] * l->size[g][b]) return false;
    }
    return true;
}

static void
join_loops(const struct kcall *k, struct lines_on *l)
{
    for (int g = 0; g < 2; g++) {
        struct loop *loop = l->loop[g];
        l->nloop[g] = 0;
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
        /* an empty dimension counts as 1, because kernels divide by the sizes of loops even if there is no element */
        l->size[l->gone[d]][l->n[l->gone[d]]++] = MAX(x->dim[d], 1);
        *(l->gone[d] ? &l->length : &l->count) *= x->dim[d];
    }
    for (int g = 0; g < 2; g++)
        if (l->n[g] == 0) l->size[g][l->n[g]++] = 1;
    if (is_flat(k, l)) flatten_lines(l);
    join_loops(k, l);
}

/* Appends words to the kernel's argument: the strides of a view in the loops of group g (1: along a line, 0:
 * across lines); if stride is NULL, the sizes of these loops. */
static void
add_loops(struct making *m, const struct lines_on *l, int g, const int64_t *stride)
{
    for (int i = 0; i < l->nloop[g]; i++)
        making_word(m, (uint64_t)(stride ? stride[l->loop[g][i].last] : l->loop[g][i].size));
}

int64_t
line_step(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g)
{
    return stride[g][l->loop[g][l->nloop[g] - 1].last];
}

/* Writes the declaration of the C++ function x<k>(i), which reads one element of operand k. If needed, also
 * declares x<k>(element), which reads a pack (contiguous elements) with one instruction. With lanes, x<k>(i)
 * reads one element of each of several adjacent lines. */
static void
add_reading(struct making *m, int k, const struct passing *p, enum dtype d, bool together)
{
    const char *memory = making_memory(d), *type = making_compute(compute_of(d));
    if (p->lanes > 1) {
        str_addf(&m->head, "    READ_LANES(%d, %s, %s)\n", k, type, memory);
        return;
    }
    str_addf(&m->head, "    READ_ONE(%d, %s, %s)\n", k, type, memory);
    if (together) str_addf(&m->head, "    READ_PACK(%d, %s, %s)\n", k, type, memory);
}

/* Writes the declaration of the C++ function y<k>(i, value), which writes one element of result k. If needed,
 * also declares y<k>(element, value), which writes a pack (contiguous elements) once the pack's last value is
 * known. With lanes, y<k>(i, value) writes one element of each of several adjacent lines. */
static void
add_writing(struct making *m, int k, const struct passing *p, enum dtype d, bool together)
{
    const char *memory = making_memory(d);
    str_addf(&m->head, "    WRITE_ONE(%d, %s)\n", k, memory);
    if (p->lanes > 1)
        str_addf(&m->head, "    WRITE_LANES(%d, %s)\n", k, memory);
    else if (together)
        str_addf(&m->head, "    WRITE_PACK(%d, %s)\n", k, memory);
}

void
line_add_place(struct making *m, const struct lines_on *l, char name, int k, int index, int64_t stride[2][MAX_DIM],
               bool together)
{
    str_addf(&m->member, "    struct { void *data; int64_t across[%d], along[%d]; } %c%d;\n", l->nloop[0], l->nloop[1],
             name, k);
    making_fill(m, FILL_ADDRESS, index, 0);
    add_loops(m, l, 0, stride[0]);
    add_loops(m, l, 1, stride[1]);
    if (together)
        str_addf(&m->head, "    PLACE_TOGETHER(%c%d, %d, %s)\n", name, k, l->nloop[0], making_places(l->count));
    else
        str_addf(&m->head, "    PLACE_APART(%c%d, %d, %s, %d, %s)\n", name, k, l->nloop[0], making_places(l->count),
                 l->nloop[1], making_places(l->length));
}

static bool
add_line_view(struct making *m, const struct lines_on *l, const struct passing *p, char name, int k, int index,
              const struct view *v)
{
    int64_t stride[2][MAX_DIM];
    enum dtype d = (enum dtype)v->dtype;
    if (name == 'y' && view_numel(v) == 0) { /* the result is not used, or has no lines */
        str_addf(&m->head, "    WRITE_NOTHING(%d)\n", k);
        return true;
    }
    if (!line_strides(l, index, v, stride)) return false;
    bool together = p->pack > 1 && line_step(l, stride, 1) == 1;
    line_add_place(m, l, name, k, index, stride, together);
    if (name == 'x')
        add_reading(m, k, p, d, together);
    else
        add_writing(m, k, p, d, together);
    return true;
}

/* What the GPU code of a reduction computes: the result of a whole line, the result of one part of a line, or the
 * combination of the results of a line's parts. */
enum fold_form { FOLD_WHOLE, FOLD_PART, FOLD_PARTS };

static const char *
fold_body(struct arena *a, const struct kcall *k, enum fold_form form)
{
    static const char *const kind[NREDUCE] = {
        [RED_SUM] = "sums", [RED_MAX] = "greatest", [RED_MIN] = "least", [RED_PROD] = "products"};
    static const char *const text[] = {
        [FOLD_WHOLE] = "const auto v = fold<kind>(start, [&](element i) { return as<type>(x0(i)); });\n"
                       "        once([&] { y0(0, v); });",
        [FOLD_PART] = "keep(0, fold<kind>(start, [&](element i) { return as<type>(x0(from + i)); }));",
        [FOLD_PARTS] = "const type v = fold_parts<kind>(start, [&](int64_t i) { return kept_part<type>(i, 0); });\n"
                       "        once([&] { y0(0, v); });"};
    enum reduce r = k->call->op->host.folds;
    bool real = compute_of((enum dtype)k->in[0].dtype) != COMP_I64;
    double start = reduce_start_f(r);
    int64_t whole = reduce_start_i(r, (enum dtype)k->out[0].dtype);
    uint64_t bits;
    memcpy(&bits, real ? (void *)&start : (void *)&whole, sizeof bits);
    struct str body = {0};
    str_addf(&body, "FOLD_FROM(%s, %s, 0x%" PRIx64 "ull)\n", real ? "double" : "int64_t", kind[r], bits);
    str_addf(&body, "        %s", text[form]);
    const char *own = arena_strdup(a, str_text(&body));
    str_free(&body);
    return own;
}

/* Writes the declaration of the C++ function where(), which returns the position of element i of the line in the
 * tensor. The GPU code of operators uses where() to read other operands by position. */
static void
add_place_type(struct making *m, const struct lines_on *l, bool of_result)
{
    const struct view *x = l->of;
    str_addf(&m->head, "    typedef %s places;\n", making_places(MAX(l->count, l->length)));
    making_add_whole(m, 'z', 0, 0, x);
    if (of_result)
        str_addf(&m->head, "    RESULT_SIZES(%d)\n", x->ndim);
    else
        making_add_sizes(m, 'z', 0, x->ndim);
    str_addf(&m->head, "    WHERE_IS(%d", x->ndim);
    for (int d = 0; d < x->ndim; d++) str_addf(&m->head, ", %d", l->gone[d]);
    str_add(&m->head, ")\n");
}

/* Writes declarations of the C++ functions keep, kept and kept_part. keep() stores a value for the next pass,
 * which reads it with kept() or kept_part(). The values of a line or part are stored together. */
static void
add_kept(struct making *m, const struct passing *p)
{
    if (p->keeps) {
        str_add(&m->member, "    uint64_t *keeps;\n");
        making_fill(m, FILL_SCRATCH, 0, p->keep_at);
        str_addf(&m->head, "    WRITE_KEPT(%d)\n", p->keeps);
    }
    if (p->kept) {
        str_add(&m->member, "    const uint64_t *kept;\n");
        making_fill(m, FILL_SCRATCH, 0, p->kept_at);
        str_addf(&m->head, "    READ_KEPT(%d)\n", p->kept);
    }
    if (p->joins) {
        str_add(&m->member, "    const uint64_t *parts;\n");
        making_fill(m, FILL_SCRATCH, 0, p->part_at);
        str_addf(&m->head, "    READ_KEPT_PARTS(%d, %d)\n", p->part_kept, p->joins);
    }
}

/* Returns the type in which a line is computed. */
static enum compute
line_type(const struct kcall *k)
{
    enum compute type = compute_of((enum dtype)k->in[0].dtype);
    for (int i = 0; i < k->call->nin; i++)
        if (k->in[i].dtype == DT_F64 && !k->call->in[i].weak) type = COMP_F64;
    return type;
}

/* Returns true if all float operands and results along lines have 16 bits. */
static bool
has_half_operands(const struct kcall *k)
{
    for (int i = 0; i < k->call->nin; i++)
        if (!k->call->in[i].weak && (k->in[i].dtype == DT_F32 || k->in[i].dtype == DT_F64)) return false;
    return k->in[0].dtype == DT_BF16 || k->in[0].dtype == DT_F16;
}

enum { WARP = 32 };
/* Returns the maximum number of elements of a line that a thread keeps in registers. For more elements, in arrays
 * of 128 bytes or more, the compiler would use the stack ("stack frame" in its report). */
static int
most_held(const struct kcall *k)
{
    return line_type(k) == COMP_F64 ? 14 : 28;
}

/* Returns the number of threads per line: one if lines are short, a whole block if there are few lines, otherwise
 * one warp or more. holds: maximum number of elements that a thread keeps in registers; 0: none. */
static int
width_of(int64_t length, int64_t count, int holds)
{
    enum { FEW = 8, MOST = 512, MANY = 1024, LONG = 2048 };
    bool near = length <= MOST ? count >= CUDA_BLOCK : length <= (holds ? CUDA_BLOCK * holds : LONG) && count >= MANY;
    int width = length <= FEW ? 1 : near ? WARP : CUDA_BLOCK;
    while (holds && near && width > 1 && width * holds < length) width *= 2;
    return width;
}

/* Returns the number of threads per line if the operator's GPU code reads operands by position. Such code
 * computes positions once per line, so each thread gets several elements of the line to spread this cost. */
static int
positions_width(int64_t length)
{
    enum { FEW = 8, EACH = 4 };
    return length <= FEW ? 1 : length <= EACH * WARP ? WARP : CUDA_BLOCK;
}

/* Returns true if neighbouring lines are contiguous in memory and the elements of a line are not. Neighbouring
 * threads then process neighbouring lines. */
static bool
is_across(const struct kcall *k, const struct line_pass *pass, const struct lines_on *l)
{
    enum { SIDE = 8 };
    int64_t stride[2][MAX_DIM];
    if (pass->of || k->call->op->gpu.by_position || l->flat || l->length <= SIDE) return false;
    if (!line_strides(l, 0, &k->in[0], stride)) return false;
    const struct loop *line = &l->loop[0][l->nloop[0] - 1], *along = &l->loop[1][l->nloop[1] - 1];
    return line->size >= SIDE && stride[0][line->last] == 1 && stride[1][along->last] != 1;
}

/* Returns the number of parts into which each line is divided. Each part has a team of threads. The number of
 * parts does not depend on the GPU, so sums have the same bits on every GPU. */
static int
line_parts(const struct lines_on *l, bool across, int lanes)
{
    enum { PART = 1 << 14, NARROW = 1 << 6, MOST_PARTS = 1024, LINES = 1 << 16, DEEP = 1 << 8, TEAMS = 1 << 12 };
    int64_t least = lanes > 1 ? DEEP : across ? NARROW : PART;
    int64_t enough = lanes > 1 ? TEAMS : across ? LINES : MOST_PARTS, count = l->count / lanes;
    int parts = 1;
    while (parts < MOST_PARTS && count * parts < enough && l->length / parts > least) parts *= 2;
    return parts;
}

/* ---- choosing how many elements or lines a thread processes at once ---- */

enum { PACK_BYTES = 16, MOST_PACK = 8 };

/* Returns view i of a call (operands, then results) if the pass reads or writes it along lines; else NULL. writes:
 * bit set of the results that the pass writes. */
static const struct view *
lying_view(const struct kcall *k, uint32_t writes, int i)
{
    const struct call *c = k->call;
    bool operand = i < c->nin;
    const struct view *v = operand ? &k->in[i] : &k->out[i - c->nin];
    if (v->dtype == DT_NONE ||
        (operand ? c->in[i].weak || c->op->gpu.by_position >> i & 1 : !(writes >> (i - c->nin) & 1)))
        return NULL;
    return !operand && view_numel(v) == 0 ? NULL : v;
}

bool
line_begins_whole(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g, int n)
{
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < l->nloop[h] - (h == g); i++)
            if (l->loop[h][i].size > 1 && stride[h][l->loop[h][i].last] % n) return false;
    return true;
}

/* Returns the number of neighbours that a thread processes at once: elements of a line if g is 1, lines if g is 0.
 * still: ignores views in which neighbours share an element, because a thread may read that element again for each
 * neighbour. */
static int
lines_at_once(const struct kcall *k, const struct lines_on *l, uint32_t writes, int g, bool still)
{
    int64_t stride[2][MAX_DIM], size = l->loop[g][l->nloop[g] - 1].size;
    int n = MOST_PACK, least = PACK_BYTES;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < k->call->nin + k->call->nout; i++) {
            const struct view *v = lying_view(k, writes, i);
            if (!v) continue;
            if (!line_strides(l, i, v, stride)) return 1;
            int64_t step = line_step(l, stride, g);
            if (step == 0 && still) continue;
            if (step != 1 || (pass == 1 && !line_begins_whole(l, stride, g, n))) return 1;
            least = MIN(least, (int)dtype_bytes((enum dtype)v->dtype));
            n = MIN(n, PACK_BYTES / least);
        }
    return l->nloop[1] == 1 && least < PACK_BYTES && size % n == 0 ? n : 1;
}

/* Returns a bit set: bit i is set if the pass itself writes result i to memory. If there is an epilogue (further
 * steps of a chain), the epilogue writes result 0 instead. */
static uint32_t
stored_operands(const struct passing *p)
{
    return p->after ? p->pass->writes & ~1u : p->pass->writes;
}

/* Returns true if the text of the operator's GPU code contains the word. Used to omit declarations that this code
 * does not need. */
static bool
says(const struct passing *p, const char *word)
{
    return strstr(p->pass->body, word) != NULL;
}

/* Writes declarations for an operand that is read by position. */
static void
add_positioned(struct making *m, const struct kcall *k, const struct passing *p, int i)
{
    char nth[24];
    snprintf(nth, sizeof nth, "x%d_nth(", i);
    making_add_operand(m, k, i);
    if (i < k->call->nin && says(p, nth)) making_add_nth(m, i, &k->in[i]);
}

/* Writes declarations of the operands and results that a pass reads and writes. Returns false if the strides of an
 * operand or result do not fit the lines. */
static bool
make_added_lines(struct making *m, const struct kcall *k, const struct lines_on *l, const struct passing *p)
{
    const struct call *c = k->call;
    bool can = true;
    for (int i = 0; i < MAX(c->nin, op_noperand(c->op)) && can; i++) {
        if (c->op->gpu.by_position >> i & 1)
            add_positioned(m, k, p, i);
        else if (i >= c->nin || k->in[i].dtype == DT_NONE)
            str_addf(&m->head, "    READ_NOTHING(%d)\n", i);
        else if (c->in[i].weak)
            making_add_number(m, i, (enum dtype)k->in[i].dtype);
        else
            can = add_line_view(m, l, p, 'x', i, i, &k->in[i]);
    }
    if (p->after) line_add_after(m, l, p);
    for (int i = 0; i < c->nout && can; i++)
        if (stored_operands(p) >> i & 1) can = add_line_view(m, l, p, 'y', i, c->nin + i, &k->out[i]);
    return can;
}

/* Number of lines that a block processes side by side. ACROSS: if a thread has one line; ACROSS_LANES: if a thread
 * has several (lanes). */
enum { ACROSS = 32, ACROSS_LANES = 8 };

/* Returns the number of blocks of a pass in which keys (integer ids) select the lines; a power of two. Each block
 * searches all keys for those that select its lines. */
static int64_t
naming_blocks(int64_t count)
{
    enum { MOST_BLOCKS = 1 << 10 };
    int64_t blocks = 1;
    while (blocks < MOST_BLOCKS && blocks < count) blocks *= 2;
    return blocks;
}

/* Distributes the lines of a pass over threads. */
static void
share_out_lanes(const struct kcall *k, const struct lines_on *l, struct passing *p)
{
    bool across = !p->joins && is_across(k, p->pass, l);
    int holds = says(p, "held(") ? most_held(k) : 0;
    p->lanes = across && p->pass->lanes ? lines_at_once(k, l, p->pass->writes, 0, false) : 1;
    p->parts = p->pass->parted ? line_parts(l, across, p->lanes) : 1;
    p->pack = !across && says(p, "(element ") ? lines_at_once(k, l, p->pass->writes, 1, true) : 1;
    p->keeps = p->pass->keeps;
    if (across || (p->joins && p->joins <= CUDA_BLOCK && l->count >= ACROSS))
        p->gap = p->lanes > 1 ? ACROSS_LANES : ACROSS, p->width = CUDA_BLOCK / p->gap;
    else if (p->joins)
        p->gap = 1, p->width = width_of(p->joins, l->count, 0);
    else if (k->call->op->gpu.by_position)
        p->gap = 1, p->width = positions_width(l->length);
    else
        p->gap = 1, p->width = p->parts > 1 ? CUDA_BLOCK : width_of(l->length, l->count, p->pack > 1 ? holds : 0);
    p->named = says(p, "each_named(");
    if (p->named) p->width = MAX(p->width, WARP);
    int64_t each = (l->length + (int64_t)p->width * p->pack - 1) / ((int64_t)p->width * p->pack) * p->pack;
    p->held = p->pack > 1 && p->parts == 1 && each <= holds ? (int)each : 0;
}

/* Begins the C++ struct that contains an operator's GPU code (its body). The caller appends the declarations of
 * operands and results, the body, and the end of the struct. */
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
    str_addf(&m->head, "struct lines : team<WIDTH, GAP, %d, PACK, HELD> {\n", has_half_operands(k));
    str_addf(&m->head, "    LINES_OF(%s, %s, %d)\n", line_type(k) == COMP_F32 ? "float" : "double",
             line_type(k) == COMP_I64 ? "int64_t" : "double", p->parts);
    making_add_names(&m->head, k->call->op);
    if (k->call->op->gpu.by_position) add_place_type(m, l, p->pass->of > 0);
    add_kept(m, p);
}

/* Writes the run-time condition under which a thread accesses packs (contiguous elements) or lanes (adjacent
 * lines) at once: each address is aligned, and for flat lines the number of elements is a multiple of the pack. */
static void
add_whole_line(struct str *s, const struct kcall *k, const struct lines_on *l, const struct passing *p)
{
    int64_t stride[2][MAX_DIM];
    int n = MAX(p->pack, p->lanes);
    if (l->flat) str_addf(s, "a.total %% %d == 0", n);
    for (int i = 0; i < k->call->nin + k->call->nout; i++) {
        bool operand = i < k->call->nin;
        const struct view *v = lying_view(k, stored_operands(p), i);
        if (!v || !line_strides(l, i, v, stride) || line_step(l, stride, p->pack > 1) != 1) continue;
        str_addf(s, "%s(uint64_t)a.%c%d.data %% %d == 0", s->len ? " && " : "", operand ? 'x' : 'y',
                 operand ? i : i - k->call->nin, MIN(PACK_BYTES, n * (int)dtype_bytes((enum dtype)v->dtype)));
    }
}

/* Writes the loop in which a team (the threads that share a line) processes its lines or parts of lines; with
 * lanes, its groups of adjacent lines. If keys (integer ids) select the lines, a block processes all its lines in one
 * call of the body. */
static void
add_jobs(struct making *m, const struct kcall *k, const struct lines_on *l, const struct passing *p)
{
    const char *team = p->gap > 1 ? "threadIdx.x % TEAMS" : "threadIdx.x / WIDTH";
    str_add(&m->head, "DEVICE void\ngo(const args &a, int64_t block, int64_t blocks, double *room)\n{\n");
    making_add_call(&m->head, "c", k->call);
    if (p->named)
        str_add(&m->head, "    EACH_NAMED_LINE\n}\n");
    else
        str_addf(&m->head, "    EACH_%s(%d, %s)\n}\n",
                 p->parts > 1 ? "PART_OF_LINES"
                 : l->flat    ? "FLAT_LINE"
                              : "LINE",
                 CUDA_BLOCK, team);
}

/* Writes the loops over lines as one of two C++ namespaces. In namespace `single`, a thread accesses one element at a
 * time. In namespace `several`, a thread accesses several elements at a time: a pack of a line's contiguous elements,
 * or one element from each of several adjacent lines (lanes). */
static void
add_line_gap(struct making *m, bool several, const struct passing *p, const char *text)
{
    int gap = p->lanes > 1 && !several ? ACROSS : p->gap, width = gap == p->gap ? p->width : CUDA_BLOCK / gap;
    str_addf(&m->head, "namespace %s {\nenum { WIDTH = %d, GAP = %d, PACK = %d, HELD = %d, LANES = %d };\n%s}\n",
             several ? "several" : "single", width, gap, several ? p->pack : 1, several ? p->held : 0,
             several ? p->lanes : 1, text);
}

/* Writes both namespaces, and the kernel's choice between them at run time. The kernel uses `several` if memory is
 * aligned to packs, and `single` otherwise. */
static void
add_choice(struct making *m, const struct kcall *k, const struct lines_on *l, const struct passing *p, const char *text)
{
    struct str whole = {0};
    int n = MAX(p->pack, p->lanes);
    add_line_gap(m, false, p, text);
    int lanes = p->lanes > 1 ? CUDA_BLOCK / WARP * ACROSS_LANES * n : 0;
    if (p->named)
        str_add(&m->body, "    __shared__ double room[sizeof(listing) / sizeof(double)];\n");
    else
        str_addf(&m->body, "    __shared__ double room[%d];\n", MAX(CUDA_BLOCK, lanes));
    if (n > 1) {
        add_line_gap(m, true, p, text);
        add_whole_line(&whole, k, l, p);
        str_addf(&m->body, "    if (%s) return several::go(a, block, blocks, room);\n",
                 whole.len ? str_text(&whole) : "true");
        str_free(&whole);
    }
    str_add(&m->body, "    single::go(a, block, blocks, room);\n");
}

/* Returns true if the epilogue (the further steps of the chain) reads operands from memory. */
static bool
reads_more(const struct after *f)
{
    for (int i = 0; f && i < f->ends.nin; i++)
        if (making_in_memory(&f->ends, i)) return true;
    return false;
}

/* Returns the minimum number of resident blocks per multiprocessor, which limits the registers of a thread. If
 * threads keep elements of f32 lines, more blocks hide memory latency better than more registers would. Registers
 * per thread for lines of 768 elements, of which a thread keeps 24, with and without this limit:
 *
 *   norm                               64    74
 *   gradient of norm, keeps two lines  80   108
 *   the gradient with a residual      120   164 */
static int
crowd_of(const struct kcall *k, const struct passing *p)
{
    int kept = 0;
    for (const char *at = p->pass->body; (at = strstr(at, "held(")); at++) kept += p->held;
    if (p->lanes > 1) return 3; /* kernels with lanes are limited by memory bandwidth */
    /* Kernels that search keys are bound by the latency of reads, so more resident blocks make them faster. Without
     * this limit, such a kernel uses 105 registers per thread. */
    if (p->named) return 4;
    if (kept == 0 || line_type(k) != COMP_F32) return 1;
    if (reads_more(p->after)) return 2;
    return kept <= 24 ? 4 : kept <= 48 ? 3 : 1;
}

/* Adds the epilogue (the further steps of the chain) to the loops over lines. Fails with E_KERNEL if the pass
 * cannot include these steps. */
static int
take_after(const struct kcall *k, const struct passing *p, struct lines_on *l)
{
    l->after = p->after;
    join_loops(k, l);
    bool can =
        p->parts == 1 && p->lanes == 1 && !p->pass->of && says(p, "each_of(") && (p->pack == 1 || l->nloop[1] == 1);
    return can ? 0
               : fail(E_KERNEL, "%s: the strides of the fused calls after it do not suit a GPU kernel",
                      k->call->op->name);
}

static int
make_line_pass(struct arena *a, const struct kcall *k, struct passing *p, struct cuda_source *s)
{
    struct making m = making_begin(a, s);
    struct lines_on l;
    const struct after *f = p->after;
    if (k->in[0].dtype == DT_NONE) return fail(E_KERNEL, "%s: operand 0 is absent", k->call->op->name);
    split_dims(a, k, p->pass, &l);
    share_out_lanes(k, &l, p);
    s->parts.crowd = crowd_of(k, p);
    s->copies = p->pass->copies;
    if (f) {
        TRY(take_after(k, p, &l));
        making_add_chain(&m, f->lead, f->nstep, f->step, &f->ends);
    } else {
        making_what(&m, k->call->op->name);
    }
    struct str before = m.head;
    m.head = (struct str){0};
    begin_lines(&m, k, &l, p);
    bool can = make_added_lines(&m, k, &l, p);
    str_addf(&m.head, "    METHOD void of(const call *c)\n    {\n        (void)c;\n        %s\n    }\n};\n",
             p->pass->body);
    add_jobs(&m, k, &l, p);
    struct str text = m.head;
    m.head = before;
    add_choice(&m, k, &l, p, str_text(&text));
    str_free(&text);
    int64_t jobs = l.count * p->parts;
    s->scratch_bytes = (size_t)(jobs * p->keeps) * sizeof(uint64_t);
    int64_t threads = p->named ? naming_blocks(l.count) * CUDA_BLOCK : jobs / p->lanes * p->width;
    int status = making_finish(&m, "line", jobs > 0 ? threads : 0);
    return can ? status : fail(E_KERNEL, "%s: the strides of its operands do not suit a GPU kernel", k->call->op->name);
}

/* Writes the kernels of all passes of a call. Each pass stores its values in scratch, after those of the previous
 * pass, and reads the values of the previous pass. If a pass divides lines into parts, it stores one set of
 * values per part (kept_part). */
static int
make_passes(struct arena *a, const struct kcall *k, const struct line_pass *pass, const struct after *after,
            struct cuda_source *s)
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
        p.after = pass->writes & 1 ? after : NULL;
        TRY(make_line_pass(a, k, &p, to));
        used += (int64_t)to->scratch_bytes;
        if (pass[1].body) to = to->then = ARENA_NEW(a, struct cuda_source);
    }
    s->scratch_bytes = (size_t)used;
    return 0;
}

int
making_fold(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    struct line_pass pass[] = {{.keeps = 1, .parted = true, .lanes = true}, {.writes = 1, .lanes = true}, {NULL}};
    struct lines_on l;
    split_dims(a, k, &pass[0], &l);
    bool across = is_across(k, &pass[0], &l);
    bool parted = line_parts(&l, across, across ? lines_at_once(k, &l, 0, 0, false) : 1) > 1;
    pass[0].body = fold_body(a, k, FOLD_PART);
    pass[1].body = fold_body(a, k, parted ? FOLD_PARTS : FOLD_WHOLE);
    return make_passes(a, k, parted ? pass : pass + 1, NULL, s);
}

int
line_make(struct arena *a, const struct kcall *k, const struct after *after, struct cuda_source *s)
{
    const struct line_pass one[] = {{.body = k->call->op->gpu.line, .writes = UINT32_MAX}, {NULL}};
    return make_passes(a, k, k->call->op->gpu.pass ? k->call->op->gpu.pass : one, after, s);
}

int
making_line(struct arena *a, const struct kcall *k, struct cuda_source *s)
{
    return line_make(a, k, NULL, s);
}
