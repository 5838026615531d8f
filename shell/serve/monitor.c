/* monitor.c - serves metrics to monitoring systems, and stores the numbers that the program reports. */
#include "shell/run/run.h"
#include "shell/serve/monitor.h"

#include "rille.h"
#include "shell/bind/base/clock.h"
#include "shell/run/journal.h"

#include <jansson.h>
#include <lauxlib.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* CONNECTIONS: most connections at a time. IDLE_S: a connection without a request is closed after this time, so that
 * clients that leave connections open cannot keep health probes out for longer, s */
enum { REPORTS = 64, NAME = 64, CONNECTIONS = 32, IDLE_S = 2 };

/* A number that the program reports: the last value, or the sum of all values if `adds`. */
struct report {
    char name[NAME];
    double value;
    bool adds;
};

static struct {
    pthread_mutex_t lock;
    struct report report[REPORTS];
    int nreport;
} reported = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- rille._report ---- */

/* Stores a number. Returns false if there are too many names. */
static bool
set_report(const char *name, double value, bool adds)
{
    int i = 0;
    while (i < reported.nreport && strcmp(reported.report[i].name, name)) i++;
    if (i == REPORTS) return false;
    struct report *r = &reported.report[i];
    if (i == reported.nreport) {
        reported.nreport++;
        *r = (struct report){.adds = adds};
        snprintf(r->name, sizeof r->name, "%s", name);
    }
    r->value = adds ? r->value + value : value;
    return true;
}

/* Returns a number for the log. JSON has no NaN and no infinity, so these become strings. */
static json_t *
log_number(double v)
{
    if (isnan(v)) return json_string("NaN");
    if (isinf(v)) return json_string(v > 0 ? "Infinity" : "-Infinity");
    return fabs(v) < 0x1p53 && v == floor(v) ? json_integer((json_int_t)v) : json_real(v);
}

static void
log_reports(void)
{
    json_t *fields = json_object();
    for (int i = 0; i < reported.nreport; i++) {
        const struct report *r = &reported.report[i];
        json_object_set_new(fields, r->name, log_number(r->value));
    }
    journal_report(fields);
}

/* rille._report(names, values, adds): stores numbers, and passes all stored numbers to the log. Values of the number
 * named `adds` are summed. Returns false if there are more names than a program may have. */
static int
report(lua_State *L)
{
    const char *adds = luaL_checkstring(L, 3);
    bool good = true;
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    pthread_mutex_lock(&reported.lock);
    for (int i = 1; i <= (int)lua_rawlen(L, 1) && good; i++) {
        lua_rawgeti(L, 1, i);
        lua_rawgeti(L, 2, i);
        good = set_report(lua_tostring(L, -2), lua_tonumber(L, -1), !strcmp(lua_tostring(L, -2), adds));
        lua_pop(L, 2);
    }
    log_reports();
    pthread_mutex_unlock(&reported.lock);
    lua_pushboolean(L, good);
    return 1;
}

/* rille._log(event, text): writes an event to the log. */
static int
log_event(lua_State *L)
{
    journal_event(luaL_checkstring(L, 1), luaL_optstring(L, 2, NULL));
    return 0;
}

void
monitor_functions(lua_State *L)
{
    static const luaL_Reg functions[] = {{"_report", report}, {"_log", log_event}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}

#ifdef RILLE_HTTP
#include "shell/serve/http.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static struct {
    struct MHD_Daemon *daemon;
    struct rille_session *session;
    const char *option; /* origin of the address: "--metrics" or "RILLE_METRICS" */
    char job[128];
    char path[sizeof((struct sockaddr_un *)NULL)->sun_path]; /* path of the Unix socket; "": none */
    double start;                                            /* time at which serving started, s (clock_seconds()) */
} monitor;

/* ---- the text ---- */

static void
family(FILE *to, const char *name, const char *type, const char *help)
{
    fprintf(to, "# TYPE rille_%s %s\n# HELP rille_%s %s\n", name, type, name, help);
}

