/* dlpack.c - tests tensors that share memory with other libraries. Covers every dtype, all strides of small shapes
 * and refused tensors. Checks that shared memory is released exactly once, when the last user is done: before or
 * after the session closes, on any thread. */
#include "actors/session/io/dlpack.h"
#include "rille.h"
#include "t/lib/tap.h"

#include <pthread.h>
#include <sys/mman.h>

enum { MOST = 64 };
static const char *const dtypes[] = {"f32", "f64", "bf16", "f16", "i32", "i64", "u8", "bool"};
static const uint8_t codes[][2] = {{2, 32}, {2, 64}, {4, 16}, {2, 16}, {0, 32}, {0, 64}, {1, 8}, {6, 8}};
enum { NDTYPE = sizeof dtypes / sizeof *dtypes };

static struct rille_session *
open_session(const char *devices)
{
    struct rille_session *s;
    return rille_open(&(struct rille_options){.devices = devices}, &s) ? NULL : s;
}

static int nreleased;

static void
release(void *arg)
{
    ++*(int *)arg;
}

static void
delete_plain(struct DLManagedTensor *m)
{
    ++*(int *)m->manager;
}

static void
delete_versioned(struct DLManagedTensorVersioned *m)
{
    ++*(int *)m->manager;
}

/* A tensor of another library. Its bytes follow a pattern; for bool each byte is 0 or 1. */
struct foreign {
    _Alignas(64) unsigned char bytes[MOST * 8 + 64];
    int64_t shape[3], strides[3];
    struct dlpack_tensor tensor;
};

static void
fill_foreign(struct foreign *f, int dtype, int ndim, const int64_t *shape, const int64_t *strides)
{
    for (size_t i = 0; i < sizeof f->bytes; i++)
        f->bytes[i] = (unsigned char)(dtype == NDTYPE - 1 ? i % 3 == 0 : i * 7 % 60);
    memcpy(f->shape, shape, sizeof f->shape);
    if (strides) memcpy(f->strides, strides, sizeof f->strides);
    f->tensor = (struct dlpack_tensor){.data = f->bytes,
                                       .device_type = DLPACK_CPU,
                                       .ndim = ndim,
                                       .code = codes[dtype][0],
                                       .bits = codes[dtype][1],
                                       .lanes = 1,
                                       .shape = f->shape,
                                       .strides = strides ? f->strides : NULL};
}

/* Returns true if `bytes` has the elements of the foreign tensor, dense and row-major. */
static bool
same_elements(const struct foreign *f, const void *bytes)
{
    const struct dlpack_tensor *d = &f->tensor;
    size_t size = d->bits / 8;
    int64_t n = 1, dense[3];
    for (int i = d->ndim - 1; i >= 0; i--) {
        dense[i] = n;
        n *= d->shape[i];
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t at = 0;
        for (int i = 0; i < d->ndim; i++) at += k / dense[i] % d->shape[i] * (d->strides ? d->strides[i] : dense[i]);
        const char *from = (const char *)d->data + d->byte_offset;
        if (memcmp(from + at * (int64_t)size, (const char *)bytes + k * (int64_t)size, size)) return false;
    }
    return true;
}

/* Returns true if the tensor equals the foreign one, also after an export by both versions of the protocol. */
static bool
round_trips(struct rille_tensor *t, const struct foreign *f)
{
    char value[MOST * 8];
    struct DLManagedTensor *m = NULL;
    struct DLManagedTensorVersioned *v = NULL;
    bool right = !rille_tensor_read(t, value) && same_elements(f, value) && !rille_to_dlpack(t, &m) &&
                 !rille_to_dlpack_versioned(t, &v);
    if (!right) return false;
    const struct dlpack_tensor *d = &m->tensor;
    right = d->ndim == f->tensor.ndim && d->code == f->tensor.code && d->bits == f->tensor.bits && d->lanes == 1 &&
            d->device_type == DLPACK_CPU && !memcmp(d->shape, f->shape, sizeof(int64_t) * (size_t)d->ndim) &&
            same_elements(f, d->data) && same_elements(f, v->tensor.data) && v->major == 1 &&
            v->flags == DLPACK_READ_ONLY;
    m->deleter(m);
    v->deleter(v);
    return right;
}

