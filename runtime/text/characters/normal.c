/* normal.c - Unicode normalization.
 *
 * The normal form of an ASCII character is the character itself, which never composes with an earlier character. So
 * ASCII characters divide a text into stretches that are normalized independently. ASCII is copied. Each stretch of
 * other characters, together with the ASCII character before it, is decomposed, sorted and composed. Marks are
 * sorted by counting, because a run of marks may be as long as the text. */
#include "runtime/text/characters/normal.h"

#include "runtime/data/arena.h"
#include "runtime/text/characters/classes.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const struct {
    const char *name;
    /* utf8proc options for decomposition (apart) and composition (together); 0: the form does not include this
     * step */
    utf8proc_option_t apart, together;
} forms[] = {
    [NORMAL_NONE] = {"", 0, 0},
    [NORMAL_NFC] = {"NFC", UTF8PROC_DECOMPOSE, UTF8PROC_COMPOSE | UTF8PROC_STABLE},
    [NORMAL_NFD] = {"NFD", UTF8PROC_DECOMPOSE, 0},
    [NORMAL_NFKC] = {"NFKC", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, UTF8PROC_COMPOSE | UTF8PROC_STABLE},
    [NORMAL_NFKD] = {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, 0},
};

enum normal_form
normal_find(const char *name)
{
    for (size_t i = 1; i < countof(forms); i++)
        if (!strcmp(forms[i].name, name)) return (enum normal_form)i;
    return NORMAL_NONE;
}

/* A growing list of code points. */
struct points {
    utf8proc_int32_t *list, *sorted;
    size_t n, capacity;
};

static void
points_room(struct points *p, size_t more)
{
    if (p->n + more <= p->capacity) return;
    p->capacity = MAX(p->n + more, 2 * p->capacity);
    p->list = must_realloc(p->list, sizeof *p->list * p->capacity);
    p->sorted = must_realloc(p->sorted, sizeof *p->sorted * p->capacity);
}

static void
take_apart(struct points *p, utf8proc_option_t how, const uint8_t *text, size_t n)
{
    enum { LONGEST = 32 }; /* a character decomposes into at most 18 characters */
    p->n = 0;
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t c;
        at += (size_t)utf8proc_iterate(text + at, (utf8proc_ssize_t)(n - at), &c);
        points_room(p, LONGEST);
        size_t k = (size_t)utf8proc_decompose_char(c, p->list + p->n, LONGEST, how, NULL);
        if (p->list[p->n] != c && class_late(c)) p->list[p->n] = c, k = 1;
        p->n += k;
    }
}

static int
mark_class(utf8proc_int32_t c)
{
    int k = (int)utf8proc_get_property(c)->combining_class;
    return k && class_late(c) ? 0 : k;
}

/* Sorts the marks at positions from <= i < to by class. The sort is stable. */
static void
sort_run(struct points *p, size_t from, size_t to)
{
    size_t first[257] = {0};
    for (size_t i = from; i < to; i++) first[mark_class(p->list[i]) + 1]++;
    for (int k = 1; k < 257; k++) first[k] += first[k - 1];
    for (size_t i = from; i < to; i++) p->sorted[first[mark_class(p->list[i])]++] = p->list[i];
    memcpy(p->list + from, p->sorted, sizeof *p->list * (to - from));
}

static void
sort_marks(struct points *p)
{
    for (size_t i = 0; i < p->n; i++) {
        size_t from = i;
        bool falls = false;
        for (int last = 0, now; i < p->n && (now = mark_class(p->list[i])); last = now, i++)
            falls = falls || now < last;
        if (falls) sort_run(p, from, i);
    }
}

/* Composes the points. A character that is too new for the normal form composes with no other, and separates marks
 * from the letter before it. */
static void
compose_points(struct points *p, utf8proc_option_t how)
{
    size_t n = 0;
    for (size_t at = 0, end; at < p->n; at = end) {
        for (end = at + 1; end < p->n && !class_late(p->list[end]);) end++;
        size_t k = (size_t)utf8proc_normalize_utf32(p->list + at, (utf8proc_ssize_t)(end - at), how);
        memmove(p->list + n, p->list + at, sizeof *p->list * k);
        n += k;
    }
    p->n = n;
}

static void
add_points(struct str *out, const utf8proc_int32_t *point, size_t n)
{
    utf8proc_uint8_t bytes[4];
    for (size_t i = 0; i < n; i++) str_addn(out, bytes, (size_t)utf8proc_encode_char(point[i], bytes));
}

static void
add_stretch(struct str *out, struct points *p, enum normal_form form, const uint8_t *text, size_t n)
{
    take_apart(p, forms[form].apart, text, n);
    sort_marks(p);
    if (forms[form].together) compose_points(p, forms[form].together);
    add_points(out, p->list, p->n);
}

static bool
is_ascii(uint8_t byte)
{
    return byte < 0x80;
}

void
normal_add(struct str *out, enum normal_form form, const uint8_t *text, size_t n)
{
    struct points p = {0};
    for (size_t at = 0; at < n;) {
        size_t other = at, end;
        while (other < n && is_ascii(text[other])) other++;
        /* the ASCII character before the stretch may compose with marks in the stretch */
        size_t plain = other == n ? n : other == at ? at : other - 1;
        str_addn(out, text + at, plain - at);
        for (end = other; end < n && !is_ascii(text[end]);) end++;
        if (end > other) add_stretch(out, &p, form, text + plain, end - plain);
        at = end;
    }
    free(p.list);
    free(p.sorted);
}
