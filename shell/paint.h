/* paint.h - what is typed, on a terminal of many colours. The thread of the prompt alone; what was drawn last is kept.
 */
#ifndef RILLE_SHELL_PAINT_H
#define RILLE_SHELL_PAINT_H

#include <stdbool.h>
#include <stdio.h>

struct paint {
    const char *prompt, *more; /* of the first line, of the others */
    const char *text;          /* lines end with \n */
    int cursor;                /* byte of the text */
    const char *hint;          /* shown behind the text; NULL: none */
    int columns, rows;         /* of the terminal */
};
/* Draws it over what was drawn last; the cursor is where it is to be. */
void paint(FILE *to, const struct paint *what);
/* What was drawn is left as it is: the next picture begins where the terminal's cursor stands, at the start of a row.
 */
void paint_forget(void);

#endif