/* Imports the foreign tensor in each of three ways. Returns true if each import has the foreign elements, shares
 * memory as expected, and releases the foreign tensor once: after the call if copied, otherwise when the imported
 * tensor is freed. */
static bool
imports(struct rille_session *s, const struct foreign *f, const char *dtype, bool read_only, bool shared)
{
    for (int how = 0; how < 3; how++) {
        int n = 0;
        struct rille_tensor *t = NULL;
        struct DLManagedTensor plain = {f->tensor, &n, delete_plain};
        struct DLManagedTensorVersioned versioned = {
            1, 3, &n, delete_versioned, read_only ? DLPACK_READ_ONLY : 0, f->tensor};
        int status = how == 0   ? rille_from_dlpack(s, &plain, &t)
                     : how == 1 ? rille_from_dlpack_versioned(s, &versioned, &t)
                                : rille_from_memory(s, dtype, f->tensor.ndim, f->shape, f->tensor.strides,
                                                    (char *)f->tensor.data + f->tensor.byte_offset, release, &n, &t);
        if (status || n != !shared || !round_trips(t, f)) return false;
        rille_tensor_free(&t);
        struct DLManagedTensor *next; /* its export frees the memory of earlier exports whose users are done */
        if (rille_create(s, rille_op_find("ones"), 0, NULL, 0, NULL, NULL, NULL, &t) || rille_to_dlpack(t, &next))
            return false;
        next->deleter(next);
        rille_tensor_free(&t);
        if (n != 1) return false;
    }
    return true;
}

static bool
is_dense(int ndim, const int64_t *shape, const int64_t *strides)
{
    int64_t n = 1;
    for (int i = ndim - 1; i >= 0; n *= shape[i--])
        if (shape[i] > 1 && strides[i] != n) return false;
    return true;
}

/* Tries all shapes of up to three dimensions of size 0 to 3, with strides of 0 to 9. */
static void
test_strides(struct rille_session *s)
{
    static const int64_t strides_of[] = {0, 1, 2, 3, 4, 9};
    static struct foreign f;
    for (int d = 0; d < NDTYPE; d++) {
        int bad = 0, n = 0;
        for (int ndim = 0; ndim <= 3; ndim++)
            for (int k = 0, end = 1; ndim > 0 ? k < (end = ndim == 1 ? 24 : ndim == 2 ? 576 : 13824) : k < end; k++) {
                int64_t shape[3] = {0}, strides[3] = {0};
                for (int i = 0, r = k; i < ndim; i++, r /= 24) {
                    shape[i] = r % 4;
                    strides[i] = strides_of[r / 4 % 6];
                }
                if (ndim == 3 && (k % 37 || !share(k))) continue;
                fill_foreign(&f, d, ndim, shape, strides);
                bool shared = is_dense(ndim, shape, strides) && (ndim < 1 || shape[0]) && (ndim < 2 || shape[1]) &&
                              (ndim < 3 || shape[2]);
                bad += !imports(s, &f, dtypes[d], n % 2, shared);
                n++;
            }
        is_int(bad, 0, "all strides of small shapes make the round trip, and are shared if dense, else copied");
        fill_foreign(&f, d, 2, (const int64_t[3]){2, 3}, NULL);
        ok(imports(s, &f, dtypes[d], false, true), "%s: without strides, a tensor is dense and shared", dtypes[d]);
        fill_foreign(&f, d, 2, (const int64_t[3]){3, 2}, (const int64_t[3]){-2, -1});
        f.tensor.byte_offset = 5 * codes[d][1] / 8;
        ok(imports(s, &f, dtypes[d], false, false), "%s: a tensor in reverse order is copied", dtypes[d]);
        fill_foreign(&f, d, 2, (const int64_t[3]){2, 3}, NULL);
        f.tensor.byte_offset = codes[d][1] / 8;
        ok(imports(s, &f, dtypes[d], false, false), "%s: a tensor that is not aligned to 64 bytes is copied",
           dtypes[d]);
    }
}

