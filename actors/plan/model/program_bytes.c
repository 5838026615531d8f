/* program_bytes.c - serialises a program to bytes and back.
 *
 * Numbers are written with seven bits per byte, lowest first; the last byte is below 128. Signed numbers are
 * zigzag-encoded. Placements and layouts have tables, in the order of first use. The functions `each_...` describe
 * the program once for both directions: the same function writes or reads, depending on the struct wire. A program
 * has exactly one encoding: a program that was read must give the same bytes when it is written again. */
#include "actors/plan/model/program_bytes.h"

#include "kernels/op/base/body.h"
#include "kernels/op/base/table.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/tensor/atlas.h"

#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = "rillepr1";

/* State of writing or reading a program. out: string to which the program is written; NULL: a program is read. */
struct wire {
    struct str *out;
    const unsigned char *at, *begin, *end;
    struct arena *arena; /* memory of the program that is read */
    struct atlas *atlas;
    const struct place **place;
    const struct layout **layout;
    int32_t nplace, nlayout, place_capacity, layout_capacity;
};

static int
program_malformed(const struct wire *w, const char *what)
{
    return fail(E_PLAN, "program: byte %lld: %s", (long long)(w->at - w->begin), what);
}

/* ---- numbers ---- */

static int
each_u64(struct wire *w, uint64_t *v)
{
    if (w->out) {
        uint64_t x = *v;
        for (; x > 127; x >>= 7) str_addn(w->out, &(char){(char)(x | 128)}, 1);
        str_addn(w->out, &(char){(char)x}, 1);
        return 0;
    }
    *v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end) return program_malformed(w, "the bytes end too early");
        uint64_t b = *w->at++;
        if (shift == 63 && b > 1) break;
        *v |= (b & 127) << shift;
        if (b < 128) return 0;
    }
    return program_malformed(w, "a number is too large");
}

/* Reads or writes a number in the range `least` to `most`. */
static int
each_i64(struct wire *w, int64_t *v, int64_t least, int64_t most)
{
    uint64_t x = (uint64_t)*v << 1 ^ (*v < 0 ? UINT64_MAX : 0);
    TRY(each_u64(w, &x));
    if (w->out) return 0;
    *v = (int64_t)(x >> 1 ^ (x & 1 ? UINT64_MAX : 0));
    return *v < least || *v > most ? program_malformed(w, "a number or index is out of range") : 0;
}

static int
each_i32(struct wire *w, int32_t *v, int64_t least, int64_t most)
{
    int64_t x = *v;
    TRY(each_i64(w, &x, least, most));
    *v = (int32_t)x;
    return 0;
}

static int
each_u8(struct wire *w, uint8_t *v, int most)
{
    int64_t x = *v;
    TRY(each_i64(w, &x, 0, most));
    *v = (uint8_t)x;
    return 0;
}

static int
each_bool(struct wire *w, bool *v)
{
    uint8_t x = *v;
    TRY(each_u8(w, &x, 1));
    *v = x;
    return 0;
}

static int
each_double(struct wire *w, double *v)
{
    uint64_t x;
    memcpy(&x, v, sizeof x);
    TRY(each_u64(w, &x));
    memcpy(v, &x, sizeof x);
    return 0;
}

/* Reads or writes a count of items. An item takes at least one byte, so the count is at most the number of bytes
 * left. */
static int
each_count(struct wire *w, int32_t *n)
{
    return each_i32(w, n, 0, w->out ? INT32_MAX : MIN((int64_t)INT32_MAX, (int64_t)(w->end - w->at)));
}

/* ---- placements, layouts ---- */

static int
read_place(struct wire *w, const struct place **out)
{
    uint8_t kind = 0, naxis = 0;
    int32_t axis[MAX_AXIS];
    int64_t n = 1;
    TRY(each_u8(w, &kind, NDEVICE_KIND - 1));
    TRY(each_u8(w, &naxis, MAX_AXIS));
    for (int a = 0; a < naxis; a++) {
        axis[a] = 0;
        TRY(each_i32(w, &axis[a], 1, w->end - w->at));
        n *= axis[a];
        if (n > w->end - w->at) return program_malformed(w, "a placement has more ranks than the program has bytes");
    }
    if (naxis == 0) return program_malformed(w, "a placement has no axes");
    int32_t *rank = ARENA_ARRAY(w->arena, int32_t, n);
    for (int64_t i = 0; i < n; i++) TRY(each_i32(w, &rank[i], 0, INT32_MAX));
    return place_new(w->atlas, kind, naxis, axis, rank, out);
}

