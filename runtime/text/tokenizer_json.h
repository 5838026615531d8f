/* tokenizer_json.h - what the files that read and write tokenizer.json share. The caller owns all JSON. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_JSON_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_JSON_H

#include "runtime/file/json.h"
#include "runtime/text/tokenizer.h"

/* The last two are of batches of texts; they are kept and not applied. */
enum part { PART_NORMALIZER, PART_CUTTER, PART_TEMPLATE, PART_TRUNCATION, PART_PADDING };
_Static_assert(PART_PADDING + 1 == NPARTS, "a tokenizer keeps them all");
extern const char *const part_names[NPARTS]; /* in the file */

/* The value of "type", or "(none)". */
const char *type_of_part(const json_t *part);
/* E_ARG: "path: pre_tokenizer 'Metaspace' is not read; ..." */
int refuse(const char *path, const char *part, const char *what);

/* An id as the file has it, or "(none)", for messages. */
enum { SHOWN_ID = 48 };
const char *shown_id(const json_t *id, char out[static SHOWN_ID]);

/* Reads how to change and cut text. */
int read_parts(struct tokenizer *t, const char *path, const json_t *root);
/* Reads what the template puts around a text; after the tokens. */
int read_template(struct tokenizer *t, const char *path, const json_t *root);

#endif
