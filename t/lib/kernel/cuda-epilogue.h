/* cuda-epilogue.h - fused chains that begin with a row operator or a product (the lead), for t/cuda/kernels.c. Each
 * chain is generated in two ways: as one kernel, and as two kernels, of which the second reads the result of the
 * first. The lead's call belongs to a trial (t/lib/kernel/trial.h); all memory is in the trial's arena. */
#ifndef RILLE_T_CUDA_LED_H
#define RILLE_T_CUDA_LED_H

#include "kernels/cuda/source.h"
#include "t/lib/kernel/trial.h"
#include "sbp/infer.h"

enum { LED_STEPS = 5, LED_MORE = 4, LED_IN = OP_OPERAND + LED_MORE, LED_OUT = LED_STEPS + OP_OUT };

/* Steps of the chains; the step without a name is the lead. Arguments of a step: a digit: result of that step; a: an
 * operand of the result's size; b: an operand of the size of its last dimension; c: an operand with one number per
 * line; n: a number. */
static const struct led_chain {
    const char *text;
    struct led_step {
        const char *op, *args, *attr;
        bool shown;
    } step[LED_STEPS];
    int nstep;
} led_chains[] = {
    {"its cast", {{NULL}, {"cast", "0", "dtype=bf16", true}}, 2},
    {"a sum and its cast", {{NULL}, {"add", "a0", "", true}, {"cast", "1", "dtype=bf16", true}}, 3},
    {"itself, b and a number", {{.shown = true}, {"mul", "0b", "", false}, {"add", "1n", "", true}}, 3},
    {"a step before it", {{"mul", "an", "", false}, {NULL}, {"sub", "01", "", true}}, 3},
    {"three operands, a truth",
     {{NULL}, {"add", "0a", "", false}, {"mul", "1c", "", false}, {"sub", "2b", "", true}, {"gt", "3a", "", true}},
     5},
};

struct epilogue {
    const struct led_chain *chain;
    int lead, nin, nout;
    struct fuse_step step[LED_STEPS];
    struct sample sample[LED_STEPS];
    struct tensor more[LED_MORE], first; /* more: operands a, b, c and n; first: the result of the lead */
    struct tensor got[LED_OUT], want[LED_OUT];
    struct cuda_source alone, then;
    /* operands of `then`, the second of the two kernels, as indices of operands of the chain; the first is -1, the
     * lead's result */
    int nthen, from[LED_IN];
    int nlast, last[LED_OUT]; /* results that the second kernel writes, as indices of steps */
};

/* ---- building ---- */

/* Makes the operands a, b, c and n of a chain. Operand a has the result's dtype or bf16, and memory layout m. n is a
 * number. */
static inline void
led_operands(struct epilogue *l, const struct call *c, enum memory m, uint64_t *random)
{
    const struct type *y = &c->out[0];
    const int64_t *last = y->dim + y->ndim - 1;
    struct type type[LED_MORE] = {type_of(m % 2 ? DT_BF16 : (enum dtype)y->dtype, y->ndim, y->dim),
                                  type_of((enum dtype)y->dtype, 1, last),
                                  type_of(DT_F32, y->ndim, y->dim),
                                  {.dtype = DT_F64, .weak = 1}};
    type[2].dim[y->ndim - 1] = 1;
    for (int k = 0; k < LED_MORE; k++) {
        struct view *v = &l->more[k].view;
        make_tensor(&l->more[k], &type[k], m);
        for (int64_t i = 0; i < view_numel(v); i++) {
            double x = (double)(next_random(random) >> 11) * 0x1p-51 - 2;
            if (strange && !type[k].weak && next_random(random) % 5 == 0) x = strange_value(next_random(random));
            elem_set_f(v->dtype, v->data, address_of(v, i), x);
        }
    }
}

/* Appends an operand's text: "f32{4,6} ", "#0.5 ". */
static inline void
led_print(char *text, size_t room, const struct type *t)
{
    size_t n = strlen(text);
    n += (size_t)snprintf(text + n, room - n, t->weak ? "#0.5" : "%s{", dtype_text((enum dtype)t->dtype));
    for (int d = 0; d < t->ndim; d++)
        n += (size_t)snprintf(text + n, room - n, "%lld%s", (long long)t->dim[d], d + 1 < t->ndim ? "," : "");
    snprintf(text + n, room - n, t->weak ? " " : "} ");
}

static inline void
led_lead(struct epilogue *l, int at, const struct call *c)
{
    struct fuse_step *s = &l->step[l->lead = at];
    s->call = c;
    for (int k = 0; k < c->nin; k++) s->arg[k].index = c->in[k].dtype == DT_NONE ? -1 : k;
}

