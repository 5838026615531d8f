/* show.h - draws layouts, and moves between them, for a terminal and as SVG.
 *
 * A sheet is a rectangle that stands for the tensor. B axes stack sheets, one per replica. S axes cut a sheet into
 * tiles, marked with their ranks. P axes put stacks of sheets side by side, one per addend, with a plus (or max,
 * min) between them. A page is one combination of parts of the split dimensions beyond two. Pictures of large meshes
 * omit the middle. All functions append to the caller's text and keep no state; any thread. */
#ifndef RILLE_BOXING_SHOW_H
#define RILLE_BOXING_SHOW_H

#include "boxing/box.h"

/* Draws a tensor as it is split over its mesh, in at most `columns` characters per line if possible. color: one ANSI
 * colour per rank. */
void box_show_text(const struct type *t, const struct layout *l, int columns, bool color, struct str *s);
/* Draws both layouts, the name of the move, its bytes, and the bytes that each rank receives. */
void box_show_move_text(const struct type *t, const struct layout *from, const struct layout *to, int columns,
                        bool color, struct str *s);

#endif
