/* candidate.c - lists the legal signatures of a node. */
#include "actors/plan/assign/candidate.h"

#include "runtime/base/error.h"
#include "runtime/data/str.h"
#include "sbp/sig.h"
#include "sbp/infer.h"
#include "runtime/tensor/atlas.h"

#include <string.h>

enum { OPERANDS = 64 };
/* Limits of the number of combinations of layouts per call, on a mesh of three or more axes. A call gets at most
 * PRODUCTS_MOST combinations, and all calls together about PRODUCTS_OF_ALL, so a call of a longer program gets
 * fewer; PRODUCTS_LEAST: the least for a call. Fewer combinations save memory, because a tensor's move costs are a
 * table of all pairs of layouts, and let a search get further in the same time. */
enum { PRODUCTS_MOST = 4096, PRODUCTS_LEAST = 32, PRODUCTS_OF_ALL = 1 << 13 };

struct listed_call {
    size_t n;
    const char *key;
    struct candidate_list list;
};

/* ---- orders in which mesh axes split one dimension, from the program's fixed layouts ---- */

static void
add_axis_order(struct candidates *c, const struct layout *l)
{
    bool plain = true;
    for (int a = 0; l && a < l->place->naxis; a++) plain = plain && l->order[a] == a;
    if (!l || plain) return;
    for (int32_t k = 0; k < c->norder; k++)
        if (!memcmp(c->order[k], l->order, sizeof l->order)) return;
    uint8_t(*more)[MAX_AXIS] = arena_alloc(c->arena, sizeof *more * (size_t)(c->norder + 1));
    if (c->norder) memcpy(more, c->order, sizeof *more * (size_t)c->norder);
    memcpy(more[c->norder++], l->order, sizeof l->order);
    c->order = more;
}

void
candidates_begin(struct candidates *c, struct arena *a, struct atlas *at, const struct program *p)
{
    *c = (struct candidates){.arena = a, .atlas = at, .program = p, .calls = {.arena = a}};
    c->unit = units_find(a, p);
    c->most = MIN(PRODUCTS_MOST, MAX(PRODUCTS_LEAST, PRODUCTS_OF_ALL / MAX(1, p->nnode)));
    for (int32_t i = 0; i < p->nleaf; i++) add_axis_order(c, p->leaf[i].layout);
    for (int32_t i = 0; i < p->nnode; i++)
        if (p->node[i].asked) add_axis_order(c, p->node[i].layout[0]);
}

/* ---- mesh axes of one rank ---- */

/* Returns the layout, but with the traced entries on mesh axes of one rank. On such an axis all entries are
 * equivalent. With the traced entries, updates can still overwrite variables in place. */
static const struct layout *
named_as(struct atlas *at, const struct layout *l, const struct layout *now)
{
    struct sbp sbp[MAX_AXIS];
    const struct layout *out;
    bool same = true;
    if (!now || now->place != l->place) return l;
    for (int a = 0; a < l->place->naxis; a++) {
        sbp[a] = l->place->axis[a] == 1 ? now->sbp[a] : l->sbp[a];
        same = same && !memcmp(&sbp[a], &l->sbp[a], sizeof sbp[a]);
    }
    if (same || layout_new(at, l->place, sbp, l->order, &out)) return l;
    return out;
}

static void
put_names(struct str *k, const struct layout *l)
{
    for (int a = 0; l && a < l->place->naxis; a++)
        if (l->place->axis[a] == 1) str_addn(k, &l->sbp[a], sizeof l->sbp[a]);
}

/* Fills in the traced layouts of the node: operands, then results. */
static void
traced_layouts(const struct prog_node *n, const struct layout **layout)
{
    for (int k = 0; k < n->nin; k++) layout[k] = n->want[k];
    for (int k = 0; k < n->nout; k++) layout[n->nin + k] = n->layout[k];
}

/* ---- one call ---- */

