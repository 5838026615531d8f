/* file.c - text files that are written whole, or an error that tells the reason. */
#include "runtime/file.h"

#include "runtime/error.h"

#include "runtime/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
file_create(const char *what, const char *path, FILE **out)
{
    *out = fopen(path, "w");
    return *out ? 0 : fail(E_IO, "%s: %s cannot be written: %s", what, path, strerror(errno));
}

/* What is still in the buffer goes out first, so that errno tells of the last attempt. */
int
file_finish(const char *what, const char *path, FILE **f)
{
    int why = fflush(*f) || ferror(*f) ? errno : 0;
    if (fclose(*f) && !why) why = errno;
    *f = NULL;
    return why ? fail(E_IO, "%s: %s could not be written whole: %s", what, path, strerror(why)) : 0;
}

/* May a block of n bytes follow the first `at` bytes of a text? */
static int
check_text(const char *what, const char *path, size_t most, size_t at, const char *block, size_t n)
{
    const char *zero = memchr(block, 0, n);
    if (zero) return fail(E_IO, "%s: %s is no text: byte %zu of it is 0", what, path, at + (size_t)(zero - block));
    return n > most - at ? fail(E_IO, "%s: %s is longer than %zu bytes", what, path, most) : 0;
}

/* most: of a text; 0: any bytes, as many as there are. */
static int
read_all(const char *what, const char *path, size_t most, char **out, size_t *n)
{
    struct str text = {0};
    char block[1 << 16];
    size_t got;
    int status = 0;
    FILE *f = fopen(path, "r");
    if (!f) return fail(E_IO, "%s: %s cannot be read: %s", what, path, strerror(errno));
    while (!status && (got = fread(block, 1, sizeof block, f)) > 0) {
        if (most) status = check_text(what, path, most, text.len, block, got);
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

int
file_read(const char *what, const char *path, char **out, size_t *n)
{
    return read_all(what, path, 0, out, n);
}

int
file_read_text(const char *what, const char *path, size_t most, char **out, size_t *n)
{
    return read_all(what, path, most, out, n);
}
