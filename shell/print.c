/* print.c - a tensor as text.
 *
 *   f32 {4, 6} S(1) on cpu[2, 3]
 *     0.1234 -1.2000 ...
 *
 * First what it is, then its rows, numbers in columns. More than two dimensions are printed as matrices, each under its
 * leading positions. A large tensor shows the first and last EDGE entries of each axis, and only those are read. */
#include "shell/shell.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 1000, EDGE = 3, CELL = 48 };

struct table {
    const struct value_kind *kind;
    int ndim;
    int64_t shape[RILLE_DIMS]; /* of what is shown */
    int64_t full[RILLE_DIMS];  /* of the tensor */
    const char *data;
    bool science, point; /* reals: 1.2e+05; with a fraction */
    int width;
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
        snprintf(out, CELL, "%" PRId64, t->kind->whole(at));
}

/* ---- the form of all numbers ---- */

/* As PyTorch chooses: whole numbers without a fraction, 4 digits otherwise, powers of ten when the sizes differ by more
 * than a thousand or are far from one. */
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
add_row(luaL_Buffer *b, const struct table *t, const char *row)
{
    char text[CELL], cell[2 * CELL];
    int last = t->ndim - 1;
    luaL_addstring(b, "\n ");
    for (int64_t k = 0; k < t->shape[last]; k++) {
        if (k == EDGE && elided(t, last)) luaL_addstring(b, " ...");
        cell_text(t, row + k * t->kind->bytes, text);
        snprintf(cell, sizeof cell, " %*s", t->width, text);
        luaL_addstring(b, cell);
    }
}

/* Do these positions stand behind some that are left out? */
static bool
after_gap(const struct table *t, const int64_t *index)
{
    for (int axis = t->ndim - 3; axis >= 0; axis--) {
        if (index[axis] == EDGE && elided(t, axis)) return true;
        if (index[axis]) return false;
    }
    return false;
}

/* "[0, 5]" above a matrix. position counts in the whole tensor. */
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
add_matrix(luaL_Buffer *b, const struct table *t, const char *data)
{
    int64_t rows = t->shape[t->ndim - 2], row_bytes = t->shape[t->ndim - 1] * t->kind->bytes;
    for (int64_t r = 0; r < rows; r++) {
        if (r == EDGE && elided(t, t->ndim - 2)) luaL_addstring(b, "\n  ...");
        add_row(b, t, data + r * row_bytes);
    }
}

/* Steps the leading positions; false after the last. */
static bool
step(const struct table *t, int64_t *index)
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
        add_row(b, t, t->data);
    else if (t->ndim == 2)
        add_matrix(b, t, t->data);
    else {
        int64_t index[RILLE_DIMS] = {0};
        int64_t bytes = t->shape[t->ndim - 1] * t->shape[t->ndim - 2] * t->kind->bytes;
        const char *data = t->data;
        do {
            add_heading(b, t, index);
            add_matrix(b, t, data);
            data += bytes;
        } while (step(t, index));
    }
}

/* ---- the head ---- */

void
print_head(lua_State *L, luaL_Buffer *b, struct rille_tensor *t)
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

/* ---- what is shown ---- */

/* Replaces the tensor at the top by its first and last entries along an axis. */
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

/* Argument: the tensor. Gives the tensor that is shown, and its bytes. */
static int
read_shown(lua_State *L)
{
    struct rille_tensor *t = tensor_test(L, 1);
    bool large = rille_tensor_numel(t) > LARGE;
    for (int axis = 0; large && axis < rille_tensor_ndim(t); axis++)
        if (rille_tensor_shape(t)[axis] > 2 * EDGE) cut_edges(L, axis);
    t = tensor_test(L, -1);
    size_t bytes = (size_t)rille_tensor_numel(t) * rille_dtype_bytes(rille_tensor_dtype(t));
    void *data = room_new(L, "tostring", bytes);
    at_line(L);
    check(L, rille_tensor_read(t, data));
    return 2;
}

/* Reads what is shown, without gradients; leaves the two results of read_shown, or false and the reason. */
static bool
read_quietly(lua_State *L, int i)
{
    struct rille_session *s = shell_of(L)->session;
    bool mode = rille_grad_mode(s, false);
    lua_pushcfunction(L, read_shown);
    lua_pushvalue(L, i);
    int code = lua_pcall(L, 1, 2, 0);
    rille_grad_mode(s, mode);
    if (code) lua_pushnil(L);
    return code == LUA_OK;
}

/* The tensor is at index 1 of the stack, as __tostring gets it. */
void
print_tensor(lua_State *L, struct rille_tensor *t)
{
    luaL_Buffer b;
    struct table table = {.kind = value_kind(rille_tensor_dtype(t)), .ndim = rille_tensor_ndim(t)};
    bool good = read_quietly(L, 1);
    int shown = lua_gettop(L) - 1;
    luaL_buffinit(L, &b);
    print_head(L, &b, t);
    if (!good) {
        luaL_addstring(&b, "\n  no values: ");
        luaL_addstring(&b, lua_tostring(L, shown));
    } else if (rille_tensor_numel(t) > 0) {
        int64_t n = rille_tensor_numel(tensor_test(L, shown));
        memcpy(table.full, rille_tensor_shape(t), (size_t)table.ndim * sizeof *table.full);
        memcpy(table.shape, rille_tensor_shape(tensor_test(L, shown)), (size_t)table.ndim * sizeof *table.shape);
        table.data = lua_touserdata(L, shown + 1);
        if (table.kind->real) choose_form(&table, n);
        choose_width(&table, n);
        add_values(&b, &table);
    }
    luaL_pushresult(&b);
}