struct call
candidate_call(const struct program *p, const struct prog_node *n, struct type *in, struct type *out, struct arena *a)
{
    const struct layout **layout = ARENA_ARRAY(a, const struct layout *, n->nin + 1);
    for (int i = 0; i < n->nin; i++) {
        in[i] = ref_type(p, n->in[i]);
        layout[i] = ref_layout(p, n->in[i]);
    }
    memcpy(out, n->type, sizeof *out * (size_t)n->nout);
    return (struct call){
        .op = n->op, .nin = n->nin, .nout = n->nout, .in = in, .out = out, .attr = n->attr, .layout = layout};
}

static void
put_call_type(struct str *k, const struct type *t, const struct layout *l)
{
    int32_t head[2] = {t->dtype | t->ndim << 8 | t->weak << 16, l ? l->place->id : -1};
    str_addn(k, head, sizeof head);
    str_addn(k, t->dim, sizeof t->dim[0] * t->ndim);
}

static void
put_units(struct str *k, const struct candidates *c, const struct prog_node *n)
{
    int32_t *unit[OPERANDS + OP_OUT];
    units_of_call(c->program, c->unit, (int32_t)(n - c->program->node), unit);
    for (int j = 0; j < n->nin + n->nout; j++)
        if (unit[j]) str_addn(k, unit[j], sizeof(units_row));
}

static void
print_call_key(const struct call *c, const struct prog_node *n, struct str *k)
{
    str_addn(k, &n->op, sizeof n->op);
    for (int i = 0; i < c->nin; i++) put_call_type(k, &c->in[i], c->layout[i]);
    for (int i = 0; i < c->nout; i++) put_call_type(k, &c->out[i], n->layout[i]);
    /* nonzero for a call with a strategy; in the key because takes_all() depends on it */
    uint8_t strategy = n->strategy != NULL;
    str_addn(k, &strategy, sizeof strategy);
    for (int i = 0; i < c->nin; i++) put_names(k, n->want[i]);
    for (int i = 0; i < c->nout; i++) put_names(k, n->layout[i]);
    for (int i = 0; i < op_nattr(n->op); i++) {
        const struct attr *a = &n->attr[i];
        str_addn(k, &a->set, sizeof a->set);
        str_addn(k, &a->i, sizeof a->i);
        str_addn(k, &a->f, sizeof a->f);
        str_addn(k, &a->n, sizeof a->n);
        str_addn(k, a->list, sizeof a->list[0] * (size_t)a->n);
    }
}

static bool
is_candidate_listed(const struct candidate_list *l, const struct layout *const *layout)
{
    for (int32_t k = 0; k < l->n; k++)
        if (!memcmp(l->candidate[k].layout, layout, sizeof *layout * (size_t)l->nlayout)) return true;
    return false;
}

static void
add_candidate(struct candidates *c, struct candidate_list *l, const struct call *call, const struct rule *r,
              const struct layout *const *layout, const int *choice, int naxis)
{
    if (is_candidate_listed(l, layout)) return;
    l->candidate[l->n].layout = arena_dup(c->arena, layout, sizeof *layout * (size_t)l->nlayout);
    l->candidate[l->n].share = sig_share(call, r, layout);
    for (int a = 0; a < naxis; a++) l->part[l->n * MAX_AXIS + a] = choice ? (uint8_t)choice[a] : 255;
    l->n++;
}

/* Inputs for listing the combinations of layouts of one call. */
struct products {
    struct candidates *c;
    struct candidate_list *l;
    const struct call *call;
    const struct rule *rule;
    const struct sig_list *sig;
    const struct place *place;
    const struct layout *const *now; /* layouts in the trace: operands, then results */
};

static void
try_product(struct products *x, const int *choice, const uint8_t *order)
{
    const struct layout *layout[OPERANDS + OP_OUT];
    if (!sig_layouts(x->c->atlas, x->place, x->call, x->rule, x->sig, choice, order, layout)) return;
    for (int32_t k = 0; k < x->l->nlayout; k++)
        if (layout[k]) layout[k] = named_as(x->c->atlas, layout[k], x->now[k]);
    add_candidate(x->c, x->l, x->call, x->rule, layout, choice, x->place->naxis);
}

