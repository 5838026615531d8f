/* pretokenizers.c - reads the steps that split a text into pieces (tokenizer.json). */
#include "runtime/text/pretokenizers.h"
#include "runtime/base/error.h"
#include "runtime/text/tokenizer_parts.h"
#include "runtime/text/characters/utf8.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Adds a step. If an earlier step was ByteLevel, the new step splits pieces in which visible characters stand for
 * bytes, so the pieces are converted to that spelling first. */
static int
add_split_step(struct tokenizer *t, const char *path, const struct split_step *step)
{
    if (t->byte_level && !t->spelled) {
        t->spelled = true;
        TRY(splitter_add(t->splitter, path, &(struct split_step){.spell = true}));
    }
    return splitter_add(t->splitter, path, step);
}

static int
read_byte_level_splits(struct tokenizer *t, const char *path, const json_t *part)
{
    const struct split_step step = {
        .pattern = json_is_false(json_object_get(part, "use_regex")) ? NULL : split_gpt2,
        .prefix = json_is_false(json_object_get(part, "add_prefix_space")) ? SPLIT_NO_PREFIX : SPLIT_PREFIX_ALWAYS};
    if (t->byte_level) return part_refuse(path, "pre_tokenizer", "ByteLevel must occur only once");
    TRY(add_split_step(t, path, &step));
    t->byte_level = true;
    return 0;
}

static int
read_manner(const char *path, const json_t *part, enum split_manner *out)
{
    const char *name = json_string_value(json_object_get(part, "behavior"));
    int manner = name ? split_manner(name) : -1;
    *out = (enum split_manner)MAX(manner, 0);
    if (manner >= 0) return 0;
    return fail(
        E_ARG, "%s: behavior must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, found %.100s",
        path, name ? name : "none");
}

/* Writes a pattern that matches exactly this text, with special characters escaped. */
static void
spell_text(const char *text, struct str *out)
{
    for (const char *p = text; *p; p++) {
        if (ispunct((unsigned char)*p) || isspace((unsigned char)*p)) str_add(out, "\\");
        str_addn(out, p, 1);
    }
}

static const char no_pattern[] = "pattern must be {\"Regex\": ...} or a {\"String\": ...} that is not empty";

/* Returns the pattern of a step, given as {"Regex": pattern} or {"String": text}; NULL: none. spelled: memory for
 * a pattern that matches the text. */
static const char *
pattern_of(const json_t *pattern, struct str *spelled)
{
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text = json_string_value(json_object_get(pattern, "String"));
    if (!regex && (!text || !*text)) return NULL;
    if (!regex) spell_text(text, spelled);
    return regex ? regex : str_text(spelled);
}

int
replacer_new(const char *path, const json_t *pattern, struct splitter **out)
{
    struct str spelled = {0};
    struct split_step step = {.pattern = pattern_of(pattern, &spelled), .dialect = DIALECT_ONIGURUMA};
    *out = splitter_new();
    int status = step.pattern ? splitter_add(*out, path, &step) : part_refuse(path, "Replace", no_pattern);
    str_free(&spelled);
    if (status) splitter_free(out);
    return status;
}

static int
read_split(struct tokenizer *t, const char *path, const json_t *part)
{
    struct str spelled = {0};
    struct split_step step = {.invert = json_is_true(json_object_get(part, "invert")), .dialect = DIALECT_ONIGURUMA};
    step.pattern = pattern_of(json_object_get(part, "pattern"), &spelled);
    int status = step.pattern ? read_manner(path, part, &step.manner) : part_refuse(path, "Split", no_pattern);
    /* `invert` has no effect for SPLIT_ISOLATED, because matches and gaps are both kept as pieces */
    if (step.invert && step.manner == SPLIT_ISOLATED) step.invert = false;
    if (!status) status = add_split_step(t, path, &step);
    str_free(&spelled);
    return status;
}

static int
read_digits(struct tokenizer *t, const char *path, const json_t *part)
{
    /* Rust's digits: those of Unicode 17 */
    struct split_step step = {.pattern = "[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]"};
    if (!json_is_true(json_object_get(part, "individual_digits"))) step.manner = SPLIT_CONTIGUOUS;
    return add_split_step(t, path, &step);
}

/* Punctuation of PyPI's tokenizers, whose categories are those of Unicode 8: without newer characters, and with two
 * whose category has changed. */
static const char punctuation[] = "(?!["
                                  "\\x{61D}\\x{9FD}\\x{A76}\\x{C77}\\x{C84}\\x{1B4E}-\\x{1B4F}\\x{1B7D}-\\x{1B7F}"
                                  "\\x{2E43}-\\x{2E4F}\\x{2E52}-\\x{2E5D}\\x{10D6E}\\x{10EAD}\\x{10F55}-\\x{10F59}"
                                  "\\x{10F86}-\\x{10F89}\\x{113D4}-\\x{113D8}\\x{1144B}-\\x{1144F}\\x{1145A}-\\x{1145B}"
                                  "\\x{1145D}\\x{11660}-\\x{1166C}\\x{116B9}\\x{1183B}\\x{11944}-\\x{11946}\\x{119E2}"
                                  "\\x{11A3F}-\\x{11A46}\\x{11A9A}-\\x{11A9C}\\x{11A9E}-\\x{11AA2}\\x{11B00}-\\x{11B09}"
                                  "\\x{11BE1}\\x{11C41}-\\x{11C45}\\x{11C70}-\\x{11C71}\\x{11EF7}-\\x{11EF8}"
                                  "\\x{11F43}-\\x{11F4F}\\x{11FFF}\\x{12FF1}-\\x{12FF2}\\x{16D6D}-\\x{16D6F}"
                                  "\\x{16E97}-\\x{16E9A}\\x{16FE2}\\x{1E5FF}\\x{1E95E}-\\x{1E95F}"
                                  "])[\\p{P}\\x{166D}\\x{111C9}$+<=>^`|~]";

