/* explain_move.c - describes moves: each path with its steps, the bytes of each rank, costs, and lower bounds. Moves of
 * equal type and layouts are described once. */
#include "actors/session/view/explain_move.h"
#include "actors/plan/outline/hierarchical.h"
#include "actors/session/planner/hint_conflict.h"

#include "boxing/path.h"
#include "boxing/bytes.h"
#include "boxing/name.h"
#include "boxing/plan.h"
#include "runtime/data/hash.h"
#include "actors/plan/assign/price.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the text of a layout. The session owns the text. */
static const char *
layout_in_text(struct explainer *t, const struct layout *l)
{
    return rille_layout_text(t->s, (const struct rille_layout *)l);
}

char *
explain_line(struct explainer *t, const struct line *l)
{
    char buf[512];
    if (!l->file) return arena_strdup(t->a, "?");
    snprintf(buf, sizeof buf, "%s:%d", l->file, l->line);
    return arena_strdup(t->a, buf);
}

/* Returns true if all devices of the placement are in this memory space. */
static bool
lies_in(int32_t space, const struct place *p)
{
    for (int32_t i = 0; i < p->nrank; i++)
        if (device_space(p->kind, p->rank[i]) != space) return false;
    return true;
}

static bool
one_space(const struct place *from, const struct place *to)
{
    int32_t space = device_space(from->kind, from->rank[0]);
    return lies_in(space, from) && lies_in(space, to);
}

/* Limits on the detail of explanations for large hypothetical meshes. Above SPELT ranks, a move is shown without its
 * steps. Above WALKED ranks, a move is also shown without bytes per rank, because these would need a loop over all
 * ranks. Each long mesh axis beyond BOX_FEW_AXES counts as twice the ranks, because the number of paths grows with
 * the axes. */
enum { SPELT = 8, WALKED = 64 };

static int32_t
looked_at(const struct place *p)
{
    return p->nrank << MAX(0, box_long_axes(p) - BOX_FEW_AXES);
}

static bool
is_larger(const struct rille_explain_boxing *x, int n)
{
    const struct place *from = (const struct place *)x->from_place, *to = (const struct place *)x->to_place;
    return to->kind == DEV_META && MAX(looked_at(from), looked_at(to)) > n;
}

/* Prints one line for consecutive ranks that receive the same bytes. */
static void
print_boxing_received(struct str *s, const struct rille_explain_boxing *b)
{
    for (int i = 0, k; i < b->nrank; i = k) {
        for (k = i + 1; k < b->nrank && b->received[k] == b->received[i] && b->rank[k] == b->rank[k - 1] + 1;) k++;
        long long bytes = b->received[i];
        if (bytes && k == i + 1) str_addf(s, "      rank %d receives %lld bytes\n", (int)b->rank[i], bytes);
        if (bytes && k > i + 1)
            str_addf(s, "      ranks %d-%d receive %lld bytes each\n", (int)b->rank[i], (int)b->rank[k - 1], bytes);
    }
}

static void
print_boxing_place(struct str *s, const struct rille_explain_boxing *b, const struct rille_place *place)
{
    const struct place *p = (const struct place *)place;
    str_add(s, " on ");
    if (is_larger(b, SPELT))
        str_addf(s, "%s of %d ranks", device_kind_text(p->kind), (int)p->nrank);
    else
        place_print(p, s);
}

