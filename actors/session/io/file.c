/* file.c - loads tensors from files and saves tensors to files. Each device loads only its own shard; saving
 * collects the shards in one file.
 *
 * A save holds references to the buffers that it writes. The next step does not overwrite such buffers, so a save in
 * the background needs no copy. The saving thread reads the buffers, calls the writers of runtime/file, and uses
 * nothing else of the session. */
#include "actors/session/io/file.h"
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/durable/shards.h"
#include "actors/session/run/open_run.h"
#include "actors/session/run/store.h"
#include "boxing/reduce.h"
#include "runtime/file/disk/file.h"
#include "runtime/file/gguf.h"
#include "runtime/file/codec/image.h"
#include "runtime/file/npy.h"
#include "runtime/file/disk/path.h"
#include "runtime/file/quantised.h"
#include "runtime/file/disk/save.h"
#include "runtime/file/disk/source.h"
#include "runtime/file/disk/store.h"
#include "runtime/file/tensors.h"
#include "runtime/base/stop.h"
#include "runtime/base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- loading tensors ---- */

struct rille_file {
    struct rille_session *s;
    struct tensors *tensors;
};

static int
file_given(const struct rille_file *f, const char *who)
{
    TRY(face_given(f, "the file", who));
    return face_session(f->s, who);
}

int
rille_file_open(struct rille_session *s, const char *path, const char *format, struct rille_file **out)
{
    struct tensors *tensors;
    TRY(face_session(s, __func__));
    TRY(face_given(path, "the path", __func__));
    TRY(face_given(out, "out", __func__));
    *out = NULL;
    TRY(tensors_open(path, format, &tensors));
    *out = must_alloc(sizeof **out);
    **out = (struct rille_file){s, tensors};
    return 0;
}

void
rille_file_close(struct rille_file **f)
{
    if (face_given(f, "the file", __func__) || !*f || file_given(*f, __func__)) return;
    tensors_close(&(*f)->tensors);
    free(*f);
    *f = NULL;
}

bool
rille_file_entry(const struct rille_file *f, int i, struct rille_file_entry *out)
{
    if (file_given(f, __func__) || face_given(out, "out", __func__)) return false;
    if (i < 0 || i >= f->tensors->nentry) return false;
    const struct entry *e = &f->tensors->entry[i];
    const char *dtype = e->type.dtype != DT_NONE ? dtype_text(e->type.dtype) : e->foreign;
    *out = (struct rille_file_entry){e->name, dtype, e->type.ndim, e->type.dim,
                                     e->coding || e->quantised ? e->foreign : NULL};
    return true;
}

int
rille_file_find(const struct rille_file *f, const char *name)
{
    if (file_given(f, __func__) || face_given(name, "the name", __func__)) return -1;
    return tensors_find(f->tensors, name);
}

bool
rille_file_text(const struct rille_file *f, int i, const char **key, const char **value)
{
    if (file_given(f, __func__) || face_given(key, "key", __func__) || face_given(value, "value", __func__))
        return false;
    if (i < 0 || i >= f->tensors->nmetadata) return false;
    *key = f->tensors->metadata[i].key;
    *value = f->tensors->metadata[i].value;
    return true;
}

int
rille_file_list(struct rille_file *f, const char *key,
                void (*visit)(void *arg, const char *text, size_t n, bool number), void *arg)
{
    TRY(file_given(f, __func__));
    TRY(face_given(key, "the key", __func__));
    return gguf_list(f->tensors, key, visit, arg);
}

int
rille_file_dequantise(struct rille_file *f, const struct rille_quantisation *q)
{
    TRY(file_given(f, __func__));
    TRY(face_given(q, "the quantisation", __func__));
    TRY(face_given(q->method, "the method", __func__));
    return tensors_dequantise(f->tensors,
                              &(struct quantisation){q->method, q->bits, q->group, q->rows, q->columns, q->minus_one});
}

