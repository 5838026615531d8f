/* outline.c - what a program's plan will be: chains, stages, ways of moves, and the digest of all that. */
#include "actors/plan/outline.h"

#include "runtime/error.h"
#include "runtime/str.h"

#include <stdlib.h>
#include <string.h>

/* ---- ways ---- */

static uint64_t
hash_of(const struct type *t, const struct layout *from, const struct layout *to)
{
    uint64_t h = hash_number((uint64_t)from->id << 32 | (uint32_t)to->id, (uint64_t)t->dtype << 8 | t->ndim);
    for (int d = 0; d < t->ndim; d++) h = hash_number(h, (uint64_t)t->dim[d]);
    return h;
}

static struct way *
find_way(const struct outline *o, uint64_t hash, const struct type *t, const struct layout *from,
         const struct layout *to)
{
    uint32_t at = 0;
    for (const void *found; (found = hash_next(&o->ways, hash, &at));) {
        struct way *w = &o->way[hash_index_of(found)];
        if (w->from == from && w->to == to && type_equal(&w->type, t)) return w;
    }
    return NULL;
}

const struct box_candidate *
outline_way(const struct outline *o, const struct type *t, const struct layout *from, const struct layout *to)
{
    const struct way *w = find_way(o, hash_of(t, from, to), t, from, to);
    assert(w);
    return w->best;
}

/* ---- the digest ---- */

static void
add_layout(struct digest *s, const struct layout *l)
{
    struct str text = {0};
    layout_print(l, &text);
    place_print(l->place, &text);
    digest_bytes(s, str_text(&text), text.len);
    str_free(&text);
}

static void
digest(struct outline *o)
{
    struct digest s = DIGEST_BEGIN;
    struct str bytes = {0};
    program_write(o->program, &bytes);
    digest_bytes(&s, str_text(&bytes), bytes.len);
    str_free(&bytes);
    for (int32_t i = 0; i < o->program->nnode; i++) {
        digest_add(&s, (uint64_t)o->fusion.group[i]);
        digest_add(&s, (uint64_t)o->stages.stage[i] << 8 | o->stages.phase[i]);
    }
    for (int32_t i = 0; i < o->nway; i++) {
        digest_add(&s, (uint64_t)o->way[i].best->nhop);
        for (int k = 0; k < o->way[i].best->nhop; k++) add_layout(&s, o->way[i].best->hop[k].to);
    }
    memcpy(o->digest, &s.a, 8);
    memcpy(o->digest + 8, &s.b, 8);
}

/* ---- what comes after the last piece ---- */

/* Sums over the pieces, updates (what they replace is read for each piece), and what is computed from either. */
static void
find_late(struct outline *o)
{
    const struct program *p = o->program;
    bool *update = ARENA_ARRAY(&o->arena, bool, p->nnode + 1);
    o->late = ARENA_ARRAY(&o->arena, bool, p->nnode + 1);
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].overwrites_leaf >= 0 && p->root[k].ref.kind == REF_NODE) update[p->root[k].ref.index] = true;
    for (int32_t i = 0; i < p->nnode && p->pieces > 1; i++) {
        const struct prog_node *n = &p->node[i];
        o->late[i] = n->accumulate || update[i];
        for (int32_t k = 0; k < n->nin; k++)
            if (n->in[k].kind == REF_NODE) o->late[i] = o->late[i] || o->late[n->in[k].index];
    }
}

/* ---- all of it ---- */

static int
want(struct outline *o, struct atlas *at, struct ref r, const struct layout *to)
{
    const struct layout *from = ref_layout(o->program, r);
    struct type t = ref_type(o->program, r);
    struct box_path *path;
    if (from == to) return 0;
    uint64_t hash = hash_of(&t, from, to);
    if (find_way(o, hash, &t, from, to)) return 0;
    TRY(box_path(&o->arena, at, &t, from, to, &o->program->cost, &path));
    ARENA_GROW(&o->arena, o->way, o->nway + 1, o->way_capacity);
    o->way[o->nway] = (struct way){.type = t, .from = from, .to = to, .best = &path->candidate[0]};
    hash_add(&o->ways, hash, hash_index(o->nway++));
    return 0;
}

static int
find_ways(struct outline *o, struct atlas *at)
{
    const struct program *p = o->program;
    for (int32_t i = 0; i < p->nnode; i++) {
        const struct prog_node *n = &p->node[i];
        for (int32_t k = 0; k < n->nin; k++) {
            if (n->in[k].kind != REF_NODE && n->in[k].kind != REF_LEAF) continue;
            int status = want(o, at, n->in[k], n->op->flags & OP_MOVE ? n->layout[0] : n->want[k]);
            if (!status) continue;
            if (n->line.file) err_note("%s:%d", n->line.file, n->line.line);
            return status;
        }
    }
    return 0;
}

int
outline_new(const struct program *p, struct atlas *at, struct outline **out)
{
    struct outline *o = *out = must_alloc(sizeof *o);
    o->program = p;
    o->ways.arena = &o->arena;
    stages_find(&o->stages, p, &o->arena);
    o->fusion = (struct fusion){.program = p, .arena = &o->arena};
    fuse_nodes(&o->fusion);
    find_late(o);
    int status = find_ways(o, at);
    if (status)
        outline_free(out);
    else
        digest(o);
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
