/* tokenizer.c - from text to ids and back. */
#include "runtime/text/tokenizer.h"

#include "runtime/error.h"
#include "runtime/str.h"

#include <stdlib.h>
#include <string.h>

struct tokenizer *
tokenizer_new(void)
{
    struct tokenizer *t = must_alloc(sizeof *t);
    bpe_init(&t->bpe);
    t->splitter = splitter_new();
    return t;
}

void
tokenizer_free(struct tokenizer **tp)
{
    struct tokenizer *t = *tp;
    *tp = NULL;
    if (!t) return;
    splitter_free(&t->splitter);
    free(t->special);
    free(t->join);
    bpe_fini(&t->bpe);
    free(t);
}

static bool
ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

int
tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special, struct tokenizer **out)
{
    struct tokenizer *t = tokenizer_new();
    int status = 0;
    if (ends_in(path, ".tiktoken"))
        status = tokenizer_read_tiktoken(t, path, pattern, nspecial, special);
    else if (pattern || nspecial)
        status = fail(E_ARG, "%s: pattern and special are for .tiktoken files", path);
    else if (ends_in(path, ".json"))
        status = tokenizer_read_json(t, path);
    else
        status = fail(E_IO, "%s: the end of its name tells which format it has: .json or .tiktoken", path);
    if (!status) status = bpe_seal(&t->bpe, path);
    if (status) tokenizer_free(&t);
    *out = t;
    return status;
}

/* ---- what readers add ---- */

int
tokenizer_cut(struct tokenizer *t, const char *name, const char *pattern)
{
    TRY(splitter_add(t->splitter, name, pattern ? pattern : split_gpt2));
    t->pattern[t->npattern++] = pattern ? arena_strdup(&t->bpe.arena, pattern) : NULL;
    return 0;
}

int
tokenizer_special(struct tokenizer *t, const char *name, const char *text, size_t n, uint32_t id, bool control)
{
    if (n == 0) return fail(E_ARG, "%s: a special token is empty", name);
    if (!bpe_add(&t->bpe, id, text, n, false)) return fail(E_ARG, "%s: two tokens have the id %u", name, (unsigned)id);
    GROW(t->special, t->nspecial + 1, t->special_capacity);
    char *own = arena_dup(&t->bpe.arena, text, n);
    int i = t->nspecial++;
    for (; i > 0 && t->special[i - 1].n < n; i--) t->special[i] = t->special[i - 1]; /* the longest first */
    t->special[i] = (struct special){own, n, id, control};
    t->starts[(uint8_t)own[0]] = true;
    return 0;
}

void
tokenizer_join(struct tokenizer *t, uint32_t left, uint32_t right, uint32_t id)
{
    GROW(t->join, t->njoin + 1, t->join_capacity);
    bpe_join(&t->bpe, left, right, t->njoin, id);
    t->join[t->njoin++] = (struct join){left, right, id};
}

/* ---- encoding ---- */

/* The longest special token that the text begins with. */
static const struct special *
special_at(const struct tokenizer *t, const uint8_t *text, size_t n)
{
    for (int i = 0; i < t->nspecial; i++)
        if (t->special[i].n <= n && !memcmp(t->special[i].text, text, t->special[i].n)) return &t->special[i];
    return NULL;
}

static const struct special *
next_special(const struct tokenizer *t, const uint8_t *text, size_t n, size_t *at)
{
    const struct special *s = NULL;
    for (*at = 0; t->nspecial && *at < n; ++*at)
        if (t->starts[text[*at]] && (s = special_at(t, text + *at, n - *at))) return s;
    *at = n;
    return NULL;
}

struct encoding {
    struct bpe *bpe;
    struct ids *out;
};

static void
encode_piece(void *arg, const uint8_t *bytes, size_t n)
{
    struct encoding *e = arg;
    bpe_encode(e->bpe, bytes, n, e->out);
}

static int
encode_plain(struct tokenizer *t, const uint8_t *text, size_t n, struct ids *out)
{
    struct encoding e = {&t->bpe, out};
    if (n == 0) return 0;
    if (!t->prefix_space || text[0] == ' ') return splitter_run(t->splitter, text, n, encode_piece, &e);
    uint8_t *with = must_realloc(NULL, n + 1);
    with[0] = ' ';
    memcpy(with + 1, text, n);
    int status = splitter_run(t->splitter, with, n + 1, encode_piece, &e);
    free(with);
    return status;
}

int
tokenizer_encode(struct tokenizer *t, const void *text, size_t n, struct ids *out)
{
    const uint8_t *p = text;
    for (;;) {
        size_t at;
        const struct special *s = next_special(t, p, n, &at);
        TRY(encode_plain(t, p, at, out));
        if (!s) return 0;
        ids_add(out, s->id);
        p += at + s->n;
        n -= at + s->n;
    }
}

int
tokenizer_decode(const struct tokenizer *t, size_t n, const int64_t *id, struct str *out)
{
    for (size_t i = 0; i < n; i++) {
        const struct bpe_token *k = id[i] >= 0 && id[i] < t->bpe.ntoken ? &t->bpe.token[id[i]] : NULL;
        if (!k || !k->bytes)
            return fail(E_VALUE, "decode: %lld is no id of this tokenizer, which has %u, counted from 0",
                        (long long)id[i], (unsigned)t->bpe.ndistinct);
        str_addn(out, k->bytes, k->n);
    }
    return 0;
}
