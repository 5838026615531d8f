/* print.c - prints a tensor as text.
 *
 *   f32 {4, 6} S(1) on cpu[2, 3]
 *     0.1234 -1.2000 ...
 *
 * The first line describes the tensor; its rows follow, with numbers in columns. A tensor of more than two
 * dimensions is printed as matrices, each under its leading positions. Of a large tensor, only the first and last
 * EDGE entries of each axis are read (from the devices that own them) and printed. If rows are wider than the
 * terminal, middle columns are omitted; a vector is folded. */
#include "shell/bind/tensor/print.h"
#include "shell/bind/base/fold.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/base/value.h"
#include "shell/bind/tensor/lua_op.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 1000, EDGE = 3, CELL = 48 };

struct table {
    const struct value_kind *kind;
    int ndim;
    int64_t shape[RILLE_DIMS]; /* sizes of the printed part, elements */
    int64_t full[RILLE_DIMS];  /* sizes of the whole tensor, elements */
    const char *data;
    /* science: true: floats are printed with powers of ten (1.2e+05). point: true: with digits after the point. */
    bool science, point;
    int width;
    int64_t columns; /* number of columns that fit a line */
};

/* ---- one number ---- */

static void
real_text(const struct table *t, double v, char *out)
{
    if (isnan(v))
        strcpy(out, "nan");
    else if (isinf(v))
        strcpy(out, v < 0 ? "-inf" : "inf");
    else if (t->science)
        snprintf(out, CELL, "%.4e", v);
    else if (t->point)
        snprintf(out, CELL, "%.4f", v);
    else
        snprintf(out, CELL, "%.0f.", v);
}

static void
cell_text(const struct table *t, const char *at, char *out)
{
    if (t->kind->real)
        real_text(t, t->kind->real(at), out);
    else if (!strcmp(t->kind->name, "bool"))
        strcpy(out, *at ? "true" : "false");
    else
        snprintf(out, CELL, "%" PRId64, t->kind->integer(at));
}

/* ---- choosing one format for all numbers ---- */

/* Chooses the format as PyTorch does. If all values are integers, prints no fraction, else 4 digits. Uses powers
 * of ten if magnitudes differ by more than a factor of 1000, or are far from 1. */
static void
choose_form(struct table *t, int64_t n)
{
    double least = INFINITY, most = 0;
    bool fraction = false;
    for (int64_t i = 0; i < n; i++) {
        double v = fabs(t->kind->real(t->data + i * t->kind->bytes));
        if (!isfinite(v)) continue;
        if (v != floor(v)) fraction = true;
        if (v > 0 && v < least) least = v;
        if (v > most) most = v;
    }
    t->point = fraction;
    t->science = most > 1e8 || (fraction && (most / least > 1000 || least < 1e-4));
}

static void
choose_width(struct table *t, int64_t n)
{
    char text[CELL];
    for (int64_t i = 0; i < n; i++) {
        cell_text(t, t->data + i * t->kind->bytes, text);
        int width = (int)strlen(text);
        if (width > t->width) t->width = width;
    }
}

/* ---- rows ---- */

static bool
elided(const struct table *t, int axis)
{
    return t->shape[axis] < t->full[axis];
}

static void
add_cell(luaL_Buffer *b, const struct table *t, const char *at)
{
    char text[CELL], cell[2 * CELL];
    cell_text(t, at, text);
    snprintf(cell, sizeof cell, " %*s", t->width, text);
    luaL_addstring(b, cell);
}

/* Prints a row. Prints "..." in the middle of the row if the tensor's middle columns were not read or the terminal
 * is too narrow for all columns. */
static void
add_row(luaL_Buffer *b, const struct table *t, const char *row)
{
    int last = t->ndim - 1;
    int64_t n = t->shape[last], head = n, tail = n;
    if (elided(t, last)) head = EDGE, tail = EDGE;
    if (n > t->columns) head = t->columns - t->columns / 2, tail = n - t->columns / 2;
    if (elided(t, last)) head = head < EDGE ? head : EDGE, tail = tail > EDGE ? tail : EDGE;
    luaL_addstring(b, "\n ");
    for (int64_t k = 0; k < n; k++) {
        if (k >= head && k < tail) continue;
        if (k == tail && (tail > head || elided(t, last))) luaL_addstring(b, " ...");
        add_cell(b, t, row + k * t->kind->bytes);
    }
    if (tail >= n && n > head) luaL_addstring(b, " ...");
}

