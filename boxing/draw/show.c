/* show.c - draws layouts and moves with characters.
 *
 * The functions paint a canvas of characters from back to front, so that the front sheets of a stack hide the sheets
 * behind them. Then they print the canvas line by line. Tiles have sizes in proportion to their share of the tensor,
 * but at least the size of their label. */
#include "boxing/draw/show.h"

#include "boxing/draw/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 220,
    HEIGHT = 120,
    SHEET_WIDTH = 24, /* width of a sheet if there is space, characters */
    SHEET_HEIGHT = 5,
    MAX_SHEET = 3,
    PARTS = 4,  /* maximum number of destination shards whose blocks are listed with their source ranks */
    BLOCKS = 4, /* maximum numbers of listed blocks of a shard, and of listed source ranks of a block */
};

struct cell {
    char glyph[4]; /* a UTF-8 character, NUL-terminated; empty: blank */
    /* ANSI colour number (of 256); 0: none. FAINT is the colour of the character itself. Any other number is the
     * colour of its background, and the character is black */
    uint8_t color;
};

struct canvas {
    struct cell cell[HEIGHT][WIDTH];
    int width, height; /* size of the painted area, characters */
    int columns;       /* width to fit into, if possible, characters */
};

enum { FAINT = 245 };

/* Background colours on which black text is readable, on light and dark terminals. */
static const uint8_t palette[] = {117, 222, 157, 218, 183, 229, 116, 187};
static const char on_ground[] = "\033[30;48;5;%dm";
static void
paint_glyph(struct canvas *c, int x, int y, const char *glyph, uint8_t color)
{
    if (x < 0 || y < 0 || x >= WIDTH || y >= HEIGHT) return;
    snprintf(c->cell[y][x].glyph, sizeof c->cell[y][x].glyph, "%s", glyph);
    c->cell[y][x].color = color;
    c->width = MAX(c->width, x + 1);
    c->height = MAX(c->height, y + 1);
}

static void
paint_text(struct canvas *c, int x, int y, const char *text, uint8_t color)
{
    for (int i = 0; text[i]; i++) paint_glyph(c, x + i, y, (const char[]){text[i], 0}, color);
}

static void
canvas_print(const struct canvas *c, bool color, struct str *s)
{
    for (int y = 0; y < c->height; y++) {
        int end = c->width, now = 0;
        while (end > 0 && (!c->cell[y][end - 1].glyph[0] || c->cell[y][end - 1].glyph[0] == ' ')) end--;
        for (int x = 0; x < end; x++) {
            const struct cell *k = &c->cell[y][x];
            if (color && k->color != now) {
                if (now) str_add(s, "\033[0m");
                if (k->color) str_addf(s, k->color == FAINT ? "\033[38;5;%dm" : on_ground, k->color);
                now = k->color;
            }
            str_add(s, k->glyph[0] ? k->glyph : " ");
        }
        str_add(s, now ? "\033[0m\n" : "\n");
    }
}

/* ---- one sheet ---- */

/* Positions of the n + 1 lines that bound the parts of a dimension, in characters from the sheet's corner. */
struct edges {
    struct shown part;
    int edge[SHOWN + 1];
};

static void
set_text_edges(struct edges *e, const struct parts *p, int space, const int *least)
{
    e->part = shown_of(p->n, 6);
    int64_t whole = p->at[p->n];
    for (int k = 0; k < e->part.n; k++) {
        int i = e->part.index[k];
        int size = i < 0 ? 1 : (int)((p->at[i + 1] - p->at[i]) * space / whole);
        e->edge[k + 1] = e->edge[k] + 1 + MAX(size, least[k]);
    }
}

/* Returns the box-drawing character that has a line to the left, to the right, up or down, wherever the argument of
 * that name is true. */
static const char *
joint(bool left, bool right, bool up, bool down)
{
    static const char *const glyph[16] = {" ", "│", "│", "│", "─", "┌", "└", "├",
                                          "─", "┐", "┘", "┤", "─", "┬", "┴", "┼"};
    return glyph[left << 3 | right << 2 | up << 1 | down];
}

static bool
is_edge(const struct edges *e, int at)
{
    for (int k = 0; k <= e->part.n; k++)
        if (e->edge[k] == at) return true;
    return false;
}

static void
draw_lines(struct canvas *c, const struct edges *cols, const struct edges *rows, int x0, int y0)
{
    int w = cols->edge[cols->part.n], h = rows->edge[rows->part.n];
    for (int y = 0; y <= h; y++)
        for (int x = 0; x <= w; x++) {
            bool across = is_edge(rows, y), down = is_edge(cols, x);
            const char *glyph = across && down ? joint(x > 0, x<w, y> 0, y < h) : across ? "─" : down ? "│" : " ";
            paint_glyph(c, x0 + x, y0 + y, glyph, 0);
        }
}

