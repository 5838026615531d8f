/* key.c - key files: made, read, refused. */
#include "actors/cluster/key.h"

#include "runtime/error.h"

#include <zmq.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 4096 };
static const char title[] = "rille key 1";
static const char *const side_name[2] = {"coordinator", "worker"};

int
key_new(struct str *text)
{
    char public[KEY_TEXT], secret[KEY_TEXT];
    str_addf(text, "%s\n", title);
    for (int side = 0; side < 2; side++) {
        if (zmq_curve_keypair(public, secret)) return fail(E_STATE, "keys: this libzmq was built without CURVE");
        str_addf(text, "%s %s\n", side_name[side], secret);
    }
    explicit_bzero(secret, sizeof secret);
    return 0;
}

/* One line without its end: its length; -1 when there is none. */
static int
next_line(const char **at, const char *end, const char **line)
{
    if (*at == end) return -1;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = *at;
    *at = stop ? stop + 1 : end;
    return (int)((stop ? stop : end) - *line);
}

static int
read_side(const char *line, int n, int side, struct key *out)
{
    size_t name = strlen(side_name[side]);
    if (n != (int)name + KEY_TEXT || memcmp(line, side_name[side], name) || line[name] != ' ')
        return fail(E_ARG, "line %d: \"%s\" and 40 characters are wanted", side + 2, side_name[side]);
    memcpy(out->secret[side], line + name + 1, KEY_TEXT - 1);
    out->secret[side][KEY_TEXT - 1] = '\0';
    /* A zero among them would end the text for libzmq, which makes a key of what it does not write then. */
    if (strlen(out->secret[side]) != KEY_TEXT - 1 || zmq_curve_public(out->public[side], out -> secret[side]))
        return fail(E_ARG, "line %d: its 40 characters are no key", side + 2);
    return 0;
}

int
key_parse(const char *text, size_t size, struct key *out)
{
    const char *at = text, *end = text + size, *line;
    int n = next_line(&at, end, &line);
    if (n != (int)sizeof title - 1 || memcmp(line, title, sizeof title - 1))
        return fail(E_ARG, "line 1: \"%s\" is wanted (rille keys > FILE makes one)", title);
    for (int side = 0; side < 2; side++) {
        n = next_line(&at, end, &line);
        if (n < 0) return fail(E_ARG, "line %d: it is not there", side + 2);
        TRY(read_side(line, n, side, out));
    }
    return at == end ? 0 : fail(E_ARG, "line 4: there is more than a key");
}

static int
read_file(int fd, const char *path, struct key *out)
{
    char text[FILE_MOST];
    struct stat st;
    if (fstat(fd, &st)) return fail(E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return fail(E_IO, "%s: it is no file", path);
    if (st.st_mode & 077)
        return fail(E_IO, "%s: others can read or write it (mode %04o); chmod 600 it", path,
                    (unsigned)st.st_mode & 07777);
    ssize_t n = read(fd, text, sizeof text);
    if (n < 0) return fail(E_IO, "%s: %s", path, strerror(errno));
    int status = key_parse(text, (size_t)n, out);
    explicit_bzero(text, sizeof text);
    if (status) err_note("%s", path);
    return status;
}

/* A core file would have the key, and libzmq's copies of it, so this process leaves none. The limit is 1 byte, since 0
 * does not bind those that go to a program (core(5)). */
static void
leave_no_core(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_CORE, &r)) return;
    r.rlim_cur = MIN(r.rlim_max, (rlim_t)1);
    setrlimit(RLIMIT_CORE, &r);
}

int
key_read(const char *path, struct key *out)
{
    leave_no_core();
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail(E_IO, "%s: %s", path, strerror(errno));
    int status = read_file(fd, path, out);
    close(fd);
    return status;
}

void
key_forget(struct key *k)
{
    explicit_bzero(k, sizeof *k);
}
