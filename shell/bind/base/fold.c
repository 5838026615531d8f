/* fold.c - folds prose for a terminal: a line that is too wide is broken at a word and continued with more
 * indentation. Words in brackets stay together if they fit. A word wider than a line is left for the terminal to
 * break. */
#include "shell/bind/base/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { FURTHER = 4 };

int
terminal_columns(int fd)
{
    struct winsize w;
    return isatty(fd) && !ioctl(fd, TIOCGWINSZ, &w) ? w.ws_col : 0;
}

int
print_columns(void)
{
    int columns = terminal_columns(1);
    return columns ? columns : 80;
}

/* Returns the width of the character at `text`, in columns, and its size in *bytes. */
static int
terminal_character(const char *text, const char *end, size_t *bytes)
{
    mbstate_t state;
    wchar_t c;
    memset(&state, 0, sizeof state);
    *bytes = mbrtowc(&c, text, (size_t)(end - text), &state);
    if (*bytes > (size_t)(end - text)) *bytes = 1;
    int width = *bytes > 1 ? wcwidth(c) : 1;
    return width < 0 ? 1 : width;
}

static int
indent_of(const char *text)
{
    int width = 0;
    for (; *text == ' ' || *text == '\t'; text++) width += *text == '\t' ? 8 - width % 8 : 1;
    return width;
}

/* Returns the place at which to break the line that starts at text and has room for `columns` columns: the last
 * space that fits, is outside brackets and is beyond the first third of the line; else the last space that fits;
 * else the end of the first word. */
static const char *
break_of(const char *text, const char *end, int columns)
{
    const char *any = NULL, *outside = NULL, *at = text + strspn(text, " \t");
    int width = indent_of(text), depth = 0;
    for (size_t bytes; at < end; at += bytes) {
        if (*at == ' ' && at[-1] != ' ') {
            if (width > columns && any) break;
            any = at;
            if (depth == 0 && width <= columns && width >= columns / 3) outside = at;
        }
        if (strchr("([{", *at)) depth++;
        if (strchr(")]}", *at) && depth) depth--;
        width += terminal_character(at, end, &bytes);
    }
    if (width <= columns) return end;
    return outside ? outside : any ? any : end;
}

char *
fold_text(const char *text, int columns)
{
    size_t size = strlen(text), nspace = 0;
    for (const char *at = text; *at; at++) nspace += *at == ' ';
    char *folded = malloc(size + nspace * (size_t)columns + 1), *to = folded;
    while (folded && *text) {
        const char *end = text + strcspn(text, "\n");
        int hang = indent_of(text) + FURTHER, left = columns;
        if (hang > columns / 2) hang = columns / 2;
        for (;;) {
            const char *stop = break_of(text, end, left);
            memcpy(to, text, (size_t)(stop - text));
            to += stop - text;
            text = stop + strspn(stop, " ");
            if (stop == end || text >= end) break;
            *to++ = '\n';
            memset(to, ' ', (size_t)hang);
            to += hang;
            left = columns - hang;
        }
        text = end;
        if (*text) *to++ = *text++;
    }
    if (folded) *to = 0;
    return folded;
}

void
fold_print(const char *text)
{
    int columns = terminal_columns(1);
    char *folded = columns > 0 ? fold_text(text, columns) : NULL;
    const char *said = folded ? folded : text;
    size_t n = strlen(said);
    fputs(said, stdout);
    if (n == 0 || said[n - 1] != '\n') putchar('\n');
    free(folded);
}

void
fold_push(lua_State *L, const char *text)
{
    int columns = terminal_columns(1);
    char *folded = columns > 0 ? fold_text(text, columns) : NULL;
    lua_pushstring(L, folded ? folded : text);
    free(folded);
}
