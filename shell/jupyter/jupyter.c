/* jupyter.c - a Jupyter kernel: answers the requests of a notebook in the same way as the prompt answers typed
 * lines.
 *
 * A cell is loaded, run and printed like text typed at the prompt; the same commands, help pages and completions
 * exist, and Ctrl-C works alike. Another thread handles the sockets (jupyter_sockets.h); this file handles one
 * request after the other. Each type of request has a function that returns the content of the reply, and a row in
 * a table. */
#include "shell/run/interrupt.h"
#include "shell/run/run.h"
#include "shell/jupyter/jupyter.h"
#include "shell/jupyter/jupyter_sockets.h"
#include "shell/repl/repl.h"
#include "shell/run/show.h"
#include "shell/repl/complete.h"
#include "shell/repl/chunk.h"
#include "runtime/base/system.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <jansson.h>

static const struct message *request; /* the request that is being answered now */
static json_t *history;               /* cells that ran: [[session, number, code], ...] */
static int number;                    /* number of the cell that ran last */
static bool failed;                   /* true: the cell raised an error, so the cells queued after it must not run */

static const char *
text_in(json_t *content, const char *name)
{
    const char *text = json_string_value(json_object_get(content, name));
    return text ? text : "";
}

static json_t *
string_of(const char *text)
{
    return wire_text(text, strlen(text));
}

/* ---- cells ---- */

struct outcome {
    json_t *name, *text, *trace; /* parts of an error report; all NULL: no error */
    bool quit;
};

/* Stores the error at the top of the stack: its message, and the informative lines of its traceback. */
static void
take_error(lua_State *L, struct outcome *o)
{
    const char *text = lua_tostring(L, -1);
    char *lines = NULL;
    size_t size, n = strcspn(text, "\n"), whole = strlen(text);
    const char *trace = strstr(text, "\nstack traceback:");
    if (trace) whole = (size_t)(trace - text);
    o->name = wire_text(text, n < whole ? n : whole);
    o->text = wire_text(text, whole);
    o->trace = json_array();
    json_array_append(o->trace, o->text);
    FILE *f = open_memstream(&lines, &size);
    if (f) {
        repl_print_frames(f, text);
        fclose(f);
        if (size) json_array_append_new(o->trace, wire_text(lines, size - 1));
    }
    free(lines);
}

