/* train.c - learns a BPE vocabulary: repeatedly makes the most frequent pair of neighbouring tokens a token.
 *
 * Texts are first cut into words; each distinct word is stored once, with its count. Each pair lists the words
 * that contain it, so a merge visits only those words. Of pairs with equal counts, the one with the lower ids is
 * merged, so the same texts produce the same file. */
#include "runtime/text/train.h"
#include "runtime/base/error.h"
#include "runtime/base/stop.h"
#include "runtime/text/characters/alphabet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct word {
    uint32_t first, n; /* first, n: range of the word's tokens in the trainer's list */
    int64_t count;
};

/* A pair of neighbouring tokens, its count, and the words that contain it. */
struct seen {
    uint64_t key; /* the pair: left << 32 | right */
    int64_t count;
    uint32_t *word; /* words that contain the pair, or contained it earlier */
    uint32_t nword, capacity;
    bool fresh; /* true: the current merge has made the pair, and the pair is in the list of such pairs */
};

struct trainer {
    struct splitter *splitter;
    char *pattern;
    int nspecial;
    char **special;
    uint32_t *token; /* tokens of all words, one word after the other */
    uint32_t ntoken, token_capacity;
    struct word *word;
    uint32_t nword, word_capacity;
    uint32_t *slot; /* hash table of words by their bytes; entries are index + 1 */
    uint32_t slot_capacity;
    struct seen *seen; /* hash table of pairs; all bits of `key` set: the slot is free */
    uint32_t nseen, seen_capacity;
    struct arena arena;
    int64_t since; /* work since the last check for cancellation, as bytes of text (WORD) */
    int status;
};

/* work per token of a word that is added to `since`: takes as long as this number of bytes of text */
enum { WORD = 16 };

static const uint64_t no_pair = UINT64_MAX;
static const char who[] = "tokenizer.train"; /* replaces the file name in error texts */

/* Rejects a special token that tokenizer.json could not distinguish from the token of a byte. */
static int
refuse_bytes(int nspecial, const char *const *special)
{
    for (int i = 0; i < nspecial; i++) {
        uint8_t byte[8];
        size_t n;
        if (strlen(special[i]) > 2 || !alphabet_read(special[i], strlen(special[i]), byte, &n) || n != 1) continue;
        return fail(E_ARG, "%s: the special token '%s' is how tokenizer.json spells byte %d; use a longer one, <|%s|>",
                    who, special[i], (int)byte[0], special[i]);
    }
    return 0;
}

struct trainer *
trainer_new(const char *pattern, int nspecial, const char *const *special)
{
    struct trainer *r = must_alloc(sizeof *r);
    r->splitter = splitter_new();
    r->status = splitter_add(r->splitter, who, &(struct split_step){.pattern = pattern ? pattern : split_gpt2});
    if (!r->status) r->status = tokenizer_check_specials(who, nspecial, special);
    if (!r->status) r->status = refuse_bytes(nspecial, special);
    r->pattern = pattern ? arena_strdup(&r->arena, pattern) : NULL;
    r->nspecial = nspecial;
    r->special = ARENA_ARRAY(&r->arena, char *, nspecial + 1);
    for (int i = 0; i < nspecial; i++) r->special[i] = arena_strdup(&r->arena, special[i]);
    return r;
}

void
trainer_free(struct trainer **rp)
{
    struct trainer *r = *rp;
    *rp = NULL;
    if (!r) return;
    for (uint32_t i = 0; i < r->seen_capacity; i++) free(r->seen[i].word);
    splitter_free(&r->splitter);
    free(r->token);
    free(r->word);
    free(r->slot);
    free(r->seen);
    arena_fini(&r->arena);
    free(r);
}

/* ---- cutting texts into words ---- */

static bool
is_same_word(const struct trainer *r, const struct word *w, const uint8_t *bytes, size_t n)
{
    if (w->n != n) return false;
    for (size_t i = 0; i < n; i++)
        if (r->token[w->first + i] != bytes[i]) return false;
    return true;
}

/* Returns the slot of the word with these bytes. If the table lacks the word, returns the free slot for it. */
static uint32_t
word_slot(const struct trainer *r, const uint8_t *bytes, size_t n)
{
    uint32_t i = (uint32_t)XXH3_64bits(bytes, n) & (r->slot_capacity - 1);
    while (r->slot[i] && !is_same_word(r, &r->word[r->slot[i] - 1], bytes, n)) i = (i + 1) & (r->slot_capacity - 1);
    return i;
}

