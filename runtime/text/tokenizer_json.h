/* tokenizer_json.h - shared by the reader and the writer of tokenizer.json. The caller owns all JSON. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_JSON_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_JSON_H

#include "runtime/file/json.h"
#include "runtime/text/tokenizer.h"

/* The last two concern batches of texts; both are kept for saving and not applied. */
enum part { PART_NORMALIZER, PART_CUTTER, PART_TEMPLATE, PART_TRUNCATION, PART_PADDING };
_Static_assert(PART_PADDING + 1 == NPARTS, "struct tokenizer must have an entry per part");
extern const char *const part_names[NPARTS]; /* names in the file */

/* Returns the value of "type", or "(none)". */
const char *type_of_part(const json_t *part);
/* E_ARG: "path: pre_tokenizer 'Metaspace' is not read; ..." */
int refuse(const char *path, const char *part, const char *what);

/* Formats an id as the file spells it, or "(none)", for messages. */
enum { SHOWN_ID = 48 };
const char *shown_id(const json_t *id, char out[static SHOWN_ID]);

/* Reads the normalizer and the steps that cut text. */
int read_parts(struct tokenizer *t, const char *path, const json_t *root);
/* Reads the template (ids added around a text); call after the tokens are read. */
int read_template(struct tokenizer *t, const char *path, const json_t *root);

#endif