static void
draw_text_labels(struct canvas *c, const struct scene *s, const struct edges *cols, const struct edges *rows, int page,
                 int addend, int x0, int y0)
{
    struct str label = {0};
    for (int i = 0; i < rows->part.n; i++)
        for (int j = 0; j < cols->part.n; j++) {
            int row = rows->part.index[i], col = cols->part.index[j];
            uint8_t color = 0;
            str_clear(&label);
            if (row < 0 || col < 0) {
                str_add(&label, row < 0 && col < 0 ? "" : "...");
            } else {
                scene_label(s, page, row, col, addend, &label);
                int32_t rank = grid_rank(&s->grid, scene_pos(s, page, row, col, addend, 0));
                color = palette[scene_color(rank, countof(palette))];
            }
            int w = cols->edge[j + 1] - cols->edge[j] - 1, h = rows->edge[i + 1] - rows->edge[i] - 1;
            int left = x0 + cols->edge[j] + 1, top = y0 + rows->edge[i] + 1;
            for (int k = 0; k < w * h; k++) paint_glyph(c, left + k % w, top + k / w, " ", color);
            paint_text(c, left + (w - (int)label.len) / 2, top + (h - 1) / 2, str_text(&label), color);
        }
    str_free(&label);
}

/* ---- draw stacks and pages ---- */

/* Gives each tile a size in proportion to its share of `space`, but at least the size of its label. */
static void
measure_text(const struct scene *s, int space, struct edges *cols, struct edges *rows)
{
    struct str label = {0};
    int width[SHOWN] = {0}, height[SHOWN];
    struct shown col = shown_of(s->cols.n, 6), row = shown_of(s->rows.n, 6), addend = shown_of(s->grid.naddend, 4);
    for (int j = 0; j < col.n; j++) {
        width[j] = 3;
        for (int i = 0; i < row.n * addend.n; i++) {
            int r = row.index[i % row.n], a = addend.index[i / row.n];
            if (col.index[j] < 0 || r < 0 || a < 0) continue;
            str_clear(&label);
            scene_label(s, 0, r, col.index[j], a, &label);
            width[j] = MAX(width[j], (int)label.len + 2);
        }
    }
    for (int i = 0; i < SHOWN; i++) height[i] = 1;
    set_text_edges(cols, &s->cols, space, width);
    set_text_edges(rows, &s->rows, s->row < 0 ? 1 : SHEET_HEIGHT, height);
    str_free(&label);
}

/* Prints the positions of cuts, below and to the left of the first stack. */
static void
draw_text_ticks(struct canvas *c, const struct scene *s, const struct edges *cols, const struct edges *rows, int x0,
                int y0)
{
    char text[24];
    int bottom = y0 + rows->edge[rows->part.n] + 1;
    for (int k = 0; k <= cols->part.n && s->col >= 0; k++) {
        int i = k < cols->part.n ? cols->part.index[k] : s->cols.n;
        if (i < 0) continue;
        snprintf(text, sizeof text, "%lld", (long long)s->cols.at[i]);
        paint_text(c, x0 + cols->edge[k] - (int)strlen(text) / 2, bottom, text, FAINT);
    }
    for (int k = 0; k <= rows->part.n && s->row >= 0; k++) {
        int i = k < rows->part.n ? rows->part.index[k] : s->rows.n;
        if (i < 0) continue;
        snprintf(text, sizeof text, "%lld", (long long)s->rows.at[i]);
        paint_text(c, x0 - 1 - (int)strlen(text), y0 + rows->edge[k], text, FAINT);
    }
}

