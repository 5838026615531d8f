/* tokenizer_parts.c - reads the parts of tokenizer.json other than the model.
 *
 * A table lists the types of each part; an unknown type is an error that names the type. */
#include "runtime/text/tokenizer_parts.h"
#include "runtime/base/error.h"
#include "runtime/text/pretokenizers.h"

#include <stdlib.h>
#include <string.h>

const char *const part_names[NPARTS] = {
    [PART_NORMALIZER] = "normalizer", [PART_CUTTER] = "pre_tokenizer",  [PART_TEMPLATE] = "post_processor",
    [PART_DECODER] = "decoder",       [PART_TRUNCATION] = "truncation", [PART_PADDING] = "padding"};

const char *
type_of_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "";
}

int
part_refuse(const char *path, const char *part, const char *why)
{
    return fail(E_ARG, "%s: %s: %s", path, part, why);
}

int
text_of_part(const char *path, const json_t *part, const char *name, const char **out)
{
    const json_t *text = json_object_get(part, name);
    *out = json_string_value(text);
    if (*out && strlen(*out) == json_string_length(text)) return 0;
    return fail(E_ARG, "%s: the %s of %s must be a string without zero bytes", path, name, type_of_part(part));
}

const struct part_kind *
find_kind(const char *path, const char *what, const struct part_kind *kinds, const char *type)
{
    struct str known = {0};
    for (const struct part_kind *k = kinds; k->type; k++)
        if (!strcmp(k->type, type)) return k;
    for (const struct part_kind *k = kinds; k->type; k++) str_addf(&known, "%s%s", k == kinds ? "" : ", ", k->type);
    if (*type)
        fail(E_ARG, "%s: unknown %s '%.100s'; supported: %s", path, what, type, str_text(&known));
    else
        fail(E_ARG, "%s: the %s must have a type; supported: %s", path, what, str_text(&known));
    str_free(&known);
    return NULL;
}

int
read_tokenizer_part(struct tokenizer *t, const char *path, enum part which, const struct part_kind *kinds,
                    const json_t *part)
{
    const struct part_kind *kind = find_kind(path, part_names[which], kinds, type_of_part(part));
    return kind ? kind->read(t, path, part) : E_ARG;
}

int
read_part_list(struct tokenizer *t, const char *path, enum part which, const struct part_kind *kinds,
               const json_t *list)
{
    if (!json_is_array(list)) return part_refuse(path, part_names[which], "Sequence must have a list of parts");
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_tokenizer_part(t, path, which, kinds, json_array_get(list, i)));
    return 0;
}

static void
keep_tokenizer_part(struct tokenizer *t, const json_t *root, enum part which)
{
    const json_t *part = json_object_get(root, part_names[which]);
    char *text = json_is_object(part) ? json_dumps(part, JSON_COMPACT) : NULL;
    t->part[which] = text ? arena_strdup(&t->bpe.arena, text) : NULL;
    free(text);
}

int
read_parts(struct tokenizer *t, const char *path, const json_t *root)
{
    for (int i = 0; i < NPARTS; i++) keep_tokenizer_part(t, root, (enum part)i);
    TRY(read_normalizer(t, path, json_object_get(root, "normalizer")));
    TRY(read_pretokenizer(t, path, json_object_get(root, "pre_tokenizer")));
    return read_decoder(t, path, json_object_get(root, "decoder"));
}

const char *
tokenizer_batches(const struct tokenizer *t)
{
    if (!t->part[PART_TRUNCATION]) return t->part[PART_PADDING] ? part_names[PART_PADDING] : NULL;
    return t->part[PART_PADDING] ? "truncation and padding" : part_names[PART_TRUNCATION];
}
