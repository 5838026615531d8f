/* shards.c - plans how workers write and read a checkpoint: the shards that each worker writes, and the bytes
 * that each worker reads. */
#include "actors/session/durable/shards.h"
#include "actors/session/run/store.h"

#include "actors/cluster/controller/memories.h"
#include "actors/cluster/controller/roster.h"
#include "actors/cluster/controller/files.h"
#include "runtime/file/disk/save.h"
#include "runtime/file/shards.h"
#include "runtime/file/disk/store.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the path with its folder resolved by realpath; a URL stays as it is. The caller frees the result. NULL: the
 * folder does not exist. */
static char *
real_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct str folder = {0}, out = {0};
    if (store_is_url(path)) return strdup(path);
    str_addn(&folder, path, slash ? (size_t)(slash - path) + 1 : 0);
    char *real = realpath(folder.len ? folder.text : ".", NULL);
    if (real) str_addf(&out, "%s/%s", real, slash ? slash + 1 : path);
    free(real);
    str_free(&folder);
    return out.text;
}

bool
shards_here(const struct rille_session *s, const char *path)
{
    char *real = s->cluster ? real_path(path) : NULL;
    bool here = real && cluster_has_root(s->cluster, real);
    free(real);
    return here;
}

static int
owner(const struct rille_session *s, const struct layout *l, int pos)
{
    return cluster_owner(s->cluster, l->place->kind, l->place->rank[pos]);
}

static int
position(const struct rille_session *s, const struct layout *l, int pos, const struct buffer *b, uint64_t *out)
{
    if (buffer_is_lost(b)) return fail(E_LOST, "a value was on a host that was lost");
    return cluster_position(s->cluster, l->place->kind, l->place->rank[pos], b->data, out);
}

/* ---- writing a checkpoint ---- */

struct shard { /* shards that one worker writes to its file */
    uint64_t *place;
    int32_t n, capacity;
    int64_t bytes;
    char *path;
    int32_t file; /* index of the file in the checkpoint; -1: the worker writes nothing, so it has no file */
};

struct saving_shards {
    struct rille_session *s;
    int world;
    struct shard *shard; /* by worker rank: shards that the worker writes */
    struct shard_value *value;
    struct shard_file *file;
    struct cluster_file *wish;
    int nfile;
    struct arena arena;
};

/* Chooses a writer for each shard: of the workers with a replica of the shard, the one whose file is shortest so
 * far. */
static void
choose_writers(const struct saving_shards *g, const struct layout *l, int *writer)
{
    for (int pos = 0; pos < l->place->nrank; pos++) writer[pos] = -1;
    for (int pos = 0; pos < l->place->nrank; pos++) {
        int origin = layout_origin(l, pos), best = writer[origin], rank = owner(g->s, l, pos);
        if (rank >= 0 && (best < 0 || g->shard[rank].bytes < g->shard[owner(g->s, l, best)].bytes))
            writer[origin] = pos;
    }
}

static int
add_part(struct saving_shards *g, const struct saved *v, int pos, struct shard_part *out)
{
    int rank = owner(g->s, v->layout, pos);
    struct type local = layout_shard(v->layout, &v->type, pos);
    if (rank < 0)
        return fail(E_LOST, "no worker has device %s:%d, on which a value is stored",
                    device_kind_text(v->layout->place->kind), (int)v->layout->place->rank[pos]);
    struct shard *w = &g->shard[rank];
    GROW(w->place, w->n + 2, w->capacity);
    TRY(position(g->s, v->layout, pos, v->store->part[pos], &w->place[w->n]));
    w->place[w->n + 1] = (uint64_t)type_bytes(&local);
    w->n += 2;
    *out = (struct shard_part){.file = rank, .at = w->bytes};
    layout_box(v->layout, &v->type, pos, &out->box);
    w->bytes += type_bytes(&local);
    return 0;
}

static int
add_saved_value(struct saving_shards *g, const struct saved *v, const char *name, struct shard_value *out)
{
    int n = v->layout->place->nrank;
    int *writer = ARENA_ARRAY(&g->arena, int, n);
    struct shard_part *part = ARENA_ARRAY(&g->arena, struct shard_part, n);
    *out = (struct shard_value){.name = name, .type = v->type, .part = part};
    choose_writers(g, v->layout, writer);
    for (int pos = 0; pos < n; pos++) {
        int from = writer[pos];
        if (from < 0 || !v->store->part[from] || !v->store->part[from]->bytes) continue;
        TRY(add_part(g, v, from, &part[out->npart++]));
    }
    return 0;
}