/* Pushes the texts of the values, one per line; pushes nil if there are no values. */
static int
show_values(lua_State *L)
{
    luaL_Buffer b;
    int n = lua_gettop(L);
    bool any = false;
    luaL_buffinit(L, &b);
    for (int i = 1; i <= n; i++) {
        if (lua_isnil(L, i)) continue;
        if (any) luaL_addchar(&b, '\n');
        any = true;
        show_value(L, i);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    if (!any) lua_pushnil(L);
    return 1;
}

/* Publishes the values on the stack as the cell's result. */
static void
publish_values(lua_State *L, struct outcome *o)
{
    int n = lua_gettop(L);
    repl_keep_last(L, 1);
    lua_pushcfunction(L, show_values);
    lua_insert(L, 1);
    if (run_quiet(L, n, 1)) {
        take_error(L, o);
    } else if (lua_isstring(L, -1)) {
        size_t size;
        const char *text = lua_tolstring(L, -1, &size);
        sockets_publish(request, "execute_result",
                        json_pack("{sis{so}s{}}", "execution_count", number, "data", "text/plain",
                                  wire_text(text, size), "metadata"));
    }
}

static void
run_cell(lua_State *L, const char *code, bool silent, struct outcome *o)
{
    char name[32];
    bool more;
    snprintf(name, sizeof name, "=In[%d]", number);
    repl_push_environment(L);
    if (chunk_load(L, 1, code, name, &more)) {
        take_error(L, o);
        return;
    }
    lua_replace(L, 1);
    lua_settop(L, 1);
    if (run_quiet(L, 0, LUA_MULTRET))
        take_error(L, o);
    else if (lua_gettop(L) && (silent || chunk_is_silent(code)))
        repl_keep_last(L, 1);
    else if (lua_gettop(L))
        publish_values(L, o);
}

static void
run_marked_cell(lua_State *L, const char *code, struct outcome *o)
{
    lua_pushcfunction(L, repl_marked);
    lua_pushstring(L, code);
    if (run_quiet(L, 1, 1))
        take_error(L, o);
    else
        o->quit = lua_tointeger(L, -1) == COMMAND_QUIT;
}

/* Reports an error for a cell that contains a zero byte, because Lua would end the text there. */
static void
refuse_cell(lua_State *L, struct outcome *o)
{
    lua_pushfstring(L, "In[%d]: a cell must not have a zero byte", number);
    take_error(L, o);
}

static void
remember_code(const char *code)
{
    json_array_append_new(history, json_pack("[iio]", 1, number, string_of(code)));
}

static json_t *
reply_of(struct outcome *o)
{
    if (!o->text) {
        json_t *payload = json_array();
        if (o->quit) json_array_append_new(payload, json_pack("{sssb}", "source", "ask_exit", "keepkernel", 0));
        return json_pack("{sssisos{}}", "status", "ok", "execution_count", number, "payload", payload,
                         "user_expressions");
    }
    json_t *error = json_pack("{sososO}", "ename", json_string("error"), "evalue", o->name, "traceback", o->trace);
    sockets_publish(request, "error", json_deep_copy(error));
    json_object_set_new(error, "status", json_string("error"));
    json_object_set_new(error, "execution_count", json_integer(number));
    json_decref(o->text);
    json_decref(o->trace);
    return error;
}

static json_t *
run_execute_request(lua_State *L, json_t *content)
{
    const char *code = text_in(content, "code");
    bool silent = json_is_true(json_object_get(content, "silent"));
    struct outcome o = {0};
    if (!silent && !json_is_false(json_object_get(content, "store_history"))) number++, remember_code(code);
    if (!silent)
        sockets_publish(request, "execute_input",
                        json_pack("{sosi}", "code", string_of(code), "execution_count", number));
    if (strlen(code) < json_string_length(json_object_get(content, "code")))
        refuse_cell(L, &o);
    else if (chunk_is_marked(code))
        run_marked_cell(L, code, &o);
    else
        run_cell(L, code, silent, &o);
    lua_settop(L, 0);
    collect_if_due(L);
    failed = o.text && !json_is_false(json_object_get(content, "stop_on_error"));
    return reply_of(&o);
}

/* ---- requests about code at the cursor: completion and help ---- */

/* Converts Jupyter's cursor position, counted in characters, to the shell's, counted in bytes. */
static int
byte_offset(const char *text, json_int_t characters)
{
    const char *at = text;
    for (; *at && characters > 0; characters--)
        for (at++; (*at & 0xc0) == 0x80;) at++;
    return (int)(at - text);
}

static int
characters_of(const char *text, int bytes)
{
    int n = 0;
    for (int k = 0; k < bytes; k++) n += (text[k] & 0xc0) != 0x80;
    return n;
}

static int
cursor(json_t *content, const char *code)
{
    json_t *at = json_object_get(content, "cursor_pos");
    return json_is_integer(at) ? byte_offset(code, json_integer_value(at)) : (int)strlen(code);
}

static int
jupyter_complete_protected(lua_State *L)
{
    int end = (int)lua_tointeger(L, 2);
    repl_push_environment(L);
    int begin = complete(L, 3, lua_tostring(L, 1), end);
    lua_pushinteger(L, begin);
    return 2;
}

static json_t *
complete_code(lua_State *L, json_t *content)
{
    const char *code = text_in(content, "code");
    int end = cursor(content, code), begin = end;
    json_t *list = json_array();
    lua_pushcfunction(L, jupyter_complete_protected);
    lua_pushstring(L, code);
    lua_pushinteger(L, end);
    if (!run_quiet(L, 2, 2)) {
        begin = (int)lua_tointeger(L, -1);
        for (int k = 1; lua_rawgeti(L, 1, k) == LUA_TSTRING; k++, lua_pop(L, 1))
            json_array_append_new(list, string_of(lua_tostring(L, -1)));
    }
    return json_pack("{sssosisis{}}", "status", "ok", "matches", list, "cursor_start", characters_of(code, begin),
                     "cursor_end", characters_of(code, end), "metadata");
}

static bool
in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static int
page_protected(lua_State *L)
{
    repl_push_environment(L);
    return repl_push_page(L, 2, lua_tostring(L, 1));
}

/* Replies with the help page of the name at the cursor or directly before it. */
static json_t *
inspect(lua_State *L, json_t *content)
{
    const char *code = text_in(content, "code");
    int end = cursor(content, code), begin;
    while (in_name(code[end])) end++;
    while (end > 0 && !in_name(code[end - 1])) end--;
    for (begin = end; begin > 0 && in_name(code[begin - 1]);) begin--;
    lua_pushcfunction(L, page_protected);
    lua_pushlstring(L, code + begin, (size_t)(end - begin));
    bool found = !run_quiet(L, 1, 1) && lua_isstring(L, -1);
    json_t *data = json_object();
    if (found) json_object_set_new(data, "text/plain", string_of(lua_tostring(L, -1)));
    return json_pack("{sssbsos{}}", "status", "ok", "found", (int)found, "data", data, "metadata");
}

static json_t *
is_complete(lua_State *L, json_t *content)
{
    const char *code = text_in(content, "code");
    bool more = false;
    if (chunk_is_marked(code)) return json_pack("{ss}", "status", "complete");
    repl_push_environment(L);
    if (!chunk_load(L, 1, code, "=cell", &more)) return json_pack("{ss}", "status", "complete");
    return more ? json_pack("{ssss}", "status", "incomplete", "indent", "  ") : json_pack("{ss}", "status", "invalid");
}

/* ---- history ---- */

/* Returns true if the history request selects the cell, by number or by a wildcard pattern. */
static bool
is_entry_wanted(json_t *entry, json_t *content)
{
    const char *how = text_in(content, "hist_access_type"), *pattern = text_in(content, "pattern");
    json_int_t at = json_integer_value(json_array_get(entry, 1));
    json_t *stop = json_object_get(content, "stop");
    if (!strcmp(how, "search"))
        return !fnmatch(*pattern ? pattern : "*", json_string_value(json_array_get(entry, 2)), 0);
    if (strcmp(how, "range")) return true;
    return at >= json_integer_value(json_object_get(content, "start")) &&
           (!json_is_integer(stop) || at < json_integer_value(stop));
}

static json_t *
tell_history(lua_State *L, json_t *content)
{
    (void)L;
    json_t *list = json_array(), *entry, *n = json_object_get(content, "n");
    size_t k;
    json_array_foreach(history, k, entry) if (is_entry_wanted(entry, content)) json_array_append(list, entry);
    /* the request asks for outputs, which are not saved */
    bool outputs = json_is_true(json_object_get(content, "output"));
    json_array_foreach(list, k, entry) if (outputs) json_array_set_new(
        list, k, json_pack("[OO[On]]", json_array_get(entry, 0), json_array_get(entry, 1), json_array_get(entry, 2)));
    bool last = json_is_integer(n) && strcmp(text_in(content, "hist_access_type"), "range");
    while (last && (json_int_t)json_array_size(list) > json_integer_value(n) && json_array_size(list))
        json_array_remove(list, 0);
    return json_pack("{ssso}", "status", "ok", "history", list);
}

/* ---- the kernel ---- */

static json_t *
comm_info(lua_State *L, json_t *content)
{
    (void)L, (void)content;
    return json_pack("{sss{}}", "status", "ok", "comms");
}

static const struct kind_of_request {
    const char *type, *reply;
    json_t *(*answer)(lua_State *L, json_t *content);
} requests[] = {
    {"execute_request", "execute_reply", run_execute_request},
    {"complete_request", "complete_reply", complete_code},
    {"inspect_request", "inspect_reply", inspect},
    {"is_complete_request", "is_complete_reply", is_complete},
    {"history_request", "history_reply", tell_history},
    {"comm_info_request", "comm_info_reply", comm_info},
    {NULL, NULL, NULL},
};

/* Answers a request. An unknown type gets no reply, as the protocol requires. */
static void
jupyter_serve(lua_State *L, const struct frames *f)
{
    struct message m;
    failed = false;
    if (!message_read(sockets_wire(), f, &m)) {
        request = &m;
        for (const struct kind_of_request *k = requests; k->type; k++) {
            if (strcmp(k->type, message_type(&m))) continue;
            lua_settop(L, 0);
            json_t *reply = k->answer(L, m.content);
            if (failed) sockets_abort();
            sockets_reply(&m, k->reply, reply);
            lua_settop(L, 0);
        }
        message_free(&m);
    }
    request = NULL;
    sockets_done();
}

/* ---- functions by which a running cell reaches the front end: display and input ---- */

static void
publish_display(const char *type, const char *text, const char *plain)
{
    sockets_publish(
        request, "display_data",
        json_pack("{s{soso}s{}}", "data", type, string_of(text), "text/plain", string_of(plain), "metadata"));
}

/* Waits for a line of the user's input; raises an error on Ctrl-C, or if the notebook ends. */
static void
wait_answer(lua_State *L, struct frames *f)
{
    enum sockets_event got;
    while (!(got = sockets_next(f, 100)))
        if (interrupt_count() || interrupt_quit()) luaL_error(L, "interrupted");
    if (got == SOCKETS_END) luaL_error(L, "the notebook has ended");
}

/* Implements io.read(...): asks the front end for one line, writes the line to a temporary file, and reads from
 * that file. Upvalue 1 is io.tmpfile. */
static int
jupyter_ask(lua_State *L)
{
    struct frames f;
    struct message answer;
    int n = lua_gettop(L);
    if (!request || !json_is_true(json_object_get(request->content, "allow_stdin")))
        return luaL_error(L, "io.read: this front end does not support input");
    sockets_ask(request, json_pack("{sssb}", "prompt", "", "password", 0));
    wait_answer(L, &f);
    const char *wrong = message_read(sockets_wire(), &f, &answer);
    frames_free(&f);
    if (wrong) return luaL_error(L, "io.read: %s", wrong);
    lua_pushfstring(L, "%s\n", text_in(answer.content, "value"));
    message_free(&answer);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_call(L, 0, 1);
    luaL_Stream *file = luaL_testudata(L, -1, LUA_FILEHANDLE);
    if (!file) return luaL_error(L, "io.read: no space for a temporary file");
    fputs(lua_tostring(L, -2), file->f);
    rewind(file->f);
    lua_getfield(L, -1, "read");
    lua_insert(L, 1);
    lua_insert(L, 2);
    lua_settop(L, n + 2);
    lua_call(L, n + 1, LUA_MULTRET);
    return lua_gettop(L);
}

static void
replace_read(lua_State *L)
{
    lua_getglobal(L, "io");
    lua_getfield(L, -1, "tmpfile");
    lua_pushcclosure(L, jupyter_ask, 1);
    lua_setfield(L, -2, "read");
    lua_pop(L, 1);
}

/* ---- the loop ---- */

static void
serve_all(lua_State *L)
{
    const char *named = getenv("JPY_PARENT_PID"); /* process id of Jupyter: the kernel must end if Jupyter dies */
    pid_t parent = named && atol(named) == (long)getppid() ? getppid() : 0;
    for (;;) {
        struct frames f;
        enum sockets_event got = sockets_next(&f, 1000);
        if (got == SOCKETS_REQUEST) {
            jupyter_serve(L, &f);
            frames_free(&f);
        }
        if (got == SOCKETS_END || interrupt_quit() || (parent && getppid() != parent)) return;
    }
}

int
jupyter_run(lua_State *L, const char *connection_file)
{
    char why[600];
    if (sockets_open(connection_file, why, sizeof why)) {
        tell_line(why);
        return 2;
    }
    history = json_array();
    repl_open(L);
    replace_read(L);
    shell_of(L)->display = publish_display;
    serve_all(L);
    shell_of(L)->display = NULL;
    sockets_close();
    json_decref(history);
    return 0;
}

/* Finds Jupyter's data folder as Jupyter does: $JUPYTER_DATA_DIR, $XDG_DATA_HOME/jupyter or ~/.local/share/jupyter. */
static bool
kernel_path(char path[PATH_MAX])
{
    static const char *const places[][2] = {
        {"JUPYTER_DATA_DIR", ""}, {"XDG_DATA_HOME", "/jupyter"}, {"HOME", "/.local/share/jupyter"}};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        const char *base = getenv(places[k][0]);
        if (!base || !*base) continue;
        return snprintf(path, PATH_MAX, "%s%s/kernels/rille/kernel.json", base, places[k][1]) < PATH_MAX;
    }
    return false;
}

static json_t *
kernel_spec(void)
{
    char program[PATH_MAX];
    if (!system_program(program, sizeof program)) return NULL;
    return json_pack("{s[sss]ssssss}", "argv", program, "--jupyter", "{connection_file}", "display_name", "Rille",
                     "language", "lua", "interrupt_mode", "message");
}

static int
say_failed(const char *path, const char *why)
{
    fprintf(stderr, "rille: jupyter: %s cannot be written: %s\n", path, why);
    return 1;
}

int
jupyter_install(void)
{
    char path[PATH_MAX], made[PATH_MAX + 4];
    if (!kernel_path(path)) return say_failed("kernel.json", "HOME is not set");
    make_folders(path);
    json_t *spec = kernel_spec();
    snprintf(made, sizeof made, "%s.new", path);
    errno = 0;
    bool bad = !spec || json_dump_file(spec, made, JSON_INDENT(2)) || rename(made, path);
    json_decref(spec);
    if (bad) return say_failed(path, errno ? strerror(errno) : "this program's path is unknown");
    printf("Jupyter finds the kernel rille: %s\n", path);
    return 0;
}
