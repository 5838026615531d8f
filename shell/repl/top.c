/* top.c - :top EXPR: shows, several times a second, what the device threads do or wait for while an expression
 * runs.
 *
 * A timer thread signals the thread that runs the expression. The signal handler samples the work of each device
 * thread, also of workers on this host, and counts the samples in a table. Another thread paints the table. So the
 * display hardly slows the run, and never reads a plan that has been freed. The key q closes the display, but does
 * not stop the run; Ctrl-C stops the run.
 *
 * :top alone shows the memory and the current work of the devices, for example of a run in the background, and how
 * many acts per second they perform. */
#include "shell/repl/top.h"
#include "runtime/base/system.h"
#include "shell/bind/base/fold.h"
#include "shell/bind/base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 64, NAMES = 128, TEXT = 200, HERTZ = 100, PAINTS = 4, SHOWN = 12 };
/* searches the cause of a thread's wait in every tenth sample only, because the search is slow */
enum { WAITS_EVERY = 10 };

struct sampled { /* one activity of threads: an act, or the cause of a wait */
    char text[TEXT];
    atomic_long count;
};

static struct {
    struct rille_session *s;
    struct sampled name[NAMES]; /* the first nname entries are used; the text of a used entry never changes */
    atomic_int nname;
    atomic_long sample, busy[THREADS];
    atomic_int nthread;
    atomic_bool over, dark; /* over: the run has ended; dark: the display was closed */
    double begin;           /* start of the run, s (clock_seconds()) */
} top;

/* ---- taking samples, in a signal handler ---- */

static void
format_count(const char *text, int samples)
{
    int n = atomic_load(&top.nname);
    for (int k = 0; k < n; k++) {
        if (strcmp(top.name[k].text, text)) continue;
        atomic_fetch_add(&top.name[k].count, samples);
        return;
    }
    if (n == NAMES) return;
    strcpy(top.name[n].text, text);
    atomic_store(&top.name[n].count, samples);
    atomic_store(&top.nname, n + 1);
}

static void
sample(int number)
{
    char text[TEXT];
    (void)number;
    bool waits = atomic_fetch_add(&top.sample, 1) % WAITS_EVERY == WAITS_EVERY / 2;
    for (int t = 0; t < THREADS && rille_doing_thread(top.s, t, text, sizeof text); t++) {
        if (t >= atomic_load(&top.nthread)) atomic_store(&top.nthread, t + 1);
        if (*text) {
            atomic_fetch_add(&top.busy[t], 1);
            format_count(text, 1);
        } else if (waits && rille_waiting_thread(top.s, t, text, sizeof text) && *text) {
            format_count(text, WAITS_EVERY);
        }
    }
}

/* ---- painting ---- */

static void
put_bar(FILE *f, double share, int width)
{
    int full = (int)(share * width + 0.5);
    for (int k = 0; k < width; k++) fputs(k < full ? "█" : "·", f);
}

static int
compare_top_counts(const void *a, const void *b)
{
    long x = atomic_load(&(*(struct sampled *const *)a)->count), y = atomic_load(&(*(struct sampled *const *)b)->count);
    return (x < y) - (x > y);
}

/* Paints the table. Returns the number of lines written. */
static int
paint_top(FILE *f, int columns, bool over)
{
    long samples = atomic_load(&top.sample);
    int n = atomic_load(&top.nname), nthread = atomic_load(&top.nthread), lines = 1, bar = columns < 60 ? 16 : 32;
    struct sampled *list[NAMES];
    const char *clear = over ? "" : "\033[K";
    fprintf(f, "  %.1f s%s%s\n", clock_seconds() - top.begin, over ? "" : "; q leaves this, Ctrl-C stops the run",
            clear);
    for (int t = 0; t < nthread; t++, lines++) {
        double share = samples ? (double)atomic_load(&top.busy[t]) / (double)samples : 0;
        fprintf(f, "  thread %-3d ", t);
        put_bar(f, share, bar);
        fprintf(f, " %3.0f %%%s\n", 100 * share, clear);
    }
    for (int k = 0; k < n; k++) list[k] = &top.name[k];
    qsort(list, (size_t)n, sizeof *list, compare_top_counts);
    for (int k = 0; k < n && k < SHOWN; k++, lines++)
        fprintf(f, "  %5.1f %%  %.*s%s\n",
                100.0 * (double)atomic_load(&list[k]->count) / (double)(samples * (nthread ? nthread : 1)),
                columns < 32 ? 20 : columns - 12, list[k]->text, clear);
    if (!over) fputs("\033[J", f);
    fflush(f);
    return lines;
}

