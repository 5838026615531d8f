/* recurrence.c - all steps of a recurrent layer: an LSTM, a GRU, or a plain cell with tanh or relu.
 *
 * Operand x is the product with the inputs of all steps, inputs w_ih^T + b_ih, which another operator computes. The
 * rows of the batch are independent, so a split of the batch needs no communication. In a plan, all steps of the
 * layer are one task.
 *
 *   lstm  i, f, o = sigmoid(x + a), g = tanh(x + a), c = f c + i g, h = o tanh(c)      where a = h w^T + bias
 *   gru   r, z = sigmoid(x + a), n = tanh(x + r a), h = (1 - z) n + z h
 *   tanh, relu  h = f(x + a)
 *
 * i, f, o, g, r, z, n: gates; c: cell state; h: hidden state. A row with fewer steps (operand lengths) keeps its
 * state after its last step; in the reverse direction, the row begins with that step. Hochreiter & Schmidhuber 1997;
 * Cho et al. 2014. */
#include "kernels/cpu/layers/recurrent.h"
#include "kernels/op/lib/lookup.h"
#include "runtime/data/arena.h"

#include <math.h>
#include <stdlib.h>

extern const struct op op_recurrence, op_recurrence_grad, op_contract;

static int
rule(const struct call *c, struct str *rule)
{
    bool lstm = c->attr[RECUR_CELL].i == CELL_LSTM;
    str_addf(rule, "b[t][g],[g][h],%s,%s,%s,%s->", absent(&c->in[RECUR_H0]) ? "=" : "b[h]",
             absent(&c->in[RECUR_C0]) ? "=" : "b[h]", absent(&c->in[RECUR_BIAS]) ? "=" : "[g]",
             absent(&c->in[RECUR_LENGTHS]) ? "=" : "b");
    str_addf(rule, "b[t][h],%s", lstm ? "b[t][h],b[t][g]" : "b[t][c],b[t][s]");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    int64_t cell = c->attr[RECUR_CELL].i, hidden = c->in[RECUR_W].dim[1];
    if (c->in[RECUR_W].dim[0] != cell_gates(cell) * hidden)
        return call_fail(E_SHAPE, c, "w must have %d rows per column, found %lld rows and %lld columns",
                         (int)cell_gates(cell), (long long)c->in[RECUR_W].dim[0], (long long)hidden);
    if (!absent(&c->in[RECUR_C0]) && cell != CELL_LSTM)
        return call_fail(E_ARG, c, "c0 must be absent unless cell = \"lstm\"");
    if (cell != CELL_LSTM) size[0] = 0, size[1] = cell_saves(cell) * hidden;
    return 0;
}

