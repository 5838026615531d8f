/* verify_program.c - proves that the program of a plan is legal: operands exist, types are right, and layouts are
 * allowed signatures.
 *
 * The proof computes types again by the operators' rules, and compares them with the program's types. It checks
 * the layouts of every call again as a signature. It uses no data that was recorded while the program was built. */
#include "actors/plan/verify/verify_program.h"
#include "actors/plan/verify/value/verify_kernel.h"

#include "runtime/base/error.h"
#include "sbp/sig.h"
#include "sbp/infer.h"
#include "runtime/tensor/atlas.h"
#include "actors/plan/model/program_bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_OPERANDS = 64 };

static int __attribute__((format(printf, 3, 4))) node_fail(const struct program *g, int32_t i, const char *fmt, ...)
{
    const struct prog_node *n = &g->node[i];
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n->line.file)
        return fail(E_PLAN, "plan: node %d, %s (%s:%d): %s", (int)i, n->op->name, n->line.file, (int)n->line.line,
                    text);
    return fail(E_PLAN, "plan: node %d, %s: %s", (int)i, n->op->name, text);
}

/* ---- types ---- */

static bool
type_sound(const struct type *t)
{
    return t->dtype > DT_NONE && t->dtype < NDTYPE && t->ndim <= MAX_DIM && type_check(t) == 0;
}

static bool
value_sound(const struct type *t, const struct layout *l)
{
    return type_sound(t) && l && layout_fits(l, t) == 0;
}

static int
check_program_leaves(const struct program *g)
{
    for (int32_t i = 0; i < g->nleaf; i++)
        if (!value_sound(&g->leaf[i].type, g->leaf[i].layout))
            return fail(E_PLAN, "plan: leaf %d must have a valid type", (int)i);
    for (int32_t i = 0; i < g->nnumber; i++)
        if (!g->number[i] || !type_sound(g->number[i]) || g->number[i]->ndim)
            return fail(E_PLAN, "plan: live number %d must be a scalar of a valid dtype", (int)i);
    return 0;
}

/* ---- operands ---- */

/* Returns true if r refers to an existing value. A result must be of one of the first n nodes. */
static bool
ref_sound(const struct program *g, struct ref r, int32_t n)
{
    if (r.index < 0) return false;
    switch (r.kind) {
    case REF_NODE: return r.index < n && r.out < g->node[r.index].nout;
    case REF_LEAF: return r.index < g->nleaf;
    case REF_NUMBER: return r.index < g->nnumber;
    default: return r.kind == REF_NONE;
    }
}

static bool
is_tensor_ref(struct ref r)
{
    return r.kind == REF_NODE || r.kind == REF_LEAF;
}

/* Returns in *least and *most the range of the number of operands in a call of op. */
static void
operand_range(const struct op *op, int *least, int *most)
{
    *least = *most = 0;
    for (int i = 0; i < op_noperand(op); i++) {
        ++*most;
        if (!(op->in[i].flags & IN_OPTIONAL)) *least = i + 1;
        if (op->in[i].flags & IN_LIST) *most = MOST_OPERANDS;
    }
}

/* Checks that a node has an operator, and operands that exist. Runs for all nodes first, because later checks rely
 * on the result. */
static int
check_refs(const struct program *g, int32_t i)
{
    const struct prog_node *n = &g->node[i];
    int least, most;
    if (!n->op) return fail(E_PLAN, "plan: node %d has no operator", (int)i);
    operand_range(n->op, &least, &most);
    if (n->nin < least || n->nin > most) return node_fail(g, i, "the number of operands must not be %d", (int)n->nin);
    if (n->nout != op_nresult(n->op, n->attr))
        return node_fail(g, i, "the number of results must not be %d", (int)n->nout);
    for (int32_t k = 0; k < n->nin; k++)
        if (!ref_sound(g, n->in[k], i)) return node_fail(g, i, "operand %d does not exist", (int)k);
    return 0;
}

