/* Tests of actors/cluster/wire/key.c and curve.c: key files, and the rank that the coordinator derives from the key
 * of a link. */
#include "actors/cluster/wire/link.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum { RANKS = 3 };
static uint64_t state;
static struct str one, of[RANKS + 1];

/* ---- reading key files ---- */

static char folder[] = "/tmp/rille-keys-XXXXXX";

static void
path_of(int whose, char path[64])
{
    char name[KEY_FILE];
    key_file_name(whose, name);
    snprintf(path, 64, "%s/%s", folder, name);
}

static void
write_file(const char *path, const struct str *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, text->text, text->len) != (ssize_t)text->len) exit(1);
    close(fd);
}

static void
test_core(void)
{
    char path[64];
    struct rlimit r;
    struct key k;
    path_of(0, path);
    getrlimit(RLIMIT_CORE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_CORE, &r);
    bool read = !key_read(path, 0, &k);
    if (read) key_forget(&k);
    getrlimit(RLIMIT_CORE, &r);
    ok(read && r.rlim_cur <= 1, "a process that has read a key writes no core file (the host permits %s)",
       r.rlim_max ? "one" : "none");
}

static void
test_whose(void)
{
    static const struct {
        int file, whose;
        const char *text; /* expected error; NULL: the key is accepted */
    } row[] = {
        {-1, KEY_COORDINATORS, NULL},
        {0, 0, NULL},
        {2, 2, NULL},
        {1, KEY_ANY, NULL},
        {1, 2, "this is the key of rank 1, but this worker is rank 2"},
        {1, KEY_COORDINATORS, "this is the key of rank 1; the coordinator needs its own"},
        {-1, 1, "this is the coordinator's key; a worker needs the key of its rank"},
        {-1, KEY_ANY, "this is the coordinator's key; a worker needs the key of its rank"},
    };
    char path[64];
    struct key k;
    for (size_t i = 0; i < countof(row); i++) {
        path_of(row[i].file, path);
        int status = key_read(path, row[i].whose, &k);
        ok(row[i].text ? status == E_ARG && strstr(err_text(), row[i].text) : !status,
           "key file of rank %d read as rank %d: %s", row[i].file, row[i].whose,
           row[i].text ? row[i].text : "accepted");
        key_forget(&k);
    }
    for (int whose = KEY_COORDINATORS; whose < RANKS; whose++) {
        if (whose == KEY_ANY) continue;
        ok(!key_read(folder, whose, &k) && k.rank == whose && k.nrank == RANKS,
           "rank %d finds its own key in the folder", whose);
        key_forget(&k);
    }
    ok(key_read(folder, KEY_ANY, &k) == E_ARG && strstr(err_text(), "--rank R"),
       "without a rank no key is read from the folder");
    ok(key_read(folder, RANKS, &k) == E_IO && strstr(err_text(), "worker-3"),
       "a rank beyond the job has no key in the folder");
    path_of(0, path);
    chmod(path, 0640);
    ok(key_read(folder, 0, &k) == E_IO && strstr(err_text(), "other users can read"),
       "a key file that other users can read is refused");
    chmod(path, 0600);
}

/* Lays out a folder as Kubernetes mounts a secret: each name is a link to ..data/NAME, and ..data is a link to a folder
 * with the files. */