static void
put_sample(FILE *to, double value)
{
    if (value != value)
        fputs(" NaN\n", to);
    else
        fprintf(to, " %.17g\n", value);
}

static void
counter(FILE *to, const char *name, double value, const char *help)
{
    family(to, name, "counter", help);
    fprintf(to, "rille_%s_total", name);
    put_sample(to, value);
}

static void
gauge(FILE *to, const char *name, double value, const char *help)
{
    family(to, name, "gauge", help);
    fprintf(to, "rille_%s", name);
    put_sample(to, value);
}

/* Prints a label's value, escaped as OpenMetrics requires. */
static void
put_label(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', to);
        if (*text == '\n')
            fputs("\\n", to);
        else
            fputc(*text, to);
    }
}

static double
resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return 0;
    if (fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void
put_totals(FILE *to, const struct rille_metrics *m)
{
    double share = m->device_seconds > 0 ? m->busy_seconds / m->device_seconds : 0;
    counter(to, "runs", (double)m->runs, "Runs of plans that succeeded.");
    counter(to, "failed_runs", (double)m->failed_runs, "Runs of plans that failed.");
    counter(to, "run_seconds", m->run_seconds, "Time in runs.");
    counter(to, "device_seconds", m->device_seconds, "Time in runs multiplied by the number of devices.");
    counter(to, "busy_seconds", m->busy_seconds, "Busy time of all devices.");
    gauge(to, "busy_share", share, "Busy share of the devices in all runs; the rest includes pipeline bubbles.");
    counter(to, "compiles", (double)m->compiles, "Plans compiled.");
    counter(to, "snapshots", (double)m->snapshots, "Snapshots taken.");
    counter(to, "losses", (double)m->losses, "Workers lost.");
    counter(to, "recoveries", (double)m->recoveries, "Recoveries from losses of workers.");
    gauge(to, "tensor_bytes", (double)m->tensor_bytes, "Memory of tensors on all devices, after the last run.");
    gauge(to, "arena_bytes", (double)m->arena_bytes, "Memory for intermediate values of runs.");
    gauge(to, "resident_bytes", resident_bytes(), "Resident memory of this process.");
    gauge(to, "uptime_seconds", clock_seconds() - monitor.start, "Time since this process began to serve metrics.");
    family(to, "moved_bytes", "counter", "Bytes sent between devices, by kind of move.");
    for (int i = 0; i < m->nmove; i++)
        fprintf(to, "rille_moved_bytes_total{move=\"%s\"} %lld\n", m->move[i].name, (long long)m->move[i].bytes);
    family(to, "moves", "counter", "Moves between layouts, by kind.");
    for (int i = 0; i < m->nmove; i++)
        fprintf(to, "rille_moves_total{move=\"%s\"} %lld\n", m->move[i].name, (long long)m->move[i].times);
}

/* Prints one metric for all workers: OpenMetrics requires that the samples of a metric stand together. */
static void
put_workers(FILE *to, const char *name, const char *type, const char *help,
            double (*value)(const struct rille_worker_info *w))
{
    struct rille_worker_info w;
    family(to, name, type, help);
    for (int i = 0; rille_worker_info(monitor.session, i, &w); i++) {
        fprintf(to, "rille_%s%s{rank=\"%d\",host=\"", name, strcmp(type, "counter") ? "" : "_total", w.rank);
        put_label(to, w.host);
        fprintf(to, "\"} %.17g\n", value(&w));
    }
}

static double
worker_is_present(const struct rille_worker_info *w)
{
    return strcmp(w->state, "lost") && strcmp(w->state, "absent");
}

static double
heartbeat_age(const struct rille_worker_info *w)
{
    return w->heartbeat;
}

static double
worker_busy(const struct rille_worker_info *w)
{
    return w->busy;
}

static void
put_reports(FILE *to)
{
    pthread_mutex_lock(&reported.lock);
    for (int i = 0; i < reported.nreport; i++) {
        const struct report *r = &reported.report[i];
        char name[NAME + 8];
        snprintf(name, sizeof name, "train_%s", r->name);
        (r->adds ? counter : gauge)(to, name, r->value, "Reported by the program (rille.train.report).");
    }
    pthread_mutex_unlock(&reported.lock);
}

static bool
print_metrics(FILE *to)
{
    struct rille_metrics m;
    family(to, "build", "info", "Version of Rille, name of the job and process id.");
    fprintf(to, "rille_build_info{version=\"%s\",script=\"", rille_version());
    put_label(to, monitor.job);
    fprintf(to, "\",pid=\"%ld\"} 1\n", (long)getpid());
    if (!rille_metrics(monitor.session, &m)) put_totals(to, &m);
    put_workers(to, "worker_present", "gauge", "1: the worker is present; 0: it is absent or lost.", worker_is_present);
    put_workers(to, "worker_heartbeat_seconds", "gauge", "Time since the worker's last heartbeat.", heartbeat_age);
    put_workers(to, "worker_busy_seconds", "counter", "Busy time of the worker's devices.", worker_busy);
    put_reports(to);
    return fputs("# EOF\n", to) >= 0;
}

/* Prints "ready", or the ranks of absent workers. Returns true if all workers are present. */
static bool
print_ready(FILE *to)
{
    struct rille_worker_info w;
    int n = 0, absent = 0;
    for (; rille_worker_info(monitor.session, n, &w); n++) absent += !worker_is_present(&w);
    if (!absent) return fputs("ready\n", to), true;
    fprintf(to, "%d of %d workers are absent: rank", absent, n);
    for (int i = 0; rille_worker_info(monitor.session, i, &w); i++)
        if (!worker_is_present(&w)) fprintf(to, " %d", w.rank);
    fputc('\n', to);
    return false;
}

/* ---- the server ---- */

static const char plain[] = "text/plain; charset=utf-8";

static enum MHD_Result
send_page(struct MHD_Connection *c, int status, const char *type, char *text)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!r) return free(text), MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    enum MHD_Result done = MHD_queue_response(c, (unsigned)status, r);
    MHD_destroy_response(r);
    return done;
}