static inline bool
led_step(struct epilogue *l, struct arena *a, int at, int nlead)
{
    const struct led_step *s = &l->chain->step[at];
    struct sample *to = &l->sample[at];
    char text[256] = "";
    struct rule rule;
    for (int k = 0; s->args[k]; k++) {
        bool step = s->args[k] < 'a';
        int i = step ? s->args[k] - '0' : s->args[k] == 'n' ? 3 : s->args[k] - 'a';
        struct type more = type_of((enum dtype)l->more[i % LED_MORE].view.dtype, l->more[i % LED_MORE].view.ndim,
                                   l->more[i % LED_MORE].view.dim);
        more.weak = i == 3;
        led_print(text, sizeof text, step ? &l->step[i].call->out[0] : &more);
        l->step[at].arg[k] = (struct fuse_arg){step, step ? i : nlead + i};
    }
    strcat(text, s->attr);
    if (!sample_read(op_find(s->op), text, to) || call_infer(a, &to->call, &rule)) return false;
    l->step[at].call = &to->call;
    return true;
}

/* Allocates the results of the chain, in the order of steps. */
static inline void
led_results(struct epilogue *l)
{
    for (int i = 0; i < l->chain->nstep; i++) {
        const struct call *c = l->step[i].call;
        l->step[i].out = -1;
        for (int k = 0; k < c->nout; k++) {
            if (k == 0 && !l->chain->step[i].shown) continue;
            if (k == 0) l->step[i].out = l->nout;
            if (k == 1) l->step[i].others = l->nout;
            make_tensor(&l->got[l->nout], &c->out[k], DENSE);
            make_tensor(&l->want[l->nout++], &c->out[k], DENSE);
        }
    }
}

static inline int
led_views(const struct epilogue *l, const struct trial *t, struct view *in, struct view *out)
{
    for (int i = 0; i < l->nin; i++)
        in[i] = i < l->nin - LED_MORE ? t->in[i].view : l->more[i - l->nin + LED_MORE].view;
    for (int i = 0; i < l->nout; i++) out[i] = l->want[i].view;
    return l->nout;
}

/* Returns the index among the second kernel's operands of the chain's operand i. Adds the operand if it is
 * missing. */
static inline int
led_from(struct epilogue *l, int i)
{
    int k = 1;
    while (k < l->nthen && l->from[k] != i) k++;
    l->from[k] = i;
    l->nthen = MAX(l->nthen, k + 1);
    return k;
}

/* Generates the chain as two kernels. `alone` computes the lead's call. `then` computes the other steps; its
 * operand 0 is the lead's result. */
static inline bool
led_apart(struct epilogue *l, struct trial *t)
{
    struct view in[LED_IN], out[LED_OUT], made[OP_OUT], then[LED_IN], last[LED_OUT];
    struct fuse_step step[LED_STEPS];
    const struct call *c = l->step[l->lead].call;
    led_views(l, t, in, out);
    made[0] = l->first.view;
    for (int k = 1; k < c->nout; k++) made[k] = out[l->step[l->lead].others + k - 1];
    struct kcall k = {.call = c, .in = in, .out = made};
    if (cuda_source_call(&t->arena, &k, &l->alone)) return false;
    int n = 0;
    for (int i = 0; i < l->chain->nstep; i++) {
        if (i == l->lead) continue;
        struct fuse_step *s = &step[n++];
        *s = l->step[i];
        if (s->out >= 0) last[l->nlast] = out[s->out], l->last[l->nlast] = s->out, s->out = l->nlast++;
        for (int a = 0; a < s->call->nin; a++) {
            struct fuse_arg *arg = &s->arg[a];
            if (arg->step && arg->index == l->lead)
                *arg = (struct fuse_arg){false, 0};
            else if (arg->step)
                arg->index -= arg->index > l->lead;
            else
                arg->index = led_from(l, arg->index);
        }
    }
    for (int i = 0; i < l->nthen; i++) then[i] = i ? in[l->from[i]] : l->first.view;
    return !cuda_source_chain(&t->arena, -1, n, step, l->nthen, then, l->nlast, last, &l->then);
}

/* Builds a chain on a trial's call. Returns false if its types cannot be inferred. Sets *one to true if the whole
 * chain can be generated as one kernel. */
static inline bool
led_open(struct epilogue *l, const struct led_chain *chain, struct trial *t, enum memory m, uint64_t seed, bool *one,
         struct cuda_source *source)
{
    struct view in[LED_IN], out[LED_OUT];
    const struct call *c = &t->sample.call;
    *l = (struct epilogue){.chain = chain, .nin = c->nin + LED_MORE, .nthen = 1};
    led_operands(l, c, m, &seed);
    make_tensor(&l->first, &c->out[0], DENSE);
    for (int i = 0; i < chain->nstep; i++)
        if (!chain->step[i].op) led_lead(l, i, c);
    for (int i = 0; i < chain->nstep; i++)
        if (chain->step[i].op && !led_step(l, &t->arena, i, c->nin)) return false;
    led_results(l);
    led_views(l, t, in, out);
    *one = !cuda_source_chain(&t->arena, l->lead, chain->nstep, l->step, l->nin, in, l->nout, out, source);
    return led_apart(l, t);
}

#endif
