/* normal.h - the normal forms of Unicode. The library that knows the characters is utf8proc.
 *
 * Unicode spells one character in several ways: a form chooses one of them (Unicode Standard Annex 15). Composed forms
 * put letters and their marks into one character where there is one, compatible ones also take away what is but another
 * shape. Any thread. */
#ifndef RILLE_RUNTIME_TEXT_NORMAL_H
#define RILLE_RUNTIME_TEXT_NORMAL_H

#include "runtime/str.h"

enum normal_form { NORMAL_NONE, NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD };

/* By its name, "NFC"; NORMAL_NONE: no form has it. */
enum normal_form normal_find(const char *name);

/* Appends the text, which is valid UTF-8, in the form. */
void normal_add(struct str *out, enum normal_form form, const uint8_t *text, size_t n);

#endif
