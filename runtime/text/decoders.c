/* decoders.c - the steps that join the texts of tokens to one text, and the functions that read the steps from
 * tokenizer.json. */
#include "runtime/text/decoders.h"

#include "runtime/base/error.h"
#include "runtime/text/characters/alphabet.h"
#include "runtime/text/pretokenizers.h"
#include "runtime/text/tokenizer_parts.h"
#include "runtime/text/characters/utf8.h"

#include <stdlib.h>
#include <string.h>

void
decoders_add(struct decoders *s, const struct decoder *d)
{
    GROW(s->list, s->n + 1, s->capacity);
    s->list[s->n++] = *d;
}

void
decoders_free(struct decoders *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].release) s->list[i].release(s->list[i].state);
    free(s->list);
    *s = (struct decoders){0};
}

void
token_texts_add(struct token_texts *s, const void *text, size_t n, uint32_t id)
{
    GROW(s->list, s->n + 1, s->capacity);
    s->list[s->n++] = (struct token_text){text, n, id};
}

int
decoders_run(const struct decoders *s, struct token_texts *texts, struct str *out)
{
    int status = 0;
    for (int i = 0; i < s->n && !status; i++) status = s->list[i].apply(&s->list[i], texts);
    for (size_t i = 0; i < texts->n && !status; i++) {
        if (i && !s->n) str_add(out, " ");
        str_addn(out, texts->list[i].text, texts->list[i].n);
    }
    free(texts->list);
    arena_fini(&texts->arena);
    *texts = (struct token_texts){0};
    return status;
}

/* Replaces the text by a copy of the built string, and frees the string. */
static void
set_text(struct token_texts *s, struct token_text *one, struct str *made)
{
    one->n = made->len;
    one->text = arena_dup(&s->arena, str_text(made), made->len + 1);
    str_free(made);
}

/* Appends the text with every occurrence of `from`, which is not empty, replaced by `to`. */
static void
add_replaced(struct str *out, const char *text, size_t n, const char *from, const char *to)
{
    size_t k = strlen(from);
    for (size_t at = 0; at < n;) {
        const char *next = memmem(text + at, n - at, from, k);
        size_t end = next ? (size_t)(next - text) : n;
        str_addn(out, text + at, end - at);
        if (next) str_add(out, to);
        at = end + (next ? k : 0);
    }
}

static void
replace_in(struct token_texts *s, struct token_text *one, const char *from, const char *to)
{
    struct str made = {0};
    if (!*from || !memmem(one->text, one->n, from, strlen(from))) return;
    add_replaced(&made, one->text, one->n, from, to);
    set_text(s, one, &made);
}

/* Removes spaces before punctuation, because a word tokenizer has added them. */
static void
clean_up(struct token_texts *s, struct token_text *one)
{
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < countof(pairs); i++) replace_in(s, one, pairs[i][0], pairs[i][1]);
}

/* Replaces all texts by their concatenation. */
static int
apply_fuse(const struct decoder *d, struct token_texts *s)
{
    struct str all = {0};
    UNUSED(d);
    for (size_t i = 0; i < s->n; i++) str_addn(&all, s->list[i].text, s->list[i].n);
    s->n = 0;
    token_texts_add(s, "", 0, 0);
    set_text(s, &s->list[0], &all);
    return 0;
}

static int
read_fuse(struct tokenizer *t, const char *path, const json_t *part)
{
    UNUSED(path), UNUSED(part);
    decoders_add(&t->decoders, &(struct decoder){.apply = apply_fuse});
    return 0;
}

/* ---- joining the bytes of tokens ---- */

static int
apply_byte_level(const struct decoder *d, struct token_texts *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct token_text *one = &s->list[i];
        size_t n = one->n;
        uint8_t *bytes = arena_alloc(&s->arena, n + 1);
        if (!alphabet_read(one->text, one->n, bytes, &n)) continue;
        one->text = (const char *)bytes;
        one->n = n;
    }
    return apply_fuse(d, s);
}

static int
read_byte_level_decoder(struct tokenizer *t, const char *path, const json_t *part)
{
    UNUSED(path), UNUSED(part);
    decoders_add(&t->decoders, &(struct decoder){.apply = apply_byte_level});
    return 0;
}

