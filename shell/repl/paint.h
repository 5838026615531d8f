/* paint.h - draws the text being edited, on a colour terminal. Keeps the last picture; only for the prompt's thread. */
#ifndef RILLE_SHELL_PAINT_H
#define RILLE_SHELL_PAINT_H

#include <stdbool.h>
#include <stdio.h>

struct paint {
    const char *prompt, *more; /* prompt of the first line; of further lines */
    const char *text;          /* text being edited; lines end with \n */
    int cursor;                /* byte offset of the cursor in the text */
    const char *hint;          /* shown behind the text; NULL: none */
    int columns, rows;         /* size of the terminal */
};
/* Redraws over the last picture, and moves the terminal's cursor to the text cursor. */
void paint(FILE *to, const struct paint *what);
/* Leaves the last picture on the screen; the next one begins at the terminal's cursor, which is at the start of a
 * row. */
void paint_forget(void);

#endif
