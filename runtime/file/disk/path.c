/* path.c - expands "~", and finds models in the cache of Hugging Face's tools.
 *
 *   CACHE/models--OWNER--NAME/refs/main            the newest revision that was downloaded
 *   CACHE/models--OWNER--NAME/snapshots/REVISION   its files
 *
 * CACHE is $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub. */
#include "runtime/file/disk/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
path_home(const char *path, struct str *out)
{
    const char *home = getenv("HOME");
    if (home && path[0] == '~' && (path[1] == '/' || !path[1])) {
        str_add(out, home);
        path++;
    }
    str_add(out, path);
}

static void
add_cache(struct str *out)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_HUB_CACHE", ""}, {"HF_HOME", "/hub"}, {"XDG_CACHE_HOME", "/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        if (!value || !value[0]) continue;
        path_home(value, out);
        str_add(out, places[i].below);
        return;
    }
    path_home("~/.cache/huggingface/hub", out);
}

/* Returns the length of the model name "OWNER/NAME" at the start of a path, bytes; 0: there is none. */
static size_t
model_name(const char *path)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t owner = strspn(path, letters);
    if (path[0] == '.' || !owner || path[owner] != '/' || path[owner + 1] == '.') return 0;
    size_t name = strspn(path + owner + 1, letters), n = owner + 1 + name;
    return name && (path[n] == '/' || !path[n]) ? n : 0;
}

/* Appends the first word of a small file. Returns false if the file cannot be read. */
static bool
add_word(const char *path, struct str *out)
{
    char word[128] = "";
    FILE *f = fopen(path, "rb");
    bool good = f && fscanf(f, "%127s", word) == 1 && !strchr(word, '/');
    if (f) fclose(f);
    str_add(out, word);
    return good;
}

/* Appends the path in the cache for a path that begins with a model name of n bytes. Returns false if the model is
 * not in the cache. */
static bool
add_cached(const char *path, size_t n, struct str *out)
{
    const char *slash = strchr(path, '/');
    struct str model = {0}, refs = {0};
    add_cache(&model);
    str_add(&model, "/models--");
    str_addn(&model, path, (size_t)(slash - path));
    str_add(&model, "--");
    str_addn(&model, slash + 1, n - (size_t)(slash - path) - 1);
    str_addf(&refs, "%s/refs/main", model.text);
    str_addf(out, "%s/snapshots/", model.text);
    bool good = add_word(refs.text, out);
    str_add(out, path + n);
    str_free(&model);
    str_free(&refs);
    return good && access(out->text, F_OK) == 0;
}

void
path_read(const char *path, struct str *out)
{
    struct str cached = {0};
    size_t n = model_name(path);
    bool found = n && access(path, F_OK) != 0 && add_cached(path, n, &cached);
    if (found)
        str_add(out, cached.text);
    else
        path_home(path, out);
    str_free(&cached);
}
