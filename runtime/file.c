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

int
file_read(const char *what, const char *path, char **out, size_t *n)
{
    struct str text = {0};
    char block[1 << 16];
    size_t got;
    FILE *f = fopen(path, "r");
    if (!f) return fail(E_IO, "%s: %s cannot be read: %s", what, path, strerror(errno));
    while ((got = fread(block, 1, sizeof block, f)) > 0) str_addn(&text, block, got);
    int why = ferror(f) ? errno : 0;
    fclose(f);
    if (why) {
        str_free(&text);
        return fail(E_IO, "%s: %s cannot be read: %s", what, path, strerror(why));
    }
    *n = text.len;
    *out = text.text ? text.text : calloc(1, 1);
    return 0;
}
