/* classes.c - tables of characters by script, category and age. */
#include "runtime/text/characters/classes.h"

#include <string.h>

struct range {
    int32_t from, to, value;
};
static const struct range scripts[] = {
#include "runtime/text/characters/scripts.inc"
};
static const struct range kept[] = {
#include "runtime/text/characters/kept.inc"
};
static const struct range late[] = {
#include "runtime/text/characters/late.inc"
};
static const struct range lower[] = {
#include "runtime/text/characters/lower.inc"
};

/* Returns the range that contains c, of n ascending ranges; NULL: none. */
static const struct range *
find_range(const struct range *list, size_t n, int32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list[middle].to < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && list[low].from <= c ? &list[low] : NULL;
}

int
class_script(int32_t c)
{
    const struct range *r = find_range(scripts, countof(scripts), c);
    return r ? r->value : -1;
}

bool
class_kept(int32_t c, enum keeper step)
{
    const struct range *r = find_range(kept, countof(kept), c);
    return r && (r->value & step);
}

bool
class_late(int32_t c)
{
    return find_range(late, countof(late), c) != NULL;
}

int32_t
class_lower(int32_t c)
{
    const struct range *r = find_range(lower, countof(lower), c);
    return r ? c + r->value : c;
}

static const struct {
    int32_t from, to;
    const char *name;
} newer[] = {
#include "runtime/text/characters/added.inc"
};

bool
class_newer(int32_t c)
{
    if (!class_late(c)) return false;
    for (size_t i = 0; i < countof(newer); i++)
        if (newer[i].from <= c && c <= newer[i].to) return true;
    return false;
}

/* Returns true if the name is that of a row, or the first letter of the row's category. */
static bool
names_row(const char *row, const char *name, size_t n)
{
    size_t length = strlen(row);
    return (n == length || (n == 1 && length == 2)) && !memcmp(row, name, n);
}

void
class_add_newer(struct str *out, const char *name, size_t n)
{
    for (size_t i = 0; i < countof(newer); i++)
        if (names_row(newer[i].name, name, n))
            str_addf(out, "\\x{%x}-\\x{%x}", (unsigned)newer[i].from, (unsigned)newer[i].to);
}
