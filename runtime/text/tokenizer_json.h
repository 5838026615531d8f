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

/* Formats an id for error texts, as it is written in the file; "(none)": the id is missing. */
enum { SHOWN_ID = 48 };
const char *shown_id(const json_t *id, char out[static SHOWN_ID]);

/* Checks an id. E_ARG: the id is no integer, or far larger than ntoken tokens need. */
int check_id(const char *path, const char *token, const json_t *id, size_t ntoken);

/* Reads normalizer, pre_tokenizer and decoder. */
int read_parts(struct tokenizer *t, const char *path, const json_t *root);
int read_normalizer(struct tokenizer *t, const char *path, const json_t *part);
int read_pretokenizer(struct tokenizer *t, const char *path, const json_t *part);
int read_decoder(struct tokenizer *t, const char *path, const json_t *part);
/* Checks the type of the model. E_ARG: unknown type. Called first, because other errors of a file with an unknown
 * model would not help the user. */
int check_model(const char *path, const json_t *root);
/* Reads the model. root: the file, for its added tokens. Call after the parts were read. */
int read_model(struct tokenizer *t, const char *path, const json_t *root);

/* Reads Mistral's tekken.json. */
int tokenizer_read_tekken(struct tokenizer *t, const char *path, const json_t *root);

/* Makes a splitter for splitter_replace(), which then replaces the matches of {"Regex": pattern} or {"String":
 * text}. */
int replacer_new(const char *path, const json_t *pattern, struct splitter **out);

/* Settings of Metaspace, as pre_tokenizer and as decoder. */
struct metaspace {
    const char *mark;       /* text that stands for a space */
    enum split_prefix when; /* the pieces that begin with the mark */
};
int read_metaspace_settings(const char *path, const json_t *part, struct metaspace *out);

/* Returns the byte of a token like "<0x0A>"; -1: the token has another form. */
int byte_of_token(const char *text, size_t n);

#endif
