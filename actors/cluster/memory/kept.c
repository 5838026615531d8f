/* kept.c - writes and reads the descriptions of snapshots that workers keep. */
#include "actors/cluster/memory/kept.h"

#include "runtime/file/disk/source.h"

#include <stddef.h>
#include <string.h>

enum { FIELDS = 3 * sizeof(uint64_t) };

static uint64_t
digest_of_slot(const struct kept_slot *s)
{
    return source_digest(s, offsetof(struct kept_slot, check));
}

void
kept_note_write(const struct kept_note *n, struct str *out)
{
    const uint64_t fields[] = {n->memory, n->nrange, n->ntext};
    str_addn(out, fields, sizeof fields);
    str_addn(out, n->range, sizeof *n->range * n->nrange);
    str_addn(out, n->text, n->ntext);
}

bool
kept_note_read(const struct kept_slot *s, const void *bytes, struct kept_note *out)
{
    uint64_t fields[3], left = s->bytes - FIELDS;
    if (s->bytes < FIELDS || source_digest(bytes, s->bytes) != s->digest) return false;
    memcpy(fields, bytes, sizeof fields);
    *out = (struct kept_note){.memory = fields[0], .nrange = fields[1], .ntext = fields[2]};
    if (out->nrange > left / sizeof *out->range || out->ntext != left - out->nrange * sizeof *out->range) return false;
    out->range = (const void *)((const char *)bytes + FIELDS);
    out->text = (const char *)(out->range + out->nrange);
    return true;
}

struct kept_slot
kept_slot_of(uint64_t number, const unsigned char job[KEPT_JOB], uint64_t at, const struct str *note)
{
    struct kept_slot s = {number, at, note->len, source_digest(note->text, note->len), {0}, 0};
    memcpy(s.job, job, KEPT_JOB);
    s.check = digest_of_slot(&s);
    return s;
}

bool
kept_slot_is_whole(const struct kept_slot *s)
{
    return s->number && s->check == digest_of_slot(s);
}

static bool
has_note(const struct kept_memory *m, const unsigned char job[KEPT_JOB], uint64_t number)
{
    for (int i = 0; i < KEPT_SLOTS; i++)
        if (m->number[i] == number && !memcmp(m->job, job, KEPT_JOB)) return true;
    return false;
}

/* Returns true if each host has a note of the snapshot. all false: ignores hosts without memory of its job. */
static bool
have_note(int n, const struct kept_memory *m, const unsigned char job[KEPT_JOB], uint64_t number, bool all)
{
    for (int i = 0; i < n; i++) {
        bool found = !all && memcmp(m[i].job, job, KEPT_JOB);
        for (int k = 0; k < n && !found; k++) found = m[k].host == m[i].host && has_note(&m[k], job, number);
        if (!found) return false;
    }
    return true;
}

uint64_t
kept_choose(int n, const struct kept_memory *m, unsigned char job[KEPT_JOB])
{
    uint64_t best = 0;
    for (int all = 1; all >= 0 && !best; all--)
        for (int i = 0; i < n * KEPT_SLOTS; i++) {
            uint64_t number = m[i / KEPT_SLOTS].number[i % KEPT_SLOTS];
            if (number <= best || !have_note(n, m, m[i / KEPT_SLOTS].job, number, all)) continue;
            best = number;
            memcpy(job, m[i / KEPT_SLOTS].job, KEPT_JOB);
        }
    return best;
}
