/* explain.c - describes a program: its operators with their layout candidates, and its moves with costs and lower
 * bounds.
 *
 * The program computes requested values (which may be computed already), or belongs to a traced graph. The same pure
 * functions that chose the layouts derive the candidates again. */
#include "actors/plan/compile.h"
#include "actors/plan/plan_print.h"
#include "actors/session/build/derive.h"
#include "actors/session/view/explain.h"
#include "actors/cluster/controller/controller.h"
#include "actors/plan/outline/hierarchical.h"
#include "actors/session/build/build_node.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/planner/candidates.h"
#include "actors/session/planner/hint_conflict.h"
#include "actors/session/planner/planned.h"
#include "actors/session/run/collect.h"
#include "actors/session/view/explain_op.h"

#include "boxing/path.h"
#include "runtime/data/hash.h"
#include "sbp/sig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct way { /* description of a move, kept for moves with equal type and layouts */
    struct type type;
    const struct layout *from, *to;
    const struct rille_explain_boxing *found;
};
struct teller {
    struct rille_session *s;
    const struct program *p;
    struct rille_explain *e;
    struct arena *a;
    struct str text;
    /* moves that were described, by value and target layout */
    struct ref *moved;
    const struct layout **moved_to;
    struct hash_table ways;
    struct explain_candidates alternatives;
    struct assigned *planned; /* result of the planner, for a planned step; else NULL */
    struct hint_conflicts conflicts;
    struct local_set mines; /* mesh positions on the session's host; only if there are several hosts */
};

static void
begin_explanation(struct teller *t)
{
    const struct cluster *c = t->s->cluster;
    t->ways.arena = t->a;
    explain_candidates_begin(&t->alternatives, t->s, t->p, t->planned, t->a);
    if (c && cluster_memories(c) > 1) local_set_init(&t->mines, cluster_map(c, cluster_home(c)), t->a);
}

static const char *
layout_string(struct teller *t, const struct layout *l)
{
    return rille_layout_text(t->s, (const struct rille_layout *)l);
}

static char *
explain_line(struct teller *t, const struct line *l)
{
    char buf[512];
    if (!l->file) return arena_strdup(t->a, "?");
    snprintf(buf, sizeof buf, "%s:%d", l->file, l->line);
    return arena_strdup(t->a, buf);
}

/* ---- describing operators ---- */

static bool
same_ref(struct ref a, struct ref b)
{
    return a.kind == b.kind && a.index == b.index && a.out == b.out;
}

/* Moves the chosen candidate to the front of the list. The chosen candidate may not be the cheapest for its
 * operands: a view may read a value that was moved for other readers. */
static void
chosen_first(const struct prog_node *n, struct sig_choice *all)
{
    for (int k = 1; k < all->ncandidate; k++) {
        struct sig_candidate c = all->candidate[k];
        bool same = true;
        for (int i = 0; i < n->nin + n->nout; i++)
            same = same && c.layout[i] == (i < n->nin ? n->want[i] : n->layout[i - n->nin]);
        if (!same) continue;
        memmove(&all->candidate[1], &all->candidate[0], sizeof c * (size_t)k);
        all->candidate[0] = c;
        return;
    }
}

