/* normalizers.c - the steps that change a text before it is split, and the functions that read the steps from
 * tokenizer.json. */
#include "runtime/text/normalizers.h"

#include "runtime/base/error.h"
#include "runtime/text/characters/alphabet.h"
#include "runtime/text/characters/base64.h"
#include "runtime/text/characters/charsmap.h"
#include "runtime/text/characters/normal.h"
#include "runtime/text/pretokenizers.h"
#include "runtime/text/tokenizer_parts.h"
#include "runtime/text/characters/utf8.h"

#include <stdlib.h>
#include <string.h>

void
normalizers_add(struct normalizers *s, const struct normalizer *z)
{
    GROW(s->list, s->n + 1, s->capacity);
    s->list[s->n++] = *z;
}

void
normalizers_free(struct normalizers *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].release) s->list[i].release(s->list[i].state);
    free(s->list);
    *s = (struct normalizers){0};
}

int
normalizers_run(const struct normalizers *s, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    struct str last = {0};
    int status = 0;
    str_clear(out);
    str_addn(out, text, n);
    for (int i = 0; i < s->n && !status && out->len; i++) {
        struct str now = *out;
        *out = last;
        last = now;
        str_clear(out);
        status = s->list[i].apply(&s->list[i], (const uint8_t *)last.text, last.len, out, head);
    }
    str_free(&last);
    return status;
}

static int
add_step(struct tokenizer *t, int (*apply)(const struct normalizer *, const uint8_t *, size_t, struct str *, size_t *),
         void *state)
{
    normalizers_add(&t->normal, &(struct normalizer){.apply = apply, .state = state});
    return 0;
}

/* ---- converting texts to a normal form ---- */

static int
apply_form(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    if (*head && valid_utf8(text, *head) == *head) {
        struct str first = {0};
        normal_add(&first, *(const enum normal_form *)z->state, text, *head);
        *head = first.len;
        str_free(&first);
    }
    for (size_t at = 0; at < n;) {
        size_t good = valid_utf8(text + at, n - at);
        if (good)
            normal_add(out, *(const enum normal_form *)z->state, text + at, good);
        else
            str_addn(out, text + at, good = 1);
        at += good;
    }
    return 0;
}

static int
read_form(struct tokenizer *t, const char *path, const json_t *part)
{
    enum normal_form form = normal_find(type_of_part(part));
    UNUSED(path);
    return add_step(t, apply_form, arena_dup(&t->bpe.arena, &form, sizeof form));
}

/* ---- steps that change each character independently ---- */

/* Calls z->add for each valid character; copies other bytes. */
static int
apply_each(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    int32_t c;
    size_t old = *head;
    for (size_t at = 0, k; at < n; at += k) {
        k = utf8_next(text + at, n - at, &c);
        if (c < 0)
            str_addn(out, text + at, k);
        else
            z->add(out, c);
        if (at < old) *head = out->len;
    }
    return 0;
}

static int
add_character_step(struct tokenizer *t, void (*add)(struct str *out, int32_t c))
{
    normalizers_add(&t->normal, &(struct normalizer){.apply = apply_each, .add = add});
    return 0;
}

static void
add_unless_mark(struct str *out, int32_t c)
{
    if (!utf8_is_mark(c)) utf8_add(out, c);
}

/* The rules of "Nmt": drops control characters, and replaces other white space and invisible characters by a
 * space. */
static void
add_nmt(struct str *out, int32_t c)
{
    static const int32_t spaces[] = {0x1680, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f,
                                     0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd};
    bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r';
    for (size_t i = 0; i < countof(spaces); i++) space = space || c == spaces[i];
    if (space)
        str_add(out, " ");
    else if ((c >= ' ' || !c) && c != 0x7f && c != 0x8f && c != 0x9f)
        utf8_add(out, c);
}

static int
apply_bytes(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    UNUSED(z);
    alphabet_write(text, *head, out);
    size_t first = out->len;
    alphabet_write(text + *head, n - *head, out);
    *head = first;
    return 0;
}

static int
read_byte_level(struct tokenizer *t, const char *path, const json_t *part)
{
    UNUSED(path);
    UNUSED(part);
    return add_step(t, apply_bytes, NULL);
}

static int
read_plain(struct tokenizer *t, const char *path, const json_t *part)
{
    static const struct {
        const char *type;
        void (*add)(struct str *out, int32_t c);
    } kinds[] = {{"Lowercase", utf8_add_lower}, {"StripAccents", add_unless_mark}, {"Nmt", add_nmt}};
    UNUSED(path);
    for (size_t i = 0; i < countof(kinds); i++)
        if (!strcmp(kinds[i].type, type_of_part(part))) add_character_step(t, kinds[i].add);
    return 0;
}

/* ---- normalizing texts as BERT does ---- */

static void
add_clean(struct str *out, int32_t c)
{
    bool line = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xfffd || (!line && utf8_is_control(c))) return;
    utf8_add(out, utf8_is_space(c) ? ' ' : c);
}

