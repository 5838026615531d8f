/* tokenizer_parts.c - reads the parts of tokenizer.json besides the vocabulary: normal forms, steps that split text,
 * templates.
 *
 * A table lists the types of each part; an unknown type is an error that names it. */
#include "runtime/base/error.h"
#include "runtime/text/tokenizer_json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const part_names[NPARTS] = {[PART_NORMALIZER] = "normalizer",
                                        [PART_CUTTER] = "pre_tokenizer",
                                        [PART_TEMPLATE] = "post_processor",
                                        [PART_TRUNCATION] = "truncation",
                                        [PART_PADDING] = "padding"};

/* The reader for one type of a part. A table of readers ends with type NULL. */
struct part_kind {
    const char *type;
    int (*read)(struct tokenizer *t, const char *path, const json_t *part);
};

static int
read_tokenizer_part(struct tokenizer *t, const char *path, enum part which, const struct part_kind *kind,
                    const json_t *part)
{
    for (; kind->type; kind++)
        if (!strcmp(kind->type, type_of_part(part))) return kind->read(t, path, part);
    return refuse(path, part_names[which], type_of_part(part));
}

static int
read_part_list(struct tokenizer *t, const char *path, enum part which, const struct part_kind *kind, const json_t *list)
{
    if (!json_is_array(list)) return refuse(path, part_names[which], "Sequence without a list");
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_tokenizer_part(t, path, which, kind, json_array_get(list, i)));
    return 0;
}

/* ---- normal forms ---- */

static int
read_form(struct tokenizer *t, const char *path, const json_t *part)
{
    if (t->nform == MAX_FORMS) return fail(E_ARG, "%s: more than %d normalizers", path, MAX_FORMS);
    t->form[t->nform++] = normal_find(type_of_part(part));
    return 0;
}

static int read_forms(struct tokenizer *t, const char *path, const json_t *part);
static const struct part_kind forms[] = {{"NFC", read_form},  {"NFD", read_form},       {"NFKC", read_form},
                                         {"NFKD", read_form}, {"Sequence", read_forms}, {0}};

static int
read_forms(struct tokenizer *t, const char *path, const json_t *part)
{
    return read_part_list(t, path, PART_NORMALIZER, forms, json_object_get(part, "normalizers"));
}

/* ---- splitting ---- */

/* Adds a step that splits text. A step after ByteLevel is rejected, because ByteLevel spells bytes as characters,
 * and the step would split that spelling. */
static int
parse_step(struct tokenizer *t, const char *path, const json_t *part, const struct split_step *step)
{
    if (t->spelled) return refuse(path, "pre_tokenizer after ByteLevel", type_of_part(part));
    return splitter_add(t->splitter, path, step);
}

static int
read_byte_level(struct tokenizer *t, const char *path, const json_t *part)
{
    struct split_step step = {.pattern = json_is_false(json_object_get(part, "use_regex")) ? NULL : split_gpt2,
                              .space = !json_is_false(json_object_get(part, "add_prefix_space"))};
    TRY(parse_step(t, path, part, &step));
    t->spelled = true;
    return 0;
}

static int
read_manner(const char *path, const json_t *part, enum split_manner *out)
{
    const char *name = json_string_value(json_object_get(part, "behavior"));
    int manner = name ? split_manner(name) : -1;
    *out = (enum split_manner)MAX(manner, 0);
    return manner < 0 ? refuse(path, "a behavior", name ? name : "(none)") : 0;
}

/* Writes a pattern that matches exactly this text. */
static void
spell_text(const char *text, struct str *out)
{
    for (const char *p = text; *p; p++) {
        if (ispunct((unsigned char)*p) || isspace((unsigned char)*p)) str_add(out, "\\");
        str_addn(out, p, 1);
    }
}

