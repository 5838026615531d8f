/* models.c - reads the model (vocabulary and encoding method) of tokenizer.json: BPE, Unigram, WordPiece,
 * WordLevel.
 *
 * In a byte-level BPE file, each character of a token stands for a byte (alphabet.h). Such tokens are stored as
 * bytes, so that any bytes can be encoded. Tokens of other vocabularies are stored as text. */
#include "runtime/text/models.h"
#include "runtime/base/error.h"
#include "runtime/text/characters/alphabet.h"
#include "runtime/text/tokenizer_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns a map from the texts of added tokens to ids. The map is needed because the vocabulary may also list added
 * tokens, as plain text instead of in byte-level encoding. */
static json_t *
added_ids(const json_t *list)
{
    json_t *ids = json_object();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(one, "content"));
        if (text) json_object_set(ids, text, json_object_get(one, "id"));
    }
    return ids;
}

/* ---- reading vocabularies ---- */

static int
check_vocabulary(const char *path, const json_t *vocab)
{
    const char *text;
    json_t *id;
    size_t ntoken = json_object_size(vocab);
    if (!json_is_object(vocab)) return fail(E_ARG, "%s: the model has no vocab", path);
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id) TRY(check_id(path, text, id, ntoken));
    return 0;
}

static int
add_token(struct tokenizer *t, const char *path, uint32_t id, const void *bytes, size_t n, bool known, const char *text)
{
    if (bpe_add(&t->bpe, id, bytes, n, known)) return 0;
    return fail(E_ARG, "%s: two tokens have id %u; one is '%.100s'", path, (unsigned)id, text);
}

/* Adds a token of a byte-level vocabulary. plain: an added token has this id and text. made: a merge produces this
 * id. */
static int
add_spelled(struct tokenizer *t, const char *path, const char *text, uint32_t id, bool plain, bool made)
{
    size_t length = strlen(text), n = 0;
    uint8_t *bytes = must_realloc(NULL, length + 1);
    bool spelled = alphabet_read(text, length, bytes, &n);
    /* the text of an added token is plain text, unless the token is also a byte or the result of a merge */
    if (plain && n != length && n != 1 && !made) spelled = false;
    int status =
        length ? add_token(t, path, id, spelled ? (const void *)bytes : text, spelled ? n : length, spelled, text) : 0;
    free(bytes);
    return status;
}

static int
read_spelled(struct tokenizer *t, const char *path, const json_t *vocab, const json_t *added)
{
    const char *text;
    json_t *id;
    json_t *ids = added_ids(added);
    uint32_t most = 0;
    int status = 0;
    for (uint32_t i = 0; i < t->njoin; i++) most = MAX(most, t->join[i].id);
    bool *made = must_alloc((size_t)most + 1);
    for (uint32_t i = 0; i < t->njoin; i++) made[t->join[i].id] = true;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        const json_t *own = json_object_get(ids, text);
        uint32_t at = (uint32_t)json_integer_value(id);
        if (!status) status = add_spelled(t, path, text, at, own && json_equal(own, id), at <= most && made[at]);
    }
    free(made);
    json_decref(ids);
    return status;
}

/* Adds a token of a vocabulary of texts. */
static int
add_text(struct tokenizer *t, const char *path, uint32_t id, const char *text, size_t n)
{
    int byte = byte_of_token(text, n);
    TRY(add_token(t, path, id, text, n, true, text));
    if (byte >= 0) t->bpe.byte[byte] = id;
    return 0;
}

static int
read_texts(struct tokenizer *t, const char *path, const json_t *vocab)
{
    const char *text;
    json_t *id;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
        TRY(add_text(t, path, (uint32_t)json_integer_value(id), text, strlen(text)));
    return 0;
}

/* ---- reading BPE models ---- */

/* Reads a merge, given as "a b" or as ["a", "b"]. */
static int
read_halves(const char *path, const json_t *merge, struct str *left, struct str *right)
{
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    str_clear(left);
    str_clear(right);
    if (space && !strchr(space + 1, ' ')) {
        str_addn(left, text, (size_t)(space - text));
        str_add(right, space + 1);
    } else if (json_array_size(merge) == 2) {
        str_add(left, json_is_string(json_array_get(merge, 0)) ? json_string_value(json_array_get(merge, 0)) : "");
        str_add(right, json_is_string(json_array_get(merge, 1)) ? json_string_value(json_array_get(merge, 1)) : "");
    }
    if (left->len && right->len) return 0;
    return fail(E_ARG, "%s: a merge is neither \"a b\" nor [\"a\", \"b\"]", path);
}

