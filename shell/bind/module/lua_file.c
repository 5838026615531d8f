/* lua_file.c - reads and writes tensors in files: rille.load, rille.save, and primitives for the checkpoint modules in
 * Lua.
 *
 * One save may run in the background (struct shell's saving). The next function that reads or writes files, and the
 * end of the program, wait for the save first and raise its error. */
#include "shell/bind/module/lua_file.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/tensor/lua_create.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Expands the path at i in place (rille_path), and returns it. */
static const char *
path_expanded(lua_State *L, int i, const char *who, bool reads)
{
    if (lua_type(L, i) != LUA_TSTRING) complain(L, "%s: expected the name of a file, found %s", who, what_is(L, i));
    char *path = rille_path(text_at(L, i, who), reads);
    lua_pushstring(L, path);
    free(path);
    lua_replace(L, i);
    return lua_tostring(L, i);
}

static const char *
path_check(lua_State *L, int i, const char *who)
{
    return path_expanded(L, i, who, true);
}

/* rille._path(path[, writes]): returns the path of a file to read or write, with "~" and names of cached models
 * expanded. */
static int
lua_path(lua_State *L)
{
    lua_settop(L, 2);
    path_expanded(L, 1, "path", !lua_toboolean(L, 2));
    lua_pushvalue(L, 1);
    return 1;
}

/* rille._kind(path): returns "file" for a regular file, "folder", or "other" for a pipe, socket or device. Returns nil
 * and the reason if the path does not exist or cannot be reached. Opening a pipe would wait for its writer. */
static int
path_kind(lua_State *L)
{
    struct stat st;
    const char *path = path_check(L, 1, "kind");
    if (stat(path, &st)) {
        lua_pushnil(L);
        lua_pushfstring(L, "%s: %s", path, strerror(errno));
        return 2;
    }
    lua_pushstring(L, S_ISREG(st.st_mode) ? "file" : S_ISDIR(st.st_mode) ? "folder" : "other");
    return 1;
}

void
files_finish(lua_State *L)
{
    struct shell *sh = shell_of(L);
    if (sh->saving) check_as(L, "save", rille_saving_end(&sh->saving));
}

/* ---- open files: userdata, so that Lua's collector closes a file that an error leaves open ---- */

static int
file_gc(lua_State *L)
{
    struct rille_file **x = kind_test(L, 1, KIND_FILE);
    if (x) rille_file_close(x);
    return 0;
}

/* Opens a file and pushes its userdata. */
static struct rille_file *
file_push(lua_State *L, const char *who, const char *path, const char *format)
{
    struct rille_file **f = kind_new(L, KIND_FILE, sizeof(struct rille_file *));
    files_finish(L);
    at_line(L);
    check_as(L, who, rille_file_open(shell_of(L)->session, path, format, f));
    return *f;
}

/* Returns an integer field of the table at i; if the field is absent, returns `other`. */
static int64_t
integer_field(lua_State *L, int i, const char *key, int64_t other)
{
    lua_getfield(L, i, key);
    int64_t n = luaL_optinteger(L, -1, other);
    lua_pop(L, 1);
    return n;
}

/* Opens a file, like file_push. The value at i is the file's format, or nil; for a file with quantised weights, it
 * is a table {method =, bits =, group =, rows =, columns =, minus_one =} (rille_file_dequantise). */
static struct rille_file *
file_push_as(lua_State *L, const char *who, const char *path, int i)
{
    if (!lua_istable(L, i)) return file_push(L, who, path, luaL_optstring(L, i, NULL));
    struct rille_file *f = file_push(L, who, path, NULL);
    struct rille_quantisation q = {
        .bits = (int)integer_field(L, i, "bits", 0),
        .group = integer_field(L, i, "group", -1),
        .rows = integer_field(L, i, "rows", 0),
        .columns = integer_field(L, i, "columns", 0),
    };
    lua_getfield(L, i, "minus_one");
    q.minus_one = lua_toboolean(L, -1);
    lua_getfield(L, i, "method");
    q.method = luaL_checkstring(L, -1);
    check_as(L, who, rille_file_dequantise(f, &q));
    lua_pop(L, 2);
    return f;
}

