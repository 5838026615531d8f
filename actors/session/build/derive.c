/* derive.c - derives the types and layouts of a call's results, and remembers them.
 *
 * Types follow from the operator's dimension rule, layouts from the cheapest signature. Types and layouts of results
 * are pure functions of operator, attributes, operand types and layouts. So tracing a training loop again finds all
 * derivations in the memo. */
#include "actors/plan/outline/estimate.h"
#include "actors/session/build/derive.h"
#include "actors/plan/assign/price.h"
#include "actors/session/build/build_node.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"

#include "boxing/bytes.h"
#include "sbp/choose.h"
#include "sbp/strategy.h"
#include "sbp/infer.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 4096 };

/* ---- remembering derivations ---- */

struct key {
    size_t n;
    bool full; /* the key is too long for the memo */
    unsigned char byte[KEY_MAX];
};

/* Never inlined: gcc copies the few dimensions of a type by "rep movsq", which takes 30 ns, if it knows a maximum. */
static void __attribute__((noinline)) key_add(struct key *k, const void *p, size_t n)
{
    if (k->n + n > KEY_MAX) {
        k->full = true;
        return;
    }
    memcpy(k->byte + k->n, p, n);
    k->n += n;
}

static void
key_attr(struct key *k, const struct op *op, const struct attr *attr)
{
    for (int i = 0, n = op_nattr(op); i < n; i++) {
        struct {
            int64_t i;
            double f;
            int32_t n, set;
        } head = {attr[i].i, attr[i].f, attr[i].n, attr[i].set};
        key_add(k, &head, sizeof head);
        key_add(k, attr[i].list, sizeof(int64_t) * (size_t)attr[i].n);
    }
}

static void
key_call(struct key *k, bool planned, const struct op *op, int nin, struct val *const *in, const struct attr *attr)
{
    k->n = 0;
    k->full = false;
    key_add(k, &planned, sizeof planned);
    key_add(k, &op, sizeof op);
    for (int i = 0; i < nin; i++) {
        struct {
            uint8_t dtype, ndim, weak, number, same, pad[3];
            int32_t layout;
        } head = {.same = build_same_as(in, i)};
        if (in[i]) {
            head.dtype = in[i]->type.dtype;
            head.ndim = in[i]->type.ndim;
            head.weak = in[i]->type.weak;
            head.number = in[i]->is_number;
            head.layout = in[i]->layout ? in[i]->layout->id : -1;
        }
        key_add(k, &head, sizeof head);
        if (in[i]) key_add(k, in[i]->type.dim, sizeof(int64_t) * in[i]->type.ndim);
    }
    key_attr(k, op, attr);
}

static struct derived *
derived_find(const struct memo *m, const struct key *k, uint64_t hash)
{
    uint32_t at = 0;
    for (struct derived *d; (d = hash_next(&m->calls, hash, &at));)
        if (d->nkey == k->n && !memcmp(d->key, k->byte, k->n)) return d;
    return NULL;
}

void
memo_free(struct memo *m)
{
    for (int32_t i = 0; i < m->calls.capacity; i++) {
        struct derived *d = m->calls.slot[i].item;
        if (d) free(d->key);
        free(d);
    }
    hash_free(&m->calls);
}

/* Maximum number of entries of the memo; a full memo is cleared. Without the limit, a program with ever new shapes
 * would fill memory. */
enum { MEMO_MOST = 1 << 16 };

static void
derived_put(struct memo *m, const struct key *k, uint64_t hash, const struct derived *made)
{
    if (m->calls.n >= MEMO_MOST) memo_free(m);
    size_t wants = sizeof(made->want[0]) * (size_t)made->nin;
    struct derived *d = must_alloc(sizeof *d + wants);
    *d = *made;
    d->want = (const struct layout **)(void *)(d + 1);
    if (wants) memcpy(d->want, made->want, wants);
    d->nkey = k->n;
    d->key = must_alloc(k->n);
    memcpy(d->key, k->byte, k->n);
    hash_add(&m->calls, hash, d);
}

/* ---- deriving types and layouts ---- */

int64_t
price_move(void *arg, const struct type *t, const struct layout *from, const struct layout *to)
{
    UNUSED(arg);
    return from == to ? 0 : box_bytes(t, from, to);
}

