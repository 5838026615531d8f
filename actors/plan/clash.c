/* clash.c - hints, lifted until what is left is to blame. */
#include "actors/plan/clash.h"

#include "runtime/error.h"

enum { MOST = 256 }; /* hints that are tried: each is a network */

static bool
is_hint(const struct prog_node *n)
{
    return n->asked || n->strategy;
}

/* Lifts what is not needed for the clash. Returns how many hints are left. */
static int32_t
lift(struct program *q, struct atlas *at, const struct assign_options *o)
{
    int32_t left = 0, tried = 0;
    for (int32_t i = 0; i < q->nnode; i++) {
        struct prog_node was = q->node[i];
        if (!is_hint(&was)) continue;
        q->node[i].asked = false;
        q->node[i].strategy = NULL;
        if (tried++ < MOST && !assign_possible(q, at, o)) continue;
        q->node[i] = was;
        left++;
    }
    return left;
}

static void
print_hint(const struct prog_node *n, struct str *s)
{
    str_addf(s, "%s ", n->name);
    if (n->asked)
        layout_print(n->layout[0], s);
    else
        str_add(s, "strategy");
    if (n->line.file) str_addf(s, " (%s:%d)", n->line.file, n->line.line);
}

static int
name_hints(const struct program *q, int32_t left)
{
    struct str s = {0};
    for (int32_t i = 0, k = 0; i < q->nnode; i++) {
        if (!is_hint(&q->node[i])) continue;
        str_add(&s, k == 0 ? "" : k + 1 < left ? ", " : " and ");
        print_hint(&q->node[i], &s);
        k++;
    }
    int status = left > 1 ? fail(E_SBP, "hints clash: %s: no layouts meet them together", str_text(&s))
                          : fail(E_SBP,
                                 "hint: no plan meets %s: what it reads lies otherwise, and nothing becomes "
                                 "partial by a move",
                                 str_text(&s));
    str_free(&s);
    return status;
}

int
clash_tell(const struct program *p, struct atlas *at, const struct assign_options *o, int status)
{
    struct program q = *p;
    struct str was = {0};
    q.arena = (struct arena){0};
    q.node = arena_dup(&q.arena, p->node, sizeof *p->node * (size_t)MAX(1, p->nnode));
    str_add(&was, err_text());
    int32_t left = assign_possible(&q, at, o) ? 0 : lift(&q, at, o);
    err_clear();
    status = left ? name_hints(&q, left) : fail(status, "%s", str_text(&was));
    str_free(&was);
    arena_fini(&q.arena);
    return status;
}
