/* pattern.h - patterns that were written for other libraries, as PCRE2 has to have them to match the same.
 *
 * tokenizer.json is read by Oniguruma (Ruby's syntax), a pattern of *.tiktoken by Rust's fancy-regex. What is spelled
 * alike and means something else is spelled anew where that can be, and named where it cannot. The caller owns all that
 * is passed; any thread. */
#ifndef RILLE_RUNTIME_TEXT_PATTERN_H
#define RILLE_RUNTIME_TEXT_PATTERN_H

#include "runtime/str.h"

/* DIALECT_OWN: PCRE2's, but for classes and scripts, which are as Oniguruma has them. */
enum dialect { DIALECT_OWN, DIALECT_ONIGURUMA, DIALECT_RUST };

/* What of a pattern means another thing to the library of its dialect than it would here; NULL: nothing. Constants. */
const char *pattern_foreign(const char *pattern, enum dialect dialect);

/* What of a pattern of this dialect would mean another thing to Oniguruma; NULL: nothing. Constants. */
const char *pattern_moved(const char *pattern, enum dialect dialect);

/* Adds the pattern to out, in PCRE2's spelling. */
void pattern_spell(const char *pattern, enum dialect dialect, struct str *out);

#endif