/* Sends what `print` prints. Sends the status 503 if `print` returns false. */
static enum MHD_Result
send_printed(struct MHD_Connection *c, bool (*print)(FILE *to), const char *type)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to) return MHD_NO;
    bool good = print(to);
    if (fclose(to)) return free(text), MHD_NO;
    return send_page(c, good ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, type, text);
}

static enum MHD_Result
serve_page(void *arg, struct MHD_Connection *c, const char *path, const char *method, const char *version,
           const char *data, size_t *n, void **own)
{
    (void)arg, (void)version, (void)data, (void)own;
    bool reads = !strcmp(method, "GET") || !strcmp(method, "HEAD");
    if (*n) return *n = 0, MHD_YES; /* discards the body of the request */
    if (!reads) return send_page(c, MHD_HTTP_METHOD_NOT_ALLOWED, plain, strdup("expected GET\n"));
    if (!strcmp(path, "/metrics"))
        return send_printed(c, print_metrics, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    if (!strcmp(path, "/healthz")) return send_page(c, MHD_HTTP_OK, plain, strdup("alive\n"));
    if (strcmp(path, "/readyz"))
        return send_page(c, MHD_HTTP_NOT_FOUND, plain, strdup("expected /metrics, /healthz or /readyz\n"));
    return send_printed(c, print_ready, plain);
}

static int
fail_to_open(const char *address, const char *why)
{
    char text[400];
    snprintf(text, sizeof text, "%s: cannot serve at %s: %s", monitor.option, address, why);
    tell_line(text);
    return -1;
}

/* Listens at a Unix socket that only this user can open. Replaces an old socket file if no process serves it, but
 * no other kind of file. Returns the descriptor; -1: errno says why. */
static int
listen_at_path(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof name.sun_path) return errno = ENAMETOOLONG, -1;
    strcpy(name.sun_path, path);
    struct stat there;
    if (!lstat(path, &there) && !S_ISSOCK(there.st_mode)) return errno = EEXIST, -1;
    int fd = system_socket(AF_UNIX, SOCK_STREAM, false);
    if (fd < 0) return -1;
    if (connect(fd, (struct sockaddr *)&name, sizeof name) && errno == ECONNREFUSED) unlink(path);
    mode_t before = umask(0177);
    bool good = !bind(fd, (struct sockaddr *)&name, sizeof name) && !listen(fd, 16);
    umask(before);
    if (good) return strcpy(monitor.path, path), fd;
    int cause = errno;
    close(fd);
    return errno = cause, -1;
}

