/* attached.c - the controller's side of rille attach and rille status: accepts visitors and runs their lines.
 *
 * A visitor is a process `rille attach` in another terminal. When a visitor connects or writes, the kernel sends this
 * process SIGURG, which nothing else uses. The signal handler sets a hook (interrupt.c), and Lua calls
 * attached_serve() between two instructions. The handler also raises an event; at a prompt the line editor polls
 * the event and calls attached_serve(). While a visitor's line runs, streams 0 to 2 are the visitor's terminal, so that
 * all output appears on it at once. Output errors of that terminal are cleared when the line is done.
 *
 * A thread accepts connections. The thread answers rille status itself, even during a run, and passes the sockets of
 * visitors to the main thread through a pipe. */
#include "shell/launch/attached.h"
#include "shell/run/interrupt.h"
#include "shell/launch/attach.h"

#ifdef __linux__

#include "shell/repl/edit.h"
#include "shell/repl/repl.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { VISITORS = 8 };

struct visitor {
    int fd; /* socket to the visitor, an attached prompt; -1: this entry is free */
    int stream[ATTACH_STREAMS];
    bool in, color;
};

static struct {
    /* coroutine of the program's state that runs the visitor's lines; it gives them a separate stack and separate
     * hooks */
    lua_State *L;
    char title[ATTACH_TITLE];
    int listener;                  /* socket that accepts connections */
    struct system_event knock;     /* raised when an attached prompt's socket or come[0] has become readable */
    int come[2];                   /* pipe through which the thread passes the sockets of newly attached prompts */
    struct rille_session *session; /* session whose status the thread reports, guarded by `lock`; NULL: closed */
    pthread_mutex_t lock;
    struct visitor visitor[VISITORS];
    volatile sig_atomic_t serving; /* socket of the attached prompt whose line runs; -1: none */
} here = {.lock = PTHREAD_MUTEX_INITIALIZER, .serving = -1};

/* ---- signals ---- */

/* Receives a Ctrl-C from the attached prompt (visitor) whose line runs; the protocol allows no other message
 * meanwhile. Returns false if none has arrived. Sets *gone if the prompt has disconnected. */
static bool
take_press(int fd, bool *gone)
{
    char letter;
    ssize_t n = recv(fd, &letter, 1, MSG_PEEK | MSG_DONTWAIT);
    *gone = n == 0;
    return n == 1 && letter == 'I' && recv(fd, &letter, 1, MSG_DONTWAIT) == 1;
}

/* Handles SIGURG: passes on the Ctrl-C of an attached prompt (visitor), and requests a call of attached_serve().
 * If the prompt has disconnected, stops its line like a second Ctrl-C, because a second Ctrl-C also stops a line
 * that catches errors. */
static void
on_knock(int number)
{
    int before = errno, fd = here.serving;
    bool gone = false;
    (void)number;
    while (fd >= 0 && take_press(fd, &gone)) interrupt_visit();
    if (gone) interrupt_visit(), interrupt_visit();
    system_raise(&here.knock);
    interrupt_knock();
    errno = before;
}

/* Makes the kernel send SIGURG to the calling thread when fd becomes readable. */
static int
watch_fd(int fd)
{
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = gettid()};
    return fcntl(fd, F_SETOWN_EX, &owner) || fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK);
}

/* ---- visitors ---- */

static void
send_line(const struct visitor *v, char letter, const char *text)
{
    char packet[512];
    int n = snprintf(packet, sizeof packet, "%c%s", letter, text);
    /* a failed send is ignored, because the next read detects a disconnected prompt */
    send(v->fd, packet, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void
visitor_leave(struct visitor *v)
{
    for (int i = 0; i < ATTACH_STREAMS; i++)
        if (v->stream[i] >= 0) close(v->stream[i]);
    close(v->fd);
    *v = (struct visitor){.fd = -1, .stream = {-1, -1, -1}};
}

static void
refuse_visitor(struct visitor *v, const char *why)
{
    send_line(v, 'N', why);
    visitor_leave(v);
}

static void
let_visitor_in(int fd)
{
    struct visitor spare = {.fd = fd, .stream = {-1, -1, -1}}, *v = &spare;
    for (int i = 0; i < VISITORS && v == &spare; i++)
        if (here.visitor[i].fd < 0) v = &here.visitor[i];
    *v = spare;
    if (!system_peer_is_ours(fd))
        refuse_visitor(v, "it belongs to another user or another container");
    else if (v == &spare)
        refuse_visitor(v, "it already has the largest number of prompts");
    else if (watch_fd(fd))
        refuse_visitor(v, strerror(errno));
}

/* Receives a packet, which is zero-terminated here, and the descriptors sent with it. Returns the packet's size in
 * bytes; 0: no packet is waiting; -1: the connection has ended, or the packet was truncated. */
static ssize_t
receive_line(struct visitor *v, char text[ATTACH_MOST])
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * ATTACH_STREAMS)];
    } room;
    struct iovec io = {text, ATTACH_MOST - 1};
    struct msghdr msg = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    ssize_t n = recvmsg(v->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (int i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + sizeof fd * (size_t)i, sizeof fd);
            if (i < ATTACH_STREAMS && v->stream[i] < 0)
                v->stream[i] = fd;
            else
                close(fd);
        }
    }
    text[n] = 0;
    return n == 0 || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -1 : n;
}