/* ---- loading ---- */

/* Returns the layout for a tensor of the file, from the fields placement and sbp of the options at `i`; either field
 * may be a function of the tensor's name. ndim: dimensions of the tensor. Sets *planned if sbp is "auto". */
static const struct rille_layout *
entry_layout(lua_State *L, int i, const char *who, const struct rille_file_entry *e, bool *planned)
{
    static const char *const keys[] = {"placement", "sbp"};
    if (lua_isnoneornil(L, i)) return NULL;
    lua_createtable(L, 0, 2);
    for (int k = 0; k < 2; k++) {
        if (lua_getfield(L, i, keys[k]) == LUA_TFUNCTION) {
            lua_pushstring(L, e->name);
            lua_call(L, 1, 1);
        }
        lua_setfield(L, -2, keys[k]);
    }
    int at = lua_gettop(L);
    *planned = layout_auto(L, at);
    if (e->name[0]) who = lua_pushfstring(L, "%s: '%s'", who, e->name);
    return layout_read(L, at, who, e->ndim, NULL);
}

/* Pushes the file's tensor k, loaded in the layout given by the options at i. */
static void
entry_load(lua_State *L, struct rille_file *f, int k, int i, const char *who)
{
    struct rille_file_entry e;
    const char *dtype = NULL;
    bool planned = false;
    int top = lua_gettop(L);
    rille_file_entry(f, k, &e);
    const struct rille_layout *layout = entry_layout(L, i, who, &e, &planned);
    if (!lua_isnoneornil(L, i)) {
        int type = lua_getfield(L, i, "dtype");
        if (type == LUA_TFUNCTION) {
            lua_pushstring(L, e.name);
            lua_call(L, 1, 1);
            type = lua_type(L, -1);
        }
        if (type != LUA_TNIL && type != LUA_TSTRING)
            complain(L, "%s: dtype must be a string, found %s", who, what_is(L, -1));
        dtype = type == LUA_TNIL ? NULL : text_at(L, -1, who);
    }
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check_as(L, who, rille_file_load(f, k, dtype, layout, slot));
    if (planned) check(L, rille_tensor_auto(*slot, true));
    lua_insert(L, top + 1);
    lua_settop(L, top + 1);
}

/* Returns the index of the file's tensor of this name. If the file has no such tensor, raises an error that lists
 * the first names in the file. */
static int
entry_find(lua_State *L, struct rille_file *f, const char *path, const char *name, const char *who)
{
    enum { NAMED = 8 };
    struct rille_file_entry e;
    int at = rille_file_find(f, name);
    if (at >= 0) return at;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (int k = 0; k <= NAMED && rille_file_entry(f, k, &e); k++) {
        if (k) luaL_addstring(&b, ", ");
        luaL_addstring(&b, k == NAMED ? "..." : e.name[0] ? e.name : "a tensor without a name");
    }
    luaL_pushresult(&b);
    return complain(L, "%s: %s: no tensor named '%s'; it has: %s", who, path, name, lua_tostring(L, -1));
}

/* Pops the list of names at the top of the stack, and loads the file's tensors of these names into the table below
 * the list. */
static void
load_names(lua_State *L, struct rille_file *f, const char *path, int i, const char *who)
{
    int list = lua_gettop(L), n = (int)lua_rawlen(L, list);
    for (int k = 1; k <= n; k++) {
        if (lua_rawgeti(L, list, k) != LUA_TSTRING)
            complain(L, "%s: names must be a list of strings, found %s", who, what_is(L, -1));
        const char *name = text_at(L, -1, who);
        int at = entry_find(L, f, path, name, who);
        entry_load(L, f, at, i, who);
        lua_rawset(L, list - 1);
    }
    lua_pop(L, 1);
}

