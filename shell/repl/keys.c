/* keys.c - key bindings of the line editor, and the display of the chunk being typed.
 *
 * Enter runs a complete chunk, and begins a new line in an incomplete chunk. Arrow keys move within the chunk, and
 * into the history at its first and last line. Tab completes. With colours, paint.c draws the chunk. Without colours,
 * readline draws a copy of the chunk that contains the prompts of all lines. Libedit supports neither way of drawing,
 * so with libedit the user edits single lines. */
#include "shell/repl/keys.h"
#include "shell/repl/paint.h"
#include "shell/repl/edit.h"
#include "shell/repl/repl.h"
#include "shell/repl/complete.h"
#include "shell/repl/chunk.h"
#include "shell/repl/token.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#if defined RILLE_READLINE
#include <readline/readline.h>
#elif defined RILLE_EDITLINE
#include <editline/readline.h>
#endif

#if defined RILLE_READLINE || defined RILLE_EDITLINE

static lua_State *state; /* Lua state on which completion runs */

/* ---- completion ---- */

static int
keys_complete_protected(lua_State *L)
{
    repl_push_environment(L);
    int begin = complete(L, lua_gettop(L), lua_tostring(L, 1), (int)lua_tointeger(L, 2));
    lua_pushinteger(L, begin);
    return 2;
}

/* Pushes the list of completions of the line up to `end`. Returns the position at which the completed word begins;
 * -1: there are no completions, and nothing is pushed. */
static int
push_words(const char *line, int end)
{
    lua_pushcfunction(state, keys_complete_protected);
    lua_pushstring(state, line);
    lua_pushinteger(state, end);
    bool good = lua_pcall(state, 2, 2, 0) == LUA_OK;
    int begin = good ? (int)lua_tointeger(state, -1) : -1;
    lua_pop(state, 1);
    return begin;
}

#if defined RILLE_READLINE

/* ---- many lines ---- */

static bool colours; /* true: the typed text is drawn in colours */
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

/* Returns true if more input is waiting: then the text is pasted, and has its own indentation. */
static bool
keys_wait(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    return poll(&in, 1, 0) > 0;
}

static int indented; /* position after the automatic indentation of the last line, in bytes */

static bool
begins_with_end(const char *line)
{
    static const char *const closing[] = {"end", "until", "else", "elseif", "}", ")", NULL};
    struct token first = token_next(line);
    return token_is_any(&first, closing);
}

/* Reduces the automatic indentation of a line that begins with "end" to the indentation of its block. */
static void
pull_back(void)
{
    int start = line_start(rl_point), spaces = (int)strspn(rl_line_buffer + start, " ");
    bool ours = start > 0 && start + spaces == indented && spaces >= INDENT;
    indented = 0;
    if (!ours || !begins_with_end(rl_line_buffer + start)) return;
    rl_delete_text(start, start + INDENT);
    rl_point -= INDENT;
}

/* Returns the number of columns by which the next line is indented more than this line. */
static int
further_in(const char *line)
{
    int depth = 0;
    struct token t;
    for (const char *at = line; (t = token_next(at)).kind != T_END; at = token_after(&t)) depth += token_depth(&t);
    if (depth < 0 && begins_with_end(line)) return 0; /* pull_back() has already reduced the indentation of this line */
    return depth > 0 ? INDENT : depth < 0 ? -INDENT : 0;
}

/* Inserts a newline and indents like the line before, one level more if that line opens a block, one level less if it
 * closes a block. */