static int
tell_candidates(struct teller *t, const struct prog_node *n, struct rille_explain_op *op)
{
    struct type in[64], out[OP_OUT] = {0};
    const struct layout *layout[64];
    uint8_t same[64];
    const struct place *place = NULL;
    if (n->op->flags & (OP_SOURCE | OP_MOVE) || n->nin > 64) return 0;
    for (int i = 0; i < n->nin; i++) {
        in[i] = ref_type(t->p, n->in[i]);
        layout[i] = ref_layout(t->p, n->in[i]);
        if (layout[i]) place = layout[i]->place;
        for (same[i] = 0; !same_ref(n->in[same[i]], n->in[i]); same[i]++) {
        }
    }
    struct call c = {.op = n->op,
                     .nin = n->nin,
                     .nout = n->nout,
                     .in = in,
                     .out = out,
                     .attr = n->attr,
                     .layout = layout,
                     .same = same};
    struct rule rule;
    struct sig_choice choice;
    TRY(call_infer(&t->s->calls.scratch, &c, &rule));
    struct sig_question q = {t->s->atlas, place, &c, &rule, price_move, t->s};
    TRY(sig_list_all(&t->s->calls.scratch, &q, &choice));
    chosen_first(n, &choice);
    op->ncandidate = choice.ncandidate;
    op->candidates = ARENA_ARRAY(t->a, struct rille_explain_candidate, choice.ncandidate + 1);
    for (int k = 0; k < choice.ncandidate; k++) {
        const struct sig_candidate *s = &choice.candidate[k];
        op->candidates[k] = (struct rille_explain_candidate){
            .inputs = explain_candidates_texts(&t->alternatives, n->nin, s->layout, NULL),
            .outputs = explain_candidates_texts(&t->alternatives, n->nout, s->layout + n->nin, NULL),
            .bytes = s->bytes,
            .owed = s->owed,
            .regret = -1,
            .regret_high = -1,
            .share = s->share};
    }
    return 0;
}

/* Returns the size of dimension d in the largest shard. Shards are assumed to be balanced. */
static int64_t
largest_part_of_dim(const struct layout *l, const struct type *type, int d)
{
    int64_t ways = 1;
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->sbp[a].axis == d) ways *= l->place->axis[a];
    return (type->dim[d] + ways - 1) / ways;
}

static void
tell_results(struct teller *t, const struct prog_node *n, struct rille_explain_op *op)
{
    op->results = ARENA_ARRAY(t->a, struct rille_explain_result, op->noutput + 1);
    for (int i = 0, k = 0; i < n->nout; i++) {
        if (!n->layout[i]) continue;
        struct rille_explain_result *r = &op->results[k++];
        r->ndim = n->type[i].ndim;
        for (int d = 0; d < r->ndim; d++) {
            r->shape[d] = n->type[i].dim[d];
            r->part[d] = largest_part_of_dim(n->layout[i], &n->type[i], d);
        }
    }
}

static int
tell_op(struct teller *t, const struct prog_node *n)
{
    if (n->op->flags & OP_MOVE) return 0;
    struct rille_explain_op *op = &t->e->ops[t->e->nop++];
    op->name = n->op->name;
    op->line = explain_line(t, &n->line);
    op->inputs = explain_candidates_texts(&t->alternatives, n->nin, n->want, &op->ninput);
    op->outputs = explain_candidates_texts(&t->alternatives, n->nout, n->layout, &op->noutput);
    tell_results(t, n, op);
    int32_t i = (int32_t)(n - t->p->node), node = t->planned && i < t->planned->nprog ? t->planned->node[i] : -1;
    if (node < 0 || !t->planned->candidate[node]) return tell_candidates(t, n, op);
    explain_candidates_report(&t->alternatives, node, n, op);
    return 0;
}

/* ---- describing moves ---- */

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
keep_explain_text(struct teller *t, struct str *s)
{
    char *out = arena_strdup(t->a, str_text(s));
    str_free(s);
    return out;
}

