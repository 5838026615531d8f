/* pretokenizers.h - reads the steps that split a text into pieces. The caller owns all JSON. */
#ifndef RILLE_RUNTIME_TEXT_PRETOKENIZERS_H
#define RILLE_RUNTIME_TEXT_PRETOKENIZERS_H

#include "runtime/text/encode/split.h"

#include <jansson.h>

struct tokenizer;

int read_pretokenizer(struct tokenizer *t, const char *path, const json_t *part);

/* Makes a splitter for splitter_replace(), which then replaces the matches of {"Regex": pattern} or {"String":
 * text}. */
int replacer_new(const char *path, const json_t *pattern, struct splitter **out);

/* Settings of Metaspace, as pre_tokenizer and as decoder. */
struct metaspace {
    const char *mark;       /* text that stands for a space */
    enum split_prefix when; /* the pieces that begin with the mark */
};
int read_metaspace_settings(const char *path, const json_t *part, struct metaspace *out);

#endif
