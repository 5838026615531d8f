/* dlpack.c - shares tensors with other libraries. */

#include "actors/session/io/dlpack.h"

#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/run/store.h"

#include "runtime/device/device.h"
#include "runtime/tensor/view.h"

#include <pthread.h>
#include <stdlib.h>

enum { ALIGNED = 64 }; /* alignment that kernels expect of a buffer, bytes */

static const struct {
    enum dtype dtype;
    uint8_t code, bits;
} dtypes[] = {
    {DT_F32, DLPACK_FLOAT, 32}, {DT_F64, DLPACK_FLOAT, 64}, {DT_BF16, DLPACK_BFLOAT, 16}, {DT_F16, DLPACK_FLOAT, 16},
    {DT_I32, DLPACK_INT, 32},   {DT_I64, DLPACK_INT, 64},   {DT_U8, DLPACK_UINT, 8},      {DT_BOOL, DLPACK_BOOL, 8},
};

/* ---- importing tensors ---- */

/* Memory of another library. */
struct memory {
    const char *dtype;
    int ndim;
    const int64_t *shape, *strides;
    char *data;
    void (*release)(void *arg);
    void *arg;
};

static int
view_memory(const struct memory *m, const char *who, struct type *t, struct view *v)
{
    TRY(face_type(m->dtype, m->ndim, m->shape, who, t));
    size_t bytes = dtype_bytes(t->dtype);
    if (type_numel(t)) TRY(face_given(m->data, "the data", who));
    if ((uintptr_t)m->data % bytes)
        return fail(E_ARG, "%s: the data must be aligned to %zu bytes, the size of %s; copy it", who, bytes, m->dtype);
    *v = view_dense(t, m->data);
    for (int i = 0; m->strides && i < t->ndim; i++) v->stride[i] = m->strides[i];
    return 0;
}

static bool
can_share(const struct rille_session *s, const struct view *v, const struct layout *l)
{
    return l->place->kind == DEV_CPU && !s->cluster && view_bytes(v) > 0 && view_is_dense(v) &&
           (uintptr_t)v->data % ALIGNED == 0;
}

static int
share_memory(struct rille_session *s, const struct memory *m, const struct type *t, const struct layout *l,
             struct rille_tensor **out)
{
    struct pool *pool;
    TRY(session_pool(s, DEV_CPU, l->place->rank[0], &pool));
    struct store *store = store_new(1);
    buffer_wrap(pool, m->data, (size_t)type_bytes(t), m->release, m->arg, &store->part[0]);
    *out = tensor_new(s, graph_leaf(s->graph, t, l, store), true);
    return 0;
}

static int
import_memory(struct rille_session *s, const struct memory *m, const char *who, struct rille_tensor **out)
{
    struct type t;
    struct view v;
    TRY(face_session(s, who));
    TRY(face_given(out, "out", who));
    TRY(view_memory(m, who, &t, &v));
    const struct layout *l = session_layout(s);
    TRY(layout_fits(l, &t));
    if (can_share(s, &v, l)) return share_memory(s, m, &t, l, out);
    TRY(tensor_from_view(s, &t, l, &v, out));
    if (m->release) m->release(m->arg);
    return 0;
}

int
rille_from_memory(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape, const int64_t *strides,
                  void *data, void (*release)(void *arg), void *arg, struct rille_tensor **out)
{
    const struct memory m = {dtype, ndim, shape, strides, data, release, arg};
    return import_memory(s, &m, __func__, out);
}

static int
memory_of(const struct dlpack_tensor *d, const char *who, struct memory *m)
{
    if (d->device_type != DLPACK_CPU)
        return fail(E_PLACE, "%s: the tensor must be in cpu memory (device type 1), found device type %d; copy it", who,
                    (int)d->device_type);
    for (size_t i = 0; i < countof(dtypes) && !m->dtype; i++)
        if (dtypes[i].code == d->code && dtypes[i].bits == d->bits && d->lanes == 1)
            m->dtype = dtype_text(dtypes[i].dtype);
    if (!m->dtype)
        return fail(
            E_DTYPE,
            "%s: expected f32, f64, bf16, f16, i32, i64, u8 or bool, found type code %d with %d bits and %d lanes", who,
            d->code, d->bits, d->lanes);
    m->ndim = d->ndim;
    m->shape = d->shape;
    m->strides = d->strides;
    m->data = (char *)d->data + (d->data ? d->byte_offset : 0);
    return 0;
}