/* Plans one hop (collective step of a move) as a run does: a reduction between hosts may be hierarchical. */
static int
plan_hop(struct teller *t, const struct type *type, const struct layout *from, const struct layout *to,
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
tell_way(struct teller *t, const struct type *type, const struct box_candidate *way, struct rille_explain_boxing *x)
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
            str_addf(&steps, "%s to %s on ", b->name, layout_string(t, b->to));
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
explain_path(struct teller *t, const struct box_candidate *c)
{
    struct str name = {0};
    struct rille_explain_path p = {.nhop = c->nhop, .bytes = c->bytes, .staging = c->staging, .ns = c->ns};
    p.layouts = ARENA_ARRAY(t->a, const char *, c->nhop + 1);
    for (int k = 0; k < c->nhop; k++) {
        str_addf(&name, "%s%s", k ? ", " : "", c->hop[k].name);
        p.layouts[k] = layout_string(t, c->hop[k].to);
    }
    p.name = keep_explain_text(t, &name);
    return p;
}

/* Adds the bytes of a move to the sums by mesh axis. All bytes count for the axis whose links bound the move's
 * time. */
static void
count_bytes(struct teller *t, const struct layout *from, const struct layout *to, int64_t bytes)
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
explain_paths(struct teller *t, const struct type *type, const struct layout *from, const struct layout *to,
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
tell_ways(struct teller *t, const struct type *type, const struct layout *from, const struct layout *to,
          struct rille_explain_boxing *x, struct str *text)
{
    uint64_t hash = hash_number(hash_number(type->dtype, (uint64_t)(uintptr_t)from), (uint64_t)(uintptr_t)to);
    hash = hash_bytes(hash, type->dim, sizeof type->dim[0] * type->ndim);
    uint32_t at = 0;
    struct way *w;
    while ((w = hash_next(&t->ways, hash, &at)))
        if (w->from == from && w->to == to && type_equal(&w->type, type)) break;
    if (w) {
        struct rille_explain_boxing own = *x;
        *x = *w->found;
        x->times = own.times;
        x->forced_by = own.forced_by;
    } else {
        TRY(explain_paths(t, type, from, to, x));
        w = ARENA_NEW(t->a, struct way);
        *w = (struct way){*type, from, to, x};
        hash_add(&t->ways, hash, w);
    }
    print_boxing(text, x, t->p && t->p->pieces > 1);
    return 0;
}

static int
tell_move(struct teller *t, const struct type *type, const struct layout *from, const struct layout *to,
          const char *forced, int64_t times)
{
    struct str text = {0};
    struct rille_explain_boxing *x = &t->e->boxing[t->e->nboxing++];
    *x = (struct rille_explain_boxing){.from = layout_string(t, from),
                                       .to = layout_string(t, to),
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
is_move_told(struct teller *t, struct ref r, const struct layout *to, int n)
{
    for (int i = 0; i < n; i++)
        if (same_ref(t->moved[i], r) && t->moved_to[i] == to) return true;
    return false;
}

static const char *
forced_by(struct teller *t, struct ref r, const struct prog_node *n)
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
tell_meeting(struct teller *t, struct ref r, const struct prog_node *n, const struct type *type,
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

static int
tell_moves(struct teller *t, const struct prog_node *n)
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
        TRY(tell_move(t, &type, has, want, forced_by(t, r, n), program_move_times(t->p, n, r)));
        t->e->boxing[seen].of_leaf = r.kind == REF_LEAF;
        tell_meeting(t, r, n, &type, has, want);
    }
    return 0;
}

/* ---- printing the description as text ---- */

/* Prints, for mode "propagate", the moves that are caused by conflicts between hints (layouts that the program
 * fixes). */
static void
print_meetings(struct teller *t)
{
    int64_t bytes = 0, ns = 0;
    for (int i = 0; i < t->e->nmeeting; i++) {
        const struct rille_explain_meeting *x = &t->e->meetings[i];
        str_addf(&t->text, "the layouts of two hints conflict at %s (%s): %s (%s) and %s (%s)\n", x->op, x->line,
                 x->hint[0].what, x->hint[0].line, x->hint[1].what, x->hint[1].line);
        str_addf(&t->text, "      %s -> %s: %lld bytes, %lld ns\n", x->from, x->to, (long long)x->bytes,
                 (long long)x->ns);
        bytes += x->bytes;
        ns += x->ns;
    }
    if (t->e->nmeeting)
        str_addf(&t->text, "%d conflict%s between hints: moves cost %lld bytes, %lld ns per step\n", t->e->nmeeting,
                 t->e->nmeeting == 1 ? "" : "s", (long long)bytes, (long long)ns);
    else if (t->conflicts.a)
        str_add(&t->text, "no hints conflict\n");
}

/* Prints how many candidates' regrets (cost above the best plan) are known only as an interval. */
static void
print_open(struct teller *t)
{
    int n = 0, open = 0;
    for (int i = 0; i < t->e->nop; i++)
        for (int k = 0; k < t->e->ops[i].ncandidate; k++, n++)
            open += t->e->ops[i].candidates[k].regret < t->e->ops[i].candidates[k].regret_high;
    if (open) str_addf(&t->text, "the extra cost of a candidate is known only as a range for %d of %d\n", open, n);
}

static void
print_all(struct teller *t)
{
    struct str *s = &t->text;
    for (int i = 0; i < t->e->nop; i++) explain_op_print(s, &t->e->ops[i]);
    for (int i = 0; i < t->e->nboxing; i++) str_add(s, t->e->boxing[i].text);
    str_addf(s, "%d operator%s, %d move%s, %lld bytes moved%s\n", t->e->nop, t->e->nop == 1 ? "" : "s", t->e->nboxing,
             t->e->nboxing == 1 ? "" : "s", (long long)t->e->bytes, t->p->pieces > 1 ? " per batch" : "");
    print_open(t);
    print_meetings(t);
    for (int a = 0; a < t->e->naxis; a++)
        str_addf(s, "  over axis %d: %lld bytes\n", a, (long long)t->e->axis_bytes[a]);
}

/* Fills in the planner's results: cost, bound, gap, search time and memory. */
static void
tell_plan(struct teller *t)
{
    const struct solved *s = &t->planned->solved;
    t->e->planned = true;
    t->e->cost = s->cost;
    t->e->time = t->planned->time;
    t->e->bound = s->bound;
    t->e->gap = s->cost ? (double)(s->cost - s->bound) / (double)s->cost : 0;
    t->e->peak = t->planned->held ? t->planned->held : t->planned->peak + t->planned->scratch;
    t->e->scratch = t->planned->scratch;
    t->e->search = (double)t->planned->search_ns * 1e-9;
    if (t->planned->links && t->p->nnode) t->e->naxis = t->p->node[0].layout[0]->place->naxis;
    str_addf(&t->text, "planned: %lld ns per step, bound %lld ns%s", (long long)s->cost, (long long)s->bound,
             s->cost == s->bound ? ": no plan of these operators costs less\n" : "");
    if (s->cost != s->bound)
        str_addf(&t->text, ": within %.3f %% of the best plan of these operators\n", 100 * t->e->gap);
    if (t->e->time != s->cost)
        str_addf(&t->text, "         in %d micro-batches, stages at the same time: %lld ns\n", (int)t->p->pieces,
                 (long long)t->e->time);
    str_addf(&t->text, "         at most %lld bytes per device, %lld of them scratch memory of kernels\n",
             (long long)t->e->peak, (long long)t->e->scratch);
}

/* ---- public functions ---- */

static struct rille_explain *
explain_new(struct arena **a)
{
    struct rille_explain *e = must_alloc(sizeof *e);
    *a = must_alloc(sizeof **a);
    e->memory = *a;
    return e;
}

void
rille_explain_free(struct rille_explain **ep)
{
    if (face_given(ep, "the pointer to the record", __func__)) return;
    struct rille_explain *e = *ep;
    *ep = NULL;
    if (!e) return;
    arena_fini(e->memory);
    free(e->memory);
    free(e->text);
    free(e);
}

int
explain_program(struct rille_session *s, const struct program *p, struct assigned *planned, const struct origin *origin,
                struct rille_explain **out)
{
    struct teller t = {.s = s, .p = p, .planned = planned};
    int32_t operands = 1;
    t.e = explain_new(&t.a);
    begin_explanation(&t);
    hint_conflict_begin(&t.conflicts, p, planned, origin, t.a);
    for (int32_t i = 0; i < p->nnode; i++) operands += p->node[i].nin;
    if (t.conflicts.a) t.e->meetings = ARENA_ARRAY(t.a, struct rille_explain_meeting, operands);
    t.e->ops = ARENA_ARRAY(t.a, struct rille_explain_op, p->nnode + 1);
    t.e->boxing = ARENA_ARRAY(t.a, struct rille_explain_boxing, operands);
    t.moved = ARENA_ARRAY(t.a, struct ref, operands);
    t.moved_to = ARENA_ARRAY(t.a, const struct layout *, operands);
    int status = 0;
    for (int32_t i = 0; !status && i < p->nnode; i++) {
        status = tell_moves(&t, &p->node[i]);
        if (!status) status = tell_op(&t, &p->node[i]);
    }
    explain_candidates_end(&t.alternatives);
    if (planned) tell_plan(&t);
    print_all(&t);
    t.e->text = t.text.text;
    if (status) rille_explain_free(&t.e);
    *out = t.e;
    return build_settle(s, status);
}

static int
program_of(struct rille_session *s, int n, struct rille_tensor *const *t, struct program **out)
{
    struct val **v = must_alloc(sizeof *v * (size_t)(n + 1));
    for (int i = 0; i < n; i++) v[i] = t[i]->val;
    int status = collect(s, n, v, COLLECT_EXPLAIN);
    free(v);
    if (!status) *out = collection_program(s, &s->collection);
    return status;
}

int
rille_explain(struct rille_session *s, int n, struct rille_tensor *const *t, struct rille_explain **out)
{
    TRY(face_tensors(s, n, t, __func__));
    TRY(face_given(out, "out", __func__));
    struct program *p;
    TRY(program_of(s, n, t, &p));
    int status = explain_program(s, p, NULL, NULL, out);
    program_free(&p);
    return status;
}

int
rille_graph_explain(struct rille_graph *g, struct rille_explain **out)
{
    TRY(face_graph(g, __func__));
    TRY(face_given(out, "out", __func__));
    TRY(planned_regret(g));
    TRY(planned_told(g));
    return explain_program(g->s, graph_program(g), graph_assigned(g), g->origin, out);
}

int
rille_plan(struct rille_session *s, int n, struct rille_tensor *const *t, bool physical, char **out)
{
    TRY(face_tensors(s, n, t, __func__));
    TRY(face_given(out, "out", __func__));
    struct program *p;
    struct plan *plan;
    struct str text = {0};
    TRY(program_of(s, n, t, &p));
    for (int32_t k = 0; k < p->nroot; k++) p->root[k].overwrites_leaf = -1;
    p->dry_run = true;
    TRY(plan_compile(p, s->atlas, &plan));
    plan_print(plan, physical, &text);
    plan_free(&plan);
    *out = text.text;
    return 0;
}

int
rille_boxing(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
             const struct rille_layout *from, const struct rille_layout *to, struct rille_explain **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(out, "out", __func__));
    struct type type;
    TRY(face_type(dtype, ndim, shape, __func__, &type));
    TRY(face_move(s, &type, from, to, __func__));
    const struct layout *f = (const struct layout *)from, *g = (const struct layout *)to;
    int32_t nrank = f->place->nrank + g->place->nrank;
    if (type_bytes(&type) > INT64_MAX / 4 / nrank)
        return fail(E_SHAPE, "boxing: the bytes that %d ranks receive of %lld bytes are too many to count", (int)nrank,
                    (long long)type_bytes(&type));
    struct teller t = {.s = s};
    t.e = explain_new(&t.a);
    begin_explanation(&t);
    t.e->boxing = ARENA_ARRAY(t.a, struct rille_explain_boxing, 1);
    int status = tell_move(&t, &type, f, g, NULL, 1);
    if (!status) str_add(&t.text, t.e->boxing[0].text);
    t.e->text = t.text.text;
    if (status) rille_explain_free(&t.e);
    *out = t.e;
    return status;
}
