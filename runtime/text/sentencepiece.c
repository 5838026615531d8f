/* sentencepiece.c - reads *.model files of SentencePiece: BPE and Unigram models with their normalizer.
 *
 * The file is a protocol buffer (ModelProto). Its bytes are untrusted: every length is compared with the bytes left. */
#include "runtime/text/sentencepiece.h"
#include "runtime/base/error.h"
#include "runtime/file/disk/source.h"
#include "runtime/text/characters/charsmap.h"
#include "runtime/text/models.h"
#include "runtime/text/tokenizer_parts.h"
#include "runtime/text/characters/utf8.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 28, MAX_PIECES = 1 << 24 };
static const char mark[] = "\u2581"; /* U+2581, which stands for a space */

/* ---- reading the fields of protocol buffers ---- */

enum wire_type { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

struct field {
    uint32_t number;
    enum wire_type type;
    uint64_t value; /* value of a WIRE_VARINT */
    const uint8_t *at;
    size_t n; /* length of a WIRE_BYTES or fixed-size value, bytes */
};
struct message { /* the bytes of a message that are still to be read */
    const uint8_t *at;
    size_t n;
};

static bool
next_varint(struct message *m, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && m->n; shift += 7) {
        uint8_t byte = *m->at++;
        m->n--;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* Reads the next field. Returns false if the bytes are damaged. */
static bool
next_field(struct message *m, struct field *f)
{
    uint64_t key, length = 0;
    if (!next_varint(m, &key) || key >> 32 || key < 8) return false;
    *f = (struct field){.number = (uint32_t)(key >> 3), .type = (enum wire_type)(key & 7)};
    switch (f->type) {
    case WIRE_VARINT: return next_varint(m, &f->value);
    case WIRE_64: length = 8; break;
    case WIRE_32: length = 4; break;
    case WIRE_BYTES:
        if (!next_varint(m, &length)) return false;
        break;
    default: return false;
    }
    if (length > m->n) return false;
    f->at = m->at;
    f->n = (size_t)length;
    m->at += length;
    m->n -= (size_t)length;
    return true;
}

/* ---- reading the model ---- */

enum piece_type { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER, PIECE_UNUSED, PIECE_BYTE };

struct piece {
    const char *text;
    size_t n;
    float score;
    enum piece_type type;
};

struct sentencepiece { /* settings, in the tokenizer's arena */
    struct piece *piece;
    uint32_t npiece;
    const struct charsmap *map; /* normalizations of characters; NULL: none */
    struct trie *symbols;       /* user-defined symbols, which the normalizer does not change */
    const char *unknown;        /* text that decoding writes for an unknown token */
    uint64_t model;             /* type of the model: MODEL_UNIGRAM, MODEL_BPE or an unsupported type */
    /* settings of the file. dummy_prefix: a space is added to the text; suffix: this space is added after the text
     * instead of before it; squeeze: repeated spaces become one; escape: each space becomes U+2581; fallback:
     * unknown characters become the tokens of their bytes */
    bool dummy_prefix, squeeze, escape, suffix, fallback;
};
enum { MODEL_UNIGRAM = 1, MODEL_BPE };

static int
damaged_buffer(const char *path)
{
    return fail(E_IO, "%s: not a SentencePiece model: the protocol buffer is damaged", path);
}

/* Returns a copy of the field's bytes with a terminating zero. */
static const char *
text_of_field(struct tokenizer *t, const struct field *f)
{
    char *text = arena_alloc(&t->bpe.arena, f->n + 1);
    memcpy(text, f->at, f->n);
    return text;
}

static int
read_piece(const char *path, struct tokenizer *t, struct sentencepiece *s, struct message m)
{
    struct piece p = {.text = "", .type = PIECE_NORMAL};
    struct field f;
    while (m.n) {
        if (!next_field(&m, &f)) return damaged_buffer(path);
        if (f.number == 1 && f.type == WIRE_BYTES) p.text = text_of_field(t, &f), p.n = f.n;
        if (f.number == 2 && f.type == WIRE_32) memcpy(&p.score, f.at, sizeof p.score);
        if (f.number == 3 && f.type == WIRE_VARINT) p.type = (enum piece_type)MIN(f.value, (uint64_t)PIECE_BYTE + 1);
    }
    if (s->npiece == MAX_PIECES) return fail(E_IO, "%s: more than %d tokens", path, MAX_PIECES);
    if (p.type < PIECE_NORMAL || p.type > PIECE_BYTE || p.type == PIECE_UNUSED)
        return fail(E_ARG, "%s: token %u has an unknown or unused type", path, (unsigned)s->npiece);
    if (!p.n || !(p.score >= -FLT_MAX && p.score <= FLT_MAX))
        return fail(E_IO, "%s: token %u must have a string and a finite score", path, (unsigned)s->npiece);
    /* npiece is a power of two, so the list is full: doubles its capacity */
    if ((s->npiece & (s->npiece - 1)) == 0)
        s->piece = arena_extend(&t->bpe.arena, s->piece, sizeof p * s->npiece, sizeof p * (2 * s->npiece + 1));
    s->piece[s->npiece++] = p;
    return 0;
}

static int
read_trainer(const char *path, struct tokenizer *t, struct sentencepiece *s, struct message m)
{
    enum { MODEL_TYPE = 3, SUFFIX = 24, BYTE_FALLBACK = 35, UNK_SURFACE = 44 };
    struct field f;
    while (m.n) {
        if (!next_field(&m, &f)) return damaged_buffer(path);
        if (f.number == MODEL_TYPE && f.type == WIRE_VARINT) s->model = f.value;
        if (f.number == SUFFIX && f.type == WIRE_VARINT) s->suffix = f.value;
        if (f.number == BYTE_FALLBACK && f.type == WIRE_VARINT) s->fallback = f.value;
        if (f.number == UNK_SURFACE && f.type == WIRE_BYTES) s->unknown = text_of_field(t, &f);
    }
    return 0;
}

static int
read_normalizer_spec(const char *path, struct tokenizer *t, struct sentencepiece *s, struct message m)
{
    enum { CHARSMAP = 2, DUMMY_PREFIX, SQUEEZE, ESCAPE };
    struct field f;
    while (m.n) {
        if (!next_field(&m, &f)) return damaged_buffer(path);
        if (f.number == CHARSMAP && f.type == WIRE_BYTES && f.n)
            TRY(charsmap_new(path, f.at, f.n, &t->bpe.arena, &s->map));
        if (f.type != WIRE_VARINT) continue;
        if (f.number == DUMMY_PREFIX) s->dummy_prefix = f.value;
        if (f.number == SQUEEZE) s->squeeze = f.value;
        if (f.number == ESCAPE) s->escape = f.value;
    }
    return 0;
}

static int
read_denormalizer(const char *path, struct message m)
{
    struct field f;
    while (m.n) {
        if (!next_field(&m, &f)) return damaged_buffer(path);
        if (f.number == 2 && f.type == WIRE_BYTES && f.n)
            return part_refuse(path, "denormalizer_spec", "precompiled_charsmap is not supported");
    }
    return 0;
}

static int
read_file(struct tokenizer *t, const char *path, struct sentencepiece *s)
{
    enum { PIECES = 1, TRAINER, NORMALIZER, DENORMALIZER = 5 };
    struct message m = {(const uint8_t *)t->file.text, t->file.len};
    struct field f;
    while (m.n) {
        if (!next_field(&m, &f)) return damaged_buffer(path);
        struct message inner = {f.at, f.n};
        if (f.type != WIRE_BYTES) continue;
        if (f.number == PIECES) TRY(read_piece(path, t, s, inner));
        if (f.number == TRAINER) TRY(read_trainer(path, t, s, inner));
        if (f.number == NORMALIZER) TRY(read_normalizer_spec(path, t, s, inner));
        if (f.number == DENORMALIZER) TRY(read_denormalizer(path, inner));
    }
    return s->npiece ? 0 : damaged_buffer(path);
}

/* ---- normalizing texts ---- */

/* Finds the normalization of the character at the start of the text: the replacement, and the number of bytes that
 * are replaced. */
static size_t
normalized_start(const struct sentencepiece *s, const uint8_t *text, size_t n, const char **to, size_t *nto)
{
    int32_t c;
    size_t k = trie_longest(s->symbols, text, n);
    *to = !k && s->map ? charsmap_find(s->map, text, n, true, &k) : NULL;
    if (*to) {
        *nto = strlen(*to);
        return k;
    }
    if (!k) k = utf8_next(text, n, &c);
    bool invalid = k == 1 && text[0] >= 0x80;
    *to = invalid ? "\ufffd" : (const char *)text;
    *nto = invalid ? 3 : k;
    return k;
}

static void
add_escaped(const struct sentencepiece *s, const char *text, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] == ' ' && s->escape)
            str_add(out, mark);
        else
            str_addn(out, text + i, 1);
}

