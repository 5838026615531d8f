/* tensors.h - a file of named tensors, open for reading: lists the tensors, and reads any box of a tensor.
 *
 * Opening reads the header only, and checks all of it: every claim of a header is checked against the file, whatever
 * the format. Values are not loaded before the first read. A set may span several files (shards) and belongs to one
 * thread. Formats are rows of a table (tensors.c); the caller or the path's ending chooses one.
 *
 * Errors are E_IO, E_DTYPE or E_MEMORY and name the file. */
#ifndef RILLE_RUNTIME_FILE_TENSORS_H
#define RILLE_RUNTIME_FILE_TENSORS_H

#include "runtime/base/arena.h"
#include "runtime/file/source.h"
#include "runtime/tensor/layout.h"

/* A shard of a value that is stored in several files: a box, dense and row-major. */
struct shard_part {
    int32_t file; /* index into the set's sources */
    int64_t at;   /* position in the file, bytes */
    struct box box;
};

struct entry {
    const char *name;
    struct type type;    /* as in the file; DT_NONE: a dtype that Rille lacks (foreign) */
    const char *foreign; /* the file's name for that dtype */
    const struct source *source;
    int64_t offset; /* position of the first element in source, bytes */
    bool swap;      /* values are big-endian */
    bool fortran;   /* column-major: the first axis is contiguous */
    int32_t npart;  /* shards (shards.h); 0: the value is in source */
    const struct shard_part *part;
    const void *packed; /* compressed archive member, unpacked by the first read; NULL: not compressed */
};

struct tensors;
struct format {
    const char *name;   /* "safetensors" */
    const char *ending; /* path ending; NULL: chosen by name only */
    int (*open)(struct tensors *f, struct source *s);
    int (*unpack)(struct tensors *f, struct entry *e); /* NULL: the format has no compression */
};

struct metadata {
    const char *key, *value;
};

struct tensors {
    char *path;
    const struct format *format;
    struct source **source;
    int32_t nsource, source_capacity;
    struct entry *entry; /* sorted by name after opening */
    int32_t nentry, entry_capacity;
    struct metadata *metadata; /* other metadata as text, in the file's order */
    int32_t nmetadata, metadata_capacity;
    struct arena arena; /* names and texts */
};

/* Opens a set. format: name of a format; NULL: chosen by the path's ending. A folder, or an index
 * (.safetensors.index.json), is a set of shards. */
int tensors_open(const char *path, const char *format, struct tensors **out);
/* Opens a set from an open source and takes ownership of the source, even on failure. */
int tensors_of(struct source *s, const struct format *format, struct tensors **out);
void tensors_close(struct tensors **f);

/* Returns the index of the entry; -1 if none. */
int32_t tensors_find(const struct tensors *f, const char *name);
/* Returns E_DTYPE, naming the entry, if Rille lacks the entry's dtype. */
int entry_check(const struct tensors *f, const struct entry *e);
/* Reads a box, dense and row-major, as `dtype` (DT_NONE: the entry's own). */
int entry_read(struct tensors *f, int32_t i, const struct box *b, enum dtype dtype, void *out);

/* ---- for formats ---- */

struct source *tensors_add_source(struct tensors *f, struct source *s); /* takes ownership of s */
struct entry *tensors_add(struct tensors *f, const char *name, const struct source *s);
void tensors_tell(struct tensors *f, const char *key, const char *value);
/* Sorts the entries; E_IO if two entries have the same name. */
int tensors_seal(struct tensors *f);
/* Checks the shape, and, if the dtype is known, that the value lies within [0, end) of its source. E_IO. */
int entry_fits(const struct entry *e, int64_t end);

extern const struct format format_safetensors, format_npy, format_npz, format_gguf, format_llmc;

#endif
