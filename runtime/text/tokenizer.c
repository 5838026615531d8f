/* tokenizer.c - encodes text as ids, and decodes ids. */
#include "runtime/text/tokenizer.h"
#include "runtime/text/sentencepiece.h"
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/tiktoken.h"

#include "runtime/base/error.h"
#include "runtime/base/stop.h"
#include "runtime/data/str.h"
#include "runtime/text/characters/alphabet.h"
#include "runtime/text/characters/utf8.h"

#include <stdlib.h>
#include <string.h>

static int
bpe_piece(struct tokenizer *t, const uint8_t *piece, size_t n, struct ids *out)
{
    bpe_encode(&t->bpe, piece, n, out);
    return 0;
}

struct tokenizer *
tokenizer_new(void)
{
    struct tokenizer *t = must_alloc(sizeof *t);
    t->encode = bpe_piece;
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
    normalizers_free(&t->normal);
    decoders_free(&t->decoders);
    unigram_free(&t->unigram);
    str_free(&t->file);
    free(t->special);
    free(t->before.list);
    free(t->after.list);
    free(t->join);
    bpe_fini(&t->bpe);
    free(t);
}

/* Finishes opening a tokenizer or, after an error, frees it. */
static int
tokenizer_opened(struct tokenizer *t, const char *path, int status, struct tokenizer **out)
{
    if (!status) status = bpe_seal(&t->bpe, path);
    if (status) tokenizer_free(&t);
    *out = t;
    return status;
}

int
tokenizer_open(const char *path, const char *pattern, int nspecial, const char *const *special, const int64_t *ids,
               struct tokenizer **out)
{
    struct tokenizer *t = tokenizer_new();
    int status = 0;
    if (text_ends(path, ".tiktoken"))
        status = tokenizer_read_tiktoken(t, path, pattern, nspecial, special, ids);
    else if (pattern || ids)
        status = fail(E_ARG, "%s: the option pattern and ids of special tokens are only for .tiktoken files", path);
    else if (text_ends(path, ".model"))
        status = tokenizer_read_sentencepiece(t, path, nspecial, special);
    else if (nspecial)
        status = fail(E_ARG, "%s: the option special is only for .tiktoken and .model files", path);
    else if (text_ends(path, ".json"))
        status = tokenizer_read_json(t, path);
    else
        status = fail(E_IO, "%s: unknown format: the name must end in .json, .gguf, .model or .tiktoken", path);
    return tokenizer_opened(t, path, status, out);
}

int
tokenizer_of_text(const char *path, const char *text, size_t n, struct tokenizer **out)
{
    struct tokenizer *t = tokenizer_new();
    return tokenizer_opened(t, path, tokenizer_read_text(t, path, text, n), out);
}

/* ---- functions for the readers of file formats ---- */

