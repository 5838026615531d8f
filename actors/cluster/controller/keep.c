/* keep.c - stores descriptions of snapshots with the workers, and finds those of an earlier controller. */
#include "actors/cluster/controller/keep.h"
#include "actors/cluster/controller/controller_inner.h"

#include "runtime/base/error.h"
#include "runtime/data/arena.h"
#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/coordinator/coordinator_admit.h"

#include <stdlib.h>
#include <string.h>

/* ---- storing ---- */

/* Returns true if a present worker has this flag of HELLO. */
static bool
any_says(struct cluster *c, uint32_t flag)
{
    bool any = false;
    pthread_mutex_lock(&c->lock);
    for (int r = 0; r < c->options.world; r++) {
        const struct member_info *m = coordinator_member(c->c, r);
        any |= m->state >= MEMBER_PRESENT && m->state <= MEMBER_BUSY && m->hello & flag;
    }
    pthread_mutex_unlock(&c->lock);
    return any;
}

bool
cluster_keeps(struct cluster *c)
{
    return any_says(c, HELLO_KEEPS);
}

bool
cluster_took_over(struct cluster *c)
{
    return any_says(c, HELLO_RETURNS);
}

static bool
is_inhabited(struct cluster *c, int memory)
{
    pthread_mutex_lock(&c->lock);
    bool is = coordinator_inhabited(c->c, memory);
    pthread_mutex_unlock(&c->lock);
    return is;
}

static int
write_at(const struct memory *m, size_t at, const void *from, size_t bytes)
{
    struct segment *s = m->heap[0].segment;
    if (s != m->of->hosts.own) return remote_access_store(m->of->reach, m->number, at, from, bytes);
    memcpy(segment_base(s) + at, from, bytes);
    return 0;
}

/* Writes the note of a snapshot to a host's memory. Sets *slot to the slot that will refer to it. The slot's former
 * note, two snapshots old, is freed. */
static int
write_note(struct memory *m, int at_slot, uint64_t number, const struct kept_ranges *r, const struct str *text,
           struct kept_slot *slot)
{
    struct segment *s = m->heap[0].segment;
    void **at = &m->note[at_slot];
    struct str note = {0};
    if (*at) segment_give(s, *at);
    kept_note_write(&(struct kept_note){(uint64_t)m->number, (uint64_t)r->n, text->len, r->range, text->text}, &note);
    *at = segment_take(s, note.len);
    size_t first = *at ? (size_t)((char *)*at - segment_base(s)) : 0;
    int status = *at ? write_at(m, first, note.text, note.len)
                     : fail(E_MEMORY, "snapshot: no memory for its description of %zu bytes", note.len);
    *slot = kept_slot_of(number, m->of->job_id, first, &note);
    str_free(&note);
    return status ? status : segment_hold(s, 0, SEGMENT_HEAD, false);
}

int
cluster_keep(struct cluster *c, uint64_t number, const struct kept_ranges *ranges, const struct str *text)
{
    struct kept_slot *slot = must_alloc(sizeof *slot * (size_t)(c->hosts.nmemory + 1));
    int status = 0, turn = c->kept.turn;
    for (int m = 0; m < c->hosts.nmemory && !status; m++)
        if (is_inhabited(c, m)) status = write_note(&c->hosts.memory[m], turn, number, &ranges[m], text, &slot[m]);
    for (int m = 0; m < c->hosts.nmemory && !status; m++)
        if (slot[m].number) status = write_at(&c->hosts.memory[m], sizeof *slot * (size_t)turn, &slot[m], sizeof *slot);
    if (!status) c->kept.turn = (turn + 1) % KEPT_SLOTS;
    free(slot);
    return status;
}

/* ---- finding ---- */

/* A memory that a host keeps from an earlier controller. rank: worker that reads and frees the memory; memory: its
 * number in that controller's job. */
struct kept_place {
    int rank;
    uint32_t flags; /* FETCH_OLDER, or 0 */
    uint64_t memory;
    struct kept_memory found;
    struct str note[KEPT_SLOTS];
    struct segment *segment; /* the memory, if it is on this host; NULL: the worker must read it */
};

