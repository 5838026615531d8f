/* recurrence_grad.c - the gradients of recurrence with respect to x, h0, and c0 (lstm) or the products a = h w^T
 * (gru).
 *
 * da is the gradient of a. For cells other than gru, da equals the gradient of x. The gradient of bias is the sum
 * of da over all rows and steps. The gradient of w is the sum of the products of da and `before`, the hidden state
 * before the step. recurrence.c builds these sums from other operators; the gradient of w is one large product, as
 * for a linear layer. */
#include "kernels/cpu/layers/recurrent.h"
#include "kernels/op/base/op_impl.h"
#include "runtime/data/arena.h"

#include <math.h>
#include <stdlib.h>

static int
rule(const struct call *c, struct str *rule)
{
    bool is_lstm = c->attr[RECUR_CELL].i == CELL_LSTM, is_gru = c->attr[RECUR_CELL].i == CELL_GRU;
    const char *cs = is_lstm ? "b[t][h]" : "b[t][c]";
    str_addf(rule, "%s,%s,b[t][h],%s,", absent(&c->in[BACK_DHS]) ? "=" : "b[t][h]", absent(&c->in[BACK_DCS]) ? "=" : cs,
             cs);
    str_addf(rule, "%s,[g][h],%s,%s,%s->", is_lstm ? "b[t][g]" : "b[t][s]", absent(&c->in[BACK_H0]) ? "=" : "b[h]",
             absent(&c->in[BACK_C0]) ? "=" : "b[h]", absent(&c->in[BACK_LENGTHS]) ? "=" : "b");
    str_addf(rule, "b[t][g],b[t][h],b[h],%s", is_lstm ? "b[h]" : is_gru ? "b[t][g]" : "b[z]");
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    int64_t cell = c->attr[RECUR_CELL].i, hidden = c->in[BACK_HS].dim[2];
    int64_t saved = cell == CELL_LSTM ? cell_gates(cell) * hidden : cell_saves(cell) * hidden;
    if (c->in[BACK_W].dim[0] != cell_gates(cell) * hidden)
        return call_fail(E_SHAPE, c, "w must have %d rows per hidden unit", (int)cell_gates(cell));
    if (c->in[BACK_GATES].dim[2] != saved) return call_fail(E_SHAPE, c, "gates must have %d columns", (int)saved);
    if (c->attr[RECUR_CELL].i == CELL_TANH || c->attr[RECUR_CELL].i == CELL_RELU) size[0] = 0;
    for (int i = 0; i < c->nout; i++) c->out[i].dtype = c->in[BACK_HS].dtype;
    return 0;
}

/* One hidden unit of a row, in one step of backward. saved: values that forward saved, n elements apart. dh, dc: at
 * first the gradients of the states after the step, then those of the states before the step. dh then lacks the
 * gradient through a = h w^T, which through_products() adds. */
struct unit_back {
    int64_t n;
    const double *saved;
    double h, h_before, c, c_before, dh, dc;
    double dx[4], da[4];
};

static void
lstm_back(struct unit_back *u)
{
    double i = u->saved[0], f = u->saved[u->n], g = u->saved[2 * u->n], o = u->saved[3 * u->n], y = tanh(u->c);
    double dc = u->dc + u->dh * o * (1 - y * y);
    u->dx[0] = dc * g * i * (1 - i);
    u->dx[1] = dc * u->c_before * f * (1 - f);
    u->dx[2] = dc * i * (1 - g * g);
    u->dx[3] = u->dh * y * o * (1 - o);
    u->dc = dc * f;
    u->dh = 0;
}

static void
gru_back(struct unit_back *u)
{
    double r = u->saved[0], z = u->saved[u->n], m = u->saved[2 * u->n], q = u->saved[3 * u->n];
    double dm = u->dh * (1 - z) * (1 - m * m);
    u->dx[0] = dm * q * r * (1 - r);
    u->dx[1] = u->dh * (u->h_before - m) * z * (1 - z);
    u->dx[2] = dm;
    u->da[2] = dm * r;
    u->dh *= z;
}

