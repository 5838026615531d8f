/* tokenizer_json.c - Hugging Face's tokenizer.json: reading what byte-level BPE needs of it, and writing it.
 *
 * Parts that change what text becomes and that are not byte-level BPE are refused by name: a tokenizer that gives
 * almost the same ids is worse than none. Templates that put special tokens around a text are not applied. */
#include "runtime/error.h"
#include "runtime/file/json.h"
#include "runtime/file/save.h"
#include "runtime/text/alphabet.h"
#include "runtime/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 28 };

static const char *
type_of_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "(none)";
}

static int
refuse(const char *path, const char *part, const char *what)
{
    return fail(E_ARG, "%s: %s '%.100s' is not read; byte-level BPE with ByteLevel and Split is", path, part, what);
}

/* ---- the vocabulary ---- */

static int
check_id(const char *path, const json_t *id, size_t ntoken)
{
    json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i >= 0 && i <= 4 * (json_int_t)ntoken + 65536) return 0;
    return fail(E_ARG, "%s: a token has the id %lld", path, (long long)i);
}

static int
read_vocabulary(struct tokenizer *t, const char *path, json_t *vocab)
{
    const char *text;
    json_t *id;
    size_t ntoken = json_object_size(vocab);
    if (!json_is_object(vocab)) return fail(E_ARG, "%s: the model has no vocab", path);
    json_object_foreach(vocab, text, id)
    {
        size_t n = strlen(text);
        uint8_t *bytes = must_realloc(NULL, n + 1);
        int status = check_id(path, id, ntoken);
        bool spelled = alphabet_read(text, bytes, &n); /* others stand for their own bytes, and are never made */
        if (!spelled) n = strlen(text);
        if (!status && n &&
            !bpe_add(&t->bpe, (uint32_t)json_integer_value(id), spelled ? (const void *)bytes : text, n, spelled))
            status = fail(E_ARG, "%s: two tokens have the id %lld", path, (long long)json_integer_value(id));
        free(bytes);
        TRY(status);
    }
    return 0;
}

/* "a b", or ["a", "b"]. */
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

