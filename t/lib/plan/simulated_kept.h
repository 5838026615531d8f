/* simulated_kept.h - snapshots that survive the coordinator of a simulated cluster, for t/lib/plan/simulated.h.
 *
 * After each snapshot the controller writes a note to the memory of each host, in two parts, and then a slot in each
 * memory (actors/cluster/memory/kept.h). Each turn of the program does one write, so the coordinator can be killed
 * between two writes, and a worker can be lost. The next coordinator's program reads the notes of the memories that
 * workers kept, and goes back to the snapshot that kept_choose() returns. Its numbers must be those of its step, and
 * it must not be older than the last snapshot that was complete. */
#ifndef RILLE_T_SIMULATED_KEPT_H
#define RILLE_T_SIMULATED_KEPT_H

#include "t/lib/plan/simulated_state.h"

/* SEGMENTS: largest number of segments of an epoch; KEPT: largest number of segments of earlier coordinators */
enum { SEGMENTS = WORLD + 1, KEPT = 2 * SEGMENTS };

/* Checks the numbers of a snapshot of a training without a last step: they must be those of its step without faults. */
static void
check_saved(struct cluster *s)
{
    const uint64_t *want = s->step > s->modelled ? s->model : s->history[s->step % HISTORY];
    if (s->modelled - s->step >= HISTORY) wrong(s, "the program goes back too far");
    for (; s->modelled < s->step; s->modelled++)
        for (int r = 0; r < s->world; r++) s->model[r] = after_step(s->model[r], s->modelled, r);
    if (memcmp(s->saved, want, sizeof s->saved)) wrong(s, "the numbers are others than without faults");
}

static void
kept_begin(struct cluster *s)
{
    memcpy(s->history[s->saved_step % HISTORY], s->saved, sizeof s->saved);
    s->keeping.on = s->trial.keep && (s->trial.restarts || s->trial.ticks);
    s->keeping.next = 0;
    if (s->keeping.on) s->keeping.number++;
}

/* Lists the segments of this epoch: the coordinator's, and that of each other host with workers. Returns their number.
 */
static int
list_segments(struct cluster *s, int segment[SEGMENTS])
{
    int n = 0;
    for (int m = 0; m < coordinator_memories(s->c); m++) {
        bool own = coordinator_memory(s->c, m)->own;
        int keeper = own ? -1 : coordinator_keeper(s->c, m);
        if (own) segment[n++] = s->own;
        if (keeper >= 0) segment[n++] = worker_of(s, coordinator_member(s->c, keeper)->peer)->memory;
    }
    return n;
}

static struct str
note_of(const struct cluster *s)
{
    struct str out = {0};
    struct sim_state state = {.step = s->saved_step};
    memcpy(state.value, s->saved, sizeof s->saved);
    kept_note_write(&(struct kept_note){.ntext = sizeof state, .text = (const char *)&state}, &out);
    return out;
}

/* Does the next write: of each host the first half of the note, then the rest, then the slot. After the last write the
 * workers free what they kept. */
static void
kept_write_next(struct cluster *s)
{
    int segment[SEGMENTS], n = list_segments(s, segment), part = s->keeping.next / n, turn = s->keeping.turn;
    struct sim_head *h = &s->head[segment[s->keeping.next % n]];
    struct str note = note_of(s);
    unsigned char job[KEPT_JOB] = {0};
    size_t half = note.len / 2;
    memcpy(job, &s->life, sizeof s->life);
    if (part == 0) memset(h->note[turn], 0xff, sizeof h->note[turn]);
    if (part == 0) memcpy(h->note[turn], note.text, half);
    if (part == 1) memcpy(h->note[turn] + half, note.text + half, note.len - half);
    if (part == 2) h->slot[turn] = kept_slot_of(s->keeping.number, job, (uint64_t)turn, &note);
    str_free(&note);
    if (++s->keeping.next < 3 * n) return;
    s->keeping.on = false;
    s->keeping.turn = 1 - turn;
    s->keeping.complete = s->saved_step;
    for (int i = 0; i < s->nworker; i++) s->worker[i].keeps[0] = s->worker[i].keeps[1] = 0;
}

