/* outline.c - makes the outline of a plan: chains, stages, credits, hops and threads per kernel, and the digest of
 * these decisions. */
#include "actors/plan/outline/outline.h"
#include "actors/plan/outline/hops.h"
#include "actors/plan/outline/fusion.h"

#include "actors/plan/model/device_list.h"
#include "actors/plan/model/program_bytes.h"
#include "runtime/data/str.h"

#include <stdlib.h>
#include <string.h>

/* ---- the digest ---- */

/* State of digesting layouts. The digest contains a layout as text where it occurs first, and as its number
 * everywhere else. */
struct layouts {
    struct digest *digest;
    struct arena arena;
    struct hash_table seen; /* by layout id: number of the layout in the order of first occurrence */
    const struct layout **layout;
    int32_t n, capacity;
};

static void
digest_layout_text(struct digest *d, const struct layout *l)
{
    struct str text = {0};
    layout_print(l, &text);
    place_print(l->place, &text);
    digest_bytes(d, str_text(&text), text.len);
    str_free(&text);
}

static void
add_layout(struct layouts *s, const struct layout *l)
{
    uint64_t hash = hash_number(0, (uint64_t)l->id);
    uint32_t at = 0;
    for (const void *found; (found = hash_next(&s->seen, hash, &at));) {
        if (s->layout[hash_index_of(found)] != l) continue;
        digest_add(s->digest, (uint64_t)hash_index_of(found));
        return;
    }
    ARENA_GROW(&s->arena, s->layout, s->n + 1, s->capacity);
    s->layout[s->n] = l;
    hash_add(&s->seen, hash, hash_index(s->n));
    digest_add(s->digest, (uint64_t)s->n++);
    digest_layout_text(s->digest, l);
}

static void
digest_hop(struct layouts *s, const struct hop *h)
{
    struct digest *d = s->digest;
    digest_add(d, (uint64_t)(uint32_t)h->step << 32 | (uint32_t)h->number);
    digest_add(d, (uint64_t)(uint16_t)h->operand << 16 | (uint16_t)h->turn);
    digest_add(d, (uint64_t)h->value.kind << 40 | (uint64_t)h->value.out << 32 | (uint32_t)h->value.index);
    add_layout(s, h->from);
    add_layout(s, h->to);
    digest_bytes(d, h->name, strlen(h->name));
}

static struct moment
node_moment(const struct outline *o, int32_t node)
{
    return (struct moment){o->stages.stage[node], o->stages.phase[node]};
}

/* Digests a step (a node of the program), including the number of registers of each operand. */
static void
digest_step(const struct outline *o, int32_t i, struct digest *d)
{
    const struct prog_node *n = &o->program->node[i];
    digest_add(d, (uint64_t)o->fusion.group[i] << 1 | o->stages.late[i]);
    digest_add(d, (uint64_t)(uint32_t)o->fusion.sum[i]);
    digest_add(d, (uint64_t)o->stages.stage[i] << 8 | o->stages.phase[i]);
    for (int32_t k = 0; k < n->nin && o->program->pieces > 1; k++)
        if (n->in[k].kind == REF_NODE)
            digest_add(d, (uint64_t)outline_credits(o, node_moment(o, n->in[k].index), node_moment(o, i)));
}

void
outline_digest(const struct outline *o, unsigned char out[16])
{
    struct digest d = DIGEST_BEGIN;
    struct layouts layouts = {.digest = &d};
    struct str bytes = {0};
    layouts.seen.arena = &layouts.arena;
    program_write(o->program, &bytes);
    digest_bytes(&d, str_text(&bytes), bytes.len);
    str_free(&bytes);
    for (int32_t i = 0; i < o->program->nnode; i++) digest_step(o, i, &d);
    for (int32_t i = 0; i < o->nhop; i++) digest_hop(&layouts, &o->hop[i]);
    digest_add(&d, (uint64_t)o->nshare);
    arena_fini(&layouts.arena);
    memcpy(out, &d.a, 8);
    memcpy(out + 8, &d.b, 8);
}

/* ---- the complete outline ---- */

int32_t
outline_credits(const struct outline *o, struct moment from, struct moment to)
{
    return stages_credits(o->program, &o->stages, from, to);
}

/* Counts the device threads as if all ran in one process, so that team sizes and results do not depend on the number
 * of processes. */
static int32_t
find_share(const struct program *p)
{
    struct devices s;
    devices_of(p, &s);
    int32_t n = MAX(1, MIN(s.n, p->threads));
    devices_free(&s);
    return n;
}

int
outline_new(const struct program *p, struct atlas *at, struct outline **out)
{
    struct outline *o = *out = must_alloc(sizeof *o);
    o->program = p;
    int status = stages_find(&o->stages, p, &o->arena);
    o->fusion = (struct fusion){.program = p, .stages = &o->stages, .arena = &o->arena};
    fusion_nodes(&o->fusion);
    o->nshare = find_share(p);
    if (!status && at) status = hops_find(o, at);
    if (status)
        outline_free(out);
    else
        outline_digest(o, o->digest);
    return status;
}

void
outline_free(struct outline **op)
{
    struct outline *o = *op;
    if (!o) return;
    arena_fini(&o->arena);
    free(o);
    *op = NULL;
}
