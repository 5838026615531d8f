/* source.h - a file to read from: bytes at positions, or an error.
 *
 * Every reader of a format takes a source, so that what holds of files holds of bytes in memory (tests, members of
 * archives). Reading goes by pread and copies into the caller's memory: a file that somebody truncates meanwhile is
 * E_IO and never a signal, several threads may read one source, and the system's page cache is the only other copy. The
 * caller owns a source. Positions and sizes are in bytes. */
#ifndef RILLE_RUNTIME_FILE_SOURCE_H
#define RILLE_RUNTIME_FILE_SOURCE_H

#include "runtime/base.h"

struct blocks;
struct source {
    char *name; /* for messages */
    int fd;     /* -1: the bytes are in memory */
    uint8_t *bytes;
    int64_t size;          /* at its opening */
    struct blocks *blocks; /* that have to have known digests; NULL: none */
};

/* E_IO naming the path: it refuses anything but a plain file. */
int source_open(const char *path, struct source **out);
/* The same of an open file, which it takes over; name: what messages call it. */
int source_take(const char *name, int fd, struct source **out);
/* Takes bytes over, which free() gives back. */
struct source *source_of_bytes(const char *name, void *bytes, size_t n);
void source_close(struct source **s);

/* n bytes from offset on; E_IO when the source ends before. */
int source_read(const struct source *s, int64_t offset, void *out, int64_t n);
/* A file of so many bytes has so many blocks, the last of which may be shorter. */
enum { SOURCE_BLOCK = 1 << 20 };
int64_t source_blocks(int64_t bytes);
uint64_t source_digest(const void *block, size_t n);
/* From now on blocks first to first + n - 1 are held against these digests, copied here, before any byte of them is
 * given: E_IO, "damaged". */
void source_expect(struct source *s, int64_t first, int64_t n, const uint64_t *digest);
const uint64_t *source_digests(const struct source *s); /* those; NULL: it has none */
/* All of a file of at most `most` bytes, with a zero behind it; the caller frees it. */
int source_whole(const char *path, int64_t most, char **out, size_t *n);

/* A position that moves forward through a source, in small reads; never passes the end. The caller owns it. */
struct cursor {
    const struct source *source;
    const char *what; /* a format's name, for messages: "not a .gguf file: ..." */
    int64_t at, limit;
    int64_t first;  /* position of block[0] */
    int32_t nblock; /* bytes of block that are there */
    uint8_t block[4096];
};
void cursor_init(struct cursor *c, const struct source *s, const char *what);
int cursor_take(struct cursor *c, void *out, int64_t n);
int cursor_skip(struct cursor *c, int64_t n);
/* Little-endian numbers. */
int cursor_u32(struct cursor *c, uint32_t *out);
int cursor_u64(struct cursor *c, uint64_t *out);

#endif