static char *
shard_path(struct saving_shards *g, const char *path, int rank)
{
    struct str name = {0};
    char *real = real_path(path);
    size_t n = strlen(real) - (text_ends(real, ".safetensors") ? strlen(".safetensors") : 0);
    str_addn(&name, real, n);
    str_addf(&name, ".%d" SHARD_ENDING, rank);
    char *out = arena_strdup(&g->arena, name.text);
    str_free(&name);
    free(real);
    return out;
}

/* Gives consecutive numbers to the files of those workers that write shards. */
static void
number_files(struct saving_shards *g, const char *path)
{
    for (int r = 0; r < g->world; r++) {
        struct shard *w = &g->shard[r];
        if (!w->n) continue;
        w->file = g->nfile;
        w->path = shard_path(g, path, r);
        g->wish[g->nfile] = (struct cluster_file){.rank = r, .path = w->path, .place = w->place, .n = w->n};
        g->file[g->nfile++] = (struct shard_file){.name = strrchr(w->path, '/') + 1, .bytes = w->bytes};
    }
}

/* Checks that this process sees the file that worker i wrote. If not, the hosts do not share the folder. Skips
 * files in an object store, because the worker has checked those. */
static int
check_file(const struct saving_shards *g, int i)
{
    const struct cluster_file *w = &g->wish[i];
    struct source *s;
    if (store_is_url(w->path)) return 0;
    bool whole = !source_open(w->path, &s);
    if (whole) whole = s->size == g->file[i].bytes;
    source_close(&s);
    if (whole && w->digests.len == 8 * (size_t)source_blocks(g->file[i].bytes)) return 0;
    err_clear();
    return fail(E_IO, "worker %d wrote %s, but this process does not find it: all hosts must share that folder",
                w->rank, w->path);
}

static int
write_manifest(struct saving_shards *g, const char *path, int n, const struct safetensors_options *o)
{
    struct str text = {0};
    for (int i = 0; i < g->nfile; i++) {
        TRY(check_file(g, i));
        g->file[i].digest = (const void *)g->wish[i].digests.text;
    }
    for (int i = 0; i < n; i++)
        for (int32_t k = 0; k < g->value[i].npart; k++) {
            struct shard_part *part = (struct shard_part *)(uintptr_t)&g->value[i].part[k];
            part->file = g->shard[part->file].file;
        }
    TRY(shards_write(g->nfile, g->file, n, g->value, &text));
    struct safetensors_options with = *o;
    struct save_text *more = ARENA_ARRAY(&g->arena, struct save_text, o->nmetadata + 1);
    if (o->nmetadata) memcpy(more, o->metadata, sizeof *more * (size_t)o->nmetadata);
    more[with.nmetadata++] = (struct save_text){SHARDS_KEY, text.text};
    with.metadata = more;
    int status = safetensors_save(path, 0, NULL, &with);
    str_free(&text);
    return status;
}

/* Removes a file of a failed save. Keeps the error text of the failure. */
static void
remove_shard_file(const char *path)
{
    char *why = strdup(err_text());
    enum err_code code = err_last();
    if (file_remove(path)) fail(code, "%s", why);
    free(why);
}

static int
save_variable_shards(struct saving_shards *g, const char *path, int n, const struct saved *value,
                     const struct save_item *item, const struct safetensors_options *o, bool interruptible)
{
    for (int i = 0; i < n; i++) TRY(add_saved_value(g, &value[i], item[i].name, &g->value[i]));
    number_files(g, path);
    int status = cluster_files(g->s->cluster, g->nfile, g->wish, interruptible);
    if (!status) status = write_manifest(g, path, n, o);
    for (int i = 0; i < g->nfile && status; i++) remove_shard_file(g->wish[i].path);
    return status;
}