/* Waits until the next picture is due. Returns true after the key q, at the end of input, or after Ctrl-C if the
 * terminal delivers it as a key. */
static bool
pressed_q(void)
{
    struct pollfd p = {.fd = 0, .events = POLLIN};
    char key;
    if (poll(&p, 1, 1000 / PAINTS) <= 0) return false;
    return read(0, &key, 1) != 1 || key == 'q' || key == 'Q' || key == '\003';
}

static void *
painter(void *columns)
{
    int lines = 0;
    while (!atomic_load(&top.over)) {
        if (pressed_q()) {
            atomic_store(&top.dark, true);
            break;
        }
        if (lines) printf("\033[%dA\r", lines);
        lines = paint_top(stdout, *(int *)columns, false);
    }
    if (lines) printf("\033[%dA\r\033[J", lines);
    fflush(stdout);
    return NULL;
}

/* ---- starting and ending the display ---- */

struct watch {
    struct sigaction before;
    struct termios terminal;
    /* watched: thread of the expression. timer: thread that sends the samples' signals. painter: thread that
     * paints the table. */
    pthread_t watched, timer, painter;
    bool live, painting;
    int columns;
};

static void *
send_ticks(void *arg)
{
    struct watch *w = arg;
    struct timespec period = {.tv_nsec = 1000000000 / HERTZ};
    while (!atomic_load(&top.over)) {
        nanosleep(&period, NULL);
        pthread_kill(w->watched, SIGPROF);
    }
    return NULL;
}

/* Starts the timer thread, which sends SIGPROF to the calling thread. The calling thread runs the expression, and no
 * other thread frees plans. So no plan is freed while the signal's handler reads it. */
static bool
start_timer(struct watch *w)
{
    struct sigaction a = {.sa_handler = sample, .sa_flags = SA_RESTART};
    w->watched = pthread_self();
    sigaction(SIGPROF, &a, &w->before);
    return !system_thread_start(&w->timer, send_ticks, w);
}

/* Makes the terminal deliver keys one by one. too: further terminal flags to clear. Returns false if there is no
 * terminal. */
static bool
start_keys(struct termios *before, tcflag_t too)
{
    if (!isatty(0) || !isatty(1) || tcgetattr(0, before)) return false;
    struct termios raw = *before;
    raw.c_lflag &= ~(ICANON | ECHO | too);
    return tcsetattr(0, TCSANOW, &raw) == 0;
}

static void
start_painter(struct watch *w)
{
    if (!start_keys(&w->terminal, 0)) return; /* clears no further flags, so that Ctrl-C remains a signal */
    w->painting = !system_thread_start(&w->painter, painter, &w->columns);
    if (!w->painting) tcsetattr(0, TCSANOW, &w->terminal);
}

static void
stop_watch(struct watch *w)
{
    atomic_store(&top.over, true);
    if (w->painting) {
        pthread_join(w->painter, NULL);
        tcsetattr(0, TCSANOW, &w->terminal);
    }
    if (w->live) pthread_join(w->timer, NULL);
    sigaction(SIGPROF, &w->before, NULL);
}

/* ---- workers ---- */

static double
rate(int64_t now, int64_t before, double seconds)
{
    return seconds > 0 ? (double)(now - before) / seconds : 0;
}

enum { WORKERS = 64 };
struct worked { /* counters of the workers of all hosts at the last picture, in the order of the list */
    double busy[WORKERS];
    int64_t acts[WORKERS];
};

static void
note_workers(struct rille_session *s, struct worked *out)
{
    struct rille_worker_info w;
    for (int i = 0; i < WORKERS && rille_worker_info(s, i, &w); i++) {
        out->busy[i] = w.busy;
        out->acts[i] = w.acts;
    }
}