static double
logistic(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* One hidden unit at one step. x, a, bias: summands of the unit's first gate; those of the next gate are n elements
 * further. saved: values that backward needs, also n elements apart. */
struct unit {
    int64_t n;
    const double *x, *a, *bias;
    double *saved;
};

static double
gate(const struct unit *u, int g)
{
    return u->x[g * u->n] + u->a[g * u->n] + (u->bias ? u->bias[g * u->n] : 0);
}

static double
lstm(const struct unit *u, double *c)
{
    double i = logistic(gate(u, 0)), f = logistic(gate(u, 1)), g = tanh(gate(u, 2)), o = logistic(gate(u, 3));
    *c = f * *c + i * g;
    u->saved[0] = i, u->saved[u->n] = f, u->saved[2 * u->n] = g, u->saved[3 * u->n] = o;
    return o * tanh(*c);
}

static double
gru(const struct unit *u, double h)
{
    double r = logistic(gate(u, 0)), z = logistic(gate(u, 1)), q = u->a[2 * u->n] + (u->bias ? u->bias[2 * u->n] : 0);
    double n = tanh(u->x[2 * u->n] + r * q);
    u->saved[0] = r, u->saved[u->n] = z, u->saved[2 * u->n] = n, u->saved[3 * u->n] = q;
    return (1 - z) * n + z * h;
}

static double
next_state(int64_t cell, const struct unit *u, double h, double *c)
{
    if (cell == CELL_LSTM) return lstm(u, c);
    if (cell == CELL_GRU) return gru(u, h);
    return cell == CELL_TANH ? tanh(gate(u, 0)) : fmax(gate(u, 0), 0);
}

/* Computes a = h w^T. h NULL: the state is zeros. */
static void
hidden_products(const struct view *w, const double *h, double *a)
{
    for (int64_t g = 0; g < w->dim[0]; g++) {
        a[g] = 0;
        for (int64_t j = 0; h && j < w->dim[1]; j++) a[g] += f64_of(w)[g * w->dim[1] + j] * h[j];
    }
}

/* Computes one step. h, c: the states before the step; NULL: zeros. */
static void
ref_step(const struct kcall *k, const struct recur *r, int64_t row, int64_t t, const double *h, const double *c,
         double *a)
{
    int64_t at = row * r->length + t, n = r->hidden;
    bool over = recur_is_over(r, row, t);
    const double *bias = k->in[RECUR_BIAS].dtype == DT_NONE ? NULL : f64_of(&k->in[RECUR_BIAS]);
    if (!over) hidden_products(&k->in[RECUR_W], h, a);
    for (int64_t j = 0; j < r->saves; j++) f64_of(&k->out[RECUR_GATES])[at * r->saves + j] = 0;
    for (int64_t j = 0; j < n; j++) {
        struct unit u = {n, f64_of(&k->in[RECUR_X]) + at * r->gates + j, a + j, bias ? bias + j : NULL, NULL};
        if (r->saves) u.saved = f64_of(&k->out[RECUR_GATES]) + at * r->saves + j;
        double cell = c ? c[j] : 0, before = h ? h[j] : 0;
        f64_of(&k->out[RECUR_HS])[at * n + j] = over ? before : next_state(r->cell, &u, before, &cell);
        if (r->cell == CELL_LSTM) f64_of(&k->out[RECUR_CS])[at * n + j] = cell;
    }
}

static const double *
first_state(const struct view *states, int64_t row)
{
    return states->dtype == DT_NONE ? NULL : f64_of(states) + row * states->dim[1];
}

static int
ref(const struct kcall *k)
{
    struct recur r = recur_of(k, &k->out[RECUR_HS], &k->in[RECUR_LENGTHS]);
    lookup_find(k);
    if (!recur_is_whole(&r, &k->in[RECUR_X], &k->in[RECUR_W], &k->out[RECUR_GATES])) {
        for (int i = 0; i < k->call->nout; i++) view_clear(&k->out[i]);
        return 0;
    }
    double *a = must_alloc((size_t)(r.gates + 1) * sizeof *a);
    for (int64_t row = 0; row < r.batch && !stop_now(); row++) {
        const double *h = first_state(&k->in[RECUR_H0], row), *c = first_state(&k->in[RECUR_C0], row);
        for (int64_t s = 0; s < r.length && !stop_now(); s++) {
            int64_t t = recur_at(&r, s), at = (row * r.length + t) * r.hidden;
            ref_step(k, &r, row, t, h, c, a);
            h = f64_of(&k->out[RECUR_HS]) + at;
            if (r.cell == CELL_LSTM) c = f64_of(&k->out[RECUR_CS]) + at;
        }
    }
    free(a);
    return 0;
}

/* ---- gradient ---- */

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    bool is_gru = n->attr[RECUR_CELL].i == CELL_GRU;
    struct val *in[] = {dout[RECUR_HS], dout[RECUR_CS],  n->out[RECUR_HS], n->out[RECUR_CS],    n->out[RECUR_GATES],
                        n->in[RECUR_W], n->in[RECUR_H0], n->in[RECUR_C0],  n->in[RECUR_LENGTHS]};
    struct val *d[OP_OUT];
    if (!in[BACK_DHS] && !in[BACK_DCS]) return;
    if (!b->add(b, &op_recurrence_grad, countof(in), in, n->attr, d)) return;
    struct val *da = is_gru ? d[BACK_LAST] : d[BACK_DX];
    din[RECUR_X] = d[BACK_DX];
    if (n->in[RECUR_H0]) din[RECUR_H0] = d[BACK_DH0];
    if (b_wants(n, RECUR_W)) din[RECUR_W] = b_call2(b, &op_contract, da, d[BACK_BEFORE]);
    if (n->in[RECUR_C0]) din[RECUR_C0] = d[BACK_LAST];
    if (n->in[RECUR_BIAS] && b_wants(n, RECUR_BIAS)) din[RECUR_BIAS] = b_sum(b, da, (int64_t[]){0, 1}, 2, false);
}

