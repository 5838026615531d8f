/* utf8.h - reads and writes the characters of UTF-8 text, and classifies them (utf8proc). Pure; any thread. */
#ifndef RILLE_RUNTIME_TEXT_CHARACTERS_UTF8_H
#define RILLE_RUNTIME_TEXT_CHARACTERS_UTF8_H

#include "runtime/data/str.h"

/* Returns the number of bytes of the first character of a text that is not empty. *c: the character. A byte that
 * does not begin a valid character counts as one character, with *c = -1. */
size_t utf8_next(const uint8_t *text, size_t n, int32_t *c);
void utf8_add(struct str *out, int32_t c);

bool utf8_is_space(int32_t c); /* returns true if c has Unicode's property White_Space */
/* Return true if c has the categories below in the version of Unicode that PyPI's tokenizers have for these steps: */
bool utf8_is_control(int32_t c); /* Cc, Cf or Co (BertNormalizer's clean_text) */
bool utf8_is_accent(int32_t c);  /* Mn (BertNormalizer's strip_accents) */
bool utf8_is_mark(int32_t c);    /* Mn, Mc or Me (StripAccents) */
/* Appends the lower-case form of a character. */
void utf8_add_lower(struct str *out, int32_t c);
/* Returns the number of bytes of the first grapheme cluster of a text that is not empty. */
size_t utf8_grapheme(const uint8_t *text, size_t n);

#endif
