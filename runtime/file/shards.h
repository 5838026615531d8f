/* shards.h - the manifest of sharded values: it locates the shards, which several processes have saved, each to a
 * separate file.
 *
 * The manifest is text in the metadata of a .safetensors file, under SHARDS_KEY. For each value the manifest
 * contains the type and the shards. A shard has a file, a position in the file, and a box of the value; the box is
 * stored dense and row-major. For each file the manifest contains the size and the digests of the blocks (source.h).
 * A reader of a box reads and checks only the blocks that hold the box. Shard files are in the folder of the
 * .safetensors file. Plain values; any thread. */
#ifndef RILLE_RUNTIME_FILE_SHARDS_H
#define RILLE_RUNTIME_FILE_SHARDS_H

#include "runtime/file/tensors.h"
#include "runtime/data/str.h"

#define SHARDS_KEY   "rille.shards"
#define SHARD_ENDING ".shard"

struct shard_file {
    const char *name; /* name of the file, without a folder */
    int64_t bytes;
    const uint64_t *digest; /* digest of each block */
};
struct shard_value {
    const char *name;
    struct type type;
    int32_t npart;
    const struct shard_part *part;
};
/* Writes the manifest. E_ARG: a name is not valid UTF-8. */
int shards_write(int nfile, const struct shard_file *file, int nvalue, const struct shard_value *value,
                 struct str *out);
/* Opens the files that the manifest's text names, and adds their values to f. E_IO: a file is missing or has another
 * size, or the text is inconsistent. */
int shards_read(struct tensors *f, const struct source *manifest, const char *text);

/* One strided copy from a file to memory: nrow rows of `bytes` bytes each. Positions and strides are in bytes. */
struct shard_copy {
    int64_t from, to, bytes, nrow, from_stride, to_stride;
};
/* Appends to *list the copies that read the overlap of two boxes of a value: box `file`, stored at position `from`
 * of the file, and box `memory`. Both are dense. width: bytes per element. */
void shard_copies(const struct box *file, int64_t from, const struct box *memory, int64_t to, int ndim, size_t width,
                  struct shard_copy **list, int32_t *n, int32_t *capacity);

#endif
