/* safetensors_save.c - writes a .safetensors file, or a folder of shard files.
 *
 * The digest of a file is the XXH3 hash of its bytes, in which the characters of the digest are replaced by "0".
 * The digest is always the first entry of "__metadata__", so readers need not search for it. */
#include "runtime/file/safetensors_save.h"
#include "runtime/base/error.h"
#include "runtime/file/folder.h"
#include "runtime/file/codec/json.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/tensors.h"
#include "runtime/base/stop.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define NO_DIGEST   "0000000000000000"
#define DIGEST_HEAD "{\"__metadata__\":{\"rille.digest\":\""
enum { DIGEST_AT = 8 + sizeof DIGEST_HEAD - 1, DIGEST_SIZE = sizeof NO_DIGEST - 1, BLOCK = 1 << 20 };

/* ---- writing the header ---- */

/* Orders items for writing: wider dtypes first, so that each value begins at a multiple of its width. */
static int
by_width_and_name(const void *a, const void *b)
{
    const struct save_item *x = a, *y = b;
    size_t m = dtype_bytes(x->type.dtype), n = dtype_bytes(y->type.dtype);
    return m != n ? (m > n ? -1 : 1) : strcmp(x->name, y->name);
}

static json_t *
head_metadata(const struct safetensors_options *o)
{
    json_t *map = json_object();
    if (o->digest) json_object_set_new(map, "rille.digest", json_string(NO_DIGEST));
    json_object_set_new(map, "format", json_string("pt")); /* other programs that read the file need this key */
    for (int i = 0; i < o->nmetadata; i++)
        if (json_object_set_new(map, o->metadata[i].key, json_string(o->metadata[i].value))) {
            json_decref(map);
            return NULL;
        }
    return map;
}

