/* split.c - splits text into pieces by patterns. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/encode/split.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/stop.h"
#include "runtime/text/characters/alphabet.h"
#include "runtime/text/characters/classes.h"
#include "runtime/text/characters/utf8.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* The pattern of GPT-2, which its ByteLevel pre-tokenizer also uses. */
const char split_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

enum { STEPS = 16, STACK = 1 << 20, MAX_PATTERN = 1 << 16 };

static const char *const manners[] = {
    [SPLIT_ISOLATED] = "Isolated",   [SPLIT_REMOVED] = "Removed",       [SPLIT_PREVIOUS] = "MergedWithPrevious",
    [SPLIT_NEXT] = "MergedWithNext", [SPLIT_CONTIGUOUS] = "Contiguous",
};

int
split_manner(const char *name)
{
    for (size_t i = 0; i < countof(manners); i++)
        if (!strcmp(manners[i], name)) return (int)i;
    return -1;
}

struct step {
    struct split_step how; /* options of the step; how.pattern is NULL, because `code` is the compiled pattern */
    char *space;           /* copy of how.space, owned by the step */
    pcre2_code *code;      /* compiled pattern; NULL: the step does not split */
    pcre2_code *exact;     /* compiled pattern for texts with newer characters; NULL: `code` is for all texts */
    pcre2_match_data *match;
};
struct splitter {
    int n;
    struct step step[STEPS];
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    bool jit;
    bool newer;    /* true: the text has characters that are newer than Unicode 14 */
    int64_t since; /* bytes of text processed since the last check for cancellation */
};

struct splitter *
splitter_new(void)
{
    struct splitter *s = must_alloc(sizeof *s);
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(32 << 10, STACK, NULL);
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
    s->jit = true;
    return s;
}

void
splitter_free(struct splitter **sp)
{
    struct splitter *s = *sp;
    *sp = NULL;
    if (!s) return;
    for (int i = 0; i < s->n; i++) {
        pcre2_match_data_free(s->step[i].match);
        pcre2_code_free(s->step[i].code);
        pcre2_code_free(s->step[i].exact);
        free(s->step[i].space);
    }
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

static int
does_not_compile(const char *name, int code, size_t at)
{
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(code, text, sizeof text);
    return fail(E_ARG, "%s: the pattern does not compile: %s, at byte %zu of the pattern", name, (const char *)text,
                at);
}

static int
compile_pattern(struct splitter *s, const char *name, struct str *text, enum dialect dialect, pcre2_code **out)
{
    int code;
    size_t at;
    *out = pcre2_compile((PCRE2_SPTR)str_text(text), text->len,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C |
                             (dialect == DIALECT_ONIGURUMA ? PCRE2_MULTILINE : PCRE2_DOLLAR_ENDONLY),
                         &code, &at, NULL);
    if (!*out) return does_not_compile(name, code, at);
    s->jit = pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE) == 0 && s->jit;
    return 0;
}

static int
compile_step(struct splitter *s, const char *name, const struct split_step *step, struct step *out)
{
    struct str spelled = {0}, newer = {0};
    if (strlen(step->pattern) > MAX_PATTERN)
        return fail(E_ARG, "%s: the pattern is longer than %d bytes", name, MAX_PATTERN);
    const char *part = pattern_foreign(step->pattern, step->dialect);
    if (part) return fail(E_ARG, "%s: the pattern has %s, which is not supported: %.200s", name, part, step->pattern);
    pattern_spell(step->pattern, step->dialect, false, &spelled);
    pattern_spell(step->pattern, step->dialect, true, &newer);
    int status = compile_pattern(s, name, &spelled, step->dialect, &out->code);
    if (!status && strcmp(str_text(&spelled), str_text(&newer)))
        status = compile_pattern(s, name, &newer, step->dialect, &out->exact);
    str_free(&spelled);
    str_free(&newer);
    if (status)
        pcre2_code_free(out->code);
    else
        out->match = pcre2_match_data_create(1, NULL);
    return status;
}