static void
add_vector(luaL_Buffer *b, const struct table *t)
{
    for (int64_t k = 0; k < t->shape[0]; k++) {
        if (k % t->columns == 0) luaL_addstring(b, "\n ");
        if (k == EDGE && elided(t, 0)) luaL_addstring(b, " ...");
        add_cell(b, t, t->data + k * t->kind->bytes);
    }
}

/* Returns true if the positions directly before these indices are omitted from the printed text. */
static bool
after_gap(const struct table *t, const int64_t *index)
{
    for (int axis = t->ndim - 3; axis >= 0; axis--) {
        if (index[axis] == EDGE && elided(t, axis)) return true;
        if (index[axis]) return false;
    }
    return false;
}

/* Prints the heading of a matrix, "[0, 5]"; the numbers are positions in the whole tensor. */
static void
add_heading(luaL_Buffer *b, const struct table *t, const int64_t *index)
{
    char text[32];
    if (after_gap(t, index)) luaL_addstring(b, "\n ...");
    luaL_addstring(b, "\n [");
    for (int axis = 0; axis < t->ndim - 2; axis++) {
        bool behind = elided(t, axis) && index[axis] >= EDGE;
        int64_t position = behind ? index[axis] + t->full[axis] - t->shape[axis] : index[axis];
        snprintf(text, sizeof text, "%s%" PRId64, axis ? ", " : "", position);
        luaL_addstring(b, text);
    }
    luaL_addstring(b, "]");
}

static void
format_matrix(luaL_Buffer *b, const struct table *t, const char *data)
{
    int64_t rows = t->shape[t->ndim - 2], row_bytes = t->shape[t->ndim - 1] * t->kind->bytes;
    for (int64_t r = 0; r < rows; r++) {
        if (r == EDGE && elided(t, t->ndim - 2)) luaL_addstring(b, "\n  ...");
        add_row(b, t, data + r * row_bytes);
    }
}

/* Advances the positions on all axes except the last two to the next matrix. Returns false after the last matrix. */
static bool
next_index(const struct table *t, int64_t *index)
{
    for (int axis = t->ndim - 3; axis >= 0; axis--) {
        if (++index[axis] < t->shape[axis]) return true;
        index[axis] = 0;
    }
    return false;
}

static void
add_values(luaL_Buffer *b, const struct table *t)
{
    char text[CELL];
    if (t->ndim == 0) {
        cell_text(t, t->data, text);
        luaL_addstring(b, "\n  ");
        luaL_addstring(b, text);
    } else if (t->ndim == 1)
        add_vector(b, t);
    else if (t->ndim == 2)
        format_matrix(b, t, t->data);
    else {
        int64_t index[RILLE_DIMS] = {0};
        int64_t bytes = t->shape[t->ndim - 1] * t->shape[t->ndim - 2] * t->kind->bytes;
        const char *data = t->data;
        do {
            add_heading(b, t, index);
            format_matrix(b, t, data);
            data += bytes;
        } while (next_index(t, index));
    }
}

/* ---- the head ---- */

static void
print_tensor_head(lua_State *L, luaL_Buffer *b, struct rille_tensor *t)
{
    char text[32];
    const struct rille_layout *l = rille_tensor_layout(t);
    char *place = rille_place_text(rille_layout_place(l));
    if (rille_tensor_name(t)) {
        luaL_addstring(b, rille_tensor_name(t));
        luaL_addstring(b, ": ");
    }
    luaL_addstring(b, rille_tensor_dtype(t));
    luaL_addstring(b, " {");
    for (int axis = 0; axis < rille_tensor_ndim(t); axis++) {
        snprintf(text, sizeof text, "%s%" PRId64, axis ? ", " : "", rille_tensor_shape(t)[axis]);
        luaL_addstring(b, text);
    }
    luaL_addstring(b, "} ");
    luaL_addstring(b, rille_layout_text(shell_of(L)->session, l));
    luaL_addstring(b, " on ");
    luaL_addstring(b, place);
    free(place);
    if (rille_tensor_requires_grad(t))
        luaL_addstring(b, rille_tensor_is_leaf(t) ? ", requires_grad" : ", with gradient");
}

/* ---- choosing, reading and printing the entries that are shown ---- */

static void
choose_shown(struct table *t, struct rille_tensor *x)
{
    bool large = rille_tensor_numel(x) > LARGE;
    for (int axis = 0; axis < t->ndim; axis++) {
        t->full[axis] = rille_tensor_shape(x)[axis];
        t->shape[axis] = large && t->full[axis] > 2 * EDGE ? 2 * EDGE : t->full[axis];
    }
}