/* Pushes a table of the tensors listed in the option `names`, or of all tensors. If the file has a single unnamed
 * tensor, pushes that tensor. */
static int
file_load_all(lua_State *L, struct rille_file *f, const char *path, int i, const char *who)
{
    struct rille_file_entry e, more;
    lua_newtable(L);
    if (!lua_isnoneornil(L, i)) {
        int type = lua_getfield(L, i, "names");
        if (type == LUA_TTABLE) {
            load_names(L, f, path, i, who);
            return 1;
        }
        if (type != LUA_TNIL) complain(L, "%s: names must be a list of strings, found %s", who, what_is(L, -1));
        lua_pop(L, 1);
    }
    if (rille_file_entry(f, 0, &e) && !e.name[0] && !rille_file_entry(f, 1, &more)) {
        entry_load(L, f, 0, i, who);
        return 1;
    }
    for (int k = 0; rille_file_entry(f, k, &e); k++) {
        lua_pushstring(L, e.name);
        entry_load(L, f, k, i, who);
        lua_rawset(L, -3);
    }
    return 1;
}

static void
load_options(lua_State *L, int i, const char *who)
{
    static const char *const keys[] = {"placement", "sbp", "dtype", "names", NULL};
    if (lua_isnoneornil(L, i)) return;
    if (!lua_istable(L, i)) complain(L, "%s: options must be a table, found %s", who, what_is(L, i));
    check_keys(L, i, who, keys);
}

/* rille.load(path[, options]): returns the file's tensors by name, or its only tensor. */
static int
file_load(lua_State *L)
{
    const char *path = path_check(L, 1, "load");
    lua_settop(L, 2);
    load_options(L, 2, "load");
    return file_load_all(L, file_push(L, "load", path, NULL), path, 2, "load");
}

/* rille._load(path, format, options): like rille.load, for a file whose name does not show its format. */
static int
load_format(lua_State *L)
{
    const char *path = path_check(L, 1, "load"), *format = luaL_optstring(L, 2, NULL);
    lua_settop(L, 3);
    load_options(L, 3, "load");
    return file_load_all(L, file_push(L, "load", path, format), path, 3, "load");
}

/* Reads a list of n integers, one per axis, from field `key` of the row at `i`. */
static void
axes_read(lua_State *L, int i, const char *key, int n, int64_t *out)
{
    luaL_argcheck(L, lua_getfield(L, i, key) == LUA_TTABLE, i, key);
    for (int k = 0; k < n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, -1, k + 1);
        out[k] = luaL_checkinteger(L, -1);
    }
    lua_pop(L, 1);
}

/* Pushes a tensor: the part (window) of a tensor of the file that the row at i describes (rille._windows). */
static void
window_load(lua_State *L, struct rille_file *f, const char *path, int i, const char *who)
{
    struct rille_file_entry e;
    lua_getfield(L, i, "name");
    const char *name = text_at(L, -1, who);
    int at = entry_find(L, f, path, name, who);
    rille_file_entry(f, at, &e);
    int64_t *from = scratch_new(L, who, sizeof *from * 2 * (size_t)(e.ndim + 1)), *to = from + e.ndim;
    axes_read(L, i, "from", e.ndim, from);
    axes_read(L, i, "to", e.ndim, to);
    lua_getfield(L, i, "skip");
    int skip = (int)luaL_checkinteger(L, -1);
    const struct rille_layout *layout =
        layout_read(L, i, lua_pushfstring(L, "%s: '%s'", who, name), e.ndim - skip, NULL);
    lua_getfield(L, i, "dtype");
    const char *dtype = lua_isnil(L, -1) ? NULL : text_at(L, -1, who);
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check_as(L, who, rille_file_load_window(f, at, from, to, skip, dtype, layout, slot));
}

