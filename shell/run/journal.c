/* journal.c - writes the log of a program: one JSON object per line. */
#include "shell/run/journal.h"

#include "shell/bind/base/clock.h"
#include "shell/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    int fd;      /* file descriptor of the log; -1: no log */
    bool failed; /* true: a failed write was reported */
    char path[512], job[128], host[64];
    int rank;          /* rank of this worker; -1: not a worker */
    json_t *report;    /* the last report, if it is not written yet; NULL: none */
    double reported_s; /* time of the last written report, s (clock_seconds()) */
} journal = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .rank = -1};

int
journal_open(const char *option, const char *path)
{
    char text[PATH_MAX + 100];
    journal.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    snprintf(text, sizeof text, "%s: cannot open %s: %s", option, path, strerror(errno));
    if (journal.fd < 0) return tell_line(text), -1;
    snprintf(journal.path, sizeof journal.path, "%s", path);
    gethostname(journal.host, sizeof journal.host - 1);
    return 0;
}

bool
journal_is_open(void)
{
    return journal.fd >= 0;
}

void
journal_job(const char *name)
{
    const char *slash = strrchr(name, '/');
    snprintf(journal.job, sizeof journal.job, "%s", slash ? slash + 1 : name);
}

void
journal_rank(int rank)
{
    journal.rank = rank;
}

/* Returns a JSON string. Bytes that are not UTF-8 become "?". */
static json_t *
text_value(const char *text)
{
    json_t *value = json_string(text);
    if (value) return value;
    char *plain = strdup(text);
    for (char *c = plain; c && *c; c++)
        if (*c & 0x80) *c = '?';
    value = json_string(plain ? plain : "");
    free(plain);
    return value;
}

static json_t *
begin_line(const char *event)
{
    char now[CLOCK_DATE];
    json_t *line = json_object();
    clock_date(now);
    json_object_set_new(line, "time", json_string(now));
    json_object_set_new(line, "job", text_value(journal.job));
    json_object_set_new(line, "host", text_value(journal.host));
    json_object_set_new(line, "pid", json_integer(getpid()));
    if (journal.rank >= 0) json_object_set_new(line, "rank", json_integer(journal.rank));
    json_object_set_new(line, "event", json_string(event));
    return line;
}

/* Appends a line to the file. Reports the first failure on stderr; the program goes on. */
static void
put_text(const char *text, size_t n)
{
    ssize_t done = write(journal.fd, text, n);
    bool good = done == (ssize_t)n;
    if (!good && !journal.failed)
        fprintf(stderr, "rille: warning: the log %s could not be written: %s\n", journal.path,
                done < 0 ? strerror(errno) : "the disk is full");
    journal.failed = !good;
}

void
journal_write(const char *event, json_t *fields)
{
    if (journal.fd >= 0) {
        json_t *line = begin_line(event);
        if (fields) json_object_update(line, fields);
        char *text = json_dumps(line, JSON_COMPACT);
        char *whole = NULL;
        int n = text ? asprintf(&whole, "%s\n", text) : -1;
        pthread_mutex_lock(&journal.lock);
        if (n > 0) put_text(whole, (size_t)n);
        pthread_mutex_unlock(&journal.lock);
        if (n > 0) free(whole);
        free(text);
        json_decref(line);
    }
    json_decref(fields);
}

void
journal_report(json_t *fields)
{
    double now = clock_seconds();
    json_decref(journal.report);
    journal.report = fields;
    if (now - journal.reported_s < 1) return;
    journal.reported_s = now;
    journal_flush();
}

void
journal_flush(void)
{
    if (journal.report) journal_write("report", journal.report);
    journal.report = NULL;
}

void
journal_event(const char *event, const char *text)
{
    if (journal.fd < 0) return;
    json_t *fields = json_object();
    if (text) json_object_set_new(fields, "text", text_value(text));
    journal_write(event, fields);
}
