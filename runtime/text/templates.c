/* templates.c - reads the template of tokenizer.json: the tokens that are added before and after a text. */
#include "runtime/base/error.h"
#include "runtime/text/tokenizer_json.h"

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

int
read_template(struct tokenizer *t, const char *path, const json_t *root)
{
    const json_t *part = json_object_get(root, "post_processor");
    return json_is_object(part) ? read_tokenizer_part(t, path, PART_TEMPLATE, templates, part) : 0;
}