static void
write_place(struct wire *w, const struct place *p)
{
    uint8_t kind = p->kind, naxis = p->naxis;
    each_u8(w, &kind, UINT8_MAX);
    each_u8(w, &naxis, UINT8_MAX);
    for (int a = 0; a < naxis; a++) each_i32(w, &(int32_t){p->axis[a]}, 0, 0);
    for (int32_t i = 0; i < p->nrank; i++) each_i32(w, &(int32_t){p->rank[i]}, 0, 0);
}

/* Reads or writes an index into the table of placements. An index equal to the table's size is followed by a new
 * entry. */
static int
each_place(struct wire *w, const struct place **p)
{
    int32_t i = 0;
    while (w->out && i < w->nplace && w->place[i] != *p) i++;
    TRY(each_i32(w, &i, 0, w->nplace));
    if (i < w->nplace) {
        *p = w->place[i];
        return 0;
    }
    if (w->out)
        write_place(w, *p);
    else
        TRY(read_place(w, p));
    GROW(w->place, w->nplace + 1, w->place_capacity);
    w->place[w->nplace++] = *p;
    return 0;
}

enum { UNIT_SPLIT = SBP_P + 1 }; /* kind of an entry S with a unit, which follows the entry */

static int
each_new_layout(struct wire *w, const struct layout **l)
{
    const struct place *p = w->out ? (*l)->place : NULL;
    struct sbp sbp[MAX_AXIS] = {{0}};
    uint8_t order[MAX_AXIS] = {0};
    TRY(each_place(w, &p));
    for (int a = 0; a < p->naxis; a++) {
        if (w->out) {
            sbp[a] = (*l)->sbp[a];
            order[a] = (*l)->order[a];
        }
        uint8_t kind = sbp[a].unit ? UNIT_SPLIT : sbp[a].kind;
        TRY(each_u8(w, &kind, UNIT_SPLIT));
        TRY(each_u8(w, &sbp[a].axis, MAX_DIM - 1));
        TRY(each_u8(w, &sbp[a].reduce, NREDUCE - 1));
        sbp[a].kind = kind == UNIT_SPLIT ? SBP_S : kind;
        if (kind == UNIT_SPLIT) TRY(each_i32(w, &sbp[a].unit, 2, INT32_MAX));
        TRY(each_u8(w, &order[a], p->naxis - 1));
    }
    return w->out ? 0 : layout_new(w->atlas, p, sbp, order, l);
}

/* Reads or writes a layout or NULL, as a number. 0: NULL; otherwise 1 + the layout's index in the table of layouts.
 * An index equal to the table's size is followed by a new entry. */
static int
each_layout(struct wire *w, const struct layout **l)
{
    int32_t i = 1;
    while (w->out && *l && i <= w->nlayout && w->layout[i - 1] != *l) i++;
    if (w->out && !*l) i = 0;
    TRY(each_i32(w, &i, 0, w->nlayout + 1));
    if (i <= w->nlayout) {
        *l = i ? w->layout[i - 1] : NULL;
        return 0;
    }
    TRY(each_new_layout(w, l));
    GROW(w->layout, w->nlayout + 1, w->layout_capacity);
    w->layout[w->nlayout++] = *l;
    return 0;
}

static int
each_some_layout(struct wire *w, const struct layout **l)
{
    TRY(each_layout(w, l));
    return *l ? 0 : program_malformed(w, "a value has no layout");
}

/* ---- types, references, attributes ---- */

static int
each_type(struct wire *w, struct type *t)
{
    TRY(each_u8(w, &t->dtype, NDTYPE - 1));
    TRY(each_u8(w, &t->ndim, MAX_DIM));
    TRY(each_u8(w, &t->weak, 1));
    for (int d = 0; d < t->ndim; d++) TRY(each_i64(w, &t->dim[d], 0, INT64_MAX));
    return 0;
}

static int
each_ref(struct wire *w, struct ref *r)
{
    TRY(each_u8(w, &r->kind, REF_NUMBER));
    TRY(each_u8(w, &r->out, OP_OUT - 1));
    return each_i32(w, &r->index, 0, INT32_MAX);
}

/* Reads or writes the text of a body. */
static int
each_body(struct wire *w, int64_t *number)
{
    int32_t n = w->out ? (int32_t)strlen(body_at(*number)->text) : 0;
    TRY(each_count(w, &n));
    if (w->out) {
        str_addn(w->out, body_at(*number)->text, (size_t)n);
        return 0;
    }
    char *text = arena_alloc(w->arena, (size_t)n + 1);
    memcpy(text, w->at, (size_t)n);
    w->at += n;
    return body_number(text, number) ? program_malformed(w, "a body is malformed") : 0;
}

