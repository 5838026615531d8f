/* pattern.h - translates patterns written for other regular expression libraries to PCRE2 patterns with the same
 * matches.
 *
 * Patterns in tokenizer.json are written for Oniguruma (Ruby's syntax), patterns for *.tiktoken for Rust's
 * fancy-regex. Syntax that has another meaning in PCRE2 is rewritten if possible; otherwise it is reported as an
 * error. The caller owns all arguments; any thread. */
#ifndef RILLE_RUNTIME_TEXT_ENCODE_PATTERN_H
#define RILLE_RUNTIME_TEXT_ENCODE_PATTERN_H

#include "runtime/data/str.h"

/* Dialects of patterns. DIALECT_OWN: PCRE2's syntax, but with the character classes and scripts of Oniguruma. */
enum dialect { DIALECT_OWN, DIALECT_ONIGURUMA, DIALECT_RUST };

/* Returns a description of the first syntax in a pattern that has another meaning in PCRE2 and cannot be
 * rewritten; NULL: none. The description is a constant text. */
const char *pattern_foreign(const char *pattern, enum dialect dialect);

/* Returns a description of the first syntax in a pattern that has another meaning in Oniguruma than in this
 * dialect; NULL: none. The description is a constant text. */
const char *pattern_moved(const char *pattern, enum dialect dialect);

/* Appends the pattern, translated to PCRE2's syntax. newer true: classes also have the characters that are newer than
 * Unicode 14, which makes the pattern slower. */
void pattern_spell(const char *pattern, enum dialect dialect, bool newer, struct str *out);

#endif