static bool
read_state(const struct sim_head *h, int i, struct sim_state *out)
{
    struct kept_note note;
    if (!kept_slot_is_whole(&h->slot[i]) || !kept_note_read(&h->slot[i], h->note[h->slot[i].at], &note)) return false;
    memcpy(out, note.text, sizeof *out);
    return true;
}

/* Sets keeps to what the next process of a worker keeps, after the loss of its coordinator: the worker's memory, if
 * that has a complete note, and what the worker kept before. */
static void
kept_pass_on(const struct cluster *s, const struct sim_worker *from, int keeps[2])
{
    struct sim_state state;
    const struct sim_head *h = from->memory >= 0 ? &s->head[from->memory] : NULL;
    bool any = h && (read_state(h, 0, &state) || read_state(h, 1, &state)) && from->life != s->life;
    keeps[0] = any ? from->memory + 1 : from->keeps[0];
    keeps[1] = any ? from->keeps[0] : from->keeps[1];
}

/* Lists the memories that workers of this epoch keep: those of the lowest rank of each host. */
static int
list_kept(struct cluster *s, struct kept_memory list[KEPT], int segment[KEPT])
{
    struct sim_state state;
    int n = 0;
    bool seen[SEGMENTS] = {false};
    for (int r = 0; r < s->world; r++) {
        const struct member_info *m = coordinator_member(s->c, r);
        if (m->state < MEMBER_PRESENT || m->state > MEMBER_BUSY) continue;
        const struct sim_worker *w = worker_of(s, m->peer);
        if (!w->keeps[0] || seen[m->memory]) continue;
        seen[m->memory] = true;
        for (int k = 0; k < 2 && w->keeps[k]; k++) {
            const struct sim_head *h = &s->head[w->keeps[k] - 1];
            list[n] = (struct kept_memory){.host = m->memory};
            for (int i = 0; i < KEPT_SLOTS; i++) {
                if (!read_state(h, i, &state)) continue;
                list[n].number[i] = h->slot[i].number;
                memcpy(list[n].job, h->slot[i].job, KEPT_JOB);
            }
            segment[n++] = w->keeps[k] - 1;
        }
    }
    return n;
}

/* Goes back to the latest snapshot that the workers keep. */
static void
kept_find(struct cluster *s)
{
    struct kept_memory list[KEPT];
    struct sim_state state;
    unsigned char job[KEPT_JOB];
    int segment[KEPT], n = list_kept(s, list, segment);
    int64_t newest = 0;
    uint64_t number = kept_choose(n, list, job);
    if (!number) return;
    for (int i = 0; i < 2 * n; i++)
        if (read_state(&s->head[segment[i / 2]], i % 2, &state)) newest = MAX(newest, state.step);
    s->keeping.number = MAX(s->keeping.number, number);
    for (int i = 0; i < 2 * n; i++) {
        if (list[i / 2].number[i % 2] != number || memcmp(list[i / 2].job, job, KEPT_JOB)) continue;
        read_state(&s->head[segment[i / 2]], i % 2, &state);
        if (memcmp(state.value, s->history[state.step % HISTORY], sizeof state.value))
            wrong(s, "a kept snapshot is torn");
    }
    if (state.step < MIN(s->keeping.complete, newest)) wrong(s, "a complete snapshot is not found");
    memcpy(s->saved, state.value, sizeof s->saved);
    s->saved_step = state.step;
    s->found++;
}

/* Does the next write of a snapshot, or searches for a snapshot of an earlier coordinator. Returns true if the program
 * must wait. */
static bool
kept_turn(struct cluster *s)
{
    if (s->keeping.on) {
        kept_write_next(s);
        return true;
    }
    if (s->restore && !s->keeping.looked) kept_find(s);
    s->keeping.looked = true;
    return false;
}

#endif