static int
check_operands(const struct program *g, int32_t i)
{
    const struct prog_node *n = &g->node[i];
    if (n->phase > PHASE_BATCH) return node_fail(g, i, "phase %d does not exist", n->phase);
    if (n->again < 0 || n->again > i + 1) return node_fail(g, i, "the node of a fetch must not be %d", (int)n->again);
    if (n->recompute < 0 || n->recompute > g->nnode)
        return node_fail(g, i, "the recomputed node must not be %d", (int)n->recompute);
    if (n->append && !(n->accumulate && n->op->flags & OP_MOVE))
        return node_fail(g, i, "appends micro-batches, but is no move that combines them");
    if (n->accumulate && !n->piece)
        return node_fail(g, i, "sums over micro-batches, but is not computed for each micro-batch");
    for (int32_t k = 0; k < n->nin; k++) {
        if (is_tensor_ref(n->in[k]) && !(n->op->flags & OP_MOVE)) {
            if (!n->want[k] || layout_fits(n->want[k], ref_type_of(g, n->in[k])))
                return node_fail(g, i, "operand %d has no valid layout", (int)k);
        }
        if (!n->piece && ref_varies(g, n->in[k]))
            return node_fail(g, i, "operand %d differs between micro-batches, but the node runs once per batch",
                             (int)k);
    }
    return 0;
}

/* Returns the number of words in a list of allowed words, for example 2 for "none|tanh". */
static int
words_of(const char *text)
{
    int n = 1;
    for (const char *c = text; c && *c; c++) n += *c == '|';
    return n;
}

/* Checks that an attribute is in the range that the operator's functions infer() and view() assume. */
static int
check_attr(const struct program *g, int32_t i, int k)
{
    const struct prog_node *n = &g->node[i];
    const struct attr_def *def = &n->op->attr[k];
    const struct attr *a = &n->attr[k];
    if (a->n < 0 || a->n > ATTR_LIST)
        return node_fail(g, i, "attribute %s cannot have %d values", def->name, (int)a->n);
    if (def->kind == ATTR_DTYPE && (a->i < 0 || a->i >= NDTYPE))
        return node_fail(g, i, "attribute %s must be a dtype", def->name);
    if (def->kind == ATTR_TEXT && (a->i < 0 || a->i >= words_of(def->text)))
        return node_fail(g, i, "attribute %s must be one of the operator's words", def->name);
    if (!(def->flags & (ATTR_AXIS | ATTR_AXIS_NEW)) || n->nin == 0 || !is_tensor_ref(n->in[0])) return 0;
    int64_t ndim = ref_type(g, n->in[0]).ndim + (def->flags & ATTR_AXIS_NEW ? 1 : 0);
    bool inside = def->kind != ATTR_INT || (a->i >= 0 && a->i < MAX(1, ndim));
    for (int32_t e = 0; def->kind == ATTR_INTS && e < a->n; e++)
        inside = inside && a->list[e] >= 0 && a->list[e] < ndim;
    return inside ? 0 : node_fail(g, i, "attribute %s must list axes of the operand", def->name);
}

/* ---- types and signature of a call ---- */

static int
same_types(const struct program *g, int32_t i, const struct type *out)
{
    const struct prog_node *n = &g->node[i];
    for (int32_t k = 0; k < n->nout; k++) {
        if (type_equal(&out[k], &n->type[k])) continue;
        struct str want = {0}, found = {0};
        type_print(&out[k], &want);
        type_print(&n->type[k], &found);
        int status = node_fail(g, i, "result %d has type %s, must be %s for these operands", (int)k, str_text(&found),
                               str_text(&want));
        str_free(&want);
        str_free(&found);
        return status;
    }
    return 0;
}

/* A call whose types and signature have been checked. The checks depend only on operator, operand types, attributes
 * and layouts. So a later call that equals this call in all four is legal, too, and has results of the same types. */
struct derived {
    struct call call;
    /* bit mask of the results that are f32 instead of half precision, because they are added to a sum over
     * micro-batches */
    uint32_t wide;
    struct type in[MOST_OPERANDS], out[OP_OUT];
    const struct layout *layout[MOST_OPERANDS + OP_OUT];
};
struct derivations {
    struct proof *v;
    struct arena scratch;
    /* cache of recently checked calls, one per hash of operator, layout of the first result, and `wide` */
    struct derived *lately[64];
};