static json_t *
head_entry(const struct type *t, int64_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->ndim; i++) json_array_append_new(shape, json_integer(t->dim[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_dtype(t->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + type_bytes(t)));
}

static int
not_text(const char *path, const char *what)
{
    struct str plain = {0};
    str_add_plain(&plain, what);
    int status = fail(E_ARG, "%s: the name '%s' is not UTF-8", path, str_text(&plain));
    str_free(&plain);
    return status;
}

static int
head_object(const char *path, int n, const struct save_item *item, const struct safetensors_options *o, json_t *root)
{
    int64_t at = 0;
    json_t *metadata = head_metadata(o);
    if (!metadata) return not_text(path, "in the metadata");
    json_object_set_new(root, "__metadata__", metadata);
    for (int i = 0; i < n; i++) {
        if (!strcmp(item[i].name, "__metadata__"))
            return fail(E_ARG, "%s: a tensor cannot be called __metadata__ in this format", path);
        if (json_object_set_new(root, item[i].name, head_entry(&item[i].type, at))) return not_text(path, item[i].name);
        at += type_bytes(&item[i].type);
    }
    return 0;
}

/* Writes the u64 length and the JSON, which is padded with spaces to a multiple of 8 bytes. */
static int
head_make(const char *path, int n, const struct save_item *item, const struct safetensors_options *o, struct str *out)
{
    json_t *root = json_object();
    int status = head_object(path, n, item, o, root);
    char *text = status ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (status) return status;
    if (!text) return fail(E_MEMORY, "%s: out of memory for the header of %d tensors", path, n);
    uint64_t length = (strlen(text) + 7) / 8 * 8;
    str_addn(out, &length, sizeof length);
    str_add(out, text);
    free(text);
    while (out->len % 8) str_addn(out, " ", 1);
    if (length <= SAFETENSORS_HEAD) return 0;
    return fail(E_ARG,
                "%s: a header of %llu bytes is more than the format allows; save to a folder with max_shard_size", path,
                (unsigned long long)length);
}

/* ---- saving one file ---- */

static void
update_xxh3(void *state, const void *bytes, int64_t n)
{
    XXH3_64bits_update(state, bytes, (size_t)n);
}

static void
digest_text(XXH3_state_t *state, char out[DIGEST_SIZE + 1])
{
    snprintf(out, DIGEST_SIZE + 1, "%016llx", (unsigned long long)XXH3_64bits_digest(state));
}

static int
write_saved_file(struct saving *s, int n, const struct save_item *item, const struct str *head, XXH3_state_t *digest)
{
    char text[DIGEST_SIZE + 1];
    TRY(saving_write(s, head->text, (int64_t)head->len));
    if (digest) update_xxh3(digest, head->text, (int64_t)head->len);
    for (int i = 0; i < n; i++) TRY(saving_item(s, &item[i], DT_NONE, digest ? update_xxh3 : NULL, digest));
    if (!digest) return 0;
    digest_text(digest, text);
    return saving_write_at(s, DIGEST_AT, text, DIGEST_SIZE);
}

/* Writes a file under its temporary name, and flushes it to disk. */
static int
prepare_save(const char *path, int n, struct save_item *item, const struct safetensors_options *o, struct saving *s)
{
    struct str head = {0};
    if (n) qsort(item, (size_t)n, sizeof *item, by_width_and_name);
    int status = head_make(path, n, item, o, &head);
    XXH3_state_t *digest = o->digest ? XXH3_createState() : NULL;
    if (digest) XXH3_64bits_reset(digest);
    if (!status) status = saving_begin(path, s);
    if (!status) status = write_saved_file(s, n, item, &head, digest);
    if (!status) status = saving_flush(s);
    if (digest) XXH3_freeState(digest);
    str_free(&head);
    return status;
}

int
safetensors_save(const char *path, int n, struct save_item *item, const struct safetensors_options *o)
{
    struct saving s = {.fd = -1};
    int status = prepare_save(path, n, item, o, &s);
    if (!status) status = saving_end(&s);
    saving_drop(&s);
    return status;
}

static int
source_xxh3(const struct source *s, uint8_t *block, XXH3_state_t *state)
{
    for (int64_t at = 0; at < s->size; at += BLOCK) {
        int64_t n = MIN((int64_t)BLOCK, s->size - at);
        TRY(source_read(s, at, block, n));
        TRY(stop_caller_check());
        if (at == 0) memcpy(block + DIGEST_AT, NO_DIGEST, DIGEST_SIZE);
        update_xxh3(state, block, n);
    }
    return 0;
}

static int
verify_source(const struct source *s, uint8_t *block)
{
    char says[DIGEST_SIZE + 1] = "", is[DIGEST_SIZE + 1];
    if (s->size >= DIGEST_AT + DIGEST_SIZE) {
        TRY(source_read(s, 0, block, DIGEST_AT));
        TRY(source_read(s, DIGEST_AT, says, DIGEST_SIZE));
    }
    if (!says[0] || memcmp(block + 8, DIGEST_HEAD, sizeof DIGEST_HEAD - 1))
        return fail(E_IO, "%s: damaged: the checksum is missing", s->name);
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset(state);
    int status = source_xxh3(s, block, state);
    digest_text(state, is);
    XXH3_freeState(state);
    if (status || !strcmp(says, is)) return status;
    return fail(E_IO, "%s: damaged: the checksum does not match", s->name);
}

int
safetensors_verify(const char *path)
{
    struct source *s;
    TRY(source_open(path, &s));
    uint8_t *block = must_alloc(BLOCK);
    int status = verify_source(s, block);
    free(block);
    source_close(&s);
    if (status) return status;
    struct tensors *f; /* opening the file checks that its shard files exist and have the right sizes */
    status = tensors_open(path, "safetensors", &f);
    tensors_close(&f);
    return status;
}

/* ---- saving a folder of shard files ---- */

#define SINGLE "model.safetensors"
#define INDEX  "model.safetensors.index.json"

static int
compare_saved_names(const void *a, const void *b)
{
    return strcmp(((const struct save_item *)a)->name, ((const struct save_item *)b)->name);
}

struct shard {
    int first, n; /* range of the items, which are sorted by name */
    char *path;
    struct saving saving;
};

/* Distributes the items over shard files in order of name. A value larger than shard_bytes gets a separate file.
 * Returns the number of shard files, at least 1. */
static int
deal(int n, const struct save_item *item, int64_t shard_bytes, struct shard *shard)
{
    int nshard = 1;
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        int64_t more = type_bytes(&item[i].type);
        if (i > shard[nshard - 1].first && more > shard_bytes - bytes) {
            shard[nshard++].first = i;
            bytes = 0;
        }
        bytes += more;
        shard[nshard - 1].n++;
    }
    return nshard;
}