static int
read_punctuation(struct tokenizer *t, const char *path, const json_t *part)
{
    struct split_step step = {.pattern = punctuation};
    if (json_object_get(part, "behavior")) TRY(read_manner(path, part, &step.manner));
    return add_split_step(t, path, &step);
}

/* ---- splitting texts into words ---- */

static int
read_whitespace(struct tokenizer *t, const char *path, const json_t *part)
{
    UNUSED(part);
    return add_split_step(
        t, path,
        &(struct split_step){
            .pattern = "\\w+|[^\\w\\s]+", .manner = SPLIT_REMOVED, .dialect = DIALECT_RUST, .invert = true});
}

static int
read_whitespace_split(struct tokenizer *t, const char *path, const json_t *part)
{
    UNUSED(part);
    return add_split_step(t, path,
                          &(struct split_step){.pattern = "\\s", .manner = SPLIT_REMOVED, .dialect = DIALECT_RUST});
}

static int
read_bert_splits(struct tokenizer *t, const char *path, const json_t *part)
{
    TRY(read_whitespace_split(t, path, part));
    return read_punctuation(t, path, NULL);
}

static int
read_delimiter(struct tokenizer *t, const char *path, const json_t *part)
{
    struct str spelled = {0};
    const char *text;
    TRY(text_of_part(path, part, "delimiter", &text));
    if (!*text) return part_refuse(path, "CharDelimiterSplit", "delimiter must not be empty");
    spell_text(text, &spelled);
    int status = add_split_step(t, path, &(struct split_step){.pattern = str_text(&spelled), .manner = SPLIT_REMOVED});
    str_free(&spelled);
    return status;
}

static int
read_fixed_length(struct tokenizer *t, const char *path, const json_t *part)
{
    enum { MOST = 65535 }; /* PCRE2's limit of a repetition count */
    char pattern[32];
    const json_t *given = json_object_get(part, "length");
    json_int_t n = given ? json_integer_value(given) : 5;
    if (n < 1 || n > MOST)
        return fail(E_ARG, "%s: the length of FixedLength must be from 1 to %d, found %lld", path, MOST, (long long)n);
    snprintf(pattern, sizeof pattern, "(?s:.{1,%d})", (int)n);
    return add_split_step(t, path, &(struct split_step){.pattern = pattern});
}

/* ---- splitting texts by script (UnicodeScripts) ---- */

/* Splits between characters of different scripts. The scripts of Japanese and Chinese count as one; spaces and
 * characters without a script belong to the preceding piece. */
static int
read_scripts(struct tokenizer *t, const char *path, const json_t *part)
{
    UNUSED(part);
    return add_split_step(t, path, &(struct split_step){.scripts = true, .manner = SPLIT_REMOVED, .invert = true});
}

/* ---- marking spaces by U+2581 (Metaspace) ---- */

int
read_metaspace_settings(const char *path, const json_t *part, struct metaspace *out)
{
    static const char *const schemes[] = {
        [SPLIT_NO_PREFIX] = "never", [SPLIT_PREFIX_FIRST] = "first", [SPLIT_PREFIX_ALWAYS] = "always"};
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));
    int when = scheme ? -1 : json_is_false(json_object_get(part, "add_prefix_space")) ? 0 : SPLIT_PREFIX_ALWAYS;
    for (size_t i = 0; i < countof(schemes) && scheme; i++)
        if (!strcmp(schemes[i], scheme)) when = (int)i;
    if (when < 0) return fail(E_ARG, "%s: prepend_scheme must be always, first or never, found '%.100s'", path, scheme);
    TRY(text_of_part(path, part, "replacement", &out->mark));
    if (!*out->mark) return part_refuse(path, "Metaspace", "replacement must not be empty");
    out->when = (enum split_prefix)when;
    return 0;
}

static int
read_metaspace(struct tokenizer *t, const char *path, const json_t *part)
{
    struct metaspace m;
    struct str spelled = {0};
    if (t->byte_level) return part_refuse(path, "pre_tokenizer", "Metaspace must not follow ByteLevel");
    TRY(read_metaspace_settings(path, part, &m));
    spell_text(m.mark, &spelled);
    struct split_step step = {.manner = SPLIT_NEXT, .space = m.mark, .prefix = m.when};
    if (!json_is_false(json_object_get(part, "split"))) step.pattern = str_text(&spelled);
    int status = add_split_step(t, path, &step);
    str_free(&spelled);
    return status;
}

static int read_pretokenizers(struct tokenizer *t, const char *path, const json_t *part);
static const struct part_kind kinds[] = {{"ByteLevel", read_byte_level_splits},
                                         {"Split", read_split},
                                         {"Digits", read_digits},
                                         {"Punctuation", read_punctuation},
                                         {"Metaspace", read_metaspace},
                                         {"BertPreTokenizer", read_bert_splits},
                                         {"Whitespace", read_whitespace},
                                         {"WhitespaceSplit", read_whitespace_split},
                                         {"CharDelimiterSplit", read_delimiter},
                                         {"FixedLength", read_fixed_length},
                                         {"UnicodeScripts", read_scripts},
                                         {"Sequence", read_pretokenizers},
                                         {0}};

static int
read_pretokenizers(struct tokenizer *t, const char *path, const json_t *part)
{
    return read_part_list(t, path, PART_CUTTER, kinds, json_object_get(part, "pretokenizers"));
}

int
read_pretokenizer(struct tokenizer *t, const char *path, const json_t *part)
{
    return part && !json_is_null(part) ? read_tokenizer_part(t, path, PART_CUTTER, kinds, part) : 0;
}
