/* torch.c - reads state dicts of torch.save: a zip file with a pickle and the bytes of each storage.
 *
 *   NAME/data.pkl   pickle: dictionaries of tensors; a tensor is a call of torch._utils._rebuild_tensor_v2 with its
 *                   storage, offset, sizes and strides
 *   NAME/data/KEY   bytes of a storage, not compressed
 *   NAME/byteorder  "little" or "big"; absent: little
 *
 * No code of the pickle is run (pickle.h): functions other than those of state dicts are refused by name.
 * Dictionaries and lists within the state dict are flattened: {"model": {"w": t}} has the tensor "model.w". Values
 * that are not tensors become metadata if they are entries of the outermost dictionary; others are ignored. The
 * first read of a tensor verifies the checksum of its storage. */
#include "runtime/base/error.h"
#include "runtime/file/codec/pickle.h"
#include "runtime/file/tensors.h"
#include "runtime/file/codec/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PICKLE = 1 << 24, TORCH_NEST = 8, TORCH_NAME = 1024 };

/* Dtypes by the name of torch's storage class, and by torch's name of the dtype. type, dtype: arguments of
 * entry_set_dtype. */
static const struct torch_dtype {
    const char *global, *type;
    uint8_t dtype, bytes;
} torch_dtypes[] = {
    {"torch.FloatStorage", "F32", DT_F32, 4},
    {"torch.DoubleStorage", "F64", DT_F64, 8},
    {"torch.HalfStorage", "F16", DT_F16, 2},
    {"torch.BFloat16Storage", "BF16", DT_BF16, 2},
    {"torch.LongStorage", "I64", DT_I64, 8},
    {"torch.IntStorage", "I32", DT_I32, 4},
    {"torch.ShortStorage", "I16", DT_NONE, 2},
    {"torch.CharStorage", "I8", DT_NONE, 1},
    {"torch.ByteStorage", "U8", DT_U8, 1},
    {"torch.BoolStorage", "BOOL", DT_BOOL, 1},
    {"torch.ComplexFloatStorage", "C64", DT_NONE, 8},
    {"torch.ComplexDoubleStorage", "C128", DT_NONE, 16},
    {"torch.uint16", "U16", DT_NONE, 2},
    {"torch.uint32", "U32", DT_NONE, 4},
    {"torch.uint64", "U64", DT_NONE, 8},
    {"torch.float8_e4m3fn", "F8_E4M3", DT_NONE, 1},
    {"torch.float8_e5m2", "F8_E5M2", DT_NONE, 1},
    {"torch.float8_e4m3fnuz", "F8_E4M3FNUZ", DT_NONE, 1},
    {"torch.float8_e5m2fnuz", "F8_E5M2FNUZ", DT_NONE, 1},
    {"torch.float8_e8m0fnu", "F8_E8M0", DT_NONE, 1},
};

struct torch_open { /* a file that is being opened */
    struct tensors *tensors;
    struct source *source;
    struct zip_member *member; /* members in the order of the zip file */
    int32_t nmember, capacity;
    const char *root; /* prefix of the members' names: "archive/" */
    bool swap;
    int32_t nleft; /* number of values that may still be visited: a limit, because dictionaries may share values or
                      contain each other */
};

static int
torch_bad(const struct torch_open *o, const char *why)
{
    return fail(E_IO, "%s: not a state dict of torch.save, or damaged: %s", o->source->name, why);
}

/* ---- reading members of the zip file ---- */

static int
torch_member(void *arg, const struct zip_member *m)
{
    struct torch_open *o = arg;
    struct arena *a = &o->tensors->arena;
    ARENA_GROW(a, o->member, o->nmember + 1, o->capacity);
    o->member[o->nmember] = *m;
    o->member[o->nmember].name = arena_strdup(a, m->name);
    if (!strcmp(m->name, "data.pkl") || text_ends(m->name, "/data.pkl")) {
        if (o->root) return torch_bad(o, "it has two members data.pkl");
        char *root = arena_strdup(a, m->name);
        root[strlen(root) - strlen("data.pkl")] = '\0';
        o->root = root;
    }
    o->nmember++;
    return 0;
}

/* Returns the member FOLDER/NAME below the root; NULL: there is none. */
static const struct zip_member *
torch_find(const struct torch_open *o, const char *folder, const char *name)
{
    size_t nroot = strlen(o->root), nfolder = strlen(folder);
    for (int32_t i = 0; i < o->nmember; i++) {
        const char *is = o->member[i].name;
        if (!strncmp(is, o->root, nroot) && !strncmp(is + nroot, folder, nfolder) &&
            !strcmp(is + nroot + nfolder, name))
            return &o->member[i];
    }
    return NULL;
}

