/* tokenizer.c - encodes text as ids, and decodes ids. */
#include "runtime/text/tokenizer.h"

#include "runtime/base/error.h"
#include "runtime/base/stop.h"
#include "runtime/base/str.h"

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
    splitter_free(&t->word);
    free(t->special);
    free(t->before.list);
    free(t->after.list);
    free(t->join);
    bpe_fini(&t->bpe);
    free(t);
}

int
tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special, const int64_t *ids,
               struct tokenizer **out)
{
    struct tokenizer *t = tokenizer_new();
    int status = 0;
    if (text_ends(path, ".tiktoken"))
        status = tokenizer_read_tiktoken(t, path, pattern, nspecial, special, ids);
    else if (pattern || nspecial)
        status = fail(E_ARG, "%s: the options pattern and special are only for .tiktoken files", path);
    else if (text_ends(path, ".json"))
        status = tokenizer_read_json(t, path);
    else
        status = fail(E_IO, "%s: unknown format: the name must end in .json or .tiktoken", path);
    if (!status) status = bpe_seal(&t->bpe, path);
    if (status) tokenizer_free(&t);
    *out = t;
    return status;
}

/* ---- functions for readers ---- */

int
tokenizer_cut(struct tokenizer *t, const char *name, const char *pattern, enum dialect dialect)
{
    t->dialect = dialect;
    t->pattern = pattern ? arena_strdup(&t->bpe.arena, pattern) : NULL;
    return splitter_add(t->splitter, name,
                        &(struct split_step){.pattern = pattern ? pattern : split_gpt2, .dialect = dialect});
}

/* Writes the tokenizer's normal form of a text, which is valid UTF-8, to `out`, after clearing it. */
static void
normalize(const struct tokenizer *t, const uint8_t *text, size_t n, struct str *out)
{
    struct str last = {0};
    str_clear(out);
    str_addn(out, text, n);
    for (int i = 0; i < t->nform; i++) {
        struct str now = *out;
        *out = last;
        last = now;
        str_clear(out);
        normal_add(out, t->form[i], (const uint8_t *)last.text, last.len);
    }
    str_free(&last);
}

int
tokenizer_check_id(const char *name, const char *token, int64_t id, size_t ntoken)
{
    int64_t most = 4 * (int64_t)ntoken + 65536;
    if (id >= 0 && id <= most) return 0;
    return fail(E_ARG, "%s: the token '%.100s' has id %lld; with %llu tokens ids must be from 0 to %lld", name, token,
                (long long)id, (unsigned long long)ntoken, (long long)most);
}

int
tokenizer_check_specials(const char *name, int nspecial, const char *const *special)
{
    for (int i = 0; i < nspecial; i++) {
        size_t n = strlen(special[i]);
        if (n == 0) return fail(E_ARG, "%s: a special token is empty", name);
        if (valid_utf8((const uint8_t *)special[i], n) != n)
            return fail(E_ARG, "%s: special token %d is not UTF-8, so it cannot be saved", name, i + 1);
        for (int k = 0; k < i; k++)
            if (!strcmp(special[i], special[k]))
                return fail(E_ARG, "%s: the special token '%.100s' occurs twice", name, special[i]);
    }
    return 0;
}

