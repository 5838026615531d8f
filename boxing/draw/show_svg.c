/* show_svg.c - draws layouts and moves as SVG.
 *
 * The picture shows the same scene as in a terminal (scene.h). Each tile has the colour of the rank that holds it.
 * Replicas are drawn behind each other in the colours of their ranks, to show where a tile is stored. In the second
 * half of a move each block has the colours of its source ranks. Each colour stands for one rank. Colours are CSS
 * classes, so pictures adapt to a light or dark page. */
#include "boxing/draw/show_svg.h"
#include "boxing/draw/scene.h"

#include <stdio.h>
#include <string.h>

enum {
    MARGIN = 28,
    TICK_LEFT = 44,
    SHEET_WIDTH = 216,
    SHEET_HEIGHT = 150,
    LINE_HEIGHT = 44, /* height of a tile of a one-dimensional tensor, pixels */
    LEAST = 34,       /* smallest width and height of a tile, pixels */
    SHIFT = 11,       /* offset between stacked sheets, pixels */
    MAX_SHEET = 4,
    HEAD = 72,    /* height of the title and the two lines below, pixels */
    MIDDLE = 220, /* distance between the two halves of a move, pixels */
    BARS = 8,
};

static const char *const fill[] = {"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"};
static const char *const ink = "ink", *const faint = "faint";
static const char style[] =
    "<style>.page,.gap{fill:#fff}.ink{fill:#22304a}.faint{fill:#5f6b80}.bad{fill:#b3261e}.edge{stroke:#22304a}\n"
    ".r0{fill:#a5d3f2}.r1{fill:#ffc896}.r2{fill:#b9e4ae}.r3{fill:#f7b2c0}"
    ".r4{fill:#cfc0f2}.r5{fill:#ffe394}.r6{fill:#a3e2d8}.r7{fill:#e2cab0}\n"
    "@media "
    "(prefers-color-scheme:dark){.page,.gap{fill:#15181e}.ink{fill:#eef1f7}.faint{fill:#97a1b3}.bad{fill:#ff8a80}"
    ".edge{stroke:#97a1b3}\n"
    ".r0{fill:#2f6f9f}.r1{fill:#9a5f2b}.r2{fill:#41763a}.r3{fill:#96485a}"
    ".r4{fill:#645292}.r5{fill:#857023}.r6{fill:#2f776c}.r7{fill:#76583a}}</style>\n";

struct size {
    double w, h;
};

static void
text(struct str *s, double x, double y, const char *anchor, int size, const char *color, bool bold, const char *words)
{
    str_addf(s, "<text x='%.1f' y='%.1f' text-anchor='%s' font-size='%d' class='%s'%s>%s</text>\n", x, y, anchor, size,
             color, bold ? " font-weight='600'" : "", words);
}

static const char *
fill_of(int32_t rank)
{
    return fill[scene_color(rank, countof(fill))];
}

/* ---- one sheet ---- */

/* Positions of a dimension's parts, in pixels from the sheet's corner. */
struct edges {
    struct shown part;
    double edge[SHOWN + 1];
};

static void
set_svg_edges(struct edges *e, const struct parts *p, double capacity, double least)
{
    e->part = shown_of(p->n, 6);
    for (int k = 0; k < e->part.n; k++) {
        int i = e->part.index[k];
        double size = i < 0 ? LEAST : (double)(p->at[i + 1] - p->at[i]) * capacity / (double)p->at[p->n];
        e->edge[k + 1] = e->edge[k] + MAX(size, i < 0 ? LEAST : least);
    }
}

/* Returns the width of the longest possible label, pixels. */
static double
label_width(const struct scene *s)
{
    const struct place *p = s->grid.layout->place;
    int64_t most = 0;
    int digits = 1;
    for (int i = 0; i < p->nrank; i++) most = MAX(most, p->rank[i]);
    for (; most > 9; most /= 10) digits++;
    return LEAST + (MIN(s->grid.nreplica, LABEL_RANKS) - 1) * (digits * 8.0 + 10) + digits * 8.0 - 8;
}

static void
measure_svg(const struct scene *s, struct edges *cols, struct edges *rows)
{
    *cols = *rows = (struct edges){.edge = {0}};
    set_svg_edges(cols, &s->cols, s->grid.naddend > 2 ? SHEET_WIDTH / 2 : SHEET_WIDTH, label_width(s));
    set_svg_edges(rows, &s->rows, s->row < 0 ? LINE_HEIGHT : SHEET_HEIGHT, LEAST);
}

static double
extent(const struct edges *e)
{
    return e->edge[e->part.n];
}

