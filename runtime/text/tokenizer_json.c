/* tokenizer_json.c - reads Hugging Face's tokenizer.json.
 *
 * A part of an unknown type is an error that names the type, because a tokenizer that returns almost the right ids
 * is worse than none. */
#include "runtime/text/tokenizer_json.h"

#include "runtime/base/error.h"
#include "runtime/file/disk/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 28 };

const char *
shown_id(const json_t *id, char out[static SHOWN_ID])
{
    char *text = id ? json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    snprintf(out, SHOWN_ID, "%s", text ? text : "(none)");
    free(text);
    return out;
}

int
check_id(const char *path, const char *token, const json_t *id, size_t ntoken)
{
    char text[SHOWN_ID];
    if (json_is_integer(id)) return tokenizer_check_id(path, token, json_integer_value(id), ntoken);
    return fail(E_ARG, "%s: the id of the token '%.100s' must be an integer, found %s", path, token,
                shown_id(id, text));
}

/* ---- reading added tokens ---- */

static int
read_one_added(struct tokenizer *t, const char *path, const json_t *part)
{
    const json_t *id = json_object_get(part, "id"), *normalized = json_object_get(part, "normalized");
    const json_t *content = json_object_get(part, "content");
    const char *text = json_string_value(content);
    if (!text) return fail(E_ARG, "%s: an added token has no content", path);
    TRY(check_id(path, text, id, t->bpe.ndistinct));
    return tokenizer_special(t, path,
                             &(struct special){text, json_string_length(content), (uint32_t)json_integer_value(id),
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

/* If the vocabulary is byte-level, adds a last step that replaces each byte by a visible character. */
static int
end_splitting(struct tokenizer *t, const char *path)
{
    if (!t->byte_level || t->spelled || !t->bpe.characters.on) return 0;
    t->spelled = true;
    return splitter_add(t->splitter, path, &(struct split_step){.spell = true});
}

static int
read_root(struct tokenizer *t, const char *path, const json_t *root)
{
    const char *version = json_string_value(json_object_get(root, "version"));
    if (version && strcmp(version, "1.0")) return fail(E_ARG, "%s: version %s, expected 1.0", path, version);
    if (!json_is_object(json_object_get(root, "model"))) return fail(E_ARG, "%s: model is missing", path);
    TRY(check_model(path, root));
    TRY(read_parts(t, path, root));
    TRY(read_model(t, path, root));
    TRY(end_splitting(t, path));
    TRY(read_added(t, path, json_object_get(root, "added_tokens")));
    return read_template(t, path, root);
}

/* Keeps the content of the file, if saving will write it unchanged. */
static void
keep_file(struct tokenizer *t, const char *text, size_t n)
{
    if (!t->bpe.characters.on) return;
    str_addn(&t->file, text, n);
    t->file_end = ".json";
}

int
tokenizer_read_json(struct tokenizer *t, const char *path)
{
    char *text;
    size_t n;
    TRY(source_whole(path, MAX_FILE, &text, &n));
    int status = tokenizer_read_text(t, path, text, n);
    free(text);
    return status;
}

int
tokenizer_read_text(struct tokenizer *t, const char *path, const char *text, size_t n)
{
    json_t *root = NULL;
    int status = json_text(path, text, n, &root);
    if (!status && json_object_get(root, "config") && !json_object_get(root, "model"))
        status = tokenizer_read_tekken(t, path, root);
    else if (!status)
        status = read_root(t, path, root);
    if (!status) keep_file(t, text, n);
    json_decref(root);
    return status;
}