/* Reads a merge, and finds the merged token. The text of the merged token is the left text, followed by the right
 * text without the prefix of later characters. */
static int
read_merge(struct tokenizer *t, const char *path, const json_t *vocab, const json_t *merge, struct str text[3])
{
    uint32_t id[3];
    size_t skip = strlen(t->bpe.characters.first);
    TRY(read_halves(path, merge, &text[0], &text[1]));
    str_clear(&text[2]);
    str_add(&text[2], str_text(&text[0]));
    str_add(&text[2], text[1].len >= skip ? str_text(&text[1]) + skip : "");
    for (int k = 0; k < 3; k++) {
        const json_t *found = json_object_get(vocab, str_text(&text[k]));
        if (!found)
            return fail(E_ARG, "%s: a merge has the token '%.100s', which is not in the vocab", path, text[k].text);
        id[k] = (uint32_t)json_integer_value(found);
    }
    tokenizer_join(t, id[0], id[1], id[2]);
    return 0;
}

static int
read_merges(struct tokenizer *t, const char *path, const json_t *vocab, const json_t *merges)
{
    struct str text[3] = {{0}};
    int status = json_is_array(merges) ? 0 : fail(E_ARG, "%s: the model has no merges", path);
    for (size_t i = 0; !status && i < json_array_size(merges); i++)
        status = read_merge(t, path, vocab, json_array_get(merges, i), text);
    for (int k = 0; k < 3; k++) str_free(&text[k]);
    return status;
}

/* Returns the id of the token that the model names for unknown texts; NO_TOKEN: none. */
static uint32_t
unknown_of(const json_t *model, const json_t *vocab)
{
    const char *text = json_string_value(json_object_get(model, "unk_token"));
    const json_t *id = json_object_get(vocab, text ? text : "");
    return id ? (uint32_t)json_integer_value(id) : NO_TOKEN;
}

static const char *
affix_of(struct tokenizer *t, const json_t *model, const char *name)
{
    const char *text = json_string_value(json_object_get(model, name));
    return text ? arena_strdup(&t->bpe.arena, text) : "";
}

/* Returns true if the vocabulary is byte-level, so that it can be stored as bytes. */
static bool
is_of_bytes(const struct tokenizer *t, const json_t *root, const json_t *model)
{
    const json_t *decoder = json_object_get(root, "decoder");
    bool plain = !json_is_object(decoder) || !strcmp(type_of_part(decoder), "ByteLevel");
    return t->byte_level && plain && !*t->bpe.characters.first && !*t->bpe.characters.last &&
           !json_is_true(json_object_get(model, "byte_fallback"));
}

static int
read_bpe(struct tokenizer *t, const char *path, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    struct bpe_characters *c = &t->bpe.characters;
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return part_refuse(path, "model", "dropout must be 0, because encoding is not random");
    t->bpe.whole_piece = json_is_true(json_object_get(model, "ignore_merges"));
    c->first = affix_of(t, model, "continuing_subword_prefix");
    c->last = affix_of(t, model, "end_of_word_suffix");
    c->on = !is_of_bytes(t, root, model);
    c->fallback = json_is_true(json_object_get(model, "byte_fallback"));
    c->fuse = json_is_true(json_object_get(model, "fuse_unk"));
    TRY(check_vocabulary(path, vocab));
    c->unknown = unknown_of(model, vocab);
    TRY(read_merges(t, path, vocab, json_object_get(model, "merges")));
    return c->on ? read_texts(t, path, vocab) : read_spelled(t, path, vocab, json_object_get(root, "added_tokens"));
}

/* ---- reading and encoding by WordPiece and WordLevel models ---- */

static int
add_unknown_word(const struct tokenizer *t, struct ids *out)
{
    if (t->word_model.unknown == NO_TOKEN)
        return fail(E_VALUE, "encode: a word is not in the vocabulary, which has no token for unknown words");
    ids_add(out, t->word_model.unknown);
    return 0;
}

/* Encodes a word as one token. */
static int
word_level_piece(struct tokenizer *t, const uint8_t *piece, size_t n, struct ids *out)
{
    uint32_t id = bpe_find(&t->bpe, piece, n);
    if (id == NO_TOKEN) return add_unknown_word(t, out);
    ids_add(out, id);
    return 0;
}

/* Finds the longest token at the start of the text, and returns its length; 0: none. later: the text is not the
 * start of a word. */
