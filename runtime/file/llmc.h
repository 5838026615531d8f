/* llmc.h - files of llm.c: checkpoints of GPT-2 (as a set of tensors, format_llmc) and tokens.
 *
 * Both kinds begin with 256 32-bit numbers: magic, version, sizes. The caller owns the result; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_LLMC_H
#define RILLE_RUNTIME_FILE_LLMC_H

#include "runtime/file/source.h"

/* Token ids in a file, unsigned and all of the same width. */
struct token_file {
    struct source *source;
    int64_t n, at; /* at: position of the first id, bytes */
    int width;     /* bytes per id: 2 or 4; 8 in memory */
};

/* Opens a token file. E_IO naming the path: unknown magic number or version, or a length that differs from the
 * header's. */
int token_file_open(const char *path, struct token_file *out);
/* Wraps ids in memory, takes ownership of `ids`, and releases the array with free(). */
struct token_file token_file_of(int64_t *ids, int64_t n);
/* Reads n ids from position i on. */
int token_file_read(const struct token_file *f, int64_t i, int64_t n, int64_t *out);

#endif