/* Reads a member that is not compressed, of at most `most` bytes, into the arena. */
static int
torch_bytes(const struct torch_open *o, const struct zip_member *m, int64_t most, uint8_t **out)
{
    int64_t at = 0;
    if (m->bytes > most) return torch_bad(o, "a member is too long");
    TRY(zip_stored(o->source, m, &at));
    *out = arena_alloc(&o->tensors->arena, (size_t)m->bytes + 1);
    TRY(source_read(o->source, at, *out, m->bytes));
    return zip_check(o->source, m, m->name, *out);
}

/* ---- making entries of tensors ---- */

static const struct torch_dtype *
torch_dtype_find(const struct pickle *v)
{
    for (size_t i = 0; v->kind == PICKLE_GLOBAL && i < countof(torch_dtypes); i++)
        if (!strcmp(v->text, torch_dtypes[i].global)) return &torch_dtypes[i];
    return NULL;
}

/* Reads a tuple of sizes or strides. Returns false if the value is not such a tuple. */
static bool
torch_sizes(const struct pickle *v, int64_t *out)
{
    if (v->kind != PICKLE_LIST || v->nitem > MAX_DIM) return false;
    for (int32_t i = 0; i < v->nitem; i++) {
        if (v->item[i]->kind != PICKLE_INT || v->item[i]->integer < 0) return false;
        out[i] = v->item[i]->integer;
    }
    return true;
}

/* Returns true if the strides are those of a row-major value or, if `fortran` is set, of a column-major value. */
static bool
has_strides(const struct type *t, const int64_t *stride, bool fortran)
{
    int64_t next = 1;
    for (int k = 0; k < t->ndim; k++) {
        int i = fortran ? k : t->ndim - 1 - k;
        if (t->dim[i] != 1 && stride[i] != next) return false;
        next *= t->dim[i];
    }
    return true;
}

/* Sets dtype and position of an entry from its storage, ("storage", class, key, device, number of elements). type:
 * dtype of the tensor; NULL: the dtype of the storage's class. offset: first element in the storage. */
static int
torch_storage(struct torch_open *o, struct entry *e, const struct pickle *v, const struct pickle *type, int64_t offset)
{
    if (v->kind != PICKLE_STORED || v->nitem != 5 || v->item[2]->kind != PICKLE_TEXT)
        return torch_bad(o, "a tensor has no storage");
    const struct pickle *class = type ? type : v->item[1];
    const struct torch_dtype *d = torch_dtype_find(class);
    const struct zip_member *m = torch_find(o, "data/", v->item[2]->text);
    if (!d && class->kind != PICKLE_GLOBAL) return torch_bad(o, "a storage has no class");
    if (!m) return torch_bad(o, "the bytes of a storage are missing");
    entry_set_dtype(e, d ? d->type : class->text, d ? d->dtype : DT_NONE);
    int64_t bytes = d ? d->bytes : 1;
    TRY(zip_stored(o->source, m, &e->offset));
    if (offset > m->bytes / bytes) return torch_bad(o, "a tensor is beyond the end of its storage");
    int64_t end = e->offset + m->bytes;
    e->offset += offset * bytes;
    e->swap = o->swap && !e->coding;
    if (o->swap && e->coding && bytes > 1)
        return fail(E_IO, "%s: '%s' is big-endian %s", o->source->name, e->name, d->type);
    e->packed = m;
    return entry_fits(e, end);
}

/* Adds a tensor from the arguments of its call: storage, offset, sizes, strides; further arguments are ignored. */
static int
torch_tensor(struct torch_open *o, const char *name, const struct pickle *call, const struct pickle *type)
{
    int64_t stride[MAX_DIM];
    struct entry *e = tensors_add(o->tensors, name, o->source);
    if (call->nitem < 4 || call->item[1]->kind != PICKLE_INT || call->item[1]->integer < 0 ||
        !torch_sizes(call->item[2], e->type.dim) || !torch_sizes(call->item[3], stride))
        return torch_bad(o, "a tensor has no sizes and strides");
    e->type.ndim = (uint8_t)call->item[2]->nitem;
    if (call->item[3]->nitem != e->type.ndim) return torch_bad(o, "a tensor has more sizes than strides");
    TRY(torch_storage(o, e, call->item[0], type, call->item[1]->integer));
    if (type_numel(&e->type) == 0 || has_strides(&e->type, stride, false)) return 0;
    e->fortran = has_strides(&e->type, stride, true);
    if (e->fortran) return 0;
    return fail(E_IO, "%s: '%s' is a view with gaps; save its contiguous() copy", o->source->name, name);
}

static int torch_value(struct torch_open *o, const char *name, const struct pickle *v, int depth);