static void
test_refusals(struct rille_session *s)
{
    static struct foreign f;
    struct rille_tensor *t = NULL;
    int n = 0, bad = 0, status;
    fill_foreign(&f, 0, 1, (const int64_t[3]){2}, NULL);
    struct DLManagedTensor m = {f.tensor, &n, delete_plain};
    struct DLManagedTensorVersioned v = {2, 0, &n, delete_versioned, 0, f.tensor};
    ok(rille_from_dlpack_versioned(s, &v, &t) && strstr(rille_error(), "expected DLPack version 1, found 2.0"),
       "another version is refused");
    for (int device = 0; device < 20; device++) {
        m.tensor.device_type = device;
        if (device != DLPACK_CPU) bad += !rille_from_dlpack(s, &m, &t);
    }
    is_int(bad, 0, "memory of other devices is refused");
    m.tensor = f.tensor;
    for (int code = 0; code < 8; code++)
        for (int bits = 0; bits <= 128; bits++)
            for (int lanes = 0; lanes < 3; lanes++) {
                bool known = false;
                for (int d = 0; d < NDTYPE; d++)
                    known = known || (codes[d][0] == code && codes[d][1] == bits && lanes == 1);
                m.tensor.code = (uint8_t)code, m.tensor.bits = (uint8_t)bits, m.tensor.lanes = (uint16_t)lanes;
                status = known || rille_from_dlpack(s, &m, &t);
                bad += !status;
            }
    is_int(bad, 0, "other dtypes are refused");
    ok(rille_from_memory(s, "f32", 1, (int64_t[]){2}, NULL, f.bytes + 2, release, &n, &t) &&
           strstr(rille_error(), "must be aligned to 4 bytes"),
       "numbers at addresses that are no multiples of their size are refused");
    is_int(n, 0, "refused memory is not released");
}

/* Tests that a relu that is not computed yet keeps the memory of its shared operand, although all handles of the
 * operand are freed. */
static void
test_sharing(struct rille_session *s)
{
    static struct foreign f;
    struct rille_tensor *t, *y, *seven;
    int n = 0;
    float value[2] = {0};
    fill_foreign(&f, 0, 1, (const int64_t[3]){2}, NULL);
    float *data = (float *)(void *)f.bytes;
    data[0] = -1, data[1] = 2;
    rille_from_memory(s, "f32", 1, f.shape, NULL, data, release, &n, &t);
    data[1] = 3;
    rille_tensor_read(t, value);
    ok(value[1] == 3, "a shared tensor shows changes of the memory");
    rille_call(s, rille_op_find("relu"), 1, &(struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = t}, 0, NULL, &y);
    struct rille_tensor *held = rille_tensor_hold(t);
    rille_tensor_free(&t);
    rille_tensor_free(&held);
    is_int(n, 0, "memory that a lazy result needs is not released");
    rille_tensor_read(y, value);
    ok(value[0] == 0 && value[1] == 3 && data[0] == -1, "a result does not overwrite the memory");
    rille_tensor_free(&y);
    is_int(n, 1, "memory is released once, when no tensor needs it");
    struct DLManagedTensor *m;
    rille_create(s, rille_op_find("ones"), 0, NULL, 1, (int64_t[]){2}, NULL, NULL, &t);
    rille_to_dlpack(t, &m);
    rille_call(s, rille_op_find("add"), 2,
               (struct rille_arg[]){{.kind = RILLE_ARG_TENSOR, .tensor = t}, {.kind = RILLE_ARG_INT, .i = 6}}, 0, NULL,
               &seven);
    rille_tensor_assign(t, seven);
    rille_tensor_read(t, value);
    rille_tensor_free(&t);
    rille_tensor_free(&seven);
    ok(value[0] == 7 && (((float *)m->tensor.data)[0] == 1 || ((float *)m->tensor.data)[0] == 7),
       "an export stays readable after its tensor has changed and is freed");
    m->deleter(m);
}

/* The ways to change a leaf in place. Each returns 0 if the leaf's elements have changed from 2 to 1. */
static int
update(struct rille_session *s, struct rille_tensor *t, struct rille_tensor *ones)
{
    const struct rille_arg args[] = {{.kind = RILLE_ARG_TENSOR, .tensor = t},
                                     {0},
                                     {.kind = RILLE_ARG_TENSOR, .tensor = ones},
                                     {RILLE_ARG_INT, .i = 1}};
    return rille_update(s, rille_op_find("sgd"), 4, args, 0, NULL) || rille_step(s);
}