/* rille._windows(who, path, format, rows, made): loads parts of the file's tensors, and calls made(k, tensor) with
 * the tensor for row k of the list `rows`. A row is {name =, from =, to =, skip =, dtype =, placement =, sbp =}: it
 * selects positions from[axis] to to[axis] on each axis of the tensor `name`, drops the first `skip` axes, and casts
 * floats to `dtype`. */
static int
load_windows(lua_State *L)
{
    const char *who = luaL_checkstring(L, 1), *path = path_check(L, 2, who);
    luaL_checktype(L, 4, LUA_TTABLE);
    luaL_checktype(L, 5, LUA_TFUNCTION);
    lua_settop(L, 5);
    struct rille_file *f = file_push_as(L, who, path, 3);
    int n = (int)lua_rawlen(L, 4), top = lua_gettop(L);
    for (int k = 1; k <= n; k++, lua_settop(L, top)) {
        lua_rawgeti(L, 4, k);
        window_load(L, f, path, lua_gettop(L), who);
        lua_pushvalue(L, 5);
        lua_pushinteger(L, k);
        lua_pushvalue(L, -3);
        lua_call(L, 2, 0);
    }
    return 0;
}

struct list_push { /* state of pushing a list to a Lua table */
    lua_State *L;
    int n;
};

static void
push_list_value(void *arg, const char *text, size_t n, bool number)
{
    struct list_push *p = arg;
    if (!number)
        lua_pushlstring(p->L, text, n);
    else if (!lua_stringtonumber(p->L, text))
        lua_pushboolean(p->L, text[0] == 't');
    lua_rawseti(p->L, -2, ++p->n);
}

/* rille._file_list(who, path, key): returns a list in the metadata of a .gguf file. */
static int
file_list(lua_State *L)
{
    const char *who = luaL_checkstring(L, 1), *path = path_check(L, 2, who), *key = luaL_checkstring(L, 3);
    struct rille_file *f = file_push(L, who, path, "gguf");
    lua_newtable(L);
    check_as(L, who, rille_file_list(f, key, push_list_value, &(struct list_push){L, 0}));
    return 1;
}

/* rille._contents(path[, format[, who]]): returns a list of {name =, dtype =, shape =, stored =} sorted by name, and
 * a table of the file's metadata. stored: name of the dtype in the file, if loading converts it. who: function name
 * in errors. */
static int
contents(lua_State *L)
{
    const char *who = luaL_optstring(L, 3, "contents"), *path = path_check(L, 1, who), *key, *value;
    struct rille_file_entry e;
    struct rille_file *f = file_push_as(L, who, path, 2);
    lua_newtable(L);
    for (int k = 0; rille_file_entry(f, k, &e); k++) {
        lua_createtable(L, 0, 3);
        field_text(L, "name", e.name);
        field_text(L, "dtype", e.dtype);
        if (e.stored) field_text(L, "stored", e.stored);
        push_shape(L, e.ndim, e.shape);
        lua_setfield(L, -2, "shape");
        lua_rawseti(L, -2, k + 1);
    }
    lua_newtable(L);
    for (int k = 0; rille_file_text(f, k, &key, &value); k++) field_text(L, key, value);
    return 2;
}

typedef int load_fn(struct rille_session *s, const char *path, const struct rille_layout *layout,
                    struct rille_tensor **out);

/* Pushes the tensor of the file whose path is argument 1. Argument 2: options, as for functions that create tensors. */
static int
load_one(lua_State *L, const char *who, load_fn *load)
{
    const char *path = path_check(L, 1, who);
    struct options o;
    lua_settop(L, 2);
    options_read(L, 2, who, -1, &o);
    if (o.dtype) complain(L, "%s: the file determines the dtype; call :to(\"%s\") on the result", who, o.dtype);
    files_finish(L);
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check_as(L, who, load(shell_of(L)->session, path, o.layout, slot));
    options_apply(L, who, &o, *slot);
    return 1;
}