/* ---- a line ---- */

struct streams {
    int fd[ATTACH_STREAMS];
    bool color;
    struct sigaction pipe;
};

/* Makes the streams of the visitor, an attached prompt, the program's streams 0 to 2. Saves the program's own
 * streams in `kept`. */
static void
turn_to(const struct visitor *v, struct streams *kept)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    fflush(stdout);
    sigaction(SIGPIPE, &ignore, &kept->pipe);
    kept->color = shell_of(here.L)->color;
    shell_of(here.L)->color = v->color;
    for (int i = 0; i < ATTACH_STREAMS; i++) {
        kept->fd[i] = fcntl(i, F_DUPFD_CLOEXEC, ATTACH_STREAMS);
        dup2(v->stream[i], i);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
}

/* Restores the program's streams, and discards any output that the attached prompt's terminal did not accept. */
static void
turn_back(struct streams *kept)
{
    if (fflush(stdout) || ferror(stdout)) __fpurge(stdout);
    clearerr(stdout);
    clearerr(stderr);
    for (int i = 0; i < ATTACH_STREAMS; i++) {
        dup2(kept->fd[i], i);
        close(kept->fd[i]);
    }
    setvbuf(stdout, NULL, isatty(1) ? _IOLBF : _IOFBF, BUFSIZ);
    shell_of(here.L)->color = kept->color;
    sigaction(SIGPIPE, &kept->pipe, NULL);
}

static void
run_visitor_line(struct visitor *v, const char *text)
{
    struct streams kept;
    char *chunk;
    bool more = false, gone;
    int number = (int)strtol(text, &chunk, 10), end = COMMAND_DONE;
    turn_to(v, &kept);
    here.serving = v->fd;
    if (take_press(v->fd, &gone))
        fputs("interrupted\n", stderr); /* Ctrl-C was pressed before the line began */
    else if (!gone)
        end = repl_chunk(here.L, chunk + (*chunk == ' '), number, &more);
    here.serving = -1;
    turn_back(&kept);
    send_line(v, more ? 'M' : end == COMMAND_QUIT ? 'Q' : 'D', "");
}

static void
greet_visitor(struct visitor *v, const char *text)
{
    char why[200];
    size_t n = strcspn(text, " ");
    bool has_all = v->stream[ATTACH_STREAMS - 1] >= 0;
    bool same = n == strlen(RILLE_VERSION) && !strncmp(text, RILLE_VERSION, n);
    snprintf(why, sizeof why, "it runs rille %s, but this is rille %.*s", RILLE_VERSION, (int)n, text);
    if (!has_all || !same) {
        refuse_visitor(v, same ? "it received no terminal" : why);
        return;
    }
    v->in = true;
    v->color = strstr(text, " color");
    send_line(v, 'Y', here.title);
}

static void
hear_visitor(struct visitor *v)
{
    static char text[ATTACH_MOST];
    ssize_t n;
    while (v->fd >= 0 && (n = receive_line(v, text)) != 0) {
        if (n < 0 || (text[0] != 'I' && text[0] != (v->in ? 'L' : 'H')))
            visitor_leave(v);
        else if (text[0] == 'H')
            greet_visitor(v, text + 1);
        else if (text[0] == 'L')
            run_visitor_line(v, text + 1);
    }
}