static bool
is_derived(const struct derived *d, const struct call *c, uint32_t wide)
{
    bool same = d && d->call.op == c->op && d->call.nin == c->nin && d->call.nout == c->nout && d->wide == wide;
    for (int32_t i = 0; same && i < c->nin; i++)
        same = type_equal(&d->in[i], &c->in[i]) && d->in[i].weak == c->in[i].weak;
    for (int32_t i = 0; same && i < c->nin + c->nout; i++) same = d->layout[i] == c->layout[i];
    same = same && !d->call.attr == !c->attr;
    for (int k = 0; same && c->attr && k < op_nattr(c->op); k++) same = proof_same_attr(&d->call.attr[k], &c->attr[k]);
    return same;
}

static struct derived **
derived_at(struct derivations *s, const struct call *c, uint32_t wide)
{
    uint64_t key = (uintptr_t)c->op / sizeof(struct op) * 64 + (uintptr_t)c->layout[c->nin]->id * 2 + (wide != 0);
    return &s->lately[key * 0x9e3779b97f4a7c15u >> 58];
}

static void
remember_derived(struct derivations *s, const struct call *c, uint32_t wide)
{
    struct derived **at = derived_at(s, c, wide), *d = *at ? *at : ARENA_NEW(&s->v->tmp, struct derived);
    d->call = *c;
    d->wide = wide;
    memcpy(d->in, c->in, sizeof *c->in * (size_t)c->nin);
    memcpy(d->out, c->out, sizeof *c->out * (size_t)c->nout);
    memcpy(d->layout, c->layout, sizeof *c->layout * (size_t)(c->nin + c->nout));
    *at = d;
}

/* Proves a shift: the rank with coordinate c on the mesh axis reads the shard of coordinate c - ranks, which is on
 * its own device. If shards are equal and no other axis splits the dimension, the shift is a rotation. */
static int
check_shift(const struct program *g, int32_t i)
{
    const struct prog_node *n = &g->node[i];
    if (!n->attr) return node_fail(g, i, "a shift must have attributes");
    const struct layout *l = n->layout[0], *w = n->want[0];
    const struct place *p = l->place, *q = w->place;
    int64_t axis = n->attr[0].i, mesh = n->attr[1].i, ranks = n->attr[2].i;
    bool good = mesh >= 0 && mesh < p->naxis && p->kind == q->kind && p->naxis == q->naxis && p->nrank == q->nrank &&
                n->type[0].dim[axis] % p->axis[mesh] == 0;
    for (int k = 0; good && k < p->naxis; k++) {
        bool splits = l->sbp[k].kind == SBP_S && l->sbp[k].axis == axis;
        good = p->axis[k] == q->axis[k] && l->order[k] == w->order[k] && l->sbp[k].kind == w->sbp[k].kind &&
               (l->sbp[k].kind != SBP_S || l->sbp[k].axis == w->sbp[k].axis) && splits == (k == mesh) &&
               l->sbp[k].unit == w->sbp[k].unit && !(splits && l->sbp[k].unit) && l->sbp[k].kind != SBP_P;
    }
    for (int pos = 0; good && pos < p->nrank; pos++) {
        int32_t here[MAX_AXIS], there[MAX_AXIS];
        int below = place_find(q, p->rank[pos]);
        good = below >= 0;
        if (!good) break;
        place_coord(p, pos, here);
        place_coord(q, below, there);
        for (int k = 0; k < p->naxis; k++) {
            int64_t moved = here[k] - (int64_t)there[k] - (k == mesh ? ranks % p->axis[k] : 0);
            good = good && (k == mesh ? moved % p->axis[k] == 0 : moved == 0);
        }
    }
    return good ? 0 : node_fail(g, i, "the operand's layout must be the result's, shifted along the mesh axis");
}