/* Appends the text, normalized character by character. If `squeeze` is set, drops spaces at the start, and each
 * space that follows a space. */
static void
add_squeezed(const struct sentencepiece *s, const uint8_t *text, size_t n, struct str *out)
{
    const char *to;
    size_t nto;
    bool space = s->squeeze; /* true: the last character was a space */
    for (size_t at = 0; at < n;) {
        at += normalized_start(s, text + at, n - at, &to, &nto);
        while (space && nto && *to == ' ') to++, nto--;
        if (!nto) continue;
        add_escaped(s, to, nto, out);
        space = s->squeeze && to[nto - 1] == ' ';
    }
}

/* Normalizes a text as SentencePiece's Normalizer does. */
static int
apply_sentencepiece(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    const struct sentencepiece *s = z->state;
    const char *space = s->escape ? mark : " ", *to;
    size_t from = 0, k, nto;
    UNUSED(head);
    for (; s->squeeze && from < n; from += k) {
        k = normalized_start(s, text + from, n - from, &to, &nto);
        if (nto != 1 || *to != ' ') break;
    }
    if (from == n) return 0;
    if (!s->suffix && s->dummy_prefix) str_add(out, space);
    add_squeezed(s, text + from, n - from, out);
    size_t width = strlen(space);
    while (s->squeeze && out->len >= width && !memcmp(out->text + out->len - width, space, width))
        str_cut(out, out->len - width);
    if (s->suffix && s->dummy_prefix) str_add(out, space);
    return 0;
}