/* rille.load_npy(path[, options]): returns the tensor of a .npy file. */
static int
load_npy(lua_State *L)
{
    return load_one(L, "load_npy", rille_load_npy);
}

/* rille._image(path[, options]): returns the pixels of a PNG or JPEG file. */
static int
load_image(lua_State *L)
{
    return load_one(L, "data.image", rille_load_image);
}

/* ---- saving ---- */

static int
count_file_tensors(lua_State *L, int i, const char *who)
{
    int n = 0;
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1), n++) {
        if (lua_type(L, -2) != LUA_TSTRING) complain(L, "%s: names must be strings, found %s", who, what_is(L, -2));
        const char *name = text_at(L, -2, who);
        if (!tensor_test(L, -1)) complain(L, "%s: '%s' must be a tensor, found %s", who, name, what_is(L, -1));
    }
    return n;
}

void
names_read(lua_State *L, int i, const char *who, struct names *out)
{
    bool table = lua_istable(L, i);
    struct rille_tensor *one = tensor_test(L, i);
    if (!table && !one)
        complain(L, "%s: expected a tensor, a table of tensors or a module, found %s", who, what_is(L, i));
    int n = table ? count_file_tensors(L, i, who) : 1;
    char *memory = lua_newuserdatauv(L, (sizeof *out->name + sizeof *out->tensor) * (size_t)(n + 1), 0);
    *out = (struct names){.name = (const char **)memory,
                          .tensor = (struct rille_tensor **)(memory + sizeof *out->name * (size_t)(n + 1))};
    if (!table) {
        out->name[0] = "";
        out->tensor[out->n++] = one;
        return;
    }
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        out->name[out->n] = lua_tostring(L, -2);
        out->tensor[out->n++] = tensor_test(L, -1);
    }
}

/* Reads a size: 5000000000, "5GB", "200 MB", "1KB"; K is 1,000. */
static int64_t
file_size_argument(lua_State *L, int i, const char *who)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
    if (lua_isnil(L, i)) return 0;
    double n = lua_type(L, i) == LUA_TNUMBER ? lua_tonumber(L, i) : 0;
    char unit[3] = "B";
    int number = 0, all = 0;
    if (lua_type(L, i) == LUA_TSTRING) {
        const char *text = lua_tostring(L, i);
        if (sscanf(text, "%lf%n %2[A-Z]%n", &n, &number, unit, &all) < 1 || text[all ? all : number]) n = 0;
    }
    for (size_t k = 0; k < sizeof units / sizeof *units; k++)
        if (!strcmp(units[k].unit, unit) && n * units[k].bytes >= 1 && n * units[k].bytes < 9e18)
            return (int64_t)(n * units[k].bytes);
    return complain(L, "%s: max_shard_size must be a number of bytes or a string such as \"5GB\", found %s", who,
                    what_is(L, i));
}

/* Creates the folder if the path does not exist. */
static void
make_save_folder(lua_State *L, const char *who, const char *path)
{
    struct stat st;
    if (stat(path, &st) && mkdir(path, 0777))
        complain(L, "%s: %s: cannot make the folder: %s", who, path, strerror(errno));
}

/* rille._make_folder(who, path): creates the folder if the path does not exist. */
static int
lua_make_folder(lua_State *L)
{
    make_save_folder(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2));
    return 0;
}

/* Creates the folder if it is missing, and claims it for this session's checkpoints. */
static void
claim_folder(lua_State *L, const char *who, const char *path)
{
    at_line(L);
    check_as(L, who, rille_may_save(path, true));
    check_as(L, who, rille_claim_folder(shell_of(L)->session, path));
}