static void
delete_plain(void *m)
{
    struct DLManagedTensor *p = m;
    if (p->deleter) p->deleter(p);
}

static void
delete_versioned(void *m)
{
    struct DLManagedTensorVersioned *p = m;
    if (p->deleter) p->deleter(p);
}

static void exports_settle(struct rille_session *s);

int
rille_from_dlpack(struct rille_session *s, struct DLManagedTensor *m, struct rille_tensor **out)
{
    struct memory memory = {.release = delete_plain, .arg = m};
    TRY(face_session(s, __func__));
    TRY(face_given(m, "the tensor", __func__));
    TRY(memory_of(&m->tensor, __func__, &memory));
    exports_settle(s);
    return import_memory(s, &memory, __func__, out);
}

int
rille_from_dlpack_versioned(struct rille_session *s, struct DLManagedTensorVersioned *m, struct rille_tensor **out)
{
    struct memory memory = {.release = delete_versioned, .arg = m};
    TRY(face_session(s, __func__));
    TRY(face_given(m, "the tensor", __func__));
    if (m->major != DLPACK_MAJOR)
        return fail(E_ARG, "%s: expected DLPack version %d, found %u.%u", __func__, DLPACK_MAJOR, m->major, m->minor);
    TRY(memory_of(&m->tensor, __func__, &memory));
    exports_settle(s);
    return import_memory(s, &memory, __func__, out);
}

/* ---- exporting tensors ---- */

struct dlpack_export {
    struct DLManagedTensor plain;
    struct DLManagedTensorVersioned versioned;
    int64_t shape[MAX_DIM], strides[MAX_DIM];
    struct buffer *buffer; /* buffer that the export holds; NULL: `copy`, or no bytes */
    void *copy;
    bool open;    /* the session is open */
    bool deleted; /* the other library has called the deleter */
    struct dlpack_export *next;
};