static int
read_split(struct tokenizer *t, const char *path, const json_t *part)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text = json_string_value(json_object_get(pattern, "String"));
    struct str spelled = {0};
    struct split_step step = {.invert = json_is_true(json_object_get(part, "invert")), .dialect = DIALECT_ONIGURUMA};
    if (!regex && (!text || !*text)) return refuse(path, "a Split", "without a pattern");
    TRY(read_manner(path, part, &step.manner));
    /* inverting changes nothing here, because matches and gaps are both kept */
    if (step.invert && step.manner == SPLIT_ISOLATED) step.invert = false;
    if (text) spell_text(text, &spelled);
    step.pattern = regex ? regex : str_text(&spelled);
    int status = parse_step(t, path, part, &step);
    str_free(&spelled);
    return status;
}

static int
read_digits(struct tokenizer *t, const char *path, const json_t *part)
{
    bool each = json_is_true(json_object_get(part, "individual_digits"));
    return parse_step(t, path, part, &(struct split_step){.pattern = each ? "\\p{N}" : "\\p{N}+"});
}

static int
read_punctuation(struct tokenizer *t, const char *path, const json_t *part)
{
    struct split_step step = {.pattern = "[\\p{P}$+<=>^`|~]"};
    if (json_object_get(part, "behavior")) TRY(read_manner(path, part, &step.manner));
    return parse_step(t, path, part, &step);
}

static int read_cutters(struct tokenizer *t, const char *path, const json_t *part);
static const struct part_kind cutters[] = {{"ByteLevel", read_byte_level}, {"Split", read_split},
                                           {"Digits", read_digits},        {"Punctuation", read_punctuation},
                                           {"Sequence", read_cutters},     {0}};

static int
read_cutters(struct tokenizer *t, const char *path, const json_t *part)
{
    return read_part_list(t, path, PART_CUTTER, cutters, json_object_get(part, "pretokenizers"));
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
    const json_t *normalizer = json_object_get(root, "normalizer"), *cutter = json_object_get(root, "pre_tokenizer");
    const json_t *decoder = json_object_get(root, "decoder");
    if (json_is_object(decoder) && strcmp(type_of_part(decoder), "ByteLevel"))
        return refuse(path, "decoder", type_of_part(decoder));
    if (normalizer && !json_is_null(normalizer)) TRY(read_tokenizer_part(t, path, PART_NORMALIZER, forms, normalizer));
    for (int i = 0; i < NPARTS; i++) keep_tokenizer_part(t, root, (enum part)i);
    TRY(read_tokenizer_part(t, path, PART_CUTTER, cutters, cutter));
    return t->spelled ? 0 : refuse(path, "pre_tokenizer without ByteLevel", type_of_part(cutter));
}

const char *
tokenizer_batches(const struct tokenizer *t)
{
    if (!t->part[PART_TRUNCATION]) return t->part[PART_PADDING] ? part_names[PART_PADDING] : NULL;
    return t->part[PART_PADDING] ? "truncation and padding" : part_names[PART_TRUNCATION];
}

/* ---- templates around a text ---- */

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

/* Rejects a second template, because it would treat the pieces of the first as a pair of texts. */
static int
first_template(struct tokenizer *t, const char *path)
{
    if (t->templated) return refuse(path, "post_processor", "a second template");
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
            if (behind) return refuse(path, "post_processor", "a template with the text twice");
            behind = true;
            continue;
        }
        const char *name = json_string_value(json_object_get(special, "id"));
        const json_t *ids = json_object_get(name ? json_object_get(names, name) : NULL, "ids");
        if (!json_is_array(ids)) return refuse(path, "post_processor", "a template of unknown tokens");
        for (size_t k = 0; k < json_array_size(ids); k++)
            TRY(known_id(t, path, json_array_get(ids, k), behind ? &t->after : &t->before));
    }
    return behind ? 0 : refuse(path, "post_processor", "a template without the text");
}

/* Reads a template: {"cls": [text, id], "sep": [text, id]} */
static int
read_cls_sep(struct tokenizer *t, const char *path, const json_t *part)
{
    TRY(first_template(t, path));
    TRY(known_id(t, path, json_array_get(json_object_get(part, "cls"), 1), &t->before));
    return known_id(t, path, json_array_get(json_object_get(part, "sep"), 1), &t->after);
}

/* Ignores a part that only changes offsets, because Rille returns no offsets. */
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