static void
unit_back(int64_t cell, struct unit_back *u)
{
    if (cell == CELL_LSTM) {
        lstm_back(u);
    } else if (cell == CELL_GRU) {
        gru_back(u);
    } else {
        u->dx[0] = u->dh * (cell == CELL_TANH ? 1 - u->h * u->h : u->h > 0);
        u->dh = 0;
    }
    for (int g = 0; g < cell_gates(cell); g++)
        if (cell != CELL_GRU || g < 2) u->da[g] = u->dx[g];
}

static double
given(const struct view *v, int64_t at)
{
    return v->dtype == DT_NONE ? 0 : f64_of(v)[at];
}

/* Returns the index, among all states, of the row's state before step s; -1: no step comes before. */
static int64_t
index_before(const struct recur *r, int64_t row, int64_t s)
{
    return s > 0 ? row * r->length + recur_at(r, s - 1) : -1;
}

static double
before(const struct view *states, const struct view *first, int64_t index, int64_t row, int64_t n, int64_t j)
{
    return index < 0 ? given(first, row * n + j) : given(states, index * n + j);
}

/* Computes one step of a row. da: receives the gradient of a = h w^T. */
static void
ref_step(const struct kcall *k, const struct recur *r, int64_t row, int64_t s, double *dh, double *dc, double *da)
{
    int64_t n = r->hidden, t = recur_at(r, s), at = row * r->length + t, last = index_before(r, row, s);
    bool is_lstm = r->cell == CELL_LSTM, over = recur_is_over(r, row, t);
    for (int64_t j = 0; j < n; j++) {
        struct unit_back u = {.n = n, .dh = dh[j] + given(&k->in[BACK_DHS], at * n + j)};
        u.dc = dc[j] + (is_lstm ? given(&k->in[BACK_DCS], at * n + j) : 0);
        u.h = given(&k->in[BACK_HS], at * n + j);
        u.h_before = before(&k->in[BACK_HS], &k->in[BACK_H0], last, row, n, j);
        f64_of(&k->out[BACK_BEFORE])[at * n + j] = u.h_before;
        if (is_lstm) u.c = given(&k->in[BACK_CS], at * n + j);
        if (is_lstm) u.c_before = before(&k->in[BACK_CS], &k->in[BACK_C0], last, row, n, j);
        if (r->saves) u.saved = f64_of(&k->in[BACK_GATES]) + at * r->saves + j;
        if (!over) unit_back(r->cell, &u);
        dh[j] = u.dh, dc[j] = u.dc;
        for (int64_t g = 0; g < cell_gates(r->cell); g++) {
            f64_of(&k->out[BACK_DX])[at * r->gates + g * n + j] = u.dx[g];
            da[g * n + j] = u.da[g];
        }
    }
}

/* Adds da w, the gradient through a = h w^T, to dh. */
static void
through_products(const struct view *w, const double *da, double *dh)
{
    for (int64_t g = 0; g < w->dim[0]; g++)
        for (int64_t j = 0; j < w->dim[1]; j++) dh[j] += da[g] * f64_of(w)[g * w->dim[1] + j];
}

static void
ref_row(const struct kcall *k, const struct recur *r, int64_t row, double *da)
{
    int64_t n = r->hidden;
    double *dh = da + r->gates, *dc = dh + n;
    for (int64_t j = 0; j < 2 * n; j++) dh[j] = 0;
    for (int64_t s = r->length - 1; s >= 0 && !stop_now(); s--) {
        int64_t at = row * r->length + recur_at(r, s);
        ref_step(k, r, row, s, dh, dc, da);
        through_products(&k->in[BACK_W], da, dh);
        for (int64_t g = 0; r->cell == CELL_GRU && g < r->gates; g++)
            f64_of(&k->out[BACK_LAST])[at * r->gates + g] = da[g];
    }
    for (int64_t j = 0; j < n; j++) {
        f64_of(&k->out[BACK_DH0])[row * n + j] = dh[j];
        if (r->cell == CELL_LSTM) f64_of(&k->out[BACK_LAST])[row * n + j] = dc[j];
    }
}

