/* edit.c - reading what is typed: readline with chunks of many lines, or plain lines, as it was built and as the
 * terminal is.
 *
 * Readline is used through its callback interface: this file waits for keys itself, so that a signal ends the wait and
 * never jumps out of the middle of an editor. Enter ends a chunk that is complete, and begins another line of one that
 * is not; arrows move within the chunk, and into the history at its edges.
 *
 * History is in $XDG_STATE_HOME/rille/history, a chunk of many lines being one entry. Each is appended when it is
 * entered, so that nothing is lost however the program ends, and read again when another shell has appended. A line
 * that begins with a space is not remembered. */
#include "shell/repl.h"
#include "shell/token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined RILLE_READLINE
#include <readline/history.h>
#include <readline/readline.h>
#elif defined RILLE_EDITLINE
#include <editline/readline.h>
#endif

/* ---- waiting ---- */

enum { PRESSED = 1, GIVEN_UP }; /* Ctrl-C; Ctrl-D in a chunk */
static volatile sig_atomic_t interrupted;

static void
on_interrupt(int number)
{
    (void)number;
    interrupted = PRESSED;
}

/* Waits for a key; false after Ctrl-C, or when the program is to end. Signals are let in only while waiting, so none is
 * missed. */
static bool
wait_key(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    sigset_t outside, inside;
    sigemptyset(&inside);
    sigaddset(&inside, SIGINT);
    sigaddset(&inside, SIGTERM);
    sigaddset(&inside, SIGHUP);
    sigprocmask(SIG_BLOCK, &inside, &outside);
    while (!interrupted && !interrupt_quit() && ppoll(&in, 1, NULL, &outside) < 0 && errno == EINTR) {
    }
    sigprocmask(SIG_SETMASK, &outside, NULL);
    return !interrupted && !interrupt_quit();
}

static void
catch_interrupt(struct sigaction *before)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    interrupted = 0;
    sigaction(SIGINT, &action, before);
}

/* ---- plain lines ---- */

static enum edit_end
plain_line(const char *prompt, char **line)
{
    struct sigaction before;
    size_t capacity = 0;
    ssize_t n = -1;
    *line = NULL;
    fputs(prompt, stdout);
    fflush(stdout);
    catch_interrupt(&before);
    if (wait_key()) n = getline(line, &capacity, stdin);
    sigaction(SIGINT, &before, NULL);
    if (n > 0 && (*line)[n - 1] == '\n') (*line)[n - 1] = 0;
    if (n >= 0) return EDIT_LINE;
    free(*line);
    *line = NULL;
    clearerr(stdin);
    if (interrupted) puts("^C");
    return interrupted ? EDIT_INTERRUPT : EDIT_EOF;
}

#if defined RILLE_READLINE || defined RILLE_EDITLINE

static lua_State *state; /* completion asks it */
static bool plain;       /* the terminal cannot move its cursor */
static char *got;
static bool ended;
static char history_path[PATH_MAX];
static off_t history_size;

/* ---- completion ---- */

/* The next word of the list at the top of Lua's stack; NULL behind the last. */
static char *
next_word(const char *text, int again)
{
    static lua_Integer at;
    (void)text;
    at = again ? at + 1 : 1;
    lua_rawgeti(state, -1, at);
    const char *word = lua_tostring(state, -1);
    char *copy = word ? strdup(word) : NULL;
    lua_pop(state, 1);
    return copy;
}

static int
complete_protected(lua_State *L)
{
    repl_push_environment(L);
    int begin = complete(L, lua_gettop(L), lua_tostring(L, 1), (int)lua_tointeger(L, 2));
    lua_pushinteger(L, begin);
    return 2;
}

/* Inside quotes names of files are completed, which is what the editor does by itself. */
static char **
on_complete(const char *text, int start, int end)
{
    char **words = NULL;
    bool quoted = false;
    for (int k = 0; k < start; k++) quoted ^= rl_line_buffer[k] == '"' || rl_line_buffer[k] == '\'';
    rl_attempted_completion_over = !quoted;
    if (quoted) return NULL;
    lua_pushcfunction(state, complete_protected);
    lua_pushstring(state, rl_line_buffer);
    lua_pushinteger(state, end);
    if (lua_pcall(state, 2, 2, 0) == LUA_OK) {
        lua_pop(state, 1);
        words = rl_completion_matches(text, next_word);
    }
    lua_pop(state, 1);
#if defined RILLE_READLINE
    rl_completion_append_character = 0;
#endif
    return words;
}

/* ---- many lines ---- */

#if defined RILLE_READLINE

enum { INDENT = 2 };

static int
line_start(int at)
{
    while (at > 0 && rl_line_buffer[at - 1] != '\n') at--;
    return at;
}

