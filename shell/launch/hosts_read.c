/* hosts_read.c - reads the hosts of a job from the command line or a file, and prints errors. */
#include "shell/launch/front.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the contents of a file, which the caller frees; NULL after printing the error. */
static char *
read_hostfile(const char *path, size_t *n)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "r");
    char *text = file ? malloc(MOST) : NULL;
    *n = text ? fread(text, 1, MOST, file) : 0;
    bool bad = !text || ferror(file);
    if (file) fclose(file);
    if (!bad && *n < MOST) return text;
    fprintf(stderr, "rille: launch: %s: %s\n", path, bad ? strerror(errno) : "the list of hosts is too long");
    free(text);
    return NULL;
}

int
hosts_read(const char *list, const char *path, struct hosts *out)
{
    struct hosts_error e;
    size_t n = list ? strlen(list) : 0;
    char *text = list ? strdup(list) : read_hostfile(path, &n);
    if (!text) return -1;
    int code = hosts_parse(text, n, out, &e);
    if (code && list)
        fprintf(stderr, "rille: launch: -H, character %d: %s\n", e.column, e.text);
    else if (code)
        fprintf(stderr, "rille: launch: %s:%d:%d: %s\n", path, e.line, e.column, e.text);
    free(text);
    return code;
}