int
splitter_add(struct splitter *s, const char *name, const struct split_step *step)
{
    struct step made = {.how = *step};
    if (s->n == STEPS) return fail(E_ARG, "%s: more than %d steps split text", name, STEPS);
    if (step->pattern) TRY(compile_step(s, name, step, &made));
    made.how.pattern = NULL;
    made.how.space = made.space = step->space ? must_copy(step->space, strlen(step->space) + 1) : NULL;
    s->step[s->n++] = made;
    return 0;
}

/* ---- splitting a text: each step splits the pieces of the step before ---- */

struct cut { /* the function that receives the pieces, and its argument */
    struct splitter *s;
    void (*piece)(void *arg, const uint8_t *bytes, size_t n);
    void *arg;
};

/* State of a step's search for matches. */
struct search {
    size_t at;   /* position where the search continues */
    size_t last; /* end of the last match */
    bool found;  /* true: a match was found */
};

/* Finds the first characters of one script from position *to on. Characters of no script belong to the match if they
 * follow its first character. */
static void
find_script(const uint8_t *text, size_t n, size_t *from, size_t *to)
{
    int script = -1;
    int32_t c;
    for (size_t k; *to < n; *to += k) {
        k = utf8_next(text + *to, n - *to, &c);
        int own = class_script(c);
        if (own < 0 || own == script) continue;
        if (script >= 0) return;
        script = own;
        *from = *to;
    }
    if (script < 0) *from = n;
}

/* Finds the next match of step k in the text from position `at` on; *from = *to = n: there is no further match. */
static int
match_from(struct splitter *s, int k, const uint8_t *text, size_t n, size_t at, size_t *from, size_t *to)
{
    const struct step *step = &s->step[k];
    if (step->how.scripts) {
        *to = at;
        find_script(text, n, from, to);
        return stop_caller_after(&s->since, (int64_t)(*to - at) + 1);
    }
    const pcre2_code *code = s->newer && step->exact ? step->exact : step->code;
    int status = s->jit ? pcre2_jit_match(code, text, n, at, 0, step->match, s->context)
                        : pcre2_match(code, text, n, at, PCRE2_NO_UTF_CHECK, step->match, s->context);
    if (status < 0 && status != PCRE2_ERROR_NOMATCH)
        return fail(E_STATE, "tokenizer: the pattern is too slow on this text (PCRE2 error %d)", status);
    const size_t *span = pcre2_get_ovector_pointer(step->match);
    *from = status < 0 ? n : span[0];
    *to = status < 0 ? n : span[1];
    return stop_caller_after(&s->since, (int64_t)(*to - at) + 1);
}

/* Finds the next match. As other tokenizers do, skips an empty match at the end of the last match, and continues
 * one character later. Finds no match at the end of the text. */
static int
match_next(struct splitter *s, int k, const uint8_t *text, size_t n, struct search *at, size_t *from, size_t *to)
{
    for (;;) {
        *from = *to = n;
        if (at->at < n) TRY(match_from(s, k, text, n, at->at, from, to));
        if (*from == n || *to > *from || !at->found || *to != at->last) break;
        do at->at++;
        while (at->at < n && (text[at->at] & 0xc0) == 0x80);
    }
    *at = (struct search){*to, *to, true};
    return 0;
}

/* Returns `head` (the number of bytes at the start of a text that belong to the first character of the user's
 * string) for the text without its first n bytes. */
static size_t
head_after(size_t head, size_t n)
{
    return head > n ? head - n : 0;
}

/* Returns true if a valid UTF-8 text has a character that is newer than Unicode 14. */
static bool
has_newer(const uint8_t *text, size_t n)
{
    int32_t c;
    for (size_t at = 0; at < n;) {
        if (text[at] < 0xe0)
            at++; /* a byte of a character below U+0800, where no character is newer */
        else if (at += utf8_next(text + at, n - at, &c), class_newer(c))
            return true;
    }
    return false;
}