static int
check_program_call(struct derivations *s, int32_t i)
{
    const struct program *g = s->v->plan->program;
    const struct prog_node *n = &g->node[i];
    struct type in[MOST_OPERANDS] = {0}, out[OP_OUT] = {0};
    const struct layout *layout[MOST_OPERANDS + OP_OUT];
    for (int32_t k = 0; k < n->nin; k++) {
        in[k] = ref_type(g, n->in[k]);
        layout[k] = is_tensor_ref(n->in[k]) ? n->op->flags & OP_SHIFT ? n->layout[0] : n->want[k] : NULL;
    }
    for (int32_t k = 0; k < n->nout; k++) layout[n->nin + k] = n->layout[k];
    struct call c = {
        .op = n->op, .nin = n->nin, .nout = n->nout, .in = in, .out = out, .attr = n->attr, .layout = layout};
    uint32_t wide = 0;
    for (int32_t k = 0; k < n->nout; k++) wide |= (n->type[k].dtype == DT_F32 ? 1u << k : 0) & proof_wide(s->v, i);
    const struct derived *d = *derived_at(s, &c, wide);
    if (is_derived(d, &c, wide)) return same_types(g, i, d->out);
    struct rule rule;
    int status = call_infer(&s->scratch, &c, &rule);
    for (int32_t k = 0; !status && k < n->nout; k++)
        if (wide >> k & 1 && dtype_is_half((enum dtype)out[k].dtype)) out[k].dtype = DT_F32;
    if (!status) TRY(same_types(g, i, out));
    if (!status) status = sig_check(&s->scratch, &c, &rule, layout);
    arena_reset(&s->scratch);
    if (!status) {
        remember_derived(s, &c, wide);
        return 0;
    }
    char text[1024];
    snprintf(text, sizeof text, "%s", err_text());
    return node_fail(g, i, "%s", text);
}

/* ---- recomputation ---- */

/* Returns the value that r holds a copy of: follows r back through moves, recomputations and fetches. The number of
 * steps is bounded, because a program from untrusted bytes may contain a cycle. */
static struct ref
first_made(const struct program *g, struct ref r)
{
    for (int32_t left = g->nnode; left > 0 && r.kind == REF_NODE; left--) {
        const struct prog_node *n = &g->node[r.index];
        int32_t of = (n->recompute ? n->recompute : n->again) - 1;
        if (n->op->flags & OP_MOVE && !n->accumulate)
            r = n->in[0];
        else if (of >= 0 && of != r.index)
            r.index = of;
        else
            break;
    }
    return r;
}

/* Checks that a recomputing node makes the same call on the same values as its original, so that results are equal
 * bit for bit. */
static int
check_recomputed(const struct program *g, int32_t i)
{
    const struct prog_node *n = &g->node[i], *of;
    if (n->recompute == 0 || n->recompute == i + 1) return 0;
    of = &g->node[n->recompute - 1];
    bool same =
        of->op == n->op && of->nin == n->nin && of->nout == n->nout && of->phase <= n->phase && !of->attr == !n->attr;
    for (int k = 0; same && n->attr && k < op_nattr(n->op); k++) same = proof_same_attr(&n->attr[k], &of->attr[k]);
    for (int32_t k = 0; same && k < n->nout; k++) same = type_equal(&n->type[k], &of->type[k]);
    for (int32_t k = 0; same && k < n->nin; k++) same = ref_equal(first_made(g, n->in[k]), first_made(g, of->in[k]));
    return same ? 0 : node_fail(g, i, "recomputes node %d, but by another call", (int)n->recompute - 1);
}

/* Checks the layout and the type of a node that appends the values of all micro-batches. */
static int
check_append(const struct program *g, int32_t i, struct type t)
{
    const struct prog_node *n = &g->node[i];
    if (!layout_appends(n->layout[0], &t))
        return node_fail(g, i, "appends micro-batches whose shards are partial or have different numbers of rows");
    if (__builtin_mul_overflow(t.dim[0], (int64_t)g->pieces, &t.dim[0]))
        return node_fail(g, i, "appends more rows than a tensor can have");
    return same_types(g, i, &t);
}

static int
check_program_node(struct derivations *s, int32_t i)
{
    const struct program *g = s->v->plan->program;
    const struct prog_node *n = &g->node[i];
    TRY(check_operands(g, i));
    for (int32_t k = 0; k < n->nout; k++)
        if (!value_sound(&n->type[k], n->layout[k]) || n->layout[k]->place != n->layout[0]->place)
            return node_fail(g, i, "result %d must have a valid type and layout", (int)k);
    for (int k = 0; n->attr && k < op_nattr(n->op); k++) TRY(check_attr(g, i, k));
    if (n->op->flags & OP_MOVE) {
        struct type t = ref_type(g, n->in[0]);
        if (n->append && is_tensor_ref(n->in[0])) return check_append(g, i, t);
        /* A sum over micro-batches is f32 if the summed values are of half precision. */
        if (n->accumulate && dtype_is_half((enum dtype)t.dtype) && n->type[0].dtype == DT_F32) t.dtype = DT_F32;
        return is_tensor_ref(n->in[0]) ? same_types(g, i, &t)
                                       : node_fail(g, i, "moves a number; only a tensor can be moved");
    }
    /* The program gives the shape of an operator without operands. The result of such an operator may have any
     * layout. */
    if (n->op->flags & OP_SOURCE) return 0;
    TRY(check_program_call(s, i));
    return n->op->flags & OP_SHIFT ? check_shift(g, i) : 0;
}