/* Reads the shard at mesh position pos into host memory. */
static int
read_layout_bytes(const struct type *t, const struct layout *l, int pos, leaf_reader *read, void *arg, void *data)
{
    struct type local = layout_shard(l, t, pos);
    struct box box;
    if (layout_is_later_part(l, pos)) {
        struct view v = view_dense(&local, data);
        box_fill(layout_partial(l), &v);
        return 0;
    }
    layout_box(l, t, pos, &box);
    if (local.dtype == t->dtype) return read(arg, &box, data);
    struct type written = local;
    written.dtype = t->dtype;
    void *halves = must_alloc((size_t)type_bytes(&written) + 1);
    int status = read(arg, &box, halves);
    struct view dst = view_dense(&local, data), src = view_dense(&written, halves);
    if (!status) view_copy(&dst, &src);
    free(halves);
    return status;
}

/* Reads the shard at mesh position `pos` into its buffer. If an earlier position has the same shard, copies that
 * buffer. */
static int
read_layout_part(const struct type *t, const struct layout *l, struct store *store, int pos, leaf_reader *read,
                 void *arg)
{
    struct buffer *part = store->part[pos];
    int origin = layout_origin(l, pos);
    if (origin < pos) return buffer_copy(part, store->part[origin]);
    if (buffer_host_reads(part)) return read_layout_bytes(t, l, pos, read, arg, part->data);
    void *copy = must_alloc(part->bytes);
    int status = read_layout_bytes(t, l, pos, read, arg, copy);
    if (!status) status = buffer_write(part, copy);
    free(copy);
    return status;
}

int
leaf_read(struct rille_session *s, const struct type *t, const struct layout *l, leaf_reader *read, void *arg,
          struct rille_tensor **out)
{
    struct store *store = NULL;
    TRY(layout_settle(s->atlas, t, &l));
    if (!(device_kind(l->place->kind)->flags & NO_BYTES)) TRY(store_make(s, t, l, &store));
    for (int pos = 0; store && pos < l->place->nrank; pos++) {
        int status = store->part[pos] ? read_layout_part(t, l, store, pos, read, arg) : 0;
        if (!status) continue;
        store_drop(&store);
        return status;
    }
    *out = tensor_new(s, graph_leaf(s->graph, t, l, store), true);
    return 0;
}

/* a box of a tensor in a file, and the dtype to which its elements are converted */
struct wanted {
    struct tensors *tensors;
    int32_t entry;
    enum dtype dtype;
    int skip;          /* number of leading axes of size 1 that the requested tensor omits */
    struct box window; /* the box, in coordinates of the tensor in the file */
};

/* Reads box b, in coordinates of the requested tensor, from the file. */
static int
read_wanted(void *arg, const struct box *b, void *out)
{
    const struct wanted *w = arg;
    struct box at = w->window;
    for (int i = w->skip; i < w->tensors->entry[w->entry].type.ndim; i++) {
        at.hi[i] = at.lo[i] + b->hi[i - w->skip];
        at.lo[i] += b->lo[i - w->skip];
    }
    return entry_read(w->tensors, w->entry, &at, w->dtype, out);
}

/* Sets *w to read elements `from` to `to` of the tensor in the file, and sets the type of the result. from NULL:
 * the complete tensor. */
static int
window_read(const struct entry *e, const int64_t *from, const int64_t *to, struct wanted *w, struct type *t)
{
    int n = e->type.ndim;
    if (w->skip < 0 || w->skip > n)
        return fail(E_ARG, "the number of omitted axes is %d, but the tensor has %d axes", w->skip, n);
    *t = (struct type){.dtype = e->type.dtype, .ndim = (uint8_t)(n - w->skip)};
    for (int i = 0; i < n; i++) {
        int64_t lo = from ? from[i] : 0, hi = from ? to[i] : e->type.dim[i];
        if (lo < 0 || lo > hi || hi > e->type.dim[i])
            return fail(E_SHAPE, "positions %lld to %lld are out of range for axis %d, which has %lld", (long long)lo,
                        (long long)hi, i, (long long)e->type.dim[i]);
        if (i < w->skip && hi != lo + 1)
            return fail(E_SHAPE, "axis %d is omitted, so the window must have exactly one position on this axis", i);
        w->window.lo[i] = lo;
        w->window.hi[i] = hi;
        if (i >= w->skip) t->dim[i - w->skip] = hi - lo;
    }
    return 0;
}

