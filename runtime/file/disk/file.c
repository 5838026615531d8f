/* file.c - atomic writes and reads of text files. */
#include "runtime/file/disk/file.h"

#include "runtime/base/error.h"
#include "runtime/data/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the temporary file, with the permissions of the existing file. Refuses to replace an existing file that is
 * not writable. */
static FILE *
open_beside(const char *path, struct file_out *out)
{
    struct stat st;
    struct str name = {0};
    bool is_there = lstat(path, &st) == 0;
    if (is_there ? !S_ISREG(st.st_mode) || access(path, W_OK) : errno != ENOENT) return NULL;
    str_addf(&name, "%s.%ld.tmp", path, (long)getpid());
    int fd = open(name.text, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *f = fd < 0 || (is_there && fchmod(fd, st.st_mode & 07777)) ? NULL : fdopen(fd, "w");
    if (f) {
        out->beside = name.text;
        return f;
    }
    if (fd >= 0) close(fd);
    if (fd >= 0) unlink(name.text);
    str_free(&name);
    return NULL;
}

int
file_create(const char *what, const char *path, struct file_out *out)
{
    *out = (struct file_out){.what = what, .path = path};
    out->f = open_beside(path, out);
    if (!out->f) out->f = fopen(path, "we");
    return out->f ? 0 : fail(E_IO, "%s: %s cannot be written: %s", what, path, strerror(errno));
}

/* Finishes writing a file. Flushes the file's buffer before it is closed, so that errno is that of a failed write. */
int
file_finish(struct file_out *out)
{
    int why = fflush(out->f) || ferror(out->f) ? errno : 0;
    if (fclose(out->f) && !why) why = errno;
    if (!why && out->beside && rename(out->beside, out->path)) why = errno;
    if (why && out->beside) unlink(out->beside);
    free(out->beside);
    out->beside = NULL;
    out->f = NULL;
    return why ? fail(E_IO, "%s: %s could not be written completely: %s", out->what, out->path, strerror(why)) : 0;
}

int
file_write(const char *what, const char *path, const char *text, size_t n)
{
    struct file_out out;
    TRY(file_create(what, path, &out));
    fwrite(text, 1, n, out.f);
    return file_finish(&out);
}

/* Checks that a block of n bytes may be part of a text. at: number of bytes of the text before the block. */
static int
check_text(const char *what, const char *path, size_t most, size_t at, const char *block, size_t n)
{
    const char *zero = memchr(block, 0, n);
    if (zero) return fail(E_IO, "%s: %s is not text: byte %zu is 0", what, path, at + (size_t)(zero - block));
    return n > most - at ? fail(E_IO, "%s: %s is longer than %zu bytes", what, path, most) : 0;
}

int
file_read_text(const char *what, const char *path, size_t most, char **out, size_t *n)
{
    struct str text = {0};
    char block[1 << 16];
    size_t got;
    int status = 0;
    FILE *f = fopen(path, "r");
    if (!f) return fail(E_IO, "%s: %s cannot be read: %s", what, path, strerror(errno));
    while (!status && (got = fread(block, 1, sizeof block, f)) > 0) {
        status = check_text(what, path, most, text.len, block, got);
        if (!status) str_addn(&text, block, got);
    }
    if (!status && ferror(f)) status = fail(E_IO, "%s: %s cannot be read: %s", what, path, strerror(errno));
    fclose(f);
    if (status) {
        str_free(&text);
        return status;
    }
    *n = text.len;
    *out = text.text ? text.text : calloc(1, 1);
    return 0;
}
