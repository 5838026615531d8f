/* cost.c - costs of moves and computing on this machine: built in, or read from a file that rille_calibrate() wrote.
 *
 * The costs of moves only decide between paths that move equal bytes. The rates of computing only decide between
 * layouts that a planner may choose. So the built-in costs are good enough to start with, and nothing is measured
 * unless the user asks. The built-in costs were measured by rille_calibrate() on two cores of an AMD EPYC (Zen 5).
 * Each line of a file has a name and a number. */
#include "actors/session/core/cost.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"

#include "runtime/file/disk/file.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct box_cost built_in = {
    .alpha_ns = 150,
    .beta_ns_per_byte = 0.06,
    .gamma_ns_per_byte = 0.03,
    .copy_ns_per_byte = 0.06,
    .hop_ns = 600,
    .wire_ns = 40e3, /* half a round trip over TCP, including the acts at both ends (bench/cluster) */
    .wire_ns_per_byte = 0.2,
    .staging_bytes = 256 << 20,
};

static const struct compute_rates built_in_rates = {FLOPS_PER_NS, BYTES_PER_NS, ACT_NS, false};

/* ---- reading cost files ---- */

static const struct {
    const char *name;
    size_t at;          /* offset in struct rille_cost of the double that holds this cost */
    double least, most; /* plausible range: at most 1 s per message or hop, at least 1 kB/s */
} parameter[] = {
    {"alpha_ns", offsetof(struct rille_cost, alpha_ns), 0, 1e9},
    {"beta_ns_per_byte", offsetof(struct rille_cost, beta_ns_per_byte), 0, 1e6},
    {"gamma_ns_per_byte", offsetof(struct rille_cost, gamma_ns_per_byte), 0, 1e6},
    {"copy_ns_per_byte", offsetof(struct rille_cost, copy_ns_per_byte), 0, 1e6},
    {"hop_ns", offsetof(struct rille_cost, hop_ns), 0, 1e9},
    {"wire_ns", offsetof(struct rille_cost, wire_ns), 0, 1e9},
    {"wire_ns_per_byte", offsetof(struct rille_cost, wire_ns_per_byte), 0, 1e6},
    {"staging_bytes", offsetof(struct rille_cost, staging_bytes), 0, 1e15},
    {"flops_per_ns", offsetof(struct rille_cost, flops_per_ns), 1e-6, 1e9},
    {"bytes_per_ns", offsetof(struct rille_cost, bytes_per_ns), 1e-6, 1e9},
};

static double *
parameter_in(struct rille_cost *c, size_t i)
{
    return (double *)((char *)c + parameter[i].at);
}

static struct rille_cost
shown(const struct box_cost *c, const struct compute_rates *r)
{
    return (struct rille_cost){.alpha_ns = c->alpha_ns,
                               .beta_ns_per_byte = c->beta_ns_per_byte,
                               .gamma_ns_per_byte = c->gamma_ns_per_byte,
                               .copy_ns_per_byte = c->copy_ns_per_byte,
                               .hop_ns = c->hop_ns,
                               .wire_ns = c->wire_ns,
                               .wire_ns_per_byte = c->wire_ns_per_byte,
                               .staging_bytes = (double)c->staging_bytes,
                               .flops_per_ns = r->flops_per_ns,
                               .bytes_per_ns = r->bytes_per_ns};
}

static struct box_cost
used(const struct rille_cost *c)
{
    return (struct box_cost){.alpha_ns = c->alpha_ns,
                             .beta_ns_per_byte = c->beta_ns_per_byte,
                             .gamma_ns_per_byte = c->gamma_ns_per_byte,
                             .copy_ns_per_byte = c->copy_ns_per_byte,
                             .hop_ns = c->hop_ns,
                             .wire_ns = c->wire_ns,
                             .wire_ns_per_byte = c->wire_ns_per_byte,
                             .staging_bytes = (int64_t)c->staging_bytes};
}

/* Reads the next word of a line, at most room - 1 characters. Returns false at the end of the line, without reading
 * the line break. */
static bool
next_cost_word(FILE *f, char *out, size_t room)
{
    int c;
    size_t n = 0;
    while ((c = getc(f)) == ' ' || c == '\t' || c == '\r') {
    }
    for (; c != EOF && !isspace(c) && n < room - 1; c = getc(f)) out[n++] = (char)c;
    if (c != EOF) ungetc(c, f);
    out[n] = '\0';
    return n > 0;
}

