/* alphabet.h - GPT-2's table, by which byte-level vocabularies spell bytes as visible characters.
 *
 * A byte that is a visible character of Latin-1 maps to that character; the other bytes map, in order, to characters
 * from U+0100 on. Pure; any thread. */
#ifndef RILLE_RUNTIME_TEXT_ALPHABET_H
#define RILLE_RUNTIME_TEXT_ALPHABET_H

#include "runtime/base/str.h"

/* Decodes the bytes that a text spells into out, which has room for strlen(text) bytes; returns false if a character
 * spells no byte. */
bool alphabet_read(const char *text, uint8_t *out, size_t *n);
void alphabet_write(const uint8_t *bytes, size_t n, struct str *out);

#endif