/* Paints what the workers have done since the counters in `before` were read, and updates `before`. Workers report
 * their counters at the end of runs. Returns the number of lines written. */
static int
paint_workers(struct rille_session *s, struct worked *before, double seconds, const char *clear)
{
    struct rille_worker_info w;
    int i;
    for (i = 0; i < WORKERS && rille_worker_info(s, i, &w); i++) {
        double share = seconds > 0 ? (w.busy - before->busy[i]) / seconds : 0;
        printf("  worker %-3d %-16.16s %-8s %9.1f acts per second, busy %3.0f %%", w.rank, w.host, w.state,
               rate(w.acts, before->acts[i], seconds), 100 * share);
        if (w.slow > 0) printf(", slow: %.1f times as long as others", w.slow);
        printf("%s\n", clear);
    }
    note_workers(s, before);
    return i;
}

/* ---- :top EXPR ---- */

int
top_run(lua_State *L, int nargs)
{
    struct watch w = {.columns = print_columns()};
    struct worked worked;
    memset(&top, 0, sizeof top);
    top.s = shell_of(L)->session;
    note_workers(top.s, &worked);
    top.begin = clock_seconds();
    w.live = start_timer(&w);
    start_painter(&w);
    int code = lua_pcall(L, nargs, LUA_MULTRET, 0);
    double seconds = clock_seconds() - top.begin;
    stop_watch(&w);
    paint_top(stdout, w.columns, true);
    if (rille_in_cluster(top.s)) paint_workers(top.s, &worked, seconds, "");
    return code;
}

/* ---- :top alone ---- */

static void
put_top_counters(const struct rille_counters *c, const struct rille_counters *before, double seconds, const char *clear)
{
    const struct {
        const char *name;
        int64_t now, before;
    } row[] = {
        {"runs", c->runs, before->runs}, {"acts", c->acts, before->acts}, {"messages", c->messages, before->messages}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        printf("  %-8s %9lld %8.1f per second%s\n", row[k].name, (long long)row[k].now,
               rate(row[k].now, row[k].before, seconds), clear);
}

/* Paints the state of the session. Returns the number of lines written. */
static int
paint_session(struct rille_session *s, struct rille_counters *before, struct worked *worked, double seconds,
              const char *clear)
{
    struct rille_device_info d;
    struct rille_counters now = {0};
    char doing[TEXT];
    int i, columns = print_columns();
    for (i = 0; rille_device_info(s, i, &d); i++) {
        doing[0] = 0;
        if (d.thread < 0)
            strcpy(doing, "on another host"); /* the line of the device's worker shows how busy the device is */
        else
            /* doing is empty before the first run on that thread */
            rille_doing_thread(s, d.thread, doing, sizeof doing);
        printf("  %s:%-3d %9.1f MiB live  ", d.kind, d.device, (double)d.live_bytes / 1048576);
        if (columns >= 70) printf("%9.1f MiB peak     ", (double)d.peak_bytes / 1048576);
        printf("%.*s%s\n", columns < 80 ? 9 : columns - 60, *doing ? doing : "idle", clear);
    }
    if (i == 0) printf("  no device was used yet%s\n", clear), i = 1;
    if (rille_in_cluster(s)) i += paint_workers(s, worked, seconds, clear);
    rille_count(s, &now);
    put_top_counters(&now, before, seconds, clear);
    *before = now;
    return i + 3;
}

void
top_watch(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    struct rille_counters before = {0};
    struct worked worked = {0};
    struct termios terminal;
    double last = clock_seconds();
    rille_count(s, &before);
    int lines = paint_session(s, &before, &worked, 0, "");
    if (!start_keys(&terminal, ISIG)) return;
    printf("  q leaves\n");
    fflush(stdout);
    while (!pressed_q()) {
        double now = clock_seconds(), seconds = now - last;
        last = now;
        printf("\033[%dA\r", lines + 1);
        lines = paint_session(s, &before, &worked, seconds, "\033[K");
        printf("  q leaves\033[K\n\033[J");
        fflush(stdout);
    }
    printf("\033[1A\r\033[J");
    tcsetattr(0, TCSANOW, &terminal);
}