static void
test_secret(void)
{
    char secret[] = "/tmp/rille-secret-XXXXXX", path[96], target[96];
    struct key k;
    if (!mkdtemp(secret)) exit(1);
    snprintf(path, sizeof path, "%s/..2026", secret);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/..data", secret);
    if (symlink("..2026", path)) exit(1);
    for (int whose = KEY_COORDINATORS; whose < RANKS; whose++) {
        char name[KEY_FILE];
        if (whose == KEY_ANY) continue;
        key_file_name(whose, name);
        snprintf(path, sizeof path, "%s/..2026/%s", secret, name);
        write_file(path, &of[MAX(whose, -1) + 1]);
        chmod(path, 0400);
        snprintf(target, sizeof target, "..data/%s", name);
        snprintf(path, sizeof path, "%s/%s", secret, name);
        if (symlink(target, path)) exit(1);
        ok(!key_read(path, whose, &k) && k.rank == whose, "a mounted secret is a key file: %s", name);
        key_forget(&k);
        ok(!key_read(secret, whose, &k) && k.rank == whose, "a mounted secret is a folder of keys: %s", name);
        key_forget(&k);
        chmod(path, 0440);
        ok(key_read(secret, whose, &k) == E_IO && strstr(err_text(), "(mode 0440)") &&
               strstr(err_text(), "defaultMode: 0400 without fsGroup"),
           "a secret that a group can read is refused: %s", name);
        unlink(path);
        snprintf(path, sizeof path, "%s/..2026/%s", secret, name);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/..data", secret);
    unlink(path);
    snprintf(path, sizeof path, "%s/..2026", secret);
    rmdir(path);
    rmdir(secret);
}

/* Truncates and damages key files. A truncated file must be refused unless it contains the complete secret. A
 * damaged file must be refused, or read as a key whose fields have full length. */
static void
test_damage(const struct str *text, const char *what)
{
    int taken = 0, n = 10000;
    struct key k;
    ok(!key_parse(text->text, text->len, &k), "%s key is read", what);
    key_forget(&k);
    for (size_t cut = 0; cut + 1 < text->len; cut++) {
        taken += !key_parse(text->text, cut, &k) && (k.nrank == 0 || !k.secret[k.rank >= 0][0]);
        key_forget(&k);
    }
    ok(!taken, "%s key that is truncated is refused, or complete up to its secret", what);
    for (int i = 0; i < n; i++) {
        struct str bad = {0};
        str_addn(&bad, text->text, text->len);
        for (int c = (int)(next_random(&state) % 4); c >= 0; c--)
            bad.text[next_random(&state) % bad.len] = (char)next_random(&state);
        if (!key_parse(bad.text, bad.len, &k)) taken += strlen(k.public[KEY_COORDINATOR]) != KEY_TEXT - 1;
        str_free(&bad);
        key_forget(&k);
    }
    ok(!taken, "%d damaged keys do no harm", n);
}

/* Makes keys for many ranks. Even the last rank must have a key of its own. A copy of a key must stay valid after
 * the original is erased. */
static void
test_many(void)
{
    enum { MANY = 300 };
    struct str text[MANY + 1] = {0};
    struct key last, copy;
    bool made = !key_new_ranks(MANY, text) && !key_parse(text[MANY].text, text[MANY].len, &last);
    ok(made && last.nrank == MANY && last.rank == MANY - 1, "a job of %d ranks has a key for each", MANY);
    key_copy(&last, &copy);
    key_forget(&last);
    ok(!strcmp(copy.of[MANY - 1], copy.public[KEY_WORKER]), "each key file lists the last rank's public key");
    key_forget(&copy);
    for (int i = 0; i <= MANY; i++) str_free(&text[i]);
    is_int(key_new_ranks(0, text), E_ARG, "keys for a job without workers are refused");
}

/* ---- ranks that links derive from keys ---- */

static struct key
key_of(const struct str *text)
{
    struct key k;
    if (key_parse(text->text, text->len, &k)) diag("%s", err_text()), exit(1);
    return k;
}

/* Returns the rank that the coordinator derives from the worker's key. Returns KEY_COORDINATORS if the coordinator
 * refuses the key, or if no message arrives within two seconds. */
static int
seen(struct key *served, struct key *joined)
{
    struct link *c, *w;
    const void *bytes;
    size_t n;
    int peer, who = KEY_COORDINATORS;
    if (link_serve("tcp://127.0.0.1:*", served, &c) || link_join(link_endpoint(c, LINK_CONTROL), joined, &w)) exit(1);
    for (int i = 0; i < 2000 && who == KEY_COORDINATORS; i++) {
        struct timespec nap = {.tv_nsec = 1000000};
        nanosleep(&nap, NULL);
        if (link_state(w) == LINK_DENIED) break;
        if (link_state(w) == LINK_UP && link_send(w, LINK_CONTROL, 0, "hello", 5)) err_clear();
        if (link_receive(c, LINK_CONTROL, &peer, &bytes, &n)) who = link_rank(c, LINK_CONTROL, peer);
        if (who == 1)
            ok(!link_is_of(c, LINK_CONTROL, peer, 0) && link_is_of(c, LINK_CONTROL, peer, 1),
               "a rank's key is valid for no other rank");
    }
    link_free(&w);
    link_free(&c);
    return who;
}

static void
test_links(void)
{
    struct str others[RANKS + 1] = {0};
    struct key all = key_of(&one), coordinator = key_of(&of[0]), stranger;
    key_new_ranks(RANKS, others);
    is_int(seen(&all, &all), KEY_ANY, "the shared key is valid for any rank");
    for (int r = 0; r < RANKS; r++) {
        struct key k = key_of(&of[1 + r]);
        is_int(seen(&coordinator, &k), r, "a rank's key is valid for that rank");
        key_forget(&k);
    }
    stranger = key_of(&others[1]);
    memcpy(stranger.public[KEY_COORDINATOR], coordinator.public[KEY_COORDINATOR], KEY_TEXT);
    is_int(seen(&coordinator, &stranger), KEY_COORDINATORS, "a key that is not on the list is denied");
    key_forget(&stranger);
    stranger = key_of(&of[1]);
    memcpy(stranger.public[KEY_WORKER], stranger.of[1], KEY_TEXT);
    is_int(seen(&coordinator, &stranger), KEY_COORDINATORS, "a public key without its secret is denied");
    key_forget(&stranger);
    key_forget(&coordinator);
    for (int i = 0; i <= RANKS; i++) str_free(&others[i]);
}

int
main(void)
{
    char path[64];
    state = seed_of(11);
    if (key_new(&one) || key_new_ranks(RANKS, of)) {
        ok(true, "keys # SKIP %s", err_text());
        return done();
    }
    if (!mkdtemp(folder)) exit(1);
    for (int i = 0; i <= RANKS; i++) {
        path_of(i ? i - 1 : KEY_COORDINATORS, path);
        write_file(path, &of[i]);
    }
    struct key k = key_of(&one);
    ok(strcmp(k.public[0], k.public[1]) && k.nrank == 0, "the shared key has two different public keys");
    test_damage(&one, "the shared");
    test_damage(&of[0], "the coordinator's");
    test_damage(&of[2], "a rank's");
    test_many();
    test_whose();
    test_secret();
    test_core();
    test_links();
    for (int i = 0; i <= RANKS; i++) {
        path_of(i ? i - 1 : KEY_COORDINATORS, path);
        unlink(path);
        str_free(&of[i]);
    }
    rmdir(folder);
    str_free(&one);
    return done();
}