/* Returns the placement that all tensor operands share. */
static int
common_place(const struct call *c, const struct place **out)
{
    int first = -1;
    for (int i = 0; i < c->nin; i++) {
        if (!c->layout[i]) continue;
        if (first < 0) first = i;
        if (c->layout[i]->place == c->layout[first]->place) continue;
        struct str s = {0};
        call_print_operands(c, &s);
        int status =
            fail(E_PLACE,
                 "%s: operands are on different placements: %s; move one with to_global{placement = ..., sbp = ...}",
                 c->op->name, str_text(&s));
        str_free(&s);
        return status;
    }
    if (first < 0) return fail(E_ARG, "%s: at least one operand must be a tensor", c->op->name);
    *out = c->layout[first]->place;
    return 0;
}

/* Finds the cheapest signature that splits the operands as the user's strategy requires. */
static int
choose_as_asked(const struct call_context *ctx, const struct sig_question *q, struct sig_candidate *best)
{
    struct sig_choice all;
    TRY(strategy_check(ctx->strategy, q->call));
    TRY(sig_list_all(&ctx->s->calls.scratch, q, &all));
    for (int k = 0; k < all.ncandidate; k++)
        if (strategy_fits(ctx->strategy, q->call, all.candidate[k].layout)) {
            *best = all.candidate[k];
            return 0;
        }
    return strategy_fail(ctx->strategy, q->call, q->place);
}

/* Predicts the time of a call, ns, including moves of the operands to the given layouts. */
static int64_t
call_time(const struct rille_session *s, const struct call *c, const struct rule *rule,
          const struct layout *const *layout)
{
    const struct assign_prices prices = {.cost = &s->devices.cost};
    double ns = s->devices.rates.act_ns, flops, bytes;
    int64_t sent;
    for (int i = 0; i < c->nin; i++)
        if (c->layout[i]) ns += (double)assign_price(&prices, &c->in[i], c->layout[i], layout[i], false, &sent);
    call_work(c, &flops, &bytes);
    double work = MAX(flops / s->devices.rates.flops_per_ns, bytes / s->devices.rates.bytes_per_ns);
    if (!(c->op->flags & OP_VIEW)) ns += work * sig_share(c, rule, layout);
    return (int64_t)MIN(ns, (double)NET_NEVER);
}

static int
derive(const struct call_context *ctx, struct call *c, struct derived *d)
{
    struct rule rule;
    const struct place *place = NULL;
    TRY(common_place(c, &place));
    TRY(call_infer(&ctx->s->calls.scratch, c, &rule));
    struct sig_candidate best;
    struct sig_question q = {ctx->s->atlas, place, c, &rule, price_move, NULL};
    if (ctx->strategy)
        TRY(choose_as_asked(ctx, &q, &best));
    else
        TRY(sig_choose(&ctx->s->calls.scratch, &q, &best));
    d->bytes = best.bytes;
    d->price = trace_planned(ctx->s) ? call_time(ctx->s, c, &rule, best.layout) : best.bytes;
    for (int k = 0; k < c->nout; k++) {
        d->type[k] = c->out[k];
        d->layout[k] = best.layout[c->nin + k];
    }
    for (int i = 0; i < c->nin; i++) d->want[i] = c->layout[i] ? best.layout[i] : NULL;
    return 0;
}

int
derive_call(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in,
            const struct attr *attr, struct derived *made, const struct derived **out)
{
    struct key key;
    key_call(&key, trace_planned(ctx->s), op, nin, in, attr);
    uint64_t hash = hash_bytes(0, key.byte, key.n);
    *out = key.full || ctx->strategy ? NULL : derived_find(&ctx->s->memo, &key, hash);
    if (*out) return 0;
    struct type result[OP_OUT] = {0};
    struct called c;
    build_called(op, nin, in, attr, &c);
    c.call.out = result;
    made->nin = nin;
    made->nout = c.call.nout;
    TRY(derive(ctx, &c.call, made));
    if (!key.full && !ctx->strategy) derived_put(&ctx->s->memo, &key, hash, made);
    *out = made;
    return 0;
}
