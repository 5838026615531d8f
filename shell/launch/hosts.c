/* hosts.c - parses lists of hosts in one pass. An item of the list consists of words; its first word may contain
 * brackets. */
#include "shell/launch/hosts.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct reader {
    const char *at, *end, *line; /* line: start of the current line */
    int nline;
    struct hosts *out;
    struct hosts_error *error;
};

struct word {
    const char *at, *end;
};

static const char digits[] = "0123456789";
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

static int __attribute__((format(printf, 3, 4)))
hosts_malformed(const struct reader *r, const char *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    r->error->line = r->nline;
    r->error->column = (int)(at - r->line) + 1;
    vsnprintf(r->error->text, sizeof r->error->text, fmt, ap);
    va_end(ap);
    return -1;
}

static bool
is_in(const char *set, char c)
{
    return c && strchr(set, c);
}

static int
wrong_character(const struct reader *r, const char *at, const char *of)
{
    unsigned char c = (unsigned char)*at;
    return c > ' ' && c < 127 ? hosts_malformed(r, at, "%s must not contain '%c'", of, c)
                              : hosts_malformed(r, at, "%s must not contain byte 0x%02x", of, c);
}

/* Reads a word that is a number from 1 to `most`. */
static int
read_host_number(const struct reader *r, struct word w, const char *what, int most, int *out)
{
    long n = 0;
    const char *at = w.at;
    while (at < w.end && is_in(digits, *at) && n <= most) n = 10 * n + (*at++ - '0');
    if (at != w.end || n < 1 || n > most)
        return hosts_malformed(r, w.at, "%s must be a number from 1 to %d", what, most);
    *out = (int)n;
    return 0;
}

/* ---- hosts ---- */

static int
add_host(const struct reader *r, const char *at, const struct host *h)
{
    struct host *to = r->out->host, *end = to + r->out->n;
    while (to < end && (strcmp(to->name, h->name) || strcmp(to->user, h->user) || to->port != h->port)) to++;
    if (to == r->out->host + HOSTS_MOST) return hosts_malformed(r, at, "at most %d hosts are supported", HOSTS_MOST);
    if (to == end) {
        *to = *h;
        r->out->n++;
    } else {
        to->slots += h->slots;
        to->most = h->most ? h->most : to->most;
    }
    r->out->slots += h->slots;
    if (r->out->slots > HOST_SLOTS_MOST)
        return hosts_malformed(r, at, "at most %d workers are supported", HOST_SLOTS_MOST);
    if (to->most && to->slots > to->most)
        return hosts_malformed(r, at, "%s has %d slots, more than max_slots=%d", to->name, to->slots, to->most);
    return 0;
}

static int
add_host_piece(const struct reader *r, const char *at, struct host *h, const char *piece, size_t n)
{
    size_t length = strlen(h->name);
    if (length + n >= sizeof h->name)
        return hosts_malformed(r, at, "a host's name must have at most %d characters", HOST_NAME - 1);
    memcpy(h->name + length, piece, n);
    h->name[length + n] = '\0';
    return 0;
}

static int expand(const struct reader *r, const char *at, const char *end, struct host h);

/* Expands a number or range in brackets, "07" or "01-03"; the rest of the name begins at `rest`. */
static int
expand_range(const struct reader *r, struct word range, const char *rest, const char *end, const struct host *h)
{
    const char *dash = memchr(range.at, '-', (size_t)(range.end - range.at));
    struct word side[2] = {{range.at, dash ? dash : range.end}, {dash ? dash + 1 : range.at, range.end}};
    long n[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        const char *at = side[i].at;
        while (at < side[i].end && is_in(digits, *at) && at - side[i].at < 9) n[i] = 10 * n[i] + (*at++ - '0');
        if (at != side[i].end || at == side[i].at)
            return hosts_malformed(r, at, "brackets must have numbers of up to 9 digits, as in [01-03,07]");
    }
    int width = *side[0].at == '0' ? (int)(side[0].end - side[0].at) : 1;
    if (n[1] < n[0]) return hosts_malformed(r, side[1].at, "the end of a range must not be below its start");
    if (*side[1].at == '0' && side[1].end - side[1].at != width && n[1] > 0)
        return hosts_malformed(
            r, side[1].at,
            "both ends of a range must have the same number of digits, or the second must have no leading zeros");
    for (long k = n[0]; k <= n[1]; k++) {
        char text[16];
        struct host one = *h;
        int length = snprintf(text, sizeof text, "%0*ld", width, k);
        int code = add_host_piece(r, range.at, &one, text, (size_t)length);
        if (!code) code = expand(r, rest, end, one);
        if (code) return code;
    }
    return 0;
}