static int
assign(struct rille_session *s, struct rille_tensor *t, struct rille_tensor *ones)
{
    (void)s;
    return rille_tensor_assign(t, ones);
}

static int
subtract(struct rille_session *s, struct rille_tensor *t, struct rille_tensor *ones)
{
    const struct rille_arg args[] = {{.kind = RILLE_ARG_TENSOR, .tensor = t},
                                     {.kind = RILLE_ARG_TENSOR, .tensor = ones}};
    return rille_call_into(s, t, rille_op_find("sub"), 2, args, 0, NULL);
}

static int
replicate_and_update(struct rille_session *s, struct rille_tensor *t, struct rille_tensor *ones)
{
    const struct rille_place *both;
    const struct rille_layout *copies;
    rille_place(s, "cpu", 1, (int32_t[]){2}, (int32_t[]){0, 1}, &both);
    rille_layout(s, both, 1, (const char *[]){"B"}, NULL, -1, &copies);
    return rille_tensor_relayout(t, copies) || rille_tensor_relayout(ones, copies) || update(s, t, ones);
}

/* Tests that Rille writes no memory of another library: a write ends this process, because the memory is read-only. */
static void
test_changes(void)
{
    static const struct {
        const char *name;
        int (*change)(struct rille_session *s, struct rille_tensor *t, struct rille_tensor *ones);
    } list[] = {{"an update", update},
                {"an assignment", assign},
                {"an operator in place", subtract},
                {"an update of replicas", replicate_and_update}};
    enum { N = 1 << 16, BYTES = N * sizeof(float) };
    static float value[N];
    float *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < N; i++) memory[i] = 2;
    mprotect(memory, BYTES, PROT_READ);
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        struct rille_session *s = open_session("cpu:2");
        struct rille_tensor *t, *ones;
        int n = 0, wrong = 0;
        rille_create(s, rille_op_find("ones"), 0, NULL, 1, (int64_t[]){N}, NULL, NULL, &ones);
        int status = rille_from_memory(s, "f32", 1, (int64_t[]){N}, NULL, memory, release, &n, &t);
        status = status || list[k].change(s, t, ones) || rille_tensor_read(t, value);
        for (int i = 0; i < N; i++) wrong += value[i] != 1;
        ok(!status && !wrong && n == 1, "%s changes a leaf, not the memory that it shared, which is released",
           list[k].name);
        rille_tensor_free(&t);
        rille_tensor_free(&ones);
        ok(rille_close(&s) == 0 && n == 1, "the session closes");
    }
    munmap(memory, BYTES);
}

static void
test_layouts(void)
{
    struct rille_session *s = open_session("cpu:2,async:1");
    const struct rille_place *both, *late;
    static const char *const sbp[] = {"B", "S(0)", "P"};
    rille_place(s, "cpu", 1, (int32_t[]){2}, (int32_t[]){0, 1}, &both);
    rille_place(s, "async", 1, (int32_t[]){1}, (int32_t[]){0}, &late);
    for (int k = 0; k < 4; k++) {
        const struct rille_layout *l;
        struct rille_tensor *t = NULL;
        struct DLManagedTensor *m = NULL;
        rille_layout(s, k < 3 ? both : late, 1, &sbp[k % 3], NULL, -1, &l);
        rille_tensor_from_host(s, "f32", 1, (int64_t[]){2}, (float[]){1, 2}, l, &t);
        int status = rille_to_dlpack(t, &m);
        if (k == 0) {
            ok(!status && ((float *)m->tensor.data)[1] == 2, "a replicated tensor is exported");
            m->deleter(m);
        } else if (k < 3)
            ok(status && strstr(rille_error(), "call to_global(\"B\") first"), "a tensor in %s is refused: %s", sbp[k],
               rille_error());
        else
            ok(status && strstr(rille_error(), "must be on cpu devices"),
               "a tensor on another kind of device is refused");
        rille_tensor_free(&t);
    }
    ok(rille_close(&s) == 0, "the session closes");
}

static void *
delete_on_thread(void *m)
{
    ((struct DLManagedTensor *)m)->deleter(m);
    return NULL;
}

