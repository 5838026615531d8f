/* plan_digest.c - a hash over what a plan says, field by field (a struct has bytes between its members that are
 * anything). It finds mistakes - another version of a library, other cores - not forgers: who may send plans has the
 * key. */
#include "actors/cluster/plan_digest.h"

#include <string.h>

struct hash {
    uint64_t a, b;
};

static void
add(struct hash *h, uint64_t v)
{
    h->a = (h->a ^ v) * 0xff51afd7ed558ccdull;
    h->a ^= h->a >> 32;
    h->b = (h->b + v) * 0xc4ceb9fe1a85ec53ull;
    h->b ^= h->b >> 29;
}

static void
add_text(struct hash *h, const char *text)
{
    for (; *text; text++) add(h, (unsigned char)*text);
    add(h, 0x100);
}

static void
add_where(struct hash *h, const struct where *w)
{
    add(h, w->kind);
    add(h, (uint64_t)w->index);
    add(h, (uint64_t)w->offset);
    add(h, (uint64_t)w->stride);
}

static void
add_out(struct hash *h, const struct out_port *o)
{
    add(h, (uint64_t)o->control << 1 | o->once);
    add(h, (uint64_t)o->nreg);
    add(h, (uint64_t)o->every);
    add(h, (uint64_t)o->bytes);
    add_where(h, &o->where);
    for (int32_t f = 0; f < o->nfan; f++) {
        add(h, (uint64_t)o->fan[f].thread);
        add(h, (uint64_t)o->fan[f].nreader);
    }
}

static void
add_in(struct hash *h, const struct in_port *in)
{
    add(h, (uint64_t)in->task);
    add(h, (uint64_t)in->out);
    add(h, (uint64_t)in->hold);
    add(h, (uint64_t)in->need);
    add(h, (uint64_t)in->fan);
}

static void
add_arg(struct hash *h, const struct arg *a)
{
    add(h, a->kind);
    add(h, (uint64_t)a->index);
    add(h, (uint64_t)a->skip);
    add(h, (uint64_t)a->piece_stride);
}

static void
add_task(struct hash *h, const struct task *t)
{
    add_text(h, t->kind->name);
    add(h, (uint64_t)t->thread << 32 | t->phase);
    add(h, (uint64_t)t->device);
    add(h, (uint64_t)t->pos);
    add(h, (uint64_t)t->nact);
    add(h, t->priority);
    if (t->exec) add_text(h, exec_variant(t->exec));
    if (t->exec) add(h, exec_scratch(t->exec));
    for (int32_t i = 0; i < t->nin; i++) add_in(h, &t->in[i]);
    for (int32_t k = 0; k < t->nout; k++) add_out(h, &t->out[k]);
    for (int32_t i = 0; i < t->narg; i++) add_arg(h, &t->arg[i]);
}

void
plan_digest(const struct plan *p, unsigned char out[16])
{
    struct hash h = {0x2545f4914f6cdd1dull, 0x9e3779b97f4a7c15ull};
    add(&h, (uint64_t)p->nthread);
    add(&h, (uint64_t)p->nshare);
    add(&h, (uint64_t)p->ntask);
    add(&h, (uint64_t)p->pieces);
    for (int32_t i = 0; i < p->ndevice; i++) {
        add(&h, (uint64_t)p->device[i].kind << 32 | (uint32_t)p->device[i].rank);
        add(&h, p->device[i].thread);
        add(&h, (uint64_t)p->device[i].arena_bytes);
        add(&h, (uint64_t)p->device[i].scratch);
    }
    for (int32_t i = 0; i < p->ntask; i++) add_task(&h, &p->task[i]);
    memcpy(out, &h.a, 8);
    memcpy(out + 8, &h.b, 8);
}