static int
read_merge(struct tokenizer *t, const char *path, const json_t *vocab, const json_t *merge, struct str *text)
{
    TRY(read_halves(path, merge, &text[0], &text[1]));
    str_clear(&text[2]);
    str_add(&text[2], text[0].text);
    str_add(&text[2], text[1].text);
    uint32_t id[3];
    for (int k = 0; k < 3; k++) {
        const json_t *found = json_object_get(vocab, text[k].text);
        if (!found) return fail(E_ARG, "%s: a merge has '%.100s', which is not in the vocab", path, text[k].text);
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

static int
read_model(struct tokenizer *t, const char *path, json_t *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    if (strcmp(type_of_part(model), "BPE") && json_object_get(model, "type"))
        return refuse(path, "the model", type_of_part(model));
    for (size_t i = 0; i < countof(affixes); i++) {
        const char *text = json_string_value(json_object_get(model, affixes[i]));
        if (text && *text) return refuse(path, affixes[i], text);
    }
    if (json_is_true(json_object_get(model, "byte_fallback"))) return refuse(path, "the model's", "byte_fallback");
    if (json_number_value(json_object_get(model, "dropout")) > 0) return refuse(path, "the model's", "dropout");
    t->bpe.whole_piece = json_is_true(json_object_get(model, "ignore_merges"));
    TRY(read_vocabulary(t, path, json_object_get(model, "vocab")));
    return read_merges(t, path, json_object_get(model, "vocab"), json_object_get(model, "merges"));
}

/* ---- cutting ---- */

static int
read_byte_level(struct tokenizer *t, const char *path, const json_t *part)
{
    t->prefix_space = !json_is_false(json_object_get(part, "add_prefix_space"));
    return json_is_false(json_object_get(part, "use_regex")) ? 0 : tokenizer_cut(t, path, NULL);
}

static int
read_split(struct tokenizer *t, const char *path, const json_t *part)
{
    const char *pattern = json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    if (!pattern) return refuse(path, "a Split", "without a Regex");
    if (!behavior || strcmp(behavior, "Isolated"))
        return refuse(path, "a Split's behavior", behavior ? behavior : "(none)");
    if (json_is_true(json_object_get(part, "invert"))) return refuse(path, "a Split's", "invert");
    return tokenizer_cut(t, path, pattern);
}

static const struct {
    const char *type;
    int (*read)(struct tokenizer *t, const char *path, const json_t *part);
} cutters[] = {{"ByteLevel", read_byte_level}, {"Split", read_split}};

static int
read_cutter(struct tokenizer *t, const char *path, const json_t *part)
{
    for (size_t i = 0; i < countof(cutters); i++)
        if (!strcmp(cutters[i].type, type_of_part(part))) return cutters[i].read(t, path, part);
    return refuse(path, "pre_tokenizer", type_of_part(part));
}

static int
read_cutters(struct tokenizer *t, const char *path, const json_t *part)
{
    const json_t *list = json_object_get(part, "pretokenizers");
    bool byte_level = false;
    if (strcmp(type_of_part(part), "Sequence")) {
        TRY(read_cutter(t, path, part));
        byte_level = !strcmp(type_of_part(part), "ByteLevel");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        TRY(read_cutter(t, path, json_array_get(list, i)));
        byte_level = byte_level || !strcmp(type_of_part(json_array_get(list, i)), "ByteLevel");
    }
    return byte_level ? 0 : refuse(path, "pre_tokenizer", "without ByteLevel");
}

/* ---- added tokens ---- */

static int
read_added(struct tokenizer *t, const char *path, const json_t *list, size_t ntoken)
{
    static const char *const manners[] = {"single_word", "lstrip", "rstrip"};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *part = json_array_get(list, i), *id = json_object_get(part, "id");
        const char *text = json_string_value(json_object_get(part, "content"));
        if (!text) return fail(E_ARG, "%s: an added token has no content", path);
        for (size_t k = 0; k < countof(manners); k++)
            if (json_is_true(json_object_get(part, manners[k]))) return refuse(path, manners[k], text);
        TRY(check_id(path, id, ntoken + json_array_size(list)));
        TRY(tokenizer_special(t, path, text, strlen(text), (uint32_t)json_integer_value(id),
                              json_is_true(json_object_get(part, "special"))));
    }
    return 0;
}

static int
read_root(struct tokenizer *t, const char *path, const json_t *root)
{
    json_t *model = json_object_get(root, "model"), *normalizer = json_object_get(root, "normalizer");
    const json_t *decoder = json_object_get(root, "decoder");
    if (!json_is_object(model)) return fail(E_ARG, "%s: it has no model", path);
    if (json_is_object(normalizer)) return refuse(path, "normalizer", type_of_part(normalizer));
    if (json_is_object(decoder) && strcmp(type_of_part(decoder), "ByteLevel"))
        return refuse(path, "decoder", type_of_part(decoder));
    TRY(read_cutters(t, path, json_object_get(root, "pre_tokenizer")));
    TRY(read_model(t, path, model));
    return read_added(t, path, json_object_get(root, "added_tokens"), t->bpe.ndistinct);
}

int
tokenizer_read_json(struct tokenizer *t, const char *path)
{
    json_t *root;
    TRY(json_file(path, MAX_FILE, &root));
    int status = read_root(t, path, root);
    json_decref(root);
    return status;
}

/* ---- writing ---- */

static json_t *
spelled(const struct tokenizer *t, uint32_t id)
{
    struct str text = {0};
    alphabet_write(t->bpe.token[id].bytes, t->bpe.token[id].n, &text);
    json_t *value = json_string(str_text(&text));
    str_free(&text);
    return value;
}

static bool
is_special(const struct tokenizer *t, uint32_t id)
{
    for (int i = 0; i < t->nspecial; i++)
        if (t->special[i].id == id) return true;
    return false;
}

static json_t *
write_vocabulary(const struct tokenizer *t)
{
    json_t *vocab = json_object();
    for (uint32_t id = 0; id < t->bpe.ntoken; id++) {
        if (!t->bpe.token[id].bytes || is_special(t, id)) continue;
        json_t *text = spelled(t, id);
        json_object_set_new(vocab, json_string_value(text), json_integer(id));
        json_decref(text);
    }
    return vocab;
}

static void
note_join(struct tokenizer *t, uint32_t left, uint32_t right, uint32_t id)
{
    GROW(t->join, t->njoin + 1, t->join_capacity);
    t->join[t->njoin++] = (struct join){left, right, id};
}

/* Of a vocabulary that came without merges: every way to cut a token into two, in order of rank. */
static void
derive_joins(struct tokenizer *t)
{
    for (uint32_t id = 0; id < t->bpe.ntoken; id++) {
        const struct bpe_token *k = &t->bpe.token[id];
        if (!k->bytes || is_special(t, id)) continue;
        for (uint32_t n = 1; n < k->n; n++) {
            uint32_t left = bpe_find(&t->bpe, k->bytes, n), right = bpe_find(&t->bpe, k->bytes + n, k->n - n);
            if (left != NO_TOKEN && right != NO_TOKEN) note_join(t, left, right, id);
        }
    }
}

static json_t *
write_merges(const struct tokenizer *t)
{
    json_t *merges = json_array();
    for (uint32_t i = 0; i < t->njoin; i++) {
        json_t *left = spelled(t, t->join[i].left), *right = spelled(t, t->join[i].right);
        json_array_append_new(merges, json_sprintf("%s %s", json_string_value(left), json_string_value(right)));
        json_decref(left);
        json_decref(right);
    }
    return merges;
}

static json_t *
write_added(const struct tokenizer *t)
{
    json_t *list = json_array();
    for (uint32_t id = 0; id < t->bpe.ntoken; id++) /* in order of id */
        for (int i = 0; i < t->nspecial; i++)
            if (t->special[i].id == id)
                json_array_append_new(list,
                                      json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content",
                                                t->special[i].text, t->special[i].n, "single_word", 0, "lstrip", 0,
                                                "rstrip", 0, "normalized", 0, "special", (int)t->special[i].control));
    return list;
}