static int
ref(const struct kcall *k)
{
    struct recur r = recur_of(k, &k->in[BACK_HS], &k->in[BACK_LENGTHS]);
    if (!recur_is_whole(&r, &k->out[BACK_DX], &k->in[BACK_W], &k->in[BACK_GATES])) {
        for (int i = 0; i < k->call->nout; i++) view_clear(&k->out[i]);
        return 0;
    }
    double *da = must_alloc((size_t)(r.gates + 2 * r.hidden + 1) * sizeof *da);
    for (int64_t row = 0; row < r.batch && !stop_now(); row++) ref_row(k, &r, row, da);
    free(da);
    return 0;
}

/* Fails, because second derivatives are not supported. Without this function, they would be wrong, without an
 * error. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    UNUSED(n);
    UNUSED(dout);
    UNUSED(din);
    b->failed = true;
    fail(E_STATE,
         "nn.LSTM, nn.GRU and nn.RNN have no second derivative; compute the steps by rille.scan with nn.LSTMCell, "
         "nn.GRUCell or nn.RNNCell, which have one");
}

static double
flops(const struct call *c)
{
    return 2 * (double)type_numel(&c->in[BACK_HS]) * (double)c->in[BACK_W].dim[0];
}

static const struct kernel_variant variants[] = {
    {"blocks", .dense_in = true, .accepts = recurrent_accepts, .prepare = recurrent_back_prepare,
     .run = recurrent_back_run, .drop = recurrent_drop},
    {NULL},
};

const struct op op_recurrence_grad = {
    .name = "recurrence_grad",
    .doc = "gradients of recurrence: of x, h0, and c0 (lstm) or the hidden products (gru); and the states before each "
           "step",
    .in = {[BACK_DHS] = {"dhs", IN_FLOAT | IN_OPTIONAL},
           [BACK_DCS] = {"dcs", IN_FLOAT | IN_OPTIONAL},
           [BACK_HS] = {"hs", IN_FLOAT},
           [BACK_CS] = {"cs", IN_FLOAT},
           [BACK_GATES] = {"gates", IN_FLOAT},
           [BACK_W] = {"w", IN_FLOAT},
           [BACK_H0] = {"h0", IN_FLOAT | IN_OPTIONAL},
           [BACK_C0] = {"c0", IN_FLOAT | IN_OPTIONAL},
           [BACK_LENGTHS] = {"lengths", IN_INDEX | IN_OPTIONAL}},
    .nout = 4,
    .attr = {[RECUR_CELL] = {"cell", ATTR_TEXT, .text = "lstm|gru|tanh|relu", .doc = "kind of cell"},
             [RECUR_REVERSE] = {"reverse", ATTR_BOOL, .doc = "true: the forward pass began at the last step"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .grad.build = grad,
    .host.ref = ref,
    .host.kernel = variants,
    .flops = flops,
    .flags = OP_HIDDEN,
    .sample =
        {"f32{4,3,2} f32{4,3,2} f32{4,3,2} f32{4,3,2} f32{4,3,8} f32{8,2} f32{4,2} f32{4,2} -",
         "f32{4,3,2} - f32{4,3,2} f32{4,3,0} f32{4,3,8} f32{6,2} - - - cell=gru",
         "f32{5,7,2} - f32{5,7,2} f32{5,7,0} f32{5,7,0} f32{2,2} f32{5,2} - i64{5}<7 cell=tanh reverse=true",
         "f32{2,7,3} - f32{2,7,3} f32{2,7,0} f32{2,7,0} f32{3,3} f32{2,3} - i64{2}<7 cell=relu",
         "- f64{3,7,2} f64{3,7,2} f64{3,7,2} f64{3,7,8} f64{8,2} f64{3,2} - i64{3}<7 reverse=true",
         "f32{70,7,4} - f32{70,7,4} f32{70,7,0} f32{70,7,16} f32{12,4} f32{70,4} - i32{70}<7 cell=gru reverse=true"},
};