/* Fails with an error text and the offending word. */
static int
refuse_cost(const char *where, const char *what, const char *text)
{
    struct str plain = {0};
    str_add_plain(&plain, text);
    int status = fail(E_IO, "%s: %s '%s'", where, what, str_text(&plain));
    str_free(&plain);
    return status;
}

static int
refuse_unknown(const char *where, const char *name)
{
    struct str plain = {0}, known = {0};
    str_add_plain(&plain, name);
    for (size_t i = 0; i < countof(parameter); i++) str_addf(&known, " %s", parameter[i].name);
    int status = fail(E_IO, "%s: unknown cost '%s'; expected one of%s", where, str_text(&plain), str_text(&known));
    str_free(&plain);
    str_free(&known);
    return status;
}

/* Parses one parameter. seen: bit mask of the parameters given on earlier lines. */
static int
read_cost(const char *where, const char *name, const char *number, struct rille_cost *c, unsigned *seen)
{
    char *end;
    size_t i = 0;
    while (i < countof(parameter) && strcmp(parameter[i].name, name)) i++;
    if (i == countof(parameter)) return refuse_unknown(where, name);
    if (*seen >> i & 1) return fail(E_IO, "%s: %s is given twice", where, name);
    *seen |= 1u << i;
    double value = strtod(number, &end);
    if (*end || !(value >= parameter[i].least && value <= parameter[i].most)) {
        char what[128];
        snprintf(what, sizeof what, "%s must be a number from %g to %g, found", name, parameter[i].least,
                 parameter[i].most);
        return refuse_cost(where, what, number);
    }
    *parameter_in(c, i) = value;
    return 0;
}

/* Reads a line: a name and a number, a comment, or nothing. Comments may have any length. */
static int
read_cost_line(FILE *f, const char *where, struct rille_cost *c, unsigned *seen)
{
    char name[40], number[40], more[2];
    if (next_cost_word(f, name, sizeof name) && *name != '#') {
        if (!next_cost_word(f, number, sizeof number) || next_cost_word(f, more, sizeof more))
            return fail(E_IO, "%s: expected the name of a cost and a number, as in a file that rille --calibrate wrote",
                        where);
        TRY(read_cost(where, name, number, c, seen));
    }
    for (int byte = 0; byte != EOF && byte != '\n';) byte = getc(f);
    return 0;
}

int
cost_read(const char *path, struct box_cost *out, struct compute_rates *rates)
{
    struct rille_cost c = shown(&built_in, &built_in_rates);
    char where[PATH_MAX + 24];
    unsigned seen = 0;
    int status = 0;
    *out = built_in;
    *rates = built_in_rates;
    if (!path) return 0;
    FILE *f = fopen(path, "r");
    for (int line = 1; f && !status && !feof(f) && !ferror(f); line++) {
        snprintf(where, sizeof where, "costs: %s:%d", path, line);
        status = read_cost_line(f, where, &c, &seen);
    }
    if (!f || ferror(f))
        status = fail(E_IO, "costs: %s cannot be read: %s; RILLE_COST must be a file that rille --calibrate wrote",
                      path, strerror(errno));
    if (f) fclose(f);
    if (status) return status;
    *out = used(&c);
    rates->flops_per_ns = c.flops_per_ns;
    rates->bytes_per_ns = c.bytes_per_ns;
    rates->measured = true;
    return 0;
}

int
rille_cost_write(const char *path, const struct rille_cost *c)
{
    TRY(face_given(path, "the path", __func__));
    TRY(face_given(c, "the cost", __func__));
    struct file_out out;
    TRY(file_create("costs", path, &out));
    fprintf(out.f, "# Costs of communication and computation on this machine, measured by rille --calibrate.\n");
    for (size_t i = 0; i < countof(parameter); i++)
        fprintf(out.f, "%s %.6g\n", parameter[i].name, *parameter_in((struct rille_cost *)c, i));
    return file_finish(&out);
}

void
rille_cost(struct rille_session *s, struct rille_cost *out)
{
    if (face_session(s, __func__) || face_given(out, "out", __func__)) return;
    *out = shown(&s->devices.cost, &s->devices.rates);
}
