/* paint.c - draws typed text in colours: a chunk of several lines, each with its prompt, followed by the signature
 * of the function called at the cursor.
 *
 * A picture consists of rows of text with colour codes, and the position of the cursor. A new picture is compared
 * with the previous one, and the rows that differ are written in one call; the cursor moves by whole rows only. If a
 * chunk has more rows than the terminal, the rows around the cursor are shown. When the terminal's width changes, the
 * terminal folds the rows anew. The chunk is then drawn again from its first row. */
#include "shell/repl/paint.h"
#include "shell/repl/token.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum style { PLAIN, WORD, TEXT, NUMBER, FAINT };
static const char *const marks[] = {"\033[m", "\033[35m", "\033[32m", "\033[36m", "\033[2m"};

/* ---- bytes ---- */

struct bytes {
    char *at;
    size_t n, capacity;
};

static void
append_bytes(struct bytes *b, const char *text, size_t n)
{
    if (b->n + n + 1 > b->capacity) {
        size_t capacity = 2 * b->capacity + n + 64;
        char *at = realloc(b->at, capacity);
        if (!at) return; /* out of memory: the picture stays incomplete */
        b->at = at;
        b->capacity = capacity;
    }
    memcpy(b->at + b->n, text, n);
    b->n += n;
    b->at[b->n] = 0;
}

static void
append_text(struct bytes *b, const char *text)
{
    append_bytes(b, text, strlen(text));
}

/* ---- a picture ---- */

struct row {
    struct bytes text;
    int width; /* width of the row, in columns */
};
struct picture {
    struct row *row;
    int n, capacity;
    int cursor_row, cursor_column;
    int columns;
};
static struct picture shown; /* rows on the terminal, from the row of the first prompt on */

static void
clear(struct picture *p)
{
    for (int k = 0; k < p->n; k++) free(p->row[k].text.at);
    free(p->row);
    memset(p, 0, sizeof *p);
}

static struct row *
new_row(struct picture *p)
{
    if (p->n == p->capacity) {
        int capacity = 2 * p->capacity + 8;
        struct row *all = realloc(p->row, (size_t)capacity * sizeof *all);
        if (!all) return p->n ? &p->row[p->n - 1] : NULL;
        p->row = all;
        p->capacity = capacity;
    }
    p->row[p->n] = (struct row){{0}, 0};
    return &p->row[p->n++];
}

struct brush {
    struct picture *p;
    struct row *row;
    enum style style;
};

static void
next_drawn_row(struct brush *b)
{
    if (b->style != PLAIN) append_text(&b->row->text, marks[PLAIN]);
    b->style = PLAIN;
    b->row = new_row(b->p);
}

static void
put_styled(struct brush *b, const char *text, size_t n, int width, enum style style)
{
    if (b->row->width + width > b->p->columns) next_drawn_row(b);
    if (style != b->style) {
        if (b->style != PLAIN) append_text(&b->row->text, marks[PLAIN]);
        if (style != PLAIN) append_text(&b->row->text, marks[style]);
    }
    b->style = style;
    append_bytes(&b->row->text, text, n);
    b->row->width += width;
}

/* Draws the character at `text`, of at most n bytes, and returns its size in bytes. Invalid and control characters
 * are drawn visibly. */
static size_t
put_character(struct brush *b, const char *text, size_t n, enum style style)
{
    mbstate_t state;
    wchar_t c;
    char seen[8];
    memset(&state, 0, sizeof state);
    size_t size = mbrtowc(&c, text, n, &state);
    if (size == (size_t)-1 || size == (size_t)-2 || size == 0) {
        put_styled(b, "?", 1, 1, style);
        return 1;
    }
    int width = wcwidth(c);
    if (*text == '\t') {
        for (int k = 8 - b->row->width % 8; k > 0; k--) put_styled(b, " ", 1, 1, style);
    } else if (width < 0) {
        seen[0] = '^';
        seen[1] = (unsigned char)*text < 32 ? (char)(*text + '@') : '?';
        put_styled(b, seen, 2, 2, style);
    } else {
        put_styled(b, text, size, width, style);
    }
    return size;
}

static void
put_styled_text(struct brush *b, const char *text, enum style style)
{
    for (size_t n = strlen(text); n;) {
        size_t size = put_character(b, text, n, style);
        text += size;
        n -= size;
    }
}

/* ---- colours ---- */

static void
fill_style(unsigned char *style, const char *text, const char *from, const char *to, enum style s)
{
    memset(style + (from - text), s, (size_t)(to - from));
}

/* Colours a comment: the text between two tokens, without leading blanks. */
static void
fill_comments(unsigned char *style, const char *text, const char *from, const char *to)
{
    while (from < to && strchr(" \t\n", *from)) from++;
    fill_style(style, text, from, to, FAINT);
}