/* ---- decoding pieces ---- */

/* Appends the text of a piece that is not a byte. start: no text has been decoded before, so a leading space may
 * be dropped. *dropped: set to true if the space was dropped, unless `squeeze` is set. */
static void
add_decoded(const struct sentencepiece *s, const struct token_text *one, bool start, bool *dropped, struct str *out)
{
    const struct piece *p = one->id < s->npiece ? &s->piece[one->id] : NULL;
    const char *text = one->text;
    size_t n = one->n, width = strlen(mark);
    *dropped = false;
    if (p && p->type == PIECE_CONTROL) return;
    if (p && p->type == PIECE_UNKNOWN) {
        str_add(out, s->unknown);
        return;
    }
    if (start && (s->dummy_prefix || s->squeeze) && n >= width && !memcmp(text, mark, width)) {
        text += width;
        n -= width;
        *dropped = !s->squeeze;
    }
    for (size_t at = 0; at < n;) {
        bool space = n - at >= width && !memcmp(text + at, mark, width);
        str_addn(out, space ? " " : text + at, 1);
        at += space ? width : 1;
    }
}

static int
apply_pieces(const struct decoder *d, struct token_texts *texts)
{
    const struct sentencepiece *s = d->state;
    struct str out = {0};
    bool start = true, dropped = false;
    for (size_t i = 0; i < texts->n; i++) {
        const struct token_text *one = &texts->list[i];
        int byte = one->id < s->npiece && s->piece[one->id].type == PIECE_BYTE ? byte_of_token(one->text, one->n) : -1;
        if (byte >= 0) {
            str_addn(&out, &(char){(char)byte}, 1);
            continue;
        }
        if (dropped || out.len) start = false;
        add_decoded(s, one, start, &dropped, &out);
    }
    texts->n = 0;
    token_texts_add(texts, arena_dup(&texts->arena, str_text(&out), out.len + 1), out.len, 0);
    str_free(&out);
    return 0;
}

/* ---- making the tokenizer's vocabulary ---- */

/* Returns true if the text is one of the special tokens that the caller listed. */
static bool
is_listed(int nspecial, const char *const *special, const char *text)
{
    for (int i = 0; i < nspecial; i++)
        if (!strcmp(special[i], text)) return true;
    return false;
}

static int
check_listed(const char *path, const struct sentencepiece *s, int nspecial, const char *const *special)
{
    for (int i = 0; i < nspecial; i++) {
        bool found = false;
        for (uint32_t id = 0; id < s->npiece; id++)
            found = found || (s->piece[id].type == PIECE_CONTROL && !strcmp(s->piece[id].text, special[i]));
        if (!found) return fail(E_ARG, "%s: special: the model has no control token '%.100s'", path, special[i]);
    }
    return 0;
}

static int
add_pieces(struct tokenizer *t, const char *path, const struct sentencepiece *s, int nspecial,
           const char *const *special)
{
    for (uint32_t id = 0; id < s->npiece; id++) {
        const struct piece *p = &s->piece[id];
        bool known = p->type == PIECE_NORMAL || p->type == PIECE_USER;
        int byte = p->type == PIECE_BYTE ? byte_of_token(p->text, p->n) : -1;
        if (p->type == PIECE_BYTE && byte < 0)
            return fail(E_IO, "%s: token %u is not a byte such as <0x0A>", path, (unsigned)id);
        if (known && bpe_find(&t->bpe, p->text, p->n) != NO_TOKEN)
            return fail(E_IO, "%s: the token '%.100s' occurs twice", path, p->text);
        bpe_add(&t->bpe, id, p->text, p->n, known);
        if (byte >= 0) t->bpe.byte[byte] = id;
        if (p->type == PIECE_USER) trie_add(&t->bpe.characters.whole, p->text, p->n, id);
        if (p->type == PIECE_CONTROL)
            TRY(tokenizer_special(t, path,
                                  &(struct special){p->text, p->n, id, .control = true,
                                                    .hidden = !is_listed(nspecial, special, p->text)}));
    }
    return 0;
}