/* Draws one page at (x, y): its stacks, with a plus between them. Returns the first free line below. */
static int
draw_text_page(struct canvas *c, const struct scene *s, int page, int x, int y)
{
    static const char *const gap = "...";
    struct edges cols = {.edge = {0}}, rows = {.edge = {0}};
    struct shown addend = shown_of(s->grid.naddend, 4);
    int depth = MIN(s->grid.nreplica, MAX_SHEET) - 1;
    measure_text(s, addend.n > 3 ? SHEET_WIDTH / 2 : SHEET_WIDTH, &cols, &rows);
    if (7 + addend.n * (cols.edge[cols.part.n] + 2 * depth + 4) > c->columns) {
        addend = shown_of(s->grid.naddend, 3);
        cols = rows = (struct edges){.edge = {0}};
        measure_text(s, MIN(SHEET_WIDTH, MAX(1, (c->columns - 8) / addend.n - 2 * depth - 5)), &cols, &rows);
    }
    int w = cols.edge[cols.part.n], h = rows.edge[rows.part.n];
    x += 7;
    draw_text_ticks(c, s, &cols, &rows, x, y + depth);
    for (int k = 0; k < addend.n; k++) {
        if (k > 0) {
            paint_text(c, x + 1, y + depth + h / 2, s->between, 0);
            x += (int)strlen(s->between) + 2;
        }
        if (addend.index[k] < 0) {
            paint_text(c, x, y + depth + h / 2, gap, 0);
            x += (int)strlen(gap);
            continue;
        }
        for (int sheet = depth; sheet >= 0; sheet--) draw_lines(c, &cols, &rows, x + 2 * sheet, y + depth - sheet);
        draw_text_labels(c, s, &cols, &rows, page, addend.index[k], x, y + depth);
        x += w + 1 + 2 * depth;
    }
    return y + depth + h + 2;
}

/* Draws a layout with its top left corner at column x and line y. Returns the first free line below. */
static int
draw_text_scene(struct canvas *c, const struct scene *s, int x, int y)
{
    struct str title = {0};
    layout_print(s->grid.layout, &title);
    str_add(&title, " on ");
    scene_place_text(s, &title);
    paint_text(c, x, y++, str_text(&title), 0);
    str_clear(&title);
    scene_type_text(s, &title);
    paint_text(c, x, y++, str_text(&title), FAINT);
    struct shown pages = shown_of(s->empty ? 0 : s->npage, 4);
    for (int k = 0; k < pages.n; k++) {
        str_clear(&title);
        if (pages.index[k] < 0)
            str_add(&title, "...");
        else
            scene_page_text(s, pages.index[k], &title);
        if (title.len) paint_text(c, x + 2, y++, str_text(&title), 0);
        if (pages.index[k] >= 0) y = draw_text_page(c, s, pages.index[k], x, y);
    }
    str_free(&title);
    return y;
}

void
box_show_text(const struct type *t, const struct layout *l, int columns, bool color, struct str *s)
{
    struct arena a = {0};
    struct scene scene;
    struct canvas *c = must_alloc(sizeof *c);
    c->columns = columns;
    scene_of(&scene, &a, t, l, NULL);
    draw_text_scene(c, &scene, 0, 0);
    canvas_print(c, color, s);
    free(c);
    arena_fini(&a);
}

/* ---- moves ---- */

/* Prints text in lines that fit the columns, and indents continuation lines. */
struct words {
    struct str *s;
    int columns, at; /* columns: maximum characters per line; at: number of characters in the current line */
};

/* Returns the number of visible characters. Text is ASCII; escape sequences, which end in 'm', do not count. */
static int
seen(const char *text)
{
    int n = 0;
    for (; *text; text++) {
        if (*text == '\033')
            while (*text != 'm') text++;
        else
            n++;
    }
    return n;
}

static void
put_word(struct words *w, const char *word)
{
    enum { INDENT = 4 };
    int n = seen(word);
    if (w->at > INDENT && w->at + 1 + n > w->columns) {
        str_addf(w->s, "\n%*s", INDENT, "");
        w->at = INDENT;
    } else if (w->at) {
        str_add(w->s, " ");
        w->at++;
    }
    str_add(w->s, word);
    w->at += n;
}

static void
end_line(struct words *w)
{
    str_add(w->s, "\n");
    w->at = 0;
}

/* Prints a block and the ranks that it comes from: "[0:2, :] of 0 + 1". */
static void
print_scene_step(const struct scene *sc, const struct box_step *step, bool color, struct str *s)
{
    scene_slice_text(sc, step->slice, s);
    str_add(s, step->nsource ? " of " : " is empty");
    for (int i = 0; i < MIN(step->nsource, BLOCKS); i++) {
        int32_t rank = step->source[i].rank;
        str_add(s, i ? " + " : "");
        if (color) str_addf(s, on_ground, palette[scene_color(rank, countof(palette))]);
        str_addf(s, "%d%s", (int)rank, color ? "\033[0m" : "");
    }
    if (step->nsource > BLOCKS) str_add(s, " + ...");
}