static void
insert_line(void)
{
    int start = line_start(rl_point), indent = (int)strspn(rl_line_buffer + start, " ");
    char *line = strndup(rl_line_buffer + start, (size_t)(rl_point - start));
    if (!line) return;
    indent += further_in(line);
    free(line);
    rl_insert_text("\n");
    if (keys_wait()) return;
    for (int k = indent; k > 0; k--) rl_insert_text(" ");
    indented = line_start(rl_point) + (indent > 0 ? indent : 0);
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

static void leave_chunk(void), show_last(void);

static int
on_enter(int count, int key)
{
    if (rl_line_buffer[strspn(rl_line_buffer, " \t\n")] && wants_more()) return pull_back(), insert_line(), 0;
    pull_back();
    if (!colours) {
        show_last();
        return rl_newline(count, key);
    }
    leave_chunk();
    /* sets rl_done, because rl_newline() would search for the end of text that readline has not drawn */
    rl_done = 1;
    RL_SETSTATE(RL_STATE_DONE);
    return 0;
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

/* Handles Ctrl-D: on an empty last line, discards the chunk. (In an empty buffer Ctrl-D ends the input.) */
static int
on_delete(int count, int key)
{
    bool last = rl_point == rl_end && line_start(rl_point) > 0;
    if (!last || rl_line_buffer[line_start(rl_point) + (int)strspn(rl_line_buffer + line_start(rl_point), " ")])
        return rl_delete(count, key);
    edit_give_up();
    return 0;
}

/* ---- drawing the chunk on the terminal ---- */

/* Draws a prompt on every line, although readline knows only one prompt: readline is given a copy of the text with
 * the prompts in it. */
static void
show_plain(void)
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

static int
hint_protected(lua_State *L)
{
    return complete_hint(L, lua_tostring(L, 1), (int)lua_tointeger(L, 2));
}

/* Pushes and returns the signature of the function called at the cursor; if there is none, pushes a value that is no
 * string and returns NULL. */
static const char *
push_hint(void)
{
    lua_pushcfunction(state, hint_protected);
    lua_pushstring(state, rl_line_buffer);
    lua_pushinteger(state, rl_point);
    lua_pcall(state, 2, 1, 0);
    return lua_tostring(state, -1);
}

static void
show_painted(bool with_hint)
{
    struct paint p = {.prompt = rl_display_prompt ? rl_display_prompt : "",
                      .more = PROMPT_MORE,
                      .text = rl_line_buffer,
                      .cursor = rl_point};
    rl_get_screen_size(&p.rows, &p.columns);
    int before = lua_gettop(state);
    if (with_hint && rl_point == rl_end && rl_end > 0) p.hint = push_hint();
    paint(rl_outstream, &p);
    lua_settop(state, before);
}

/* Redraws after each key. If more keys are waiting, only the last of them draws. */
static void
redisplay(void)
{
    if (!colours)
        show_plain();
    else if (!keys_wait())
        show_painted(!RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH));
}

/* Redraws with the cursor after the chunk and without a hint, because output will be printed below the chunk. */
static void
show_last(void)
{
    rl_point = rl_end;
    if (colours)
        show_painted(false);
    else
        show_plain();
}

/* Moves to the row below the chunk; later drawing starts there and leaves the rows above unchanged. */
static void
leave_chunk(void)
{
    int point = rl_point;
    show_last();
    rl_crlf();
    paint_forget();
    rl_point = point;
}

/* ---- Tab ---- */

enum { WORDS = 200 }; /* maximum number of completions listed */

/* Returns the part of a completion that the list shows: a path without its folders. */
static const char *
last_part(const char *word)
{
    size_t n = strlen(word);
    while (n > 1 && word[n - 2] != '/') n--;
    return n > 1 ? word + n - 1 : word;
}

static const char *
key_word_at(int list, int k)
{
    lua_rawgeti(state, list, k);
    const char *word = lua_tostring(state, -1);
    lua_pop(state, 1); /* the pointer stays valid, because the list refers to the string */
    return word;
}

static void
print_words(int list, int n)
{
    int rows, columns, wide = 0, most = n < WORDS ? n : WORDS;
    rl_get_screen_size(&rows, &columns);
    for (int k = 1; k <= most; k++) {
        int width = (int)strlen(last_part(key_word_at(list, k))) + 2;
        wide = width > wide ? width : wide;
    }
    int across = columns / wide > 0 ? columns / wide : 1, down = (most + across - 1) / across;
    for (int r = 0; r < down; r++) {
        for (int c = 0; c < across && c * down + r < most; c++)
            fprintf(rl_outstream, "%-*s", c == across - 1 || (c + 1) * down + r >= most ? 0 : wide,
                    last_part(key_word_at(list, c * down + r + 1)));
        fputs("\r\n", rl_outstream);
    }
    if (n > most) fprintf(rl_outstream, "... and %d more\r\n", n - most);
}

static void
list_key_words(int list, int n)
{
    leave_chunk();
    print_words(list, n);
    rl_on_new_line();
    if (colours)
        show_painted(true);
    else
        rl_forced_update_display();
}

/* Returns the length of the longest common prefix, in bytes. */
static size_t
common_prefix(int list, int n)
{
    const char *first = key_word_at(list, 1);
    size_t size = strlen(first);
    for (int k = 2; k <= n; k++) {
        const char *word = key_word_at(list, k);
        size_t same = 0;
        while (same < size && word[same] == first[same]) same++;
        size = same;
    }
    return size;
}

static void
replace_text(int begin, const char *text, size_t size)
{
    char *copy = strndup(text, size);
    if (!copy) return;
    rl_begin_undo_group();
    rl_delete_text(begin, rl_point);
    rl_point = begin;
    rl_insert_text(copy);
    rl_end_undo_group();
    free(copy);
}

/* Handles Tab: extends the word by the longest common prefix of all completions; if that adds nothing, lists the
 * completions. */
static int
on_tab(int count, int key)
{
    (void)count, (void)key;
    int start = line_start(rl_point);
    if (start > 0 && start + (int)strspn(rl_line_buffer + start, " ") >= rl_point) return rl_insert_text("  "), 0;
    int before = lua_gettop(state), begin = push_words(rl_line_buffer, rl_point), list = lua_gettop(state);
    int n = begin < 0 ? 0 : (int)lua_rawlen(state, list);
    size_t typed = (size_t)(rl_point - begin), size = n ? common_prefix(list, n) : 0;
    if (n == 0)
        rl_ding();
    else if (size > typed || n == 1)
        replace_text(begin, key_word_at(list, 1), size);
    else
        list_key_words(list, n);
    lua_settop(state, before);
    return 0;
}

static int
on_clear(int count, int key)
{
    if (!colours) return rl_clear_screen(count, key);
    fputs("\033[H\033[2J", rl_outstream);
    paint_forget();
    show_painted(true);
    return 0;
}

static void
bind_keys(void)
{
    static const struct {
        const char *keys;
        rl_command_func_t *run;
    } binding[] = {{"\\C-m", on_enter}, {"\\C-j", on_enter}, {"\\e\\C-m", on_more}, {"\\C-d", on_delete},
                   {"\\e[A", on_up},    {"\\eOA", on_up},    {"\\C-p", on_up},      {"\\e[B", on_down},
                   {"\\eOB", on_down},  {"\\C-n", on_down},  {"\\C-i", on_tab},     {"\\C-l", on_clear}};
    for (size_t k = 0; k < sizeof binding / sizeof *binding; k++) rl_bind_keyseq(binding[k].keys, binding[k].run);
}

void
keys_open(lua_State *L)
{
    state = L;
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    colours = shell_of(state)->color;
    rl_initialize();
    /* redisplay is set after rl_initialize(), because otherwise bracketed paste would stay off */
    rl_redisplay_function = redisplay;
    bind_keys();
}

/* Ends editing and prints `why`. Call it after everything else that draws, and before the line handler is removed,
 * because the removal moves the cursor to the start of the line. */
void
keys_leave(const char *why)
{
    rl_free_line_state();
    rl_callback_sigcleanup();
    show_last();
    fputs(why, rl_outstream);
    fflush(rl_outstream);
    paint_forget();
}

void
keys_resized(void)
{
    rl_resize_terminal();
}

#else

/* Returns a copy of the next word of the list at the top of Lua's stack; NULL at the end. */
static char *
next_completion(const char *text, int again)
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

static char **
on_complete(const char *text, int start, int end)
{
    char **words = NULL;
    rl_attempted_completion_over = 1;
    int begin = push_words(rl_line_buffer, end);
    if (begin < 0) return NULL;
    if (begin == start) words = rl_completion_matches(text, next_completion);
    lua_pop(state, 1);
    return words;
}

void
keys_open(lua_State *L)
{
    state = L;
    rl_attempted_completion_function = on_complete;
    rl_completer_word_break_characters = " \t\n\"'`@$><=;|&{}()[]+-*/%^#~,.:";
}

void
keys_leave(const char *why)
{
    fputs(why, stdout);
}

void
keys_resized(void)
{
}

#endif
#else

void
keys_resized(void)
{
}

#endif