/* Returns true if the layout's devices can hold bytes, and no axis is partial. */
static bool
is_plain_layout(const struct layout *l)
{
    return !layout_has_partial(l) && !(device_kind(l->place->kind)->flags & NO_BYTES);
}

static int
load_window(struct rille_file *f, struct wanted *w, const int64_t *from, const int64_t *to, const char *dtype,
            const struct layout *l, struct rille_tensor **out)
{
    const struct entry *e = &f->tensors->entry[w->entry];
    struct type t;
    enum dtype d = dtype ? dtype_parse(dtype) : DT_NONE;
    if (dtype && d == DT_NONE) return err_last();
    if (dtype && !dtype_is_float(d))
        return fail(E_DTYPE, "%s: dtype must be float, found %s; load without dtype, then convert the tensor",
                    f->tensors->path, dtype);
    TRY(entry_check(f->tensors, e));
    TRY(window_read(e, from, to, w, &t));
    if (dtype && dtype_is_float(t.dtype)) t.dtype = (uint8_t)d;
    w->dtype = t.dtype;
    bool by_workers =
        !from && e->npart && t.dtype == e->type.dtype && is_plain_layout(l) && shards_here(f->s, f->tensors->path);
    return by_workers ? shards_load(f->s, f->tensors, e, l, out) : leaf_read(f->s, &t, l, read_wanted, w, out);
}

/* Frees idle blocks of the pools that will store a window: the windows of a model have many sizes. */
static int
shrink_pools(struct rille_session *s, const struct layout *l)
{
    struct pool *pool;
    if (device_kind(l->place->kind)->flags & NO_BYTES) return 0;
    for (int pos = 0; pos < l->place->nrank; pos++) {
        TRY(session_pool(s, l->place->kind, l->place->rank[pos], &pool));
        pool_shrink(pool);
    }
    return 0;
}

int
rille_file_load_window(struct rille_file *f, int i, const int64_t *from, const int64_t *to, int skip, const char *dtype,
                       const struct rille_layout *layout, struct rille_tensor **out)
{
    TRY(file_given(f, __func__));
    TRY((layout ? face_layout(f->s, layout, __func__) : 0));
    TRY(face_given(out, "out", __func__));
    if (i < 0 || i >= f->tensors->nentry)
        return fail(E_ARG, "%s: entry %d is out of range: the file has %d", f->tensors->path, i,
                    (int)f->tensors->nentry);
    if (!from != !to) return fail(E_ARG, "%s: a window must have both a start and an end", __func__);
    TRY(stop_caller_check());
    const struct entry *e = &f->tensors->entry[i];
    struct wanted w = {.tensors = f->tensors, .entry = i, .skip = skip};
    const struct layout *l = layout ? (const struct layout *)layout : session_layout(f->s);
    if (from) TRY(shrink_pools(f->s, l));
    int status = load_window(f, &w, from, to, dtype, l, out);
    if (status && e->name[0] && !strstr(err_text(), e->name)) err_note("'%s'", e->name);
    if (status && !strstr(err_text(), f->tensors->path)) err_note("%s", f->tensors->path);
    return status;
}

int
rille_file_load(struct rille_file *f, int i, const char *dtype, const struct rille_layout *layout,
                struct rille_tensor **out)
{
    return rille_file_load_window(f, i, NULL, NULL, 0, dtype, layout, out);
}

int
rille_load_npy(struct rille_session *s, const char *path, const struct rille_layout *layout, struct rille_tensor **out)
{
    struct rille_file *f;
    TRY(face_session(s, __func__));
    TRY(face_given(path, "the path", __func__));
    TRY((layout ? face_layout(s, layout, __func__) : 0));
    TRY(face_given(out, "out", __func__));
    TRY(rille_file_open(s, path, "npy", &f));
    int status = rille_file_load(f, 0, NULL, layout, out);
    rille_file_close(&f);
    return status;
}