static size_t
longest_token(const struct tokenizer *t, const uint8_t *text, size_t n, bool later, struct str *key, uint32_t *id)
{
    str_clear(key);
    if (later) str_add(key, t->word_model.prefix);
    size_t skip = key->len;
    str_addn(key, text, n);
    for (size_t k = n; k; k--) {
        bool within = k < n && (text[k] & 0xc0) == 0x80;
        *id = within ? NO_TOKEN : bpe_find(&t->bpe, key->text, skip + k);
        if (*id != NO_TOKEN) return k;
    }
    return 0;
}

/* Encodes a word as the longest token at its start, then the longest one after that, and so on. A word that cannot
 * be divided in this way is unknown. */
static int
word_piece_piece(struct tokenizer *t, const uint8_t *piece, size_t n, struct ids *out)
{
    struct str key = {0};
    size_t begin = out->n, characters = 0, at = 0;
    bool good = true;
    for (size_t i = 0; i < n; i++) characters += (piece[i] & 0xc0) != 0x80;
    good = characters <= t->word_model.longest;
    for (size_t k; good && at < n; at += k) {
        uint32_t id;
        k = longest_token(t, piece + at, n - at, at > 0, &key, &id);
        good = k > 0;
        if (good) ids_add(out, id);
    }
    str_free(&key);
    if (good) return 0;
    out->n = begin;
    return add_unknown_word(t, out);
}

static int
read_words(struct tokenizer *t, const char *path, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *longest = json_object_get(model, "max_input_chars_per_word");
    t->bpe.characters.on = true;
    TRY(check_vocabulary(path, vocab));
    t->word_model.prefix = affix_of(t, model, "continuing_subword_prefix");
    t->word_model.unknown = unknown_of(model, vocab);
    t->word_model.longest = longest ? (size_t)MAX(json_integer_value(longest), 0) : 100;
    t->encode = strcmp(type_of_part(model), "WordLevel") ? word_piece_piece : word_level_piece;
    return read_texts(t, path, vocab);
}

/* ---- reading Unigram models ---- */

static int
unigram_piece(struct tokenizer *t, const uint8_t *piece, size_t n, struct ids *out)
{
    return unigram_encode(t->unigram, &t->bpe, piece, n, out);
}

static int
read_scored(struct tokenizer *t, const char *path, const json_t *entry, uint32_t id)
{
    const json_t *text = json_array_get(entry, 0), *score = json_array_get(entry, 1);
    if (!json_is_string(text) || !json_is_number(score))
        return fail(E_ARG, "%s: token %u of the vocab must be a string and a score", path, (unsigned)id);
    TRY(add_text(t, path, id, json_string_value(text), json_string_length(text)));
    unigram_add(t->unigram, id, json_string_value(text), json_string_length(text), json_number_value(score), true);
    return 0;
}

struct unigram *
tokenizer_unigram(struct tokenizer *t)
{
    t->unigram = must_alloc(sizeof *t->unigram);
    *t->unigram = (struct unigram){.least = HUGE_VAL, .most = -HUGE_VAL, .unknown = NO_TOKEN};
    t->encode = unigram_piece;
    t->bpe.characters.on = true;
    return t->unigram;
}

static int
read_unigram(struct tokenizer *t, const char *path, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *unknown = json_object_get(model, "unk_id");
    struct unigram *u = tokenizer_unigram(t);
    u->lookup = true;
    u->fallback = json_is_true(json_object_get(model, "byte_fallback"));
    if (!json_is_array(vocab)) return fail(E_ARG, "%s: the model has no vocab", path);
    if (json_is_integer(unknown)) {
        json_int_t id = json_integer_value(unknown);
        if (id < 0 || id >= (json_int_t)json_array_size(vocab))
            return fail(E_ARG, "%s: unk_id must be an id of the vocab, found %lld", path, (long long)id);
        u->unknown = (uint32_t)id;
    }
    for (size_t i = 0; i < json_array_size(vocab); i++)
        TRY(read_scored(t, path, json_array_get(vocab, i), (uint32_t)i));
    return 0;
}

static const struct part_kind kinds[] = {
    {"BPE", read_bpe}, {"Unigram", read_unigram}, {"WordPiece", read_words}, {"WordLevel", read_words}, {0}};

/* Returns the type of the model. A file without a type has a BPE model. */
static const char *
model_type(const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    return json_object_get(model, "type") ? type_of_part(model) : "BPE";
}

int
check_model(const char *path, const json_t *root)
{
    return find_kind(path, "model", kinds, model_type(root)) ? 0 : err_last();
}

int
read_model(struct tokenizer *t, const char *path, const json_t *root)
{
    return find_kind(path, "model", kinds, model_type(root))->read(t, path, root);
}
