/* front_keys.c - creates keys, in files or for the processes of one job. */
#include "shell/launch/front_keys.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int
key_in_memory(const char *text, size_t n, char path[KEY_PATH])
{
    int fd = system_unnamed_file(path, KEY_PATH);
    if (fd < 0) return errno;
    int code = write(fd, text, n) != (ssize_t)n ? EIO : 0;
    lseek(fd, 0, SEEK_SET); /* on some systems the opened path shares fd's position */
    if (code) close(fd);
    return code;
}

static void
erase_text(char *text)
{
    if (text) system_erase(text, strlen(text));
    free(text);
}

static int
keys_failed(const char *what, const char *why)
{
    fprintf(stderr, "rille: keys: %s%s%s\n", what, *what ? ": " : "", why);
    return 1;
}

/* ---- files ---- */

/* Writes a key to stdout. If stdout is a file, makes it readable by its owner only, because the shell may have
 * created it with other permissions. */
int
keys_one(void)
{
    struct stat st;
    char *text;
    if (rille_key_new(&text)) return keys_failed("", rille_error());
    bool safe = fstat(1, &st) || !S_ISREG(st.st_mode) || !fchmod(1, 0600);
    if (!safe) keys_failed("the file cannot be protected from other users", strerror(errno));
    bool written = safe && fputs(text, stdout) >= 0 && fflush(stdout) == 0;
    erase_text(text);
    return written ? 0 : 1;
}

static int
write_key(const char *folder, int rank, const char *text)
{
    char name[RILLE_KEY_NAME], path[FRONT_TEXT];
    rille_key_name(rank, name);
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return keys_failed(folder, "the name is too long");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !fsync(fd);
    const char *why =
        errno == EEXIST ? "a key exists already; delete the file, or name another folder" : strerror(errno);
    int code = written ? 0 : keys_failed(path, why);
    if (fd >= 0) close(fd);
    return code;
}

/* Creates a key for the coordinator and for each rank. */
static int
new_keys(int workers, char ***out)
{
    char **text = calloc((size_t)workers + 1, sizeof *text);
    *out = text;
    return text && !rille_key_new_ranks(workers, text) ? 0 : keys_failed("", text ? rille_error() : strerror(errno));
}

static void
forget_keys(int workers, char **text)
{
    for (int i = 0; text && i <= workers; i++) erase_text(text[i]);
    free(text);
}

int
keys_folder(const char *folder, int workers)
{
    char **text = NULL;
    int code = mkdir(folder, 0700) && errno != EEXIST ? keys_failed(folder, strerror(errno)) : new_keys(workers, &text);
    for (int i = 0; i <= workers && !code; i++) code = write_key(folder, i - 1, text[i]);
    forget_keys(workers, text);
    return code;
}

/* ---- a job ---- */

int
keys_of_job(struct front *f)
{
    int workers = f->cluster.workers;
    char **text;
    if (new_keys(workers, &text)) return forget_keys(workers, text), 1;
    f->key = calloc((size_t)workers + 1, sizeof *f->key);
    int code = f->key ? 0 : ENOMEM;
    for (int i = 0; i <= workers && !code; i++) code = key_in_memory(text[i], strlen(text[i]), f->key[i]);
    forget_keys(workers, text);
    if (code) return keys_failed("", strerror(code));
    f->cluster.key_file = f->key[0];
    return 0;
}

const char *
key_of_worker(const struct front *f, int rank, char path[FRONT_TEXT])
{
    struct stat st;
    char name[RILLE_KEY_NAME];
    const char *file = f->cluster.key_file;
    if (f->key) return f->key[1 + rank];
    if (!file || stat(file, &st) || !S_ISDIR(st.st_mode)) return file;
    rille_key_name(rank, name);
    snprintf(path, FRONT_TEXT, "%s/%s", file, name);
    return path;
}