int
rille_load_image(struct rille_session *s, const char *path, const struct rille_layout *layout,
                 struct rille_tensor **out)
{
    enum { MOST = 1 << 30 };
    char *bytes;
    size_t n;
    struct image image;
    TRY(face_session(s, __func__));
    TRY(face_given(path, "the path", __func__));
    TRY((layout ? face_layout(s, layout, __func__) : 0));
    TRY(face_given(out, "out", __func__));
    TRY(source_whole(path, MOST, &bytes, &n));
    int status = image_decode(path, bytes, n, &image);
    free(bytes);
    if (status) return status;
    int64_t shape[] = {3, image.height, image.width};
    status = rille_tensor_from_host(s, "u8", 3, shape, image.bytes, layout, out);
    free(image.bytes);
    return status;
}

/* Returns the errno that explains why no file or folder can be created under this name; 0: one can be created. */
static int
refuses_name(const char *path, bool folder)
{
    struct stat st;
    if (!lstat(path, &st)) return ENOENT; /* the path is a link to a file that does not exist */
    if (errno != ENOENT) return errno;
    if (!folder && path[0] && path[strlen(path) - 1] == '/') return EISDIR;
    char *copy = must_copy(path, strlen(path) + 1);
    int why = access(dirname(copy), W_OK | X_OK) ? errno : 0;
    free(copy);
    return why;
}

int
rille_may_save(const char *path, bool folder)
{
    struct stat st;
    TRY(face_given(path, "the path", __func__));
    if (store_is_url(path)) return store_check(path);
    int why;
    if (stat(path, &st))
        why = refuses_name(path, folder);
    else if (S_ISDIR(st.st_mode) != folder)
        return fail(E_IO, "%s is a %s, expected a %s", path, folder ? "file" : "folder", folder ? "folder" : "file");
    else
        why = access(path, folder ? W_OK | X_OK : W_OK) ? errno : 0;
    return why ? fail(E_IO, "%s cannot be written: %s", path, strerror(why)) : 0;
}

int
rille_claim_folder(struct rille_session *s, const char *folder)
{
    TRY(face_session(s, __func__));
    TRY(face_given(folder, "the folder", __func__));
    struct stat st;
    if (store_is_url(folder)) return 0; /* an object store has no locks */
    if (stat(folder, &st) && mkdir(folder, 0777))
        return fail(E_IO, "%s: cannot make the folder: %s", folder, strerror(errno));
    return claims_add(&s->claims, folder);
}

static int
visit_files(const char *path, void (*visit)(void *arg, const char *name), void *arg)
{
    DIR *folder = opendir(path);
    if (!folder) return fail(E_IO, "%s: %s", path, strerror(errno));
    for (const struct dirent *e; (e = readdir(folder));) visit(arg, e->d_name);
    closedir(folder);
    return 0;
}

int
rille_folder_list(const char *path, void (*visit)(void *arg, const char *name), void *arg)
{
    TRY(face_given(path, "the path", __func__));
    if (!visit) return fail(E_ARG, "%s: the function is NULL", __func__);
    return store_is_url(path) ? store_visit(path, visit, arg) : visit_files(path, visit, arg);
}

int
rille_verify(const char *path)
{
    TRY(face_given(path, "the path", __func__));
    return safetensors_verify(path);
}

/* ---- collecting the values to save ---- */