int
tokenizer_cut(struct tokenizer *t, const char *name, const char *pattern, enum dialect dialect)
{
    t->dialect = dialect;
    t->pattern = pattern ? arena_strdup(&t->bpe.arena, pattern) : NULL;
    return splitter_add(t->splitter, name,
                        &(struct split_step){.pattern = pattern ? pattern : split_gpt2, .dialect = dialect});
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

/* Prepares the test for word characters: letters, marks, digits and connectors (\w in Unicode TR 18). */
static int
know_words(struct tokenizer *t, const char *name)
{
    static const char of_words[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";
    t->word = splitter_new();
    return splitter_add(t->word, name, &(struct split_step){.pattern = of_words, .manner = SPLIT_REMOVED});
}

/* Makes the text of a special token the bytes of the token's id. Returns false if the id has other bytes, unless
 * the text is the visible spelling of these bytes (alphabet.h). */
static bool
add_special_bytes(struct tokenizer *t, const struct special *s)
{
    if (bpe_add(&t->bpe, s->id, s->text, s->n, false)) return true;
    const struct bpe_token *other = &t->bpe.token[s->id];
    uint8_t *bytes = must_realloc(NULL, s->n);
    size_t n;
    bool same = !t->bpe.characters.on && alphabet_read(s->text, s->n, bytes, &n) && n == other->n &&
                !memcmp(bytes, other->bytes, n);
    free(bytes);
    t->twofold = t->twofold || same;
    return same;
}

int
tokenizer_special(struct tokenizer *t, const char *name, const struct special *s)
{
    if (s->n == 0) return fail(E_ARG, "%s: a special token is empty", name);
    if (!add_special_bytes(t, s))
        return fail(E_ARG, "%s: two tokens have id %u; one is '%.100s'", name, (unsigned)s->id, s->text);
    GROW(t->special, t->nspecial + 1, t->special_capacity);
    struct str normal = {0};
    struct special own = *s;
    size_t head = 0;
    own.own = (struct span_text){arena_dup(&t->bpe.arena, s->text, s->n + 1), s->n};
    int status = s->normalized ? normalizers_run(&t->normal, (const uint8_t *)s->text, s->n, &normal, &head) : 0;
    if (s->normalized) own.n = normal.len;
    if (own.hidden) own.n = 0;
    own.text = s->normalized ? arena_dup(&t->bpe.arena, str_text(&normal), normal.len + 1) : own.own.text;
    str_free(&normal);
    TRY(status);
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

/* ---- encoding texts ---- */

struct encoding {
    struct tokenizer *t;
    struct ids *out;
    const uint8_t *begin; /* text at the start of the user's string; NULL: none */
    size_t head;          /* number of bytes at `begin` that belong to the first character of that string */
    int status;           /* error code of the last piece; 0: none */
};

/* Returns the longest special token at the start of the text; NULL: none. Considers only tokens with this value of
 * `normalized`. */
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
    return !splitter_run(t->word, text, n, 0, found_other, &other) && !other;
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

/* Returns false if the token has flag `word`, and a word character is directly before or after it. */
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
        *at += s->n - 1; /* no token begins inside the text of a rejected token */
    }
    *at = n;
    return NULL;
}

/* Encodes a piece whose bytes are spelled as visible characters. */
static int
encode_spelled(const struct encoding *e, const uint8_t *text, size_t n)
{
    uint8_t *bytes = must_realloc(NULL, n);
    bool spelled = alphabet_read((const char *)text, n, bytes, &n);
    assert(spelled);
    int status = e->t->encode(e->t, bytes, n, e->out);
    free(bytes);
    return status;
}

/* Encodes a piece of bytes that are not UTF-8, for a vocabulary in which visible characters stand for bytes. */
static int
encode_stray(const struct encoding *e, const uint8_t *bytes, size_t n)
{
    struct str text = {0};
    alphabet_write(bytes, n, &text);
    int status = e->t->encode(e->t, (const uint8_t *)text.text, text.len, e->out);
    str_free(&text);
    return status;
}

static void
encode_split_piece(void *arg, const uint8_t *bytes, size_t n)
{
    struct encoding *e = arg;
    bool valid = e->t->spelled && valid_utf8(bytes, n) == n, of_bytes = !e->t->bpe.characters.on;
    if (e->status) return;
    if (valid && of_bytes)
        e->status = encode_spelled(e, bytes, n);
    else if (e->t->spelled && !valid && !of_bytes)
        e->status = encode_stray(e, bytes, n);
    else
        e->status = e->t->encode(e->t, bytes, n, e->out);
}

static int
encode_plain(struct encoding *e, const uint8_t *text, size_t n)
{
    TRY(splitter_run(e->t->splitter, text, n, text == e->begin ? e->head : 0, encode_split_piece, e));
    return e->status;
}

size_t
text_trim_right(const uint8_t *text, size_t n)
{
    while (n) {
        size_t k = 1;
        int32_t c;
        while (k < MIN(n, (size_t)4) && (text[n - k] & 0xc0) == 0x80) k++;
        if (utf8_next(text + n - k, k, &c) != k || !utf8_is_space(c)) break;
        n -= k;
    }
    return n;
}

size_t
text_trim_left(const uint8_t *text, size_t n)
{
    size_t at = 0;
    int32_t c;
    for (size_t k; at < n; at += k) {
        k = utf8_next(text + at, n - at, &c);
        if (!utf8_is_space(c)) break;
    }
    return at;
}

/* Emits the ids of special tokens of one kind (`normalized`), and passes the text between tokens to `next`. A token
 * may begin with white space that an earlier token has consumed. A token may consume the white space before it, but
 * no text that an earlier token has consumed. A token of which no text remains is dropped. */
static int
encode_around(struct encoding *e, bool normalized, const uint8_t *text, size_t n,
              int (*next)(struct encoding *e, const uint8_t *text, size_t n))
{
    for (size_t at = 0, done = 0;;) {
        const struct special *s = next_special_in(e->t, normalized, text, n, &at);
        size_t plain = at > done ? at - done : 0;
        if (s && s->left) plain = text_trim_right(text + done, plain);
        if (plain) TRY(next(e, text + done, plain));
        if (!s) return 0;
        size_t begin = s->left ? done + plain : at;
        at += s->n;
        done = s->right ? at + text_trim_left(text + at, n - at) : at;
        if (begin < done) ids_add(e->out, s->id);
    }
}

static int
encode_normal(struct encoding *e, const uint8_t *text, size_t n)
{
    return encode_around(e, true, text, n, encode_plain);
}

static int
encode_raw(struct encoding *e, const uint8_t *text, size_t n)
{
    struct str normal = {0};
    const uint8_t *made;
    if (e->t->normal.n == 0) return encode_normal(e, text, n);
    if (text != e->begin) e->head = 0;
    int status = normalizers_run(&e->t->normal, text, n, &normal, &e->head);
    e->begin = made = (const uint8_t *)str_text(&normal);
    if (!status) status = encode_normal(e, made, normal.len);
    e->begin = NULL;
    str_free(&normal);
    return status;
}

int
tokenizer_encode(struct tokenizer *t, const void *text, size_t n, struct ids *out)
{
    int32_t c;
    struct encoding e = {t, out, text, n ? utf8_next(text, n, &c) : 0, 0};
    TRY(encode_around(&e, false, text, n, encode_raw));
    return stop_caller_check();
}

/* ---- decoding ids ---- */

/* Returns the special token with this id, if the id is also the id of a byte; NULL: none. */
static const struct special *
special_of_byte(const struct tokenizer *t, uint32_t id)
{
    for (int i = 0; i < t->nspecial && t->bpe.token[id].n == 1; i++)
        if (t->special[i].id == id && t->special[i].own.n > 1) return &t->special[i];
    return NULL;
}

/* Returns true if the byte at `at` is not part of a valid character. *checked: end of the text that earlier calls
 * have checked, initially 0. */
static bool
is_stray(const struct str *text, size_t at, size_t *checked)
{
    while (*checked <= at) {
        size_t good = valid_utf8((const uint8_t *)text->text + *checked, text->len - *checked);
        if (!good && *checked == at) return true;
        *checked += MAX(good, (size_t)1);
    }
    return false;
}

/* Joins the tokens' bytes. An id that stands for both a byte and an added token is decoded as the byte if that
 * byte is part of a valid character, else as the added token. */
static void
add_token_bytes(const struct tokenizer *t, const struct token_texts *s, struct str *out)
{
    struct str all = {0};
    size_t at = 0, checked = 0;
    for (size_t i = 0; i < s->n && t->twofold; i++) str_addn(&all, s->list[i].text, s->list[i].n);
    for (size_t i = 0; i < s->n; at += s->list[i++].n) {
        const struct special *twofold = t->twofold ? special_of_byte(t, s->list[i].id) : NULL;
        if (twofold && is_stray(&all, at, &checked))
            str_addn(out, twofold->own.text, twofold->own.n);
        else
            str_addn(out, s->list[i].text, s->list[i].n);
    }
    str_free(&all);
}

int
tokenizer_decode(const struct tokenizer *t, size_t n, const int64_t *id, struct str *out)
{
    struct token_texts texts = {0};
    int status = 0;
    for (size_t i = 0; i < n && !status; i++) {
        const struct bpe_token *k = id[i] >= 0 && id[i] < t->bpe.ntoken ? &t->bpe.token[id[i]] : NULL;
        if (!k || !k->bytes)
            status =
                fail(E_VALUE, "decode: no token has id %lld; this tokenizer has %u tokens, with ids from 0 to %u%s",
                     (long long)id[i], (unsigned)t->bpe.ndistinct, (unsigned)t->bpe.ntoken - 1,
                     t->bpe.ndistinct < t->bpe.ntoken ? " and gaps" : "");
        else
            token_texts_add(&texts, k->bytes, k->n, (uint32_t)id[i]);
    }
    if (!status && t->bpe.characters.on) return decoders_run(&t->decoders, &texts, out);
    if (!status) add_token_bytes(t, &texts, out);
    free(texts.list);
    return status;
}

bool
tokenizer_is_special(const struct tokenizer *t, int64_t id)
{
    for (int i = 0; i < t->nspecial; i++)
        if (t->special[i].id == id) return t->special[i].control;
    return false;
}