static void
print_boxing(struct str *s, const struct rille_explain_boxing *b, bool pieces)
{
    const char *each = !pieces ? "" : b->times > 1 ? " per micro-batch" : " per batch";
    str_addf(s, "boxing         %s", b->from);
    print_boxing_place(s, b, b->from_place);
    str_addf(s, " -> %s", b->to);
    print_boxing_place(s, b, b->to_place);
    str_addf(s, ": %s, %lld bytes%s (least possible %lld)", b->name, (long long)b->bytes, each, (long long)b->bound);
    if (b->times > 1) str_addf(s, ", %lld times per batch", (long long)b->times);
    str_add(s, b->handed_on);
    if (b->bytes && !one_space((const struct place *)b->from_place, (const struct place *)b->to_place))
        str_add(s, ", by transfers");
    str_add(s, "\n");
    for (int k = 0; k < b->ncandidate && b->ncandidate > 1; k++) {
        const struct rille_explain_path *p = &b->candidates[k];
        str_add(s, k ? "      or       " : "      chosen   ");
        str_add(s, p->name);
        if (p->nhop > 1) str_add(s, " via");
        for (int h = 0; h + 1 < p->nhop; h++) str_addf(s, "%s %s", h ? "," : "", p->layouts[h]);
        str_pad(s, 60);
        str_addf(s, "  %.1f us\n", p->ns / 1e3);
    }
    if (b->forced_by) str_addf(s, "      forced by %s\n", b->forced_by);
    print_boxing_received(s, b);
    for (const char *p = b->steps; *p;) {
        size_t n = strcspn(p, "\n");
        str_addf(s, "      %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

static char *
keep_explain_text(struct explainer *t, struct str *s)
{
    char *out = arena_strdup(t->a, str_text(s));
    str_free(s);
    return out;
}

/* Plans one hop (collective step of a move) as a run does: a reduction between hosts may be hierarchical. */
static int
plan_hop(struct explainer *t, const struct type *type, const struct layout *from, const struct layout *to,
         struct rille_explain_boxing *x, struct box_plan **out)
{
    struct hierarchical legs;
    struct str text = {0};
    if (hierarchical_of(t->a, &t->mines, &t->s->devices.cost, type, from, to, &legs) && legs.relay) {
        box_relay_print(legs.relay->nleg, legs.relay->back, legs.relay->nchunk, &text);
        str_addf(&text, ": %.1f us between hosts, not %.1f", legs.handed.ns / 1e3, legs.owners.ns / 1e3);
        x->handed_on = keep_explain_text(t, &text);
    }
    return box_plan_all(t->a, type, from, to, legs.relay, out);
}

/* Computes the bytes that each rank of both placements receives in all hops (collective steps) of a move. Also
 * writes these hops as text. */
static int
tell_way(struct explainer *t, const struct type *type, const struct box_candidate *way, struct rille_explain_boxing *x)
{
    const struct layout *from = way->hop[0].from, *to = way->hop[way->nhop - 1].to;
    struct box_plan *whole;
    struct str steps = {0};
    TRY(plan_hop(t, type, from, to, x, &whole));
    if (way->nhop > 1) x->handed_on = "";
    x->bytes = 0;
    x->nrank = whole->nrank;
    x->rank = whole->rank;
    int64_t *received = ARENA_ARRAY(t->a, int64_t, x->nrank);
    for (int k = 0; k < way->nhop; k++) {
        struct box_plan *b = whole;
        if (way->nhop > 1) {
            TRY(plan_hop(t, type, way->hop[k].from, way->hop[k].to, x, &b));
            str_addf(&steps, "%s to %s on ", b->name, layout_in_text(t, b->to));
            place_print(b->to->place, &steps);
            str_add(&steps, ":\n");
        }
        x->bytes += b->bytes;
        box_print(b, &steps);
        for (int i = 0, m = 0; i < b->nrank; i++) { /* merges the lists of ranks, which both ascend */
            while (x->rank[m] != b->rank[i]) m++;
            received[m] += b->received[i];
        }
    }
    x->received = received;
    x->steps = keep_explain_text(t, &steps);
    return 0;
}

static struct rille_explain_path
explain_path(struct explainer *t, const struct box_candidate *c)
{
    struct str name = {0};
    struct rille_explain_path p = {.nhop = c->nhop, .bytes = c->bytes, .staging = c->staging, .ns = c->ns};
    p.layouts = ARENA_ARRAY(t->a, const char *, c->nhop + 1);
    for (int k = 0; k < c->nhop; k++) {
        str_addf(&name, "%s%s", k ? ", " : "", c->hop[k].name);
        p.layouts[k] = layout_in_text(t, c->hop[k].to);
    }
    p.name = keep_explain_text(t, &name);
    return p;
}

/* Adds the bytes of a move to the sums by mesh axis. All bytes count for the axis whose links bound the move's
 * time. */
static void
count_bytes(struct explainer *t, const struct layout *from, const struct layout *to, int64_t bytes)
{
    t->e->bytes += bytes;
    if (!t->planned || !t->planned->links) return;
    t->e->axis_bytes[MAX(0, assign_axis(from, to, t->planned->links))] += bytes;
}

/* Describes a move over too many ranks to be planned. Reports the least possible bytes, which a closed formula
 * gives. */
static void
tell_priced(const struct type *type, const struct layout *from, const struct layout *to, struct rille_explain_boxing *x,
            struct str *text)
{
    x->name = box_name(type, from, to);
    x->steps = "";
    x->bytes = x->bound = box_bytes(type, from, to);
    str_addf(text, "boxing         %s -> %s on %d ranks: %s, %lld bytes (least possible %lld)\n", x->from, x->to,
             (int)to->place->nrank, x->name, (long long)x->bytes, (long long)x->bound);
}

static int
explain_paths(struct explainer *t, const struct type *type, const struct layout *from, const struct layout *to,
              struct rille_explain_boxing *x)
{
    struct box_path *path;
    TRY(box_path(t->a, t->s->atlas, type, from, to, &t->s->devices.cost, &path));
    x->name = box_name(type, from, to);
    x->bound = path->bound;
    TRY(tell_way(t, type, &path->candidate[0], x));
    if (is_larger(x, SPELT)) x->steps = "";
    x->ncandidate = path->ncandidate;
    x->candidates = ARENA_ARRAY(t->a, struct rille_explain_path, path->ncandidate + 1);
    for (int k = 0; k < path->ncandidate; k++) x->candidates[k] = explain_path(t, &path->candidate[k]);
    return 0;
}

/* Adds the description of a move to the record. Computes moves with equal type and layouts only once, because
 * layers of a model are alike. */
static int
tell_ways(struct explainer *t, const struct type *type, const struct layout *from, const struct layout *to,
          struct rille_explain_boxing *x, struct str *text)
{
    uint64_t hash = hash_number(hash_number(type->dtype, (uint64_t)(uintptr_t)from), (uint64_t)(uintptr_t)to);
    hash = hash_bytes(hash, type->dim, sizeof type->dim[0] * type->ndim);
    uint32_t at = 0;
    struct explained_move *w;
    while ((w = hash_next(&t->explained, hash, &at)))
        if (w->from == from && w->to == to && type_equal(&w->type, type)) break;
    if (w) {
        struct rille_explain_boxing own = *x;
        *x = *w->found;
        x->times = own.times;
        x->forced_by = own.forced_by;
    } else {
        TRY(explain_paths(t, type, from, to, x));
        w = ARENA_NEW(t->a, struct explained_move);
        *w = (struct explained_move){*type, from, to, x};
        hash_add(&t->explained, hash, w);
    }
    print_boxing(text, x, t->p && t->p->pieces > 1);
    return 0;
}

int
explain_move(struct explainer *t, const struct type *type, const struct layout *from, const struct layout *to,
             const char *forced, int64_t times)
{
    struct str text = {0};
    struct rille_explain_boxing *x = &t->e->boxing[t->e->nboxing++];
    *x = (struct rille_explain_boxing){.from = layout_in_text(t, from),
                                       .to = layout_in_text(t, to),
                                       .from_place = (const struct rille_place *)from->place,
                                       .to_place = (const struct rille_place *)to->place,
                                       .ndim = type->ndim,
                                       .dtype = dtype_text(type->dtype),
                                       .times = times,
                                       .handed_on = "",
                                       .forced_by = forced};
    memcpy(x->shape, type->dim, sizeof(type->dim[0]) * type->ndim);
    if (is_larger(x, WALKED))
        tell_priced(type, from, to, x, &text);
    else
        TRY(tell_ways(t, type, from, to, x, &text));
    x->text = keep_explain_text(t, &text);
    count_bytes(t, from, to, x->bytes * times);
    return 0;
}

/* Follows r back through moves that keep the layout (to_global to the present layout), and returns the value before
 * these moves. */
static struct ref
ref_source(const struct program *p, struct ref r)
{
    while (r.kind == REF_NODE) {
        const struct prog_node *n = &p->node[r.index];
        if (!(n->op->flags & OP_MOVE) || n->accumulate || ref_layout(p, n->in[0]) != n->layout[0]) break;
        r = n->in[0];
    }
    return r;
}

static bool
is_move_told(struct explainer *t, struct ref r, const struct layout *to, int n)
{
    for (int i = 0; i < n; i++)
        if (ref_equal(t->moved[i], r) && t->moved_to[i] == to) return true;
    return false;
}

static const char *
forced_by(struct explainer *t, struct ref r, const struct prog_node *n)
{
    struct str s = {0};
    if (r.kind == REF_NODE) {
        const struct prog_node *from = &t->p->node[r.index];
        str_addf(&s, "%s (%s)", from->op->name, explain_line(t, &from->line));
    } else {
        str_add(&s, "an input tensor");
    }
    str_addf(&s, " -> %s (%s)", n->op->name, explain_line(t, &n->line));
    return keep_explain_text(t, &s);
}

/* Adds the conflict that caused the last described move, if any: a conflict between two hints (layouts that the
 * program fixes). */
static void
tell_meeting(struct explainer *t, struct ref r, const struct prog_node *n, const struct type *type,
             const struct layout *from, const struct layout *to)
{
    const struct rille_explain_boxing *b = &t->e->boxing[t->e->nboxing - 1];
    struct rille_explain_meeting *x = &t->e->meetings[t->e->nmeeting];
    int64_t bytes;
    if (!hint_conflict_at(&t->conflicts, r, (int32_t)(n - t->p->node), x)) return;
    x->from = b->from;
    x->to = b->to;
    x->bytes = b->bytes * b->times;
    struct assign_prices prices = {.cost = &t->s->devices.cost, .links = t->planned->links};
    x->ns = assign_price(&prices, type, from, to, n->asked, &bytes) * b->times;
    t->e->nmeeting++;
}

int
explain_moves(struct explainer *t, const struct prog_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        const struct layout *want = n->op->flags & OP_MOVE ? n->layout[0] : n->want[i];
        const struct layout *has = ref_layout(t->p, n->in[i]);
        if (!want || !has || want == has) continue;
        struct ref r = ref_source(t->p, n->in[i]);
        int seen = t->e->nboxing;
        if (!n->again && is_move_told(t, r, want, seen)) continue;
        t->moved[seen] = n->again ? (struct ref){0} : r;
        t->moved_to[seen] = want;
        struct type type = ref_type(t->p, n->in[i]);
        TRY(explain_move(t, &type, has, want, forced_by(t, r, n), program_move_times(t->p, n, r)));
        t->e->boxing[seen].of_leaf = r.kind == REF_LEAF;
        tell_meeting(t, r, n, &type, has, want);
    }
    return 0;
}
