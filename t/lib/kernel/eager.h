/* eager.h - eager execution of the operators' reference functions, for tests of gradients.
 *
 * Elements are stored as f64 or i64, whatever the value's dtype, so that finite differences are accurate. Nodes form
 * a tape in call order. eager_grad() walks the tape backwards and appends the nodes of the gradient to it, so a
 * gradient can be differentiated again. Memory is in an arena. */
#ifndef RILLE_T_EAGER_H
#define RILLE_T_EAGER_H

#include "runtime/graph/graph.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

enum { EAGER_NODES = 4000 };

struct evalue {
    struct val val; /* first member, so that a struct val * is also a struct evalue * */
    void *data;     /* doubles or int64s, contiguous */
    struct val *slope;
};

struct eager {
    struct build build; /* first member, so that a struct build * is also a struct eager * */
    struct arena arena;
    int nnode;
    struct node *node[EAGER_NODES];
    /* operator whose gradient is checked: `read` records which of its values the gradient reads */
    const struct op *watched;
    /* operands and results of `watched` that its gradient reads, in the format of the operator's field .saves */
    char read[OP_OPERAND + OP_OUT + 1];
    /* error text about the first value that a gradient reads although its operator does not save it; "": none */
    char unsaved[128];
};

static inline struct evalue *
eager_value(struct val *v)
{
    return (struct evalue *)v;
}
static inline double *
eager_f(struct val *v)
{
    return eager_value(v)->data;
}
static inline int64_t *
eager_i(struct val *v)
{
    return eager_value(v)->data;
}

static inline struct val *
eager_new(struct eager *e, const struct type *t)
{
    struct evalue *v = ARENA_NEW(&e->arena, struct evalue);
    v->val.type = *t;
    v->data = arena_alloc(&e->arena, (size_t)type_numel(t) * sizeof(double) + 1);
    return &v->val;
}

static inline struct val *
eager_number(struct build *b, double f)
{
    struct val *v = eager_new((struct eager *)b, &(struct type){.dtype = DT_F64, .weak = 1});
    v->is_number = 1;
    v->number = (struct number){.kind = NUM_FIXED, .f = f};
    *eager_f(v) = f;
    return v;
}

static inline struct val *
eager_integer(struct build *b, int64_t i)
{
    struct val *v = eager_new((struct eager *)b, &(struct type){.dtype = DT_I64, .weak = 1});
    v->is_number = 1;
    v->number = (struct number){.kind = NUM_FIXED, .is_int = true, .i = i};
    *eager_i(v) = i;
    return v;
}

static inline struct view
eager_view(struct val *v)
{
    if (!v) return (struct view){.dtype = DT_NONE};
    struct type t = v->type;
    t.dtype = dtype_is_float((enum dtype)t.dtype) ? DT_F64 : DT_I64;
    return view_dense(&t, eager_value(v)->data);
}

static inline int
eager_run(struct node *n, const struct call *c)
{
    struct view view[SAMPLE_IN + OP_OUT];
    for (int i = 0; i < n->nin; i++) view[i] = eager_view(n->in[i]);
    for (int k = 0; k < n->nout; k++) view[n->nin + k] = eager_view(n->out[k]);
    struct finding find = {0};
    struct kcall k = {.call = c, .in = view, .out = view + n->nin, .threads = 1, .find = &find};
    TRY(ref_run(&k));
    return find.at ? c->op->host.say(&k, &find) : 0;
}

static inline struct node *
eager_node(struct eager *e, const struct call *c, struct val *const *in)
{
    struct node *n = ARENA_NEW(&e->arena, struct node);
    n->op = c->op;
    n->nin = (uint16_t)c->nin;
    n->nout = (uint8_t)c->nout;
    n->in = arena_dup(&e->arena, in, sizeof *in * (size_t)c->nin);
    n->attr = arena_dup(&e->arena, c->attr, sizeof *c->attr * (size_t)op_nattr(c->op));
    n->serial = (uint64_t)e->nnode;
    for (int k = 0; k < n->nout; k++) {
        n->out[k] = eager_new(e, &c->out[k]);
        n->out[k]->node = n;
        n->out[k]->out = (uint8_t)k;
        for (int i = 0; i < n->nin; i++)
            if (in[i] && in[i]->needs_grad) n->out[k]->needs_grad = dtype_is_float((enum dtype)c->out[k].dtype);
    }
    return n;
}

