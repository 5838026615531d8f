/* compare.c - compares two compiled steps, and describes the first of the user's calls that differs. */
#include "actors/session/core/face.h"
#include "actors/session/core/tracer.h"
#include "actors/session/run/store.h"
#include "actors/session/step/compiled.h"
#include "actors/plan/model/program_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sets *out to the present value of a number. Sets 0 for a live number with an undo function (a call counter),
 * because calling the function would change the number. */
static int
number_value(const struct number *n, double *out)
{
    if (n->kind == NUM_LIVE && n->live->undo) return *out = 0, 0;
    if (n->kind == NUM_LIVE)
        return n->live->fn(n->live->arg, out) ? fail(E_VALUE, "a live number's function failed") : 0;
    *out = n->is_int ? (double)n->i : n->f;
    return 0;
}

/* Sets *equal to true if two numbers are equal. A live number (value of a user function) equals a constant with
 * its present value. */
static int
numbers_equal(const struct number *a, const struct number *b, bool *equal)
{
    double x, y;
    bool live = a->kind == NUM_LIVE || b->kind == NUM_LIVE;
    *equal = live || (a->kind == b->kind && a->is_int == b->is_int);
    if (!*equal) return 0;
    TRY(number_value(a, &x));
    TRY(number_value(b, &y));
    *equal = x == y || (isnan(x) && isnan(y));
    return 0;
}

/* Reads all elements of a value; the caller frees the array. */
static int
read_value(struct rille_session *s, struct val *v, void **out)
{
    struct box all = {0};
    for (int d = 0; d < v->type.ndim; d++) all.hi[d] = v->type.dim[d];
    *out = must_alloc((size_t)type_bytes(&v->type) + 1);
    return session_read(s, v, &all, *out);
}

static int
values_equal(struct rille_session *s, struct val *a, struct val *b, bool *equal)
{
    void *x = NULL, *y = NULL;
    *equal = a == b;
    if (*equal || !a || !b || !type_equal(&a->type, &b->type) || a->layout != b->layout) return 0;
    int status = read_value(s, a, &x);
    if (!status) status = read_value(s, b, &y);
    *equal = !status && !memcmp(x, y, (size_t)type_bytes(&a->type));
    free(x);
    free(y);
    return status;
}

/* Returns the index of variable t among the batch totals; -1: t is no batch total. The steps that run before g
 * (g->totals) write the batch totals. */
static int32_t
total_index(const struct rille_graph *g, const struct rille_tensor *t)
{
    int32_t n = 0;
    for (const struct rille_graph *h = g->totals; h; h = h->totals)
        for (int32_t i = 0; i < h->noutcome; i++, n++)
            if (h->outcome[i].t == t) return n;
    return -1;
}

/* Compares two values that traces read from outside. Constants that each trace created anew are equal if their
 * elements are equal. Sums over the whole batch (totals) are equal if they have the same index. */
static int
origins_equal(const struct rille_graph *g, const struct rille_graph *h, const struct origin *a, const struct origin *b,
              bool *equal)
{
    int32_t total = a->kind == FROM_VARIABLE && b->kind == FROM_VARIABLE ? total_index(g, a->t) : -1;
    if (total >= 0) return *equal = total == total_index(h, b->t), 0;
    bool constant = a->kind == FROM_VARIABLE && b->kind == FROM_VARIABLE && !a->t->requires_grad;
    *equal = a->kind == b->kind && a->input == b->input && a->free == b->free && (a->t == b->t || constant);
    if (!*equal) return 0;
    return constant ? values_equal(g->s, a->t->val, b->t->val, equal) : values_equal(g->s, a->val, b->val, equal);
}

/* Returns true if the outcomes are equal. Variables that the traces themselves created are not compared. */
static bool
outcomes_equal(const struct outcome *a, const struct outcome *b)
{
    return a->kind == b->kind && a->root == b->root && (a->t == b->t || (a->made && b->made));
}

static bool
gradients_equal(const struct gradient_state *a, const struct gradient_state *b)
{
    return (a->t == b->t || (a->made && b->made)) && a->before == b->before && a->after == b->after;
}

static bool
programs_equal(const struct program *a, const struct program *b)
{
    struct str x = {0}, y = {0};
    program_write(a, &x);
    program_write(b, &y);
    bool equal = x.len == y.len && !memcmp(x.text, y.text, x.len);
    str_free(&x);
    str_free(&y);
    return equal;
}