static int
torch_call(struct torch_open *o, const char *name, const struct pickle *v, int depth)
{
    if (!strcmp(v->text, "torch._utils._rebuild_tensor_v2")) return torch_tensor(o, name, v, NULL);
    if (!strcmp(v->text, "torch._utils._rebuild_tensor_v3") && v->nitem > 6)
        return torch_tensor(o, name, v, v->item[6]);
    if (!strcmp(v->text, "torch._utils._rebuild_parameter") && v->nitem > 0)
        return torch_value(o, name, v->item[0], depth);
    if (!strcmp(v->text, "torch.Size") || !strcmp(v->text, "torch.device")) return 0;
    return fail(E_IO,
                "%s: '%s' is made by %.200s, which is not part of a state dict; save a state_dict, with tensors alone",
                o->source->name, name, v->text);
}

/* Visits the items of a list or dictionary. */
static int
torch_items(struct torch_open *o, const char *name, const struct pickle *v, int depth)
{
    char path[TORCH_NAME];
    bool dict = v->kind == PICKLE_DICT;
    for (int32_t i = 0; i < v->nitem; i += dict ? 2 : 1) {
        const struct pickle *key = v->item[i];
        const char *dot = name[0] ? "." : "";
        int n = 0;
        if (!dict)
            n = snprintf(path, sizeof path, "%s%s%d", name, dot, (int)i);
        else if (key->kind == PICKLE_INT)
            n = snprintf(path, sizeof path, "%s%s%lld", name, dot, (long long)key->integer);
        else if (key->kind == PICKLE_TEXT && strlen(key->text) == key->n)
            n = snprintf(path, sizeof path, "%s%s%s", name, dot, key->text);
        else
            continue;
        if (n >= (int)sizeof path) return torch_bad(o, "a name is too long");
        TRY(torch_value(o, path, v->item[dict ? i + 1 : i], depth + 1));
    }
    return 0;
}

static int
torch_value(struct torch_open *o, const char *name, const struct pickle *v, int depth)
{
    char number[32];
    if (o->nleft-- <= 0 || depth > TORCH_NEST) return torch_bad(o, "its dictionaries are nested too deep");
    switch (v->kind) {
    case PICKLE_LIST:
    case PICKLE_DICT: return torch_items(o, name, v, depth);
    case PICKLE_CALL: return torch_call(o, name, v, depth);
    case PICKLE_TEXT:
        if (depth == 1 && strlen(v->text) == v->n) tensors_tell(o->tensors, name, v->text);
        return 0;
    case PICKLE_INT:
    case PICKLE_FLOAT:
        if (v->kind == PICKLE_INT)
            snprintf(number, sizeof number, "%lld", (long long)v->integer);
        else
            snprintf(number, sizeof number, "%.17g", v->real);
        if (depth == 1) tensors_tell(o->tensors, name, number);
        return 0;
    default: return 0;
    }
}

/* ---- opening a file ---- */

static int
torch_not_zip(const struct source *s)
{
    uint8_t b[4] = {0};
    TRY(source_read(s, 0, b, MIN(s->size, (int64_t)sizeof b)));
    if (!memcmp(b, "PK\3\4", 4)) return 0;
    if (b[0] == 0x80)
        return fail(
            E_IO,
            "%s: the format of torch.save before PyTorch 1.6, which is not supported; load the file in PyTorch, and "
            "save it again",
            s->name);
    return fail(E_IO, "%s: not a file of torch.save: it does not begin with PK", s->name);
}

static int
open_torch(struct tensors *f, struct source *s)
{
    struct torch_open o = {.tensors = f, .source = s};
    struct pickle *root;
    uint8_t *bytes;
    TRY(torch_not_zip(s));
    TRY(zip_each(s, torch_member, &o));
    if (!o.root) return torch_bad(&o, "it has no member data.pkl");
    const struct zip_member *order = torch_find(&o, "", "byteorder"), *m = torch_find(&o, "", "data.pkl");
    if (order) TRY(torch_bytes(&o, order, 16, &bytes));
    o.swap = order && !memcmp(bytes, "big", MIN(order->bytes, 3));
    TRY(torch_bytes(&o, m, MAX_PICKLE, &bytes));
    TRY(pickle_read(s->name, bytes, (size_t)m->bytes, &f->arena, &root));
    o.nleft = (int32_t)m->bytes;
    return torch_value(&o, "", root, 0);
}

/* Verifies the checksum of an entry's storage. */
static int
torch_verify(struct tensors *f, struct entry *e)
{
    const struct zip_member *m = e->packed;
    TRY(zip_check_stored(e->source, m, m->name));
    for (int32_t i = 0; i < f->nentry; i++)
        if (f->entry[i].packed == m) f->entry[i].packed = NULL;
    return 0;
}

const struct format format_torch = {
    .name = "torch", .ending = ".pt .pth .bin", .open = open_torch, .unpack = torch_verify};