/* Reads a box of a saved value densely, from the shards that overlap it. Runs on the saving thread. */
static int
saved_read(void *arg, const struct box *b, void *out)
{
    const struct saved *v = arg;
    size_t width = dtype_bytes(v->type.dtype);
    int ndim = v->type.ndim;
    struct type piece = v->type;
    for (int i = 0; i < ndim; i++) piece.dim[i] = b->hi[i] - b->lo[i];
    struct view whole = view_dense(&piece, out);
    for (int pos = 0; pos < v->layout->place->nrank; pos++) {
        struct box shard, both;
        if (layout_origin(v->layout, pos) != pos || !v->store->part[pos]) continue;
        layout_box(v->layout, &v->type, pos, &shard);
        if (!box_intersect(b, &shard, ndim, &both)) continue;
        struct type local = layout_shard(v->layout, &v->type, pos);
        void *copy, *data;
        int status = buffer_on_host(v->store->part[pos], &data, &copy);
        if (status) {
            free(copy);
            return status;
        }
        struct view src = view_dense(&local, data), dst = whole;
        int64_t from = 0, to = 0;
        for (int i = 0; i < ndim; i++) {
            from += (both.lo[i] - shard.lo[i]) * src.stride[i];
            to += (both.lo[i] - b->lo[i]) * dst.stride[i];
            src.dim[i] = dst.dim[i] = both.hi[i] - both.lo[i];
        }
        src.data = (char *)src.data + from * (int64_t)width;
        dst.data = (char *)dst.data + to * (int64_t)width;
        view_copy(&dst, &src);
        free(copy);
    }
    return 0;
}

/* Computes the values of n tensors in one run, and reduces partial sums. */
static int
take_values(struct rille_session *s, int n, const char *const *name, struct rille_tensor *const *t, struct saved *out)
{
    struct rille_tensor **whole = must_alloc(sizeof(struct rille_tensor *) * (size_t)(n + 1));
    int status = trace_refuses(s, "saving");
    for (int i = 0; !status && i < n; i++) {
        const struct layout *l = t[i]->val->layout, *summed = l;
        if (l->place->kind == DEV_META) status = fail(E_PLACE, "'%s' is on meta devices, so it has no values", name[i]);
        if (!status && layout_has_partial(l)) status = layout_summed(s->atlas, l, &summed);
        if (status || summed == l)
            whole[i] = rille_tensor_hold(t[i]);
        else
            status = rille_tensor_to_global(t[i], (const struct rille_layout *)summed, &whole[i]);
    }
    if (!status) status = rille_eval(s, n, whole);
    if (!status) status = session_settle(s); /* waits for open runs, because the saving thread reads the buffers */
    for (int i = 0; i < n && whole[i]; i++) {
        struct val *v = whole[i]->val;
        if (!status) {
            out[i] = (struct saved){v->type, v->layout, v->store};
            store_hold(v->store);
        }
        rille_tensor_free(&whole[i]);
    }
    free(whole);
    return status;
}

/* ---- saving tensors ---- */

struct rille_saving {
    struct rille_session *s;
    char *path;
    int n, nmetadata, nold;
    struct saved *value;
    struct save_item *item;
    struct safetensors_options options;
    int64_t shard_bytes;
    char **old;
    struct arena arena;
    bool background;
    pthread_t thread;
    int status;
    char *why; /* error text for the session's thread, because error texts are per thread */
};

static int
save_now(struct rille_saving *g)
{
    struct stat st;
    if (g->options.digest && shards_here(g->s, g->path))
        return shards_save(g->s, g->path, g->n, g->value, g->item, &g->options, !g->background);
    if (text_ends(g->path, ".npy")) return npy_save(g->path, g->item);
    if (stat(g->path, &st) == 0 && S_ISDIR(st.st_mode))
        return folder_save(g->path, g->n, g->item, g->shard_bytes, &g->options);
    if (text_ends(g->path, ".safetensors")) return safetensors_save(g->path, g->n, g->item, &g->options);
    return fail(E_IO, "%s: unknown format: the name must end in .safetensors or .npy, or be an existing folder",
                g->path);
}

static int
save_and_remove(struct rille_saving *g)
{
    TRY(save_now(g));
    /* an object store may have lost bytes that it confirmed: removes the old checkpoint only after the new one was
     * read */
    if (g->nold && store_is_url(g->path)) TRY(safetensors_verify(g->path));
    for (int i = 0; i < g->nold; i++) TRY(file_remove(g->old[i]));
    return 0;
}

static void *
save_thread(void *arg)
{
    struct rille_saving *g = arg;
    g->status = save_and_remove(g);
    if (g->status) g->why = strdup(err_text());
    return NULL;
}

