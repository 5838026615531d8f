/* pattern.h - compares names with patterns like "add|sub|max_*". POSIX's fnmatch() has no alternatives. */
#ifndef RILLE_T_PATTERN_H
#define RILLE_T_PATTERN_H

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Returns true if the name matches one of the patterns, which "|" separates. */
static inline bool
pattern_matches(const char *patterns, const char *name)
{
    char one[256];
    for (const char *at = patterns; at; at = strchr(at, '|')) {
        at += *at == '|';
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "|"), at);
        if (!fnmatch(one, name, 0)) return true;
    }
    return false;
}

#endif
