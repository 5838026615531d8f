/* shards.h - values whose parts lie in several files, which several processes wrote: the text that says where.
 *
 * The text stands in the metadata of a .safetensors file, under SHARDS_KEY. It tells of each value its type and parts
 * (which file, where in it, which box of the value, dense and row-major), and of each file its size and the digests of
 * its blocks (source.h), so that who reads a box reads and checks the blocks that it lies in, and no others. Shards are
 * files beside that one. Values; any thread. */
#ifndef RILLE_RUNTIME_FILE_SHARDS_H
#define RILLE_RUNTIME_FILE_SHARDS_H

#include "runtime/file/tensors.h"
#include "runtime/str.h"

#define SHARDS_KEY   "rille.shards"
#define SHARD_ENDING ".shard"

struct shard_file {
    const char *name; /* without a folder */
    int64_t bytes;
    const uint64_t *digest; /* of each block */
};
struct shard_value {
    const char *name;
    struct type type;
    int32_t npart;
    const struct shard_part *part;
};
/* E_ARG: a name is not UTF-8. */
int shards_write(int nfile, const struct shard_file *file, int nvalue, const struct shard_value *value,
                 struct str *out);
/* Opens the files that the text of `manifest` names and adds their values. E_IO: one is not there, or has another size;
 * or what the text says cannot be. */
int shards_read(struct tensors *f, const struct source *manifest, const char *text);

/* Bytes of a file and where in memory they belong: nrow runs of so many bytes. Positions and strides are in bytes. */
struct shard_copy {
    int64_t from, to, bytes, nrow, from_stride, to_stride;
};
/* Adds to *list what a box of a value in memory (dense) has of another in a file. width: of an element. */
void shard_copies(const struct box *file, int64_t from, const struct box *memory, int64_t to, int ndim, size_t width,
                  struct shard_copy **list, int32_t *n, int32_t *capacity);

#endif