static inline struct val *
eager_add(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
          struct val **res)
{
    struct eager *e = (struct eager *)b;
    if (b->failed) return NULL;
    struct type in_type[SAMPLE_IN] = {0}, out_type[OP_OUT] = {0};
    struct call c = {.op = op, .nin = nin, .nout = op_nresult(op, attr), .in = in_type, .out = out_type, .attr = attr};
    for (int i = 0; i < nin; i++)
        if (in[i]) in_type[i] = in[i]->type;
    if (op->build) {
        for (int k = 0; k < c.nout; k++) res[k] = NULL;
        b->failed = op->build(b, &c, in, res) != 0;
        if (b->failed || res[0]) return b->failed ? NULL : res[0];
    }
    struct rule rule;
    b->failed = call_infer(&e->arena, &c, &rule) != 0;
    if (b->failed) return NULL;
    struct node *n = eager_node(e, &c, in);
    b->failed = eager_run(n, &c) != 0;
    assert(e->nnode < EAGER_NODES);
    e->node[e->nnode++] = n;
    for (int k = 0; k < c.nout; k++) res[k] = n->out[k];
    return b->failed ? NULL : res[0];
}

static inline struct eager *
eager_open(void)
{
    struct eager *e = must_alloc(sizeof *e);
    e->build = (struct build){.add = eager_add, .number = eager_number, .integer = eager_integer};
    return e;
}

static inline void
eager_close(struct eager **e)
{
    arena_fini(&(*e)->arena);
    free(*e);
    *e = NULL;
}

/* Checks the nodes of the gradient of n, from node `first` on: they may read only the operands and results of n that
 * the operator saves (.saves), because other values may have been freed. */
static inline void
eager_look_for_unsaved(struct eager *e, const struct node *n, int first)
{
    const char *saves = n->op->grad.saves ? n->op->grad.saves : "";
    for (int i = first; i < e->nnode; i++)
        for (int k = 0; k < e->node[i]->nin; k++) {
            const struct val *read = e->node[i]->in[k];
            for (int j = 0; read && !read->is_number && j < n->nin + n->nout; j++) {
                bool operand = j < n->nin;
                char name = (char)(operand ? '0' + j : 'a' + j - n->nin);
                if (read != (operand ? n->in[j] : n->out[j - n->nin])) continue;
                if (n->op == e->watched && !strchr(e->read, name)) e->read[strlen(e->read)] = name;
                if (strchr(saves, name) || e->unsaved[0]) continue;
                snprintf(e->unsaved, sizeof e->unsaved, "%s reads '%c' and saves \"%s\"", n->op->name, name, saves);
            }
        }
}

/* Computes vector-Jacobian products of y with dy along the tape. out[i]: gradient of x[i]; NULL if y does not depend
 * on it. */
static inline void
eager_grad(struct eager *e, int ny, struct val *const *y, struct val *const *dy, int nx, struct val *const *x,
           struct val **out)
{
    struct build *b = &e->build;
    int last = e->nnode;
    for (int i = 0; i < last; i++)
        for (int k = 0; k < e->node[i]->nout; k++) eager_value(e->node[i]->out[k])->slope = NULL;
    for (int i = 0; i < nx; i++) eager_value(x[i])->slope = NULL;
    for (int i = 0; i < ny; i++)
        if (dy[i]) eager_value(y[i])->slope = dy[i];
    for (int i = last - 1; i >= 0 && !b->failed; i--) {
        struct node *n = e->node[i];
        struct val *dout[OP_OUT], *din[SAMPLE_IN] = {NULL};
        bool any = false;
        for (int k = 0; k < n->nout; k++) any |= (dout[k] = eager_value(n->out[k])->slope) != NULL;
        if (!any || !n->op->grad.build || !n->out[0]->needs_grad) continue;
        int first = e->nnode;
        n->op->grad.build(b, n, dout, din);
        eager_look_for_unsaved(e, n, first);
        for (int k = 0; k < n->nin; k++) {
            if (!din[k] || !n->in[k]->needs_grad) continue;
            struct evalue *to = eager_value(n->in[k]);
            if (!shape_equal(&din[k]->type, &n->in[k]->type) || din[k]->type.dtype != n->in[k]->type.dtype) {
                b->failed = true;
                fail(E_SHAPE, "%s: the gradient of operand %d has another shape or dtype", n->op->name, k);
                break;
            }
            const struct op *add = op_find("add");
            struct val *both[] = {to->slope, din[k]}, *res[OP_OUT];
            to->slope = to->slope ? eager_add(b, add, 2, both, NULL, res) : din[k];
        }
    }
    for (int i = 0; i < nx; i++) out[i] = b->failed ? NULL : eager_value(x[i])->slope;
}

#endif
