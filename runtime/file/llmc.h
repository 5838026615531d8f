/* llmc.h - files of llm.c: checkpoints of GPT-2 (as a set of tensors, format_llmc) and tokens.
 *
 * Both begin with 256 32-bit numbers: magic, version, sizes. The caller owns what it reads; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_LLMC_H
#define RILLE_RUNTIME_FILE_LLMC_H

#include "runtime/file/source.h"

/* Token ids in a file, all of one width without a sign. */
struct token_file {
    struct source *source;
    int64_t n, at; /* at: where the first stands */
    int width;     /* bytes an id: 2 or 4; 8 in memory */
};

/* E_IO naming the path: another magic number or version, another length than it says. */
int token_file_open(const char *path, struct token_file *out);
/* Makes one of ids in memory, which it takes over and gives back by free(). */
struct token_file token_file_of(int64_t *ids, int64_t n);
/* n ids from position i on. */
int token_file_read(const struct token_file *f, int64_t i, int64_t n, int64_t *out);

#endif
