/* str.c - a string that grows by doubling. */
#include "runtime/data/str.h"

#include "runtime/data/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
str_reserve(struct str *s, size_t n)
{
    if (s->capacity - s->len > n) return;
    s->capacity = MAX(2 * s->capacity, s->len + n + 1);
    s->capacity = MAX(s->capacity, (size_t)32);
    s->text = must_realloc(s->text, s->capacity);
}

void
str_addn(struct str *s, const void *bytes, size_t n)
{
    str_reserve(s, n);
    if (n) memcpy(s->text + s->len, bytes, n);
    s->len += n;
    s->text[s->len] = '\0';
}

void
str_add(struct str *s, const char *text)
{
    str_addn(s, text, strlen(text));
}

void
str_addf(struct str *s, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    assert(n >= 0);
    str_reserve(s, (size_t)n);
    vsnprintf(s->text + s->len, (size_t)n + 1, fmt, again);
    s->len += (size_t)n;
    va_end(again);
    va_end(ap);
}

void
str_add_int(struct str *s, int64_t x)
{
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = x < 0 ? -(uint64_t)x : (uint64_t)x;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (x < 0) *--at = '-';
    str_addn(s, at, (size_t)(digits + sizeof digits - at));
}

void
str_add_plain(struct str *s, const char *text)
{
    for (; *text; text++) {
        bool plain = *text >= ' ' && *text <= '~';
        str_addf(s, plain ? "%c" : "\\x%02x", (unsigned char)*text);
    }
}

void
str_pad(struct str *s, size_t column)
{
    size_t line = s->len;
    while (line > 0 && s->text[line - 1] != '\n') line--;
    while (s->len - line < column) str_addn(s, " ", 1);
}

const char *
str_text(const struct str *s)
{
    return s->text ? s->text : "";
}

void
str_cut(struct str *s, size_t len)
{
    s->len = len;
    if (s->text) s->text[len] = 0;
}

void
str_clear(struct str *s)
{
    s->len = 0;
    if (s->text) s->text[0] = '\0';
}

void
str_free(struct str *s)
{
    free(s->text);
    *s = (struct str){0};
}

bool
text_ends(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}
