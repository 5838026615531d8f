/* scene.h - what there is to draw of a layout, before anybody knows about characters or pixels. A scene belongs to who
 * made it, on one thread; it borrows layouts. */
#ifndef RILLE_BOXING_SCENE_H
#define RILLE_BOXING_SCENE_H

#include "boxing/box.h"
#include "boxing/grid.h"

enum {
    SHOWN = 8,       /* parts, addends, pages and bars that a picture shows one by one, at most */
    LABEL_RANKS = 6, /* ranks that a label names; of more it names four */
};

/* The indices of many to draw: all of them, or the first ones, a gap (-1) and the last. */
struct shown {
    int n;
    int index[SHOWN];
};
struct shown shown_of(int n, int most);

/* The cuts of a dimension: part i is at[i] <= k < at[i + 1]. A dimension that is not there has one part of size 1. */
struct parts {
    int n;
    int64_t *at;
};

struct scene {
    struct grid grid;
    int row, col; /* the dimensions downwards and across; -1: none */
    struct parts rows, cols;
    int npage; /* combinations of parts of the other dimensions with cuts */
    int npage_dim, page_dim[MAX_DIM];
    struct parts page[MAX_DIM];
    const char *between;         /* "+", "max" or "min" between addends */
    bool empty;                  /* no elements: nothing to draw */
    const struct box_plan *plan; /* the move that fills it, which tells its blocks apart; or NULL */
};

/* other: a layout beside it, so that both show the same dimensions; NULL: none. */
void scene_of(struct scene *s, struct arena *a, const struct type *t, const struct layout *l,
              const struct layout *other);
/* The mesh position of a tile of one sheet. */
int32_t scene_pos(const struct scene *s, int page, int row, int col, int addend, int replica);
/* The ranks that hold a tile of one addend: "0, 2, ..., 14". */
void scene_label(const struct scene *s, int page, int row, int col, int addend, struct str *out);
/* "[0:2, :, :]", nothing for the only page. */
void scene_page_text(const struct scene *s, int page, struct str *out);
/* The steps that fill the part at a mesh position; NULL where the scene has no move, or nothing moves. */
const struct box_work *scene_work(const struct scene *s, int32_t pos);
/* Where a slice lies along a drawn dimension, within the part from at[i] to at[i + 1]: shares of it, 0 to 1. */
void scene_within(const struct parts *p, int i, const struct box *slice, int dim, double *from, double *to);
/* "[0:2, :]" */
void scene_slice_text(const struct scene *s, const struct box *slice, struct str *out);
/* "cpu[0, 1]", of a large mesh its size; and "f32{4, 5}, axis 0 down, axis 1 across". */
void scene_place_text(const struct scene *s, struct str *out);
void scene_type_text(const struct scene *s, struct str *out);
/* The colour of a rank among n. Axes of meshes are often powers of two: neighbours along any get different ones. */
size_t scene_color(int32_t rank, size_t n);

/* 96 B, 1.5 KiB, 32 MiB. */
void bytes_print(int64_t bytes, struct str *out);

/* A move: its plan's numbers; for meshes too large to plan as a whole, without the ranks'. */
struct move_text {
    const char *name;
    int64_t bytes;
    int nrank;
    const int32_t *rank;
    const int64_t *received;
    const char *refused;         /* why no plan can make it, else NULL */
    const struct box_plan *plan; /* NULL: too large, or refused */
};
void move_text_of(struct move_text *m, struct arena *a, const struct type *t, const struct layout *from,
                  const struct layout *to);

#endif
