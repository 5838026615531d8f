/* key.c - generates, reads and checks key files. */
#include "actors/cluster/wire/key.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/system.h"

#include <zmq.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 23 };
static const char title[] = "rille key 1", title_of_ranks[] = "rille keys 1";
static const char *const side_name[2] = {"coordinator", "worker"};

static int
new_pair(char public[KEY_TEXT], char secret[KEY_TEXT])
{
    return zmq_curve_keypair(public, secret) ? fail(E_STATE, "keys: this libzmq was built without CURVE") : 0;
}

int
key_new(struct str *text)
{
    char public[KEY_TEXT], secret[KEY_TEXT];
    str_addf(text, "%s\n", title);
    for (int side = 0; side < 2; side++) {
        TRY(new_pair(public, secret));
        str_addf(text, "%s %s\n", side_name[side], secret);
    }
    system_erase(secret, sizeof secret);
    return 0;
}

int
key_new_ranks(int nrank, struct str *text)
{
    char public[KEY_TEXT], secret[KEY_TEXT];
    if (nrank < 1) return fail(E_ARG, "keys: the number of workers must be at least 1, found %d", nrank);
    for (int i = 0; i <= nrank; i++) str_addf(&text[i], "%s\n", title_of_ranks);
    for (int whose = 0; whose <= nrank; whose++) {
        TRY(new_pair(public, secret));
        for (int i = 0; i <= nrank; i++)
            str_addf(&text[i], "%s %s\n", i == whose ? "secret" : "public", i == whose ? secret : public);
    }
    system_erase(secret, sizeof secret);
    return 0;
}

void
key_file_name(int whose, char name[KEY_FILE])
{
    if (whose < 0)
        snprintf(name, KEY_FILE, "%s", side_name[KEY_COORDINATOR]);
    else
        snprintf(name, KEY_FILE, "%s-%d", side_name[KEY_WORKER], whose);
}

/* Sets *line to the next line and returns its length without the line end; -1: no more lines. */
static int
next_line(const char **at, const char *end, const char **line)
{
    if (*at == end) return -1;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = *at;
    *at = stop ? stop + 1 : end;
    return (int)((stop ? stop : end) - *line);
}

/* Returns true if the line consists of NAME, a space and a key of 40 characters. */
static bool
is_line(const char *line, int n, const char *name)
{
    size_t length = strlen(name);
    return n == (int)length + KEY_TEXT && !memcmp(line, name, length) && line[length] == ' ';
}

static void
copy_key(const char *line, int n, char key[KEY_TEXT])
{
    memcpy(key, line + n - (KEY_TEXT - 1), KEY_TEXT - 1);
    key[KEY_TEXT - 1] = '\0';
}

/* Reads a secret key from a line and derives its public key. Rejects a NUL among the characters, because libzmq would
 * stop at the NUL and derive a key from uninitialized bytes. */
static int
read_secret(const char *line, int n, int at, char secret[KEY_TEXT], char public[KEY_TEXT])
{
    copy_key(line, n, secret);
    if (strlen(secret) != KEY_TEXT - 1 || zmq_curve_public(public, secret))
        return fail(E_ARG, "line %d: its 40 characters are not a valid key", at);
    return 0;
}

static int
read_public(const char *line, int n, int at, char public[KEY_TEXT])
{
    uint8_t bytes[32];
    copy_key(line, n, public);
    if (strlen(public) != KEY_TEXT - 1 || !zmq_z85_decode(bytes, public))
        return fail(E_ARG, "line %d: its 40 characters are not a valid key", at);
    return 0;
}

static int
parse_one(const char *at, const char *end, struct key *out)
{
    const char *line;
    out->rank = KEY_ANY;
    for (int side = 0; side < 2; side++) {
        int n = next_line(&at, end, &line);
        if (n < 0) return fail(E_ARG, "line %d is missing", side + 2);
        if (!is_line(line, n, side_name[side]))
            return fail(E_ARG, "line %d: expected \"%s\" and 40 characters", side + 2, side_name[side]);
        TRY(read_secret(line, n, side + 2, out->secret[side], out->public[side]));
    }
    return at == end ? 0 : fail(E_ARG, "line 4: unexpected text after the key");
}

/* Parses the lines of a key file with a key per rank: the coordinator's line, then a line per rank. Exactly one of
 * the lines must hold a secret. */
static int
parse_ranks(const char *at, const char *end, struct key *out)
{
    const char *line;
    int n, nsecret = 0, i = 0, capacity = 0;
    for (; (n = next_line(&at, end, &line)) >= 0; i++) {
        bool secret = is_line(line, n, "secret");
        if (!secret && !is_line(line, n, "public"))
            return fail(E_ARG, "line %d: expected \"public\" or \"secret\" and 40 characters", i + 2);
        GROW(out->of, i, capacity);
        char *public = i ? out->of[i - 1] : out->public[KEY_COORDINATOR];
        nsecret += secret;
        if (secret) out->rank = i ? i - 1 : KEY_COORDINATORS;
        TRY(secret ? read_secret(line, n, i + 2, out->secret[i > 0], public) : read_public(line, n, i + 2, public));
    }
    if (i < 2 || nsecret != 1)
        return fail(E_ARG, "expected keys of one or more ranks and exactly one secret, found %d and %d", i - 1,
                    nsecret);
    out->nrank = i - 1;
    if (out->rank >= 0) memcpy(out->public[KEY_WORKER], out -> of[out->rank], KEY_TEXT);
    return 0;
}

