/* show_svg.h - draws layouts and moves as SVG documents. Appends to the caller's text; any thread. */
#ifndef RILLE_BOXING_SHOW_SVG_H
#define RILLE_BOXING_SHOW_SVG_H

struct layout;
struct str;
struct type;

/* Draw the pictures of show.h as complete SVG documents. */
void box_show_svg(const struct type *t, const struct layout *l, struct str *s);
void box_show_move_svg(const struct type *t, const struct layout *from, const struct layout *to, struct str *s);

#endif
