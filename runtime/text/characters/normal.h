/* normal.h - Unicode normalization (utf8proc).
 *
 * Some characters have several encodings in Unicode; a normal form chooses one of them (Unicode Standard Annex
 * 15). Composed forms (C) replace a letter and its marks by one character, if there is such a character;
 * compatibility forms (K) also replace characters that differ only in appearance. Characters newer than Unicode 10 stay
 * as they are, as in Hugging Face's tokenizers. Any thread. */
#ifndef RILLE_RUNTIME_TEXT_CHARACTERS_NORMAL_H
#define RILLE_RUNTIME_TEXT_CHARACTERS_NORMAL_H

#include "runtime/data/str.h"

enum normal_form { NORMAL_NONE, NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD };

/* Returns the normal form with this name, such as "NFC"; NORMAL_NONE: unknown name. */
enum normal_form normal_find(const char *name);

/* Appends the normal form of `text`, which must be valid UTF-8. */
void normal_add(struct str *out, enum normal_form form, const uint8_t *text, size_t n);

#endif
