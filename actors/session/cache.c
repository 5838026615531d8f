/* cache.c - plans that were made before, found by the canonical bytes of their program.
 *
 * Hashed, then compared byte by byte. At most PLANS are kept; the one that was
 * used longest ago goes first. */
#include "actors/session/session.h"

#include <stdlib.h>
#include <string.h>

enum { PLANS = 256, SLOTS = 1024 };

static uint64_t
hash_of(const unsigned char *p, size_t n)
{
    uint64_t h = 0x2545f4914f6cdd1dull ^ n;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdull;
        h ^= h >> 31;
    }
    for (; n > 0; p++, n--) h = (h ^ *p) * 0x100000001b3ull;
    return h ^ h >> 29;
}

static void
cached_free(struct cached *e)
{
    runner_free(&e->runner);
    free(e->key);
    free(e);
}

void
cache_free(struct cache *c)
{
    for (int32_t i = 0; i < c->room; i++)
        while (c->slot[i]) {
            struct cached *e = c->slot[i];
            c->slot[i] = e->next;
            cached_free(e);
        }
    free(c->slot);
    *c = (struct cache){0};
}

static void
drop_oldest(struct cache *c)
{
    struct cached **oldest = NULL;
    for (int32_t i = 0; i < c->room; i++)
        for (struct cached **e = &c->slot[i]; *e; e = &(*e)->next)
            if (!oldest || (*e)->used < (*oldest)->used) oldest = e;
    struct cached *gone = *oldest;
    *oldest = gone->next;
    cached_free(gone);
    c->n--;
}

static void
cache_put(struct cache *c, uint64_t hash, const struct str *key, struct runner *r)
{
    if (c->room == 0) {
        c->room = SLOTS;
        c->slot = must_alloc(sizeof(*c->slot) * SLOTS);
    }
    if (c->n >= PLANS) drop_oldest(c);
    struct cached *e = must_alloc(sizeof *e);
    *e = (struct cached){.next = c->slot[hash % SLOTS],
                         .hash = hash,
                         .used = ++c->clock,
                         .nkey = key->len,
                         .key = must_alloc(key->len),
                         .runner = r};
    memcpy(e->key, key->text, key->len);
    c->slot[hash % SLOTS] = e;
    c->n++;
}

int
cache_find(struct rille_session *s, struct collection *c, struct runner **out)
{
    collection_key(s, c);
    uint64_t hash = hash_of((const unsigned char *)c->key.text, c->key.len);
    for (struct cached *e = s->cache.room ? s->cache.slot[hash % SLOTS] : NULL; e; e = e->next) {
        if (e->hash != hash || e->nkey != c->key.len || memcmp(e->key, c->key.text, e->nkey)) continue;
        e->used = ++s->cache.clock;
        s->hits++;
        *out = e->runner;
        return 0;
    }
    struct plan *p;
    s->compiles++;
    TRY(plan_compile(collection_program(s, c), s->atlas, &p));
    *out = runner_new(p);
    cache_put(&s->cache, hash, &c->key, *out);
    return 0;
}