static void
try_product_orders(struct products *x, const int *choice)
{
    for (int32_t o = -1; o < x->c->norder; o++) try_product(x, choice, o < 0 ? NULL : x->c->order[o]);
}

/* Advances to the next combination of signatures, one per mesh axis. Axes of one rank keep their signature.
 * Returns false after the last combination. */
static bool
next_choice(const struct place *p, int nsig, int *choice)
{
    for (int a = p->naxis - 1; a >= 0; a--) {
        if (p->axis[a] == 1) continue;
        if (++choice[a] < nsig) return true;
        choice[a] = 0;
    }
    return false;
}

/* Returns the number of combinations of n choices on each mesh axis, but at most PRODUCTS_MOST + 1. */
static int64_t
mesh_product(const struct place *p, int n)
{
    int64_t all = 1;
    for (int a = 0; a < p->naxis && all <= PRODUCTS_MOST; a++) all *= p->axis[a] > 1 ? n : 1;
    return MIN(all, PRODUCTS_MOST + 1);
}

/* Returns true if all combinations of signatures are to be listed. That is so for a call with a strategy, up to
 * PRODUCTS_MOST combinations, because the strategy may demand any of them. On one or two mesh axes the restricted
 * list is complete anyway. */
static bool
takes_all(const struct candidates *c, const struct place *p, int n, bool strategy)
{
    int axes = 0;
    for (int a = 0; a < p->naxis; a++) axes += p->axis[a] > 1;
    return mesh_product(p, n) <= (strategy || axes <= 2 ? PRODUCTS_MOST : c->most);
}

static void
all_products(struct products *x)
{
    int choice[MAX_AXIS], whole = sig_whole(x->sig);
    for (int a = 0; a < x->place->naxis; a++) choice[a] = x->place->axis[a] == 1 ? whole : 0;
    do {
        try_product_orders(x, choice);
    } while (next_choice(x->place, x->sig->nsig, choice));
}

/* Tries restricted combinations: the mesh axes are divided into major and minor axes, with one signature on all
 * major axes and one on all minor axes. Tries all ways to divide them. */
static void
some_products(struct products *x)
{
    const struct place *p = x->place;
    int choice[MAX_AXIS], whole = sig_whole(x->sig);
    for (int major = 0; major < x->sig->nsig; major++)
        for (int minor = 0; minor < x->sig->nsig; minor++)
            for (int cut = 1; cut < p->naxis; cut++) {
                for (int a = 0; a < p->naxis; a++) choice[a] = p->axis[a] == 1 ? whole : a < cut ? major : minor;
                try_product_orders(x, choice);
            }
}

/* Fills of[] with the units of the factors of a node's call. */
static void
find_call_units(const struct candidates *c, const struct prog_node *n, const struct rule *r, int32_t *of)
{
    int32_t *unit[OPERANDS + OP_OUT];
    units_of_call(c->program, c->unit, (int32_t)(n - c->program->node), unit);
    sig_units_of_dims(r, n->layout[0]->place, unit, of);
}

