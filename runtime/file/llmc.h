/* llmc.h - reads files of llm.c: checkpoints of GPT-2 (as a set of tensors, format_llmc), and tokens.
 *
 * Checkpoints and token files begin with 256 32-bit numbers: magic, version, sizes. The caller owns the result; one
 * thread at a time. */
#ifndef RILLE_RUNTIME_FILE_LLMC_H
#define RILLE_RUNTIME_FILE_LLMC_H

#include "runtime/file/disk/source.h"

/* Token ids in a file: unsigned integers, all of the same width. */
struct token_file {
    struct source *source;
    int64_t n, at; /* n: number of ids; at: position of the first id in the file, bytes */
    int width;     /* bytes per id: 2 or 4; 8 if the ids are in memory */
};

/* Opens a token file. E_IO: unknown magic number or version, or a length that differs from the header's; the text
 * names the path. */
int token_file_open(const char *path, struct token_file *out);
/* Makes a token file from ids in memory. Takes ownership of `ids`, which malloc allocated. */
struct token_file token_file_of(int64_t *ids, int64_t n);
/* Reads n ids from position i on. */
int token_file_read(const struct token_file *f, int64_t i, int64_t n, int64_t *out);

#endif