static void
grow_words(struct trainer *r)
{
    if (2 * (r->nword + 1) <= r->slot_capacity) return;
    r->slot_capacity = MAX(4096u, 2 * r->slot_capacity);
    free(r->slot);
    r->slot = must_alloc(sizeof *r->slot * r->slot_capacity);
    uint8_t *bytes = NULL;
    for (uint32_t k = 0; k < r->nword; k++) {
        const struct word *w = &r->word[k];
        bytes = must_realloc(bytes, w->n + 1);
        for (uint32_t i = 0; i < w->n; i++) bytes[i] = (uint8_t)r->token[w->first + i];
        r->slot[word_slot(r, bytes, w->n)] = k + 1;
    }
    free(bytes);
}

static void
train_add_word(void *arg, const uint8_t *bytes, size_t n)
{
    struct trainer *r = arg;
    grow_words(r);
    uint32_t slot = word_slot(r, bytes, n);
    if (r->slot[slot]) {
        r->word[r->slot[slot] - 1].count++;
        return;
    }
    GROW(r->word, r->nword + 1, r->word_capacity);
    GROW(r->token, r->ntoken + n, r->token_capacity);
    r->word[r->nword] = (struct word){r->ntoken, (uint32_t)n, 1};
    r->slot[slot] = ++r->nword;
    for (size_t i = 0; i < n; i++) r->token[r->ntoken++] = bytes[i];
}

/* Returns the next occurrence, from p on, of special token k; `end`: there is none. The result is cached in next[k]. */
static const uint8_t *
next_special_from(const struct trainer *r, const uint8_t **next, int k, const uint8_t *p, const uint8_t *end)
{
    if (next[k] && next[k] >= p) return next[k];
    size_t n = strlen(r->special[k]);
    while ((p = memchr(p, r->special[k][0], (size_t)(end - p))) &&
           (n > (size_t)(end - p) || memcmp(p, r->special[k], n)))
        if (++p == end) break;
    return next[k] = p ? p : end;
}

/* Finds the next special token, and sets *size to its length in bytes. Special tokens are not part of words. */
static const uint8_t *
find_special(const struct trainer *r, const uint8_t **next, const uint8_t *p, const uint8_t *end, size_t *size)
{
    const uint8_t *first = end;
    *size = 0;
    for (int k = 0; k < r->nspecial; k++) {
        const uint8_t *at = next_special_from(r, next, k, p, end);
        if (at >= first) continue;
        first = at;
        *size = strlen(r->special[k]);
    }
    return first;
}

static int
train_add_text(struct trainer *r, const uint8_t **next, const uint8_t *p, const uint8_t *end)
{
    for (;;) {
        size_t size;
        const uint8_t *special = find_special(r, next, p, end, &size);
        TRY(splitter_run(r->splitter, p, (size_t)(special - p), 0, train_add_word, r));
        if (special == end) return 0;
        p = special + size;
        TRY(stop_caller_after(&r->since, (int64_t)size * (1 + r->nspecial)));
    }
}

/* Returns the error that has made the trainer unusable: an invalid pattern, or an interrupted call. */
static int
trainer_status(const struct trainer *r)
{
    return r->status == E_CANCEL ? fail(E_STATE, "tokenizer.train: training was interrupted; start again") : r->status;
}

int
trainer_add(struct trainer *r, const void *text, size_t n)
{
    TRY(trainer_status(r));
    if (n > UINT32_MAX / 2 - r->ntoken)
        return fail(E_ARG, "tokenizer.train: the strings must not be longer than 2 GiB together");
    const uint8_t **next = must_alloc(sizeof *next * (size_t)(r->nspecial + 1));
    r->status = train_add_text(r, next, text, (const uint8_t *)text + n);
    free(next);
    return r->status;
}

/* ---- counting pairs of tokens ---- */

static uint32_t
seen_slot(const struct trainer *r, uint64_t key)
{
    uint32_t i = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (r->seen_capacity - 1);
    while (r->seen[i].key != no_pair && r->seen[i].key != key) i = (i + 1) & (r->seen_capacity - 1);
    return i;
}

static void
grow_seen(struct trainer *r)
{
    if (2 * (r->nseen + 1) <= r->seen_capacity) return;
    struct seen *old = r->seen;
    uint32_t capacity = r->seen_capacity;
    r->seen_capacity = MAX(4096u, 2 * capacity);
    r->seen = must_alloc(sizeof *r->seen * r->seen_capacity);
    for (uint32_t i = 0; i < r->seen_capacity; i++) r->seen[i].key = no_pair;
    for (uint32_t i = 0; i < capacity; i++)
        if (old[i].key != no_pair) r->seen[seen_slot(r, old[i].key)] = old[i];
    free(old);
}

