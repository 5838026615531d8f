/* Tests of every listening socket (link.c, net_zmq.c), with and without a key. A connection must be closed if the other
 * side stays silent, or announces a frame larger than any packet. Legitimate peers must continue. */
#include "actors/cluster/transport/carrier.h"
#include "actors/cluster/wire/key.h"
#include "actors/cluster/wire/link.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

enum { SOCKETS = NLINK_SOCKET + 2, PATIENCE_MS = 60000 };

/* A listening address. An array has SOCKETS places: the coordinator's link sockets, then the two sockets of a
 * worker. */
struct place {
    const char *name, *peer; /* name: how messages name the address; peer: socket type of legitimate peers */
    char address[CARRIER_PORT];
};

static int
connect_to(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *colon = strrchr(address, ':');
    to.sin_port = htons((uint16_t)atoi(colon + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof to)) return fd;
    diag("%s: no connection", address);
    exit(1);
}

/* Reads until the other side closes the connection. Returns false if the connection is still open after the time
 * limit. */
static bool
is_cut_off(int fd)
{
    char bytes[256];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, PATIENCE_MS) == 1)
        if (read(fd, bytes, sizeof bytes) <= 0) return true;
    return false;
}

/* ---- what strangers send ---- */

/* Sends a ZMTP 3.0 greeting (rfc.zeromq.org/spec/23) that names this security mechanism. */
static void
greet(int fd, const char *mechanism)
{
    unsigned char greeting[64] = {0xff, [9] = 0x7f, [10] = 3};
    memcpy(greeting + 12, mechanism, strlen(mechanism));
    if (write(fd, greeting, sizeof greeting) < 0) diag("the greeting could not be sent");
}

static void
introduce(int fd, const char *kind)
{
    unsigned char ready[64] = {4, 0, 5, 'R', 'E', 'A', 'D', 'Y', 11};
    size_t n = 9;
    memcpy(ready + n, "Socket-Type", 11);
    n += 11 + 3;
    ready[n++] = (unsigned char)strlen(kind);
    memcpy(ready + n, kind, strlen(kind));
    n += strlen(kind);
    ready[1] = (unsigned char)(n - 2);
    if (write(fd, ready, n) < 0) diag("the READY command could not be sent");
}

static void
say_nothing(int fd, const struct place *p)
{
    UNUSED(fd), UNUSED(p);
}

static void
greet_alone(int fd, const struct place *p)
{
    UNUSED(p);
    greet(fd, "NULL");
}

/* Sends the header of a frame of 2^28 bytes. An allocation of this size would succeed, so only a check of the size
 * can refuse the frame. */
static void
say_much(int fd, const struct place *p)
{
    static const unsigned char head[9] = {2, [5] = 0x10};
    greet(fd, "NULL");
    introduce(fd, p->peer);
    if (write(fd, head, sizeof head) < 0) diag("the frame header could not be sent");
}

static void
say_zeros(int fd, const struct place *p)
{
    static const char bytes[4096];
    UNUSED(p);
    /* the other side has closed the connection already */
    if (send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) < 0) return;
}

/* Sends text. The first byte of a text is the length of a frame for ZMTP 1.0, which has no greeting. From
 * version 4.3.5, ZeroMQ keeps such a connection open, unless the socket has a key. Sockets without a key are bound to
 * loopback. */
static void
say_text(int fd, const struct place *p)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    UNUSED(p);
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0) return;
}

static const struct {
    const char *what;
    void (*say)(int fd, const struct place *p);
    bool keyed; /* disconnected only if the socket has a key */
} stranger[] = {{"sends nothing", say_nothing, false},
                {"sends only a greeting", greet_alone, false},
                {"begins a frame of 2^28 bytes", say_much, false},
                {"sends zeros", say_zeros, false},
                {"sends text", say_text, true}};

/* ---- legitimate peers ---- */

static bool
is_heard(struct link *c, const struct key *key)
{
    struct link *w;
    const void *bytes;
    size_t n;
    int peer;
    bool heard = false, said = false;
    if (link_join(link_endpoint(c, LINK_CONTROL), key, &w)) return false;
    for (int i = 0; i < PATIENCE_MS && !heard; i++) {
        poll(NULL, 0, 1);
        if (!said && link_state(w) == LINK_UP) said = !link_send(w, LINK_CONTROL, 0, "hello", 5);
        heard = link_receive(c, LINK_CONTROL, &peer, &bytes, &n) && n == 5 && !memcmp(bytes, "hello", 5);
    }
    link_free(&w);
    return heard;
}

static void
find_places(const struct link *c, const struct carrier *k, struct place *p)
{
    static const char *const name[] = {"control link", "heartbeat link", "value link", "message socket", "byte socket"};
    char ports[CARRIER_PORT];
    for (int i = 0; i < SOCKETS; i++) p[i] = (struct place){name[i], i < NLINK_SOCKET ? "DEALER" : "PUSH", ""};
    for (int i = 0; i < NLINK_SOCKET; i++) snprintf(p[i].address, CARRIER_PORT, "%s", link_endpoint(c, i));
    carrier_port(k, ports);
    char *space = strchr(ports, ' ');
    *space = '\0';
    snprintf(p[NLINK_SOCKET].address, CARRIER_PORT, "%s", ports);
    snprintf(p[NLINK_SOCKET + 1].address, CARRIER_PORT, "%s", space + 1);
}

/* Connects all strangers before the first check, because a silent connection is closed only after two seconds. */
static void
test_strangers(const struct key *key, const char *with)
{
    struct link *c;
    struct carrier *k;
    struct place place[SOCKETS];
    int fd[countof(stranger)][SOCKETS];
    if (link_serve("tcp://127.0.0.1:*", key, &c) ||
        carrier_new(&(struct carrier_options){.host = "127.0.0.1", .key = key}, &k)) {
        diag("%s", err_text());
        exit(1);
    }
    find_places(c, k, place);
    for (size_t s = 0; s < countof(stranger); s++)
        for (int i = 0; i < SOCKETS; i++) stranger[s].say(fd[s][i] = connect_to(place[i].address), &place[i]);
    ok(is_heard(c, key), "%s: a worker is heard while strangers are connected", with);
    for (size_t s = 0; s < countof(stranger); s++)
        for (int i = 0; i < SOCKETS; i++) {
            if (key || !stranger[s].keyed)
                ok(is_cut_off(fd[s][i]), "%s, %s: a stranger that %s is disconnected", with, place[i].name,
                   stranger[s].what);
            close(fd[s][i]);
        }
    ok(is_heard(c, key), "%s: another worker is heard after the strangers", with);
    carrier_free(&k);
    link_free(&c);
}

int
main(void)
{
    struct str text = {0};
    struct key key;
    signal(SIGPIPE, SIG_IGN); /* a stranger may write to a connection that was closed */
    test_strangers(NULL, "without a key");
    if (key_new(&text) || key_parse(text.text, text.len, &key)) {
        diag("%s", err_text());
        return 1;
    }
    test_strangers(&key, "with a key");
    key_forget(&key);
    str_free(&text);
    return done();
}
