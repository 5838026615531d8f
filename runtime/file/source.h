/* source.h - a file to read from: bytes at positions, or an error.
 *
 * Every reader of a format reads from a source, so that files and bytes in memory (tests, archive members) are read
 * alike. Reading calls pread and copies into the caller's memory. A file truncated meanwhile is E_IO, never a
 * signal; several threads may read one source; and the system's page cache is the only other copy. The caller owns a
 * source. Positions and sizes are in bytes. */
#ifndef RILLE_RUNTIME_FILE_SOURCE_H
#define RILLE_RUNTIME_FILE_SOURCE_H

#include "runtime/base/base.h"

struct blocks;
struct source {
    char *name; /* for messages */
    int fd;     /* -1: the bytes are in memory */
    uint8_t *bytes;
    int64_t size;          /* bytes when opened */
    struct blocks *blocks; /* blocks with expected digests; NULL: none */
};

/* Opens a file. E_IO naming the path: not a regular file. */
int source_open(const char *path, struct source **out);
/* Makes a source of an open file and takes ownership of fd. name: for messages. */
int source_take(const char *name, int fd, struct source **out);
/* Makes a source of bytes in memory and takes ownership of `bytes`; free() releases the array. */
struct source *source_of_bytes(const char *name, void *bytes, size_t n);
void source_close(struct source **s);

/* Reads n bytes from offset on; E_IO if the source ends earlier. */
int source_read(const struct source *s, int64_t offset, void *out, int64_t n);
/* Digests cover blocks of this many bytes; the last block of a file may be shorter. source_blocks returns the number
 * of blocks. */
enum { SOURCE_BLOCK = 1 << 20 };
int64_t source_blocks(int64_t bytes);
uint64_t source_digest(const void *block, size_t n);
/* Copies the digests of blocks first to first + n - 1. From now on a read verifies each such block before it returns
 * any byte of the block; E_IO, "damaged", on a mismatch. */
void source_expect(struct source *s, int64_t first, int64_t n, const uint64_t *digest);
const uint64_t *source_digests(const struct source *s); /* expected digests; NULL: none */
/* Reads a whole file of at most `most` bytes and appends a zero byte; the caller frees *out. */
int source_whole(const char *path, int64_t most, char **out, size_t *n);

/* A position that advances through a source in small reads and never passes the end. The caller owns the cursor. */
struct cursor {
    const struct source *source;
    const char *what; /* name of the format, for messages: "not a .gguf file: ..." */
    int64_t at, limit;
    int64_t first;  /* position of block[0] */
    int32_t nblock; /* valid bytes in block */
    uint8_t block[4096];
};
void cursor_init(struct cursor *c, const struct source *s, const char *what);
int cursor_take(struct cursor *c, void *out, int64_t n);
int cursor_skip(struct cursor *c, int64_t n);
/* Read little-endian numbers. */
int cursor_u32(struct cursor *c, uint32_t *out);
int cursor_u64(struct cursor *c, uint64_t *out);

#endif
