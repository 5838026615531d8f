/* root.c - opens a path below a root folder, by opening one folder after the other. */
#include "runtime/file/disk/root.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/file/disk/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the length of the first folder or URL in a list, bytes. The ":" of a URL's "://" separates nothing. */
static size_t
first_length(const char *list)
{
    size_t n = strcspn(list, ":");
    return store_is_url(list) ? n + 3 + strcspn(list + n + 3, ":") : n;
}

static int
roots_add(struct roots *out, const char *name)
{
    char *path = store_is_url(name) ? strdup(name) : realpath(name, NULL);
    if (!path) return fail(E_IO, "--root %s: %s", name, strerror(errno));
    GROW(out->path, out->n + 1, out->capacity);
    out->path[out->n++] = path;
    return 0;
}

int
roots_read(const char *list, struct roots *out)
{
    int status = 0;
    *out = (struct roots){0};
    while (list && *list && !status) {
        size_t n = first_length(list);
        char *name = strndup(list, n);
        status = roots_add(out, name);
        free(name);
        list += n + (list[n] == ':');
    }
    if (status) roots_free(out);
    return status;
}

void
roots_free(struct roots *r)
{
    for (int i = 0; i < r->n; i++) free(r->path[i]);
    free(r->path);
    *r = (struct roots){0};
}

/* Returns the rest of the path after the root and its slash; NULL: the path is not below the root. */
static const char *
path_behind(const char *root, const char *path)
{
    size_t n = strlen(root);
    if (strncmp(root, path, n)) return NULL;
    if (n && root[n - 1] == '/') return path + n; /* the root is "/", which ends with a slash */
    return path[n] == '/' ? path + n + 1 : NULL;
}

static const char *
find_root_of(const struct roots *r, const char *path, const char **rest)
{
    for (int i = 0; i < r->n; i++)
        if ((*rest = path_behind(r->path[i], path))) return r->path[i];
    return NULL;
}

bool
roots_have(const struct roots *r, const char *path)
{
    const char *rest;
    return find_root_of(r, path, &rest);
}

static int
root_cannot(const char *path, int why)
{
    return fail(E_IO, "%s: %s", path, strerror(why));
}

/* Copies the next component of the path. E_IO: the component is empty, too long, "." or "..". */
static int
take_name(const char *path, const char *at, char name[NAME_MAX + 1])
{
    size_t n = strcspn(at, "/");
    if (n == 0 || n > NAME_MAX) return fail(E_IO, "%s: a name in it has %zu bytes, which is too long", path, n);
    memcpy(name, at, n);
    name[n] = '\0';
    return strcmp(name, ".") && strcmp(name, "..") ? 0 : fail(E_IO, "%s: a path must not contain '%s'", path, name);
}

int
roots_check_url(const struct roots *r, const char *url)
{
    char name[NAME_MAX + 1];
    const char *rest;
    if (!find_root_of(r, url, &rest)) return fail(E_IO, "%s: not in a folder declared with --root", url);
    for (;; rest++) {
        TRY(take_name(url, rest, name));
        rest += strlen(name);
        if (!*rest) return 0;
    }
}

/* Opens the next folder of the path, and closes its parent. */
static int
enter_root(const char *path, struct rooted *at)
{
    char name[NAME_MAX + 1];
    TRY(take_name(path, at->name, name));
    int next = openat(at->folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), why = errno;
    close(at->folder);
    at->folder = next;
    at->name += strlen(name) + 1;
    if (next >= 0) return 0;
    return why == ENOTDIR || why == ELOOP ? fail(E_IO, "%s: '%s' is a link or not a folder", path, name)
                                          : root_cannot(path, why);
}

static int
find_folder(const struct roots *r, const char *path, struct rooted *out)
{
    char last[NAME_MAX + 1];
    const char *root = find_root_of(r, path, &out->name);
    out->folder = out->fd = -1;
    if (!root) return fail(E_IO, "%s: not in a folder declared with --root", path);
    out->folder = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->folder < 0) return root_cannot(root, errno);
    while (strchr(out->name, '/')) TRY(enter_root(path, out));
    return take_name(path, out->name, last);
}

static int
open_there(const struct roots *r, const char *path, int flags, struct rooted *out)
{
    int status = find_folder(r, path, out);
    if (!status && flags & O_CREAT && unlinkat(out->folder, out->name, 0) && errno != ENOENT)
        status = root_cannot(path, errno);
    if (!status) out->fd = openat(out->folder, out->name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (!status && out->fd < 0) status = root_cannot(path, errno);
    if (status) rooted_close(out);
    return status;
}

int
rooted_open(const struct roots *r, const char *path, struct rooted *out)
{
    return open_there(r, path, O_RDONLY, out);
}

int
rooted_create(const struct roots *r, const char *path, struct rooted *out)
{
    return open_there(r, path, O_WRONLY | O_CREAT | O_EXCL, out);
}

void
rooted_close(struct rooted *f)
{
    if (f->fd >= 0) close(f->fd);
    if (f->folder >= 0) close(f->folder);
    f->fd = f->folder = -1;
}