static int cut_by(const struct cut *c, int k, const uint8_t *text, size_t n, size_t head);

static int
cut_isolated(const struct cut *c, int k, const uint8_t *text, size_t n, size_t head)
{
    struct search search = {0};
    for (size_t at = 0, from, to; at < n; at = to) {
        TRY(match_next(c->s, k, text, n, &search, &from, &to));
        if (from > at) TRY(cut_by(c, k + 1, text + at, from - at, head_after(head, at)));
        if (to > from) TRY(cut_by(c, k + 1, text + from, to - from, head_after(head, from)));
    }
    return 0;
}

struct span {
    size_t from, to;
    bool hit; /* true: the piece is a match, possibly empty (with `invert`: a gap) */
};
struct spans {
    struct span *list;
    size_t n, capacity;
};

static void
spans_add(struct spans *s, size_t from, size_t to, bool hit)
{
    GROW(s->list, s->n + 1, s->capacity);
    s->list[s->n++] = (struct span){from, to, hit};
}

/* Returns true if piece i is merged with the piece before. SPLIT_PREVIOUS merges a match with the gap before it,
 * SPLIT_NEXT with the gap after it; SPLIT_CONTIGUOUS merges neighbours of one kind. */
static bool
joins_previous(const struct spans *s, enum split_manner manner, size_t i)
{
    const struct span *list = s->list;
    if (i == 0) return false;
    if (manner == SPLIT_CONTIGUOUS) return list[i].hit == list[i - 1].hit;
    if (manner == SPLIT_PREVIOUS) return list[i].hit && !list[i - 1].hit;
    if (manner == SPLIT_NEXT) return list[i - 1].hit && !list[i].hit;
    return false;
}

static int
cut_spans(const struct cut *c, int k, const uint8_t *text, const struct spans *s, size_t head)
{
    enum split_manner manner = c->s->step[k].how.manner;
    for (size_t i = 0, end; i < s->n; i = end) {
        for (end = i + 1; end < s->n && joins_previous(s, manner, end);) end++;
        size_t from = s->list[i].from, to = s->list[end - 1].to;
        if (from == to || (manner == SPLIT_REMOVED && s->list[i].hit)) continue;
        TRY(cut_by(c, k + 1, text + from, to - from, head_after(head, from)));
    }
    return 0;
}

static int
cut_in_a_manner(const struct cut *c, int k, const uint8_t *text, size_t n, size_t head)
{
    struct spans s = {0};
    struct search search = {0};
    bool invert = c->s->step[k].how.invert;
    int status = 0;
    for (size_t at = 0, from, to; !status && at < n; at = to) {
        status = match_next(c->s, k, text, n, &search, &from, &to);
        if (from > at) spans_add(&s, at, from, invert);
        if (!status && from < n) spans_add(&s, from, to, !invert);
    }
    if (!status) status = cut_spans(c, k, text, &s, head);
    free(s.list);
    return status;
}

/* Splits a text by the pattern of step k. The changes of step k have already been made. */
static int
cut_by_pattern(const struct cut *c, int k, const uint8_t *text, size_t n, size_t head)
{
    const struct step *step = &c->s->step[k];
    if (!step->code && !step->how.scripts) return cut_by(c, k + 1, text, n, head);
    return step->how.manner == SPLIT_ISOLATED ? cut_isolated(c, k, text, n, head)
                                              : cut_in_a_manner(c, k, text, n, head);
}

