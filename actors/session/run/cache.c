/* cache.c - the plan cache: finds plans by the canonical bytes of their program.
 *
 * Keys are hashed, then compared byte by byte. All plans together hold at most MOST_BYTES (approximately, because
 * oneDNN's memory is estimated). The least recently used plan is dropped first; the newest plan stays whatever its
 * size. */
#include "actors/plan/compile.h"
#include "actors/session/run/cache.h"
#include "actors/session/core/session.h"
#include "actors/session/run/collect.h"
#include "actors/session/run/runner.h"

#include <stdlib.h>
#include <string.h>

static const size_t MOST_BYTES = (size_t)64 << 20;

static void
cached_free(struct cached *e)
{
    runner_free(&e->runner);
    free(e->key);
    free(e);
}

/* Removes a plan from the list that is ordered by last use. */
static void
unlist(struct cache *c, struct cached *e)
{
    *(e->before ? &e->before->after : &c->latest) = e->after;
    *(e->after ? &e->after->before : &c->oldest) = e->before;
}

static void
list_first(struct cache *c, struct cached *e)
{
    e->before = NULL;
    e->after = c->latest;
    *(c->latest ? &c->latest->before : &c->oldest) = e;
    c->latest = e;
}

void
cache_free(struct cache *c)
{
    for (struct cached *e = c->latest, *next; e; e = next) {
        next = e->after;
        cached_free(e);
    }
    hash_free(&c->plans);
    *c = (struct cache){0};
}

static void
drop_oldest(struct cache *c)
{
    struct cached *e = c->oldest;
    hash_remove(&c->plans, e->hash, e);
    unlist(c, e);
    c->bytes -= e->bytes;
    cached_free(e);
}

static void
cache_put(struct cache *c, uint64_t hash, const struct str *key, struct runner *r)
{
    struct cached *e = must_alloc(sizeof *e);
    *e = (struct cached){.hash = hash,
                         .nkey = key->len,
                         .key = must_alloc(key->len),
                         .bytes = sizeof *e + key->len + runner_bytes(r),
                         .runner = r};
    memcpy(e->key, key->text, key->len);
    hash_add(&c->plans, hash, e);
    list_first(c, e);
    c->bytes += e->bytes;
    while (c->bytes > MOST_BYTES && c->plans.n > 1) drop_oldest(c);
}

int
cache_find(struct rille_session *s, struct collection *c, struct runner **out)
{
    collection_key(s, c);
    uint64_t hash = hash_bytes(0, c->key.text, c->key.len);
    uint32_t at = 0;
    for (struct cached *e; (e = hash_next(&s->cache.plans, hash, &at));) {
        if (e->nkey != c->key.len || memcmp(e->key, c->key.text, e->nkey)) continue;
        unlist(&s->cache, e);
        list_first(&s->cache, e);
        s->count.hits++;
        *out = e->runner;
        return 0;
    }
    struct plan *p;
    s->count.compiles++;
    TRY(plan_compile(collection_program(s, c), s->atlas, &p));
    *out = runner_new(s, p);
    cache_put(&s->cache, hash, &c->key, *out);
    return 0;
}
