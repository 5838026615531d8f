/* file.c - text files that are written whole, or an error that tells the reason. */
#include "runtime/file.h"

#include "runtime/error.h"

#include <errno.h>
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