/* Adds each host that the rest of a host name expands to; h->name contains the part before the rest. */
static int
expand(const struct reader *r, const char *at, const char *end, struct host h)
{
    const char *stop = at;
    if (at < end && *at == '-' && !*h.name) return hosts_malformed(r, at, "a host's name must not begin with '-'");
    while (stop < end && is_in(plain, *stop)) stop++;
    if (stop < end && *stop != '[') return wrong_character(r, stop, "a host's name");
    int code = add_host_piece(r, at, &h, at, (size_t)(stop - at));
    if (code) return code;
    if (stop == end) return add_host(r, at, &h);
    const char *close = memchr(stop, ']', (size_t)(end - stop));
    assert(close); /* the bracket is closed, because read_host_name() has checked it */
    for (const char *from = stop + 1; from <= close; from++) {
        const char *comma = memchr(from, ',', (size_t)(close - from));
        struct word range = {from, comma ? comma : close};
        code = expand_range(r, range, close + 1, end, &h);
        if (code) return code;
        from = range.end;
    }
    return 0;
}

static int
add_ipv6(const struct reader *r, struct word w, struct host h)
{
    struct in6_addr address;
    char text[HOST_NAME] = "";
    size_t n = (size_t)(w.end - w.at);
    if (n >= sizeof text)
        return hosts_malformed(r, w.at, "a host's name must have at most %d characters", HOST_NAME - 1);
    memcpy(text, w.at, n);
    char *zone = memchr(text, '%', n);
    bool zoned = zone && zone[1] && strspn(zone + 1, plain) == n - (size_t)(zone + 1 - text);
    if (zone) *zone = '\0';
    if ((zone && !zoned) || strlen(text) != (zone ? (size_t)(zone - text) : n) ||
        inet_pton(AF_INET6, text, &address) != 1)
        return hosts_malformed(r, w.at,
                               "not an IPv6 address; write \"a:2\" for two workers, \"ssh://a:22\" for a port");
    memcpy(h.name, w.at, n);
    return add_host(r, w.at, &h);
}

/* ---- words ---- */

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool
ends_word(char c)
{
    return is_blank(c) || c == ',' || c == '\n' || c == '#';
}

static void
skip_blanks(struct reader *r)
{
    while (r->at < r->end && is_blank(*r->at)) r->at++;
}

/* Reads the first word of an item; commas in brackets belong to the word. */
static int
read_host_name(struct reader *r, struct word *w)
{
    const char *open = NULL;
    for (w->at = r->at; r->at < r->end && (!ends_word(*r->at) || (open && *r->at == ',')); r->at++) {
        if (*r->at == '[' && open) return hosts_malformed(r, r->at, "brackets must not be nested");
        if (*r->at == ']' && !open) return hosts_malformed(r, r->at, "this bracket was not opened");
        if (*r->at == '[') open = r->at;
        if (*r->at == ']') open = NULL;
    }
    w->end = r->at;
    return open ? hosts_malformed(r, open, "this bracket is not closed") : 0;
}

static int
read_host_key(struct reader *r, struct host *h)
{
    static const struct {
        const char *name;
        size_t at;
    } keys[] = {{"slots", offsetof(struct host, slots)},
                {"max_slots", offsetof(struct host, most)},
                {"max-slots", offsetof(struct host, most)}};
    struct word key = {r->at, r->at}, value;
    while (key.end < r->end && *key.end != '=' && !ends_word(*key.end)) key.end++;
    r->at = key.end;
    size_t n = (size_t)(key.end - key.at), k = 0;
    while (k < sizeof keys / sizeof *keys && (n != strlen(keys[k].name) || memcmp(key.at, keys[k].name, n))) k++;
    if (k == sizeof keys / sizeof *keys)
        return hosts_malformed(r, key.at, "only slots=N and max_slots=N may follow a host");
    skip_blanks(r);
    if (r->at == r->end || *r->at != '=') return hosts_malformed(r, r->at, "%s needs = and a number", keys[k].name);
    r->at++;
    skip_blanks(r);
    value.at = r->at;
    while (r->at < r->end && !ends_word(*r->at)) r->at++;
    value.end = r->at;
    return read_host_number(r, value, keys[k].name, HOST_SLOTS_MOST, (int *)(void *)((char *)h + keys[k].at));
}

