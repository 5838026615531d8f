/* edit.c - reading one line: readline, libedit, or neither, as it was built.
 *
 * The editors are used through their callback interface: this file waits for keys itself, so that Ctrl-C ends the wait
 * and never jumps out of the middle of an editor. History is in $XDG_STATE_HOME/rille/history, a chunk of many lines
 * being one entry. A line that begins with a space is not remembered. */
#include "shell/repl.h"

#include <errno.h>
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

static volatile sig_atomic_t interrupted;

static void
on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Waits for a key; false after Ctrl-C. The signal is let in only while waiting, so none is missed. */
static bool
wait_key(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    sigset_t outside, inside;
    sigemptyset(&inside);
    sigaddset(&inside, SIGINT);
    sigprocmask(SIG_BLOCK, &inside, &outside);
    while (!interrupted && ppoll(&in, 1, NULL, &outside) < 0 && errno == EINTR) {
    }
    sigprocmask(SIG_SETMASK, &outside, NULL);
    return !interrupted;
}

#if defined RILLE_READLINE || defined RILLE_EDITLINE

static lua_State *state; /* completion asks it */
static char *got;
static bool ended;
static char history_path[PATH_MAX];

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

/* ---- lines ---- */

static void
on_line(char *line)
{
    rl_callback_handler_remove();
    got = line;
    ended = true;
}

enum edit_end
edit_line(const char *prompt, char **line)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    interrupted = 0;
    ended = false;
    sigaction(SIGINT, &action, &before);
    rl_callback_handler_install(prompt, on_line);
    while (!ended && wait_key()) rl_callback_read_char();
    if (!ended) {
        rl_point = rl_end;
        rl_redisplay();
        fputs("^C", stdout); /* before the handler goes: the end of bracketed paste returns to the start of the line */
        fflush(stdout);
#if defined RILLE_READLINE
        rl_free_line_state();
        rl_callback_sigcleanup();
#endif
        rl_callback_handler_remove();
        puts("");
    }
    sigaction(SIGINT, &before, NULL);
    *line = ended ? got : NULL;
    if (!interrupted) return got ? EDIT_LINE : EDIT_EOF;
    free(*line); /* Ctrl-C may come together with the end of the line */
    *line = NULL;
    return EDIT_INTERRUPT;
}

/* ---- history ---- */

/* $XDG_STATE_HOME/rille/history or ~/.local/state/rille/history; directories are made. */
static void
find_history(void)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (xdg && *xdg)
        snprintf(history_path, sizeof history_path, "%s/rille/history", xdg);
    else if (home)
        snprintf(history_path, sizeof history_path, "%s/.local/state/rille/history", home);
    for (char *slash = strchr(history_path + 1, '/'); history_path[0] && slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(history_path, 0700);
        *slash = '/';
    }
}

void
edit_open(lua_State *L)
{
    state = L;
    rl_readline_name = "rille";
    rl_attempted_completion_function = on_complete;
    rl_completer_word_break_characters = " \t\n\"'`@$><=;|&{}()[]+-*/%^#~,";
#if defined RILLE_READLINE
    rl_catch_signals = 0;
    history_write_timestamps = 1; /* what begins an entry, so that one of many lines comes back as one */
    history_comment_char = '#';
#endif
    using_history();
    find_history();
    if (history_path[0]) read_history(history_path);
    stifle_history(2000);
}

void
edit_close(void)
{
    if (history_path[0]) write_history(history_path);
}

void
edit_remember(const char *chunk)
{
    HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;
    if (!*chunk || *chunk == ' ' || (last && !strcmp(last->line, chunk))) return;
    add_history(chunk);
}

#else

enum edit_end
edit_line(const char *prompt, char **line)
{
    struct sigaction action, before;
    size_t room = 0;
    ssize_t n = -1;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    interrupted = 0;
    *line = NULL;
    fputs(prompt, stdout);
    fflush(stdout);
    sigaction(SIGINT, &action, &before);
    if (wait_key()) n = getline(line, &room, stdin);
    sigaction(SIGINT, &before, NULL);
    if (n > 0 && (*line)[n - 1] == '\n') (*line)[n - 1] = 0;
    if (n >= 0) return EDIT_LINE;
    free(*line);
    *line = NULL;
    if (interrupted) puts("^C");
    return interrupted ? EDIT_INTERRUPT : EDIT_EOF;
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
