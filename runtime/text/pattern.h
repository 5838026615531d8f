/* pattern.h - translates patterns written for other regex libraries to PCRE2, with the same matches.
 *
 * Patterns of tokenizer.json are written for Oniguruma (Ruby's syntax), patterns of *.tiktoken for Rust's
 * fancy-regex. Syntax with another meaning in PCRE2 is rewritten if possible, and reported otherwise. The caller
 * owns all arguments; any thread. */
#ifndef RILLE_RUNTIME_TEXT_PATTERN_H
#define RILLE_RUNTIME_TEXT_PATTERN_H

#include "runtime/base/str.h"

/* DIALECT_OWN: PCRE2's syntax, but with Oniguruma's classes and scripts. */
enum dialect { DIALECT_OWN, DIALECT_ONIGURUMA, DIALECT_RUST };

/* Describes the first syntax in a pattern that PCRE2 would interpret differently from the pattern's dialect and that
 * cannot be rewritten; NULL: none. The text is constant. */
const char *pattern_foreign(const char *pattern, enum dialect dialect);

/* Describes the first syntax in a pattern of this dialect that Oniguruma would interpret differently; NULL: none.
 * The text is constant. */
const char *pattern_moved(const char *pattern, enum dialect dialect);

/* Appends the pattern in PCRE2's syntax. */
void pattern_spell(const char *pattern, enum dialect dialect, struct str *out);

#endif
