/* classes.h - classes of characters as PyPI's tokenizers knows them, whatever version of Unicode the system's libraries
 * have. Pure; any thread. */
#ifndef RILLE_RUNTIME_TEXT_CHARACTERS_CLASSES_H
#define RILLE_RUNTIME_TEXT_CHARACTERS_CLASSES_H

#include "runtime/data/str.h"

/* Returns the number of the script by which UnicodeScripts splits; -1: the character joins every script. Chinese and
 * Japanese scripts have one number. */
int class_script(int32_t c);

enum keeper { KEPT_BY_STRIP = 1, KEPT_BY_BERT = 2 };
/* Returns true for a mark or format character that StripAccents or BertNormalizer does not know as such. */
bool class_kept(int32_t c, enum keeper step);
bool class_late(int32_t c); /* returns true if c is too new for the normal forms, which leave c as it is */
/* Returns the lower-case form of a character that Unicode 14 has none for; c if there is no such form. */
int32_t class_lower(int32_t c);

bool class_newer(int32_t c); /* returns true if c is newer than Unicode 14 */
/* Appends the characters of a Unicode category ("L", "Lu") or script ("Han") that are newer than Unicode 14, in the
 * syntax of a PCRE2 set. Appends nothing for other names. */
void class_add_newer(struct str *out, const char *name, size_t n);

#endif
