/* Tests of actors/cluster/wire/link.c: messages that one end sends just before it closes must still reach the other
 * end. */
#include "actors/cluster/wire/link.h"
#include "actors/cluster/wire/peers.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <poll.h>
#include <sys/stat.h>

enum { WORDS = 512, BYTES = 1 << 14, PATIENCE_MS = 60000 };

/* Links a worker. Returns the worker's peer number after the coordinator has received "hello"; -1 on failure. */
static int
join(struct link *c, struct link **w)
{
    const void *bytes;
    size_t n;
    int peer;
    if (link_join(link_endpoint(c, LINK_CONTROL), NULL, w)) return -1;
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (link_state(*w) == LINK_UP) {
            if (link_send(*w, LINK_CONTROL, 0, "hello", 5)) return -1;
            break;
        }
        poll(NULL, 0, 1);
    }
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (link_receive(c, LINK_CONTROL, &peer, &bytes, &n)) return peer;
        poll(NULL, 0, 1);
    }
    return -1;
}

/* Returns the number of messages that arrive from an end that has closed. tells: true: stops when link_state()
 * reports that the other end is down. */
static int
hear(struct link *l, bool tells)
{
    const void *bytes;
    size_t n;
    int peer, heard = 0;
    for (int i = 0; i < PATIENCE_MS; i++) {
        bool down = tells && link_state(l) == LINK_DOWN;
        while (link_receive(l, LINK_CONTROL, &peer, &bytes, &n)) heard += n == BYTES;
        if (down || heard == WORDS) break;
        poll(NULL, 0, 1);
    }
    return heard;
}

static void
test_last_words(const char *bind)
{
    static const char word[BYTES];
    struct link *c = NULL, *w = NULL, *left;
    int said = 0;
    for (int from = 0; from < 2; from++) {
        if (link_serve(bind, NULL, &c)) {
            diag("%s", err_text());
            exit(1);
        }
        int peer = join(c, &w);
        for (said = 0; said < WORDS && peer >= 0; said++)
            if (link_send(from ? w : c, LINK_CONTROL, from ? 0 : peer, word, sizeof word)) break;
        link_free(from ? &w : &c);
        left = from ? c : w;
        ok(said == WORDS && hear(left, !from) == WORDS, "%s: all words that %s sent before it ended are received",
           bind ? bind : "ipc", from ? "a worker" : "a coordinator");
        link_free(&left);
    }
}

/* Ends a coordinator. Its worker must find that connections are refused, but must not report this before the end. */
static void
test_refused(const char *bind)
{
    struct link *c, *w;
    bool early = false, late = false;
    if (link_serve(bind, NULL, &c) || join(c, &w) < 0) {
        diag("%s", err_text());
        exit(1);
    }
    for (int i = 0; i < 100; i++) early |= link_is_refused(w);
    link_free(&c);
    for (int i = 0; i < PATIENCE_MS && !late; i++) {
        late = link_state(w) == LINK_DOWN && link_is_refused(w);
        poll(NULL, 0, 1);
    }
    ok(!early && late, "%s: connections are refused after the coordinator has ended, not before", bind ? bind : "ipc");
    is_int(link_connections(w, LINK_CONTROL), 1, "the worker had one connection");
    link_free(&w);
}

/* Connects more workers in succession than a link remembers ended connections. Their numbers must be used again. */
static void
test_numbers(void)
{
    struct link *c, *w;
    int last = -1, most = 0;
    bool good = !link_serve(NULL, NULL, &c);
    for (int i = 0; good && i < 2 * PEERS_RELEASED; i++) {
        int peer = join(c, &w);
        good = peer >= 0 && peer != last;
        if (last >= 0) good &= link_send(c, LINK_CONTROL, peer, "you", 3) == 0;
        link_release(c, LINK_CONTROL, peer);
        link_free(&w);
        most = MAX(most, peer_slot(peer));
        last = peer;
    }
    ok(good && most <= PEERS_RELEASED, "%d workers in succession use the numbers of ended connections again",
       2 * PEERS_RELEASED);
    ok(link_send(c, LINK_CONTROL, 0, "you", 3) == E_BUS, "a message to an ended connection reaches no other worker");
    err_clear();
    link_free(&c);
}

/* Tries to bind an address. Checks the expected error; NULL: binding must succeed. */
static void
test_bind(void)
{
    static const struct {
        const char *address, *wrong;
    } table[] = {
        {"tcp://127.0.0.1:*", NULL},
        {"ipc:///tmp/rille-x/beat",
         "\"ipc:///tmp/rille-x/beat\" cannot be bound: expected ipc://FOLDER/control, with at "
         "most 95 characters of FOLDER"},
        {"ipc:///control",
         "\"ipc:///control\" cannot be bound: expected ipc://FOLDER/control, with at most 95 characters of FOLDER"},
        {"ipc:///no/such/folder/control", "ipc:///no/such/folder/control: No such file or directory"},
        {"ipc://x", "\"ipc://x\" cannot be bound: expected tcp://HOST:PORT or ipc:///FOLDER/control"},
        {"inproc://x", "\"inproc://x\" cannot be bound: expected tcp://HOST:PORT or ipc:///FOLDER/control"},
        {"", "\"\" cannot be bound: expected tcp://HOST:PORT or ipc:///FOLDER/control"}};
    for (size_t i = 0; i < countof(table); i++) {
        struct link *l;
        bool refused = link_serve(table[i].address, NULL, &l);
        if (table[i].wrong)
            is_str(refused ? err_text() : "bound", table[i].wrong, "other addresses are refused");
        else
            ok(!refused, "%s can be bound", table[i].address);
        if (!refused) link_free(&l);
    }
}

/* Binds a socket in a named folder, then tries to bind a second one there, which must be refused. A folder that a
 * killed coordinator left must be replaced. */
static void
test_named_folder(void)
{
    char folder[64], address[96];
    struct link *first, *second;
    struct stat st;
    snprintf(folder, sizeof folder, "/tmp/rille-t-link-%d", (int)getpid());
    snprintf(address, sizeof address, "ipc://%s/control", folder);
    mkdir(folder, 0700); /* a folder left by a coordinator that ended: no process holds its lock */
    ok(!link_serve(address, NULL, &first) && !strcmp(link_endpoint(first, LINK_CONTROL), address),
       "a folder without an owner is replaced");
    ok(!stat(folder, &st) && (st.st_mode & 0777) == 0700, "the folder has mode 0700");
    ok(link_serve(address, NULL, &second) && strstr(err_text(), "Address already in use"),
       "a second coordinator cannot take the folder");
    ok(!stat(folder, &st), "the refused coordinator leaves the folder of the first");
    link_free(&first);
    ok(stat(folder, &st), "the folder is removed with the link");
}

int
main(void)
{
    test_bind();
    test_named_folder();
    test_last_words(NULL);
    test_last_words("tcp://127.0.0.1:*");
    test_numbers();
    test_refused(NULL);
    test_refused("tcp://127.0.0.1:*");
    return done();
}
