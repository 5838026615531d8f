/* cache.c - plans that were made before, found by the canonical bytes of their program.
 *
 * Hashed, then compared byte by byte. They take MOST_BYTES at most (about: what
 * oneDNN keeps is estimated); the one that was used longest ago goes first, the
 * last one made stays whatever it takes. */
#include "actors/session/session.h"

#include <stdlib.h>
#include <string.h>

static const size_t MOST_BYTES = (size_t)64 << 20;

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

/* Out of the list by use. */
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
    free(c->slot);
    *c = (struct cache){0};
}

static void
drop_oldest(struct cache *c)
{
    struct cached *e = c->oldest, **at = &c->slot[e->hash % (uint64_t)c->capacity];
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    unlist(c, e);
    c->bytes -= e->bytes;
    c->n--;
    cached_free(e);
}

/* As many chains as plans. */
static void
make_capacity(struct cache *c)
{
    if (c->n < c->capacity) return;
    int32_t capacity = c->capacity ? 2 * c->capacity : 256;
    struct cached **slot = must_alloc(sizeof *slot * (size_t)capacity);
    for (struct cached *e = c->latest; e; e = e->after) {
        e->next = slot[e->hash % (uint64_t)capacity];
        slot[e->hash % (uint64_t)capacity] = e;
    }
    free(c->slot);
    c->slot = slot;
    c->capacity = capacity;
}

static void
cache_put(struct cache *c, uint64_t hash, const struct str *key, struct runner *r)
{
    make_capacity(c);
    struct cached *e = must_alloc(sizeof *e);
    *e = (struct cached){.next = c->slot[hash % (uint64_t)c->capacity],
                         .hash = hash,
                         .nkey = key->len,
                         .key = must_alloc(key->len),
                         .bytes = sizeof *e + key->len + runner_bytes(r),
                         .runner = r};
    memcpy(e->key, key->text, key->len);
    c->slot[hash % (uint64_t)c->capacity] = e;
    list_first(c, e);
    c->bytes += e->bytes;
    c->n++;
    while (c->bytes > MOST_BYTES && c->n > 1) drop_oldest(c);
}

int
cache_find(struct rille_session *s, struct collection *c, struct runner **out)
{
    collection_key(s, c);
    uint64_t hash = hash_of((const unsigned char *)c->key.text, c->key.len);
    uint64_t capacity = (uint64_t)s->cache.capacity;
    for (struct cached *e = capacity ? s->cache.slot[hash % capacity] : NULL; e; e = e->next) {
        if (e->hash != hash || e->nkey != c->key.len || memcmp(e->key, c->key.text, e->nkey)) continue;
        unlist(&s->cache, e);
        list_first(&s->cache, e);
        s->hits++;
        *out = e->runner;
        return 0;
    }
    struct plan *p;
    s->compiles++;
    TRY(plan_compile(collection_program(s, c), s->atlas, &p));
    *out = runner_new(s, p);
    cache_put(&s->cache, hash, &c->key, *out);
    return 0;
}