static int
each_attr(struct wire *w, const struct attr_def *def, struct attr *a)
{
    TRY(each_bool(w, &a->set));
    if (def->kind == ATTR_BODY) return each_body(w, &a->i);
    TRY(each_i32(w, &a->n, 0, ATTR_LIST));
    TRY(each_i64(w, &a->i, INT64_MIN, INT64_MAX));
    TRY(each_double(w, &a->f));
    for (int32_t e = 0; e < a->n; e++) TRY(each_i64(w, &a->list[e], INT64_MIN, INT64_MAX));
    return 0;
}

static int
each_op(struct wire *w, const struct op **op)
{
    char name[64];
    uint8_t n = w->out ? (uint8_t)strlen((*op)->name) : 0;
    TRY(each_u8(w, &n, sizeof name - 1));
    if (w->out) {
        str_addn(w->out, (*op)->name, n);
        return 0;
    }
    if (n > w->end - w->at) return program_malformed(w, "the bytes end too early");
    memcpy(name, w->at, n);
    name[n] = '\0';
    w->at += n;
    *op = op_find(name);
    if (*op) return 0;
    return fail(E_PLAN,
                "the operator '%s' is unknown in this process; set RILLE_OPERATORS to the path of its library for "
                "every process",
                name);
}

/* ---- the program ---- */

/* Returns an array field of a node. Writing: the existing array. Reading: a new array of n elements. */
#define ROOM_FOR(w, field, type, n) ((w)->out ? (type *)(uintptr_t)(field) : ARENA_ARRAY((w)->arena, type, n))

static int
each_node(struct wire *w, struct prog_node *n)
{
    TRY(each_op(w, &n->op));
    TRY(each_i32(w, &n->nin, 0, w->out ? INT32_MAX : w->end - w->at));
    TRY(each_i32(w, &n->nout, 1, OP_OUT));
    TRY(each_u8(w, &n->phase, PHASE_BATCH));
    TRY(each_bool(w, &n->piece));
    TRY(each_bool(w, &n->accumulate));
    TRY(each_bool(w, &n->append));
    TRY(each_bool(w, &n->asked));
    TRY(each_i32(w, &n->again, 0, INT32_MAX));
    TRY(each_i32(w, &n->recompute, 0, INT32_MAX));
    bool has_attr = n->attr != NULL;
    TRY(each_bool(w, &has_attr));
    if (!w->out && has_attr != (op_nattr(n->op) > 0))
        return program_malformed(w, "the number of attributes does not match the operator");
    struct ref *in = ROOM_FOR(w, n->in, struct ref, n->nin);
    const struct layout **want = ROOM_FOR(w, n->want, const struct layout *, n->nin);
    struct type *type = ROOM_FOR(w, n->type, struct type, n->nout);
    const struct layout **layout = ROOM_FOR(w, n->layout, const struct layout *, n->nout);
    struct attr *attr = has_attr ? ROOM_FOR(w, n->attr, struct attr, op_nattr(n->op)) : NULL;
    for (int32_t i = 0; i < n->nin; i++) {
        TRY(each_ref(w, &in[i]));
        TRY(each_layout(w, &want[i]));
    }
    for (int32_t k = 0; k < n->nout; k++) {
        TRY(each_type(w, &type[k]));
        TRY(each_some_layout(w, &layout[k]));
    }
    for (int k = 0; has_attr && k < op_nattr(n->op); k++) TRY(each_attr(w, &n->op->attr[k], &attr[k]));
    n->in = in;
    n->want = want;
    n->type = type;
    n->layout = layout;
    n->attr = attr;
    return 0;
}

static int
each_cost(struct wire *w, struct box_cost *c)
{
    TRY(each_double(w, &c->alpha_ns));
    TRY(each_double(w, &c->beta_ns_per_byte));
    TRY(each_double(w, &c->gamma_ns_per_byte));
    TRY(each_double(w, &c->copy_ns_per_byte));
    TRY(each_double(w, &c->hop_ns));
    TRY(each_double(w, &c->wire_ns));
    TRY(each_double(w, &c->wire_ns_per_byte));
    return each_i64(w, &c->staging_bytes, 0, INT64_MAX);
}

