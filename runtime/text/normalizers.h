/* normalizers.h - the steps that change a text before it is split: normal forms, lower case, replacements.
 *
 * Each step appends the changed text to `out`. Bytes that are not valid UTF-8 stay unchanged. The owner is the
 * tokenizer; one thread. */
#ifndef RILLE_RUNTIME_TEXT_NORMALIZERS_H
#define RILLE_RUNTIME_TEXT_NORMALIZERS_H

#include "runtime/data/str.h"
#include <jansson.h>

struct normalizer {
    /* Changes the text. *head: number of bytes at the start of the text that result from the first character of the
     * user's string; the step updates *head. Returns 0, or an error code after fail(). */
    int (*apply)(const struct normalizer *z, const uint8_t *text, size_t n, struct str *out, size_t *head);
    void (*release)(void *state);            /* frees the state; NULL: the state is in the tokenizer's arena */
    void *state;                             /* settings of the step */
    void (*add)(struct str *out, int32_t c); /* appends the text for one character; NULL: not that kind of step */
};

struct normalizers {
    struct normalizer *list;
    int n, capacity;
};

void normalizers_add(struct normalizers *s, const struct normalizer *z);
void normalizers_free(struct normalizers *s);
/* Replaces the content of `out` by the text after all steps. */
int normalizers_run(const struct normalizers *s, const uint8_t *text, size_t n, struct str *out, size_t *head);

struct tokenizer;

int read_normalizer(struct tokenizer *t, const char *path, const json_t *part);

#endif