static void
say_node(const struct program *p, int32_t i, const char *what, struct str *how)
{
    const struct prog_node *n = &p->node[i];
    str_addf(how, "%s", n->name);
    if (n->line.file) str_addf(how, " (%s:%d)", n->line.file, (int)n->line.line);
    str_addf(how, " %s", what);
}

/* Finds the first node of step a whose operator or operands differ from those of the corresponding node of step
 * b. */
static void
find_other_node(const struct program *a, const struct program *b, struct str *how)
{
    for (int32_t i = 0; i < a->nnode && !how->len; i++) {
        const struct prog_node *x = &a->node[i], *y = &b->node[i];
        if (i >= b->nnode)
            say_node(a, i, "is missing now", how);
        else if (x->op != y->op || x->nin != y->nin)
            str_addf(how, "%s is %s%s", x->name, x->name == y->name ? "now another " : "now ", y->name);
        if (i < b->nnode && how->len && y->line.file) str_addf(how, " (%s:%d)", y->line.file, (int)y->line.line);
        for (int32_t k = 0; i < b->nnode && !how->len && k < x->nin; k++)
            if (memcmp(&x->in[k], &y->in[k], sizeof x->in[k])) say_node(b, i, "reads other values now", how);
    }
    if (!how->len && b->nnode > a->nnode) say_node(b, a->nnode, "is new", how);
}

/* Returns the first node that reads number i. Every number has a reader. */
static int32_t
number_reader(const struct program *p, int32_t number)
{
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++)
            if (p->node[i].in[k].kind == REF_NUMBER && p->node[i].in[k].index == number) return i;
    return 0;
}

static int
find_other_number(const struct rille_graph *a, const struct rille_graph *b, struct str *how)
{
    const struct program *p = b->runner->plan->program;
    for (int32_t i = 0; i < a->numbers.nnumber && !how->len; i++) {
        bool equal;
        double was, is;
        TRY(numbers_equal(&a->numbers.number[i], &b->numbers.number[i], &equal));
        if (equal) continue;
        TRY(number_value(&a->numbers.number[i], &was));
        TRY(number_value(&b->numbers.number[i], &is));
        say_node(p, number_reader(p, i), "reads the number", how);
        str_addf(how, " %.14g, which was %.14g when the step was traced", is, was);
    }
    return 0;
}

/* Compares the tensors that two steps read and write. */
static int
ends_equal(const struct rille_graph *a, const struct rille_graph *b, bool *equal)
{
    *equal = a->nleaf == b->nleaf && a->noutcome == b->noutcome && a->variables.ngradient == b->variables.ngradient &&
             a->numbers.nnumber == b->numbers.nnumber && a->numbers.nrandom == b->numbers.nrandom && a->nout == b->nout;
    for (int32_t i = 0; *equal && i < a->noutcome; i++) *equal = outcomes_equal(&a->outcome[i], &b->outcome[i]);
    for (int32_t i = 0; *equal && i < a->variables.ngradient; i++)
        *equal = gradients_equal(&a->variables.gradient[i], &b->variables.gradient[i]);
    for (int32_t i = 0; *equal && i < a->nleaf; i++) TRY(origins_equal(a, b, &a->origin[i], &b->origin[i], equal));
    return 0;
}

int
rille_graph_compare(struct rille_graph *a, struct rille_graph *b, char **how)
{
    TRY(face_graph(a, __func__));
    TRY(face_graph(b, __func__));
    TRY(face_given(how, "how", __func__));
    struct str s = {0};
    const struct program *p = a->runner->plan->program, *q = b->runner->plan->program;
    int status = 0;
    bool equal = true;
    find_other_node(p, q, &s);
    if (!s.len && a->numbers.nnumber == b->numbers.nnumber) status = find_other_number(a, b, &s);
    if (!status && !s.len) status = ends_equal(a, b, &equal);
    if (!status && !equal) str_addf(&s, "the step reads or changes other tensors now");
    if (!status && !s.len && !programs_equal(p, q)) str_addf(&s, "a call has other options, shapes or layouts now");
    *how = s.len && !status ? s.text : NULL;
    if (!*how) str_free(&s);
    return status;
}
