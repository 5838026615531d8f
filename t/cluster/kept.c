/* Tests of actors/cluster/memory/kept.c: a controller that is killed at any write leaves a snapshot that all hosts
 * have. */
#include "actors/cluster/memory/kept.h"
#include "t/lib/tap.h"

enum { HOSTS = 3, NOTE = 256, PUBLISHED = 4 };

struct host {
    struct kept_slot slot[KEPT_SLOTS];
    _Alignas(8) char note[KEPT_SLOTS][NOTE];
};

static struct str
note_of(int host, uint64_t number)
{
    const struct kept_range range[] = {{4096 * number, 100}, {8192 * number, (uint64_t)host}};
    struct str out = {0}, text = {0};
    str_addf(&text, "snapshot %d", (int)number);
    kept_note_write(
        &(struct kept_note){
            .memory = (uint64_t)host, .nrange = 2, .ntext = text.len, .range = range, .text = text.text},
        &out);
    str_free(&text);
    return out;
}

/* Writes the note of a snapshot in a slot of each host, as the controller does. *left: number of bytes to write before
 * the controller is killed. Returns true if all bytes are written. */
static bool
publish(struct host *host, int n, uint64_t number, int turn, const unsigned char job[KEPT_JOB], size_t *left)
{
    struct kept_slot slot[HOSTS];
    for (int part = 0; part < 2; part++)
        for (int h = 0; h < n; h++) {
            struct str note = note_of(h, number);
            if (part == 0) slot[h] = kept_slot_of(number, job, (uint64_t)turn, &note);
            const void *from = part ? (const void *)&slot[h] : note.text;
            size_t bytes = part ? sizeof slot[h] : note.len, done = MIN(bytes, *left);
            memcpy(part ? (void *)&host[h].slot[turn] : host[h].note[turn], from, done);
            str_free(&note);
            *left -= done;
            if (done < bytes) return false;
        }
    return true;
}

/* Describes what a host keeps. */
static struct kept_memory
found_of(const struct host *h, int number)
{
    struct kept_note note;
    struct kept_memory m = {.host = number};
    for (int i = 0; i < KEPT_SLOTS; i++) {
        const struct kept_slot *s = &h->slot[i];
        if (!kept_slot_is_whole(s) || !kept_note_read(s, h->note[s->at], &note)) continue;
        if (note.memory != (uint64_t)number || note.nrange != 2) continue;
        m.number[i] = s->number;
        memcpy(m.job, s->job, KEPT_JOB);
    }
    return m;
}

/* Returns the chosen snapshot of the hosts in the set of bits. */
static uint64_t
chosen(const struct host *host, int n, int present)
{
    struct kept_memory m[HOSTS];
    unsigned char job[KEPT_JOB];
    int count = 0;
    for (int h = 0; h < n; h++)
        if (present >> h & 1) m[count++] = found_of(&host[h], h);
    return kept_choose(count, m, job);
}

/* Kills the controller before each byte of the last of several snapshots, and then any hosts but one. */
static void
test_kills(int n)
{
    static const unsigned char job[KEPT_JOB] = "job";
    int kills = 0, wrong = 0;
    for (uint64_t last = 1; last <= PUBLISHED; last++)
        for (size_t at = 0, whole = 0; !whole; at++) {
            struct host host[HOSTS] = {0};
            for (uint64_t k = 1; k <= last; k++) {
                size_t left = k < last ? SIZE_MAX : at;
                whole = publish(host, n, k, (int)(k % KEPT_SLOTS), job, &left);
            }
            for (int present = 1; present < 1 << n; present++, kills++) {
                uint64_t got = chosen(host, n, present);
                wrong += got > last || got + 1 < last || (whole && got != last);
            }
        }
    ok(!wrong, "%d hosts: after each of %d kills the last snapshot, or the one before, is found", n, kills);
}

static void
test_changed_bytes(void)
{
    static const unsigned char job[KEPT_JOB] = "job";
    struct host host = {0};
    size_t left = SIZE_MAX;
    int wrong = 0;
    publish(&host, 1, 1, 0, job, &left);
    struct str note = note_of(0, 1);
    for (size_t i = 0; i < sizeof host.slot[0] + note.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct host changed = host;
            char *p = i < sizeof host.slot[0] ? (char *)changed.slot + i : changed.note[0] + (i - sizeof host.slot[0]);
            *p ^= (char)(1 << bit);
            wrong += chosen(&changed, 1, 1) != 0;
        }
    str_free(&note);
    ok(!wrong, "a slot or a note with a changed bit is not found");
}

static void
test_jobs(void)
{
    unsigned char job[KEPT_JOB];
    struct kept_memory one[] = {
        {0, "new", {5, 0}}, {0, "old", {3, 4}}, {1, "old", {4, 3}}, {2, "old", {4, 0}}, {3, "old", {0, 4}}};
    ok(kept_choose(countof(one), one, job) == 4 && !memcmp(job, "old", 4),
       "a snapshot that only one host has is passed over for the earlier one of all hosts");
    ok(kept_choose(2, one, job) == 5 && !memcmp(job, "new", 4), "the latest of two jobs is chosen");
    struct kept_memory two[] = {{0, "new", {5, 6}}, {1, "new", {6, 5}}, {2, "old", {2, 3}}};
    ok(kept_choose(countof(two), two, job) == 6 && !memcmp(job, "new", 4),
       "a host with an earlier job only is ignored if no snapshot is on all hosts");
    ok(kept_choose(0, NULL, job) == 0, "without hosts there is no snapshot");
}

int
main(void)
{
    for (int n = 1; n <= HOSTS; n++) test_kills(n);
    test_changed_bytes();
    test_jobs();
    return done();
}