static int
line_end(int at)
{
    while (at < rl_end && rl_line_buffer[at] != '\n') at++;
    return at;
}

/* More is there to be read: it was pasted, and has its own spaces. */
static bool
keys_wait(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    return poll(&in, 1, 0) > 0;
}

static int indented; /* where the spaces end that the last line began with by itself */

/* A line that begins with "end" stands as far out as what it ends, if its spaces are ours. */
static void
pull_back(void)
{
    static const char *const closing[] = {"end", "until", "else", "elseif", "}", ")", NULL};
    int start = line_start(rl_point), spaces = (int)strspn(rl_line_buffer + start, " ");
    struct token first = token_next(rl_line_buffer + start);
    bool ours = start > 0 && start + spaces == indented && spaces >= INDENT;
    indented = 0;
    if (!ours || !token_is_any(&first, closing)) return;
    rl_delete_text(start, start + INDENT);
    rl_point -= INDENT;
}

/* Begins a line as far in as the one before it, and further where that opened a block. */
static void
insert_line(void)
{
    int start = line_start(rl_point), indent = 0, depth = 0;
    while (rl_line_buffer[start + indent] == ' ') indent++;
    char *line = strndup(rl_line_buffer + start, (size_t)(rl_point - start));
    if (!line) return;
    struct token t;
    for (const char *at = line; (t = token_next(at)).kind != T_END; at = token_after(&t)) depth += token_depth(&t);
    free(line);
    rl_insert_text("\n");
    if (keys_wait()) return;
    for (int k = indent + (depth > 0 ? INDENT : 0); k > 0; k--) rl_insert_text(" ");
    indented = line_start(rl_point) + indent + (depth > 0 ? INDENT : 0);
}

static int
wants_more_protected(lua_State *L)
{
    lua_pushboolean(L, chunk_wants_more(L, lua_tostring(L, 1)));
    return 1;
}

static bool
wants_more(void)
{
    lua_pushcfunction(state, wants_more_protected);
    lua_pushstring(state, rl_line_buffer);
    bool more = lua_pcall(state, 1, 1, 0) == LUA_OK && lua_toboolean(state, -1);
    lua_pop(state, 1);
    return more;
}

static int
on_enter(int count, int key)
{
    if (rl_line_buffer[strspn(rl_line_buffer, " \t\n")] && wants_more()) return pull_back(), insert_line(), 0;
    pull_back();
    rl_point = rl_end;
    (*rl_redisplay_function)();
    return rl_newline(count, key);
}

static int
on_more(int count, int key)
{
    (void)count, (void)key;
    insert_line();
    return 0;
}

static int
on_up(int count, int key)
{
    int start = line_start(rl_point), column = rl_point - start;
    if (start == 0) return rl_get_previous_history(count, key);
    int above = line_start(start - 1);
    rl_point = above + column < start ? above + column : start - 1;
    return 0;
}

static int
on_down(int count, int key)
{
    int column = rl_point - line_start(rl_point), end = line_end(rl_point);
    if (end == rl_end) return rl_get_next_history(count, key);
    int below = end + 1, last = line_end(below);
    rl_point = below + column < last ? below + column : last;
    return 0;
}

/* Ctrl-D: on an empty last line of a chunk it gives the chunk up. (In an empty buffer it is the end of input.) */
static int
on_delete(int count, int key)
{
    bool last = rl_point == rl_end && line_start(rl_point) > 0;
    if (!last || rl_line_buffer[line_start(rl_point) + (int)strspn(rl_line_buffer + line_start(rl_point), " ")])
        return rl_delete(count, key);
    interrupted = GIVEN_UP;
    return 0;
}

/* Readline draws one prompt; here every line has one. It is shown a copy of what is typed. */
static void
redisplay(void)
{
    static char *shown;
    static size_t capacity;
    char *line = rl_line_buffer;
    int end = rl_end, point = rl_point, mark = rl_mark;
    size_t n = (size_t)rl_end + 1;
    for (int k = 0; k < rl_end; k++) n += line[k] == '\n' ? sizeof PROMPT_MORE - 1 : 0;
    bool one_line = n == (size_t)end + 1;
    char *more = !one_line && n > capacity ? realloc(shown, n) : shown;
    if (one_line || !more) {
        rl_redisplay();
        return;
    }
    shown = more;
    capacity = n > capacity ? n : capacity;
    char *out = shown;
    for (int k = 0; k <= end; k++) {
        if (k == point) rl_point = (int)(out - shown);
        if (k == mark) rl_mark = (int)(out - shown);
        *out++ = line[k];
        if (line[k] == '\n' && k < end) out = stpcpy(out, PROMPT_MORE);
    }
    rl_line_buffer = shown;
    rl_end = (int)n - 1;
    rl_redisplay();
    rl_line_buffer = line;
    rl_end = end;
    rl_point = point;
    rl_mark = mark;
}