static struct seen *
seen_of(struct trainer *r, uint64_t key)
{
    grow_seen(r);
    struct seen *s = &r->seen[seen_slot(r, key)];
    if (s->key == no_pair) {
        *s = (struct seen){.key = key};
        r->nseen++;
    }
    return s;
}

static void
note_word(struct seen *s, uint32_t w)
{
    if (s->nword && s->word[s->nword - 1] == w) return;
    GROW(s->word, s->nword + 1, s->capacity);
    s->word[s->nword++] = w;
}

static uint64_t
pair_of(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

static void
count_word(struct trainer *r, uint32_t w)
{
    const struct word *word = &r->word[w];
    const uint32_t *token = r->token + word->first;
    for (uint32_t i = 0; i + 1 < word->n; i++) {
        struct seen *s = seen_of(r, pair_of(token[i], token[i + 1]));
        s->count += word->count;
        note_word(s, w);
    }
}

/* ---- finding the most frequent pair, by a heap of pairs and counts: an entry whose count has changed is pushed
 * again ---- */

struct claim {
    int64_t count;
    uint64_t key;
};
struct claims {
    struct claim *list;
    size_t n, capacity;
};

static bool
claim_before(struct claim a, struct claim b)
{
    return a.count != b.count ? a.count > b.count : a.key < b.key;
}

static void
claim_push(struct claims *c, struct claim x)
{
    GROW(c->list, c->n + 1, c->capacity);
    size_t i = c->n++;
    for (; i && claim_before(x, c->list[(i - 1) / 2]); i = (i - 1) / 2) c->list[i] = c->list[(i - 1) / 2];
    c->list[i] = x;
}

static struct claim
claim_pop(struct claims *c)
{
    struct claim top = c->list[0], last = c->list[--c->n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < c->n; i = k) {
        if (k + 1 < c->n && claim_before(c->list[k + 1], c->list[k])) k++;
        if (!claim_before(c->list[k], last)) break;
        c->list[i] = c->list[k];
    }
    c->list[i] = last;
    return top;
}

/* Sets *key to the most frequent pair. Returns false if no pair is left. */
static bool
most_frequent(struct trainer *r, struct claims *c, uint64_t *key)
{
    while (c->n) {
        struct claim top = claim_pop(c);
        int64_t now = r->seen[seen_slot(r, top.key)].count;
        if (now < 1) continue;
        if (now == top.count) {
            *key = top.key;
            return true;
        }
        claim_push(c, (struct claim){now, top.key});
    }
    return false;
}

/* The pairs that the current merge has made, without repetition. They enter the heap when the merge is complete in
 * all words. */
struct made {
    uint64_t *list;
    size_t n, capacity;
};

static void
lose_pair(struct trainer *r, uint32_t left, uint32_t right, const struct word *w)
{
    seen_of(r, pair_of(left, right))->count -= w->count;
}

static void
gain_pair(struct trainer *r, uint32_t left, uint32_t right, uint32_t w, struct made *made)
{
    struct seen *s = seen_of(r, pair_of(left, right));
    s->count += r->word[w].count;
    note_word(s, w);
    if (s->fresh) return;
    s->fresh = true;
    GROW(made->list, made->n + 1, made->capacity);
    made->list[made->n++] = s->key;
}

/* Replaces the neighbouring tokens left and right by token id in word w. Updates the counts of this pair, and of the
 * pairs that its tokens form with their other neighbours. */
static void
join_word(struct trainer *r, uint32_t w, uint32_t left, uint32_t right, uint32_t id, struct made *made)
{
    struct word *word = &r->word[w];
    uint32_t *token = r->token + word->first, n = 0;
    for (uint32_t i = 0; i < word->n; n++) {
        if (token[i] != left || i + 1 == word->n || token[i + 1] != right) {
            token[n] = token[i++];
            continue;
        }
        i += 2;
        lose_pair(r, left, right, word);
        if (n > 0) {
            lose_pair(r, token[n - 1], left, word);
            gain_pair(r, token[n - 1], id, w, made);
        }
        if (i < word->n) {
            lose_pair(r, right, token[i], word);
            gain_pair(r, id, token[i], w, made);
        }
        token[n] = id;
    }
    word->n = n;
}

/* Replaces the pair by id in each word that contains it. New pairs enter the heap after the last word, with their
 * final counts. */
static int
join_words(struct trainer *r, struct claims *c, struct made *made, uint64_t key, uint32_t id)
{
    struct seen *s = seen_of(r, key), taken = *s;
    int status = 0;
    s->word = NULL;
    s->nword = s->capacity = 0;
    made->n = 0;
    for (uint32_t k = 0; k < taken.nword && !status; k++) {
        join_word(r, taken.word[k], (uint32_t)(key >> 32), (uint32_t)key, id, made);
        status = stop_caller_after(&r->since, WORD * (int64_t)r->word[taken.word[k]].n);
    }
    free(taken.word);
    for (size_t k = 0; k < made->n; k++) {
        s = seen_of(r, made->list[k]);
        s->fresh = false;
        if (s->count > 0) claim_push(c, (struct claim){s->count, s->key});
    }
    return status ? status : stop_caller_after(&r->since, WORD * (int64_t)made->n);
}

/* ---- making the vocabulary ---- */

/* Returns the token that the pair becomes: a new token, or the token that an earlier merge made with the same
 * bytes. */
static uint32_t
add_join(struct tokenizer *t, uint64_t key, uint32_t id)
{
    const struct bpe_token *left = &t->bpe.token[key >> 32], *right = &t->bpe.token[key & UINT32_MAX];
    uint8_t *bytes = must_realloc(NULL, left->n + right->n + 1);
    memcpy(bytes, left->bytes, left->n);
    memcpy(bytes + left->n, right->bytes, right->n);
    uint32_t found = bpe_find(&t->bpe, bytes, left->n + right->n);
    if (found != NO_TOKEN)
        id = found;
    else
        bpe_add(&t->bpe, id, bytes, left->n + right->n, true);
    tokenizer_join(t, (uint32_t)(key >> 32), (uint32_t)key, id);
    free(bytes);
    return id;
}

static int
learn(struct trainer *r, struct tokenizer *t, uint32_t size)
{
    struct claims c = {0};
    struct made made = {0};
    uint64_t key;
    int status = 0;
    for (uint32_t w = 0; w < r->nword && !status; w++) {
        count_word(r, w);
        status = stop_caller_after(&r->since, WORD * (int64_t)r->word[w].n);
    }
    for (uint32_t i = 0; i < r->seen_capacity; i++)
        if (r->seen[i].key != no_pair) claim_push(&c, (struct claim){r->seen[i].count, r->seen[i].key});
    while (!status && t->bpe.ntoken < size && most_frequent(r, &c, &key))
        status = join_words(r, &c, &made, key, add_join(t, key, t->bpe.ntoken));
    free(c.list);
    free(made.list);
    return status;
}

static bool
is_special(const struct trainer *r, const char *text)
{
    for (int i = 0; i < r->nspecial; i++)
        if (!strcmp(r->special[i], text)) return true;
    return false;
}

/* Reserves the remaining ids if the texts have no more pairs, so that the vocabulary has the requested size. */
static int
reserve(const struct trainer *r, struct tokenizer *t, uint32_t size)
{
    for (int i = 0; t->bpe.ntoken < size; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "<|reserved_%d|>", i);
        if (is_special(r, text)) continue;
        TRY(tokenizer_special(t, who, &(struct special){text, (size_t)n, t->bpe.ntoken, .control = true}));
    }
    return 0;
}

int
trainer_end(struct trainer *r, uint32_t size, struct tokenizer **out)
{
    *out = NULL;
    TRY(trainer_status(r));
    if (size < 256u + (uint32_t)r->nspecial)
        return fail(E_ARG, "tokenizer.train: size must be at least %d (256 bytes and %d special tokens), found %u",
                    256 + r->nspecial, r->nspecial, (unsigned)size);
    struct tokenizer *t = tokenizer_new();
    for (int i = 0; i < 256; i++) bpe_add(&t->bpe, (uint32_t)i, &(uint8_t){(uint8_t)i}, 1, true);
    int status = r->status = learn(r, t, size - (uint32_t)r->nspecial);
    if (!status) status = tokenizer_cut(t, who, r->pattern, DIALECT_OWN);
    if (!status) status = reserve(r, t, size - (uint32_t)r->nspecial);
    for (int i = 0; !status && i < r->nspecial; i++)
        status = tokenizer_special(
            t, who, &(struct special){r->special[i], strlen(r->special[i]), t->bpe.ntoken, .control = true});
    if (status) tokenizer_free(&t);
    *out = t;
    return status;
}