/* Prints the sources of the first shards: "rank 2: [0:2, :] of 0, [2:4, :] of 1". */
static void
print_origins(const struct scene *sc, bool color, struct words *w)
{
    const struct place *to = sc->grid.layout->place;
    struct str word = {0};
    for (int32_t pos = 0; pos < MIN(to->nrank, PARTS); pos++) {
        const struct box_work *work = scene_work(sc, pos);
        if (!work || work->nstep == 0) continue;
        str_clear(&word);
        str_addf(&word, "  rank %d:", (int)to->rank[pos]);
        put_word(w, str_text(&word));
        for (int k = 0; k < MIN(work->nstep, BLOCKS); k++) {
            str_clear(&word);
            print_scene_step(sc, &work->step[k], color, &word);
            str_add(&word, k + 1 < work->nstep ? "," : "");
            put_word(w, str_text(&word));
        }
        if (work->nstep > BLOCKS) put_word(w, "...");
        end_line(w);
    }
    if (to->nrank > PARTS && scene_work(sc, 0)) put_word(w, "  ..."), end_line(w);
    str_free(&word);
}

/* Prints the ranks, from index i on, that receive as many bytes as rank i: "0-2, 5". */
static void
print_alike(const struct move_text *m, int i, struct str *s)
{
    int n = 0, runs = 0;
    for (int k = i; k < m->nrank; k++) {
        int first = k;
        if (m->received[k] != m->received[i]) continue;
        while (k + 1 < m->nrank && m->received[k + 1] == m->received[i] && m->rank[k + 1] == m->rank[k] + 1) k++;
        n += k - first + 1;
        if (runs++ < SHOWN) str_addf(s, "%s%d", runs > 1 ? ", " : "", m->rank[first]);
        if (runs <= SHOWN && k > first) str_addf(s, "-%d", m->rank[k]);
    }
    if (runs > SHOWN) str_addf(s, ", ... (%d ranks)", n);
}

/* Prints the bytes that ranks receive, "ranks 0-2 receive 96 B each", one line per amount. */
static void
print_move_received(const struct move_text *m, struct words *w)
{
    struct str word = {0};
    for (int i = 0; i < m->nrank; i++) {
        bool before = false, others = false;
        for (int k = 0; k < i; k++) before |= m->received[k] == m->received[i];
        for (int k = i + 1; k < m->nrank; k++) others |= m->received[k] == m->received[i];
        if (before || m->received[i] == 0) continue;
        str_clear(&word);
        str_add(&word, others ? "  ranks " : "  rank ");
        print_alike(m, i, &word);
        put_word(w, str_text(&word));
        str_clear(&word);
        str_add(&word, others ? "receive " : "receives ");
        bytes_print(m->received[i], &word);
        str_add(&word, others ? " each" : "");
        put_word(w, str_text(&word));
        end_line(w);
    }
    str_free(&word);
}

static void
put_words(struct words *w, const char *text)
{
    struct str word = {0};
    while (*text) {
        size_t n = strcspn(text, " ");
        str_clear(&word);
        str_addn(&word, text, n);
        put_word(w, str_text(&word));
        text += n + (text[n] == ' ');
    }
    str_free(&word);
}

static void
print_move_head(const struct move_text *m, struct words *w)
{
    struct str word = {0};
    if (m->refused) {
        put_words(w, m->refused);
    } else {
        str_addf(&word, "%s: ", m->name);
        if (m->bytes > 0) bytes_print(m->bytes, &word);
        str_add(&word, m->bytes > 0 ? " in total," : "nothing is sent");
        put_word(w, str_text(&word));
        if (m->bytes > 0) put_word(w, "the least possible");
    }
    end_line(w);
    str_free(&word);
}

void
box_show_move_text(const struct type *t, const struct layout *from, const struct layout *to, int columns, bool color,
                   struct str *s)
{
    struct arena a = {0};
    struct scene left, right;
    struct move_text m;
    struct words words = {s, columns, 0};
    struct canvas *c = must_alloc(sizeof *c), *second = must_alloc(sizeof *second);
    c->columns = second->columns = columns;
    move_text_of(&m, &a, t, from, to);
    scene_of(&left, &a, t, from, to);
    scene_of(&right, &a, t, to, from);
    int below = draw_text_scene(c, &left, 0, 0), middle = c->width + 3;
    draw_text_scene(second, &right, 0, 0);
    bool beside = middle + 6 + second->width <= columns;
    paint_text(c, beside ? middle : 2, beside ? MAX(below / 2, 2) : below, m.refused ? "=/=" : "==>", 0);
    draw_text_scene(c, &right, beside ? middle + 6 : 0, beside ? 0 : below + 1);
    print_move_head(&m, &words);
    canvas_print(c, color, s);
    right.plan = m.plan;
    print_origins(&right, color, &words);
    print_move_received(&m, &words);
    free(c);
    free(second);
    arena_fini(&a);
}