static int
list_call(struct candidates *c, struct call *call, const struct prog_node *n, struct candidate_list *l)
{
    struct rule rule;
    struct sig_list s;
    struct arena tmp = {0};
    const struct place *p = n->layout[0]->place;
    int status = call_infer(&tmp, call, &rule);
    int32_t unit[RULE_FACTOR];
    if (!status) find_call_units(c, n, &rule, unit);
    if (!status) status = sig_axis(&tmp, call, &rule, unit, &s);
    if (status) {
        arena_fini(&tmp);
        return status;
    }
    bool every = takes_all(c, p, s.nsig, n->strategy);
    int64_t products = every ? mesh_product(p, s.nsig) : (int64_t)s.nsig * s.nsig * p->naxis;
    int64_t capacity = products * (c->norder + 1);
    l->nlayout = n->nin + n->nout;
    l->candidate = ARENA_ARRAY(c->arena, struct assign_candidate, capacity + 1);
    l->part = ARENA_ARRAY(c->arena, uint8_t, (capacity + 1) * MAX_AXIS);
    for (int i = 0; i < call->nin; i++) l->bytes += (double)type_bytes(&call->in[i]);
    for (int k = 0; k < call->nout; k++) l->bytes += (double)type_bytes(&call->out[k]);
    l->flops = n->op->flops ? n->op->flops(call) : 2 * rule_points(&rule);
    const struct layout *now[OPERANDS + OP_OUT];
    traced_layouts(n, now);
    struct products x = {c, l, call, &rule, &s, p, now};
    if (every)
        all_products(&x);
    else
        some_products(&x);
    arena_fini(&tmp);
    return 0;
}

static int
find_candidates(struct candidates *c, struct call *call, const struct prog_node *n, struct candidate_list **out)
{
    struct str key = {0};
    print_call_key(call, n, &key);
    put_units(&key, c, n);
    uint64_t hash = hash_bytes(0, key.text, key.len);
    uint32_t at = 0;
    struct listed_call *m;
    while ((m = hash_next(&c->calls, hash, &at)) && (m->n != key.len || memcmp(m->key, key.text, key.len))) continue;
    int status = 0;
    if (!m) {
        m = ARENA_NEW(c->arena, struct listed_call);
        m->n = key.len;
        m->key = arena_dup(c->arena, key.text, key.len);
        status = list_call(c, call, n, &m->list);
        if (!status) hash_add(&c->calls, hash, m);
    }
    str_free(&key);
    *out = &m->list;
    return status;
}

/* Adds the candidate with the traced layouts to a list that does not contain it. */
static int
with_now(struct candidates *c, struct call *call, const struct layout *const *now, struct candidate_list **list)
{
    struct candidate_list *l = *list, *wide = ARENA_NEW(c->arena, struct candidate_list);
    struct arena tmp = {0};
    struct rule rule;
    int status = call_infer(&tmp, call, &rule);
    *wide = *l;
    wide->candidate = ARENA_ARRAY(c->arena, struct assign_candidate, l->n + 1);
    wide->part = ARENA_ARRAY(c->arena, uint8_t, (l->n + 1) * MAX_AXIS);
    if (l->n) memcpy(wide->candidate, l->candidate, sizeof *l->candidate * (size_t)l->n);
    if (l->n) memcpy(wide->part, l->part, (size_t)l->n * MAX_AXIS);
    if (!status) add_candidate(c, wide, call, &rule, now, NULL, MAX_AXIS);
    arena_fini(&tmp);
    *list = wide;
    return status;
}

/* Returns true if the traced layouts are a legal candidate. They may be illegal if the step was traced on another
 * mesh. */
static bool
now_is_legal(const struct candidates *c, const struct prog_node *n, struct call *call, const struct layout *const *now)
{
    struct arena tmp = {0};
    struct rule rule;
    bool is = !c->program->dry_run || n->op->flags & OP_MOVE ||
              (!call_infer(&tmp, call, &rule) && !sig_check(&tmp, call, &rule, now));
    if (!is) err_clear();
    arena_fini(&tmp);
    return is;
}

