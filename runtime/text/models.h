/* models.h - reads the model (vocabulary and encoding method) of tokenizer.json. The caller owns all JSON. */
#ifndef RILLE_RUNTIME_TEXT_MODELS_H
#define RILLE_RUNTIME_TEXT_MODELS_H

#include "runtime/text/tokenizer.h"

struct unigram *tokenizer_unigram(struct tokenizer *t); /* makes the model a Unigram model, without pieces yet */
/* Checks the type of the model. E_ARG: unknown type. Called first, because other errors of a file with an unknown
 * model would not help the user. */
int check_model(const char *path, const json_t *root);
/* Reads the model. root: the file, for its added tokens. Call after the parts were read. */
int read_model(struct tokenizer *t, const char *path, const json_t *root);

#endif
