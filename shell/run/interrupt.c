/* interrupt.c - Ctrl-C, SIGTERM and signals like it: stop the running code and keep the session.
 *
 * The first Ctrl-C stops Lua and the core. For Lua, a hook is set in every active coroutine (running, or waiting
 * for one that it resumed) and raises "interrupted" at the next instruction. The core stops its run at the next
 * act, or when the updates of variables that have begun are complete. A second Ctrl-C prints what the program
 * waits for. After a second press at a prompt the hook stays set, so that a loop around pcall cannot catch the
 * error for ever; no number of presses ends the program. In a script the second press raises the error again, and
 * the third ends the program. The count starts again if the error of the last press was raised and a few seconds
 * have passed. Hooks are per coroutine, and Lua does not report which coroutines run; coroutine.c does.
 *
 * A line of a visitor (an attached prompt, attached.c) runs by the same means: a signal handler sets a hook, which
 * runs the line between two Lua instructions, unless a core call is in progress. In the array `chain`, the
 * coroutines of a visitor's line follow those of the program. The visitor's Ctrl-C stops only the coroutines of
 * the line.
 *
 * SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP (the terminal was closed) also stop the running code, and then end the
 * program, unless the program handles the signal with rille.stopping(). The program ends at once on a second such
 * signal, when the running code has not reacted for a few seconds (a timer), or on the first signal if no Lua code
 * runs. At a prompt history needs no saving, because each entry is already in its file. */
#include "shell/bind/base/clock.h"
#include "shell/run/interrupt.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/module/lua_stopping.h"
#include "shell/run/pattern.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { SOON = 3 };     /* s: presses of Ctrl-C count together if each follows the previous one within this time */
enum { PATIENCE = 5 }; /* s: time that running code has to react to a request to end */
enum { DEPTH = 256 };  /* maximum depth of nested coroutines; Lua's limit is lower */

static lua_State *chain[DEPTH]; /* the main state, the coroutine that it resumed, and so on */
static volatile sig_atomic_t depth, presses, quit, closing;
static volatile sig_atomic_t told = 1; /* true: the running code has received the last Ctrl-C */
static bool interactive;
static struct shell *shell; /* the shell whose session Ctrl-C interrupts */
static struct sigaction before;
static void (*visitor)(lua_State *L);
static volatile sig_atomic_t knocked, nested,
    visitor_presses; /* nested: index in `chain` of the state that runs a line of an attached prompt; 0: none */

static void
enter_visit(lua_State *co)
{
    if (depth < DEPTH) chain[depth] = co;
    depth = depth + 1;
}

/* Returns true if the hook stays set after it has raised the error: after a second press at a prompt, everything
 * that Lua runs is stopped until the prompt is back. */
static bool
stays_set(void)
{
    return quit || (interactive && presses >= 2) || visitor_presses >= 2;
}

static void visit(lua_State *L, lua_Debug *ar);

/* Sets the hook visit(), which runs a line that was typed in `rille attach`. Does nothing if another hook is set,
 * because that hook stops the running code. */
static void
let_interrupt_in(lua_State *L)
{
    lua_Hook is = lua_gethook(L);
    if (!is || is == visit) lua_sethook(L, visit, LUA_MASKCOUNT, 1);
}

static void
let_knock_in(lua_State *L)
{
    if (knocked && !nested) let_interrupt_in(L);
}

static void
clear_hook(lua_State *L)
{
    lua_sethook(L, NULL, 0, 0);
    let_knock_in(L);
}

/* Notes that the running code has received the last Ctrl-C, or the request to end. */
static void
was_told(void)
{
    told = 1;
    if (quit) alarm(0);
}

static void
stop_hook(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    was_told();
    shell->ninterrupt++;
    if (!stays_set()) clear_hook(L);
    luaL_error(L, quit ? "the program is ending" : "interrupted");
}

static void
stop_from(int first)
{
    int mask = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
    for (int k = first; k < depth && k < DEPTH; k++) lua_sethook(chain[k], stop_hook, mask, 1);
    if (depth && shell->session) rille_interrupt(shell->session);
    pattern_stop();
}

static void
interrupt_stop_all(void)
{
    stop_from(0);
}

/* Writes all of the text to stderr, without allocation, because signal handlers call this function. */
static void
notify_user(const char *text)
{
    ssize_t written = write(2, text, strlen(text));
    (void)written;
}

static void
tell_wait(void)
{
    char doing[200] = "";
    if (shell->session) rille_doing(shell->session, doing, sizeof doing);
    notify_user("\nwaiting for ");
    notify_user(doing[0] ? doing : "a function of Lua's own, which");
    notify_user(doing[0] ? ", which cannot be stopped at once" : " cannot be stopped");
    notify_user(interactive ? "; Ctrl-\\ ends the program\n" : "; a third Ctrl-C ends the program\n");
}

