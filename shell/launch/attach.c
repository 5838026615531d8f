/* attach.c - rille attach: a prompt in this terminal whose lines run in a controller's process. Also implements rille
 * status. */
#include "shell/launch/attach.h"

#include "shell/launch/front.h"
#include "shell/repl/repl.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { USAGE = 2, FAILED = 1, CONTROLLERS = 64, PATIENCE_MS = 2000 };

/* ---- finding the controller ---- */

struct found {
    long user, pid;
    char title[ATTACH_TITLE];
    int fd; /* socket connected to the controller */
};

static bool
is_controller_wanted(const struct found *f, const char *name)
{
    char *end;
    if (f->user != (long)geteuid()) return false;
    long pid = name ? strtol(name, &end, 10) : 0;
    return !name || (*name && !*end && pid == f->pid) || !strcmp(name, f->title);
}

/* Connects to a socket of that name. Returns false if a process of another user or container owns the socket,
 * because any process may bind any name. Does not block: the owner may be a process that accepts no connections. */
static bool
connect_to(struct found *f)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, ATTACH_NAME, f->user, f->pid, f->title);
    f->fd = system_socket(AF_UNIX, SOCK_SEQPACKET, false);
    if (f->fd < 0) return false;
    fcntl(f->fd, F_SETFL, O_NONBLOCK);
    if (!connect(f->fd, (struct sockaddr *)&name,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) &&
        system_peer_is_ours(f->fd) && !fcntl(f->fd, F_SETFL, 0))
        return true;
    close(f->fd);
    return false;
}

/* Finds this user's controllers in this container whose name matches, and connects to them. */
static int
find_controllers(const char *name, struct found found[CONTROLLERS])
{
    char line[512], *at;
    int n = 0;
    FILE *list = fopen("/proc/net/unix", "r");
    while (list && n < CONTROLLERS && fgets(line, sizeof line, list)) {
        struct found f;
        bool good = (at = strstr(line, "@rille-attach/")) &&
                    sscanf(at, "@rille-attach/%ld/%ld/%47s", &f.user, &f.pid, f.title) == 3;
        /* true: the controller is already in the list, because /proc/net/unix has a line per connection */
        bool again = false;
        for (int i = 0; i < n && good; i++) again |= found[i].pid == f.pid;
        if (good && !again && is_controller_wanted(&f, name) && connect_to(&f)) found[n++] = f;
    }
    if (list) fclose(list);
    return n;
}

static const char *command = "attach"; /* command that messages name: the first word of the command line */

static int
attach_failed(const char *fmt, const char *what)
{
    fprintf(stderr, "rille: %s: ", command);
    fprintf(stderr, fmt, what);
    fputc('\n', stderr);
    return FAILED;
}

static int
tell_many(const struct found *found, int n)
{
    attach_failed("several programs run: write rille %s NAME, or the number of the process:", command);
    for (int i = 0; i < n; i++) {
        fprintf(stderr, "  %ld  %s\n", found[i].pid, found[i].title);
        close(found[i].fd);
    }
    return USAGE;
}

static int
choose_controller(const char *name, struct found *out)
{
    struct found found[CONTROLLERS];
    int n = find_controllers(name, found);
    if (n > 1) return tell_many(found, n);
    if (n == 0 && name)
        return attach_failed(
            "no program called '%s' of this user runs on this host and in this container; expected the name of a "
            "script or the number of a process",
            name);
    if (n == 0)
        return attach_failed("no program of this user runs on this host and in this container; %s starts one",
                             "rille launch -n 4");
    *out = found[0];
    return 0;
}

/* ---- the connection ---- */

/* Sends the protocol version and the descriptors of the three standard streams. */
static int
greet_controller(int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * ATTACH_STREAMS)];
    } room = {0};
    static const int stream[ATTACH_STREAMS] = {0, 1, 2};
    const char *term = getenv("TERM");
    bool color = isatty(1) && !getenv("NO_COLOR") && term && strcmp(term, "dumb");
    char text[64];
    struct iovec io = {text, (size_t)snprintf(text, sizeof text, "H%s%s", RILLE_VERSION, color ? " color" : "")};
    struct msghdr msg = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    room.head =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof stream)};
    memcpy(CMSG_DATA(&room.head), stream, sizeof stream);
    return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static volatile sig_atomic_t presses;

static void
attach_on_press(int number)
{
    (void)number;
    presses = presses + 1;
}

/* Exchanges the handlers of SIGINT, SIGTERM and SIGHUP with those in `others`, so that a second call restores them.
 * SIGTERM and SIGHUP stay ignored if the parent process ignores them. */
