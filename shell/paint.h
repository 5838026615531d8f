/* paint.h - draws what the user types, on a terminal of many colours. It keeps what it drew last; the thread of the
 * prompt alone. */
#ifndef RILLE_SHELL_PAINT_H
#define RILLE_SHELL_PAINT_H

#include <stdbool.h>
#include <stdio.h>

struct paint {
    const char *prompt, *more; /* of the first line, of the others */
    const char *text;          /* lines end with \n */
    int cursor;                /* byte of the text */
    const char *hint;          /* stands behind the text; NULL: none */
    int columns, rows;         /* of the terminal */
};
/* Draws it over what it drew last, and puts the terminal's cursor at the text's. */
void paint(FILE *to, const struct paint *what);
/* Leaves what it drew: the next picture begins where the terminal's cursor stands, at the start of a row. */
void paint_forget(void);

#endif
