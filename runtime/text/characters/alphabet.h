/* alphabet.h - converts text in which each visible character stands for a byte, as in byte-level vocabularies, to
 * bytes (GPT-2's table).
 *
 * A byte that is a visible character of Latin-1 is spelled as that character. The other bytes are spelled, in order,
 * as characters from U+0100 on. Pure; any thread. */
#ifndef RILLE_RUNTIME_TEXT_CHARACTERS_ALPHABET_H
#define RILLE_RUNTIME_TEXT_CHARACTERS_ALPHABET_H

#include "runtime/data/str.h"

/* Decodes the bytes that a text of `length` bytes spells into `out`, which has room for `length` bytes. Returns
 * false if a character stands for no byte. */
bool alphabet_read(const char *text, size_t length, uint8_t *out, size_t *n);
void alphabet_write(const uint8_t *bytes, size_t n, struct str *out);

#endif