static void
attached_serve(void)
{
    int fd;
    if (here.serving >= 0) return;
    /* lowers the event before the sockets are read, so that no later packet is missed */
    system_lower(&here.knock);
    while (read(here.come[0], &fd, sizeof fd) == sizeof fd) let_visitor_in(fd);
    for (int i = 0; i < VISITORS; i++)
        if (here.visitor[i].fd >= 0) hear_visitor(&here.visitor[i]);
}

static void
serve_between(lua_State *L)
{
    (void)L;
    attached_serve();
}

/* ---- the thread ---- */

/* Writes what the program does, for rille status. here.lock is held. */
static void
describe_program(char *text, size_t size)
{
    char doing[256] = "";
    *text = '\0';
    if (here.session) rille_status(here.session, text, size);
    if (*text) return;
    if (here.session) rille_doing(here.session, doing, sizeof doing);
    snprintf(text, size, "no workers; now: %s\n", *doing ? doing : "no run");
}

static void
answer_status(int fd)
{
    enum { MOST = 1 << 16 };
    static char text[MOST] = "T";
    char letter;
    pthread_mutex_lock(&here.lock);
    describe_program(text + 1, sizeof text - 1);
    pthread_mutex_unlock(&here.lock);
    /* reads the request first, because closing a socket with unread data discards the answer */
    if (recv(fd, &letter, 1, MSG_DONTWAIT) == 1) send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

/* Waits up to a second for the first packet of a connection. Answers rille status; passes other connections on to
 * the main thread as attached prompts. A connection that ends at once comes from a command that lists
 * controllers. */
static void
take_connection(int fd)
{
    struct pollfd in = {.fd = fd, .events = POLLIN};
    char letter = 0;
    bool ended = poll(&in, 1, 1000) == 1 && recv(fd, &letter, 1, MSG_PEEK | MSG_DONTWAIT) == 0, asks = letter == 'S';
    if (asks && system_peer_is_ours(fd))
        answer_status(fd);
    else if (asks || ended || write(here.come[1], &fd, sizeof fd) != sizeof fd)
        close(fd);
}

static void *
attached_thread(void *arg)
{
    for (;;) {
        int fd = system_accept(here.listener, true);
        if (fd >= 0)
            take_connection(fd);
        else
            poll(NULL, 0, 100); /* waits, because accept() failed for lack of a free descriptor */
    }
    return arg;
}

static int
start_attached_thread(void)
{
    pthread_t thread;
    return system_thread_start(&thread, attached_thread, NULL) || pthread_detach(thread);
}

static void
close_status(void)
{
    pthread_mutex_lock(&here.lock);
    here.session = NULL;
    pthread_mutex_unlock(&here.lock);
}

/* ---- opening ---- */

static int
listen_as(const char *title)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, ATTACH_NAME, (long)geteuid(), (long)getpid(), title);
    here.listener = system_socket(AF_UNIX, SOCK_SEQPACKET, false);
    return system_event_open(&here.knock) || here.listener < 0 || system_pipe(here.come, true) ||
           bind(here.listener, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) ||
           listen(here.listener, VISITORS) || watch_fd(here.come[0]) || start_attached_thread();
}

/* Sets the title to a file's name, with '_' in place of each blank, control or non-ASCII character. */
static void
set_title(const char *text)
{
    const char *slash = strrchr(text, '/');
    snprintf(here.title, sizeof here.title, "%s", slash ? slash + 1 : text);
    for (char *c = here.title; *c; c++)
        if (*c <= ' ' || *c > '~') *c = '_';
}

void
attached_open(lua_State *L, const char *title)
{
    static const char key;
    struct sigaction knock = {.sa_handler = on_knock, .sa_flags = SA_RESTART};
    for (int i = 0; i < VISITORS; i++) here.visitor[i] = (struct visitor){.fd = -1, .stream = {-1, -1, -1}};
    set_title(title);
    repl_prepare(L);
    here.L = lua_newthread(L);
    here.session = shell_of(L)->session;
    shell_of(L)->closing = close_status;
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
    interrupt_visitor(serve_between);
    sigaction(SIGURG, &knock, NULL);
    if (listen_as(here.title)) return; /* without abstract sockets no attached prompt can connect */
    edit_visitors(here.knock.fd, attached_serve);
}
#else
/* Does nothing: other systems than Linux lack the signal per socket that announces an attached prompt, and the
 * list of sockets in which rille attach finds this program. */
void
attached_open(lua_State *L, const char *title)
{
    (void)L;
    (void)title;
}
#endif
