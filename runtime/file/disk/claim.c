/* claim.c - gives a session exclusive write access to a folder. */
#include "runtime/file/disk/claim.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/data/str.h"
#include "runtime/base/system.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct claim {
    struct claim *before;
    char *path; /* path of the file .owner */
    int fd;
};

/* Returns true if the path still names the open file. */
static bool
is_there(int fd, const char *path)
{
    struct stat open, named;
    return !fstat(fd, &open) && !stat(path, &named) && open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

static bool
is_claim_held(const struct claims *c, const char *path)
{
    for (const struct claim *claim = c->last; claim; claim = claim->before)
        if (!strcmp(claim->path, path) && is_there(claim->fd, path)) return true;
    return false;
}

static void
say_self(struct str *out)
{
    char host[65] = "";
    gethostname(host, sizeof host - 1);
    str_addf(out, "process %ld on %s", (long)getpid(), host);
}

/* Appends the printable characters of the file to a text. */
static void
say_owner(int fd, struct str *out)
{
    char text[200];
    ssize_t n = pread(fd, text, sizeof text, 0);
    for (ssize_t i = 0; i < n; i++)
        if (isprint((unsigned char)text[i])) str_addn(out, &text[i], 1);
    if (!out->len) str_add(out, "another process");
}

static int
refuse_claim(int fd, const char *folder)
{
    struct str owner = {0}, self = {0};
    say_owner(fd, &owner);
    say_self(&self);
    int status = fail(E_IO, "%s: %s already saves there, and this is %s; each training needs its own folder", folder,
                      str_text(&owner), str_text(&self));
    str_free(&owner);
    str_free(&self);
    return status;
}

/* Opens the file and locks it. If the previous owner removed the file between the two steps, tries again, because
 * the lock is then on a file that no longer has a name. */
static int
claim_file(const char *folder, const char *path, int *out)
{
    for (;;) {
        struct flock all = {.l_type = F_WRLCK};
        int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0) return fail(E_IO, "%s: cannot be written: %s", path, strerror(errno));
        bool taken = fcntl(fd, F_OFD_SETLK, &all) && (errno == EAGAIN || errno == EACCES);
        int status = taken ? refuse_claim(fd, folder) : 0;
        if (!status && is_there(fd, path)) {
            *out = fd;
            return 0;
        }
        close(fd);
        TRY(status);
    }
}

/* Writes the owner's name, which is only used in error texts. Ignores a full disk, because the save itself will
 * report it. */
static void
write_owner(int fd)
{
    struct str owner = {0};
    char since[32] = "";
    struct tm tm;
    say_self(&owner);
    strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", localtime_r(&(time_t){time(NULL)}, &tm));
    str_addf(&owner, " (since %s)", since);
    if (ftruncate(fd, 0) || pwrite(fd, owner.text, owner.len, 0) < 0) errno = 0;
    str_free(&owner);
}

static int
add_claim(struct claims *c, const char *folder, const char *path)
{
    int fd;
    if (is_claim_held(c, path)) return 0;
    TRY(claim_file(folder, path, &fd));
    write_owner(fd);
    struct claim *claim = must_alloc(sizeof *claim);
    *claim = (struct claim){.before = c->last, .path = must_copy(path, strlen(path) + 1), .fd = fd};
    c->last = claim;
    return 0;
}

int
claims_add(struct claims *c, const char *folder)
{
    struct str path = {0};
    char *real = realpath(folder, NULL);
    if (!real) return fail(E_IO, "%s: %s", folder, strerror(errno));
    str_addf(&path, "%s/.owner", real);
    int status = add_claim(c, folder, str_text(&path));
    str_free(&path);
    free(real);
    return status;
}

void
claims_free(struct claims *c)
{
    while (c->last) {
        struct claim *claim = c->last;
        c->last = claim->before;
        if (is_there(claim->fd, claim->path)) unlink(claim->path);
        close(claim->fd);
        free(claim->path);
        free(claim);
    }
}
