/* paint.h - draws the text being edited, on a colour terminal. Stores the last picture. Only the prompt's thread uses
 * these functions. */
#ifndef RILLE_SHELL_PAINT_H
#define RILLE_SHELL_PAINT_H

#include <stdbool.h>
#include <stdio.h>

struct paint {
    const char *prompt, *more; /* prompt: prompt of the first line; more: prompt of further lines */
    const char *text;          /* text being edited; lines end with \n */
    int cursor;                /* byte offset of the cursor in the text */
    const char *hint;          /* text shown after the chunk; NULL: none */
    int columns, rows;         /* size of the terminal, characters */
};
/* Redraws over the last picture, and moves the terminal's cursor to the text cursor. */
void paint(FILE *to, const struct paint *what);
/* Leaves the last picture on the screen. The next picture begins at the terminal's cursor, which is at the start
 * of a row. */
void paint_forget(void);

#endif
