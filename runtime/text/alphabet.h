/* alphabet.h - how byte-level vocabularies spell bytes as visible characters: GPT-2's table.
 *
 * A byte that is a visible character of Latin-1 is that character; the others are, in order, those from U+0100 on.
 * Pure; any thread. */
#ifndef RILLE_RUNTIME_TEXT_ALPHABET_H
#define RILLE_RUNTIME_TEXT_ALPHABET_H

#include "runtime/str.h"

/* Puts the bytes that a text spells into out, which has room for strlen(text); false when a character of it spells
 * none. */
bool alphabet_read(const char *text, uint8_t *out, size_t *n);
void alphabet_write(const uint8_t *bytes, size_t n, struct str *out);

#endif
