/* save.c - atomic saves: a file is complete, or absent, even after a crash. */
#include "runtime/file/disk/save.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/file/disk/pieces.h"
#include "runtime/file/disk/store.h"
#include "runtime/base/stop.h"
#include "runtime/tensor/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

static int
save_cannot(const char *path, int why)
{
    return fail(E_IO, "%s: cannot be written: %s", path, strerror(why));
}

int
saving_begin(const char *path, struct saving *s)
{
    struct stat st;
    struct str name = {0};
    *s = (struct saving){.path = path, .fd = -1};
    if (store_is_url(path)) {
        TRY(store_check(path));
        return store_temporary(path, &s->fd);
    }
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return save_cannot(path, EISDIR);
    str_addf(&name, "%s.%ld.tmp", path, (long)getpid());
    s->temporary = name.text;
    s->fd = open(s->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->fd >= 0) return 0;
    int why = errno;
    free(s->temporary);
    s->temporary = NULL;
    return save_cannot(path, why);
}

int
saving_write_at(struct saving *s, int64_t offset, const void *bytes, int64_t n)
{
    for (int64_t put = 0; put < n;) {
        ssize_t k = pwrite(s->fd, (const char *)bytes + put, (size_t)(n - put), (off_t)(offset + put));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return save_cannot(s->path, k < 0 ? errno : ENOSPC);
        put += k;
    }
    return 0;
}

int
saving_write(struct saving *s, const void *bytes, int64_t n)
{
    TRY(saving_write_at(s, s->at, bytes, n));
    s->at += n;
    return 0;
}

/* Converts n values to another dtype; `out` is dense. */
static void
convert(enum dtype from, const void *in, enum dtype to, void *out, int64_t n)
{
    struct type a = type_of(from, 1, &n), b = type_of(to, 1, &n);
    struct view src = view_dense(&a, (void *)(uintptr_t)in), dst = view_dense(&b, out);
    view_copy(&dst, &src);
}

static int
write_blocks(struct saving *s, const struct save_item *item, enum dtype as, void *block, void *cast,
             void (*see)(void *, const void *, int64_t), void *arg)
{
    struct box all = box_all(&item->type);
    struct pieces w = pieces_begin(&all, item->type.ndim, BLOCK / (int64_t)dtype_bytes(item->type.dtype));
    while (pieces_next(&w)) {
        int64_t n = box_numel(&w.piece, item->type.ndim);
        TRY(item->read(item->arg, &w.piece, block));
        TRY(stop_caller_check());
        if (cast) convert(item->type.dtype, block, as, cast, n);
        TRY(saving_write(s, cast ? cast : block, n * (int64_t)dtype_bytes(as)));
        if (see) see(arg, cast ? cast : block, n * (int64_t)dtype_bytes(as));
    }
    return 0;
}

int
saving_item(struct saving *s, const struct save_item *item, enum dtype as,
            void (*see)(void *arg, const void *bytes, int64_t n), void *arg)
{
    if (as == DT_NONE) as = item->type.dtype;
    void *block = must_alloc(BLOCK), *cast = NULL;
    if (as != item->type.dtype) cast = must_alloc(BLOCK * sizeof(double));
    int status = write_blocks(s, item, as, block, cast, see, arg);
    free(block);
    free(cast);
    return status;
}

int
saving_flush(struct saving *s)
{
    if (s->fd < 0 || store_is_url(s->path)) return 0;
    int why = fsync(s->fd) ? errno : 0;
    if (close(s->fd) && !why) why = errno;
    s->fd = -1;
    return why ? save_cannot(s->path, why) : 0;
}

int
file_remove(const char *path)
{
    if (store_is_url(path)) return store_delete(path);
    return unlink(path) && errno != ENOENT ? fail(E_IO, "%s: cannot be removed: %s", path, strerror(errno)) : 0;
}

int
folder_sync(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct str name = {0};
    str_addn(&name, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    int fd = open(name.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC), why = fd < 0 || fsync(fd) ? errno : 0;
    if (fd >= 0) close(fd);
    str_free(&name);
    /* some file systems cannot flush folders: ignores that error */
    return why && why != EINVAL && why != EACCES ? save_cannot(path, why) : 0;
}

int
saving_end(struct saving *s)
{
    if (store_is_url(s->path)) return store_put(s->path, s->fd);
    TRY(saving_flush(s));
    if (rename(s->temporary, s->path)) return save_cannot(s->path, errno);
    free(s->temporary);
    s->temporary = NULL;
    return folder_sync(s->path);
}

void
saving_drop(struct saving *s)
{
    if (s->fd >= 0) close(s->fd);
    if (s->temporary) unlink(s->temporary);
    free(s->temporary);
    *s = (struct saving){.fd = -1};
}

int
saving_bytes(const char *path, const void *bytes, size_t n)
{
    struct saving s = {.fd = -1};
    int status = saving_begin(path, &s);
    if (!status) status = saving_write(&s, bytes, (int64_t)n);
    if (!status) status = saving_end(&s);
    saving_drop(&s);
    return status;
}

int
saving_text(const char *path, const char *text)
{
    return saving_bytes(path, text, strlen(text));
}