/* Prepares the test for word characters: letters, marks, digits and connectors, like \w in Unicode's TR 18. */
static int
know_words(struct tokenizer *t, const char *name)
{
    static const char of_words[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";
    t->word = splitter_new();
    return splitter_add(t->word, name, &(struct split_step){.pattern = of_words, .manner = SPLIT_REMOVED});
}

int
tokenizer_special(struct tokenizer *t, const char *name, const struct special *s)
{
    if (s->n == 0) return fail(E_ARG, "%s: a special token is empty", name);
    if (!bpe_add(&t->bpe, s->id, s->text, s->n, false))
        return fail(E_ARG, "%s: two tokens have id %u; one is '%.100s'", name, (unsigned)s->id, s->text);
    GROW(t->special, t->nspecial + 1, t->special_capacity);
    struct str normal = {0};
    if (s->normalized) normalize(t, (const uint8_t *)s->text, s->n, &normal);
    struct special own = *s;
    if (s->normalized) own.n = normal.len;
    own.text = arena_dup(&t->bpe.arena, s->normalized ? str_text(&normal) : s->text, own.n);
    str_free(&normal);
    int i = t->nspecial++;
    for (; i > 0 && t->special[i - 1].n < own.n; i--) t->special[i] = t->special[i - 1];
    t->special[i] = own;
    if (own.n) t->starts[own.normalized][(uint8_t)own.text[0]] = true;
    return own.word && !t->word ? know_words(t, name) : 0;
}

void
tokenizer_join(struct tokenizer *t, uint32_t left, uint32_t right, uint32_t id)
{
    GROW(t->join, t->njoin + 1, t->join_capacity);
    bpe_join(&t->bpe, left, right, t->njoin, id);
    t->join[t->njoin++] = (struct join){left, right, id};
}

/* ---- encoding ---- */

struct encoding {
    struct tokenizer *t;
    struct ids *out;
};

/* Returns the number of bytes of the white-space character at the start of the text; 0: it starts with another
 * character. */
static size_t
space_length(const uint8_t *text, size_t n)
{
    static const char *const spaces[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\xc2\x85",
                                         "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                         "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                         "\u2029", "\u202f", "\u205f", "\u3000"};
    for (size_t i = 0; i < countof(spaces); i++) {
        size_t k = strlen(spaces[i]);
        if (k <= n && !memcmp(text, spaces[i], k)) return k;
    }
    return 0;
}

/* Returns the number of bytes of the white-space character at the end of the text; 0: it ends with another
 * character. */
static size_t
space_before(const uint8_t *text, size_t n)
{
    for (size_t k = 1; k <= MIN(n, (size_t)3); k++)
        if (space_length(text + n - k, k) == k) return k;
    return 0;
}

/* Returns the longest special token at the start of the text, of those with this value of `normalized`; NULL: none. */
static const struct special *
special_at(const struct tokenizer *t, bool normalized, const uint8_t *text, size_t n)
{
    for (int i = 0; i < t->nspecial; i++) {
        const struct special *s = &t->special[i];
        if (s->normalized == normalized && s->n && s->n <= n && !memcmp(s->text, text, s->n)) return s;
    }
    return NULL;
}

static void
found_other(void *arg, const uint8_t *bytes, size_t n)
{
    (void)bytes;
    *(bool *)arg = *(bool *)arg || n > 0;
}

/* Returns true if the text, which is one character, is a word character. */
static bool
is_known_word(const struct tokenizer *t, const uint8_t *text, size_t n)
{
    bool other = n == 0;
    return !splitter_run(t->word, text, n, found_other, &other) && !other;
}

static bool
tokenizer_word_at(const struct tokenizer *t, const uint8_t *text, size_t n)
{
    for (size_t k = 1; k <= MIN(n, (size_t)4); k++)
        if (valid_utf8(text, k) == k) return is_known_word(t, text, k);
    return false;
}

static bool
word_before(const struct tokenizer *t, const uint8_t *text, size_t n)
{
    for (size_t k = 1; k <= MIN(n, (size_t)4); k++)
        if (valid_utf8(text + n - k, k) == k) return is_known_word(t, text + n - k, k);
    return false;
}

/* Returns false if the token must be a separate word, but a word character is directly before or after it. */
static bool
special_fits(const struct tokenizer *t, const struct special *s, const uint8_t *text, size_t n, size_t at)
{
    size_t end = at + s->n;
    return !s->word || (!word_before(t, text, at) && !tokenizer_word_at(t, text + end, n - end));
}

/* Finds the next special token from *at on, and sets *at to its start. NULL, with *at = n: there is no further
 * special token. */
static const struct special *
next_special_in(const struct tokenizer *t, bool normalized, const uint8_t *text, size_t n, size_t *at)
{
    int64_t since = 0;
    for (; t->nspecial && *at < n && !stop_caller_after(&since, 1 + t->nspecial / 16); ++*at) {
        const struct special *s =
            t->starts[normalized][text[*at]] ? special_at(t, normalized, text + *at, n - *at) : NULL;
        if (!s) continue;
        if (special_fits(t, s, text, n, *at)) return s;
        *at += s->n - 1; /* no token begins inside the rejected text */
    }
    *at = n;
    return NULL;
}

static void
encode_split_piece(void *arg, const uint8_t *bytes, size_t n)
{
    struct encoding *e = arg;
    bpe_encode(&e->t->bpe, bytes, n, e->out);
}

static int
encode_plain(const struct encoding *e, const uint8_t *text, size_t n)
{
    return splitter_run(e->t->splitter, text, n, encode_split_piece, (void *)(uintptr_t)e);
}

/* Returns the length of the text without trailing white space. */
static size_t
trim_right(const uint8_t *text, size_t n)
{
    for (size_t k; n && (k = space_before(text, n));) n -= k;
    return n;
}

static size_t
trim_left(const uint8_t *text, size_t n)
{
    size_t at = 0;
    for (size_t k; at < n && (k = space_length(text + at, n - at));) at += k;
    return at;
}

/* Emits the ids of special tokens of one kind (`normalized`), and passes the text between tokens to `next`. A token
 * is found even if an earlier token has consumed the white space with which it begins. A token may consume the white
 * space before it, but not text that an earlier token has consumed. If no text of the token remains, the token is
 * dropped. */
static int
encode_around(const struct encoding *e, bool normalized, const uint8_t *text, size_t n,
              int (*next)(const struct encoding *e, const uint8_t *text, size_t n))
{
    for (size_t at = 0, done = 0;;) {
        const struct special *s = next_special_in(e->t, normalized, text, n, &at);
        size_t plain = at > done ? at - done : 0;
        if (s && s->left) plain = trim_right(text + done, plain);
        if (plain) TRY(next(e, text + done, plain));
        if (!s) return 0;
        size_t begin = s->left ? done + plain : at;
        at += s->n;
        done = s->right ? at + trim_left(text + at, n - at) : at;
        if (begin < done) ids_add(e->out, s->id);
    }
}

static int
encode_normal(const struct encoding *e, const uint8_t *text, size_t n)
{
    return encode_around(e, true, text, n, encode_plain);
}

/* Appends a text to `out`: normalizes its valid UTF-8, and leaves other bytes unchanged. */
static void
add_normal(const struct tokenizer *t, const uint8_t *text, size_t n, struct str *out)
{
    struct str one = {0};
    for (size_t at = 0; at < n;) {
        size_t good = valid_utf8(text + at, n - at);
        if (good) {
            normalize(t, text + at, good, &one);
            str_addn(out, one.text, one.len);
        } else {
            str_addn(out, text + at, good = 1);
        }
        at += good;
    }
    str_free(&one);
}

static int
encode_raw(const struct encoding *e, const uint8_t *text, size_t n)
{
    struct str normal = {0};
    if (e->t->nform == 0) return encode_normal(e, text, n);
    add_normal(e->t, text, n, &normal);
    int status = encode_normal(e, (const uint8_t *)str_text(&normal), normal.len);
    str_free(&normal);
    return status;
}

int
tokenizer_encode(struct tokenizer *t, const void *text, size_t n, struct ids *out)
{
    TRY(encode_around(&(struct encoding){t, out}, false, text, n, encode_raw));
    return stop_caller_check();
}

int
tokenizer_decode(const struct tokenizer *t, size_t n, const int64_t *id, struct str *out)
{
    for (size_t i = 0; i < n; i++) {
        const struct bpe_token *k = id[i] >= 0 && id[i] < t->bpe.ntoken ? &t->bpe.token[id[i]] : NULL;
        if (!k || !k->bytes)
            return fail(E_VALUE, "decode: no token has id %lld; this tokenizer has %u tokens, with ids from 0 to %u%s",
                        (long long)id[i], (unsigned)t->bpe.ndistinct, (unsigned)t->bpe.ntoken - 1,
                        t->bpe.ndistinct < t->bpe.ntoken ? " and gaps" : "");
        str_addn(out, k->bytes, k->n);
    }
    return 0;
}

bool
tokenizer_is_special(const struct tokenizer *t, int64_t id)
{
    for (int i = 0; i < t->nspecial; i++)
        if (t->special[i].id == id) return t->special[i].control;
    return false;
}