static int64_t
numel(int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int axis = 0; axis < ndim; axis++) n *= shape[axis];
    return n;
}

/* Copies a dense corner of the given sizes to its place in the printed part. A corner contains the first or last
 * entries of each axis. */
static void
place_corner(const struct table *t, int axis, const int64_t *at, const int64_t *size, const char **from, char *to)
{
    int64_t stride = numel(t->ndim - axis - 1, t->shape + axis + 1) * t->kind->bytes;
    if (axis == t->ndim) {
        memcpy(to, *from, (size_t)t->kind->bytes);
        *from += t->kind->bytes;
        return;
    }
    for (int64_t k = 0; k < size[axis]; k++) place_corner(t, axis + 1, at, size, from, to + (at[axis] + k) * stride);
}

/* Reads a corner of the printed part: the first or the last entries of each axis that has omitted entries, and all
 * entries of the other axes. */
static int
read_corner(struct table *t, struct rille_tensor *x, unsigned corner, char *part, char *out)
{
    int64_t start[RILLE_DIMS], stop[RILLE_DIMS], at[RILLE_DIMS], size[RILLE_DIMS];
    const char *from = part;
    for (int axis = 0; axis < t->ndim; axis++) {
        bool cut = elided(t, axis), behind = corner >> axis & 1;
        if (behind && !cut) return 0;
        size[axis] = cut ? EDGE : t->full[axis];
        start[axis] = behind ? t->full[axis] - EDGE : 0;
        stop[axis] = start[axis] + size[axis];
        at[axis] = behind ? EDGE : 0;
    }
    int code = rille_tensor_read_part(x, start, stop, part);
    if (!code) place_corner(t, 0, at, size, &from, out);
    return code;
}

/* Lua function with two arguments, a tensor and its struct table: returns the bytes of the printed part as a
 * string. */
static int
read_shown(lua_State *L)
{
    struct rille_tensor *x = tensor_test(L, 1);
    struct table *t = lua_touserdata(L, 2);
    size_t bytes = (size_t)numel(t->ndim, t->shape) * (size_t)t->kind->bytes;
    char *part = scratch_new(L, "tostring", bytes), *out = scratch_new(L, "tostring", bytes);
    at_line(L);
    for (unsigned corner = 0; corner < 1u << t->ndim; corner++) check(L, read_corner(t, x, corner, part, out));
    return 1;
}

/* Replaces the tensor at the top of the stack by its first and last entries along an axis. */
static void
cut_edges(lua_State *L, int axis)
{
    struct rille_tensor *t = tensor_test(L, -1);
    int64_t size = rille_tensor_shape(t)[axis], start[2] = {0, size - EDGE};
    struct rille_arg part[2], whole = {.kind = RILLE_ARG_TENSOR, .tensor = t};
    for (int k = 0; k < 2; k++) {
        struct rille_attr attrs[] = {{.name = "axis", .kind = RILLE_INT, .i = axis},
                                     {.name = "start", .kind = RILLE_INT, .i = start[k]},
                                     {.name = "stop", .kind = RILLE_INT, .i = start[k] + EDGE}};
        part[k] = (struct rille_arg){.kind = RILLE_ARG_TENSOR};
        part[k].tensor = op_apply(L, "slice", 1, &whole, 3, attrs);
    }
    struct rille_attr attr = {.name = "axis", .kind = RILLE_INT, .i = axis};
    op_apply(L, "concat", 2, part, 1, &attr);
    lua_replace(L, -4);
    lua_pop(L, 2);
}

/* Like read_shown(), for a tensor too large for host memory: computes only the entries that are printed. */
static int
compute_shown(lua_State *L)
{
    struct table *t = lua_touserdata(L, 2);
    size_t bytes = (size_t)numel(t->ndim, t->shape) * (size_t)t->kind->bytes;
    lua_pushvalue(L, 1);
    for (int axis = 0; axis < t->ndim; axis++)
        if (elided(t, axis)) cut_edges(L, axis);
    struct rille_tensor *x = tensor_test(L, -1);
    void *out = scratch_new(L, "tostring", bytes);
    at_line(L);
    check(L, rille_tensor_read(x, out));
    return 1;
}