static void
exchange_handlers(struct sigaction others[3])
{
    static const int signals[3] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        struct sigaction next = others[i];
        sigaction(signals[i], &next, &others[i]);
        if (i > 0 && others[i].sa_handler == SIG_IGN) sigaction(signals[i], &others[i], NULL);
    }
}

/* Waits for the controller's answer and returns its letter; 0: the controller has ended; 'I': the user has pressed
 * Ctrl-C a second time. The first press is passed on to the controller. SIGTERM and SIGHUP end this process at once,
 * because it has nothing to save. */
static char
await_reply(int fd, char text[512])
{
    struct sigaction others[3] = {{.sa_handler = attach_on_press}, {.sa_handler = SIG_DFL}, {.sa_handler = SIG_DFL}};
    struct pollfd in = {.fd = fd, .events = POLLIN};
    bool patient = false;
    ssize_t n = 0;
    int told = 0;
    presses = 0;
    exchange_handlers(others);
    while (presses < 2) {
        int got = poll(&in, 1, patient ? -1 : PATIENCE_MS);
        if (presses > told && ++told == 1) send(fd, "I", 1, MSG_NOSIGNAL);
        if (got == 0) fputs("rille: attach: the controller is busy; press Ctrl-C twice to leave\n", stderr);
        patient |= got == 0;
        if (got > 0) break;
    }
    /* reads once more after a connection reset, because received data may remain */
    for (int i = 0; i < 2 && presses < 2 && n <= 0; i++) n = recv(fd, text, 511, 0);
    exchange_handlers(others);
    text[n > 0 ? n : 0] = 0;
    return presses >= 2 ? 'I' : n > 0 ? text[0] : 0;
}

int
attach_open(const char *name, struct attach *out)
{
    struct found f;
    char text[512];
    int code = choose_controller(name, &f);
    if (code) return code;
    out->fd = f.fd;
    char answer = greet_controller(out->fd) ? 0 : await_reply(out->fd, text);
    if (answer == 'I') return 128 + SIGINT;
    if (answer != 'Y')
        return attach_failed(answer ? "the controller refused this prompt: %s" : "%s",
                             answer ? text + 1 : "the controller ended before it answered");
    memcpy(out->title, f.title, sizeof out->title);
    out->pid = f.pid;
    return 0;
}

int
attach_status(const char *name)
{
    enum { MOST = 1 << 16 };
    static char text[MOST];
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    struct found f = {.fd = -1};
    command = "status";
    int code = choose_controller(name, &f);
    if (code) return code;
    setsockopt(f.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ssize_t n = send(f.fd, "S", 1, MSG_NOSIGNAL) == 1 ? recv(f.fd, text, sizeof text - 1, 0) : -1;
    const char *why = n < 0 && errno == EAGAIN
                          ? "does not answer; if it is stopped (state T in ps), kill -CONT continues it"
                          : "ended before it answered";
    close(f.fd);
    if (n < 2 || text[0] != 'T') return attach_failed("the controller %s", why);
    /* escapes control characters, because the text contains names that other hosts sent */
    for (char *c = text + 1; c < text + n; c++)
        if ((*c < ' ' && *c != '\n') || *c > '~') *c = '?';
    printf("%s, process %ld: %.*s", f.title, f.pid, (int)n - 1, text + 1);
    return 0;
}

/* ---- the prompt ---- */

static int controller, exit_code;

static int
take_remote(lua_State *L, const char *chunk, int number, bool *more)
{
    char text[512], *packet = malloc(ATTACH_MOST);
    int n = packet ? snprintf(packet, ATTACH_MOST, "L%d %s", number, chunk) : ATTACH_MOST;
    (void)L;
    *more = false;
    fflush(stdout);
    bool fits = n < ATTACH_MOST - 1, sent = fits && send(controller, packet, (size_t)n, MSG_NOSIGNAL) == n;
    free(packet);
    if (!fits) return attach_failed("a chunk has at most %s", "65,000 bytes"), COMMAND_DONE;
    char answer = sent ? await_reply(controller, text) : 0;
    *more = answer == 'M';
    if (answer == 'M' || answer == 'D') return COMMAND_DONE;
    exit_code = answer == 'Q' ? 0 : answer == 'I' ? 128 + SIGINT : FAILED;
    if (!answer) attach_failed("the controller has %s", "ended");
    return COMMAND_QUIT;
}

int
attach_run(lua_State *L, const struct attach *a)
{
    controller = a->fd;
    printf("attached to %s, process %ld, rille %s. :help lists commands; Ctrl-D leaves it running.\n", a->title, a->pid,
           RILLE_VERSION);
    repl_open(L);
    int code = repl_loop(L, take_remote);
    close(controller);
    return code ? code : exit_code;
}