static struct dlpack_export *left; /* exports of closed sessions whose deleter was called, linked by `next` */
static bool frees;                 /* a thread frees the exports in `left` */
/* Protects `left`, `frees`, and `open` and `deleted` of all exports. Never held while memory is released, because a
 * release function belongs to another library: it may wait for a lock of that library, or delete an export. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void
export_free(struct dlpack_export *e)
{
    buffer_drop(&e->buffer);
    free(e->copy);
    free(e);
}

/* Frees the exports of closed sessions, one thread at a time, because exports share pools. */
static void
free_left(void)
{
    pthread_mutex_lock(&lock);
    for (struct dlpack_export *e; !frees && (e = left) != NULL; frees = false) {
        frees = true;
        left = e->next;
        pthread_mutex_unlock(&lock);
        export_free(e);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

static void
leave_export(struct dlpack_export *e)
{
    e->next = left;
    left = e;
}

static void
export_delete(struct dlpack_export *e)
{
    pthread_mutex_lock(&lock);
    e->deleted = true;
    if (!e->open) leave_export(e);
    pthread_mutex_unlock(&lock);
    free_left();
}

static void
export_delete_plain(struct DLManagedTensor *m)
{
    export_delete(m->manager);
}

static void
export_delete_versioned(struct DLManagedTensorVersioned *m)
{
    export_delete(m->manager);
}

/* Frees exports whose deleter was called. */
static void
exports_settle(struct rille_session *s)
{
    struct dlpack_export *done = NULL;
    pthread_mutex_lock(&lock);
    for (struct dlpack_export **p = &s->exports, *e; (e = *p) != NULL;) {
        if (!e->deleted) {
            p = &e->next;
            continue;
        }
        *p = e->next;
        e->next = done;
        done = e;
    }
    pthread_mutex_unlock(&lock);
    for (struct dlpack_export *e; (e = done) != NULL;) {
        done = e->next;
        export_free(e);
    }
}

bool
dlpack_holds(struct rille_session *s)
{
    exports_settle(s);
    for (const struct dlpack_export *e = s->exports; e; e = e->next)
        if (e->buffer) return true;
    return false;
}

void
dlpack_close(struct rille_session *s)
{
    pthread_mutex_lock(&lock);
    for (struct dlpack_export *e = s->exports, *next; e; e = next) {
        next = e->next;
        e->open = false;
        if (e->deleted) leave_export(e);
    }
    s->exports = NULL;
    pthread_mutex_unlock(&lock);
    free_left();
}

/* Checks that one buffer has all elements of the tensor. */
static int
check_export(const struct rille_tensor *t, const char *who)
{
    const struct layout *l = t->val->layout;
    struct type shard = layout_shard(l, &t->val->type, 0);
    if (l->place->kind != DEV_CPU)
        return fail(E_PLACE, "%s: the tensor must be on cpu devices, found %s; move it first", who,
                    device_kind_text(l->place->kind));
    if (!layout_has_partial(l) && type_numel(&shard) == type_numel(&t->val->type)) return 0;
    struct str text = {0};
    layout_print(l, &text);
    fail(E_SBP, "%s: the tensor must be on one device or replicated, found %s; call to_global(\"B\") first", who,
         str_text(&text));
    str_free(&text);
    return E_SBP;
}

/* Sets *data to the address of the value's bytes, in its buffer or in a copy. */
static int
export_value(struct rille_tensor *t, struct dlpack_export *e, void **data)
{
    int64_t bytes = type_bytes(&t->val->type);
    struct buffer *b = t->val->store->n ? t->val->store->part[0] : NULL;
    if (b && !t->s->cluster) {
        TRY(buffer_await(b, false));
        buffer_hold(b);
        e->buffer = b;
        *data = b->data;
        return 0;
    }
    if (!bytes) return 0;
    *data = e->copy = aligned_alloc(ALIGNED, (size_t)(bytes + ALIGNED - 1) / ALIGNED * ALIGNED);
    return e->copy ? rille_tensor_read(t, e->copy) : fail(E_MEMORY, "to_dlpack: out of memory for a copy");
}

static struct dlpack_tensor
describe_export(const struct type *t, struct dlpack_export *e, void *data)
{
    struct view v = view_dense(t, data);
    struct dlpack_tensor d = {
        .data = data, .device_type = DLPACK_CPU, .ndim = t->ndim, .lanes = 1, .shape = e->shape, .strides = e->strides};
    for (size_t i = 0; i < countof(dtypes); i++)
        if (dtypes[i].dtype == t->dtype) d.code = dtypes[i].code, d.bits = dtypes[i].bits;
    for (int i = 0; i < t->ndim; i++) {
        e->shape[i] = t->dim[i];
        e->strides[i] = v.stride[i];
    }
    return d;
}

static int
export_tensor(struct rille_tensor *t, const char *who, struct dlpack_export **out)
{
    void *data = NULL;
    TRY(face_tensor(t, who));
    exports_settle(t->s);
    TRY(check_export(t, who));
    TRY(rille_eval(t->s, 1, &t));
    struct dlpack_export *e = must_alloc(sizeof *e);
    int status = export_value(t, e, &data);
    if (status) {
        export_free(e);
        return status;
    }
    struct dlpack_tensor d = describe_export(&t->val->type, e, data);
    e->plain = (struct DLManagedTensor){d, e, export_delete_plain};
    e->versioned = (struct DLManagedTensorVersioned){
        DLPACK_MAJOR, 0, e, export_delete_versioned, e->copy ? DLPACK_IS_COPIED : DLPACK_READ_ONLY, d};
    e->open = true;
    e->next = t->s->exports;
    t->s->exports = e;
    *out = e;
    return 0;
}

int
rille_to_dlpack(struct rille_tensor *t, struct DLManagedTensor **out)
{
    struct dlpack_export *e;
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    TRY(export_tensor(t, __func__, &e));
    *out = &e->plain;
    return 0;
}

int
rille_to_dlpack_versioned(struct rille_tensor *t, struct DLManagedTensorVersioned **out)
{
    struct dlpack_export *e;
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    TRY(export_tensor(t, __func__, &e));
    *out = &e->versioned;
    return 0;
}