static void
shard_name(int i, int nshard, char out[64])
{
    if (nshard == 1)
        snprintf(out, 64, SINGLE);
    else
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", i + 1, nshard);
}

static bool
is_shard_name(const char *name)
{
    unsigned i, n;
    int end = 0;
    return sscanf(name, "model-%5u-of-%5u.safetensors%n", &i, &n, &end) == 2 && end && !name[end];
}

/* Removes the index, and then the shard files of an earlier save. */
static int
remove_old(const char *folder)
{
    struct str path = {0};
    DIR *d = opendir(folder);
    if (!d) return fail(E_IO, "%s: %s", folder, strerror(errno));
    str_addf(&path, "%s/%s", folder, INDEX);
    int why = unlink(path.text) && errno != ENOENT ? errno : 0;
    int status = why ? fail(E_IO, "%s: cannot be removed: %s", path.text, strerror(why)) : folder_sync(path.text);
    for (const struct dirent *e; !status && (e = readdir(d));) {
        if (!is_shard_name(e->d_name)) continue;
        str_clear(&path);
        str_addf(&path, "%s/%s", folder, e->d_name);
        if (unlink(path.text) && errno != ENOENT)
            status = fail(E_IO, "%s: cannot be removed: %s", path.text, strerror(errno));
    }
    closedir(d);
    str_free(&path);
    return status;
}

static json_t *
shard_index_json(int nshard, const struct shard *shard, const struct save_item *item)
{
    json_t *map = json_object();
    int64_t bytes = 0;
    char name[64];
    for (int k = 0; k < nshard; k++) {
        shard_name(k, nshard, name);
        for (int i = shard[k].first; i < shard[k].first + shard[k].n; i++) {
            json_object_set_new(map, item[i].name, json_string(name));
            bytes += type_bytes(&item[i].type);
        }
    }
    return json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
}

static int
write_index(const char *folder, json_t *index)
{
    struct str path = {0};
    str_addf(&path, "%s/%s", folder, INDEX);
    char *text = json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS);
    int status = text ? saving_text(path.text, text) : fail(E_MEMORY, "%s: out of memory", path.text);
    free(text);
    str_free(&path);
    return status;
}

/* Renames the shard files, which are on disk under temporary names, to their final names, and then writes the index. */
static int
publish_shards(const char *folder, int nshard, struct shard *shard, json_t *index)
{
    TRY(remove_old(folder));
    for (int k = 0; k < nshard; k++) TRY(saving_end(&shard[k].saving));
    if (nshard == 1) return 0;
    TRY(write_index(folder, index));
    struct str single = {0};
    str_addf(&single, "%s/" SINGLE, folder);
    unlink(single.text);
    str_free(&single);
    return folder_sync(shard[0].path);
}

static int
save_folder_shards(const char *folder, int nshard, struct shard *shard, struct save_item *item,
                   const struct safetensors_options *o)
{
    char name[64];
    json_t *index = shard_index_json(nshard, shard, item);
    int status = index ? 0 : fail(E_MEMORY, "%s: out of memory for the index", folder);
    for (int k = 0; !status && k < nshard; k++) {
        struct str path = {0};
        shard_name(k, nshard, name);
        str_addf(&path, "%s/%s", folder, name);
        shard[k].path = path.text;
        status = prepare_save(shard[k].path, shard[k].n, item + shard[k].first, o, &shard[k].saving);
    }
    if (!status) status = publish_shards(folder, nshard, shard, index);
    json_decref(index);
    return status;
}

int
folder_save(const char *path, int n, struct save_item *item, int64_t shard_bytes, const struct safetensors_options *o)
{
    struct shard *shard = must_alloc(sizeof *shard * (size_t)(n + 1));
    for (int k = 0; k <= n; k++) shard[k].saving.fd = -1;
    if (n) qsort(item, (size_t)n, sizeof *item, compare_saved_names);
    int nshard = deal(n, item, shard_bytes, shard);
    int status =
        nshard > 99999
            ? fail(E_ARG, "%s: expected at most 99999 files of max_shard_size, found %d; give a larger max_shard_size",
                   path, nshard)
            : save_folder_shards(path, nshard, shard, item, o);
    for (int k = 0; k < nshard; k++) {
        saving_drop(&shard[k].saving);
        free(shard[k].path);
    }
    free(shard);
    return status;
}