static struct rille_saving *
saving_new(struct rille_session *s, const char *path, int n, const char *const *name,
           const struct rille_save_options *o)
{
    struct rille_saving *g = must_alloc(sizeof *g);
    struct arena *a = &g->arena;
    g->s = s;
    g->path = arena_strdup(a, path);
    g->n = n;
    g->value = ARENA_ARRAY(a, struct saved, n + 1);
    g->item = ARENA_ARRAY(a, struct save_item, n + 1);
    for (int i = 0; i < n; i++)
        g->item[i] = (struct save_item){.name = arena_strdup(a, name[i]), .read = saved_read, .arg = &g->value[i]};
    struct save_text *text = ARENA_ARRAY(a, struct save_text, o->nmetadata + 1);
    for (int i = 0; i < o->nmetadata; i++)
        text[i] = (struct save_text){arena_strdup(a, o->metadata[2 * i]), arena_strdup(a, o->metadata[2 * i + 1])};
    g->options = (struct safetensors_options){text, o->nmetadata, o->digest};
    g->shard_bytes = o->shard_bytes > 0 ? o->shard_bytes : INT64_C(5000000000);
    g->nold = o->nold;
    g->old = ARENA_ARRAY(a, char *, o->nold + 1);
    for (int i = 0; i < o->nold; i++) g->old[i] = arena_strdup(a, o->old[i]);
    return g;
}

int
rille_saving_end(struct rille_saving **gp)
{
    TRY(face_given(gp, "the save", __func__));
    struct rille_saving *g = *gp;
    if (!g) return 0;
    TRY(face_own(g->s, __func__));
    *gp = NULL;
    if (g->background) pthread_join(g->thread, NULL);
    int status = g->why ? fail((enum err_code)g->status, "%s", g->why) : g->status;
    for (int i = 0; i < g->n; i++)
        if (g->value[i].store) store_drop(&g->value[i].store);
    free(g->why);
    arena_fini(&g->arena);
    free(g);
    return status;
}

int
rille_save(struct rille_session *s, const char *path, int n, const char *const *name, struct rille_tensor *const *t,
           const struct rille_save_options *options, struct rille_saving **in_background)
{
    struct rille_save_options o = {0};
    TRY(face_session(s, __func__));
    if (options) TRY(face_options(options, UP_TO(rille_save_options, old), sizeof o, &o, __func__));
    TRY(face_given(path, "the path", __func__));
    TRY(n ? face_given(name, "the names", __func__) : 0);
    TRY(face_tensors(s, n, t, __func__));
    struct rille_saving *g = saving_new(s, path, n, name, &o);
    int status = 0;
    if (in_background) *in_background = NULL;
    if (text_ends(path, ".npy") && n != 1)
        status = fail(E_ARG, "%s: a .npy file must have one tensor, found %d; write a .safetensors file", path, n);
    if (!status) status = take_values(s, n, name, t, g->value);
    for (int i = 0; !status && i < n; i++) g->item[i].type = g->value[i].type;
    g->background = !status && in_background;
    if (g->background) status = thread_start(&g->thread, save_thread, g);
    if (g->background && !status) {
        *in_background = g;
        return 0;
    }
    g->background = false;
    g->status = status ? status : save_and_remove(g);
    return rille_saving_end(&g);
}

int
rille_text_write(const char *who, const char *path, const char *text, size_t n)
{
    TRY(face_given(who, "who", __func__));
    TRY(face_given(path, "the path", __func__));
    TRY(face_given(text, "the text", __func__));
    return file_write(who, path, text, n);
}

char *
rille_path(const char *path, bool reads)
{
    struct str out = {0};
    if (face_given(path, "the path", __func__)) return NULL;
    if (reads)
        path_read(path, &out);
    else
        path_home(path, &out);
    while (store_is_url(path) && text_ends(str_text(&out), "/")) str_cut(&out, out.len - 1);
    str_add(&out, "");
    return out.text;
}

int
rille_text_read(const char *path, int64_t most, char **text, size_t *n)
{
    TRY(face_given(path, "the path", __func__));
    TRY(face_given(text, "text", __func__));
    TRY(face_given(n, "n", __func__));
    return source_whole(path, most, text, n);
}
