/* classes.c - tables of characters by script and by category. */
#include "runtime/text/characters/classes.h"

#include <string.h>

int
class_script(int32_t c)
{
    static const struct {
        int32_t from, to, script;
    } rows[] = {
#include "runtime/text/characters/scripts.inc"
    };
    size_t low = 0, high = countof(rows);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rows[middle].to < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < countof(rows) && rows[low].from <= c ? rows[low].script : -1;
}

static const struct {
    int32_t from, to;
    const char *name;
} newer[] = {
#include "runtime/text/characters/added.inc"
};

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