/* Splits "HOST:PORT" or "PORT". Returns false if the port is no number from 0 to 65535. */
static bool
split_address(const char *address, char host[64], int *port)
{
    const char *colon = strrchr(address, ':'), *digits = colon ? colon + 1 : address;
    char *end;
    long number = strtol(digits, &end, 10);
    size_t n = colon ? (size_t)(colon - address) : 0;
    bool bracket = n > 1 && address[0] == '[' && address[n - 1] == ']';
    snprintf(host, 64, "%.*s", (int)(bracket ? n - 2 : n), address + bracket);
    if (n == 0) strcpy(host, "127.0.0.1");
    *port = (int)number;
    return *digits && !*end && number >= 0 && number <= 65535;
}

static int
listen_at_port(const char *address, char *shown, size_t size)
{
    char host[64];
    int port, fd;
    if (!split_address(address, host, &port))
        return fail_to_open(address, "expected PORT (0 to 65535), HOST:PORT or a path with a slash");
    fd = http_listen(host, &port);
    if (fd == HTTP_NO_ADDRESS)
        return fail_to_open(address, "the host must be a numeric address, such as 127.0.0.1 or [::1]");
    if (fd < 0) return fail_to_open(address, strerror(errno));
    snprintf(shown, size, strchr(host, ':') ? "http://[%s]:%d/metrics" : "http://%s:%d/metrics", host, port);
    return fd;
}

int
monitor_open(struct rille_session *s, const char *option, const char *address, const char *job)
{
    char shown[200], text[300];
    sigset_t all, old;
    snprintf(shown, sizeof shown, "%.190s", address);
    monitor.option = option;
    int fd = strchr(address, '/') ? listen_at_path(address) : listen_at_port(address, shown, sizeof shown);
    if (fd < 0) return strchr(address, '/') ? fail_to_open(address, strerror(errno)) : -1;
    monitor.session = s;
    monitor.start = clock_seconds();
    snprintf(monitor.job, sizeof monitor.job, "%s", job);
    if (rille_metrics_begin(s)) return fail_to_open(address, rille_error());
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    monitor.daemon = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD, 0, NULL, NULL, serve_page, NULL,
                                      MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                                      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!monitor.daemon) return fail_to_open(address, "the HTTP library cannot start its thread");
    snprintf(text, sizeof text, "metrics at %s", shown);
    tell_line(text);
    return 0;
}

void
monitor_close(void)
{
    if (monitor.daemon) MHD_stop_daemon(monitor.daemon);
    monitor.daemon = NULL;
    if (monitor.path[0]) unlink(monitor.path);
}
#else
int
monitor_open(struct rille_session *s, const char *option, const char *address, const char *job)
{
    char text[200];
    (void)s, (void)address, (void)job;
    snprintf(text, sizeof text, "%s: this build has no HTTP server: install libmicrohttpd-dev and build again", option);
    tell_line(text);
    return -1;
}

void
monitor_close(void)
{
}
#endif
