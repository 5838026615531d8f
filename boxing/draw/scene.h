/* scene.h - describes the picture of a layout, independent of characters and pixels. The function that makes a scene
 * owns it; one thread. A scene borrows its layouts. */
#ifndef RILLE_BOXING_SCENE_H
#define RILLE_BOXING_SCENE_H

#include "boxing/box.h"
#include "boxing/grid.h"

enum {
    SHOWN = 8,       /* maximum number of parts, addends, pages and bars that a picture shows */
    LABEL_RANKS = 6, /* maximum number of ranks in a label; a label for more ranks shows four entries */
};

/* Indices to draw out of many: all of them, or the first ones, a gap (-1) and the last. */
struct shown {
    int n;
    int index[SHOWN];
};
struct shown shown_of(int n, int most);

/* Parts of a split dimension: part i holds the indices k with at[i] <= k < at[i + 1]. A missing dimension has one
 * part of size 1. */
struct parts {
    int n;
    int64_t *at;
};

struct scene {
    struct grid grid;
    int row, col; /* dimension drawn downwards (row) and dimension drawn across (col); -1: none */
    struct parts rows, cols;
    int npage; /* number of pages: combinations of parts of the other split dimensions */
    int npage_dim, page_dim[MAX_DIM];
    struct parts page[MAX_DIM];
    const char *between;         /* text between addends: "+", "max" or "min" */
    bool empty;                  /* the tensor has no elements, so nothing is drawn */
    const struct box_plan *plan; /* plan of the move whose blocks fill the drawn layout; NULL: none */
};

/* Makes a scene. other: second layout that is drawn beside l, so both scenes use the same dimensions; NULL: none. */
void scene_of(struct scene *s, struct arena *a, const struct type *t, const struct layout *l,
              const struct layout *other);
/* Returns the mesh position that holds a tile of one sheet (the drawing of one replica of one addend). */
int32_t scene_pos(const struct scene *s, int page, int row, int col, int addend, int replica);
/* Prints the ranks that hold a tile of one addend: "0, 2, ..., 14". */
void scene_label(const struct scene *s, int page, int row, int col, int addend, struct str *out);
/* Prints the part of the tensor that a page shows, "[0:2, :, :]". If there is only one page, prints nothing. */
void scene_page_text(const struct scene *s, int page, struct str *out);
/* Returns the steps that fill the shard at a mesh position. NULL: there is no move, or the move sends nothing. */
const struct box_work *scene_work(const struct scene *s, int32_t pos);
/* Computes the extent of a slice along a drawn dimension, in fractions (0 to 1) of part i. */
void scene_within(const struct parts *p, int i, const struct box *slice, int dim, double *from, double *to);
/* Prints a slice: "[0:2, :]". */
void scene_slice_text(const struct scene *s, const struct box *slice, struct str *out);
/* scene_place_text prints "cpu[0, 1]" or, for a large mesh, its size. scene_type_text prints "f32{4, 5}, axis 0
 * down, axis 1 across". */
void scene_place_text(const struct scene *s, struct str *out);
void scene_type_text(const struct scene *s, struct str *out);
/* Returns a number for the colour of a rank, less than n. Neighbours along any mesh axis get different colours, if
 * axis sizes are powers of two. */
size_t scene_color(int32_t rank, size_t n);

/* Prints a number of bytes with a unit: 96 B, 1.5 KiB, 32 MiB. */
void bytes_print(int64_t bytes, struct str *out);

/* What is printed about a move's plan. Bytes of single ranks are left out if the meshes are too large to plan. */
struct move_text {
    const char *name;
    int64_t bytes;
    int nrank;
    const int32_t *rank;
    const int64_t *received;
    const char *refused;         /* why the move is impossible; NULL: it is possible */
    const struct box_plan *plan; /* plan of the move; NULL: the meshes are too large, or the move is impossible */
};
void move_text_of(struct move_text *m, struct arena *a, const struct type *t, const struct layout *from,
                  const struct layout *to);

#endif
