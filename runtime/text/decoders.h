/* decoders.h - the steps that join the texts of tokens to one text. The owner is the tokenizer; one thread. */
#ifndef RILLE_RUNTIME_TEXT_DECODERS_H
#define RILLE_RUNTIME_TEXT_DECODERS_H

#include "runtime/data/arena.h"
#include "runtime/data/str.h"
#include <jansson.h>

struct token_text {
    const char *text;
    size_t n;
    uint32_t id;
};
struct token_texts { /* texts of the tokens; the arena owns texts that a step makes */
    struct token_text *list;
    size_t n, capacity;
    struct arena arena;
};

struct decoder {
    /* Applies the step to the texts. Returns 0, or an error code after fail(). */
    int (*apply)(const struct decoder *d, struct token_texts *s);
    void (*release)(void *state); /* frees the state; NULL: the state is in the tokenizer's arena */
    void *state;
};
struct decoders {
    struct decoder *list;
    int n, capacity;
};

void decoders_add(struct decoders *s, const struct decoder *d);
void decoders_free(struct decoders *s);
void token_texts_add(struct token_texts *s, const void *text, size_t n, uint32_t id);
/* Applies the steps to the texts and appends the joined result; frees the texts. Without steps, a space separates the
 * texts. */
int decoders_run(const struct decoders *s, struct token_texts *texts, struct str *out);

struct tokenizer;

int read_decoder(struct tokenizer *t, const char *path, const json_t *part);

/* Returns the byte of a token like "<0x0A>"; -1: the token has another form. */
int byte_of_token(const char *text, size_t n);

#endif