static uint32_t
unknown_piece(const struct sentencepiece *s)
{
    for (uint32_t id = 0; id < s->npiece; id++)
        if (s->piece[id].type == PIECE_UNKNOWN) return id;
    return NO_TOKEN;
}

struct ranked {
    float score;
    uint32_t id;
};

static int
by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : x->id < y->id ? -1 : x->id > y->id;
}

/* Adds merges for a normal piece: every division into two normal pieces. */
static void
add_divisions(struct tokenizer *t, const struct sentencepiece *s, uint32_t id, uint32_t rank)
{
    const struct piece *p = &s->piece[id];
    for (size_t k = 1; k < p->n; k++) {
        if ((p->text[k] & 0xc0) == 0x80) continue;
        uint32_t left = bpe_find(&t->bpe, p->text, k), right = bpe_find(&t->bpe, p->text + k, p->n - k);
        if (left == NO_TOKEN || right == NO_TOKEN) continue;
        if (s->piece[left].type == PIECE_NORMAL && s->piece[right].type == PIECE_NORMAL)
            bpe_join(&t->bpe, left, right, rank, id);
    }
}

static void
use_merges(struct tokenizer *t, const struct sentencepiece *s)
{
    struct ranked *order = must_alloc(sizeof *order * s->npiece);
    uint32_t n = 0, rank = 0;
    struct bpe_characters *c = &t->bpe.characters;
    c->first = c->last = "";
    c->unknown = unknown_piece(s);
    c->fuse = true;
    c->fallback = s->fallback;
    for (uint32_t id = 0; id < s->npiece; id++)
        if (s->piece[id].type == PIECE_NORMAL) order[n++] = (struct ranked){s->piece[id].score, id};
    qsort(order, n, sizeof *order, by_score);
    for (uint32_t i = 0; i < n; i++) {
        if (i && order[i].score != order[i - 1].score) rank++;
        add_divisions(t, s, order[i].id, rank);
    }
    free(order);
}

static void
use_scores(struct tokenizer *t, const struct sentencepiece *s)
{
    struct unigram *u = tokenizer_unigram(t);
    u->unknown = unknown_piece(s);
    u->fallback = s->fallback;
    u->narrow = true;
    u->most = FLT_MIN;
    for (uint32_t id = 0; id < s->npiece; id++)
        if (s->piece[id].type == PIECE_NORMAL)
            unigram_add(u, id, s->piece[id].text, s->piece[id].n, s->piece[id].score, true);
    /* gives a user-defined symbol a higher score than its parts have, so that the symbol becomes one token */
    for (uint32_t id = 0; id < s->npiece; id++)
        if (s->piece[id].type == PIECE_USER)
            unigram_add(u, id, s->piece[id].text, s->piece[id].n, (float)s->piece[id].n * (float)u->most - 0.1, false);
}

int
tokenizer_read_sentencepiece(struct tokenizer *t, const char *path, int nspecial, const char *const *special)
{
    struct sentencepiece *s = ARENA_NEW(&t->bpe.arena, struct sentencepiece);
    char *text;
    size_t n;
    *s = (struct sentencepiece){
        .unknown = " \u2047 ", .model = MODEL_UNIGRAM, .dummy_prefix = true, .squeeze = true, .escape = true};
    TRY(source_whole(path, MAX_FILE, &text, &n));
    t->file = (struct str){text, n, n};
    t->file_end = ".model";
    TRY(read_file(t, path, s));
    if (s->model != MODEL_UNIGRAM && s->model != MODEL_BPE)
        return fail(E_ARG, "%s: model type %llu is not supported; supported: 1 (Unigram), 2 (BPE)", path,
                    (unsigned long long)s->model);
    t->bpe.characters.on = true;
    s->symbols = &t->bpe.characters.whole;
    TRY(check_listed(path, s, nspecial, special));
    TRY(add_pieces(t, path, s, nspecial, special));
    if (s->model == MODEL_BPE)
        use_merges(t, s);
    else
        use_scores(t, s);
    normalizers_add(&t->normal, &(struct normalizer){.apply = apply_sentencepiece, .state = s});
    decoders_add(&t->decoders, &(struct decoder){.apply = apply_pieces, .state = s});
    return 0;
}
