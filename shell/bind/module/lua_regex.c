/* lua_regex.c - matches texts with regular expressions of PCRE2, whose syntax includes that of Python's re. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "shell/bind/module/lua_regex.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"

#include <pcre2.h>

/* Limit of PCRE2's steps per match, because a file may contain an expression of exponential cost. */
enum { STEPS = 1000000 };

/* Returns true if the complete text matches. Otherwise *code is PCRE2_ERROR_NOMATCH or another error of PCRE2. */
static bool
is_match(const pcre2_code *compiled, const char *text, size_t n, int *code)
{
    pcre2_match_data *found = pcre2_match_data_create(1, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    *code = PCRE2_ERROR_NOMEMORY;
    if (found && limits) {
        pcre2_set_match_limit(limits, STEPS);
        *code = pcre2_match(compiled, (PCRE2_SPTR)text, n, 0, 0, found, limits);
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(found);
    return *code >= 0;
}

/* rille._matches(who, expression, text): returns true if the regular expression matches the complete text. who: prefix
 * of messages. */
static int
text_matches(lua_State *L)
{
    enum { COMPLETE = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED };
    size_t n, at;
    int code;
    const char *who = luaL_checkstring(L, 1), *expression = text_at(L, 2, who), *text = luaL_checklstring(L, 3, &n);
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, COMPLETE, &code, &at, NULL);
    bool found = compiled && is_match(compiled, text, n, &code);
    pcre2_code_free(compiled);
    if (!found && code != PCRE2_ERROR_NOMATCH) {
        PCRE2_UCHAR why[120];
        pcre2_get_error_message(code, why, sizeof why);
        return complain(L, "%s: '%s' must be a regular expression: %s", who, expression, (const char *)why);
    }
    lua_pushboolean(L, found);
    return 1;
}

void
regex_open(lua_State *L)
{
    field_function(L, "_matches", text_matches);
}