/* Applies the changes of a step to a piece, and appends the result. */
static void
change_piece(const struct split_step *how, const uint8_t *text, size_t n, size_t head, struct str *out)
{
    const char *space = how->space ? how->space : " ";
    size_t k = strlen(space);
    bool has = (how->space && text[0] == ' ') || (n >= k && !memcmp(text, space, k));
    if (!has && (how->prefix == SPLIT_PREFIX_ALWAYS || (how->prefix == SPLIT_PREFIX_FIRST && head > 0)))
        str_add(out, space);
    for (size_t at = 0, end; at < n; at = end) {
        const uint8_t *next = how->space ? memchr(text + at, ' ', n - at) : NULL;
        end = next ? (size_t)(next - text) + 1 : n;
        if (how->spell)
            alphabet_write(text + at, end - at, out);
        else
            str_addn(out, text + at, end - at - (next ? 1 : 0));
        if (next) str_add(out, how->space);
    }
}

static int
cut_changed(const struct cut *c, int k, const uint8_t *text, size_t n, size_t head)
{
    struct str changed = {0};
    change_piece(&c->s->step[k].how, text, n, head, &changed);
    int status = cut_by_pattern(c, k, (const uint8_t *)str_text(&changed), changed.len, head);
    str_free(&changed);
    return status;
}

/* Splits a text by step k and all later steps. text: valid UTF-8, not empty. */
static int
cut_by(const struct cut *c, int k, const uint8_t *text, size_t n, size_t head)
{
    if (k == c->s->n) {
        c->piece(c->arg, text, n);
        return stop_caller_after(&c->s->since, (int64_t)n);
    }
    const struct split_step *how = &c->s->step[k].how;
    bool changes = how->space || how->spell || (how->prefix && text[0] != ' ');
    return changes ? cut_changed(c, k, text, n, head) : cut_by_pattern(c, k, text, n, head);
}

/* Appends a text of valid UTF-8, with each match of the first step replaced. */
static int
replace_matches(struct splitter *s, const uint8_t *text, size_t n, const char *with, struct str *out)
{
    struct search search = {0};
    s->newer = has_newer(text, n);
    for (size_t at = 0, from, to; at < n; at = to) {
        TRY(match_next(s, 0, text, n, &search, &from, &to));
        str_addn(out, text + at, from - at);
        if (from < n) str_add(out, with);
    }
    return 0;
}

int
splitter_replace(struct splitter *s, const uint8_t *text, size_t n, const char *with, struct str *out)
{
    for (size_t at = 0; at < n;) {
        size_t good = valid_utf8(text + at, n - at);
        if (good)
            TRY(replace_matches(s, text + at, good, with, out));
        else
            str_addn(out, text + at, good = 1);
        at += good;
    }
    return 0;
}

size_t
valid_utf8(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint8_t a = p[i];
        size_t more = a < 0x80                 ? 0
                      : a >= 0xc2 && a <= 0xdf ? 1
                      : a >= 0xe0 && a <= 0xef ? 2
                      : a >= 0xf0 && a <= 0xf4 ? 3
                                               : 9;
        if (more == 9 || more > n - i - 1) return i;
        uint8_t least = a == 0xe0 ? 0xa0 : a == 0xf0 ? 0x90 : 0x80, most = a == 0xed ? 0x9f : a == 0xf4 ? 0x8f : 0xbf;
        for (size_t k = 1; k <= more; k++, least = 0x80, most = 0xbf)
            if (p[i + k] < least || p[i + k] > most) return i;
        i += more + 1;
    }
    return i;
}

int
splitter_run(struct splitter *s, const uint8_t *text, size_t n, size_t head,
             void (*piece)(void *, const uint8_t *, size_t), void *arg)
{
    struct cut c = {s, piece, arg};
    while (n) {
        size_t good = valid_utf8(text, n), bad = good;
        s->newer = has_newer(text, good);
        if (good) TRY(cut_by(&c, 0, text, good, head));
        while (bad < n && valid_utf8(text + bad, MIN(n - bad, (size_t)4)) == 0) bad++;
        if (bad > good) piece(arg, text + good, bad - good);
        TRY(stop_caller_after(&s->since, (int64_t)bad));
        text += bad;
        n -= bad;
        head = 0;
    }
    return 0;
}
