/* scene.h - what to draw of a layout, independent of characters and pixels. Owned by its maker, one thread; borrows
 * layouts. */
#ifndef RILLE_BOXING_SCENE_H
#define RILLE_BOXING_SCENE_H

#include "boxing/box.h"
#include "boxing/grid.h"

enum {
    SHOWN = 8,       /* maximum number of parts, addends, pages and bars that a picture shows */
    LABEL_RANKS = 6, /* maximum number of ranks in a label; of more ranks, a label shows four entries */
};

/* Indices to draw out of many: all, or the first ones, a gap (-1) and the last. */
struct shown {
    int n;
    int index[SHOWN];
};
struct shown shown_of(int n, int most);

/* Cuts of a dimension: part i is at[i] <= k < at[i + 1]. A missing dimension has one part of size 1. */
struct parts {
    int n;
    int64_t *at;
};

struct scene {
    struct grid grid;
    int row, col; /* dimensions drawn downwards and across; -1: none */
    struct parts rows, cols;
    int npage; /* combinations of parts of the other cut dimensions */
    int npage_dim, page_dim[MAX_DIM];
    struct parts page[MAX_DIM];
    const char *between;         /* "+", "max" or "min" between addends */
    bool empty;                  /* no elements: nothing to draw */
    const struct box_plan *plan; /* the move that fills the layout block by block; NULL: none */
};

/* Makes a scene. other: a layout drawn beside l with the same dimensions; NULL: none. */
void scene_of(struct scene *s, struct arena *a, const struct type *t, const struct layout *l,
              const struct layout *other);
/* Returns the mesh position of a tile of one sheet. */
int32_t scene_pos(const struct scene *s, int page, int row, int col, int addend, int replica);
/* Prints the ranks that hold a tile of one addend: "0, 2, ..., 14". */
void scene_label(const struct scene *s, int page, int row, int col, int addend, struct str *out);
/* Prints "[0:2, :, :]", or an empty text for a single page. */
void scene_page_text(const struct scene *s, int page, struct str *out);
/* Returns the steps that fill the shard at a mesh position; NULL: no move, or nothing moves. */
const struct box_work *scene_work(const struct scene *s, int32_t pos);
/* Computes the extent of a slice along a drawn dimension, as fractions (0 to 1) of part i. */
void scene_within(const struct parts *p, int i, const struct box *slice, int dim, double *from, double *to);
/* Prints "[0:2, :]". */
void scene_slice_text(const struct scene *s, const struct box *slice, struct str *out);
/* Print "cpu[0, 1]", or the size of a large mesh; and "f32{4, 5}, axis 0 down, axis 1 across". */
void scene_place_text(const struct scene *s, struct str *out);
void scene_type_text(const struct scene *s, struct str *out);
/* Returns the colour of a rank, less than n. Neighbours along any mesh axis differ, because axes are often powers of
 * two. */
size_t scene_color(int32_t rank, size_t n);

/* Prints 96 B, 1.5 KiB, 32 MiB. */
void bytes_print(int64_t bytes, struct str *out);

/* The figures of a move's plan; without those of ranks if the meshes are too large to plan. */
struct move_text {
    const char *name;
    int64_t bytes;
    int nrank;
    const int32_t *rank;
    const int64_t *received;
    const char *refused;         /* why the move is impossible; NULL: possible */
    const struct box_plan *plan; /* NULL: too large, or refused */
};
void move_text_of(struct move_text *m, struct arena *a, const struct type *t, const struct layout *from,
                  const struct layout *to);

#endif