static json_t *
write_cutter(const struct tokenizer *t)
{
    json_t *list = json_array();
    bool own = false;
    for (int i = 0; i < t->npattern; i++) {
        own = own || !t->pattern[i];
        if (t->pattern[i])
            json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                                  t->pattern[i], "behavior", "Isolated", "invert", 0));
    }
    json_t *last = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", (int)t->prefix_space,
                             "trim_offsets", 1, "use_regex", (int)own);
    if (json_array_size(list) == 0) {
        json_decref(list);
        return last;
    }
    json_array_append_new(list, last);
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

static json_t *
write_root(struct tokenizer *t)
{
    if (t->njoin == 0) derive_joins(t);
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                  (int)t->bpe.whole_piece, "vocab", write_vocabulary(t), "merges", write_merges(t));
    json_t *decoder = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                                "use_regex", 1);
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:n, s:o, s:o}", "version", "1.0", "truncation", "padding",
                     "added_tokens", write_added(t), "normalizer", "pre_tokenizer", write_cutter(t), "post_processor",
                     "decoder", decoder, "model", model);
}

int
tokenizer_save(struct tokenizer *t, const char *path)
{
    struct saving s = {.fd = -1};
    json_t *root = write_root(t);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    int status = text ? saving_begin(path, &s) : fail(E_ARG, "%s: a token is not UTF-8 where JSON needs it", path);
    if (!status) status = saving_write(&s, text, (int64_t)strlen(text));
    if (!status) status = saving_end(&s);
    saving_drop(&s);
    free(text);
    json_decref(root);
    return status;
}
