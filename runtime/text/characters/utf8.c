/* utf8.c - reads and writes the characters of UTF-8 text, and classifies them. */
#include "runtime/text/characters/utf8.h"

#include "runtime/text/characters/classes.h"

#include <utf8proc.h>

size_t
utf8_next(const uint8_t *text, size_t n, int32_t *c)
{
    utf8proc_ssize_t k = utf8proc_iterate(text, (utf8proc_ssize_t)MIN(n, (size_t)4), c);
    if (k > 0) return (size_t)k;
    *c = -1;
    return 1;
}

void
utf8_add(struct str *out, int32_t c)
{
    utf8proc_uint8_t bytes[4];
    str_addn(out, bytes, (size_t)utf8proc_encode_char(c, bytes));
}

bool
utf8_is_space(int32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    if (c < 0x2000) return c == 0x85 || c == 0xa0 || c == 0x1680;
    return c <= 0x200a || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool
utf8_is_control(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CO ||
           (k == UTF8PROC_CATEGORY_CF && !class_kept(c, KEPT_BY_BERT));
}

bool
utf8_is_accent(int32_t c)
{
    const int32_t spacing = 0x1734; /* Mc since Unicode 14 */
    return c == spacing || (utf8proc_category(c) == UTF8PROC_CATEGORY_MN && !class_kept(c, KEPT_BY_BERT));
}

bool
utf8_is_mark(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    bool mark = k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
    /* these two are letters since Unicode 12 */
    return c == 0x1cf2 || c == 0x1cf3 || (mark && !class_kept(c, KEPT_BY_STRIP));
}

void
utf8_add_lower(struct str *out, int32_t c)
{
    enum { DOTTED_I = 0x130 }; /* the only character whose lower-case form has two code points */
    int32_t small = utf8proc_tolower(c);
    if (c == DOTTED_I)
        str_add(out, "i\u0307");
    else
        utf8_add(out, small == c && c > 0x7f ? class_lower(c) : small);
}

size_t
utf8_grapheme(const uint8_t *text, size_t n)
{
    utf8proc_int32_t state = 0;
    int32_t last, now;
    size_t at = utf8_next(text, n, &last);
    while (at < n) {
        size_t k = utf8_next(text + at, n - at, &now);
        if (last < 0 || now < 0 || utf8proc_grapheme_break_stateful(last, now, &state)) break;
        last = now;
        at += k;
    }
    return at;
}