/* Pushes the bytes of the printed part. On failure pushes the error and returns false. */
static bool
read_quietly(lua_State *L, int i, struct table *t)
{
    static const lua_CFunction ways[] = {read_shown, compute_shown};
    struct rille_session *s = shell_of(L)->session;
    for (int k = 0;; k++) {
        bool mode = rille_grad_mode(s, false);
        lua_pushcfunction(L, ways[k]);
        lua_pushvalue(L, i);
        lua_pushlightuserdata(L, t);
        int code = lua_pcall(L, 2, 1, 0);
        rille_grad_mode(s, mode);
        if (!code || k || strcmp(rille_error_kind(), "out of memory")) return code == LUA_OK;
        lua_pop(L, 1);
    }
}

/* Prints ", 2 nan, 1 inf", counted over the printed values. */
static void
add_strange(luaL_Buffer *b, const struct table *t, int64_t n)
{
    int nans = 0, infs = 0;
    char text[64];
    for (int64_t i = 0; t->kind->real && i < n; i++) {
        double v = t->kind->real(t->data + i * t->kind->bytes);
        nans += isnan(v) != 0;
        infs += isinf(v) != 0;
    }
    if (nans) snprintf(text, sizeof text, ", %d nan", nans), luaL_addstring(b, text);
    if (infs) snprintf(text, sizeof text, ", %d inf", infs), luaL_addstring(b, text);
}

static void
add_table(luaL_Buffer *b, struct table *t, int64_t n)
{
    enum { MARGIN = 1, GAP = 4 };
    if (t->kind->real) choose_form(t, n);
    choose_width(t, n);
    int64_t width = print_columns() - MARGIN, fit = width / (t->width + 1);
    if (t->ndim > 1 && t->shape[t->ndim - 1] > fit) fit = (width - GAP) / (t->width + 1);
    t->columns = fit < 1 ? 1 : fit;
    add_values(b, t);
}

/* Pushes the text of a tensor, which must be at stack index 1, as in __tostring. */
void
print_tensor(lua_State *L, struct rille_tensor *x)
{
    luaL_Buffer b;
    struct table t = {.kind = value_kind(rille_tensor_dtype(x)), .ndim = rille_tensor_ndim(x)};
    choose_shown(&t, x);
    int64_t n = numel(t.ndim, t.shape);
    bool good = read_quietly(L, 1, &t), partial;
    int shown = lua_gettop(L);
    t.data = lua_touserdata(L, shown);
    partial = strchr(rille_layout_text(shell_of(L)->session, rille_tensor_layout(x)), 'P');
    luaL_buffinit(L, &b);
    print_tensor_head(L, &b, x);
    if (good && partial) luaL_addstring(&b, ", reduced for display");
    if (good) add_strange(&b, &t, n);
    luaL_pushresult(&b);
    fold_push(L, lua_tostring(L, -1));
    const char *head = lua_tostring(L, -1);
    luaL_buffinit(L, &b);
    luaL_addstring(&b, head);
    if (!good) {
        luaL_addstring(&b, "\n  no values: ");
        luaL_addstring(&b, lua_tostring(L, shown));
    } else if (n > 0)
        add_table(&b, &t, n);
    luaL_pushresult(&b);
}

/* ---- printing a tensor in one line, with its values if they are few ---- */

/* Prints the entries of an axis in nested braces; *at: the next value. */
static void
add_nested(luaL_Buffer *b, const struct table *t, int axis, int64_t *at)
{
    char text[CELL];
    if (axis == t->ndim) {
        cell_text(t, t->data + (*at)++ * t->kind->bytes, text);
        luaL_addstring(b, text);
        return;
    }
    luaL_addchar(b, '{');
    for (int64_t k = 0; k < t->shape[axis]; k++) {
        if (k) luaL_addstring(b, ", ");
        add_nested(b, t, axis + 1, at);
    }
    luaL_addchar(b, '}');
}

void
print_line(lua_State *L, int i)
{
    enum { FEW = 8 };
    struct rille_tensor *x = tensor_test(L, i);
    struct table t = {.kind = value_kind(rille_tensor_dtype(x)), .ndim = rille_tensor_ndim(x)};
    int64_t n = rille_tensor_numel(x), at = 0;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    print_tensor_head(L, &b, x);
    luaL_pushresult(&b);
    if (n == 0 || n > FEW) return;
    choose_shown(&t, x);
    if (!read_quietly(L, i, &t)) {
        lua_pop(L, 1);
        return;
    }
    t.data = lua_touserdata(L, -1);
    if (t.kind->real) choose_form(&t, n);
    luaL_buffinit(L, &b);
    luaL_addstring(&b, ": ");
    add_nested(&b, &t, 0, &at);
    luaL_pushresult(&b);
    lua_remove(L, -2); /* removes the values that read_quietly() pushed */
    lua_concat(L, 2);
}
