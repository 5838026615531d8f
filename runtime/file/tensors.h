/* tensors.h - reads files of named tensors: lists the tensors, and reads any box of a tensor.
 *
 * Opening reads only the header, and checks everything in it against the file. No values are loaded before the first
 * read. A set of tensors may span several files (shards) and belongs to one thread. tensors.c has a table of
 * formats; the caller or the path's ending chooses one.
 *
 * Errors are E_IO, E_DTYPE or E_MEMORY and name the file. */
#ifndef RILLE_RUNTIME_FILE_TENSORS_H
#define RILLE_RUNTIME_FILE_TENSORS_H

#include "runtime/data/arena.h"
#include "runtime/file/disk/source.h"
#include "runtime/tensor/layout.h"

/* A shard of a value that is stored in several files: a box of the value, dense and row-major. */
struct shard_part {
    int32_t file; /* index of the file in the set's sources */
    int64_t at;   /* position in the file, bytes */
    struct box box;
};

struct entry {
    const char *name;
    struct type type;    /* type in the file; dtype DT_NONE: Rille lacks the dtype (see foreign) */
    const char *foreign; /* the file's name for a dtype that Rille lacks */
    /* tensors from which the value is computed (quantised.h); NULL: the file stores the value itself */
    const struct quantised *quantised;
    /* decoder of the value's blocks; NULL: the file stores plain values of the dtype */
    const struct coding *coding;
    const struct source *source;
    int64_t offset; /* position of the first element in the source, bytes */
    bool swap;      /* true: values are big-endian */
    bool fortran;   /* true: column-major, so the first axis is contiguous */
    int32_t npart;  /* number of shards (shards.h); 0: the value is not sharded */
    const struct shard_part *part;
    const void *packed; /* compressed archive member, which the first read unpacks; NULL: not compressed */
};

struct tensors;
struct format {
    const char *name;   /* name of the format: "safetensors" */
    const char *ending; /* path endings of the format, separated by spaces; NULL: the format is chosen only by name */
    int (*open)(struct tensors *f, struct source *s);
    int (*unpack)(struct tensors *f, struct entry *e); /* unpacks an entry; NULL: the format has no compression */
};

struct metadata {
    const char *key, *value;
};

/* A list in the metadata, which is read only on request: n values that begin at position `at` of the source,
 * bytes. */
struct metadata_list {
    const char *key;
    const struct source *source;
    int64_t at, n;
    uint32_t type; /* the format's number for the type of a value */
};

struct tensors {
    char *path;
    const struct format *format;
    struct source **source;
    int32_t nsource, source_capacity;
    struct entry *entry; /* entries; sorted by name after opening */
    int32_t nentry, entry_capacity;
    struct metadata *metadata; /* other metadata as texts, in the order of the file */
    int32_t nmetadata, metadata_capacity;
    struct metadata_list *list;
    int32_t nlist, list_capacity;
    struct arena arena; /* memory of names and texts */
};

/* Opens a set. format: name of a format; NULL: the path's ending decides. If the path is a folder or an index
 * (.safetensors.index.json), opens its shard files. */
int tensors_open(const char *path, const char *format, struct tensors **out);
/* Opens a set from an open source. Takes ownership of the source, even after an error. */
int tensors_of(struct source *s, const struct format *format, struct tensors **out);
void tensors_close(struct tensors **f);

/* Returns the index of the entry with this name; -1: none. */
int32_t tensors_find(const struct tensors *f, const char *name);
/* Checks that Rille has the entry's dtype. E_DTYPE: Rille lacks the dtype; the text names the entry. */
int entry_check(const struct tensors *f, const struct entry *e);
/* Returns the number of bytes of the entry in the file; 0: unknown. */
int64_t entry_bytes(const struct entry *e);
/* Reads a box of entry i, dense and row-major, as `dtype` (DT_NONE: the dtype of the entry). */
int entry_read(struct tensors *f, int32_t i, const struct box *b, enum dtype dtype, void *out);
int entry_read_box(struct tensors *f, struct entry *e, const struct box *b, enum dtype dtype, void *out);

/* ---- functions for the readers of file formats ---- */

struct source *tensors_add_source(struct tensors *f, struct source *s); /* takes ownership of s */
struct entry *tensors_add(struct tensors *f, const char *name, const struct source *s);
void tensors_tell(struct tensors *f, const char *key, const char *value);
/* Sorts the entries by name. E_IO: two entries have the same name. */
int tensors_seal(struct tensors *f);
/* Sets the entry's dtype. name: the file's name for the dtype. dtype: the equal dtype of Rille; DT_NONE: there is
 * none, and the entry gets the coding of that name, if one exists.
 * */
void entry_set_dtype(struct entry *e, const char *name, enum dtype dtype);
/* Checks the shape and, if Rille has the dtype, that the value is within [0, end) of its source. E_IO. */
int entry_fits(const struct entry *e, int64_t end);

extern const struct format format_safetensors, format_npy, format_npz, format_gguf, format_torch, format_llmc;

#endif