int
shards_save(struct rille_session *s, const char *path, int n, const struct saved *value, const struct save_item *item,
            const struct safetensors_options *o, bool interruptible)
{
    struct saving_shards g = {.s = s, .world = cluster_world(s->cluster)};
    g.shard = ARENA_ARRAY(&g.arena, struct shard, g.world);
    g.value = ARENA_ARRAY(&g.arena, struct shard_value, n + 1);
    g.file = ARENA_ARRAY(&g.arena, struct shard_file, g.world);
    g.wish = ARENA_ARRAY(&g.arena, struct cluster_file, g.world);
    int status = save_variable_shards(&g, path, n, value, item, o, interruptible);
    for (int r = 0; r < g.world; r++) free(g.shard[r].place);
    for (int i = 0; i < g.nfile; i++) cluster_file_free(&g.wish[i]);
    arena_fini(&g.arena);
    return status;
}

/* ---- reading a checkpoint ---- */

struct reading { /* ranges of one file that one worker reads */
    struct shard_copy *copy;
    int32_t n, capacity;
};

struct loading_shards {
    struct rille_session *s;
    const struct tensors *f;
    int world;
    struct reading *reading; /* by worker rank and source file: ranges that the worker reads from the file */
    struct cluster_file *wish;
    int32_t nwish, capacity;
    struct arena arena;
};

static struct reading *
reading_of(const struct loading_shards *g, int rank, int32_t file)
{
    return &g->reading[rank * g->f->nsource + file];
}

/* Adds the reads from all files that the shard at a mesh position needs. */
static int
add_reads(struct loading_shards *g, const struct entry *e, const struct layout *l, int pos, const struct buffer *b)
{
    struct box box;
    uint64_t at;
    int rank = owner(g->s, l, pos);
    if (rank < 0) return fail(E_LOST, "no worker has device %d", (int)l->place->rank[pos]);
    TRY(position(g->s, l, pos, b, &at));
    layout_box(l, &e->type, pos, &box);
    for (int32_t i = 0; i < e->npart; i++) {
        const struct shard_part *p = &e->part[i];
        struct reading *r = reading_of(g, rank, p->file);
        shard_copies(&p->box, p->at, &box, (int64_t)at, e->type.ndim, dtype_bytes(e->type.dtype), &r->copy, &r->n,
                     &r->capacity);
    }
    return 0;
}

static void
request_blocks(struct loading_shards *g, int rank, int32_t file)
{
    const struct source *s = g->f->source[file];
    const struct reading *r = reading_of(g, rank, file);
    if (!r->n) return;
    char *real = real_path(s->name);
    GROW(g->wish, g->nwish + 1, g->capacity);
    g->wish[g->nwish++] = (struct cluster_file){.rank = rank,
                                                .path = arena_strdup(&g->arena, real ? real : s->name),
                                                .copy = r->copy,
                                                .digest = source_digests(s),
                                                .n = r->n};
    free(real);
}

static int
load_store(struct loading_shards *g, const struct entry *e, const struct layout *l, const struct store *store)
{
    for (int pos = 0; pos < l->place->nrank; pos++)
        if (store->part[pos] && store->part[pos]->bytes) TRY(add_reads(g, e, l, pos, store->part[pos]));
    for (int r = 0; r < g->world; r++)
        for (int32_t i = 0; i < g->f->nsource; i++) request_blocks(g, r, i);
    return cluster_files(g->s->cluster, g->nwish, g->wish, true);
}

int
shards_load(struct rille_session *s, const struct tensors *f, const struct entry *e, const struct layout *l,
            struct rille_tensor **out)
{
    struct store *store;
    struct loading_shards g = {.s = s, .f = f, .world = cluster_world(s->cluster)};
    TRY(layout_settle(s->atlas, &e->type, &l));
    TRY(store_make(s, &e->type, l, &store));
    g.reading = ARENA_ARRAY(&g.arena, struct reading, g.world * f->nsource);
    int status = load_store(&g, e, l, store);
    for (int i = 0; i < g.world * f->nsource; i++) free(g.reading[i].copy);
    for (int32_t i = 0; i < g.nwish; i++) cluster_file_free(&g.wish[i]);
    free(g.wish);
    arena_fini(&g.arena);
    if (status)
        store_drop(&store);
    else
        *out = tensor_new(s, graph_leaf(s->graph, &e->type, l, store), true);
    return status;
}
