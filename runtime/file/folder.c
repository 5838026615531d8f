/* folder.c - opens a model in a folder: shards and the index that maps tensors to shards.
 *
 * A folder of Hugging Face has a model in .safetensors files, in .bin files of torch.save, or in both; .safetensors
 * files are preferred. */
#include "runtime/file/folder.h"

#include "runtime/base/error.h"
#include "runtime/file/codec/json.h"
#include "runtime/data/str.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX ".index.json"
enum { MAX_INDEX = 100 << 20 };

/* The file formats in which a folder can store a model, preferred first. */
static const struct storage {
    /* single: name of a file that has the complete model; ending: ending of shard files' names */
    const char *single, *ending;
    const struct format *format;
} storages[] = {
    {"model.safetensors", ".safetensors", &format_safetensors},
    {"pytorch_model.bin", ".bin", &format_torch},
};

/* Returns the storage whose index has the name of this path; NULL: the path is no index. */
static const struct storage *
storage_of_index(const char *path)
{
    if (text_ends(path, ".safetensors" INDEX)) return &storages[0];
    return text_ends(path, ".bin" INDEX) ? &storages[1] : NULL;
}

static bool
is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool
folder_is_set(const char *path)
{
    return storage_of_index(path) || is_folder(path);
}

/* Returns the path of a file in the folder. The arena of f owns the text. */
static char *
join_path(struct tensors *f, const char *folder, size_t n, const char *name)
{
    char *path = arena_alloc(&f->arena, n + strlen(name) + 2);
    memcpy(path, folder, n);
    if (n && path[n - 1] != '/') path[n++] = '/';
    strcpy(path + n, name);
    return path;
}

static int
open_shard(struct tensors *f, const char *path)
{
    struct source *s;
    TRY(source_open(path, &s));
    return f->format->open(f, tensors_add_source(f, s));
}

/* Checks the name of a shard file: the ending must be that of the storage, and shards must be in the folder of the
 * index. */
static int
check_shard_name(const char *index, const char *name)
{
    const char *ending = storage_of_index(index)->ending;
    if (name[0] && name[0] != '.' && !strchr(name, '/') && text_ends(name, ending)) return 0;
    return fail(E_IO, "%s: weight_map names '%.200s', which is not a %s file of this folder", index, name, ending);
}

/* Opens each file that the index names, once. */
static int
open_shards(struct tensors *f, const char *index, size_t folder, json_t *map)
{
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value)
    {
        const char *file = json_string_value(value);
        bool open = false;
        if (!file) return fail(E_IO, "%s: weight_map has no file for '%.200s'", index, name);
        TRY(check_shard_name(index, file));
        char *path = join_path(f, index, folder, file);
        for (int32_t i = 0; i < f->nsource && !open; i++) open = !strcmp(f->source[i]->name, path);
        if (!open) TRY(open_shard(f, path));
    }
    return 0;
}

/* Checks that index and shards list the same tensors, each in the same file. */
static int
check_map(const struct tensors *f, const char *index, size_t folder, json_t *map)
{
    for (int32_t i = 0; i < f->nentry; i++) {
        const struct entry *e = &f->entry[i];
        const char *says = json_string_value(json_object_get(map, e->name)), *is = e->source->name + folder;
        if (!says) return fail(E_IO, "%s: the index does not list '%s', which is in %s", index, e->name, is);
        if (strcmp(says, is)) return fail(E_IO, "%s: expected '%s' in %s, found it in %s", index, e->name, says, is);
    }
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) if (tensors_find(f, name) < 0) return fail(
        E_IO, "%s: '%s' is missing in %s", index, name, json_string_value(value));
    return 0;
}

static int
folder_open_index(struct tensors *f, const char *index)
{
    const char *slash = strrchr(index, '/');
    size_t folder = slash ? (size_t)(slash - index) + 1 : 0;
    json_t *root;
    TRY(json_file(index, MAX_INDEX, &root));
    json_t *map = json_object_get(root, "weight_map");
    int status =
        json_is_object(map) ? open_shards(f, index, folder, map) : fail(E_IO, "%s: weight_map is missing", index);
    if (!status) status = tensors_seal(f);
    if (!status) status = check_map(f, index, folder, map);
    json_decref(root);
    return status;
}

/* Opens the model of a folder if it is stored in this format. Sets *found to true if it is. */
static int
open_storage(struct tensors *f, const char *folder, const struct storage *s, bool *found)
{
    struct str name = {0};
    str_addf(&name, "%s" INDEX, s->single);
    const char *index = join_path(f, folder, strlen(folder), name.text);
    const char *single = join_path(f, folder, strlen(folder), s->single);
    str_free(&name);
    bool many = access(index, F_OK) == 0, one = access(single, F_OK) == 0;
    *found = many || one;
    f->format = s->format;
    if (many && one)
        return fail(E_IO, "%s: the folder has both %s and %s" INDEX ", perhaps of two models; name one of the files",
                    folder, s->single, s->single);
    if (many) return folder_open_index(f, index);
    return one ? open_shard(f, single) : 0;
}

int
folder_open(struct tensors *f, const char *path)
{
    bool found = false;
    if (!is_folder(path)) {
        f->format = storage_of_index(path)->format;
        return folder_open_index(f, path);
    }
    for (size_t i = 0; i < countof(storages) && !found; i++) TRY(open_storage(f, path, &storages[i], &found));
    if (found) return 0;
    return fail(E_IO,
                "%s: the folder has no complete model; expected model.safetensors, model.safetensors" INDEX
                " or pytorch_model.bin",
                path);
}