/* Draws one block of a tile, with one stripe per source rank. */
static void
draw_block(struct str *s, const struct box_step *step, double x, double y, double w, double h)
{
    enum { STRIPE = 9 };
    int n = step->nsource, stripes = n > 1 ? MAX(n, (int)(w / STRIPE) / n * n) : 1;
    for (int k = 0; k < stripes && n > 0; k++)
        str_addf(s, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' class='%s'/>\n", x + w * k / stripes, y,
                 w / stripes, h, fill_of(step->source[k % n].rank));
}

/* Draws the rectangle of a tile, and the blocks that fill it. */
static void
draw_tile(struct str *s, const struct scene *sc, int row, int col, int32_t pos, double x, double y, double w, double h)
{
    const struct box_work *work = scene_work(sc, pos);
    for (int k = 0; work && k < work->nstep; k++) {
        double left, right, top, bottom;
        scene_within(&sc->cols, col, work->step[k].slice, sc->col, &left, &right);
        scene_within(&sc->rows, row, work->step[k].slice, sc->row, &top, &bottom);
        draw_block(s, &work->step[k], x + left * w, y + top * h, (right - left) * w, (bottom - top) * h);
    }
    str_addf(s, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' ", x, y, w, h);
    if (work)
        str_add(s, "class='edge' fill='none'/>\n");
    else
        str_addf(s, "class='edge %s'/>\n", fill_of(grid_rank(&sc->grid, pos)));
}

/* Draws the tiles of one replica. */
static void
draw_sheet(struct str *s, const struct scene *sc, const struct edges *cols, const struct edges *rows, int page,
           int addend, int replica, double x, double y)
{
    for (int i = 0; i < rows->part.n; i++)
        for (int j = 0; j < cols->part.n; j++) {
            int row = rows->part.index[i], col = cols->part.index[j];
            double left = x + cols->edge[j], top = y + rows->edge[i], w = cols->edge[j + 1] - cols->edge[j],
                   h = rows->edge[i + 1] - rows->edge[i];
            if (row >= 0 && col >= 0)
                draw_tile(s, sc, row, col, scene_pos(sc, page, row, col, addend, replica), left, top, w, h);
            else
                str_addf(s, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' class='edge gap'/>\n", left, top, w, h);
        }
}

static void
draw_svg_labels(struct str *s, const struct scene *sc, const struct edges *cols, const struct edges *rows, int page,
                int addend, double x, double y)
{
    struct str label = {0};
    for (int i = 0; i < rows->part.n; i++)
        for (int j = 0; j < cols->part.n; j++) {
            int row = rows->part.index[i], col = cols->part.index[j];
            str_clear(&label);
            if (row >= 0 && col >= 0)
                scene_label(sc, page, row, col, addend, &label);
            else
                str_add(&label, "&#8943;");
            text(s, x + (cols->edge[j] + cols->edge[j + 1]) / 2, y + (rows->edge[i] + rows->edge[i + 1]) / 2 + 5,
                 "middle", 15, row >= 0 && col >= 0 ? ink : faint, false, str_text(&label));
        }
    str_free(&label);
}

/* Prints the positions of cuts, but omits a number that would touch the previous number. */
static void
draw_svg_ticks(struct str *s, const struct scene *sc, const struct edges *cols, const struct edges *rows, double x,
               double y)
{
    char number[24];
    double last = -100;
    for (int k = 0; k <= cols->part.n && sc->col >= 0; k++) {
        int i = k < cols->part.n ? cols->part.index[k] : sc->cols.n;
        snprintf(number, sizeof number, "%lld", (long long)(i < 0 ? 0 : sc->cols.at[i]));
        double half = 4.0 * (double)strlen(number);
        if (i < 0 || cols->edge[k] - half < last + 4) continue;
        last = cols->edge[k] + half;
        text(s, x + cols->edge[k], y + extent(rows) + 17, "middle", 12, faint, false, number);
    }
    for (int k = 0; k <= rows->part.n && sc->row >= 0; k++) {
        int i = k < rows->part.n ? rows->part.index[k] : sc->rows.n;
        if (i < 0) continue;
        snprintf(number, sizeof number, "%lld", (long long)sc->rows.at[i]);
        text(s, x - 8, y + rows->edge[k] + 4, "end", 12, faint, false, number);
    }
}

/* ---- draw stacks, pages and layouts ---- */

/* Draws the sheets of one addend; the first replica is in front. */
static void
draw_stack(struct str *s, const struct scene *sc, const struct edges *cols, const struct edges *rows, int page,
           int addend, double x, double y)
{
    int depth = MIN(sc->grid.nreplica, MAX_SHEET) - 1;
    for (int sheet = depth; sheet >= 0; sheet--) {
        str_add(s, "<g stroke-width='1.1' stroke-linejoin='round'>\n");
        draw_sheet(s, sc, cols, rows, page, addend, sheet, x + sheet * SHIFT, y + (depth - sheet) * SHIFT);
        str_add(s, "</g>\n");
    }
    draw_svg_labels(s, sc, cols, rows, page, addend, x, y + depth * SHIFT);
}

/* Returns the width of the word between two stacks, pixels, which is the distance between the stacks. */
static double
gap_of(const struct scene *s)
{
    return strlen(s->between) > 1 ? 56 : 36;
}

static struct size
draw_svg_page(struct str *s, const struct scene *sc, int page, double x, double y)
{
    struct edges cols, rows;
    struct shown addend = shown_of(sc->grid.naddend, 4);
    measure_svg(sc, &cols, &rows);
    double depth = (MIN(sc->grid.nreplica, MAX_SHEET) - 1) * SHIFT, left = x;
    x += TICK_LEFT;
    draw_svg_ticks(s, sc, &cols, &rows, x, y + depth);
    for (int k = 0; k < addend.n; k++) {
        double middle = y + depth + extent(&rows) / 2 + 6;
        if (k > 0) {
            text(s, x + gap_of(sc) / 2, middle, "middle", strlen(sc->between) > 1 ? 15 : 22, ink, true, sc->between);
            x += gap_of(sc);
        }
        if (addend.index[k] < 0) {
            text(s, x + 14, middle, "middle", 18, faint, false, "&#8943;");
            x += 28;
            continue;
        }
        draw_stack(s, sc, &cols, &rows, page, addend.index[k], x, y);
        x += extent(&cols) + depth;
    }
    return (struct size){x - left, depth + extent(&rows) + 26};
}

/* Prints layout, placement and type, one line each. Returns the size of the text. */
static struct size
draw_title(struct str *s, const struct scene *sc, double x, double y)
{
    struct str line = {0};
    struct size size = {0, HEAD};
    layout_print(sc->grid.layout, &line);
    text(s, x, y + 16, "start", 18, ink, true, str_text(&line));
    size.w = (double)line.len * 10.2;
    str_clear(&line);
    str_add(&line, "on ");
    scene_place_text(sc, &line);
    text(s, x, y + 37, "start", 13, ink, false, str_text(&line));
    size.w = MAX(size.w, (double)line.len * 7.2);
    str_clear(&line);
    scene_type_text(sc, &line);
    text(s, x, y + 55, "start", 12, faint, false, str_text(&line));
    size.w = MAX(size.w, (double)line.len * 6.8);
    str_free(&line);
    return size;
}

static struct size
draw_svg_scene(struct str *s, const struct scene *sc, double x, double y)
{
    struct str title = {0};
    struct size all = draw_title(s, sc, x, y);
    struct shown pages = shown_of(sc->empty ? 0 : sc->npage, 4);
    for (int k = 0; k < pages.n; k++) {
        str_clear(&title);
        if (pages.index[k] < 0)
            str_add(&title, "&#8942;");
        else
            scene_page_text(sc, pages.index[k], &title);
        if (title.len) {
            text(s, x + TICK_LEFT, y + all.h + 12, "start", 13, ink, false, str_text(&title));
            all.h += 24;
        }
        if (pages.index[k] < 0) continue;
        struct size page = draw_svg_page(s, sc, pages.index[k], x, y + all.h);
        all.h += page.h + 8;
        all.w = MAX(all.w, page.w);
    }
    str_free(&title);
    return all;
}

/* ---- documents ---- */

static void
title_of(const struct scene *sc, struct str *out)
{
    layout_print(sc->grid.layout, out);
    str_add(out, " on ");
    scene_place_text(sc, out);
}

static void
document(struct str *s, struct size size, const char *title, const struct str *body)
{
    str_addf(s,
             "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 %.0f %.0f' "
             "font-family='DejaVu Sans, Verdana, Helvetica, Arial, sans-serif'>\n",
             size.w, size.h, size.w, size.h);
    str_addf(s, "<title>%s</title>\n%s<rect width='100%%' height='100%%' class='page'/>\n", title, style);
    str_add(s, str_text(body));
    str_add(s, "</svg>\n");
}

void
box_show_svg(const struct type *t, const struct layout *l, struct str *s)
{
    struct arena a = {0};
    struct str body = {0}, title = {0};
    struct scene scene;
    scene_of(&scene, &a, t, l, NULL);
    struct size size = draw_svg_scene(&body, &scene, MARGIN, MARGIN);
    title_of(&scene, &title);
    document(s, (struct size){size.w + 2 * MARGIN, size.h + 2 * MARGIN}, str_text(&title), &body);
    str_free(&title);
    str_free(&body);
    arena_fini(&a);
}

/* Draws one bar per rank for the bytes that it receives. Returns the y coordinate below the drawing. */
static double
draw_bars(struct str *s, const struct move_text *m, double x, double y)
{
    int64_t most = 1;
    struct shown who = shown_of(m->nrank, BARS);
    struct str words = {0};
    for (int i = 0; i < m->nrank; i++) most = MAX(most, m->received[i]);
    text(s, x, y, "start", 12, faint, false, "received by rank");
    for (int k = 0; k < who.n; k++) {
        int i = who.index[k];
        y += 19;
        if (i < 0) {
            text(s, x + 10, y + 11, "middle", 12, faint, false, "&#8942;");
            continue;
        }
        double length = 74.0 * (double)m->received[i] / (double)most;
        str_clear(&words);
        str_addf(&words, "%d", m->rank[i]);
        text(s, x + 20, y + 11, "end", 12, ink, false, str_text(&words));
        str_clear(&words);
        if (m->received[i] > 0) {
            str_addf(s,
                     "<rect x='%.1f' y='%.1f' width='%.1f' height='13' rx='2' class='edge %s' stroke-width='0.8'/>\n",
                     x + 27, y, MAX(length, 1.5), fill_of(m->rank[i]));
            bytes_print(m->received[i], &words);
        } else {
            str_add(&words, "nothing");
            length = -4;
        }
        text(s, x + 34 + length, y + 11, "start", 12, faint, false, str_text(&words));
    }
    str_free(&words);
    return y + 19;
}

/* Draws the arrow with the move's name and bytes, and the bars below it. Returns the y coordinate below. */
static double
draw_arrow(struct str *s, const struct move_text *m, double x, double y)
{
    double end = x + MIDDLE - 40;
    struct str words = {0};
    text(s, (x + end) / 2, y - 16, "middle", 16, m->refused ? "bad" : ink, true, m->refused ? "refused" : m->name);
    str_addf(s,
             "<path d='M %.1f %.1f H %.1f m -9 -7 l 9 7 l -9 7' fill='none' class='edge' stroke-width='2.4' "
             "stroke-linecap='round' stroke-linejoin='round'/>\n",
             x, y, end);
    if (m->refused) {
        text(s, (x + end) / 2, y + 24, "middle", 12, faint, false, "another kind of partial");
        return y + 40;
    }
    if (m->bytes > 0) bytes_print(m->bytes, &words);
    text(s, (x + end) / 2, y + 24, "middle", 13, ink, false, m->bytes > 0 ? str_text(&words) : "nothing is sent");
    if (m->bytes > 0) text(s, (x + end) / 2, y + 41, "middle", 12, faint, false, "the least possible");
    str_free(&words);
    return m->bytes > 0 && m->nrank > 0 ? draw_bars(s, m, x + 14, y + 72) : y + 48;
}

/* Returns the legend that explains the colours in the second half of a move. */
static const char *
origin_words(const struct box_plan *p)
{
    if (p->nstage) return "coloured by the rank that reduced it";
    for (int32_t i = 0; i < p->npart; i++)
        for (int k = 0; k < p->part[i].nstep; k++)
            if (p->part[i].step[k].nsource > 1) return "coloured by the ranks whose addends it combines";
    return "coloured by the rank that sent it";
}

void
box_show_move_svg(const struct type *t, const struct layout *from, const struct layout *to, struct str *s)
{
    struct arena a = {0};
    struct str body = {0}, title = {0};
    struct scene left, right;
    struct move_text m;
    move_text_of(&m, &a, t, from, to);
    scene_of(&left, &a, t, from, to);
    scene_of(&right, &a, t, to, from);
    right.plan = m.plan;
    struct size l = draw_svg_scene(&body, &left, MARGIN, MARGIN);
    double x = MARGIN + l.w + 20, arrow = MARGIN + HEAD + (left.row < 0 ? 26 : 62);
    double below = draw_arrow(&body, &m, x, arrow);
    struct size r = draw_svg_scene(&body, &right, x + MIDDLE - 20, MARGIN);
    double height = MAX(MAX(l.h, r.h) + MARGIN, below);
    double width = x + MIDDLE - 20 + r.w + MARGIN;
    if (scene_work(&right, 0)) {
        const char *words = origin_words(m.plan);
        text(&body, x + MIDDLE - 20, MARGIN + r.h + 12, "start", 12, faint, false, words);
        width = MAX(width, x + MIDDLE + 7 * (double)strlen(words));
        height = MAX(height, MARGIN + r.h + 24);
    }
    str_addf(&title, "%s: ", m.name);
    title_of(&left, &title);
    str_add(&title, " to ");
    title_of(&right, &title);
    document(s, (struct size){width, height + MARGIN / 2.0}, str_text(&title), &body);
    str_free(&title);
    str_free(&body);
    arena_fini(&a);
}
