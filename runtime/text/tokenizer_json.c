/* tokenizer_json.c - reads Hugging Face's tokenizer.json.
 *
 * A part of an unknown type is an error that names the type, because a tokenizer that returns almost the right ids
 * is worse than none. */
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/tiktoken.h"
#include "runtime/text/tokenizer_parts.h"
#include "runtime/text/models.h"

#include "runtime/base/error.h"
#include "runtime/file/disk/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
known_id(const struct tokenizer *t, const char *path, const json_t *id, struct ids *out)
{
    char text[SHOWN_ID];
    json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= t->bpe.ntoken || !t->bpe.token[i].bytes)
        return fail(E_ARG, "%s: post_processor has id %s, which is not a token", path, shown_id(id, text));
    ids_add(out, (uint32_t)i);
    return 0;
}

/* Rejects a second template. Hugging Face's library would take a text and the tokens that the first template adds
 * for a pair of texts. */
static int
first_template(struct tokenizer *t, const char *path)
{
    if (t->templated) return part_refuse(path, "post_processor", "expected one template, found two");
    t->templated = true;
    return 0;
}

/* Reads a template: {"single": [{"SpecialToken": {"id": name}}, {"Sequence": ...}], "special_tokens": {name: {"ids":
 * [...]}}} */
static int
read_template_processing(struct tokenizer *t, const char *path, const json_t *part)
{
    const json_t *list = json_object_get(part, "single"), *names = json_object_get(part, "special_tokens");
    bool behind = false;
    TRY(first_template(t, path));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *piece = json_array_get(list, i), *special = json_object_get(piece, "SpecialToken");
        if (json_object_get(piece, "Sequence")) {
            if (behind) return part_refuse(path, "post_processor", "\"single\" must have one Sequence, found two");
            behind = true;
            continue;
        }
        const char *name = json_string_value(json_object_get(special, "id"));
        const json_t *ids = json_object_get(name ? json_object_get(names, name) : NULL, "ids");
        if (!name)
            return part_refuse(path, "post_processor",
                               "each element of \"single\" must be a Sequence, or a SpecialToken with an id");
        if (!json_is_array(ids))
            return fail(E_ARG,
                        "%s: post_processor: special_tokens must list the ids of '%.200s', "
                        "which \"single\" uses",
                        path, name);
        for (size_t k = 0; k < json_array_size(ids); k++)
            TRY(known_id(t, path, json_array_get(ids, k), behind ? &t->after : &t->before));
    }
    return behind ? 0 : part_refuse(path, "post_processor", "\"single\" must have one Sequence, found none");
}

/* Reads a template: {"cls": [text, id], "sep": [text, id]} */
static int
read_cls_sep(struct tokenizer *t, const char *path, const json_t *part)
{
    TRY(first_template(t, path));
    TRY(known_id(t, path, json_array_get(json_object_get(part, "cls"), 1), &t->before));
    return known_id(t, path, json_array_get(json_object_get(part, "sep"), 1), &t->after);
}

/* Ignores a post-processor that only changes offsets, because Rille returns no offsets. */
static int
read_nothing(struct tokenizer *t, const char *path, const json_t *part)
{
    (void)t, (void)path, (void)part;
    return 0;
}

static int read_templates(struct tokenizer *t, const char *path, const json_t *part);
static const struct part_kind templates[] = {{"TemplateProcessing", read_template_processing},
                                             {"ByteLevel", read_nothing},
                                             {"RobertaProcessing", read_cls_sep},
                                             {"BertProcessing", read_cls_sep},
                                             {"Sequence", read_templates},
                                             {0}};

static int
read_templates(struct tokenizer *t, const char *path, const json_t *part)
{
    return read_part_list(t, path, PART_TEMPLATE, templates, json_object_get(part, "processors"));
}

/* Reads the template (the ids added around a text). Call after the tokens were read. */
static int
read_template(struct tokenizer *t, const char *path, const json_t *root)
{
    const json_t *part = json_object_get(root, "post_processor");
    return json_is_object(part) ? read_tokenizer_part(t, path, PART_TEMPLATE, templates, part) : 0;
}

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
