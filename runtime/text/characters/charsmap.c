/* charsmap.c - looks up characters in SentencePiece's map of normalizations. */
#include "runtime/text/characters/charsmap.h"

#include "runtime/base/error.h"

#include <string.h>

struct charsmap {
    const uint32_t *unit; /* double-array trie */
    size_t nunit;
    const char *text; /* replacements; the last byte is 0 */
    size_t ntext;
};

int
charsmap_new(const char *path, const void *bytes, size_t n, struct arena *arena, const struct charsmap **out)
{
    uint32_t trie = 0;
    struct charsmap *m = ARENA_NEW(arena, struct charsmap);
    if (n >= 4) memcpy(&trie, bytes, 4); /* supported hosts are little-endian, as the file is */
    if (n < 9)
        return fail(E_ARG, "%s: the precompiled_charsmap is damaged: expected at least 9 bytes, found %zu", path, n);
    if (trie % 4 || trie < 4 || trie > n - 5)
        return fail(
            E_ARG,
            "%s: the precompiled_charsmap of %zu bytes is damaged: the size of its trie must be a multiple of 4 "
            "from 4 to %zu bytes, found %u",
            path, n, n - 5, (unsigned)trie);
    if (((const char *)bytes)[n - 1])
        return fail(E_ARG, "%s: the precompiled_charsmap of %zu bytes is damaged: it must end with a zero byte", path,
                    n);
    m->unit = arena_dup(arena, (const uint8_t *)bytes + 4, trie);
    m->nunit = trie / 4;
    m->ntext = n - 4 - trie;
    m->text = arena_dup(arena, (const uint8_t *)bytes + 4 + trie, m->ntext);
    *out = m;
    return 0;
}

/* ---- units of the trie, as Darts-clone packs them ---- */

static uint32_t
unit_offset(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static bool
unit_has_label(uint32_t unit, uint8_t label)
{
    return (unit & (1u << 31 | 0xff)) == label;
}

static bool
unit_has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

const char *
charsmap_find(const struct charsmap *m, const uint8_t *text, size_t n, bool longest, size_t *length)
{
    const char *found = NULL;
    size_t at = unit_offset(m->unit[0]);
    for (size_t i = 0; i < n && text[i]; i++) {
        at ^= text[i];
        if (at >= m->nunit || !unit_has_label(m->unit[at], text[i])) break;
        uint32_t unit = m->unit[at];
        at ^= unit_offset(unit);
        if (!unit_has_leaf(unit)) continue;
        size_t value = at < m->nunit ? m->unit[at] & ~(1u << 31) : m->ntext;
        if (value >= m->ntext) break;
        found = m->text + value;
        *length = i + 1;
        if (!longest) break;
    }
    return found;
}