/* rille.save(path, {name = tensor} | tensor | module[, {max_shard_size =}]): writes the tensors to a file. */
static int
lua_file_save(lua_State *L)
{
    static const char *const keys[] = {"max_shard_size", NULL};
    const char *path = path_expanded(L, 1, "save", false);
    struct rille_save_options o = {.size = sizeof o};
    struct names names;
    lua_settop(L, 3);
    if (!lua_isnil(L, 3)) {
        if (!lua_istable(L, 3)) complain(L, "save: options must be a table, found %s", what_is(L, 3));
        check_keys(L, 3, "save", keys);
        lua_getfield(L, 3, "max_shard_size");
        o.shard_bytes = file_size_argument(L, -1, "save");
        lua_pop(L, 1);
    }
    /* replaces a module by its tensors */
    if (lua_istable(L, 2) && luaL_getmetafield(L, 2, "__saved") != LUA_TNIL) {
        lua_pushvalue(L, 2);
        lua_call(L, 1, 1);
        lua_replace(L, 2);
    }
    names_read(L, 2, "save", &names);
    files_finish(L);
    struct stat st;
    if (o.shard_bytes && strstr(path, "://"))
        complain(L, "save: %s: max_shard_size needs the name of a folder, found a URL; save without max_shard_size",
                 path);
    if (o.shard_bytes) make_save_folder(L, "save", path);
    if (o.shard_bytes && !stat(path, &st) && !S_ISDIR(st.st_mode))
        complain(L, "save: %s: max_shard_size needs the name of a folder", path);
    at_line(L);
    check_as(L, "save", rille_save(shell_of(L)->session, path, names.n, names.name, names.tensor, &o, NULL));
    return 0;
}

/* Returns the strings of the list at i, and pushes the userdata that stores the array. */
static const char *const *
file_texts_read(lua_State *L, int i, int *n)
{
    *n = (int)lua_rawlen(L, i);
    const char **text = lua_newuserdatauv(L, sizeof *text * (size_t)(*n + 1), 0);
    for (int k = 0; k < *n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, i, k + 1);
        text[k] = text_at(L, -1, "save"); /* the pointer stays valid, because the list refers to the string */
    }
    return text;
}

/* rille._checkpoint(path, tensors, metadata, old, background): saves a checkpoint with a digest of its bytes.
 * metadata: list {key, value, ...}. old: list of files to delete after the new file exists. */
static int
checkpoint(lua_State *L)
{
    struct shell *sh = shell_of(L);
    const char *path = path_expanded(L, 1, "checkpoint.save", false);
    struct rille_save_options o = {.size = sizeof o, .digest = true};
    struct names names;
    bool background = lua_toboolean(L, 5);
    luaL_checktype(L, 3, LUA_TTABLE);
    luaL_checktype(L, 4, LUA_TTABLE);
    o.metadata = file_texts_read(L, 3, &o.nmetadata);
    o.nmetadata /= 2;
    o.old = file_texts_read(L, 4, &o.nold);
    names_read(L, 2, "checkpoint.save", &names);
    files_finish(L);
    at_line(L);
    check_as(L, "checkpoint.save",
             rille_save(sh->session, path, names.n, names.name, names.tensor, &o, background ? &sh->saving : NULL));
    return 0;
}

/* rille._verify(path): returns nil, or a message that says how the file is damaged. */
static int
file_verify(lua_State *L)
{
    const char *path = path_check(L, 1, "verify");
    int status = rille_verify(path);
    if (!status) return 0;
    if (!strcmp(rille_error_kind(), "interrupted")) check_as(L, "checkpoint.load", status);
    lua_pushstring(L, rille_error());
    return 1;
}