static int
check_program_root(const struct program *g, int32_t k)
{
    const struct prog_root *r = &g->root[k];
    if (!ref_sound(g, r->ref, g->nnode) || !is_tensor_ref(r->ref))
        return fail(E_PLAN, "plan: root %d must be a tensor that exists", (int)k);
    if (r->overwrites_leaf < -1 || r->overwrites_leaf >= g->nleaf)
        return fail(E_PLAN, "plan: root %d overwrites leaf %d, which does not exist", (int)k, (int)r->overwrites_leaf);
    struct type t = ref_type(g, r->ref);
    if (r->join && (t.ndim == 0 || !ref_varies(g, r->ref)))
        return fail(E_PLAN, "plan: root %d joins micro-batches, but its value has none", (int)k);
    if (!r->join && g->pieces > 1 && ref_varies(g, r->ref))
        return fail(E_PLAN, "plan: root %d differs between micro-batches, but does not join them", (int)k);
    return 0;
}

/* Checks that no node computed per micro-batch depends on a sum over micro-batches. Plans of several hosts must run
 * in rounds (verify_channel.c), and rounds exclude such nodes. In a plan of a single host, such a node may have
 * enough registers to run. */
static int
check_late(const struct program *g, bool *late)
{
    for (int32_t i = 0; i < g->nnode && g->pieces > 1; i++) {
        const struct prog_node *n = &g->node[i];
        for (int32_t k = 0; k < n->nin; k++) {
            if (n->in[k].kind != REF_NODE || !late[n->in[k].index]) continue;
            if (n->piece)
                return node_fail(g, i, "runs for each micro-batch, but operand %d is known only after the last",
                                 (int)k);
            late[i] = true;
        }
        late[i] = late[i] || n->accumulate;
    }
    return 0;
}

int
prove_program(struct proof *v)
{
    const struct program *g = v->plan->program;
    const struct arena *m = &g->arena;
    if (g->pieces < 1)
        return fail(E_PLAN, "plan: the number of micro-batches must be at least 1, found %d", (int)g->pieces);
    if (!proof_fits(g->nleaf, sizeof *g->leaf, m) || !proof_fits(g->nnode, sizeof *g->node, m) ||
        !proof_fits(g->nroot, sizeof *g->root, m) || !proof_fits(g->nnumber, sizeof *g->number, m))
        return fail(
            E_PLAN,
            "plan: %d leaves, %d nodes, %d roots and %d numbers do not fit the memory that the program has allocated",
            (int)g->nleaf, (int)g->nnode, (int)g->nroot, (int)g->nnumber);
    TRY(check_program_leaves(g));
    for (int32_t i = 0; i < g->nnode; i++) TRY(check_refs(g, i));
    struct derivations s = {.v = v};
    int status = 0;
    for (int32_t i = 0; i < g->nnode && !status; i++) status = check_program_node(&s, i);
    arena_fini(&s.scratch);
    for (int32_t i = 0; i < g->nnode && !status; i++) status = check_recomputed(g, i);
    for (int32_t k = 0; k < g->nroot && !status; k++) status = check_program_root(g, k);
    /* the last check is only for plans of several hosts. nmemory is 0 if program_read() calls this function, because
     * the program has no plan yet */
    if (status || v->plan->nmemory < 2) return status;
    return check_late(g, ARENA_ARRAY(&v->tmp, bool, g->nnode + 1));
}

int
program_read(const char *bytes, size_t n, struct atlas *at, struct program **out)
{
    TRY(program_parse(bytes, n, at, out));
    struct plan plan = {.program = *out};
    struct proof proof = {.plan = &plan};
    int status = prove_program(&proof);
    arena_fini(&proof.tmp);
    if (!status) status = program_check_form(*out, bytes, n);
    if (status) program_free(out);
    return status;
}
