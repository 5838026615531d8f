/* tokenizer_save.h - writes a tokenizer as tokenizer.json. The caller owns the tokenizer. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_SAVE_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_SAVE_H

#include "runtime/text/tokenizer.h"

/* Saves the tokenizer. Byte-level BPE is saved as tokenizer.json, in the form that all readers accept; any other
 * model is saved as a copy of the file that was read. */
int tokenizer_save(struct tokenizer *t, const char *path);

#endif
