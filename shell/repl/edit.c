/* edit.c - reads typed input: whole chunks by readline or libedit, or plain lines, depending on the build and on the
 * terminal.
 *
 * Readline is used through its callback interface: this file waits for keys itself, so that a signal ends the wait
 * and never jumps out of the middle of an editor. The keys' functions are in keys.c.
 *
 * History is stored in $XDG_STATE_HOME/rille/history; a chunk of several lines is one entry. Each entry is appended
 * to the file when it is entered, so that nothing is lost however the program ends. The file is read again after
 * another shell has appended to it. A line that begins with a space is not stored. */
#include "shell/repl/edit.h"
#include "shell/bind/base/environment.h"
#include "shell/run/interrupt.h"
#include "shell/repl/keys.h"
#include "runtime/base/system.h"

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

/* reasons why editing ended. PRESSED: Ctrl-C. GIVEN_UP: Ctrl-D in a chunk. */
enum { PRESSED = 1, GIVEN_UP };
static volatile sig_atomic_t interrupted, resized;

static void
on_interrupt(int number)
{
    (void)number;
    interrupted = PRESSED;
}

/* descriptor that is readable while a visitor (rille attach) needs the Lua state; -1: none */
static int visitors = -1;
static void (*let_in)(void);

void
edit_visitors(int fd, void (*come)(void))
{
    visitors = fd;
    let_in = come;
}

/* Waits once. Returns true if a key was pressed; false if the terminal was resized, or a visitor (rille attach)
 * needs the Lua state. */
static bool
wait_once(const sigset_t *outside)
{
    struct pollfd in[] = {{.fd = 0, .events = POLLIN}, {.fd = visitors, .events = POLLIN}};
    sigset_t inside;
    bool again = system_poll(in, 2, NULL, outside) < 0 && errno == EINTR;
    if (resized) keys_resized();
    resized = 0;
    if (again || !in[1].revents) return !again;
    sigprocmask(SIG_SETMASK, outside, &inside);
    let_in();
    sigprocmask(SIG_SETMASK, &inside, NULL);
    return in[0].revents;
}

/* Waits for a key. Returns false after Ctrl-C, or if a signal has asked the program to end. Signals are unblocked
 * only while waiting, so that none is missed. */
static bool
wait_key(void)
{
    sigset_t outside, inside;
    sigemptyset(&inside);
    sigaddset(&inside, SIGINT);
    sigaddset(&inside, SIGTERM);
    sigaddset(&inside, SIGHUP);
    sigaddset(&inside, SIGWINCH);
    sigprocmask(SIG_BLOCK, &inside, &outside);
    while (!interrupted && !interrupt_quit() && !wait_once(&outside)) {
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
    /* sets the handler before the prompt is printed, because the user may press Ctrl-C as soon as the prompt
     * appears */
    catch_interrupt(&before);
    fputs(prompt, stdout);
    fflush(stdout);
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

static bool plain; /* true: the terminal cannot move its cursor */
static char *got;
static bool ended;
static char history_path[PATH_MAX];
static off_t history_size;

void
edit_give_up(void)
{
    interrupted = GIVEN_UP;
}

#if defined RILLE_READLINE

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
append_entry(void)
{
    write_history(history_path);
}

#endif

/* ---- reading ---- */

static void read_entries(void);

static void
on_resize(int number)
{
    (void)number;
    resized = 1;
}

#if defined RILLE_READLINE

static bool no_more; /* true: the input has ended; readline treats the end as Enter if text was typed */

static int
get_key(FILE *from)
{
    int key = rl_getc(from);
    no_more |= key == EOF;
    return key;
}

#else
enum { no_more = false };
#endif

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
    struct sigaction before;
    if (plain) return plain_line(prompt, line);
    read_entries();
    ended = false;
    catch_interrupt(&before);
    rl_callback_handler_install(prompt, on_line);
    while (!ended && !interrupted && wait_key()) {
        rl_callback_read_char();
        if (no_more && !ended) edit_give_up();
    }
    if (!ended) {
        keys_leave(interrupted == PRESSED ? "^C" : interrupted ? "^D" : "");
        rl_callback_handler_remove();
        puts("");
    }
    sigaction(SIGINT, &before, NULL);
    *line = ended ? got : NULL;
    if (!interrupted) return *line ? EDIT_LINE : EDIT_EOF;
    free(*line); /* Ctrl-C may arrive together with the end of the line; the line is then discarded */
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

/* Reads the history file if it has changed, for instance because another shell has appended to it. */
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
    plain = !term || !*term || !strcmp(term, "dumb");
#if !defined RILLE_READLINE
    /* plain is true for a pipe, too, because libedit does not report the end of a pipe */
    plain = plain || !isatty(0);
#endif
    rl_readline_name = "rille";
#if defined RILLE_READLINE
    rl_getc_function = get_key;
    history_write_timestamps = 1; /* timestamps make readline read an entry of several lines back as one entry */
    history_comment_char = '#';
#endif
    if (!plain) keys_open(L);
    if (!plain) signal(SIGWINCH, on_resize);
    using_history();
    stifle_history(HISTORY_ENTRIES);
    find_history();
    bool there = history_path[0] && !stat(history_path, &st);
    /* only a regular file is used, because opening a pipe would block */
    if (there && !S_ISREG(st.st_mode)) history_path[0] = 0;
    if (there && S_ISREG(st.st_mode) && st.st_size > HISTORY_BYTES)
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