static void
add_ideograph(struct str *out, int32_t c)
{
    static const int32_t blocks[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                                        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    bool within = false;
    for (size_t i = 0; i < countof(blocks); i++) within = within || (c >= blocks[i][0] && c <= blocks[i][1]);
    if (within) str_add(out, " ");
    utf8_add(out, c);
    if (within) str_add(out, " ");
}

static void
add_unless_accent(struct str *out, int32_t c)
{
    if (!utf8_is_accent(c)) utf8_add(out, c);
}

/* Returns an optional boolean setting of a step. */
static bool
flag_of(const json_t *part, const char *name, bool otherwise)
{
    const json_t *v = json_object_get(part, name);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static int
read_bert(struct tokenizer *t, const char *path, const json_t *part)
{
    enum normal_form apart = NORMAL_NFD;
    bool lower = flag_of(part, "lowercase", true);
    UNUSED(path);
    if (flag_of(part, "clean_text", true)) add_character_step(t, add_clean);
    if (flag_of(part, "handle_chinese_chars", true)) add_character_step(t, add_ideograph);
    if (flag_of(part, "strip_accents", lower)) {
        add_step(t, apply_form, arena_dup(&t->bpe.arena, &apart, sizeof apart));
        add_character_step(t, add_unless_accent);
    }
    return lower ? add_character_step(t, utf8_add_lower) : 0;
}

/* ---- reading and applying steps with settings ---- */

struct ends {
    bool left, right;
};

static int
apply_strip(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    const struct ends *ends = z->state;
    size_t from = ends->left ? text_trim_left(text, n) : 0, to = ends->right ? text_trim_right(text, n) : n;
    *head = *head > from ? *head - from : 0;
    if (to > from) str_addn(out, text + from, to - from);
    return 0;
}

static int
read_strip(struct tokenizer *t, const char *path, const json_t *part)
{
    struct ends ends = {flag_of(part, "strip_left", true), flag_of(part, "strip_right", true)};
    UNUSED(path);
    return add_step(t, apply_strip, arena_dup(&t->bpe.arena, &ends, sizeof ends));
}

static int
apply_prepend(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    if (*head) *head += strlen(z->state);
    str_add(out, z->state);
    str_addn(out, text, n);
    return 0;
}

static int
read_prepend(struct tokenizer *t, const char *path, const json_t *part)
{
    const char *text;
    TRY(text_of_part(path, part, "prepend", &text));
    return add_step(t, apply_prepend, arena_strdup(&t->bpe.arena, text));
}

struct replacement {
    struct splitter *find;
    const char *with;
};

static int
apply_replace(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    const struct replacement *r = z->state;
    TRY(splitter_replace(r->find, text, *head, r->with, out));
    size_t first = out->len;
    str_clear(out);
    TRY(splitter_replace(r->find, text, n, r->with, out));
    *head = MIN(first, out->len);
    return 0;
}

static void
replacement_release(void *state)
{
    struct replacement *r = state;
    splitter_free(&r->find);
}

static int
read_replace(struct tokenizer *t, const char *path, const json_t *part)
{
    struct replacement *r = ARENA_NEW(&t->bpe.arena, struct replacement);
    const char *with;
    TRY(text_of_part(path, part, "content", &with));
    r->with = arena_strdup(&t->bpe.arena, with);
    TRY(replacer_new(path, json_object_get(part, "pattern"), &r->find));
    normalizers_add(&t->normal,
                    &(struct normalizer){.apply = apply_replace, .release = replacement_release, .state = r});
    return 0;
}

/* ---- SentencePiece's map of characters, applied to grapheme clusters, as Hugging Face's tokenizers library does
 * ---- */

static void
add_mapped(const struct charsmap *m, const uint8_t *text, size_t n, struct str *out)
{
    enum { LONGEST_CLUSTER = 5 };
    size_t length;
    int32_t c;
    const char *to = n <= LONGEST_CLUSTER ? charsmap_find(m, text, n, false, &length) : NULL;
    if (to) {
        str_add(out, to);
        return;
    }
    for (size_t at = 0, k; at < n; at += k) {
        k = utf8_next(text + at, n - at, &c);
        to = charsmap_find(m, text + at, k, false, &length);
        if (to)
            str_add(out, to);
        else
            str_addn(out, text + at, k);
    }
}

static int
apply_charsmap(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head)
{
    size_t old = *head;
    int32_t c;
    for (size_t at = 0, k; at < n; at += k) {
        k = utf8_grapheme(text + at, n - at);
        add_mapped(z->state, text + at, k, out);
        if (!old) continue;
        *head = k == old || !out->len ? out->len : utf8_next((const uint8_t *)out->text, out->len, &c);
        if (out->len) old = 0; /* if the first character is dropped, the next one counts as the first */
    }
    return 0;
}

static int
read_precompiled(struct tokenizer *t, const char *path, const json_t *part)
{
    const char *text;
    const struct charsmap *map;
    TRY(text_of_part(path, part, "precompiled_charsmap", &text));
    size_t n = strlen(text);
    uint8_t *bytes = must_alloc(n + 1);
    int status = base64_read(text, n, bytes, &n)
                     ? charsmap_new(path, bytes, n, &t->bpe.arena, &map)
                     : fail(E_ARG, "%s: the normalizer's precompiled_charsmap is not base64", path);
    free(bytes);
    return status ? status : add_step(t, apply_charsmap, (void *)(uintptr_t)map);
}

static int read_normalizers(struct tokenizer *t, const char *path, const json_t *part);
static const struct part_kind kinds[] = {{"NFC", read_form},
                                         {"NFD", read_form},
                                         {"NFKC", read_form},
                                         {"NFKD", read_form},
                                         {"Lowercase", read_plain},
                                         {"StripAccents", read_plain},
                                         {"Nmt", read_plain},
                                         {"ByteLevel", read_byte_level},
                                         {"BertNormalizer", read_bert},
                                         {"Strip", read_strip},
                                         {"Prepend", read_prepend},
                                         {"Replace", read_replace},
                                         {"Precompiled", read_precompiled},
                                         {"Sequence", read_normalizers},
                                         {0}};

static int
read_normalizers(struct tokenizer *t, const char *path, const json_t *part)
{
    return read_part_list(t, path, PART_NORMALIZER, kinds, json_object_get(part, "normalizers"));
}

int
read_normalizer(struct tokenizer *t, const char *path, const json_t *part)
{
    return part && !json_is_null(part) ? read_tokenizer_part(t, path, PART_NORMALIZER, kinds, part) : 0;
}