int
candidates_of(struct candidates *c, int32_t i, const struct candidate_list **out, int32_t *now)
{
    const struct prog_node *n = &c->program->node[i];
    struct type in[OPERANDS], result[OP_OUT];
    const struct layout *layout[OPERANDS + OP_OUT];
    struct arena tmp = {0};
    struct candidate_list *l;
    if (n->nin > OPERANDS)
        return fail(E_PLAN, "%s: expected at most %d operands in a step with auto_parallel, found %d", n->name,
                    OPERANDS, n->nin);
    struct call call = candidate_call(c->program, n, in, result, &tmp);
    int status = 0;
    if (n->op->flags & OP_SHIFT) { /* the layouts of a shift are fixed */
        l = ARENA_NEW(c->arena, struct candidate_list);
        l->nlayout = n->nin + n->nout;
    } else {
        status = find_candidates(c, &call, n, &l);
    }
    traced_layouts(n, layout);
    for (*now = 0; !status && *now < l->n; ++*now)
        if (!memcmp(l->candidate[*now].layout, layout, sizeof *layout * (size_t)l->nlayout)) break;
    bool legal = status || *now < l->n || now_is_legal(c, n, &call, layout);
    if (!status && *now == l->n && legal) status = with_now(c, &call, layout, &l);
    if (!legal && l->n == 0) status = fail(E_PLAN, "%s: no layout of its operands is possible on this mesh", n->name);
    if (!legal) *now = 0;
    arena_fini(&tmp);
    *out = l;
    return status;
}

/* ---- leaves ---- */

static bool
next_entry(const struct place *p, int nentry, int *entry)
{
    for (int a = p->naxis - 1; a >= 0; a--) {
        if (p->axis[a] == 1) continue;
        if (++entry[a] < nentry) return true;
        entry[a] = 0;
    }
    return false;
}

/* Returns true if all major axes have the same entry and all minor axes have the same entry. */
static bool
in_two(const struct place *p, const int *entry)
{
    int changes = 0, last = -1;
    for (int a = 0; a < p->naxis; a++) {
        if (p->axis[a] == 1) continue;
        changes += last >= 0 && entry[a] != last;
        last = entry[a];
    }
    return changes <= 1;
}

/* Returns the entry that splits dimension d of value `at` (units_at); d < 0: B. */
static struct sbp
split_or_broadcast(const struct candidates *c, int32_t at, int d)
{
    if (d < 0) return (struct sbp){.kind = SBP_B};
    return (struct sbp){.kind = SBP_S, .axis = (uint8_t)d, .unit = c->unit ? MAX(c->unit[at][d], 0) : 0};
}

int
candidate_layouts(struct candidates *c, int32_t at, const struct type *t, const struct layout *now,
                  const struct layout ***out, int32_t *n)
{
    const struct place *p = now->place;
    int nentry = t->ndim + 1, entry[MAX_AXIS] = {0};
    *n = 0;
    bool every = takes_all(c, p, nentry, false);
    int64_t products = every ? mesh_product(p, nentry) : (int64_t)nentry * nentry * p->naxis;
    *out = ARENA_ARRAY(c->arena, const struct layout *, products *(c->norder + 1) + 1);
    do {
        if (!every && !in_two(p, entry)) continue;
        struct sbp sbp[MAX_AXIS];
        for (int a = 0; a < p->naxis; a++) sbp[a] = split_or_broadcast(c, at, entry[a] - 1);
        for (int32_t o = -1; o < c->norder; o++) {
            const struct layout *l;
            bool known = false;
            TRY(layout_new(c->atlas, p, sbp, o < 0 ? NULL : c->order[o], &l));
            if (c->unit) TRY(layout_settle(c->atlas, t, &l));
            l = named_as(c->atlas, l, now);
            for (int32_t k = 0; k < *n && !known; k++) known = (*out)[k] == l;
            if (!known) (*out)[(*n)++] = l;
        }
    } while (next_entry(p, nentry, entry));
    bool known = layout_partial(now) != RED_NONE;
    for (int32_t k = 0; k < *n && !known; k++) known = (*out)[k] == now;
    if (!known) (*out)[(*n)++] = now;
    return 0;
}

bool
candidate_is_whole(const struct layout *l)
{
    for (int a = 0; l && a < l->place->naxis; a++)
        if (l->sbp[a].kind != SBP_B && l->place->axis[a] > 1) return false;
    return true;
}
