/* tokenizer_json.h - functions that the reader and the writer of tokenizer.json share. The caller owns all JSON. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_JSON_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_JSON_H

#include "runtime/file/json.h"
#include "runtime/text/tokenizer.h"

/* Parts of the file besides the vocabulary. PART_TRUNCATION and PART_PADDING concern batches of texts; both are kept
 * for saving, but not applied. */
enum part { PART_NORMALIZER, PART_CUTTER, PART_TEMPLATE, PART_TRUNCATION, PART_PADDING };
_Static_assert(PART_PADDING + 1 == NPARTS, "struct tokenizer must have an entry per part");
extern const char *const part_names[NPARTS]; /* names of the parts in the file */

/* Returns the text of a part's entry "type"; "(none)": it has none. */
const char *type_of_part(const json_t *part);
/* Fails with E_ARG: "path: pre_tokenizer 'Metaspace' is not supported; ..." */
int refuse(const char *path, const char *part, const char *what);

/* Formats an id for error texts, as the file spells it; "(none)": it is missing. */
enum { SHOWN_ID = 48 };
const char *shown_id(const json_t *id, char out[static SHOWN_ID]);

/* Reads the normalizer, and the steps that split text. */
int read_parts(struct tokenizer *t, const char *path, const json_t *root);
/* Reads the template (the ids added around a text). Call after the tokens were read. */
int read_template(struct tokenizer *t, const char *path, const json_t *root);

#endif