static int
run(const struct kcall *k, const void *state)
{
    lookup_find(k);
    return recurrent_run(k, state);
}

static void
allows(const struct kcall *k, struct allowed *a)
{
    *a = (struct allowed){.operand = RECUR_LENGTHS, .count = (uint64_t)k->in[RECUR_X].global[1] + 1};
}

static int
say(const struct kcall *k, const struct finding *f)
{
    struct str where = {0};
    lookup_print_position(k, RECUR_LENGTHS, f, &where);
    int code = fail(E_VALUE,
                    "lengths: length %lld at position %s must be from 0 to %lld, the number of steps (positions "
                    "count from 0)",
                    (long long)f->value[0], str_text(&where), (long long)k->in[RECUR_X].global[1]);
    str_free(&where);
    return code;
}

static double
flops(const struct call *c)
{
    return 2 * (double)type_numel(&c->in[RECUR_X]) * (double)c->in[RECUR_W].dim[1];
}

static const struct kernel_variant variants[] = {
    {"blocks", .dense_in = true, .accepts = recurrent_accepts, .prepare = recurrent_prepare, .run = run,
     .drop = recurrent_drop},
    {NULL},
};

const struct op op_recurrence = {
    .name = "recurrence",
    .doc = "hidden states of a recurrent cell: h(t) = cell(x(t), h(t - 1) w^T + bias)",
    .in = {[RECUR_X] = {"x", IN_FLOAT},
           [RECUR_W] = {"w", IN_FLOAT},
           [RECUR_H0] = {"h0", IN_FLOAT | IN_OPTIONAL},
           [RECUR_C0] = {"c0", IN_FLOAT | IN_OPTIONAL},
           [RECUR_BIAS] = {"bias", IN_FLOAT | IN_OPTIONAL},
           [RECUR_LENGTHS] = {"lengths", IN_INDEX | IN_OPTIONAL}},
    .nout = 3,
    .attr = {[RECUR_CELL] = {"cell", ATTR_TEXT, .text = "lstm|gru|tanh|relu", .doc = "kind of cell"},
             [RECUR_REVERSE] = {"reverse", ATTR_BOOL, .doc = "true: from the last step to the first"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .grad.build = grad,
    .grad.saves = "1235abc",
    .host.ref = ref,
    .host.allows = allows,
    .host.say = say,
    .host.kernel = variants,
    .flops = flops,
    .flags = OP_HIDDEN | OP_WIDE,
    .sample = {"f32{4,3,8} f32{8,2} f32{4,2} f32{4,2} f32{8} -", "f32{4,3,6} f32{6,2} - - f32{6} - cell=gru",
               "f32{5,7,2} f32{2,2} f32{5,2} - - i64{5}<7 cell=tanh reverse=true",
               "f32{2,7,3} f32{3,3} f32{2,3} - f32{3} i64{2}<7 cell=relu",
               "f64{3,7,8} f64{8,2} - f64{3,2} - i64{3}<7 reverse=true",
               "f32{70,7,12} f32{12,4} f32{70,4} - f32{12} i32{70}<7 cell=gru reverse=true"},
};
