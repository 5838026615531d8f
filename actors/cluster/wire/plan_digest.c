/* plan_digest.c - computes digests of plans field by field, because the padding of structs is undefined. */
#include "actors/cluster/wire/plan_digest.h"

#include "runtime/data/hash.h"

#include <string.h>

static void
digest_program_text(struct digest *h, const char *text)
{
    for (; *text; text++) digest_add(h, (unsigned char)*text);
    digest_add(h, 0x100);
}

static void
digest_where(struct digest *h, const struct where *w)
{
    digest_add(h, w->kind);
    digest_add(h, (uint64_t)w->index);
    digest_add(h, (uint64_t)w->offset);
    digest_add(h, (uint64_t)w->stride);
    digest_add(h, (uint64_t)w->nact_offset);
    for (int32_t i = 0; i < w->nact_offset; i++) digest_add(h, (uint64_t)w->berth[i]);
}

static void
add_out(struct digest *h, const struct out_port *o)
{
    digest_add(h, (uint64_t)o->control << 1 | o->once);
    digest_add(h, (uint64_t)o->nreg);
    digest_add(h, (uint64_t)o->every);
    digest_add(h, (uint64_t)o->bytes);
    digest_where(h, &o->where);
    for (int32_t f = 0; f < o->nfan; f++) {
        digest_add(h, (uint64_t)o->fan[f].thread);
        digest_add(h, (uint64_t)o->fan[f].nreader);
    }
}

static void
add_in(struct digest *h, const struct in_port *in)
{
    digest_add(h, (uint64_t)in->task);
    digest_add(h, (uint64_t)in->out);
    digest_add(h, (uint64_t)in->hold);
    digest_add(h, (uint64_t)in->need);
    digest_add(h, (uint64_t)in->fan);
}

static void
digest_arg(struct digest *h, const struct arg *a)
{
    digest_add(h, a->kind);
    digest_add(h, (uint64_t)a->index);
    digest_add(h, (uint64_t)a->skip);
    digest_add(h, (uint64_t)a->piece_stride);
}

static void
add_task(struct digest *h, const struct task *t)
{
    digest_program_text(h, t->kind->name);
    digest_add(h, (uint64_t)t->thread << 32 | (uint64_t)t->turn << 8 | t->phase);
    digest_add(h, (uint64_t)t->lead);
    digest_add(h, (uint64_t)t->device);
    digest_add(h, (uint64_t)t->pos);
    digest_add(h, (uint64_t)t->nact);
    digest_add(h, t->priority);
    if (t->exec) digest_program_text(h, exec_variant(t->exec));
    if (t->exec) digest_add(h, exec_scratch(t->exec));
    for (int32_t i = 0; i < t->nin; i++) add_in(h, &t->in[i]);
    for (int32_t k = 0; k < t->nout; k++) add_out(h, &t->out[k]);
    for (int32_t i = 0; i < t->narg; i++) digest_arg(h, &t->arg[i]);
    if (!(t->kind->flags & (KIND_COLLECTS | KIND_P2P))) return;
    digest_add(h, t->move.member->in->name);
    digest_add(h, (uint64_t)t->move.member->comm_rank);
}

void
plan_digest(const struct plan *p, unsigned char out[16])
{
    struct digest h = DIGEST_BEGIN;
    digest_add(&h, (uint64_t)p->nthread);
    digest_add(&h, (uint64_t)p->nshare);
    digest_add(&h, (uint64_t)p->ntask);
    digest_add(&h, (uint64_t)p->pieces);
    digest_add(&h, (uint64_t)p->group << 32 | (uint32_t)p->round);
    for (int32_t i = 0; i < p->ndevice; i++) {
        digest_add(&h, (uint64_t)p->device[i].kind << 32 | (uint32_t)p->device[i].rank);
        digest_add(&h, p->device[i].thread);
        digest_add(&h, (uint64_t)p->device[i].arena_bytes);
        digest_add(&h, (uint64_t)p->device[i].scratch);
    }
    for (int32_t i = 0; i < p->ntask; i++) add_task(&h, &p->task[i]);
    memcpy(out, &h.a, 8);
    memcpy(out + 8, &h.b, 8);
}

uint64_t
program_name(const void *bytes, size_t n)
{
    struct digest d = DIGEST_BEGIN;
    digest_bytes(&d, bytes, n);
    uint64_t name = hash_number(d.a, d.b);
    return name ? name : 1;
}