static int
each_value(struct wire *w, struct program *p)
{
    p->leaf = ROOM_FOR(w, p->leaf, struct prog_leaf, p->nleaf + 1);
    p->number = ROOM_FOR(w, p->number, const struct type *, p->nnumber + 1);
    for (int32_t i = 0; i < p->nleaf; i++) {
        TRY(each_type(w, &p->leaf[i].type));
        TRY(each_some_layout(w, &p->leaf[i].layout));
        TRY(each_bool(w, &p->leaf[i].piece));
    }
    for (int32_t i = 0; i < p->nnumber; i++) {
        struct type *t = w->out ? (struct type *)(uintptr_t)p->number[i] : ARENA_NEW(w->arena, struct type);
        TRY(each_type(w, t));
        p->number[i] = t;
    }
    return 0;
}

static int
each_pool(struct wire *w, struct prog_pool *p)
{
    TRY(each_i32(w, &p->backward, 1, 1 << 20));
    TRY(each_i32(w, &p->weight, 1, 1 << 20));
    TRY(each_i32(w, &p->behind, 1, 1 << 20));
    return each_i32(w, &p->hop, 1, 1 << 20);
}

static int
each_program(struct wire *w, struct program *p)
{
    TRY(each_i32(w, &p->pieces, 1, 1 << 20));
    TRY(each_i32(w, &p->cut, 0, INT32_MAX));
    TRY(each_i32(w, &p->lag, 0, 1 << 20));
    TRY(each_bool(w, &p->split));
    TRY(each_u8(w, &p->rule, NRULE - 1));
    TRY(each_bool(w, &p->fold));
    TRY(each_bool(w, &p->find_nan));
    TRY(each_count(w, &p->npool));
    p->pool = ROOM_FOR(w, p->pool, struct prog_pool, p->npool + 1);
    for (int32_t i = 0; i < p->npool; i++) TRY(each_pool(w, &p->pool[i]));
    TRY(each_i32(w, &p->threads, 0, 1 << 20));
    TRY(each_cost(w, &p->cost));
    TRY(each_i32(w, &p->shared_least, 0, INT32_MAX));
    TRY(each_count(w, &p->nleaf));
    TRY(each_count(w, &p->nnumber));
    TRY(each_count(w, &p->nnode));
    TRY(each_count(w, &p->nroot));
    TRY(each_value(w, p));
    p->node = ROOM_FOR(w, p->node, struct prog_node, p->nnode + 1);
    p->root = ROOM_FOR(w, p->root, struct prog_root, p->nroot + 1);
    for (int32_t i = 0; i < p->nnode; i++) TRY(each_node(w, &p->node[i]));
    for (int32_t k = 0; k < p->nroot; k++) {
        TRY(each_ref(w, &p->root[k].ref));
        TRY(each_i32(w, &p->root[k].overwrites_leaf, -1, INT32_MAX));
        TRY(each_bool(w, &p->root[k].join));
    }
    return 0;
}

static void
wire_fini(struct wire *w)
{
    free(w->place);
    free(w->layout);
}

/* Passes a shallow copy of p to each_program(), whose parameter is not const because the same function also reads
 * programs. Writing does not change p. */
void
program_write(const struct program *p, struct str *s)
{
    struct wire w = {.out = s};
    struct program copy = *p;
    str_addn(s, MAGIC, sizeof MAGIC);
    int status = each_program(&w, &copy);
    assert(!status);
    UNUSED(status);
    wire_fini(&w);
}

int
program_check_form(const struct program *p, const char *bytes, size_t n)
{
    struct str again = {0};
    program_write(p, &again);
    bool same = again.len == n && !memcmp(str_text(&again), bytes, n);
    str_free(&again);
    return same ? 0 : fail(E_PLAN, "program: bytes are not in canonical form");
}

int
program_parse(const char *bytes, size_t n, struct atlas *at, struct program **out)
{
    *out = NULL;
    if (n < sizeof MAGIC || memcmp(bytes, MAGIC, sizeof MAGIC))
        return fail(E_PLAN, "program: expected the bytes of a program, found others");
    struct program *p = must_alloc(sizeof *p);
    const unsigned char *begin = (const unsigned char *)bytes;
    struct wire w = {.begin = begin, .at = begin + sizeof MAGIC, .end = begin + n, .arena = &p->arena, .atlas = at};
    int status = each_program(&w, p);
    if (!status && w.at != w.end) status = program_malformed(&w, "more bytes than the program has");
    wire_fini(&w);
    if (status) program_free(&p);
    *out = p;
    return status;
}
