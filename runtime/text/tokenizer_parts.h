/* tokenizer_parts.h - reads the parts of tokenizer.json other than the model. The caller owns all JSON. */
#ifndef RILLE_RUNTIME_TEXT_TOKENIZER_PARTS_H
#define RILLE_RUNTIME_TEXT_TOKENIZER_PARTS_H

#include "runtime/text/tokenizer_json.h"

/* Returns the name of a setting in the file that concerns batches of texts (truncation, padding), because encoding
 * ignores such settings; NULL: none. */
const char *tokenizer_batches(const struct tokenizer *t);
/* Returns the entry of this type; NULL after fail() with E_ARG: the type is unknown, or missing (""). what: name
 * of the part. */
const struct part_kind *find_kind(const char *path, const char *what, const struct part_kind *kinds, const char *type);
/* Reads a part with the reader of its type. */
int read_tokenizer_part(struct tokenizer *t, const char *path, enum part which, const struct part_kind *kinds,
                        const json_t *part);
int read_part_list(struct tokenizer *t, const char *path, enum part which, const struct part_kind *kinds,
                   const json_t *list);

/* Returns the text of a part's entry "type"; "": there is no such entry. */
const char *type_of_part(const json_t *part);
/* Reads an entry that must be a string without zero bytes. The part owns the string. */
int text_of_part(const char *path, const json_t *part, const char *name, const char **out);
/* Fails with E_ARG: "path: decoder Strip: content must not be empty". part: name of the part, and its type; why:
 * what is expected. */
int part_refuse(const char *path, const char *part, const char *why);

/* Reads normalizer, pre_tokenizer and decoder. */
int read_parts(struct tokenizer *t, const char *path, const json_t *root);

#endif