static void
push_file_name(void *arg, const char *name)
{
    lua_State *L = arg;
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* rille._list(folder, save): returns the names in a folder or below a URL. save = true: creates the folder if it is
 * missing, and claims it for this session. */
static int
list(lua_State *L)
{
    const char *path = path_expanded(L, 1, "checkpoint", false);
    bool save = lua_toboolean(L, 2);
    if (save) claim_folder(L, "checkpoint.save", path);
    lua_newtable(L);
    at_line(L);
    check_as(L, save ? "checkpoint.save" : "checkpoint.load", rille_folder_list(path, push_file_name, L));
    return 1;
}

/* rille._may_save(who, path, kind): raises unless a file, a folder, or checkpoints can be saved at the path. For kind
 * "checkpoints" the folder is created and claimed for this session. */
static int
may_save(lua_State *L)
{
    const char *who = luaL_checkstring(L, 1), *path = text_at(L, 2, who), *kind = luaL_checkstring(L, 3);
    at_line(L);
    if (!strcmp(kind, "checkpoints"))
        claim_folder(L, who, path);
    else
        check_as(L, who, rille_may_save(path, !strcmp(kind, "folder")));
    return 0;
}

/* rille._random(): returns seed and count (random calls so far) of the session's random state.
 * rille._random(seed, count): restores this state. */
static int
random_state(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    uint64_t seed, count;
    if (lua_gettop(L) > 0)
        rille_random_restore(s, (uint64_t)luaL_checkinteger(L, 1), (uint64_t)luaL_checkinteger(L, 2));
    rille_random_state(s, &seed, &count);
    lua_pushinteger(L, (lua_Integer)seed);
    lua_pushinteger(L, (lua_Integer)count);
    return 2;
}

/* rille._parts(t): returns the addends of a tensor with a pending reduction (P). rille._of_parts(parts, {placement
 * =, sbp =}, dtype): makes a tensor with a pending reduction from its addends. */
static int
parts(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "parts"), **slot = tensor_slot(L);
    at_line(L);
    check_as(L, "parts", rille_tensor_parts(t, slot));
    return 1;
}

static int
of_parts(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "parts");
    const struct rille_layout *l = layout_read(L, 2, "parts", rille_tensor_ndim(t) - 1, NULL);
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check_as(L, "parts", rille_tensor_of_parts(t, l, luaL_checkstring(L, 3), slot));
    return 1;
}

/* rille._finish(): waits for a background save. */
static int
file_finish_call(lua_State *L)
{
    files_finish(L);
    return 0;
}

/* rille._write(who, path, text): writes the text to a file atomically. */
static int
write_text(lua_State *L)
{
    size_t n;
    const char *who = luaL_checkstring(L, 1), *path = text_at(L, 2, who), *text = luaL_checklstring(L, 3, &n);
    check(L, rille_text_write(who, path, text, n));
    return 0;
}

/* rille._read(path, most[, who]): returns the text of a regular file of at most `most` bytes. who: prefix of errors. */
static int
file_read_text_call(lua_State *L)
{
    size_t n;
    char *text = NULL;
    const char *path = path_check(L, 1, "read"), *who = luaL_optstring(L, 3, NULL);
    int status = rille_text_read(path, luaL_checkinteger(L, 2), &text, &n);
    who ? check_as(L, who, status) : check(L, status);
    lua_pushlstring(L, text, n);
    free(text);
    return 1;
}

static const luaL_Reg functions[] = {
    {"load", file_load},
    {"load_npy", load_npy},
    {"_image", load_image},
    {"save", lua_file_save},
    {"_write", write_text},
    {"_read", file_read_text_call},
    {"_load", load_format},
    {"_windows", load_windows},
    {"_contents", contents},
    {"_file_list", file_list},
    {"_path", lua_path},
    {"_kind", path_kind},
    {"_checkpoint", checkpoint},
    {"_verify", file_verify},
    {"_finish", file_finish_call},
    {"_list", list},
    {"_may_save", may_save},
    {"_random", random_state},
    {"_parts", parts},
    {"_of_parts", of_parts},
    {"_make_folder", lua_make_folder},
    {NULL, NULL},
};

void
files_open(lua_State *L)
{
    static const luaL_Reg methods[] = {{"__gc", file_gc}, {NULL, NULL}};
    kind_make(L, KIND_FILE, "rille.file", methods);
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
}
