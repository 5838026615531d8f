/* hint_conflict.c - finds the hint that determines a node's layouts, and the hints that cause a move. */
#include "actors/session/planner/hint_conflict.h"

#include "actors/plan/rewrite/rewrite.h"

static int32_t *
no_indices(struct arena *a, int32_t n)
{
    int32_t *x = ARENA_ARRAY(a, int32_t, n + 1);
    for (int32_t i = 0; i < n; i++) x[i] = -1;
    return x;
}

void
hint_conflict_begin(struct hint_conflicts *m, const struct program *p, const struct assigned *a,
                    const struct origin *origin, struct arena *arena)
{
    *m = (struct hint_conflicts){.p = p, .origin = origin, .arena = arena};
    if (!a || a->mode != SOLVE_PROPAGATE) return;
    m->a = a;
    m->follows = ARENA_ARRAY(arena, int32_t, a->net.nnode + 1);
    net_follows(&a->net, a->solved.choice, m->follows);
    m->of_node = no_indices(arena, a->net.nnode);
    m->of_leaf = no_indices(arena, a->net.nnode);
    m->of_root = no_indices(arena, a->net.nnode);
    m->reader = no_indices(arena, p->nleaf);
    for (int32_t k = 0; k < p->nroot; k++)
        if (a->root[k] >= 0) m->of_root[a->root[k]] = k;
    for (int32_t i = p->nleaf - 1; i >= 0; i--) m->of_leaf[a->leaf[i]] = i;
    for (int32_t i = a->nprog - 1; i >= 0; i--) {
        if (a->node[i] < 0) continue;
        m->of_node[a->node[i]] = i;
        for (int k = 0; k < p->node[i].nin; k++) {
            struct ref r = program_source(p, p->node[i].in[k]);
            if (r.kind == REF_LEAF) m->reader[r.index] = i;
        }
    }
}

/* Returns the hint (fixed layout) that determines v's layout, as an index of a net node (node of the planner's
 * search). */
static int32_t
hint_of(const struct hint_conflicts *m, int32_t v)
{
    for (;; v = m->follows[v]) {
        int32_t i = m->of_node[v];
        if (m->follows[v] == v || (i >= 0 && m->p->node[i].strategy)) return v;
    }
}

static char *
keep_conflict_text(const struct hint_conflicts *m, struct str *s)
{
    char *text = arena_strdup(m->arena, str_text(s));
    str_free(s);
    return text;
}

static const char *
conflict_line(const struct hint_conflicts *m, int32_t node)
{
    struct str s = {0};
    const struct line *l = node >= 0 ? &m->p->node[node].line : NULL;
    if (!l || !l->file) return "?";
    str_addf(&s, "%s:%d", l->file, l->line);
    return keep_conflict_text(m, &s);
}

/* Describes a hint by a source line: a call by its own line, an argument or a variable by the line of its first
 * reader, a result by the line that computes the result. */
static void
tell_hint(const struct hint_conflicts *m, int32_t v, struct rille_explain_meeting_hint *out)
{
    int32_t node = m->of_node[v], leaf = m->of_leaf[v];
    struct str s = {0};
    if (node >= 0) {
        const struct prog_node *n = &m->p->node[node];
        str_addf(&s, "%s ", n->name);
        if (n->strategy)
            str_add(&s, "strategy");
        else
            layout_print(n->layout[0], &s);
    } else if (leaf >= 0) {
        str_add(&s, m->origin[leaf].kind == FROM_VARIABLE ? "variable " : "argument ");
        type_print(&m->p->leaf[leaf].type, &s);
        str_add(&s, " ");
        layout_print(m->p->leaf[leaf].layout, &s);
        node = m->reader[leaf];
    } else {
        struct ref r = m->p->root[m->of_root[v]].ref;
        str_add(&s, "result ");
        layout_print(ref_layout(m->p, r), &s);
        if (r.kind == REF_NODE) node = r.index;
    }
    out->what = keep_conflict_text(m, &s);
    out->line = conflict_line(m, node);
}

/* Returns the net node that reads the operands of program node i. If i is a move that the planner added for a
 * root, returns the net node of the root. */
static int32_t
reader_of(const struct hint_conflicts *m, int32_t i)
{
    if (i < m->a->nprog) return m->a->node[i];
    for (int32_t k = 0; k < m->p->nroot; k++)
        if (m->p->root[k].ref.kind == REF_NODE && m->p->root[k].ref.index == i) return m->a->root[k];
    return -1;
}

bool
hint_conflict_at(const struct hint_conflicts *m, struct ref r, int32_t i, struct rille_explain_meeting *out)
{
    if (!m->a || (r.kind == REF_NODE && r.index >= m->a->nprog)) return false;
    r = program_source(m->p, r);
    int32_t from = r.kind == REF_LEAF ? m->a->leaf[r.index] : m->a->node[r.index], to = reader_of(m, i);
    if (from < 0 || to < 0) return false;
    int32_t one = hint_of(m, from), other = hint_of(m, to);
    if (one == other) return false;
    tell_hint(m, one, &out->hint[0]);
    tell_hint(m, other, &out->hint[1]);
    out->op = m->p->node[i].name;
    out->line = conflict_line(m, i);
    return true;
}
