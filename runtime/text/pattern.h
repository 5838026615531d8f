/* pattern.h - translates patterns written for other regex libraries to PCRE2, with the same matches.
 *
 * Patterns in tokenizer.json are written for Oniguruma (Ruby's syntax), patterns for *.tiktoken for Rust's
 * fancy-regex. Syntax that has another meaning in PCRE2 is rewritten if possible; otherwise it is reported as an
 * error. The caller owns all arguments; any thread. */
#ifndef RILLE_RUNTIME_TEXT_PATTERN_H
#define RILLE_RUNTIME_TEXT_PATTERN_H

#include "runtime/base/str.h"

/* DIALECT_OWN: PCRE2's syntax, but with the character classes and scripts of Oniguruma. */
enum dialect { DIALECT_OWN, DIALECT_ONIGURUMA, DIALECT_RUST };

/* Describes the first syntax in a pattern that has another meaning in PCRE2 than in the pattern's dialect, and that
 * cannot be rewritten; NULL: none. The result is a constant text. */
const char *pattern_foreign(const char *pattern, enum dialect dialect);

/* Describes the first syntax in a pattern of this dialect that has another meaning in Oniguruma; NULL: none. The
 * result is a constant text. */
const char *pattern_moved(const char *pattern, enum dialect dialect);

/* Appends the pattern, translated to PCRE2's syntax. */
void pattern_spell(const char *pattern, enum dialect dialect, struct str *out);

#endif
