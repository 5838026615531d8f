/* tensors.h - a file of named tensors, open for reading: what is in it, and any box of any of them.
 *
 * Opening reads and checks the head alone, completely: it believes what a head says only where the file bears it out,
 * whatever the format. A set takes no memory for values before somebody asks for them. A set may span several files
 * (shards). It belongs to one thread. Formats are rows of a table (tensors.c); the path tells which, or the caller.
 *
 * Errors are E_IO, E_DTYPE or E_MEMORY and name the file. */
#ifndef RILLE_RUNTIME_FILE_TENSORS_H
#define RILLE_RUNTIME_FILE_TENSORS_H

#include "runtime/arena.h"
#include "runtime/file/source.h"
#include "runtime/layout.h"

/* Of a value that lies in several files: a box, dense and row-major. */
struct shard_part {
    int32_t file; /* of the set's sources */
    int64_t at;   /* in bytes */
    struct box box;
};

struct entry {
    const char *name;
    struct type type;    /* as in the file; DT_NONE: a dtype that Rille lacks, see foreign */
    const char *foreign; /* what the file calls that dtype */
    const struct source *source;
    int64_t offset; /* of the first element in it */
    bool swap;      /* big-endian */
    bool fortran;   /* the first axis runs fastest */
    int32_t npart;  /* shards.h; 0: the value lies in its source */
    const struct shard_part *part;
    const void *packed; /* of an archive's member, which the first read unpacks; NULL: the bytes stand as they are */
};

struct tensors;
struct format {
    const char *name;   /* "safetensors" */
    const char *ending; /* of paths; NULL: only by name */
    int (*open)(struct tensors *f, struct source *s);
    int (*unpack)(struct tensors *f, struct entry *e); /* NULL: it packs nothing */
};

struct metadata {
    const char *key, *value;
};

struct tensors {
    char *path;
    const struct format *format;
    struct source **source;
    int32_t nsource, source_capacity;
    struct entry *entry; /* by name, once it is open */
    int32_t nentry, entry_capacity;
    struct metadata *metadata; /* what else the file says, as text, in its order */
    int32_t nmetadata, metadata_capacity;
    struct arena arena; /* names and texts */
};

/* format: one's name, or NULL: as the path's ending tells. A folder, or an index (.safetensors.index.json), is a set of
 * shards. */
int tensors_open(const char *path, const char *format, struct tensors **out);
/* The same of an open source, which it takes over, whatever comes of it. */
int tensors_of(struct source *s, const struct format *format, struct tensors **out);
void tensors_close(struct tensors **f);

/* Its position, or -1. */
int32_t tensors_find(const struct tensors *f, const char *name);
/* E_DTYPE, naming the entry, when Rille has no such dtype. */
int entry_check(const struct tensors *f, const struct entry *e);
/* The box, dense and row-major, as `dtype` (DT_NONE: the entry's own). */
int entry_read(struct tensors *f, int32_t i, const struct box *b, enum dtype dtype, void *out);

/* ---- for formats ---- */

struct source *tensors_add_source(struct tensors *f, struct source *s); /* takes it over */
struct entry *tensors_add(struct tensors *f, const char *name, const struct source *s);
void tensors_tell(struct tensors *f, const char *key, const char *value);
/* Sorts; E_IO when two entries have one name. */
int tensors_seal(struct tensors *f);
/* Checks the shape, and that the value - as far as its dtype is known - lies within [0, end) of its source. E_IO. */
int entry_fits(const struct entry *e, int64_t end);

extern const struct format format_safetensors, format_npy, format_npz, format_gguf, format_llmc;

#endif
