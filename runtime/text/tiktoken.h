/* tiktoken.h - reads *.tiktoken files and tekken.json. The caller owns the tokenizer. */
#ifndef RILLE_RUNTIME_TEXT_TIKTOKEN_H
#define RILLE_RUNTIME_TEXT_TIKTOKEN_H

#include "runtime/text/tokenizer.h"

int tokenizer_read_tiktoken(struct tokenizer *t, const char *path, const char *pattern, int nspecial,
                            const char *const *special, const int64_t *ids);
/* Reads Mistral's tekken.json. */
int tokenizer_read_tekken(struct tokenizer *t, const char *path, const json_t *root);

#endif