static int
parse_key(const char *at, const char *end, struct key *out)
{
    const char *line;
    int n = next_line(&at, end, &line);
    if (n == (int)sizeof title - 1 && !memcmp(line, title, sizeof title - 1)) return parse_one(at, end, out);
    if (n == (int)sizeof title_of_ranks - 1 && !memcmp(line, title_of_ranks, sizeof title_of_ranks - 1))
        return parse_ranks(at, end, out);
    return fail(E_ARG, "line 1: expected \"%s\" (rille keys > FILE makes a key file)", title);
}

int
key_parse(const char *text, size_t size, struct key *out)
{
    *out = (struct key){0};
    int status = parse_key(text, text + size, out);
    if (status) key_forget(out);
    return status;
}

void
key_copy(const struct key *k, struct key *out)
{
    *out = *k;
    if (k->nrank) out->of = must_copy(k->of, sizeof *k->of * (size_t)k->nrank);
}

static int
read_key_file(int fd, const char *path, struct key *out)
{
    struct stat st;
    if (fstat(fd, &st)) return fail(E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return fail(E_IO, "%s: a key must be a regular file", path);
    if (st.st_mode & 077)
        return fail(
            E_IO,
            "%s: other users can read or write this key file (mode %04o); run chmod 600 on it; for a Kubernetes "
            "secret, set defaultMode: 0400 without fsGroup, or copy the key to a file of mode 0600",
            path, (unsigned)st.st_mode & 07777);
    if (st.st_size > FILE_MOST)
        return fail(E_ARG, "%s: a key file must have at most %d bytes, found %lld", path, FILE_MOST,
                    (long long)st.st_size);
    char *text = must_alloc((size_t)st.st_size + 1);
    ssize_t n = read(fd, text, (size_t)st.st_size);
    int status = n < 0 ? fail(E_IO, "%s", strerror(errno)) : key_parse(text, (size_t)n, out);
    system_erase(text, (size_t)st.st_size);
    free(text);
    if (status) err_note("%s", path);
    return status;
}

/* Limits core files to 1 byte, because a core file would contain the key and libzmq's copies of the key. The limit
 * is not 0, because the kernel ignores 0 if it pipes core files to a program (core(5)). */
static void
leave_no_core(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_CORE, &r)) return;
    r.rlim_cur = MIN(r.rlim_max, (rlim_t)1);
    setrlimit(RLIMIT_CORE, &r);
}

static int
open_key_file(const char *path, int whose, int *fd)
{
    char name[KEY_FILE];
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (*fd < 0 || fstat(*fd, &st) || !S_ISDIR(st.st_mode)) return 0;
    int folder = *fd;
    *fd = -1;
    key_file_name(whose, name);
    if (whose != KEY_ANY) *fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int why = errno;
    close(folder);
    errno = why;
    if (whose == KEY_ANY)
        return fail(
            E_ARG, "%s: the folder has a key for each rank, but this worker has no rank; start it with --rank R", path);
    return *fd < 0 ? fail(E_IO, "%s/%s: %s", path, name, strerror(errno)) : 0;
}

static int
check_whose(const char *path, int whose, const struct key *k)
{
    if (whose == KEY_COORDINATORS && !k->secret[KEY_COORDINATOR][0])
        return fail(E_ARG, "%s: this is the key of rank %d; the coordinator needs its own", path, k->rank);
    if (whose != KEY_COORDINATORS && !k->secret[KEY_WORKER][0])
        return fail(E_ARG, "%s: this is the coordinator's key; a worker needs the key of its rank", path);
    if (whose >= 0 && k->rank >= 0 && whose != k->rank)
        return fail(E_ARG, "%s: this is the key of rank %d, but this worker is rank %d", path, k->rank, whose);
    return 0;
}

int
key_read(const char *path, int whose, struct key *out)
{
    int fd;
    *out = (struct key){0};
    leave_no_core();
    TRY(open_key_file(path, whose, &fd));
    if (fd < 0)
        return fail(E_IO, "the key file '%s' cannot be read: %s; rille keys > FILE makes a key", path, strerror(errno));
    int status = read_key_file(fd, path, out);
    close(fd);
    if (!status) status = check_whose(path, whose, out);
    if (status) key_forget(out);
    return status;
}

void
key_forget(struct key *k)
{
    free(k->of);
    system_erase(k, sizeof *k);
}
