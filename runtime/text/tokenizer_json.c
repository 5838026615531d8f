/* tokenizer_json.c - reads vocabulary, merges and added tokens of Hugging Face's tokenizer.json.
 *
 * Every kind except byte-level BPE is rejected with an error that names the kind: a tokenizer that returns almost
 * the right ids is worse than none. */
#include "runtime/text/tokenizer_json.h"

#include "runtime/base/error.h"
#include "runtime/text/alphabet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 28 };

const char *
type_of_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "(none)";
}

int
refuse(const char *path, const char *part, const char *what)
{
    return fail(
        E_ARG, "%s: %s '%.100s' is not supported; byte-level BPE is, split by ByteLevel, Split, Digits and Punctuation",
        path, part, what);
}

/* ---- the vocabulary ---- */

const char *
shown_id(const json_t *id, char out[static SHOWN_ID])
{
    char *text = id ? json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    snprintf(out, SHOWN_ID, "%s", text ? text : "(none)");
    free(text);
    return out;
}

/* Reads an id. E_ARG: the id is no integer, or far larger than ntoken tokens need. */
static int
check_id(const char *path, const char *token, const json_t *id, size_t ntoken)
{
    char text[SHOWN_ID];
    if (json_is_integer(id)) return tokenizer_check_id(path, token, json_integer_value(id), ntoken);
    return fail(E_ARG, "%s: the id of the token '%.100s' must be an integer, found %s", path, token,
                shown_id(id, text));
}

/* Returns a map from the texts of added tokens to ids. The vocabulary may also list added tokens, as plain text
 * instead of in byte-level encoding. */
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

static int
read_vocabulary(struct tokenizer *t, const char *path, json_t *vocab, const json_t *added)
{
    const char *text;
    json_t *id;
    size_t ntoken = json_object_size(vocab);
    if (!json_is_object(vocab)) return fail(E_ARG, "%s: the model has no vocab", path);
    json_object_foreach(vocab, text, id)
    {
        size_t n = strlen(text);
        uint8_t *bytes = must_realloc(NULL, n + 1);
        int status = check_id(path, text, id, ntoken);
        const json_t *own = json_object_get(added, text);
        /* an added token has the bytes of its text, and merges never make it */
        bool spelled = alphabet_read(text, bytes, &n);
        if (own && json_equal(own, id)) spelled = spelled && n == strlen(text);
        if (!spelled) n = strlen(text);
        if (!status && n &&
            !bpe_add(&t->bpe, (uint32_t)json_integer_value(id), spelled ? (const void *)bytes : text, n, spelled))
            status = fail(E_ARG, "%s: two tokens have id %lld; one is '%.100s'", path,
                          (long long)json_integer_value(id), text);
        free(bytes);
        TRY(status);
    }
    return 0;
}

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

/* Reads the model. Checks its kind first, because other errors in a model of an unsupported kind would not help the
 * user. */
static int
check_model(const char *path, json_t *model)
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
    return 0;
}

static int
read_model(struct tokenizer *t, const char *path, json_t *model, const json_t *added)
{
    json_t *ids = added_ids(added);
    t->bpe.whole_piece = json_is_true(json_object_get(model, "ignore_merges"));
    int status = read_vocabulary(t, path, json_object_get(model, "vocab"), ids);
    json_decref(ids);
    TRY(status);
    return read_merges(t, path, json_object_get(model, "vocab"), json_object_get(model, "merges"));
}

/* ---- added tokens ---- */

static int
read_one_added(struct tokenizer *t, const char *path, const json_t *part)
{
    const json_t *id = json_object_get(part, "id"), *normalized = json_object_get(part, "normalized");
    const char *text = json_string_value(json_object_get(part, "content"));
    if (!text) return fail(E_ARG, "%s: an added token has no content", path);
    TRY(check_id(path, text, id, t->bpe.ndistinct));
    return tokenizer_special(t, path,
                             &(struct special){text, strlen(text), (uint32_t)json_integer_value(id),
                                               .control = json_is_true(json_object_get(part, "special")),
                                               .normalized = json_is_true(normalized),
                                               .left = json_is_true(json_object_get(part, "lstrip")),
                                               .right = json_is_true(json_object_get(part, "rstrip")),
                                               .word = json_is_true(json_object_get(part, "single_word"))});
}

static int
read_added(struct tokenizer *t, const char *path, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) TRY(read_one_added(t, path, json_array_get(list, i)));
    return 0;
}

static int
read_root(struct tokenizer *t, const char *path, const json_t *root)
{
    json_t *model = json_object_get(root, "model");
    const char *version = json_string_value(json_object_get(root, "version"));
    if (version && strcmp(version, "1.0")) return fail(E_ARG, "%s: version %s, expected 1.0", path, version);
    if (!json_is_object(model)) return fail(E_ARG, "%s: model is missing", path);
    TRY(check_model(path, model));
    TRY(read_parts(t, path, root));
    TRY(read_model(t, path, model, json_object_get(root, "added_tokens")));
    TRY(read_added(t, path, json_object_get(root, "added_tokens")));
    return read_template(t, path, root);
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
