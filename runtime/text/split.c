/* split.c - text cut into pieces by a pattern. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/split.h"

#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/str.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* As GPT-2 has it (its ByteLevel pre-tokenizer), and as GPT-4 has it. */
const char split_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char split_cl100k[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                            " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

enum { PATTERNS = 8, STACK = 1 << 20, MAX_PATTERN = 1 << 16 };

struct splitter {
    int n;
    pcre2_code *code[PATTERNS];
    pcre2_match_data *match[PATTERNS];
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    bool jit;
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
        pcre2_match_data_free(s->match[i]);
        pcre2_code_free(s->code[i]);
    }
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

/* \s and \S as Unicode has white space: PCRE2's own also takes U+180E. */
static void
spell_spaces(const char *pattern, struct str *out)
{
    for (const char *p = pattern; *p; p++) {
        if (*p != '\\' || !p[1])
            str_addn(out, p, 1);
        else if (p[1] == 's' || p[1] == 'S')
            str_add(out, *++p == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        else
            str_addn(out, p++, 2);
    }
}

static int
does_not_compile(const char *name, int code, size_t at)
{
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(code, text, sizeof text);
    return fail(E_ARG, "%s: the pattern does not compile: %s, at %zu", name, (const char *)text, at);
}

int
splitter_add(struct splitter *s, const char *name, const char *pattern)
{
    struct str spelled = {0};
    int code;
    size_t at;
    if (s->n == PATTERNS) return fail(E_ARG, "%s: more than %d patterns", name, PATTERNS);
    if (strlen(pattern) > MAX_PATTERN) return fail(E_ARG, "%s: the pattern is longer than %d bytes", name, MAX_PATTERN);
    spell_spaces(pattern, &spelled);
    pcre2_code *c =
        pcre2_compile((PCRE2_SPTR)str_text(&spelled), spelled.len,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    str_free(&spelled);
    if (!c) return does_not_compile(name, code, at);
    s->jit = pcre2_jit_compile(c, PCRE2_JIT_COMPLETE) == 0 && s->jit;
    s->code[s->n] = c;
    s->match[s->n++] = pcre2_match_data_create(1, NULL);
    return 0;
}

/* ---- cutting ---- */

struct cut { /* where pieces go */
    struct splitter *s;
    void (*piece)(void *arg, const uint8_t *bytes, size_t n);
    void *arg;
};

/* By pattern k and those behind it. text is UTF-8. */
static int
cut_by(const struct cut *c, int k, const uint8_t *text, size_t n)
{
    const struct splitter *s = c->s;
    if (k == s->n) {
        if (n) c->piece(c->arg, text, n);
        return 0;
    }
    const size_t *span = pcre2_get_ovector_pointer(s->match[k]);
    for (size_t at = 0; at < n;) {
        int status =
            s->jit ? pcre2_jit_match(s->code[k], text, n, at, PCRE2_NOTEMPTY, s->match[k], s->context)
                   : pcre2_match(s->code[k], text, n, at, PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK, s->match[k], s->context);
        if (status < 0 && status != PCRE2_ERROR_NOMATCH)
            return fail(E_STATE, "tokenizer: its pattern takes too much work on this text (PCRE2 error %d)", status);
        size_t from = status < 0 ? n : span[0], to = status < 0 ? n : span[1];
        if (from > at) TRY(cut_by(c, k + 1, text + at, from - at));
        if (to > from) TRY(cut_by(c, k + 1, text + from, to - from));
        at = to;
    }
    return 0;
}

/* How many bytes of valid UTF-8 the text begins with: no surrogates, nothing overlong (Unicode, table 3-7). */
static size_t
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
splitter_run(struct splitter *s, const uint8_t *text, size_t n, void (*piece)(void *, const uint8_t *, size_t),
             void *arg)
{
    struct cut c = {s, piece, arg};
    while (n) {
        size_t good = valid_utf8(text, n), bad = good;
        TRY(cut_by(&c, 0, text, good));
        while (bad < n && valid_utf8(text + bad, MIN(n - bad, (size_t)4)) == 0) bad++;
        if (bad > good) piece(arg, text + good, bad - good);
        text += bad;
        n -= bad;
    }
    return 0;
}
