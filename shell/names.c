/* names.c - what a name that is not there may have been meant to be: the one that the fewest changes make of it. */
#include "shell/shell.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 40 };

static int
least(int a, int b)
{
    return a < b ? a : b;
}

/* How many letters must be put in, left out or changed to make b of a (Levenshtein 1966); capitals are no change.
 * row[j]: for the letters of a so far and the first j of b. */
static int
changes(const char *a, const char *b)
{
    int row[LONGEST + 1], n = (int)strlen(b);
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int changed = corner + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            corner = row[j];
            row[j] = least(changed, least(row[j - 1], corner) + 1);
        }
    }
    return row[n];
}

void
name_nearest(lua_State *L, int table, const char *name, struct nearest *best)
{
    table = lua_absindex(L, table);
    if (strlen(name) > LONGEST) return;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "_";
        if (key[0] == '_' || strlen(key) > LONGEST) continue;
        int n = changes(name, key), most = (int)strlen(name) / 3 + 1; /* more is another word */
        bool better = !best->name || n < best->changes || (n == best->changes && strcmp(key, best->name) < 0);
        if (n <= most && better) *best = (struct nearest){key, n};
    }
}

const char *
name_hint(lua_State *L, const struct nearest *best)
{
    return best->name ? lua_pushfstring(L, "; the nearest name is '%s'", best->name) : "";
}

/* rille._nearest(table, name): the key that name may stand for, or nil. */
static int
nearest(lua_State *L)
{
    struct nearest best = {0};
    luaL_checktype(L, 1, LUA_TTABLE);
    name_nearest(L, 1, luaL_checkstring(L, 2), &best);
    lua_pushstring(L, best.name);
    return 1;
}

void
names_open(lua_State *L)
{
    lua_pushcfunction(L, nearest);
    lua_setfield(L, -2, "_nearest");
}
