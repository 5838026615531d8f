/* tokenizer_json.h - functions that the reader and the writer of tokenizer.json share. The caller owns all JSON. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_JSON_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_JSON_H

#include "runtime/file/codec/json.h"
#include "runtime/text/tokenizer.h"

/* Parts of the file other than the model. PART_TRUNCATION and PART_PADDING concern batches of texts; these two are
 * not applied, only kept for saving. */
enum part { PART_NORMALIZER, PART_CUTTER, PART_TEMPLATE, PART_DECODER, PART_TRUNCATION, PART_PADDING };
_Static_assert(PART_PADDING + 1 == NPARTS, "struct tokenizer must have an entry per part");
extern const char *const part_names[NPARTS]; /* names of the parts in the file */

/* The reader for one type of a part. A table of readers ends with type NULL. */
struct part_kind {
    const char *type;
    int (*read)(struct tokenizer *t, const char *path, const json_t *part);
};

/* Formats an id for error texts, as it is written in the file; "(none)": the id is missing. */
enum { SHOWN_ID = 48 };
const char *shown_id(const json_t *id, char out[static SHOWN_ID]);

/* Checks an id. E_ARG: the id is no integer, or far larger than ntoken tokens need. */
int check_id(const char *path, const char *token, const json_t *id, size_t ntoken);

int tokenizer_read_json(struct tokenizer *t, const char *path);
int tokenizer_read_text(struct tokenizer *t, const char *path, const char *text, size_t n);

#endif