static void
bind_keys(void)
{
    static const struct {
        const char *keys;
        rl_command_func_t *run;
    } binding[] = {{"\\C-m", on_enter}, {"\\C-j", on_enter}, {"\\e\\C-m", on_more}, {"\\C-d", on_delete},
                   {"\\e[A", on_up},    {"\\eOA", on_up},    {"\\C-p", on_up},      {"\\e[B", on_down},
                   {"\\eOB", on_down},  {"\\C-n", on_down}};
    for (size_t k = 0; k < sizeof binding / sizeof *binding; k++) rl_bind_keyseq(binding[k].keys, binding[k].run);
}

static void
set_up(void)
{
    rl_catch_signals = 0;
    rl_completion_append_character = 0;
    history_write_timestamps = 1; /* what begins an entry, so that one of many lines comes back as one */
    history_comment_char = '#';
    rl_initialize();
    rl_redisplay_function = redisplay; /* not before: bracketed paste would stay off */
    bind_keys();
}

static void
give_line_up(void)
{
    rl_free_line_state();
    rl_callback_sigcleanup();
}

static void
append_entry(void)
{
    int file = open(history_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0) return;
    close(file);
    append_history(1, history_path);
}

#else

static void
set_up(void)
{
}

static void
give_line_up(void)
{
}

static void
append_entry(void)
{
    write_history(history_path);
}

#endif

/* ---- reading ---- */

static void
on_line(char *line)
{
    rl_callback_handler_remove();
    got = line;
    ended = true;
}

static void read_entries(void);

enum edit_end
edit_line(const char *prompt, char **line)
{
    struct sigaction before;
    if (plain) return plain_line(prompt, line);
    read_entries();
    ended = false;
    catch_interrupt(&before);
    rl_callback_handler_install(prompt, on_line);
    while (!ended && wait_key()) rl_callback_read_char();
    if (!ended) {
        rl_point = rl_end;
        (*rl_redisplay_function)();
        if (interrupted)
            fputs(interrupted == PRESSED ? "^C" : "^D",
                  stdout); /* before the handler goes, which returns to the start of the line */
        fflush(stdout);
        give_line_up();
        rl_callback_handler_remove();
        puts("");
    }
    sigaction(SIGINT, &before, NULL);
    *line = ended ? got : NULL;
    if (!interrupted) return *line ? EDIT_LINE : EDIT_EOF;
    free(*line); /* Ctrl-C may come together with the end of the line */
    *line = NULL;
    return EDIT_INTERRUPT;
}

/* ---- history ---- */

enum { HISTORY_ENTRIES = 2000, HISTORY_BYTES = 1 << 20 };

static void
find_history(void)
{
    if (!environment_path("XDG_STATE_HOME", ".local/state", "history", history_path)) history_path[0] = 0;
    for (char *slash = strchr(history_path + 1, '/'); history_path[0] && slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(history_path, 0700);
        *slash = '/';
    }
}

/* Takes what is in the file, if that has changed: also what another shell has appended. */
static void
read_entries(void)
{
    struct stat st;
    if (!history_path[0] || stat(history_path, &st) || !S_ISREG(st.st_mode) || st.st_size == history_size) return;
    clear_history();
    read_history(history_path);
    using_history();
    history_size = st.st_size;
}

void
edit_open(lua_State *L)
{
    const char *term = getenv("TERM");
    struct stat st;
    state = L;
    plain = !term || !*term || !strcmp(term, "dumb");
    rl_readline_name = "rille";
    rl_attempted_completion_function = on_complete;
    rl_completer_word_break_characters = " \t\n\"'`@$><=;|&{}()[]+-*/%^#~,";
    if (!plain) set_up();
    using_history();
    stifle_history(HISTORY_ENTRIES);
    find_history();
    if (history_path[0] && !stat(history_path, &st) && st.st_size > HISTORY_BYTES)
        history_truncate_file(history_path, HISTORY_ENTRIES * 2);
}

void
edit_close(void)
{
    clear_history();
}

void
edit_remember(const char *chunk)
{
    HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;
    if (!*chunk || *chunk == ' ' || (last && !strcmp(last->line, chunk))) return;
    add_history(chunk);
    if (history_path[0]) append_entry();
}

#else

enum edit_end
edit_line(const char *prompt, char **line)
{
    return plain_line(prompt, line);
}

void
edit_open(lua_State *L)
{
    (void)L;
}

void
edit_close(void)
{
}

void
edit_remember(const char *chunk)
{
    (void)chunk;
}

#endif