/* Returns the lowest present rank, from `rank` on, on the host of a memory, that keeps memory; -1: none. */
static int
next_keeper(struct cluster *c, int memory, int rank)
{
    pthread_mutex_lock(&c->lock);
    for (; rank < c->options.world; rank++) {
        const struct member_info *m = coordinator_member(c->c, rank);
        if (m->state >= MEMBER_PRESENT && m->state <= MEMBER_BUSY && m->memory == memory && m->hello & HELLO_KEPT)
            break;
    }
    int found = rank < c->options.world ? rank : -1;
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* Reads the note of a slot. Ignores a note that is not complete, or that is of this job. */
static int
read_note(struct cluster *c, const struct kept_slot *slot, int i, struct kept_place *out)
{
    enum { MOST = 1 << 30 };
    struct kept_note note;
    if (!kept_slot_is_whole(slot) || slot->bytes > MOST || !memcmp(slot->job, c->job_id, KEPT_JOB)) return 0;
    char *bytes = must_alloc(slot->bytes + 1);
    int status = remote_access_fetch_kept(c->reach, out->rank, out->flags, slot->at, bytes, slot->bytes);
    if (!status && kept_note_read(slot, bytes, &note)) {
        out->found.number[i] = slot->number;
        memcpy(out->found.job, slot->job, KEPT_JOB);
        out->memory = note.memory;
        str_addn(&out->note[i], note.text, note.ntext);
    }
    free(bytes);
    return status == E_BUS ? 0 : status;
}

/* Reads the notes in a memory that a worker keeps. */
static int
read_notes(struct cluster *c, struct kept_place *out)
{
    struct kept_slot slot[KEPT_SLOTS];
    int status = remote_access_fetch_kept(c->reach, out->rank, out->flags, 0, slot, sizeof slot);
    for (int i = 0; i < KEPT_SLOTS && !status; i++) status = read_note(c, &slot[i], i, out);
    return status == E_BUS ? 0 : status;
}

/* Maps a segment that a worker of this host keeps. Without it, the worker reads the bytes. */
static int
map_place(struct cluster *c, struct kept_place *out)
{
    char path[KEPT_PATH];
    pthread_mutex_lock(&c->lock);
    bool own = coordinator_memory(c->c, out->found.host)->own;
    pthread_mutex_unlock(&c->lock);
    if (!own || out->flags) return 0;
    TRY(remote_access_fetch_kept(c->reach, out->rank, FETCH_PATH, 0, path, sizeof path));
    path[KEPT_PATH - 1] = '\0';
    char *space = strchr(path, ' ');
    if (space) *space = '\0';
    if (space && segment_open(path, (size_t)strtoull(space + 1, NULL, 10), &out->segment)) err_clear();
    return 0;
}

static void
forget_places(struct cluster *c)
{
    while (c->kept.n) segment_free(&c->kept.place[--c->kept.n].segment);
}

/* Adds the memory that a worker keeps, if it has a complete note. */
static int
add_kept_memory(struct cluster *c, int host, int rank, uint32_t flags)
{
    struct kept_place p = {.rank = rank, .flags = flags, .found.host = host};
    int status = read_notes(c, &p);
    if (!p.found.number[0] && !p.found.number[1]) return status;
    if (!status) status = map_place(c, &p);
    c->kept.place[c->kept.n++] = p;
    return status;
}

/* Lists what all hosts keep, and makes the workers free the memory that no snapshot needs. */
static int
find_kept_memories(struct cluster *c)
{
    forget_places(c);
    c->kept.place = must_realloc(c->kept.place, 2 * sizeof *c->kept.place * (size_t)c->hosts.nmemory);
    for (int m = 0; m < c->hosts.nmemory; m++) {
        int rank = next_keeper(c, m, 0);
        if (rank < 0) continue;
        TRY(add_kept_memory(c, m, rank, 0));
        TRY(add_kept_memory(c, m, rank, FETCH_OLDER));
        TRY(remote_access_hold_kept(c->reach, rank, false));
    }
    return 0;
}

static bool
is_chosen(const struct cluster *c, const struct kept_place *p)
{
    return !memcmp(p->found.job, c->kept.job, KEPT_JOB);
}

/* Copies the text of the chosen snapshot from a note of it. */
static void
copy_text(const struct cluster *c, uint64_t number, struct str *text)
{
    for (int i = 0; i < c->kept.n * KEPT_SLOTS; i++) {
        const struct kept_place *p = &c->kept.place[i / KEPT_SLOTS];
        if (!is_chosen(c, p) || p->found.number[i % KEPT_SLOTS] != number) continue;
        str_addn(text, p->note[i % KEPT_SLOTS].text, p->note[i % KEPT_SLOTS].len);
        return;
    }
}

int
cluster_kept(struct cluster *c, uint64_t *number, struct str *text)
{
    *number = 0;
    if (!any_says(c, HELLO_KEPT)) return 0;
    int status = find_kept_memories(c), n = c->kept.n;
    struct kept_memory *m = must_alloc(sizeof *m * (size_t)(n + 1));
    for (int i = 0; i < n; i++) m[i] = c->kept.place[i].found;
    if (!status) *number = kept_choose(n, m, c->kept.job);
    if (*number) copy_text(c, *number, text);
    for (int k = 0; k < n * KEPT_SLOTS; k++) str_free(&c->kept.place[k / KEPT_SLOTS].note[k % KEPT_SLOTS]);
    free(m);
    return status;
}

int
cluster_kept_read(struct cluster *c, int memory, uint64_t at, void *to, size_t bytes)
{
    for (int i = 0; i < c->kept.n; i++) {
        const struct kept_place *p = &c->kept.place[i];
        if (p->memory != (uint64_t)memory || !is_chosen(c, p)) continue;
        size_t most = p->segment ? segment_bytes(p->segment) : 0;
        if (at > most || bytes > most - at) return remote_access_fetch_kept(c->reach, p->rank, p->flags, at, to, bytes);
        memcpy(to, segment_base(p->segment) + at, bytes);
        return 0;
    }
    return fail(E_LOST, "the host that kept these bytes was lost");
}

void
control_kept_free(struct cluster *c)
{
    forget_places(c);
    free(c->kept.place);
}

int
cluster_kept_drop(struct cluster *c)
{
    forget_places(c);
    for (int m = 0; m < c->hosts.nmemory; m++)
        for (int r = -1; (r = next_keeper(c, m, r + 1)) >= 0;) TRY(remote_access_hold_kept(c->reach, r, true));
    pthread_mutex_lock(&c->lock);
    coordinator_kept_dropped(c->c);
    pthread_mutex_unlock(&c->lock);
    return 0;
}
