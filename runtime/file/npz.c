/* npz.c - reads NumPy's .npz: a zip file of .npy files, stored or deflated.
 *
 * Opening a file reads the zip directory, and the header of each array. The first read of an array unpacks it
 * completely, and verifies its checksum. */
#include "runtime/base/error.h"
#include "runtime/file/npy.h"
#include "runtime/file/tensors.h"
#include "runtime/file/codec/zip.h"

#include <stdlib.h>
#include <string.h>

struct npz_open { /* arguments of npz_member, which is called for each member */
    struct tensors *tensors;
    struct source *source;
    uint8_t *scratch; /* buffer of NPY_HEAD bytes */
};

static int
npz_member(void *arg, const struct zip_member *m)
{
    const struct npz_open *o = arg;
    struct tensors *f = o->tensors;
    const struct source *s = o->source;
    size_t first = 0;
    struct str told = {0};
    if (!text_ends(m->name, ".npy")) return fail(E_IO, "%s: '%.200s' in it is not an .npy file", s->name, m->name);
    int64_t n = MIN(m->bytes, (int64_t)NPY_HEAD);
    char *own = arena_strdup(&f->arena, m->name);
    own[strlen(own) - strlen(".npy")] = '\0';
    struct entry *e = tensors_add(f, own, s);
    TRY(zip_unpack(s, m, o->scratch, n));
    str_addf(&told, "%s: '%.200s'", s->name, m->name);
    int status = npy_head(str_text(&told), o->scratch, (size_t)n, &f->arena, e, &first);
    str_free(&told);
    TRY(status);
    e->offset = (int64_t)first;
    struct zip_member *kept = arena_dup(&f->arena, m, sizeof *m);
    kept->name = e->name;
    e->packed = kept;
    return entry_fits(e, m->bytes);
}

static int
open_npz(struct tensors *f, struct source *s)
{
    struct npz_open o = {f, s, must_alloc(NPY_HEAD)};
    int status = zip_each(s, npz_member, &o);
    free(o.scratch);
    return status;
}

/* Unpacks a member into memory, from which the entry is read from now on. */
static int
unpack(struct tensors *f, struct entry *e)
{
    const struct zip_member *m = e->packed;
    uint8_t *bytes = malloc((size_t)m->bytes + 1);
    if (!bytes)
        return fail(E_MEMORY, "%s: out of memory for the %lld bytes of '%s'", f->path, (long long)m->bytes, e->name);
    int status = zip_unpack(e->source, m, bytes, m->bytes);
    if (!status) status = zip_check(e->source, m, e->name, bytes);
    if (status) {
        free(bytes);
        return status;
    }
    e->source = tensors_add_source(f, source_of_bytes(f->path, bytes, (size_t)m->bytes));
    e->packed = NULL;
    return 0;
}

const struct format format_npz = {.name = "npz", .ending = ".npz", .open = open_npz, .unpack = unpack};