/* Exports a tensor; the deleter is called on this or another thread, before or after the session closes. */
static void
test_deleters(void)
{
    for (int k = 0; k < 16; k++) {
        bool after = k & 1, threaded = k & 2, twice = k & 4, imported = k & 8;
        static struct foreign f;
        int n = 0;
        struct rille_session *s = open_session("cpu:1");
        struct rille_tensor *t;
        struct DLManagedTensor *m[2] = {NULL, NULL};
        pthread_t thread;
        fill_foreign(&f, 0, 1, (const int64_t[3]){2}, NULL);
        if (imported)
            rille_from_memory(s, "f32", 1, f.shape, NULL, f.bytes, release, &n, &t);
        else
            rille_create(s, rille_op_find("ones"), 0, NULL, 1, (int64_t[]){2}, NULL, NULL, &t);
        for (int i = 0; i <= twice; i++) rille_to_dlpack(t, &m[i]);
        float first = ((float *)m[0]->tensor.data)[0];
        rille_tensor_free(&t);
        bool right = !after || rille_close(&s) == 0;
        right = right && n == 0 && ((float *)m[0]->tensor.data)[0] == first;
        for (int i = 0; i <= twice; i++)
            if (!threaded)
                delete_on_thread(m[i]);
            else if (!pthread_create(&thread, NULL, delete_on_thread, m[i]))
                pthread_join(thread, NULL);
        right = right && (after || rille_close(&s) == 0) && n == imported;
        ok(right, "%s export%s of %s, deleted on %s thread %s close", twice ? "two" : "one", twice ? "s" : "",
           imported ? "shared memory" : "a tensor", threaded ? "another" : "the same", after ? "after" : "before");
    }
}

/* Moves memory of another library through two sessions, or twice through one session: import, export, import, export.
 * The last export is deleted on this or another thread, before, between or after the closes. The memory must be
 * released once, when no session and no export needs it. */
static void
test_chains(void)
{
    for (int k = 0; k < 24; k++) {
        bool one = k & 1, threaded = k & 2, first = k & 4;
        int when = k / 8, n = 0; /* when: number of sessions closed before the delete */
        static struct foreign f;
        struct rille_session *s[2] = {open_session("cpu:1"), one ? NULL : open_session("cpu:1")}, *second = s[!one];
        struct rille_tensor *t, *u;
        struct DLManagedTensor *m, *last;
        pthread_t thread;
        fill_foreign(&f, 0, 1, (const int64_t[3]){2}, NULL);
        bool right = !rille_from_memory(s[0], "f32", 1, f.shape, NULL, f.bytes, release, &n, &t) &&
                     !rille_to_dlpack(t, &m) && !rille_from_dlpack(second, m, &u) && !rille_to_dlpack(u, &last) &&
                     last->tensor.data == f.bytes;
        rille_tensor_free(&t);
        rille_tensor_free(&u);
        for (int i = 0; i <= 2; i++) {
            if (i == when && !threaded)
                delete_on_thread(last);
            else if (i == when && !pthread_create(&thread, NULL, delete_on_thread, last))
                pthread_join(thread, NULL);
            right = right && (i >= when || n == 0);
            struct rille_session **closes = &s[(i + first) % 2];
            if (i < 2 && *closes) right = rille_close(closes) == 0 && right;
        }
        ok(right && n == 1,
           "memory through %s, deleted on %s thread after %d closes, session %d closed first: released once",
           one ? "one session" : "two sessions", threaded ? "another" : "the same", when, first);
    }
}

int
main(void)
{
    alarm(HANG);
    struct rille_session *s = open_session("cpu:2");
    test_strides(s);
    test_refusals(s);
    test_sharing(s);
    struct rille_tensor *t;
    static struct foreign f;
    fill_foreign(&f, 0, 1, (const int64_t[3]){2}, NULL);
    rille_from_memory(s, "f32", 1, f.shape, NULL, f.bytes, release, &nreleased, &t);
    ok(rille_close(&s) != 0 && nreleased == 1, "rille_close() releases the memory of tensors that are still open");
    test_changes();
    test_layouts();
    test_deleters();
    test_chains();
    return done();
}
