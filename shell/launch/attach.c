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

enum { USAGE = 2, FAILED = 1, CONTROLLERS = 64, PATIENCE_MS = 2000, STATUS_MOST = 1 << 16 };

/* ---- finding the controller ---- */

static bool
is_controller_wanted(const struct attach *f, const char *name)
{
    char *end;
    if (f->user != (long)geteuid()) return false;
    long pid = name ? strtol(name, &end, 10) : 0;
    return !name || (*name && !*end && pid == f->pid) || !strcmp(name, f->title);
}

/* Connects to a socket of that name. Returns false if a process of another user or container owns the socket,
 * because any process may bind any name. Does not block. Sets errno to EAGAIN if the owner has not accepted earlier
 * connections, as a stopped process does not. */
static bool
connect_to(struct attach *f)
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
    int why = errno;
    close(f->fd);
    errno = why;
    return false;
}

/* Finds this user's controllers in this container whose name matches, and connects to them. *deaf: process number of
 * a controller whose socket accepts no further connections; 0: none. */
static int
find_controllers(const char *name, struct attach found[CONTROLLERS], long *deaf)
{
    char line[512], *at;
    int n = 0;
    FILE *list = fopen("/proc/net/unix", "r");
    *deaf = 0;
    while (list && n < CONTROLLERS && fgets(line, sizeof line, list)) {
        struct attach f;
        bool good = (at = strstr(line, "@rille-attach/")) &&
                    sscanf(at, "@rille-attach/%ld/%ld/%47s", &f.user, &f.pid, f.title) == 3;
        /* true: the controller is already in the list, because /proc/net/unix has a line per connection */
        bool again = false;
        for (int i = 0; i < n && good; i++) again |= found[i].pid == f.pid;
        if (!good || again || !is_controller_wanted(&f, name)) continue;
        if (connect_to(&f))
            found[n++] = f;
        else if (errno == EAGAIN)
            *deaf = f.pid;
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
tell_many(const struct attach *found, int n)
{
    attach_failed("several programs run: write rille %s NAME, or the number of the process:", command);
    for (int i = 0; i < n; i++) {
        fprintf(stderr, "  %ld  %s\n", found[i].pid, found[i].title);
        close(found[i].fd);
    }
    return USAGE;
}

/* Reports on stderr that the process of a controller does not answer. then: further advice for the user, or "". */
static int
tell_no_answer(long pid, const char *then)
{
    fprintf(stderr,
            "rille: %s: the controller (process %ld) does not answer; if it is stopped (state T in ps), kill -CONT %ld "
            "continues it%s\n",
            command, pid, pid, then);
    return FAILED;
}

static int
choose_controller(const char *name, struct attach *out)
{
    struct attach found[CONTROLLERS];
    long deaf;
    int n = find_controllers(name, found, &deaf);
    if (n > 1) return tell_many(found, n);
    if (n == 0 && deaf) return tell_no_answer(deaf, "");
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

/* Asks for the status over a connection, which it closes, and waits PATIENCE_MS for the answer. Returns the size of the
 * answer in bytes; 0: the controller has ended; -1 with errno EAGAIN: no answer. */
static ssize_t
ask_status(int fd, char text[STATUS_MOST])
{
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ssize_t n = send(fd, "S", 1, MSG_NOSIGNAL) == 1 ? recv(fd, text, STATUS_MOST - 1, 0) : -1;
    int why = errno;
    close(fd);
    errno = why;
    return n;
}

/* Reports why the controller has not answered for PATIENCE_MS, and how the user leaves. If a thread of the controller
 * answers a request for the status, the program is in a run or in a call; else the process cannot run. Returns false
 * if Ctrl-C interrupted the question. */
static bool
tell_reason(const struct attach *of, const char *leave)
{
    static char text[STATUS_MOST];
    struct attach f = *of;
    bool answers = connect_to(&f) && ask_status(f.fd, text) >= 0;
    if (!answers && errno == EINTR) return false;
    if (!answers && errno == EAGAIN) tell_no_answer(of->pid, leave);
    if (answers) fprintf(stderr, "rille: %s: the controller is busy%s\n", command, leave);
    return true;
}

/* Waits for the controller's answer and returns its letter; 0: the controller has ended; 'I': the user has pressed
 * Ctrl-C as often as leaves the prompt. runs: the controller runs a line, which the first press stops, and the second
 * press leaves; else the first press leaves. SIGTERM and SIGHUP end this process at once, because it has nothing to
 * save. */
static char
await_reply(const struct attach *f, bool runs, char text[512])
{
    struct sigaction others[3] = {{.sa_handler = attach_on_press}, {.sa_handler = SIG_DFL}, {.sa_handler = SIG_DFL}};
    struct pollfd in = {.fd = f->fd, .events = POLLIN};
    const int most = runs ? 2 : 1;
    bool patient = false;
    ssize_t n = 0;
    int told = 0;
    presses = 0;
    exchange_handlers(others);
    while (presses < most) {
        int got = poll(&in, 1, patient ? -1 : PATIENCE_MS);
        if (runs && presses > told && ++told == 1) send(f->fd, "I", 1, MSG_NOSIGNAL);
        if (got == 0) patient = tell_reason(f, runs ? "; press Ctrl-C twice to leave" : "; press Ctrl-C to leave");
        if (got > 0) break;
    }
    /* reads once more after a connection reset, because received data may remain */
    for (int i = 0; i < 2 && presses < most && n <= 0; i++) n = recv(f->fd, text, 511, 0);
    exchange_handlers(others);
    text[n > 0 ? n : 0] = 0;
    return presses >= most ? 'I' : n > 0 ? text[0] : 0;
}

int
attach_open(const char *name, struct attach *out)
{
    struct attach f;
    char text[512];
    int code = choose_controller(name, &f);
    if (code) return code;
    char answer = greet_controller(f.fd) ? 0 : await_reply(&f, false, text);
    if (answer == 'I') return 128 + SIGINT;
    if (answer != 'Y')
        return attach_failed(answer ? "the controller refused this prompt: %s" : "%s",
                             answer ? text + 1 : "the controller ended before it answered");
    *out = f;
    return 0;
}

int
attach_status(const char *name)
{
    static char text[STATUS_MOST];
    struct attach f = {.fd = -1};
    command = "status";
    int code = choose_controller(name, &f);
    if (code) return code;
    ssize_t n = ask_status(f.fd, text);
    if (n < 0 && errno == EAGAIN) return tell_no_answer(f.pid, "");
    if (n < 2 || text[0] != 'T') return attach_failed("the controller %s", "ended before it answered");
    /* escapes control characters, because the text contains names that other hosts sent */
    for (char *c = text + 1; c < text + n; c++)
        if ((*c < ' ' && *c != '\n') || *c > '~') *c = '?';
    printf("%s, process %ld: %.*s", f.title, f.pid, (int)n - 1, text + 1);
    return 0;
}

/* ---- the prompt ---- */

static const struct attach *controller;
static int exit_code;

static int
take_remote(lua_State *L, const char *chunk, int number, bool *more)
{
    char text[512], *packet = malloc(ATTACH_MOST);
    int n = packet ? snprintf(packet, ATTACH_MOST, "L%d %s", number, chunk) : ATTACH_MOST;
    (void)L;
    *more = false;
    fflush(stdout);
    bool fits = n < ATTACH_MOST - 1, sent = fits && send(controller->fd, packet, (size_t)n, MSG_NOSIGNAL) == n;
    free(packet);
    if (!fits) return attach_failed("a chunk has at most %s", "65,000 bytes"), COMMAND_DONE;
    char answer = sent ? await_reply(controller, true, text) : 0;
    *more = answer == 'M';
    if (answer == 'M' || answer == 'D') return COMMAND_DONE;
    exit_code = answer == 'Q' ? 0 : answer == 'I' ? 128 + SIGINT : FAILED;
    if (!answer) attach_failed("the controller has %s", "ended");
    return COMMAND_QUIT;
}

int
attach_run(lua_State *L, const struct attach *a)
{
    controller = a;
    printf("attached to %s, process %ld, rille %s. :help lists commands; Ctrl-D leaves it running.\n", a->title, a->pid,
           RILLE_VERSION);
    repl_open(L);
    int code = repl_loop(L, take_remote);
    close(a->fd);
    return code ? code : exit_code;
}
