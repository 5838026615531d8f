/* sentencepiece.h - reads SentencePiece's *.model. The caller owns the tokenizer. */
#ifndef RILLE_RUNTIME_TEXT_SENTENCEPIECE_H
#define RILLE_RUNTIME_TEXT_SENTENCEPIECE_H

#include "runtime/text/tokenizer.h"

int tokenizer_read_sentencepiece(struct tokenizer *t, const char *path, int nspecial, const char *const *special);

#endif
