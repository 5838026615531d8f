/* certify.c - writes a net, a choice and a proof as text. */
#include "sbp/solve/certify.h"

#include "runtime/data/hash.h"

#include <stdlib.h>

/* A list that was written before, and its length. The length is needed because one array of zeros may serve as two
 * lists of different lengths. */
struct listed {
    struct listed *next;
    const void *at;
    int64_t n;
    int32_t id;
};
enum { LISTED = 4096 };
struct writer {
    struct str *out;
    struct arena arena;
    struct listed *listed[LISTED];
    int32_t nlist;
};

static bool
is_writer_listed(struct writer *w, const void *at, int64_t n, int32_t *id)
{
    struct listed **head = &w->listed[((uintptr_t)at >> 4 ^ (uintptr_t)at >> 16) % LISTED];
    for (struct listed *l = *head; l; l = l->next)
        if (l->at == at && l->n == n) {
            *id = l->id;
            return true;
        }
    struct listed *l = ARENA_NEW(&w->arena, struct listed);
    *l = (struct listed){.next = *head, .at = at, .n = n, .id = *id = w->nlist++};
    *head = l;
    return false;
}

static void
print_integer(struct str *out, int64_t x)
{
    if (x >= NET_NEVER)
        str_add(out, " -");
    else
        str_addf(out, " %lld", (long long)x);
}

static int32_t
list64(struct writer *w, const int64_t *x, int64_t n)
{
    int32_t id;
    if (!x) return -1;
    if (is_writer_listed(w, x, n, &id)) return id;
    str_addf(w->out, "list %d %lld", (int)id, (long long)n);
    for (int64_t i = 0; i < n; i++) print_integer(w->out, x[i]);
    str_add(w->out, "\n");
    return id;
}

static int32_t
list16(struct writer *w, const uint16_t *x, int32_t n)
{
    int32_t id;
    if (is_writer_listed(w, x, n, &id)) return id;
    str_addf(w->out, "list %d %d", (int)id, (int)n);
    for (int32_t i = 0; i < n; i++) str_addf(w->out, " %d", (int)x[i]);
    str_add(w->out, "\n");
    return id;
}

static void
id_text(struct str *out, int32_t id)
{
    if (id < 0)
        str_add(out, " -");
    else
        str_addf(out, " %d", (int)id);
}

static void
write_node(struct writer *w, const struct net_node *v)
{
    int32_t cost = list64(w, v->cost, v->ncand), memory = list64(w, v->memory, v->ncand);
    str_addf(w->out, "node %d %d", (int)cost, (int)v->time);
    id_text(w->out, memory);
    str_add(w->out, "\n");
}

static void
write_tensor(struct writer *w, const struct net *n, const struct net_tensor *t)
{
    int32_t form = list16(w, t->form, n->node[t->maker].ncand);
    int32_t prices = t->nuse ? list64(w, t->price, (int64_t)t->nfrom * t->nto) : -1;
    int32_t bytes = list64(w, t->bytes, t->nfrom);
    for (int32_t k = 0; k < t->nuse; k++) list16(w, t->use[k].form, n->node[t->use[k].node].ncand);
    str_addf(w->out, "tensor %d %d %d %d", (int)t->maker, (int)t->nfrom, (int)t->nto, (int)form);
    id_text(w->out, prices);
    id_text(w->out, bytes);
    str_addf(w->out, " %d %d %d", (int)t->born, (int)t->dies, (int)t->nuse);
    for (int32_t k = 0; k < t->nuse; k++)
        str_addf(w->out, " %d %d", (int)t->use[k].node, (int)list16(w, t->use[k].form, n->node[t->use[k].node].ncand));
    str_add(w->out, "\n");
}

static void
write_net(struct writer *w, const struct net *n, int32_t ntime)
{
    str_addf(w->out, "net %d %d %d %lld\n", (int)n->nnode, (int)n->ntensor, (int)ntime, (long long)n->memory_limit);
    for (int32_t i = 0; i < n->nnode; i++) write_node(w, &n->node[i]);
    for (int32_t i = 0; i < n->ntensor; i++) write_tensor(w, n, &n->tensor[i]);
}

void
certify_seal(struct str *out)
{
    struct digest d = DIGEST_BEGIN;
    digest_bytes(&d, str_text(out), out->len);
    str_addf(out, "digest %016llx%016llx\n", (unsigned long long)d.a, (unsigned long long)d.b);
}

void
certify(const struct solved *s, int nwith, const struct certify_with *with, struct str *out)
{
    const struct net *n = s->net;
    struct writer w = {.out = out};
    str_add(out, "rille certificate 2\n");
    for (int i = 0; i < nwith; i++) str_addf(out, "with %s %.17g\n", with[i].name, with[i].value);
    write_net(&w, n, s->ntime);
    for (int32_t t = 0; s->price && t < s->ntime; t++)
        if (s->price[t]) str_addf(out, "price %d %lld\n", (int)t, (long long)s->price[t]);
    str_addf(out, "scale %lld\nchoice", (long long)s->scale);
    for (int32_t i = 0; i < n->nnode; i++) str_addf(out, " %d", (int)s->choice[i]);
    str_addf(out, "\ncost %lld\nbound %lld\n", (long long)s->cost, (long long)s->certified);
    if (s->bound > s->certified) str_addf(out, "searched %lld\n", (long long)s->bound);
    str_add(out, "proof\n");
    str_add(out, str_text(&s->proof));
    str_add(out, "end\n");
    certify_seal(out);
    arena_fini(&w.arena);
}