/* Chooses a style for each byte. */
static void
colour(const char *text, size_t n, unsigned char *style)
{
    const char *at = text + strspn(text, " \t\n");
    struct token t;
    memset(style, PLAIN, n);
    /* a chunk that begins with ? or : is a command or asks for a help page, so it is not Lua */
    if (*at == '?' || (*at == ':' && at[1] != ':')) {
        const char *end = *at == '?' ? text + n : at + strcspn(at, " \t\n");
        fill_style(style, text, at, end, WORD);
        at = end;
    }
    for (; (t = token_next(at)).kind != T_END; at = token_after(&t)) {
        fill_comments(style, text, at, t.at);
        if (t.kind == T_STRING) fill_style(style, text, t.at, token_after(&t), TEXT);
        if (t.kind == T_NUMBER) fill_style(style, text, t.at, token_after(&t), NUMBER);
        if (token_is_keyword(&t)) fill_style(style, text, t.at, token_after(&t), WORD);
    }
    fill_comments(style, text, at, text + n);
}

/* ---- drawing ---- */

static void
put_hint(struct brush *b, const char *hint)
{
    enum { LEAST = 12 };
    int left = b->p->columns - b->row->width - 3;
    if (left < LEAST) return;
    put_styled_text(b, "  ", FAINT);
    for (const char *at = hint; *at && b->row->width < b->p->columns - 1; at++) {
        bool last = b->row->width == b->p->columns - 2 && at[1];
        /* copies bytes as characters, because the texts of help pages are ASCII */
        put_styled(b, last ? ">" : at, 1, 1, FAINT);
    }
}

static void
draw_picture(const struct paint *what, struct picture *p)
{
    size_t n = strlen(what->text);
    struct brush b = {.p = p, .row = new_row(p)};
    unsigned char *style = b.row ? malloc(n + 1) : NULL;
    p->columns = what->columns;
    if (!style) return;
    colour(what->text, n, style);
    put_styled_text(&b, what->prompt, PLAIN);
    for (size_t k = 0; k <= n;) {
        if ((int)k == what->cursor) {
            if (b.row->width == p->columns) next_drawn_row(&b);
            p->cursor_row = p->n - 1;
            p->cursor_column = b.row->width;
        }
        if (k == n) break;
        if (what->text[k] == '\n') {
            next_drawn_row(&b);
            put_styled_text(&b, what->more, FAINT);
            k++;
        } else {
            k += put_character(&b, what->text + k, n - k, (enum style)style[k]);
        }
    }
    if (what->hint) put_hint(&b, what->hint);
    if (b.style != PLAIN) append_text(&b.row->text, marks[PLAIN]);
    free(style);
}

/* Keeps only the rows around the cursor that fit the terminal. */
static void
crop(struct picture *p, int rows)
{
    if (p->n <= rows) return;
    int first = p->cursor_row - rows + 1 > 0 ? p->cursor_row - rows + 1 : 0;
    for (int k = 0; k < p->n; k++)
        if (k < first || k >= first + rows) free(p->row[k].text.at);
    memmove(p->row, p->row + first, (size_t)rows * sizeof *p->row);
    p->n = rows;
    p->cursor_row -= first;
}

/* ---- writing the picture to the terminal ---- */

static void
move_cursor(struct bytes *out, int from, int to)
{
    char up[16];
    if (to < from) {
        snprintf(up, sizeof up, "\033[%dA", from - to);
        append_text(out, up);
    }
    for (; from < to; from++) append_text(out, "\r\n"); /* a newline also creates rows that do not exist yet */
    append_text(out, "\r");
}

/* Clears the picture after a resize of the terminal. A narrower terminal has folded long rows into several, so this
 * counts the folded rows above the cursor, moves up to the first one, and clears everything below. */
static void
forget_folds(struct bytes *out, int columns)
{
    int above = 0;
    for (int k = 0; k < shown.cursor_row; k++)
        above += shown.row[k].width > columns ? (shown.row[k].width - 1) / columns + 1 : 1;
    above += shown.cursor_column / columns;
    move_cursor(out, above, 0);
    append_text(out, "\033[J");
    clear(&shown);
}

static const char *
row_string(const struct row *r)
{
    return r->text.at ? r->text.at : "";
}

static void
write_difference(struct bytes *out, const struct picture *p)
{
    int at = shown.cursor_row, n = p->n > shown.n ? p->n : shown.n;
    for (int k = 0; k < n; k++) {
        const char *now = k < p->n ? row_string(&p->row[k]) : "";
        if (k < shown.n && !strcmp(now, row_string(&shown.row[k]))) continue;
        move_cursor(out, at, k);
        /* the rest of the row is cleared first: after a full row, clearing would delete the last character */
        append_text(out, "\033[K");
        append_text(out, now);
        at = k;
    }
    move_cursor(out, at, p->cursor_row);
    if (p->cursor_column) {
        char right[16];
        snprintf(right, sizeof right, "\033[%dC", p->cursor_column);
        append_text(out, right);
    }
}

void
paint(FILE *to, const struct paint *what)
{
    struct picture p = {0};
    struct bytes out = {0};
    draw_picture(what, &p);
    crop(&p, what->rows);
    if (shown.n && shown.columns != what->columns) forget_folds(&out, what->columns);
    write_difference(&out, &p);
    fwrite(out.at, 1, out.n, to);
    fflush(to);
    free(out.at);
    clear(&shown);
    shown = p;
}

void
paint_forget(void)
{
    clear(&shown);
}
