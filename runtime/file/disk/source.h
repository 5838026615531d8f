/* source.h - reads bytes at given positions from a file or from memory.
 *
 * All format readers use sources, so they can read both files and bytes in memory (tests, archive members).
 * Reading calls pread and copies into the caller's memory. If a file is truncated while it is open, reading fails
 * with E_IO (a memory-mapped file would cause a signal). Several threads may read one source. Apart from the
 * caller's memory, only the system's page cache has a copy of the bytes. The caller owns a source. Positions and
 * sizes are in bytes. */
#ifndef RILLE_RUNTIME_FILE_DISK_SOURCE_H
#define RILLE_RUNTIME_FILE_DISK_SOURCE_H

#include "runtime/base/base.h"

struct blocks;
struct source {
    char *name; /* name for error texts */
    int fd;     /* file descriptor; -1: the bytes are in memory */
    uint8_t *bytes;
    bool later;            /* true: `name` is a URL, which the first read fetches (store.h) */
    int64_t size;          /* size when the source was opened, bytes */
    struct blocks *blocks; /* blocks with expected digests; NULL: none */
};

/* Opens a file, or fetches an object if the path is a URL (store.h). E_IO: the file cannot be opened, or is no regular
 * file; the text names the path. */
int source_open(const char *path, struct source **out);
/* Makes a source of an object of this size in an object store. A read fetches the object. */
struct source *source_later(const char *url, int64_t size);
/* Makes a source from an open file, and takes ownership of fd. name: for error texts. */
int source_take(const char *name, int fd, struct source **out);
/* Makes a source from bytes in memory, and takes ownership of `bytes`, which malloc allocated. */
struct source *source_of_bytes(const char *name, void *bytes, size_t n);
void source_close(struct source **s);

/* Reads n bytes from `offset` on. E_IO: the source has fewer bytes. */
int source_read(const struct source *s, int64_t offset, void *out, int64_t n);
/* Size of the blocks for which there are digests, bytes; the last block of a file may be shorter. source_blocks
 * returns the number of blocks. */
enum { SOURCE_BLOCK = 1 << 20 };
int64_t source_blocks(int64_t bytes);
uint64_t source_digest(const void *block, size_t n);
/* Copies the expected digests of blocks first to first + n - 1. From now on, a read verifies each of these blocks
 * before it returns any byte of it. E_IO, "damaged": a digest differs. */
void source_expect(struct source *s, int64_t first, int64_t n, const uint64_t *digest);
const uint64_t *source_digests(const struct source *s); /* returns the expected digests; NULL: none */
/* Reads a complete file of at most `most` bytes, and appends a zero byte. The caller frees *out. */
int source_whole(const char *path, int64_t most, char **out, size_t *n);

/* A position that advances through a source in small reads, and never passes the end. The caller owns the cursor. */
struct cursor {
    const struct source *source;
    const char *what; /* name of the format for error texts: "not a .gguf file: ..." */
    int64_t at, limit;
    int64_t first;  /* position in the source of block[0] */
    int32_t nblock; /* number of valid bytes in block */
    uint8_t block[4096];
};
void cursor_init(struct cursor *c, const struct source *s, const char *what);
int cursor_take(struct cursor *c, void *out, int64_t n);
int cursor_skip(struct cursor *c, int64_t n);
/* Read little-endian numbers, and advance. */
int cursor_u32(struct cursor *c, uint32_t *out);
int cursor_u64(struct cursor *c, uint64_t *out);

#endif
