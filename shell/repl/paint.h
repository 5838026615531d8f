/* paint.h - draws the text being edited, on a colour terminal. Keeps the last picture; only for the prompt's thread. */
#ifndef RILLE_SHELL_PAINT_H
#define RILLE_SHELL_PAINT_H

#include <stdbool.h>
#include <stdio.h>

struct paint {
    const char *prompt, *more; /* of the first line; of further lines */
    const char *text;          /* lines end with \n */
    int cursor;                /* byte offset into the text */
    const char *hint;          /* shown behind the text; NULL: none */
    int columns, rows;         /* size of the terminal */
};
/* Redraws over the last picture, and moves the terminal's cursor to the text cursor. */
void paint(FILE *to, const struct paint *what);
/* Leaves what it drew: the next picture begins where the terminal's cursor stands, at the start of a row. */
void paint_forget(void);

#endif