/* Removes "ssh://" and "user@" from the start of the word. */
static int
take_user(const struct reader *r, struct word *w, struct host *h, bool *is_uri)
{
    *is_uri = w->end - w->at >= 6 && !memcmp(w->at, "ssh://", 6);
    if (*is_uri) w->at += 6;
    const char *sign = memchr(w->at, '@', (size_t)(w->end - w->at));
    if (!sign) return 0;
    size_t n = (size_t)(sign - w->at);
    if (n == 0 || *w->at == '-')
        return hosts_malformed(r, w->at, "expected a user's name before '@', not beginning with '-'");
    if (n >= sizeof h->user)
        return hosts_malformed(r, w->at, "a user's name must have at most %zu characters", sizeof h->user - 1);
    for (const char *at = w->at; at < sign; at++)
        if (!is_in(plain, *at)) return wrong_character(r, at, "a user's name");
    memcpy(h->user, w->at, n);
    w->at = sign + 1;
    return 0;
}

/* Removes ":4", or ":2222:4" after ssh://, from the end of the word. */
static int
take_numbers(const struct reader *r, struct word *w, struct host *h, bool is_uri, const char *first)
{
    if (!first) return 0;
    const char *second = is_uri ? memchr(first + 1, ':', (size_t)(w->end - first - 1)) : NULL;
    struct word port = {first + 1, second ? second : w->end}, slots = {(second ? second : first) + 1, w->end};
    if (is_uri && read_host_number(r, port, "a port", 65535, &h->port)) return -1;
    if ((!is_uri || second) && read_host_number(r, slots, "the number of workers", HOST_SLOTS_MOST, &h->slots))
        return -1;
    w->end = first;
    return 0;
}

/* Reads a host, or all hosts that its brackets expand to, up to the next comma or newline. */
static int
read_item(struct reader *r)
{
    struct host h = {.slots = 1};
    struct word w;
    bool is_uri;
    if (read_host_name(r, &w) || take_user(r, &w, &h, &is_uri)) return -1;
    const char *close = w.at < w.end && *w.at == '[' ? memchr(w.at, ']', (size_t)(w.end - w.at)) : NULL;
    bool bracketed = close && memchr(w.at, ':', (size_t)(close - w.at));
    const char *colon = memchr(w.at, ':', (size_t)(w.end - w.at));
    if (bracketed) colon = close + 1 < w.end ? close + 1 : NULL;
    if (bracketed && colon && *colon != ':') return wrong_character(r, colon, "the text after an IPv6 address");
    bool bare = !bracketed && !is_uri && colon && memchr(colon + 1, ':', (size_t)(w.end - colon - 1));
    if (!bare && take_numbers(r, &w, &h, is_uri, colon)) return -1;
    if (w.at == w.end) return hosts_malformed(r, w.at, "expected a host");
    for (skip_blanks(r); r->at < r->end && !ends_word(*r->at); skip_blanks(r))
        if (read_host_key(r, &h)) return -1;
    if (bracketed) return add_ipv6(r, (struct word){w.at + 1, close}, h);
    return bare ? add_ipv6(r, w, h) : expand(r, w.at, w.end, h);
}

/* ---- the list ---- */

static bool
at_line_end(struct reader *r)
{
    skip_blanks(r);
    if (r->at < r->end && *r->at == '#')
        while (r->at < r->end && *r->at != '\n') r->at++;
    return r->at == r->end || *r->at == '\n';
}

static int
read_host_line(struct reader *r)
{
    if (at_line_end(r)) return 0;
    for (;;) {
        if (read_item(r)) return -1;
        if (at_line_end(r)) return 0;
        r->at++; /* inside a line, an item ends only at a comma */
        if (at_line_end(r)) return hosts_malformed(r, r->at, "expected a host after the comma");
    }
}

int
hosts_parse(const char *text, size_t n, struct hosts *out, struct hosts_error *error)
{
    struct reader r = {.at = text, .end = text + n, .line = text, .nline = 1, .out = out, .error = error};
    *out = (struct hosts){0};
    for (;;) {
        if (read_host_line(&r)) return -1;
        if (r.at == r.end) break;
        r.line = ++r.at;
        r.nline++;
    }
    return out->n ? 0 : hosts_malformed(&r, r.at, "expected a host");
}