int
byte_of_token(const char *text, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

static int
apply_byte_fallback(const struct decoder *d, struct token_texts *s)
{
    UNUSED(d);
    for (size_t i = 0; i < s->n; i++) {
        int byte = byte_of_token(s->list[i].text, s->list[i].n);
        if (byte < 0) continue;
        s->list[i].text = arena_dup(&s->arena, (const char[]){(char)byte, 0}, 2);
        s->list[i].n = 1;
    }
    return 0;
}

static int
read_byte_fallback(struct tokenizer *t, const char *path, const json_t *part)
{
    UNUSED(path), UNUSED(part);
    decoders_add(&t->decoders, &(struct decoder){.apply = apply_byte_fallback});
    return 0;
}

/* ---- joining the pieces of words ---- */

struct words {
    /* WordPiece: prefix of the later pieces of a word; BPE: suffix of the last piece of a word; CTC: the padding
     * token */
    const char *mark;
    const char *space; /* CTC: the token between words */
    bool cleanup, keep_first;
};

static int
apply_word_piece(const struct decoder *d, struct token_texts *s)
{
    const struct words *w = d->state;
    size_t k = strlen(w->mark);
    for (size_t i = 0; i < s->n; i++) {
        struct token_text *one = &s->list[i];
        struct str made = {0};
        bool later = i && one->n >= k && !memcmp(one->text, w->mark, k);
        if (i && !later) str_add(&made, " ");
        str_addn(&made, one->text + (later ? k : 0), one->n - (later ? k : 0));
        set_text(s, one, &made);
        if (w->cleanup) clean_up(s, one);
    }
    return 0;
}

static int
apply_bpe(const struct decoder *d, struct token_texts *s)
{
    const struct words *w = d->state;
    for (size_t i = 0; i < s->n; i++) replace_in(s, &s->list[i], w->mark, i + 1 < s->n ? " " : "");
    return 0;
}

/* Joins the output of a CTC model: drops repetitions of a token, and the padding token. */
static int
apply_ctc(const struct decoder *d, struct token_texts *s)
{
    const struct words *w = d->state;
    size_t n = 0;
    struct token_text last = {0};
    for (size_t i = 0; i < s->n; i++) {
        struct token_text one = s->list[i];
        bool again = i && one.n == last.n && !memcmp(one.text, last.text, one.n);
        last = one;
        if (again) continue;
        replace_in(s, &one, w->mark, "");
        if (w->cleanup) {
            clean_up(s, &one);
            replace_in(s, &one, w->space, " ");
        }
        if (one.n) s->list[n++] = one;
    }
    s->n = n;
    return 0;
}

/* Replaces the replacement character (U+2581) by a space. In the first token, drops the character instead, unless
 * keep_first. */
static int
apply_metaspace(const struct decoder *d, struct token_texts *s)
{
    const struct words *w = d->state;
    for (size_t i = 0; i < s->n; i++) replace_in(s, &s->list[i], w->mark, i || w->keep_first ? " " : "");
    return 0;
}

static int
add_words(struct tokenizer *t, int (*apply)(const struct decoder *, struct token_texts *), const struct words *w)
{
    struct words *own = arena_dup(&t->bpe.arena, w, sizeof *w);
    own->mark = arena_strdup(&t->bpe.arena, w->mark);
    if (w->space) own->space = arena_strdup(&t->bpe.arena, w->space);
    decoders_add(&t->decoders, &(struct decoder){.apply = apply, .state = own});
    return 0;
}

static int
read_word_piece(struct tokenizer *t, const char *path, const json_t *part)
{
    struct words w = {.cleanup = !json_is_false(json_object_get(part, "cleanup"))};
    TRY(text_of_part(path, part, "prefix", &w.mark));
    return add_words(t, apply_word_piece, &w);
}

static int
read_bpe_decoder(struct tokenizer *t, const char *path, const json_t *part)
{
    struct words w = {0};
    TRY(text_of_part(path, part, "suffix", &w.mark));
    return add_words(t, apply_bpe, &w);
}

static int
read_ctc(struct tokenizer *t, const char *path, const json_t *part)
{
    struct words w = {.cleanup = !json_is_false(json_object_get(part, "cleanup"))};
    TRY(text_of_part(path, part, "pad_token", &w.mark));
    TRY(text_of_part(path, part, "word_delimiter_token", &w.space));
    return add_words(t, apply_ctc, &w);
}

static int
read_metaspace_decoder(struct tokenizer *t, const char *path, const json_t *part)
{
    struct metaspace m;
    TRY(read_metaspace_settings(path, part, &m));
    return add_words(t, apply_metaspace, &(struct words){.mark = m.mark, .keep_first = m.when == SPLIT_NO_PREFIX});
}

/* ---- replacing and stripping parts of texts ---- */

struct decoder_replacement {
    struct splitter *find;
    const char *with;
};

static int
decode_replaced(const struct decoder *d, struct token_texts *s)
{
    const struct decoder_replacement *r = d->state;
    for (size_t i = 0; i < s->n; i++) {
        struct str made = {0};
        int status = splitter_replace(r->find, (const uint8_t *)s->list[i].text, s->list[i].n, r->with, &made);
        set_text(s, &s->list[i], &made);
        TRY(status);
    }
    return 0;
}

static void
decoder_replacement_release(void *state)
{
    struct decoder_replacement *r = state;
    splitter_free(&r->find);
}

static int
read_replace_decoder(struct tokenizer *t, const char *path, const json_t *part)
{
    struct decoder_replacement *r = ARENA_NEW(&t->bpe.arena, struct decoder_replacement);
    const char *with;
    TRY(text_of_part(path, part, "content", &with));
    r->with = arena_strdup(&t->bpe.arena, with);
    TRY(replacer_new(path, json_object_get(part, "pattern"), &r->find));
    decoders_add(&t->decoders,
                 &(struct decoder){.apply = decode_replaced, .release = decoder_replacement_release, .state = r});
    return 0;
}

struct strip {
    const char *character;
    json_int_t start, stop; /* maximum number of characters that are removed at each end */
};

static int
decode_stripped(const struct decoder *d, struct token_texts *s)
{
    const struct strip *p = d->state;
    size_t k = strlen(p->character);
    for (size_t i = 0; i < s->n; i++) {
        struct token_text *one = &s->list[i];
        for (json_int_t j = 0; j < p->start && one->n >= k && !memcmp(one->text, p->character, k); j++)
            one->text += k, one->n -= k;
        for (json_int_t j = 0; j < p->stop && one->n >= k && !memcmp(one->text + one->n - k, p->character, k); j++)
            one->n -= k;
    }
    return 0;
}

static int
read_strip_decoder(struct tokenizer *t, const char *path, const json_t *part)
{
    struct strip *p = ARENA_NEW(&t->bpe.arena, struct strip);
    const char *text;
    TRY(text_of_part(path, part, "content", &text));
    if (!*text) return part_refuse(path, "decoder Strip", "content must not be empty");
    p->character = arena_strdup(&t->bpe.arena, text);
    p->start = json_integer_value(json_object_get(part, "start"));
    p->stop = json_integer_value(json_object_get(part, "stop"));
    decoders_add(&t->decoders, &(struct decoder){.apply = decode_stripped, .state = p});
    return 0;
}

static int read_decoders(struct tokenizer *t, const char *path, const json_t *part);
static const struct part_kind kinds[] = {{"ByteLevel", read_byte_level_decoder},
                                         {"ByteFallback", read_byte_fallback},
                                         {"Fuse", read_fuse},
                                         {"WordPiece", read_word_piece},
                                         {"BPEDecoder", read_bpe_decoder},
                                         {"CTC", read_ctc},
                                         {"Metaspace", read_metaspace_decoder},
                                         {"Replace", read_replace_decoder},
                                         {"Strip", read_strip_decoder},
                                         {"Sequence", read_decoders},
                                         {0}};

static int
read_decoders(struct tokenizer *t, const char *path, const json_t *part)
{
    return read_part_list(t, path, PART_DECODER, kinds, json_object_get(part, "decoders"));
}

int
read_decoder(struct tokenizer *t, const char *path, const json_t *part)
{
    return part && !json_is_null(part) ? read_tokenizer_part(t, path, PART_DECODER, kinds, part) : 0;
}