static void
count_press(void)
{
    static double last;
    double now = clock_seconds();
    presses = !told || now - last <= SOON ? presses + 1 : 1;
    told = 0;
    last = now;
}

static void
interrupt_on_press(int number)
{
    count_press();
    if (presses >= 3 && !interactive) stopping_exit(number);
    interrupt_stop_all();
    if (presses == 2) tell_wait();
}

static void
on_quit(int number)
{
    stopping_note(number);
    if (quit) return;
    if (!depth && !closing && !interactive) stopping_now(number);
    quit = number;
    if (depth || closing) alarm(PATIENCE);
    if (closing) return;
    interrupt_stop_all();
}

/* Ends the program at once, because the running code has not reacted to the request to end. */
static void
on_alarm(int number)
{
    stopping_now(quit ? quit : number);
}

void
interrupt_close(void)
{
    closing = 1;
}

void
interrupt_catch(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    stopping_catch(on_quit, 0);
}

void
interrupt_interactive(void)
{
    interrupt_catch();
    stopping_decline();
    interactive = true;
}

int
interrupt_quit(void)
{
    return quit;
}

/* Called regularly by the core during long work on texts and files. Returns true, which stops the work, if the
 * running Lua code has not received the last Ctrl-C. */
static bool
gave_up(void *arg)
{
    (void)arg;
    return !told;
}

/* Clears the hooks, which need not raise "interrupted" again. Called when the core itself has reported this
 * error. */
static void
spent(void)
{
    was_told();
    for (int k = nested; !stays_set() && k < depth && k < DEPTH; k++) clear_hook(chain[k]);
}

void
interrupt_start(lua_State *L)
{
    struct sigaction action;
    if (depth) { /* the line of an attached prompt begins while the program runs */
        nested = depth;
        enter_visit(L);
        return;
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = interrupt_on_press;
    sigemptyset(&action.sa_mask);
    shell = shell_of(L);
    chain[0] = L;
    depth = 1;
    presses = 0;
    told = 1;
    sigaction(SIGINT, &action, &before);
    if (knocked) let_interrupt_in(L);
}

void
interrupt_stop(void)
{
    if (!nested) sigaction(SIGINT, &before, NULL);
    if (quit) alarm(0);
    for (int k = nested; k < depth && k < DEPTH; k++) lua_sethook(chain[k], NULL, 0, 0);
    depth = nested;
    nested = visitor_presses = 0;
}

int
interrupt_count(void)
{
    return presses;
}

bool
interrupt_untold(void)
{
    return depth && interactive && (quit || !told);
}

/* ---- visitors ---- */

/* Runs the visitor's line, which was typed in an attached prompt. If a core call that has called Lua is in
 * progress (a trace, or the function of a live number), returns and leaves the hook set. The line then runs when
 * the core call is over. */
static void
visit(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    if (rille_tracing(shell->session) || shell->asking) return;
    knocked = 0;
    for (int k = 0; k < depth && k < DEPTH; k++)
        if (lua_gethook(chain[k]) == visit) lua_sethook(chain[k], NULL, 0, 0);
    /* clears the hook that this coroutine inherited from its creator */
    if (lua_gethook(L) == visit) lua_sethook(L, NULL, 0, 0);
    visitor(L);
    /* sets the hook again if another attached prompt needs the Lua state, because interrupt_knock() could not set
     * the hook while the line ran */
    for (int k = 0; knocked && k < depth && k < DEPTH; k++) let_interrupt_in(chain[k]);
}

void
interrupt_visitor(void (*come)(lua_State *L))
{
    visitor = come;
}

void
interrupt_knock(void)
{
    knocked = 1;
    for (int k = 0; !nested && k < depth && k < DEPTH; k++) let_interrupt_in(chain[k]);
}

void
interrupt_visit(void)
{
    visitor_presses = visitor_presses + 1;
    stop_from(nested);
}

/* ---- opening ---- */

static void
leave_visit(void)
{
    depth = depth - 1;
}

/* rille._forget_presses(), for tests: makes the next press count as the first. */
static int
forget_presses(lua_State *L)
{
    (void)L;
    presses = 0;
    spent();
    return 0;
}

void
interrupt_open(lua_State *L)
{
    lua_getglobal(L, "rille");
    field_function(L, "_forget_presses", forget_presses);
    lua_pop(L, 1);
    struct shell *sh = shell_of(L);
    sh->cancelled = spent;
    sh->entered = enter_visit;
    sh->left = leave_visit;
    sh->unhooked = let_knock_in;
    rille_stop_when(gave_up, NULL);
}
